"""What is low at the same hours or weekdays is found and said; noise makes none of it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import numpy as np
import polars as pl
import pytest
from tests.calibration import series as noise
from tests.explain.incidents.frames import READ, WRITE, found
from tests.explain.incidents.frames import level as any_level
from tests.support.narrow import present
from tests.support.small_site import hour

from trimtab.base.incident import Incident, Shape
from trimtab.base.series import SeriesKey
from trimtab.explain.context import windows_of
from trimtab.explain.slow_hour import periodic
from trimtab.explain.spell import LookedSeries, Spell
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series

STILL = LevelChanges((), False, 0.4, 0.05)

pytestmark = pytest.mark.calibration


level = partial(any_level, cov=0.05)


def incidents_in(
    frames: dict[SeriesKey, np.ndarray], timezone: str = "UTC"
) -> tuple[Incident, ...]:
    tidy = {key: noise.frame(values) for key, values in frames.items()}
    return found(tidy, timezone=timezone).incidents


@pytest.mark.parametrize("share", [0.4, 0.75])
def test_every_night_is_one_incident(share: float) -> None:
    values = level(1, 50)
    hours = np.arange(len(values))
    nights = (hours >= 24 * 20) & np.isin(hours % 24, (1, 2, 3))
    values[nights] *= share
    incidents = incidents_in({WRITE: values, READ: level(2, 50)})
    (incident,) = [entry for entry in incidents if entry.shape is Shape.PERIODIC]
    others = [entry for entry in incidents if entry is not incident]
    # Steps that are confirmed are told; the nights make no dips and no unsteady weeks besides.
    assert all(entry.shape is Shape.STEP and (entry.effect or 0) > 0.95 for entry in others)
    assert incident.until is None
    assert abs(incident.at - hour(24 * 20 + 1)) <= timedelta(days=1)
    assert incident.effect == pytest.approx(share, abs=0.05)
    assert "every day from 01 to 04 UTC" in incident.summary
    stretches = windows_of(incident, {}, hour(0), hour(24 * 50))
    assert {window.from_.hour for window in stretches.bad} == {1}
    assert all(1 <= window.from_.hour < window.to.hour <= 4 for window in stretches.bad)
    assert all(not any(good.holds(bad.from_) for bad in stretches.bad) for good in stretches.good)


def nights_of(
    seed: int,
    days: int,
    nights: range,
    *,
    hours: tuple[int, ...] = (1, 2, 3, 4),
    share: float = 0.75,
) -> np.ndarray:
    values = level(seed, days)
    hour_of = np.arange(len(values))
    values[np.isin(hour_of // 24, nights) & np.isin(hour_of % 24, hours)] *= share
    return values


def patterns_in(values: np.ndarray, every_h: int, begin_h: int = 0) -> list[Spell]:
    return patterns_of(noise.frame(values)[begin_h::every_h])


def patterns_of(frame: pl.DataFrame) -> list[Spell]:
    """Return what recurs in a series without changes of level."""
    looked = LookedSeries([(judge_series(frame, WRITE, changes=STILL), frame)], frame["at"][-1])
    return periodic(looked.of(WRITE), frame, "UTC")


@pytest.mark.parametrize(
    ("every_h", "begin_h"), [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 3), (8, 2)]
)
def test_nights_are_seen_by_runs_hours_apart(every_h: int, begin_h: int) -> None:
    """Every fifth hour sees another hour of each night; twice a day tells no night from a day."""
    nights = range(20, 45)
    (spell,) = patterns_in(nights_of(5, 60, nights), every_h, begin_h)
    assert spell.effect == pytest.approx(0.75, abs=0.05)
    recurs = present(spell.recurs)
    assert set(recurs.hours) <= {1, 2, 3, 4}
    assert len(recurs.weekdays) == 7
    assert abs(spell.at - hour(24 * 20 + 1)) <= timedelta(days=2)
    assert abs(present(spell.until) - hour(24 * 44 + 4)) <= timedelta(days=2)
    assert patterns_in(nights_of(5, 60, nights), 12, 2) == []


@pytest.mark.parametrize("days_before", [1, 20])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twelve_nights_are_enough(days_before: int, seed: int) -> None:
    days = days_before + 12
    (spell,) = patterns_in(nights_of(seed, days, range(days_before, days)), 2)
    assert spell.until is None
    assert abs(spell.at - hour(24 * days_before + 1)) <= timedelta(days=1)


def test_it_is_said_in_the_zone_of_the_site_and_over_midnight() -> None:
    values = level(1, 50)
    values[np.isin(np.arange(len(values)) % 24, (22, 23, 0))] *= 0.6
    (incident,) = incidents_in({WRITE: values})
    assert "every day from 22 to 01 UTC" in incident.summary
    (incident,) = incidents_in({WRITE: values}, "Asia/Tokyo")
    assert "every day from 07 to 10 Asia/Tokyo" in incident.summary


def test_fridays_of_reads_alone() -> None:
    write, read = level(1, 84), level(2, 84)
    read[(np.arange(len(read)) // 24) % 7 == 4] *= 0.7
    (incident,) = [
        entry for entry in incidents_in({WRITE: write, READ: read}) if entry.shape is Shape.PERIODIC
    ]
    assert incident.key == READ
    assert "% lower on Fridays" in incident.summary


def test_what_stopped_has_ended() -> None:
    values = level(3, 80)
    hours = np.arange(len(values))
    values[(hours < 24 * 50) & (hours >= 24 * 20) & np.isin(hours % 24, (1, 2, 3))] *= 0.5
    (incident,) = [
        entry for entry in incidents_in({WRITE: values}) if entry.shape is Shape.PERIODIC
    ]
    assert abs(present(incident.until) - hour(24 * 49 + 3)) <= timedelta(days=1)


@pytest.mark.parametrize(
    "case",
    [case for case in noise.null_cases(hours=24 * 365) if case.kind in {"normal", "t3", "laplace"}],
    ids=lambda case: case.name,
)
def test_noise_makes_none(case: noise.Case) -> None:
    """None in two years of each kind of noise, however far apart its runs are."""
    for seed, every_h in ((1, 1), (1, 3), (2, 2), (2, 5)):
        assert patterns_of(case.make(seed)[::every_h]) == []
