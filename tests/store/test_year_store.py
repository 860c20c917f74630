"""A year of hourly runs: the numbers are right, checked against a slow and obvious reading."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from tests.store.year_store import REPETITIONS, RUNS, SITE, make_year_store

from trimtab.base.run import RunStatus
from trimtab.store.store import Store

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a year store."""
    return make_year_store(tmp_path_factory.mktemp("year") / "trimtab.db")


def test_history_is_what_the_runs_say(year: Path) -> None:
    with Store.open(year) as store:
        (series,) = store.series(SITE)
        assert series.runs == RUNS
        points = store.history(SITE, series.comparability)
        assert len(points) == 2 * RUNS
        of_run = {(point.run, point.metric): point for point in points}
        newest = store.runs(site=SITE, limit=600)
    assert sum(run.status is RunStatus.UNFINISHED for run in newest) == 1
    for run in newest:
        for metric in ("write_bandwidth", "read_bandwidth"):
            values = [s.value for s in run.samples if s.metric == metric and s.value is not None]
            assert len(values) == REPETITIONS
            point = of_run[run.id, metric]
            finished = run.status is not RunStatus.UNFINISHED
            assert point.value == (statistics.median(values) if finished else 0.0)
            assert point.unfinished is not finished
            assert point.at == run.at
