"""However somebody samples: few false changes, and a step found with its date.

What is claimed of every habit of `patterns.HABITS` (docs/calibration.md has the full counts):

- at most 1.5 times the false confirmed changes a year of hourly runs, at a correlation of 0 to 0.7
  at an hour and at 0.9, and at most one a year up to 0.7; not more of them where single runs or
  occasions are far off;
- a lasting step of 20 % is placed within one occasion and confirmed within eight of them (or 96 h)
  in nine series of ten; one of 10 % is found and placed within four in eight.

Counts fail only where they speak against the claim, as in test_changes.py.
"""

from datetime import timedelta
from functools import cache

import numpy as np
import pytest
from tests.calibration import patterns
from tests.calibration.changes import (
    HABIT_PHIS,
    SPIKED,
    Alarms,
    StepSeen,
    confirmed_in,
    habit_alarms,
    habit_step,
    speaks_against_rate,
    speaks_against_ratio,
    speaks_against_share,
)
from tests.calibration.patterns import DAY_MIN, HABITS, HOUR_MIN, START, World
from tests.support.counts import all_in_soak, repetitions

YEARS = repetitions(gate=0, soak=10)
STEPS = repetitions(gate=3, soak=60)
SERIES = repetitions(gate=8, soak=60)
CONFIRMED_PER_YEAR = 1.0


@cache
def alarms_of(name: str, phi: float, years: int, spiked: str = "nothing") -> Alarms:
    return habit_alarms(name, phi, range(2000, 2000 + years), spiked)


@cache
def seen(name: str, step: float, count: int) -> list[StepSeen]:
    return [habit_step(name, step, seed) for seed in range(count)]


def pooled(name: str, phis: tuple[float, ...], years: int) -> tuple[int, float]:
    """Return false confirmed changes, and in how many years; in the gate one at one correlation."""
    cells = [alarms_of(name, phi, max(1, years)) for phi in (phis if years else phis[-1:])]
    return sum(cell.confirmed for cell in cells), sum(cell.series_years for cell in cells)


@pytest.mark.parametrize("phis", all_in_soak(HABIT_PHIS, gate=HABIT_PHIS[:1]), ids=str)
@pytest.mark.parametrize("name", HABITS)
@pytest.mark.parametrize("years", YEARS)
def test_where_nothing_happens_no_habit_is_told_more_than_hourly_runs(
    name: str, phis: tuple[float, ...], years: int
) -> None:
    count, over = pooled(name, phis, years)
    assert not speaks_against_ratio(count, over, *pooled("hourly", phis, years)), (count, over)
    if max(phis) <= 0.7:
        assert not speaks_against_rate(count, CONFIRMED_PER_YEAR * over), (count, over)


@pytest.mark.parametrize("spiked", SPIKED)
@pytest.mark.parametrize("name", ["hourly", "daily", "three a night"])
@pytest.mark.parametrize("years", YEARS)
def test_spikes_are_no_changes(name: str, spiked: str, years: int) -> None:
    calm, shaken = (alarms_of(name, 0.3, years or 1, what) for what in ("nothing", spiked))
    assert not speaks_against_ratio(
        shaken.confirmed, shaken.series_years, calm.confirmed, calm.series_years
    ), shaken


@pytest.mark.parametrize("name", HABITS)
@pytest.mark.parametrize("steps", STEPS)
def test_twenty_per_cent_have_their_date_and_are_confirmed_in_time(name: str, steps: int) -> None:
    looks = seen(name, -0.2, steps)
    hits = sum(look.placed and look.in_time for look in looks)
    assert not speaks_against_share(hits, steps, 0.9), looks
    effects = [look.effect for look in looks if look.effect is not None]
    assert np.mean(effects) == pytest.approx(0.8, abs=0.02)
    assert sum(len(look.others) for look in looks) <= max(1, steps // 10), looks


@pytest.mark.parametrize("name", HABITS)
@pytest.mark.parametrize("steps", STEPS)
def test_ten_per_cent_are_found_where_they_are(name: str, steps: int) -> None:
    looks = seen(name, -0.1, steps)
    assert not speaks_against_share(sum(look.placed for look in looks), steps, 0.8), looks


@pytest.mark.parametrize("count", SERIES)
def test_a_change_in_a_gap_is_never_dated_before_it(count: int) -> None:
    """480 hourly runs, 620 h without any, then 10 % less under noise of 5 %."""
    minutes = HABITS["hourly"].minutes(66)
    minutes = minutes[(minutes < 480 * HOUR_MIN) | (minutes >= 1100 * HOUR_MIN)]
    before, after = (START + timedelta(hours=hours) for hours in (479, 1100))
    day, right = timedelta(days=1), 0
    for seed in range(count):
        points = confirmed_in(World(seed, phi=0.5, steps=((40, 0.9),)).sampled(minutes))
        spans = [point.between or (point.at, point.at) for point in points]
        near = [(low, high) for low, high in spans if high >= before - 7 * day]
        right += len(near) == 1 and all(
            before - day <= low and after <= high <= after + day for low, high in near
        )
    assert not speaks_against_share(right, count, 0.9), right


@pytest.mark.parametrize("name", ["hourly", "three a night", "twelve a night"])
@pytest.mark.parametrize("count", SERIES)
def test_of_two_kinds_of_runs_no_loss_is_told_as_a_gain(name: str, count: int) -> None:
    habit = HABITS[name]
    wrong = 0
    for seed in range(count):
        world = World(seed, cov=0.03, steps=((40, 0.88),), slow_share=0.5, slow_ratio=0.7)
        points = confirmed_in(world.sampled(habit.minutes(80)))
        wrong += any(point.effect is not None and point.effect > 1 for point in points)
    assert wrong <= count // 20


# --- the examiner itself ------------------------------------------------------------------------


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.9])
def test_a_world_has_the_scatter_and_memory_it_is_asked_for(phi: float) -> None:
    logs = np.log(World(1, cov=0.04, phi=phi).sampled(patterns.hourly(2000)).values)
    assert np.std(logs) == pytest.approx(0.04, rel=0.05)
    assert np.corrcoef(logs[1:], logs[:-1])[0, 1] == pytest.approx(phi, abs=0.03)


def test_the_runs_of_a_night_share_its_luck_and_nights_do_not() -> None:
    logs = np.log(World(2, phi=0.5).sampled(patterns.nightly(3)(2000)).values).reshape(-1, 3)
    assert np.corrcoef(logs[:, 0], logs[:, 1])[0, 1] == pytest.approx(0.77, abs=0.05)
    assert np.corrcoef(logs[1:, 0], logs[:-1, 0])[0, 1] == pytest.approx(0, abs=0.07)


def test_every_habit_samples_the_same_world() -> None:
    world = World(3, cov=0.02, phi=0.5, steps=((20.4, 0.5),))
    plain, more = patterns.nightly(), patterns.with_burst(patterns.nightly(), 300)
    runs, again = world.sampled(plain(40)), world.sampled(more(40))
    values = dict(zip(again.at, again.values, strict=True))
    assert len(again) == len(runs) + 300
    assert [values[at] for at in runs.at] == list(runs.values)
    for name, habit in HABITS.items():
        runs = world.sampled(habit.minutes(56))
        late = np.array(runs.at) >= habit.first_at(56, 20.4)
        levels = np.array(runs.values)
        ratio = np.median(levels[late]) / np.median(levels[~late])
        assert ratio == pytest.approx(0.5, abs=0.02), name
        assert list(runs.at) == sorted(runs.at)


def test_occasions_are_counted_as_a_habit_repeats() -> None:
    habit = HABITS["three a night with gaps"]
    last = habit.first_at(112, 41)
    after = habit.first_at(112, 42.5)
    assert (after - last).days == 22
    assert habit.occasion(112, after) == habit.occasion(112, last) + 1 == 42
    assert habit.every_min == DAY_MIN


def test_a_spike_takes_in_a_run_or_its_occasion() -> None:
    habit = HABITS["three a night"]
    calm = World(4, cov=0.01).sampled(habit.minutes(200))
    for whole, each in ((False, 1), (True, 3)):
        shaken = patterns.with_spikes(calm, habit, 1, whole=whole)
        ratios = np.divide(shaken.values, calm.values)
        hit = ratios != 1
        assert set(ratios[hit].round(6)) == {0.7, 2.0}
        nights = hit.reshape(-1, 3).sum(axis=1)
        assert 3 <= np.count_nonzero(nights) <= 8
        assert set(nights) == {0, each}


def test_two_rates_are_compared_by_their_counts() -> None:
    assert not speaks_against_ratio(0, 10, 0, 10)
    assert not speaks_against_ratio(6, 10, 3, 10)
    assert speaks_against_ratio(20, 10, 3, 10)
