"""Lives made by hand: what rows are worked out from, with answers that are known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from benchmarks.reproduction.life import Life
from numpy.typing import ArrayLike

from trimtab.base.run import RunStatus
from trimtab.twin.scenario import Resolution, Scenario
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation.probe_run import NAMES, JobRun, SurveyRun

COARSE = Resolution(classes=1, groups=1, superblock_units=16)


def coarse(name: str) -> Scenario:
    """Return a preset as coarse as it goes."""
    return replace(load_scenario(name), resolution=COARSE)


def job(at: datetime, write: float | None) -> JobRun:
    """Return a run that wrote so fast, or did not finish."""
    if write is None:
        return JobRun("hourly", at, RunStatus.UNFINISHED)
    return JobRun("hourly", at, RunStatus.OK, write, write, 60.0, 60.0)


def survey(at: datetime, rates: Sequence[float]) -> SurveyRun:
    """Return a survey that saw these writes."""
    values = np.array(rates)
    return SurveyRun("survey", at, RunStatus.OK, values, values)


def life(
    *,
    jobs: Sequence[JobRun] = (),
    surveys: Sequence[SurveyRun] = (),
    scenario: Scenario | None = None,
    traced: Mapping[str, np.ndarray] | None = None,
    by_day: ArrayLike = (1.0,),
) -> Life:
    """Return a life of all of Perlmutter's scenario, or another's, with these runs."""
    whole = scenario or load_scenario("perlmutter")
    start = whole.start.timestamp()
    values = traced or {name: np.ones((2, 2), np.float32) for name in NAMES}
    epochs = len(next(iter(values.values())))
    return Life(
        scenario=whole,
        until=whole.end,
        jobs=tuple(jobs),
        surveys=tuple(surveys),
        events=(),
        ends_s=np.array([start + 3600.0 * (1 + epoch) for epoch in range(epochs)]),
        weight=np.array([1.0, 3.0]),
        traced=values,
        marks=(),
        capacity_bytes=1.0,
        by_day=np.array(by_day, dtype=np.float64),
    )


def hourly(since: datetime, hours: int, rates: Mapping[int, float | None]) -> list[JobRun]:
    """Return an hourly series at 600 GB/s, but for the hours that are named."""
    speeds = [rates.get(hour, 600e9 + 1e9 * (hour % 2)) for hour in range(hours)]
    return [job(since + timedelta(hours=hour), speed) for hour, speed in enumerate(speeds)]


NEW_YEAR = datetime(2024, 1, 1, 8, tzinfo=UTC)
"""In California."""
