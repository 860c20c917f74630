"""Dips: how often noise makes one, and that real ones are found where they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from tests.calibration import series
from tests.explain.incidents.frames import WRITE, level
from tests.support.small_site import hour

from trimtab.base.series import ChangeStatus, SeriesKey
from trimtab.explain.dip import dips
from trimtab.explain.spell import LookedSeries, Spell
from trimtab.judge.change import LevelChanges
from trimtab.judge.series_analysis import judge_series

STILL = LevelChanges((), False, 0.0, 0.05)
NOISE = [
    case
    for case in series.null_cases(hours=24 * 90)
    if case.kind in {"normal", "t3", "laplace", "weekly"}
]


def dips_of(frame: pl.DataFrame, key: SeriesKey = WRITE) -> list[Spell]:
    """Return the dips of a series without changes of level."""
    looked = LookedSeries([(judge_series(frame, key, changes=STILL), frame)], frame["at"][-1])
    return dips(looked.of(key))


def made(change: Callable[[np.ndarray], None], *, hours: int = 24 * 35) -> pl.DataFrame:
    """Return a quiet series (COV 5 %, lag-1 0.5) with a change made to its values."""
    values = level(5, hours // 24, series.COV, phi=0.5)
    change(values)
    return series.frame(np.where(values > 0, values, 1.0), (values <= 0).astype(float))


@pytest.mark.calibration
@pytest.mark.parametrize("case", NOISE, ids=lambda case: case.name)
def test_noise_makes_less_than_one_a_month(case: series.Case) -> None:
    """At most 3 in 3 months of heavy tails, none of other noise.

    In 24 months each, heavy tails made 0.1 to 0.5 a month and the others none. At 0.5 a month more
    than 3 come of 7 % of all seeds, at 2 a month of 85 %.
    """
    count = sum(len(dips_of(frame)) for frame in [case.make(1)])
    assert count <= (3 if case.kind == "t3" else 0)


def low(first: int, last: int | None, share: float) -> Callable[[np.ndarray], None]:
    """Return what lowers the runs from the first to before the last; 0: they did not finish."""

    def change(values: np.ndarray) -> None:
        values[first:last] *= share

    return change


def test_a_single_run_far_down_is_told_at_once() -> None:
    frame = made(low(500, 501, 0.3))
    (dip,) = dips_of(frame)
    assert dip.at == dip.until == dip.detected_at == frame["at"][500]
    assert dip.certainty is ChangeStatus.CONFIRMED
    assert dip.effect == pytest.approx(0.3, rel=0.2)
    assert (dip.runs, dip.unfinished) == (1, 0)


def test_low_runs_as_the_record_has_them_are_no_dips_and_what_is_rarer_is() -> None:
    """One run in fifty loses 40 %: before, two within six hours were one, nearly twice a month."""
    false = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        slow = rng.random(24 * 35) < 0.02

        def ordinary(values: np.ndarray, slow: np.ndarray = slow) -> None:
            values[slow] *= 0.6

        def with_a_dip(values: np.ndarray, slow: np.ndarray = slow) -> None:
            values[slow] *= 0.6
            values[500:504] *= 0.6

        frame = made(ordinary)
        false += len(dips_of(frame))
        frame = made(with_a_dip)
        middle = frame["at"][502]
        (dip,) = (dip for dip in dips_of(frame) if dip.at <= middle <= dip.last)
        assert frame["at"][500] <= dip.detected_at <= frame["at"][505]
    assert false <= 3


def test_runs_that_did_not_finish_are_one_dip() -> None:
    (dip,) = dips_of(made(low(500, 504, 0)))
    assert (dip.runs, dip.unfinished, dip.effect) == (4, 4, None)
    assert "4 of 4 runs did not finish" in dip.what


def test_a_shallow_stretch_is_found_where_no_run_by_itself_is_a_dip() -> None:
    frame = made(low(500, 512, 0.82))
    (dip,) = dips_of(frame)
    assert abs(dip.at - frame["at"][500]) <= timedelta(hours=2)
    assert abs(dip.last - frame["at"][511]) <= timedelta(hours=2)
    assert dip.effect == pytest.approx(0.82, abs=0.05)
    assert dip.certainty is ChangeStatus.SUSPECT


@pytest.mark.parametrize("phi", [0.3, 0.75])
def test_ten_runs_six_standard_deviations_down_are_a_dip_in_autocorrelated_noise(
    phi: float,
) -> None:
    for seed in range(4):
        values = level(seed, cov=0.03, phi=phi)
        values[600:610] *= 0.82
        frame = series.frame(values)
        (dip,) = dips_of(frame)
        assert dip.effect == pytest.approx(0.82, abs=0.06)
        assert abs(dip.at - frame["at"][600]) <= timedelta(hours=2)


def test_hours_that_lose_little_are_no_dip_however_steady_the_series_is() -> None:
    """A loss under 8 % never is: at a COV of 1 % runs are clipped at 4 % below their level."""
    values = level(5, 35, 0.01)
    values[500:512] *= 0.96
    assert dips_of(series.frame(values)) == []
    values[500:512] *= 0.9
    assert len(dips_of(series.frame(values))) == 1


def test_a_deep_dip_does_not_reach_out_to_its_neighbours() -> None:
    frame = made(low(500, 508, 0.15))
    (dip,) = dips_of(frame)
    assert (dip.at, dip.until) == (frame["at"][500], frame["at"][507])


def test_what_goes_on_has_no_end() -> None:
    frame = made(low(-3, None, 0.2))
    (dip,) = dips_of(frame)
    assert dip.until is None
    assert dip.last == frame["at"][-1]


def test_times_dip_upwards() -> None:
    frame = made(lambda values: None)
    longer = frame.with_columns(
        value=pl.when(pl.int_range(pl.len()) == 500).then(pl.col("value") * 4).otherwise("value")
    )
    (dip,) = dips_of(longer, SeriesKey("s", "wrf", "wrf", "write_time", "s", more_is_better=False))
    assert dip.at == frame["at"][500]
    assert dip.what.endswith("longer")
    assert not dips_of(longer)


def test_short_and_constant_series() -> None:
    frame = made(lambda values: None, hours=24)
    for odd in (frame.head(1), frame.head(5), frame.with_columns(value=pl.lit(7.0))):
        assert dips_of(odd) == []
    nothing = frame.with_columns(value=pl.lit(None, pl.Float64), unfinished=pl.lit(value=True))
    (dip,) = dips_of(nothing)
    assert dip.unfinished == 24


@pytest.mark.parametrize("after", [6, 25, 60])
@pytest.mark.parametrize("hours", [30, 48, 60, 72])
def test_a_dip_of_days_ends_with_its_last_low_run_however_soon_the_record_ends(
    hours: int, after: int
) -> None:
    begin = 24 * 42
    values = level(7, 42 + 6, 0.025)[: begin + hours + after]
    values[begin : begin + hours] *= 0.79
    (dip,) = dips_of(series.frame(values))
    at, last = hour(begin), hour(begin + hours - 1)
    assert abs(dip.at - at) <= timedelta(hours=2)
    assert dip.until is not None
    assert abs(dip.until - last) <= timedelta(hours=2)
