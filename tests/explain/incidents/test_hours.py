"""The hours of an incident: its core, its margin, and the interval within which it began."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import READ, WRITE, found, level
from tests.explain.incidents.test_incidents import change, merged_of, quiet, run
from tests.support.counts import repetitions
from tests.support.narrow import present
from tests.support.small_site import HOUR, hour

from trimtab.base.incident import Incident, Shape
from trimtab.base.run import RunStatus
from trimtab.base.series import ChangeStatus
from trimtab.explain.context import windows_of
from trimtab.explain.incident_hours import begin_of
from trimtab.explain.spell import Spell


def incident_of(*values: np.ndarray, now: datetime | None = None) -> Incident:
    """Return the one incident of up to two series; NaN is a run that did not finish."""
    frames = {
        key: series.frame(row, np.isnan(row).astype(float))
        for key, row in zip((WRITE, READ), values, strict=False)
    }
    (incident,) = found(frames, now=now).incidents
    return incident


def hours(ends: tuple[datetime, datetime] | None) -> tuple[float, float]:
    begin, end = present(ends)
    return (begin - hour(0)) / HOUR, (end - hour(0)) / HOUR


@pytest.mark.parametrize("seed", range(3))
def test_a_low_run_hours_before_a_trouble_is_its_margin(seed: int) -> None:
    values = level(seed)
    values[597] *= 0.6
    values[600:604] *= 0.5
    values[604:607] = np.nan
    incident = incident_of(values)
    assert (incident.at, incident.until) == (hour(600), hour(606))
    assert (hours(incident.onset), hours(incident.margin)) == ((599, 600), (597, 606))
    assert (incident.runs, incident.unfinished) == (8, 3)


def test_a_low_run_of_another_series_hours_before_is_its_margin() -> None:
    values, other = level(0), level(50)
    values[600:604] *= 0.5
    other[597] *= 0.5
    incident = incident_of(values, other)
    assert (incident.at, incident.until) == (hour(600), hour(603))
    assert hours(incident.margin) == (597, 603)
    assert incident.moved_with == ("hourly read_bandwidth",)


def test_runs_that_are_low_now_and_then_are_one_trouble_from_first_to_last() -> None:
    values = level(3)
    values[600:622:3] *= 0.4
    incident = incident_of(values)
    assert (incident.at, incident.until, incident.margin) == (hour(600), hour(621), None)


def test_a_failed_run_hours_before_others_is_their_margin() -> None:
    bad = {400, 404, 405, 406, 407}
    runs = [run(at, RunStatus.FAILED if at in bad else RunStatus.OK) for at in range(700)]
    (incident,) = merged_of({WRITE: quiet(1)}, runs=runs)
    assert (incident.at, incident.until, incident.runs) == (hour(404), hour(407), 5)
    assert hours(incident.margin) == (400, 407)


def test_hours_at_60_per_cent_are_told_as_hours_however_long_the_detected_level() -> None:
    frame = quiet(1, (600, 654, 0.96), (600, 606, 0.6))
    placed = [change(600, 0.96), change(654, 0.96, back=True)]
    (incident,) = merged_of({WRITE: frame}, {WRITE: placed})
    assert (incident.at, incident.until, incident.shape) == (hour(600), hour(605), Shape.DIP)
    assert incident.effect == pytest.approx(0.58, abs=0.03)
    assert abs(hours(incident.margin)[1] - 653) <= 6


def test_a_step_ends_where_runs_are_back() -> None:
    frame = quiet(1, (300, 500, 0.7))
    placed = [change(300, 0.7), change(509, 0.7, back=True)]
    (incident,) = merged_of({WRITE: frame}, {WRITE: placed})
    assert incident.until == hour(499)


@pytest.mark.parametrize("trials", repetitions(8, 60, pytest.mark.calibration))
def test_one_step_in_write_and_read_is_one_incident(trials: int) -> None:
    """19 times in 20, wherever the fainter one is placed."""
    once = 0
    for seed in range(trials):
        write, read = level(seed, 50), level(1000 + seed, 50)
        write[700:] *= 0.86
        read[700:] *= 0.94
        incidents = found({key: series.frame(row) for key, row in ((WRITE, write), (READ, read))})
        once += len(incidents.incidents) == 1
    assert once >= 0.95 * trials - 1e-9


def test_a_faint_level_placed_a_day_later_is_the_same_step() -> None:
    frames = {WRITE: quiet(1, (600, 840, 0.86)), READ: quiet(2, (600, 840, 0.97))}
    changes = {WRITE: [change(600, 0.86)], READ: [change(625, 0.97)]}
    (incident,) = merged_of(frames, changes)
    assert (incident.at, incident.moved_with) == (hour(600), ("hourly read_bandwidth",))
    assert incident.stages == ()


def test_the_recovery_of_a_fainter_metric_may_be_confirmed_later() -> None:
    frames = {WRITE: quiet(1, (400, 600, 0.7)), READ: quiet(2, (400, 600, 0.93))}
    changes = {
        WRITE: [change(400, 0.7), change(600, 0.7, back=True)],
        READ: [change(400, 0.93), change(618, 0.93, back=True)],
    }
    (incident,) = merged_of(frames, changes)
    assert incident.until == hour(599)
    going_on = {**changes, READ: changes[READ][:1]}
    (incident,) = merged_of(frames, going_on)
    assert (incident.at, incident.until) == (hour(400), None)


def test_two_steps_four_days_apart_are_two() -> None:
    frames = {WRITE: quiet(1, (500, 840, 0.85)), READ: quiet(2, (596, 840, 0.9))}
    later, earlier = merged_of(frames, {WRITE: [change(500, 0.85)], READ: [change(596, 0.9)]})
    assert earlier.at == hour(500)
    assert abs(later.at - hour(596)) <= HOUR


def test_a_step_in_a_gap_began_in_the_gap() -> None:
    values = level(3, 70)
    values[24 * 40 :] *= 0.8
    first, last = hour(24 * 24), hour(24 * 50)
    frame = series.frame(values).filter((pl.col("at") < first) | (pl.col("at") >= last))
    (incident,) = found({WRITE: frame}, now=hour(24 * 70)).incidents
    assert (incident.at, incident.onset) == (last, (first - HOUR, last))
    assert incident.summary.startswith("began between 28 January and 24 February 2026: ")
    stretches = windows_of(incident, {WRITE: frame}, hour(0), hour(24 * 70))
    assert stretches.bad[0].from_ == last
    assert stretches.good[-1].to == first - HOUR
    assert stretches.good[0].from_ == first - HOUR - timedelta(days=7)


def test_good_hours_end_where_an_incident_may_have_begun() -> None:
    values = level(3)
    values[597] *= 0.6
    values[600:607] *= 0.4
    incident = incident_of(values)
    stretches = windows_of(incident, {WRITE: series.frame(values)}, hour(0), hour(840))
    assert (stretches.bad[0].from_, stretches.good[-1].to) == (hour(600), hour(596))


def test_a_step_in_a_gap_that_ends_in_an_evening_is_no_gradual_loss() -> None:
    """The day after the gap has a few runs, all of the new level."""
    first, last = 24 * 16, 24 * 24 + 21
    frame = quiet(1, (24 * 8, 840, 0.95), (last, 840, 0.72)).filter(
        (pl.col("at") < hour(first)) | (pl.col("at") >= hour(last))
    )
    fast, middle, slow = (share * series.LEVEL_BYTES_PER_S for share in (1, 0.95, 0.95 * 0.72))
    placed = [
        change(24 * 8, 0.95, before=fast, after=middle),
        change(last, 0.72, before=middle, after=slow, between=(hour(first - 1), hour(last))),
    ]
    incidents = merged_of({WRITE: frame}, {WRITE: placed})
    assert {incident.shape for incident in incidents} == {Shape.STEP}


def test_a_step_in_a_gap_after_runs_that_were_somewhat_low_may_have_begun_in_the_gap() -> None:
    """Two weeks without runs tell nothing: its interval reaches beyond them."""
    values = level(3, 70)
    values[24 * 40 :] *= 0.85
    tail = np.repeat([0.88, 0.96], 4)
    values[24 * 24 - 8 : 24 * 24] = np.median(values[: 24 * 24]) * tail
    first, last = hour(24 * 24), hour(24 * 40)
    frame = series.frame(values).filter((pl.col("at") < first) | (pl.col("at") >= last))
    (incident,) = found({WRITE: frame}, now=hour(24 * 70)).incidents
    begin, end = present(incident.onset)
    assert begin <= first
    assert end >= last


def test_a_survey_in_the_interval_of_a_level_shortens_it() -> None:
    """Runs were off for ten days; a survey of their last day is the first that is slow."""

    def spell(
        at: datetime, onset: tuple[datetime, datetime] | None, *, is_level: bool = False
    ) -> Spell:
        return Spell(
            shape=Shape.STEP, key=None, name="spell", at=at, until=None, last=hour(600),
            detected_at=at, certainty=ChangeStatus.CONFIRMED, depth=9.0, what="slow",
            onset=onset, is_level=is_level,
        )  # fmt: skip

    level_of_runs = spell(hour(340), (hour(100), hour(340)), is_level=True)
    for at, onset in ((318, (hour(100), hour(318))), (60, None)):
        core = [level_of_runs, spell(hour(at), None)]
        assert begin_of(core, level_of_runs) == (hour(at), onset)
