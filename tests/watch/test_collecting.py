"""What metrics say of a site, as its store and the log book have it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.act.world import NOW, action, ago, ost
from tests.support.watched import a_site

from trimtab.answers.site_overview import target_overviews
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.event import EventKind
from trimtab.base.snapshot import Snapshot
from trimtab.explain.trouble import site_state
from trimtab.site.place import Place, add_event
from trimtab.store.store import Store
from trimtab.watch.site_metrics import Collector

DAY_S = 86400.0


@pytest.mark.parametrize(
    ("reported", "trims", "logged", "days"),
    [
        (None, [], None, None),
        ("n/a", [], None, None),
        (ago(3 * DAY_S).isoformat(), [(9, Outcome.DONE)], None, 3),
        (ago(3 * DAY_S).isoformat(), [(1, Outcome.DONE)], None, 1),
        (ago(3 * DAY_S).isoformat(), [(1, Outcome.FAILED)], None, 3),
        (ago(-DAY_S).isoformat(), [(1, Outcome.DONE)], None, 1),  # by a wrong clock
        (None, [(9, Outcome.DONE)], ("OST0000", 2), 2),
        (None, [(9, Outcome.DONE)], ("OST0001", 2), 9),
        (None, [(9, Outcome.DONE)], (None, 200), 9),
        (None, [], (None, 200), 200),  # all targets
    ],
)
def test_metric_and_overview_know_the_same_last_trim(
    tmp_path: Path, reported, trims, logged, days
) -> None:
    site = a_site(name="small")  # as the ledger of `tests.act.world` has it
    snapshot = Snapshot(NOW, "lustre", True, (ost(0, last_trim_at=reported),))
    with Store.open(tmp_path / "t.db") as store:
        store.ensure_site(site.name, driver=site.driver, path=site.path)
        store.add_snapshot(site.name, snapshot)
        for ago_days, outcome in trims:
            at = ago_days * DAY_S
            done = action(ActionKind.TRIM, "OST0000", at, outcome=outcome, policy="trim")
            store.put_action(done)
        if logged is not None:
            targets, ago_days = logged
            at = (NOW - timedelta(days=ago_days)).isoformat()
            place = Place(site.name, site)
            add_event(store, place, kind="trim", detail="by hand", at=at, now=NOW, targets=targets)
        metrics = Collector(site, store, clock=lambda: NOW).collect().trimmed
        state = site_state(site.name, snapshot, site.limits)
        events = store.events(site=site.name, kinds=[EventKind.TRIM])
        (shown,) = target_overviews(store, site.name, state, events)
    expected = None if days is None else ago(days * DAY_S)
    assert (metrics.get("OST0000"), shown.trimmed_at) == (expected, expected)
