"""Runs that were all rejected are shown with the reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.event import new_identifier
from trimtab.base.run import Run, RunStatus
from trimtab.probe.verdict.site_judgement import judge_site
from trimtab.probe.verdict.site_status import status_of
from trimtab.probe.verdict.up_to_date import bring_up_to_date
from trimtab.site.place import Place
from trimtab.store.store import Store

START = datetime(2026, 3, 2, tzinfo=UTC)


def test_a_site_whose_runs_all_failed_says_so_and_why(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        for hour, problem in enumerate(["no space left", "no space left", "killed"]):
            at = START + timedelta(hours=hour)
            run = Run(new_identifier(at), "s", "p", "ior", RunStatus.FAILED, at, problem=problem)
            store.add_run(run)
        (rejected,) = status_of(store).rejected
        assert (rejected.probe, rejected.runs) == ("p", 3)
        assert rejected.reason == "no space left (2 of 3)"
        with raises(UsageError, "runs-rejected") as failure:
            judge_site(store, Place("s", None))
        assert "no space left (2 of 3)" in failure.value.message
        # It has no incident that anybody can see: that is an answer, not an error.
        search, _ = bring_up_to_date(store, Place("s", None), now=START + timedelta(days=1))
        assert (search.explained.explanations, search.explained.judged_until) == ((), None)
        assert search.why_none == failure.value.message
