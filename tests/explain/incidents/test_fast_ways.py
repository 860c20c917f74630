"""Fast ways through the runs of years, each beside the slow and obvious one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import WRITE, level
from tests.support.small_site import hour

from trimtab.base.series import CovAt
from trimtab.base.verdict import VerdictStatus
from trimtab.explain import dip, spell
from trimtab.explain.context import Period
from trimtab.explain.remembered_spells import low_runs
from trimtab.explain.spell import LookedSeries, Spell, row_from, rows_between, spacing_s
from trimtab.judge.array import median, medians_of
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.spread import usual_gap_s

SEEDS = range(20)


def some_runs(random: np.random.Generator) -> pl.DataFrame:
    """Return runs at odd times, some of them at the same one, with gaps and without values."""
    gaps = random.choice([0.0, 0.4, 1.0, 1.0, 1.0, 30.0], int(random.integers(1, 900)))
    values = [float(value) if value > 0.3 else None for value in random.random(len(gaps))]
    times = [hour(float(at)) for at in np.cumsum(gaps)]
    return pl.DataFrame({"at": times, "value": values}, schema_overrides={"value": pl.Float64})


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_those_whose_time_is_within(seed):
    random = np.random.default_rng(seed)
    frame = some_runs(random)
    for _ in range(20):
        from_, to = (hour(float(at)) for at in random.uniform(-10, 2500, 2))
        if random.random() < 0.5:
            from_ = frame["at"][int(random.integers(len(frame)))]
        within = frame.filter(pl.col("at").is_between(from_, to))
        assert frame[rows_between(frame, from_, to)].equals(within)
        assert row_from(frame, from_) == (frame["at"] < from_).sum()
        assert row_from(frame, from_, "right") == (frame["at"] <= from_).sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_usual_distance_is_that_of_the_times(seed):
    frame = some_runs(np.random.default_rng(seed))
    assert spacing_s(frame) == usual_gap_s([at.timestamp() for at in frame["at"]])


@pytest.mark.parametrize("seed", SEEDS)
def test_medians_of_stretches_are_the_medians_of_each(seed):
    random = np.random.default_rng(seed)
    values = random.normal(size=int(random.integers(1, 300)))
    begins, ends = np.sort(random.integers(0, len(values) + 1, (2, 80)), axis=0)
    of_each = [median(values[a:b]) if b > a else np.nan for a, b in zip(begins, ends, strict=True)]
    assert np.array_equal(medians_of(values, begins, ends), of_each, equal_nan=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_level_around_a_run_is_the_median_of_the_week(seed):
    """Of the runs that are shown; of all where none is."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.choice([0.5, 1.0, 90.0], 800, p=[0.3, 0.695, 0.005])) * 3600.0
    logs = np.where(random.random(800) < 0.1, np.nan, random.normal(size=800))
    shown = np.where(random.random(800) < random.choice([0.1, 0.99]), np.nan, logs)
    half_s = 3.5 * 86400.0

    def around(centre: float) -> float:
        near = (times >= centre - half_s) & (times <= centre + half_s)
        known = [values[near & np.isfinite(values)] for values in (shown, logs)]
        return next((median(of) for of in known if len(of)), np.nan)

    slow = np.repeat([around(at) for at in times[::6]], 6)[: len(times)]
    assert np.array_equal(spell._level(times, logs, shown), slow, equal_nan=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_outside_some_hours_contain_nothing_of_them(seed):
    random = np.random.default_rng(seed)
    window = timedelta(hours=float(random.choice([6, 48])))
    points = [
        CovAt(hour(float(at)), 24, 0.1, None, VerdictStatus.MISSED)
        for at in np.sort(random.integers(0, 500, 200))
    ]
    ends = np.sort(random.integers(-60, 560, (2, int(random.integers(0, 12)))), axis=0)
    taken = [Period(hour(float(a)), hour(float(b))) for a, b in ends.T]
    assert dip._outside(points, taken, window) == [
        point
        for point in points
        if not any(of.from_ <= point.at and of.to >= point.at - window for of in taken)
    ]


def looks_of(values: np.ndarray, kept: np.ndarray) -> list[spell.SeriesPart]:
    """Return the looks at the kept runs of an hourly series whose level never changes."""
    frame = series.frame(np.where(values > 0, values, 1.0), (values <= 0).astype(float))
    frame = frame.filter(pl.Series(kept))
    still = LevelChanges((), False, 0.0, 0.05)
    looked = LookedSeries([(judge_series(frame, WRITE, changes=still), frame)], hour(len(values)))
    return looked.of(WRITE)


@pytest.mark.parametrize("seed", range(6))
def test_dips_of_one_look_after_the_other_are_those_of_all_at_once(seed):
    """Low and lost runs anywhere, also where one look ends and the next begins, and gaps."""
    random = np.random.default_rng(seed)
    values, kept = level(seed, 200, phi=0.3), np.ones(200 * 24, dtype=bool)
    edges = [int((part.look.to - hour(0)).total_seconds()) // 3600
             for part in looks_of(values, kept)]  # fmt: skip
    for edge in (*edges, *random.integers(0, len(values), 12).tolist(), len(values)):
        first = edge - int(random.integers(0, 9))
        low = slice(max(0, first), max(0, first + int(random.integers(1, 12))))
        values[low] *= random.choice([0.0, 0.3, 0.7, 1.0])
    for first in random.integers(0, len(values), 2):
        kept[first : first + int(random.choice([3, 900]))] = False
    parts = looks_of(values, kept)
    every = dip.dips(parts)
    known: dict[str, list[Spell]] = {}

    def remember(digest: str, make: Callable[[], Sequence[Spell]]) -> Sequence[Spell]:
        return known.setdefault(digest, [*make()])

    assert every
    assert low_runs(parts, remember=remember) == every
    # What was remembered of a shorter record does not make a dip of a longer one go on.
    longer = looks_of(*(np.concatenate([array, array[:900]]) for array in (values, kept)))
    assert low_runs(longer, remember=remember) == dip.dips(longer)
