"""Imported accounting of the batch system is known to explanations, and is no run of a probe."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.formats.recorded import FIXTURES

from trimtab.base.plain import as_dict, as_list
from trimtab.probe.imports.import_result import ImportTerms
from trimtab.probe.imports.importer import import_files
from trimtab.probe.verdict.incident_question import FactsQuestion
from trimtab.store.store import Store

pytestmark = pytest.mark.system

TABLE = FIXTURES / "slurm_accounting" / "23.11" / "parsable2.out"


def test_the_hours_of_an_imported_table_are_known(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        tuple(import_files([str(TABLE)], ImportTerms(site="s"), store))
        (run,) = store.runs(site="s")
        running = as_list(as_dict(run.parameters["told"])["running_jobs"])
        url = store.location.url
        facts, profiles, jobs = FactsQuestion(url, "s", None).answer()
        assert (facts, profiles) == ((), ())
        assert jobs.height == len(running) > 12
        assert jobs["jobs"].to_list() == running
        until = datetime(2026, 3, 4, 6, tzinfo=UTC)
        _, _, earlier = FactsQuestion(url, "s", until).answer()
        assert 0 < earlier.height < jobs.height
        assert all(at < until for at in earlier["at"])
