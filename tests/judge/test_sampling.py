"""What is found depends on what happened, not on how densely somebody sampled.

Each series is one world (tests/calibration/patterns.py) sampled by one habit: hourly, nightly,
several a night, in bursts, on Mondays. An occasion is what a habit repeats: an hour, a night, a
Monday. How often all this is wrong is counted in tests/calibration/test_patterns.py.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from tests.calibration.changes import StepSeen, confirmed_in, step_seen
from tests.calibration.patterns import (
    DAY_MIN,
    HABITS,
    HOUR_MIN,
    START,
    Habit,
    Minutes,
    Runs,
    World,
    hourly,
    mondays,
    nightly,
    with_burst,
    with_spikes,
)
from tests.judge.frames import KEY
from tests.support.changes import changes_among
from tests.support.narrow import present

from trimtab.base.error import code_of
from trimtab.base.series import ChangePoint, SeriesJudgement
from trimtab.base.verdict import VerdictStatus
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.walk_forward import CONFIRM_RUNS

OCCASIONS = {HOUR_MIN: 24 * 45, DAY_MIN: 120, 7 * DAY_MIN: 40}
"""How long a series is, by what its habit repeats."""


def days_of(habit: Habit) -> int:
    return OCCASIONS[habit.every_min] * habit.every_min // DAY_MIN


def judged(runs: Runs) -> SeriesJudgement:
    schema = {"at": pl.Datetime("us", "UTC"), "value": pl.Float64}
    frame = pl.DataFrame({"at": runs.at, "value": runs.values}, schema=schema)
    return judge_series(frame.with_columns(unfinished=pl.lit(False)), KEY)


def staged(stages: Sequence[tuple[int, float]], habit: Habit, *, cov: float) -> Runs:
    """Return runs at levels that hold for so many occasions each; every run is a new draw."""
    begin, steps = 0, []
    for (occasions, level), (_, following) in pairwise(stages):
        begin += occasions
        steps.append((begin * habit.every_min / DAY_MIN, following / level))
    days = (begin + stages[-1][0]) * habit.every_min // DAY_MIN
    return World(1, cov=cov, phi=0.0, steps=tuple(steps)).sampled(habit.minutes(days))


def seen_in(habit: Habit, days: int, day: float, ratio: float, *, cov: float = 0.03) -> StepSeen:
    return step_seen(habit, days, World(3, cov=cov, phi=0.5, steps=((day, ratio),)))


def holds(seen: StepSeen, ratio: float) -> None:
    """Require one change, of its size and date, confirmed while it still matters."""
    assert seen.delay_h is not None, "not confirmed"
    assert (seen.others, seen.effect) == ((), pytest.approx(ratio, abs=0.03))
    assert seen.placed, seen
    # A suspect waits for a dozen runs; mostly eight are enough (docs/calibration.md).
    assert seen.in_time or (seen.delay_occasions or 0) <= CONFIRM_RUNS, seen


# --- one step, sampled by every habit -----------------------------------------------------------


@pytest.mark.parametrize("name", HABITS)
def test_a_step_is_found_however_it_is_sampled(name: str) -> None:
    habit = HABITS[name]
    days = days_of(habit)
    holds(seen_in(habit, days, days // 2 + 0.4, 0.8), 0.8)


@pytest.mark.parametrize(
    ("habit", "days", "day", "ratio"),
    [
        pytest.param(Habit(DAY_MIN, nightly(3)), 120, 60, 0.8, id="120 nights of three"),
        pytest.param(Habit(DAY_MIN, nightly(3, apart_min=0)), 120, 60, 0.5, id="one stamp"),
        pytest.param(Habit(DAY_MIN, nightly(4, apart_min=6)), 200, 147, 0.8, id="200 of four"),
        pytest.param(Habit(DAY_MIN, with_burst(nightly(), 150)), 120, 63, 0.8, id="afternoon"),
        pytest.param(
            Habit(DAY_MIN, with_burst(nightly(), 150, at=0.55)), 120, 63, 0.8, id="afternoon after"
        ),
        pytest.param(Habit(HOUR_MIN, with_burst(hourly, 3000)), 90, 40.3, 0.9, id="day of 3,000"),
        pytest.param(Habit(7 * DAY_MIN, mondays(12)), 280, 140, 0.8, id="40 Mondays of twelve"),
        pytest.param(Habit(DAY_MIN, nightly(3)), 120, 60, 1.25, id="three, better"),
        pytest.param(Habit(DAY_MIN, nightly()), 260, 200.4, 0.8, id="a long daily record"),
    ],
)
def test_a_step_among_runs_close_together(
    habit: Habit, days: int, day: float, ratio: float
) -> None:
    holds(seen_in(habit, days, day, ratio, cov=0.02), ratio)


@pytest.mark.parametrize("name", ["three a night", "twelve a night", "twelve on Mondays"])
def test_no_drop_is_raised_and_dismissed_again_and_again(name: str) -> None:
    habit = HABITS[name]
    days = days_of(habit)
    day = days // 2 + 0.4
    runs = World(3, cov=0.03, phi=0.3, steps=((day, 0.8),)).sampled(habit.minutes(days))
    since = START + timedelta(days=day - 1)
    points = changes_among(runs.at, runs.values, dismissed=True).points
    assert [point.at for point in points if point.dismissed_at and point.at >= since] == []


@pytest.mark.parametrize("name", ["hourly", "daily", "three a night", "daily, an afternoon of 150"])
def test_where_nothing_happens_a_spike_is_no_change(name: str) -> None:
    habit = HABITS[name]
    runs = World(4, cov=0.03, phi=0.3).sampled(habit.minutes(days_of(habit)))
    assert confirmed_in(runs) == []
    assert confirmed_in(with_spikes(runs, habit, 1)) == []
    assert confirmed_in(with_spikes(runs, habit, 1, whole=True)) == []


@pytest.mark.parametrize("name", ["daily", "three a night", "daily, an afternoon of 150"])
def test_the_goal_is_judged_however_many_runs_a_night_has(name: str) -> None:
    habit = HABITS[name]
    runs = World(6, cov=0.02, phi=0.3).sampled(habit.minutes(60))
    assert judged(runs).verdict.status is VerdictStatus.MET


# --- the same runs, told in another way ---------------------------------------------------------

STEPPED = World(3, cov=0.03, phi=0.3, steps=((30.4, 0.8),))


@pytest.fixture(params=[hourly(45), nightly(3)(60)], ids=["hourly", "nightly"])
def stepped(request: pytest.FixtureRequest) -> Runs:
    return STEPPED.sampled(request.param)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_the_same_instants_under_another_offset_are_the_same(stepped: Runs, zone: str) -> None:
    moved = [at.astimezone(ZoneInfo(zone)) for at in stepped.at]
    assert changes_among(moved, stepped.values) == changes_among(stepped.at, stepped.values)


def test_the_order_of_rows_and_files_does_not_matter(stepped: Runs) -> None:
    places = list(range(len(stepped)))
    shuffled = random.Random(1).sample(places, len(places))
    points = judged(stepped).changes
    for order in (shuffled, places[::2] + places[1::2]):
        assert judged(stepped.picked(order)).changes == points


@pytest.mark.parametrize("factor", [1e-6, 2.0**-20, 1e9])
def test_the_unit_does_not_matter(stepped: Runs, factor: float) -> None:
    assert_alike(confirmed_in(stepped.scaled(factor)), confirmed_in(stepped), within=1e-9)


def test_nor_does_the_sense(stepped: Runs) -> None:
    """What takes 25 % longer changed when what is 20 % slower did."""
    inverse = Runs(stepped.at, tuple(1 / value for value in stepped.values))
    points = confirmed_in(inverse, more_is_better=False)
    upright = [replace(point, effect=1 / present(point.effect)) for point in points]
    assert_alike(upright, confirmed_in(stepped), within=0.005)


def test_a_repeated_row_tells_nothing_new(stepped: Runs) -> None:
    doubled = stepped.picked([place for place in range(len(stepped)) for _ in range(2)])
    assert_alike(confirmed_in(doubled), confirmed_in(stepped), within=0.005)


def test_the_zone_of_the_week_moves_no_change(stepped: Runs) -> None:
    tokyo = confirmed_in(stepped, timezone="Asia/Tokyo")
    assert_alike(tokyo, confirmed_in(stepped), within=0.005)


def assert_alike(
    points: Sequence[ChangePoint], others: Sequence[ChangePoint], *, within: float
) -> None:
    """Require the same changes: at the same times, and of a size that a report would not tell."""
    assert [point.at for point in points] == [point.at for point in others]
    assert [point.effect for point in points] == pytest.approx(
        [point.effect for point in others], abs=within
    )


# --- steady is said only of what was tested -----------------------------------------------------


@pytest.mark.parametrize(
    ("minutes", "count"),
    [
        pytest.param(hourly(1)[:1], 1, id="one run"),
        pytest.param(hourly(1)[:2], 2, id="two rows"),
        pytest.param(nightly()(6), 6, id="six days"),
        pytest.param(hourly(1)[:23], 23, id="23 hours"),
        pytest.param(nightly(3)(8), 8, id="24 runs of eight nights"),
        pytest.param(with_burst(nightly(), 150)(10), 11, id="ten nights and an afternoon of 150"),
    ],
)
def test_too_few_are_said_to_be_too_few(minutes: Minutes, count: int) -> None:
    series = judged(World(1, cov=0.02).sampled(minutes))
    assert (series.changes, code_of(series.untested)) == ((), "too-few-runs")
    assert f"{count} of 24" in present(series.untested)


def test_six_runs_that_fall_are_not_steady() -> None:
    series = judged(World(1, cov=0.02, steps=((3, 0.4),)).sampled(nightly()(6)))
    assert code_of(series.untested) == "too-few-runs"


@pytest.mark.parametrize("minutes", [hourly(3), nightly()(60), nightly(3)(60), mondays(12)(280)])
def test_enough_are_tested(minutes: Minutes) -> None:
    assert judged(World(1, cov=0.02).sampled(minutes)).untested is None


@pytest.mark.parametrize("name", ["hourly", "daily", "three a night"])
def test_a_change_after_a_short_start_is_found_or_not_passed_over(name: str) -> None:
    habit = HABITS[name]
    days = -(-75 * habit.every_min // DAY_MIN)
    begin = 15 * habit.every_min / DAY_MIN
    runs = World(2, cov=0.02, phi=0.3, steps=((begin, 0.88),)).sampled(habit.minutes(days))
    series = judged(runs)
    if series.untested is None:
        (point,) = series.changes
        assert point.effect == pytest.approx(0.88, abs=0.03)
        off = abs(habit.occasion(days, point.at) - 15)
        # Fifteen hours are less than a day: only suspected, and not before its eighteenth run.
        assert off <= (2 if point.confirmed_at else 6), off


@pytest.mark.parametrize("seed", range(6))
def test_of_two_kinds_of_runs_the_direction_is_right_or_left_open(seed: int) -> None:
    """Half of the runs at 70 %, as on other nodes, and all of them 12 % less from hour 900."""
    changed = START + timedelta(hours=900)
    world = World(seed, cov=0.03, steps=((37.5, 0.88),), slow_share=0.5, slow_ratio=0.7)
    (point,) = confirmed_in(world.sampled(hourly(62)))
    assert abs(point.at - changed) <= timedelta(hours=72)
    if point.effect is None:
        assert code_of(point.reason) == "direction-not-known"
    else:
        interval = present(point.effect_interval)
        assert interval.low <= point.effect <= interval.high < 1


# --- a change has the date of the change --------------------------------------------------------


@pytest.mark.parametrize("levels", [(10_000, 9_600, 8_000), (8_000, 8_300, 10_000)], ids=str)
@pytest.mark.parametrize("middle", [8, 10, 14])
@pytest.mark.parametrize("name", ["daily", "three a night"])
def test_two_stages_are_two_changes_or_one_between(
    levels: tuple[float, float, float], middle: int, name: str
) -> None:
    stages = list(zip((60, middle, 60), levels, strict=True))
    points = confirmed_in(staged(stages, HABITS[name], cov=0.006))
    first, second = (START + timedelta(days=day) for day in (60, 60 + middle))
    near = timedelta(days=2)
    ratios = [after / before for before, after in pairwise(levels)]
    if len(points) == 1:
        begin, end = present(points[0].between)
        assert first - near <= begin <= first + near
        assert second - near <= end <= second + near
        assert points[0].effect == pytest.approx(levels[2] / levels[0], abs=0.01)
    else:
        assert len(points) == 2
        for point, at, ratio in zip(points, (first, second), ratios, strict=True):
            assert abs(point.at - at) <= near
            assert point.effect == pytest.approx(ratio, abs=0.02)


@pytest.mark.parametrize("name", ["hourly", "daily", "three a night"])
@pytest.mark.parametrize("seed", range(2))
def test_a_change_in_a_gap_lies_between_its_ends(name: str, seed: int) -> None:
    habit = HABITS[name]
    lasts = 20 if habit.every_min == HOUR_MIN else 60
    minutes = habit.minutes(2 * lasts + 26)
    day = minutes / DAY_MIN
    minutes = minutes[(day < lasts) | (day >= lasts + 26)]
    runs = World(seed, cov=0.02, steps=((lasts, 0.9),)).sampled(minutes)
    (point,) = confirmed_in(runs)
    begin, end = present(point.between)
    before = max(at for at in runs.at if at < START + timedelta(days=lasts))
    after = min(at for at in runs.at if at > START + timedelta(days=lasts))
    within = timedelta(minutes=habit.every_min) * 3
    assert abs(begin - before) <= within
    assert abs(end - after) <= within
    assert begin <= point.at <= end
    assert point.effect == pytest.approx(0.9, abs=0.02)


def test_a_gap_elsewhere_leaves_the_change_its_date() -> None:
    minutes = hourly(60)
    minutes = minutes[(minutes < 20 * DAY_MIN) | (minutes >= 30 * DAY_MIN)]
    (point,) = confirmed_in(World(1, cov=0.02, steps=((40.4, 0.9),)).sampled(minutes))
    assert point.between is None
    assert abs(point.at - START - timedelta(days=40.4)) <= timedelta(hours=6)
