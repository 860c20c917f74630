"""How many purge plans wait for a person, from the directory where they are made."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.watched import a_site

from trimtab.loop.exporting.collecting import plans_waiting
from trimtab.loop.purging.place import PurgePlace
from trimtab.model.policies import Policies, PurgePlanPolicy

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_plans_that_are_armed_or_expired_or_damaged_do_not_wait(tmp_path: Path) -> None:
    place = PurgePlace(tmp_path / "purge")
    place.journals.mkdir(parents=True)
    for name, expires_at in (("a", 1), ("b", 1), ("c", -1), ("d", 1)):
        directory = tmp_path / "plans" / f"2026-{name}.plan"
        directory.mkdir(parents=True)
        document = {"id": name, "expires_at": (NOON + timedelta(days=expires_at)).isoformat()}
        (directory / "plan.json").write_text(json.dumps(document))
    (tmp_path / "plans" / "2026-d.plan" / "plan.json").write_text('{"id":')
    (place.journals / "b.armed.jsonl").touch()
    plans = PurgePlanPolicy(directory=str(tmp_path / "plans"))
    site = a_site(policies=Policies(purge=plans))
    assert plans_waiting(site, NOON, place) == {"purge": 1}
    assert plans_waiting(a_site(), NOON, place) == {}
