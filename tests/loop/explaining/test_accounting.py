"""Imported accounting of the batch system is known to explanations, and is no run of a probe."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.measure.recorded import FIXTURES

from trimtab.loop.explaining.parallel import Facts
from trimtab.loop.importing.importer import import_files
from trimtab.loop.importing.storing import Terms
from trimtab.measure.plain import as_dict, as_list
from trimtab.record.store import Store

pytestmark = pytest.mark.system

TABLE = FIXTURES / "slurm_accounting" / "23.11" / "parsable2.out"


def test_the_hours_of_an_imported_table_are_known(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        tuple(import_files([str(TABLE)], Terms(site="s"), store))
        (run,) = store.runs(site="s")
        running = as_list(as_dict(run.parameters["told"])["running_jobs"])
        url = store.location.url
        facts, profiles, jobs = Facts(url, "s", None).answer()
        assert (facts, profiles) == ((), ())
        assert jobs.height == len(running) > 12
        assert jobs["jobs"].to_list() == running
        until = datetime(2026, 3, 4, 6, tzinfo=UTC)
        _, _, earlier = Facts(url, "s", until).answer()
        assert 0 < earlier.height < jobs.height
        assert all(at < until for at in earlier["at"])
