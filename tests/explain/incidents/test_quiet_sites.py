"""Sites at which nothing is wrong that lasts: few incidents by chance, of all kinds together.

Three hourly probes with two metrics each, and a daily survey. Runs are slow by themselves, are lost
and fail, as at most sites; a series may scatter more than its goal all the time.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import frame_of
from tests.support.counts import series_counts
from tests.support.small_site import Survey

from trimtab.base.incident import Shape
from trimtab.base.run import RunStatus
from trimtab.base.series import SeriesKey
from trimtab.explain.context import RunFact
from trimtab.explain.incidents.detection import Troubles, find_troubles
from trimtab.judge.series_analysis import judge_series

DAYS = 45
PROBES = ("first", "second", "third")
METRICS = ("write_bandwidth", "read_bandwidth")
KINDS = (
    ("normal", 0.5, 0.03), ("normal", 0.5, 0.1), ("t3", 0.3, 0.04), ("laplace", 0.5, 0.06),
    ("normal", 0.0, 0.02),
)  # fmt: skip
"""Innovations, autocorrelation and COV."""

trials = series_counts(1, 40)


def site(
    seed: int, kind: str, phi: float, cov: float, *, slow: slice | None = None, factor: float = 1.0
) -> Troubles:
    """Return what is found at a site; one metric of one probe loses for some hours."""
    rng = np.random.default_rng([seed, round(1000 * cov)])
    hours = 24 * DAYS
    frames: dict[SeriesKey, pl.DataFrame] = {}
    facts: list[RunFact] = []
    for number, probe in enumerate(PROBES):
        fate = rng.random(hours)
        lost, failed = fate < 0.006, fate > 0.997
        for place, metric in enumerate(METRICS):
            noise = series.ar1(hours, phi, rng, innovations=kind)
            alone = np.where(rng.random(hours) < 0.012, rng.uniform(0.65, 0.95, hours), 1.0)
            values = series.lognormal(noise, cov=cov) * alone
            if slow is not None and (number, place) == (0, 0):
                values[slow] *= factor
            whole = series.frame(values, lost.astype(float))
            key = SeriesKey("s", probe, "ior", metric, "B/s")
            frames[key] = whole.filter(pl.Series(~failed)).with_columns(run=pl.lit(probe))
        facts += [
            RunFact(f"{probe}{hour}", series.START + timedelta(hours=int(hour)), None, probe, "ior",
                    "", RunStatus.FAILED if failed[hour] else RunStatus.OK)
            for hour in range(hours)
        ]  # fmt: skip
    judged = [judge_series(frame, key) for key, frame in frames.items()]
    return find_troubles(
        judged, frames, frame_of(_surveys(rng)), site="s", runs=facts,
        now=series.START + timedelta(days=DAYS),
    )  # fmt: skip


def _surveys(rng: np.random.Generator) -> list[Survey]:
    return [
        (
            series.START + timedelta(days=day, hours=2),
            {"write_bandwidth": {f"OST{n:04x}": 2e10 * rng.lognormal(0, 0.05) for n in range(12)}},
        )
        for day in range(DAYS)
    ]


@pytest.mark.calibration
def test_all_paths_together_give_few_false_incidents(trials: int) -> None:
    """Under 0.3 a month."""
    false = [
        incident
        for seed in range(trials)
        for kind in KINDS
        for incident in site(seed, *kind).incidents
    ]
    months = trials * len(KINDS) * DAYS / 30
    assert len(false) <= 0.3 * months + 3 * (0.3 * months) ** 0.5 * (trials == 1), [
        incident.summary for incident in false
    ]


@pytest.mark.calibration
@pytest.mark.parametrize("kind", KINDS[:1] + KINDS[2:], ids=str)
def test_hours_that_lose_a_third_are_found_among_them(kind: tuple[str, float, float]) -> None:
    troubles = site(7, *kind, slow=slice(600, 606), factor=0.67)
    begin = series.START + timedelta(hours=600)
    (dip,) = (
        incident
        for incident in troubles.incidents
        if abs(incident.at - begin) <= timedelta(hours=6)
    )
    assert dip.shape is Shape.DIP
    assert dip.key is not None
    assert (dip.key.probe, dip.key.metric) == ("first", "write_bandwidth")


@pytest.mark.calibration
def test_runs_that_fail_alone_are_notes() -> None:
    troubles = site(3, *KINDS[0])
    assert len(troubles.lone_runs) > 20
    assert not any("failed" in incident.summary for incident in troubles.incidents)


def beside_jobs(seed: int, *, slow: slice = slice(0), lost: slice = slice(0)) -> Troubles:
    """Return what is found where one probe meets jobs of others: more of them in busy hours.

    One run in twenty loses a seventh to four fifths; what is left of the others is near its most.
    """
    rng = np.random.default_rng([seed, 20])
    hours = np.arange(24 * DAYS)
    rhythm = 1 + 0.3 * np.cos((hours % 24 - 15) * np.pi / 12)
    busy = np.exp(0.47 * series.ar1(len(hours), 0.85, rng) - 0.11) * rhythm
    frames: dict[SeriesKey, pl.DataFrame] = {}
    for metric in METRICS:
        met = rng.random(len(hours)) < 0.05 * busy
        left = np.where(met, rng.uniform(0.2, 0.86, len(hours)), 1.0)
        values = 3e11 * left * np.exp(-0.07 * np.abs(rng.standard_normal(len(hours))))
        if metric == "read_bandwidth":
            values[slow] *= 0.5
        unfinished = np.zeros(len(hours))
        unfinished[lost] = 1.0
        frames[SeriesKey("s", "hourly", "ior", metric, "B/s")] = series.frame(values, unfinished)
    judged = [judge_series(frame, key) for key, frame in frames.items()]
    end = series.START + timedelta(days=DAYS)
    return find_troubles(judged, frames, frame_of([]), site="s", now=end)


@pytest.mark.calibration
def test_jobs_that_a_probe_meets_now_and_then_are_no_incidents(trials: int) -> None:
    """Under 0.3 a month; it was 9 with chance of a fixed rate that is known exactly."""
    false = [incident for seed in range(4 * trials) for incident in beside_jobs(seed).incidents]
    months = 4 * trials * DAYS / 30
    assert len(false) <= 0.3 * months + 3 * (0.3 * months) ** 0.5 * (trials == 1), [
        incident.summary for incident in false
    ]


@pytest.mark.calibration
def test_five_hours_at_half_are_found_beside_jobs() -> None:
    begin = series.START + timedelta(hours=600)
    (dip,) = (
        incident
        for incident in beside_jobs(2, slow=slice(600, 605)).incidents
        if abs(incident.at - begin) <= timedelta(hours=6)
    )
    assert dip.shape is Shape.DIP
    assert dip.key is not None
    assert dip.key.metric == "read_bandwidth"


@pytest.mark.calibration
def test_runs_low_by_chance_days_before_a_trouble_are_no_part_of_it() -> None:
    """A day of lost runs made incidents of those around it: eight at the second of these sites."""
    begin = series.START + timedelta(hours=600)
    for seed in (1, 2, 3):
        incidents = beside_jobs(seed, lost=slice(600, 624)).incidents
        near = [each.at for each in incidents if abs(each.at - begin) < timedelta(days=5)]
        assert near == [begin], [each.summary for each in incidents]
