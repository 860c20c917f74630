"""A year of hourly runs: the numbers are right, checked against a slow and obvious reading."""

from __future__ import annotations

import math
import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from trimtab.base.event import new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.store import schema
from trimtab.store.connection import insert_samples, run_row
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


# A store with a year of hourly runs, made fast: for tests and benchmarks of what reads it.  The
# rows are inserted in bulk, 8,760 runs of 8 samples in about a second; `Store.add_run`, durable
# one by one, would take minutes.

FIRST_AT = datetime(2025, 11, 20, tzinfo=UTC)
RUNS = 8760
REPETITIONS = 4
SITE = "scratch"
ASKED = {
    "name": "check",
    "benchmark": "fio",
    "tasks": 4,
    "transfer_size_bytes": 1048576,
    "block_size_bytes": 1073741824,
    "repetitions": REPETITIONS,
    "duration_s": 5.0,
}


def make_year_store(path: Path, *, runs: int = RUNS, site: str = SITE) -> Path:
    """Return ``path`` as a store of ``runs`` hourly runs of 8 samples; every 500th unfinished."""
    made = [_run(hour, site) for hour in range(runs)]
    with Store.open(path) as store:
        store.ensure_site(site, driver="local", identity=f"uuid:/{site}", path=f"/{site}")
        with store._writing() as connection:
            # Numbered by hand, so that the samples need not ask for their run's number.
            connection.execute(
                insert(schema.run),
                [
                    {"number": number, **run_row(run, 1, None)}
                    for number, run in enumerate(made, start=1)
                ],
            )
            samples = ((number, run.samples) for number, run in enumerate(made, start=1))
            insert_samples(connection, samples)
    return path


def _run(hour: int, site: str) -> Run:
    at = FIRST_AT + timedelta(hours=hour)
    status = RunStatus.UNFINISHED if hour % 500 == 499 else RunStatus.OK
    return Run(
        id=new_identifier(at),
        site=site,
        probe="check",
        kind="fio",
        status=status,
        at=at,
        until=at + timedelta(seconds=45),
        tool_version="fio-3.33",
        path=f"/{site}",
        host="node1",
        trimtab_version="0.1.0",
        parameters={"spec": ASKED, "moved_bytes": 7 * 1024**3},
        problem="did not end in 120 s" if status is RunStatus.UNFINISHED else None,
        samples=tuple(
            Sample(metric, _bandwidth(hour, repetition, slow), repetition, output=repetition)
            for repetition in range(REPETITIONS)
            for metric, slow in (("write_bandwidth", 1.0), ("read_bandwidth", 1.4))
        ),
    )


def _bandwidth(hour: int, repetition: int, factor: float) -> float:
    """Return a bandwidth in B/s with a day's rhythm, a slow decline and some noise; no chance."""
    day = 0.05 * math.sin(2 * math.pi * hour / 24)
    noise = 0.03 * math.sin(hour * 12.9898 + repetition * 78.233)
    return 2e9 * factor * (1 - 0.1 * hour / RUNS) * (1 + day + noise)
