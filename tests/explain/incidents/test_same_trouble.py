"""Troubles that several spells show are told once; two troubles stay two."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import READ, SURVEYS, WRITE, found, frame_of, level
from tests.explain.incidents.test_incidents import change, merged_of, quiet, run
from tests.explain.incidents.test_lasting import STILL
from tests.support.small_site import hour

from trimtab.base.incident import Shape
from trimtab.base.run import RunStatus
from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.base.verdict import Interval
from trimtab.explain.incident_detection import find_troubles
from trimtab.explain.incident_hours import begin_of
from trimtab.explain.same_trouble import are_together
from trimtab.explain.spell import SURVEYS as NAMED
from trimtab.explain.spell import Spell
from trimtab.judge.series_analysis import judge_series

OTHER = SeriesKey("s", "other", "ior", "write_bandwidth", "B/s")


def test_losses_days_apart_that_are_over_together_are_one_trouble() -> None:
    frames = {WRITE: quiet(1, (400, 700, 0.85)), OTHER: quiet(2, (496, 700, 0.5))}
    changes = {
        WRITE: [change(400, 0.85), change(700, 0.85, back=True)],
        OTHER: [change(496, 0.5), change(700, 0.5, back=True)],
    }
    (incident,) = merged_of(frames, changes)
    assert (incident.key, incident.until) == (OTHER, hour(699))
    assert incident.moved_with == ("hourly write_bandwidth",)


def test_losses_days_apart_that_end_days_apart_are_two() -> None:
    frames = {WRITE: quiet(1, (400, 640, 0.85)), OTHER: quiet(2, (496, 740, 0.7))}
    changes = {
        WRITE: [change(400, 0.85), change(640, 0.85, back=True)],
        OTHER: [change(496, 0.7), change(740, 0.7, back=True)],
    }
    later, earlier = merged_of(frames, changes)
    assert (earlier.key, later.key) == (WRITE, OTHER)


def test_a_level_that_had_become_normal_and_one_that_ends_with_it_are_two() -> None:
    frames = {WRITE: quiet(1, (100, 800, 0.85)), OTHER: quiet(2, (600, 800, 0.7))}
    changes = {
        WRITE: [change(100, 0.85), change(800, 0.85, back=True)],
        OTHER: [change(600, 0.7), change(800, 0.7, back=True)],
    }
    assert len(merged_of(frames, changes)) == 2


@pytest.mark.parametrize(("further", "told"), [(0.96, 1), (0.8, 2)])
def test_a_further_loss_of_a_series_is_another_trouble_if_it_is_no_lesser_one(
    further: float, told: int
) -> None:
    frame = quiet(1, (400, 840, 0.82), (544, 840, further))
    middle, last = (share * series.LEVEL_BYTES_PER_S for share in (0.82, 0.82 * further))
    placed = [change(400, 0.82), change(544, further, before=middle, after=last)]
    incidents = merged_of({WRITE: frame}, {WRITE: placed})
    assert len(incidents) == told
    assert incidents[-1].at == hour(400)


def test_dips_that_are_alike_and_come_again_within_two_days_are_one_trouble() -> None:
    values = level(3)
    for begin in (600, 640):
        values[begin : begin + 4] *= 0.5
    (incident,) = found({WRITE: series.frame(values)}, changes=STILL).incidents
    assert (incident.at, incident.until) == (hour(600), hour(643))


def test_dips_that_are_far_apart_or_not_alike_are_two() -> None:
    for second, factor in ((660, 0.5), (620, 0.15)):
        values = level(3)
        values[600:604] *= 0.6
        values[second : second + 4] *= factor
        assert len(found({WRITE: series.frame(values)}, changes=STILL).incidents) == 2


@pytest.mark.parametrize(("begin", "told"), [(590, 1), (540, 2), (645, 1), (700, 2)])
def test_low_hours_at_an_end_of_a_level_belong_to_it(begin: int, told: int) -> None:
    """On the day before a series fell, or right after it was back."""
    frame = quiet(1, (600, 650, 0.4), (begin, begin + 8, 0.7))
    if begin == 645:
        frame = quiet(1, (600, 645, 0.4), (645, 653, 0.7))
    end = 645 if begin == 645 else 650
    placed = [change(600, 0.4), change(end, 0.4, back=True)]
    assert len(merged_of({WRITE: frame}, {WRITE: placed})) == told


def test_low_hours_on_the_day_before_a_series_falls_far_belong_to_it() -> None:
    """They are confirmed as a level by themselves, a faint one beside what follows."""
    frame = quiet(1, (556, 576, 0.92), (590, 700, 0.2))
    placed = [
        change(556, 0.92), change(576, 0.92, back=True), change(590, 0.2),
        change(700, 0.2, back=True),
    ]  # fmt: skip
    (incident,) = merged_of({WRITE: frame}, {WRITE: placed})
    assert (incident.at, incident.until) == (hour(590), hour(699))


def test_one_slow_run_of_a_steadier_series_is_of_the_level_at_whose_begin_it_is() -> None:
    """However many of its own standard deviations it is down."""
    steady = level(2, cov=0.005)
    steady[399] *= 0.6
    frames = {WRITE: quiet(1, (400, 840, 0.87)), OTHER: series.frame(steady)}
    (incident,) = merged_of(frames, {WRITE: [change(400, 0.87)]})
    assert (incident.key, incident.until) == (WRITE, None)


@pytest.mark.parametrize(
    ("factor", "every", "row", "told"),
    [(0.8, 7, 8, 1), (0.3, 10**6, 8, 1), (0.8, 10**6, 8, 2), (0.3, 10**6, 60, 2)],
)
def test_lost_runs_are_of_a_level_at_which_runs_are_lost_or_take_twice_as_long(
    factor: float, every: int, row: int, told: int
) -> None:
    """Some in a row, where one in seven is lost since the level fell, or where no other is.

    More than two days of them are another trouble.
    """
    hours = np.arange(840)
    lost = np.isin(hours, np.arange(500, 500 + row)) | ((hours >= 400) & (hours % every == 1))
    frame = quiet(1, (400, 840, factor)).with_columns(
        value=pl.when(pl.Series(~lost)).then("value"), unfinished=pl.Series(lost)
    )
    assert len(merged_of({WRITE: frame}, {WRITE: [change(400, factor)]})) == told


@pytest.mark.parametrize(("again", "told"), [(432, 1), (470, 2)])
def test_a_level_that_falls_again_within_two_days_is_one_trouble(again: int, told: int) -> None:
    """However much further; the first stage is its begin."""
    frame = quiet(1, (400, 840, 0.85), (again, 840, 0.6))
    middle, last = (share * series.LEVEL_BYTES_PER_S for share in (0.85, 0.85 * 0.6))
    placed = [change(400, 0.85), change(again, 0.6, before=middle, after=last)]
    incidents = merged_of({WRITE: frame}, {WRITE: placed})
    assert len(incidents) == told
    assert incidents[-1].at == hour(400)


@pytest.mark.parametrize(("key", "told"), [(READ, 1), (OTHER, 2)])
def test_low_hours_of_a_run_s_other_figure_on_the_day_before_belong_to_its_level(
    key: SeriesKey, told: int
) -> None:
    frames = {WRITE: quiet(1, (600, 700, 0.4)), key: quiet(2, (580, 588, 0.7))}
    changes = {WRITE: [change(600, 0.4), change(700, 0.4, back=True)]}
    assert len(merged_of(frames, changes)) == told


@pytest.mark.parametrize(("until", "told"), [(455, 1), (520, 2)])
def test_days_of_low_runs_and_slow_targets_that_end_together_are_one(until: int, told: int) -> None:
    low = replace(
        spell(WRITE, Shape.DIP, 400, 0.3, 451), is_level=False, onset=(hour(399), hour(400))
    )
    slow = replace(
        spell(WRITE, Shape.STEP, 350, 0.3, until), key=None, name=f"{NAMED} of single targets",
        is_level=False, targets=("OST0002",),
    )  # fmt: skip
    assert are_together(slow, low) is (told == 1)


def test_a_probe_that_is_low_where_another_one_ends_is_of_one_trouble() -> None:
    """Hours of one metric, at the end of days of another."""
    frames = {WRITE: quiet(1, (600, 700, 0.4)), READ: quiet(2, (684, 700, 0.4))}
    changes = {WRITE: [change(600, 0.4), change(700, 0.4, back=True)]}
    (incident,) = merged_of(frames, changes)
    assert (incident.at, incident.until) == (hour(600), hour(699))


def test_levels_of_which_one_fell_in_a_gap_that_begins_after_the_other_are_one() -> None:
    rows = pl.int_range(pl.len())
    frames = {
        WRITE: quiet(1, (400, 840, 0.8)).filter(~rows.is_between(401, 600)),
        OTHER: quiet(2, (403, 840, 0.8)).filter(~rows.is_between(403, 600)),
    }
    late = change(601, 0.8, between=(hour(402), hour(601)))
    (incident,) = merged_of(frames, {WRITE: [change(400, 0.8)], OTHER: [late]})
    assert incident.at == hour(400)


def spell(key: SeriesKey, shape: Shape, at: int, effect: float, until: int | None = None) -> Spell:
    """Return a confirmed level."""
    end = None if until is None else hour(until)
    return Spell(
        shape, key, key.probe, hour(at), end, end or hour(840), hour(at), ChangeStatus.CONFIRMED,
        10.0, "", effect=effect, is_level=True,
    )  # fmt: skip


def test_a_step_that_lasts_as_a_decline_does_is_that_decline() -> None:
    """A noisier series may show it so; what is over while it goes on is another trouble."""
    decline = spell(WRITE, Shape.DRIFT, 400, 0.6)
    assert are_together(decline, spell(OTHER, Shape.STEP, 500, 0.7))
    assert not are_together(decline, spell(OTHER, Shape.STEP, 500, 0.7, 620))
    assert not are_together(decline, spell(OTHER, Shape.STEP, 500, 0.2))


def test_days_before_a_step_to_which_a_decline_is_fitted_are_not_its_begin() -> None:
    decline, step = spell(WRITE, Shape.DRIFT, 400, 0.8), spell(OTHER, Shape.STEP, 470, 0.7)
    step = replace(step, onset=(hour(469), hour(470)))
    assert begin_of([decline, step], step)[0] == hour(470)
    assert begin_of([decline, step], decline)[0] == hour(400)
    assert begin_of([replace(decline, at=hour(300)), step], step)[0] == hour(300)


@pytest.mark.parametrize(("share", "told"), [(0.55, 1), (0.2, 2)])
def test_targets_as_slow_as_the_runs_striped_over_them_belong_to_their_level(
    share: float, told: int
) -> None:
    frames = {WRITE: quiet(1, (400, 840, 0.58))}
    surveys = frame_of(
        (hour(24 * day + 2), {"write_bandwidth": {
            f"OST{ost:04X}": (share if day >= 22 and ost < 3 else 1.0) * 1e9
            * (1 + 0.01 * ((day + ost) % 3)) for ost in range(12)}})
        for day in range(35)
    )  # fmt: skip
    assert len(merged_of(frames, {WRITE: [change(400, 0.58)]}, surveys=surveys)) == told


@pytest.mark.parametrize(("high", "told"), [(1.01, 0), (0.97, 1)])
def test_a_suspect_that_may_be_no_change_is_not_told(high: float, told: int) -> None:
    suspect = change(
        780, 0.94, status=ChangeStatus.SUSPECT, effect_interval=Interval(0.89, high, 0.95)
    )
    assert len(merged_of({WRITE: quiet(1, (780, 840, 0.94))}, {WRITE: [suspect]})) == told


def test_runs_lost_in_a_row_are_one_trouble_however_sparse_they_are() -> None:
    """Two failed and one unfinished run, every twelve hours: no run between them ended well."""
    hours = np.arange(0, 840, 12)
    bad = {hours[50]: RunStatus.FAILED, hours[51]: RunStatus.FAILED}
    frame = series.frame(level(1)[::12], hours == hours[52], step_s=12 * 3600.0)
    frame = frame.filter(~np.isin(hours, list(bad)))
    runs = [run(int(at), bad.get(at, RunStatus.OK)) for at in hours]
    (incident,) = merged_of({WRITE: frame}, runs=runs)
    assert (incident.at, incident.until) == (hour(600), hour(624))


@pytest.mark.parametrize(("share", "told"), [(0.7, 1), (0.4, 2)])
def test_surveys_that_show_no_more_than_a_probe_belong_to_its_level(
    share: float, told: int
) -> None:
    frames = {WRITE: quiet(1, (400, 840, 0.8))}
    surveys = frame_of(
        (hour(24 * day + 2), {"write_bandwidth": {
            f"OST{ost:04X}": (share if day >= 22 else 1.0) * 1e9 * (1 + 0.01 * ((day + ost) % 3))
            for ost in range(8)}})
        for day in range(35)
    )  # fmt: skip
    incidents = merged_of(frames, {WRITE: [change(400, 0.8)]}, surveys=surveys)
    assert len(incidents) == told
    assert (incidents[-1].at, incidents[-1].key) == (hour(400), WRITE)


def wide(since: int, until: int, *, day_before: int | None = None) -> np.ndarray:
    """Return a series of 84 days that scatters more for a while, and on one day before."""
    hours = np.arange(24 * 84)
    covs = np.where((hours >= since) & (hours < until), 0.12, 0.05)
    if day_before is not None:
        covs[day_before : day_before + 24] = 0.15
    noise = np.random.default_rng(0).standard_normal(len(hours))
    return series.LEVEL_BYTES_PER_S * np.exp(covs * noise)


def test_a_level_within_a_wide_spread_that_is_no_further_off_is_that_spread() -> None:
    frame = series.frame(wide(24 * 50, 24 * 64))
    lower = [change(24 * 56, 0.85), change(24 * 60, 0.85, back=True)]
    unknown = [change(24 * 60, 0.97, effect_interval=Interval(0.94, 1.02, 0.95))]
    for further in (lower, unknown):
        (incident,) = merged_of({WRITE: frame}, {WRITE: further})
        assert incident.shape is Shape.UNSTEADY
    deep = [change(24 * 56, 0.4), change(24 * 60, 0.4, back=True)]
    assert len(merged_of({WRITE: frame}, {WRITE: deep})) == 2


def test_a_wide_spread_begins_where_the_runs_begin_to_scatter() -> None:
    """One wide day four days earlier is not its begin."""
    since = 24 * 50 + 6
    frame = series.frame(wide(since, 24 * 64, day_before=since - 96))
    incident = found({WRITE: frame}, changes=STILL).incidents[0]
    assert abs(incident.at - hour(since)) <= timedelta(hours=24)
    begin, end = incident.onset or (hour(0), hour(0))
    assert begin <= hour(since) <= end


@pytest.mark.parametrize(("later", "told"), [(0, 1), (24 * 6, 2)])
def test_a_level_that_fell_as_runs_of_another_probe_began_to_scatter_is_one_trouble(
    later: int, told: int
) -> None:
    since = 24 * 50 + 6
    scattered = wide(since, 24 * 80)
    values = level(4, len(scattered) // 24)
    values[since + later :] *= 0.6
    frames = {WRITE: series.frame(scattered), OTHER: series.frame(values)}
    judged = [
        judge_series(frames[WRITE], WRITE, changes=STILL),
        judge_series(frames[OTHER], OTHER),
    ]
    surveys, now = pl.DataFrame(schema=SURVEYS), hour(len(values))
    assert len(find_troubles(judged, frames, surveys, site="s", now=now).incidents) == told
