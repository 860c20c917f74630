"""Weights: their sign, their bounds, and that noise weighs nothing on average."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.base.error import Message
from trimtab.base.incident import Found, Route
from trimtab.explain.contrast import (
    MOST,
    Breadth,
    Sign,
    between_targets,
    breadth,
    expected,
    in_time,
    presence,
)

SIGN = Sign("x", Route.LOG, "something")
T0 = datetime(2026, 3, 2, tzinfo=UTC)


def frame(good: list[float], bad: list[float], *, targets: int = 1) -> pl.DataFrame:
    """Return hourly values, the good ones first."""
    values = [*good, *bad]
    rows = [
        (T0 + timedelta(hours=hour), f"OST{n:04x}", "oss1", value, hour >= len(good))
        for hour, value in enumerate(values)
        for n in range(targets)
    ]
    return pl.DataFrame(
        rows,
        schema={
            "at": pl.Datetime("us", "UTC"), "target": pl.String, "server": pl.String,
            "value": pl.Float64, "bad": pl.Boolean,
        },
        orient="row",
    )  # fmt: skip


def test_a_value_that_rose_speaks_for_and_one_that_did_not_against() -> None:
    rose = in_time(frame([1.0] * 48, [3.0] * 36), ratio=1.5)
    assert 1.0 < rose.weight <= MOST
    assert (rose.value, rose.reference) == (3.0, 1.0)
    assert in_time(frame([1.0] * 48, [1.0] * 36), ratio=1.5, absent=-0.8).weight == pytest.approx(
        -0.8 * 48 / 49
    )
    assert in_time(frame([3.0] * 48, [1.0] * 36), worse="lower").weight == rose.weight


def test_snapshots_of_one_stretch_count_once() -> None:
    """Forty-eight snapshots within six hours are one look at one thing."""
    short = in_time(frame([1.0] * 48, [3.0] * 6))
    assert short.weight < 1.0 < in_time(frame([1.0] * 48, [3.0] * 48)).weight


def test_a_rise_that_does_not_matter_tells_against() -> None:
    assert in_time(frame([1.0] * 48, [1.05] * 48), ratio=1.5).weight < 0
    assert in_time(frame([1.0] * 48, [1.4] * 48), by=0.5).weight < 0


def test_what_was_there_all_along_weighs_nothing_and_says_so() -> None:
    always = in_time(frame([0.8] * 48, [0.8] * 48), present_from=0.75)
    assert (always.weight, always.throughout) == (0.0, True)
    piece = Sign("fullness", Route.TIME, "fullness", "used_bytes", "1").of(always)
    assert piece.found is Found.NEUTRAL
    assert piece.throughout
    assert presence(frame([1.0] * 48, [1.0] * 48)).throughout


def test_presence() -> None:
    """6 of 6 bad stretches and 0 of 8 good ones: log10((6.5 / 7) / (0.5 / 9))."""
    contrast = presence(frame([0.0] * 48, [1.0] * 36))
    assert contrast.weight == pytest.approx(np.log10((6.5 / 7) / (0.5 / 9)))
    assert contrast.at == T0 + timedelta(hours=48)
    assert presence(frame([0.0] * 48, [0.0] * 36), absent=-1.2).weight == pytest.approx(
        -1.2 * 6 / 7
    )
    assert presence(frame([1.0] * 48, [0.0] * 36)).weight < 0


NOT_READ = Message("not-read", "not read")


def test_what_is_missing_has_a_reason() -> None:
    for contrast, code in (
        (in_time(frame([1.0], [])), "no-bad-value"),
        (in_time(frame([], [1.0])), "no-good-value"),
        (presence(frame([1.0], [])), "no-bad-value"),
        (presence(frame([], [1.0])), "no-good-value"),
        (expected(None, 0.75), "no-bad-value"),
    ):
        piece = SIGN.of(contrast)
        assert piece.found is Found.NOT_AVAILABLE
        assert piece.reason is not None
        assert piece.reason.code == code
    assert SIGN.of(in_time(frame([], [])), why_not=NOT_READ).reason is NOT_READ
    assert SIGN.not_available(NOT_READ).reason is NOT_READ


def test_slow_targets_are_held_against_fast_ones() -> None:
    names = [f"OST{n:04x}" for n in range(24)]
    rows = frame([1.0] * 4, [1.0] * 12, targets=24).with_columns(
        value=pl.when(pl.col("target").is_in(names[:3])).then(9.0).otherwise(1.0)
    )
    sides = Breadth(tuple(names[:3]), tuple(names[3:]), 1.0, True, False, NOT_READ)
    contrast = between_targets(rows, sides, ratio=2)
    assert (contrast.value, contrast.reference) == (9.0, 1.0)
    assert contrast.weight > 1.0
    swapped = Breadth(sides.fast, sides.slow, 1.0, True, False, NOT_READ)
    assert between_targets(rows, swapped, ratio=2).weight < 0
    nobody = Breadth((), tuple(names), 1.0, True, True, NOT_READ)
    assert SIGN.of(between_targets(rows, nobody)).reason is nobody.reason


def test_expectations() -> None:
    assert expected(0.8, 0.75).weight == 0.7
    assert expected(0.7, 0.75).weight == -0.7
    assert expected(0.7, 0.75, worse="lower").weight == 0.7
    assert expected(0.8, 0.75, scale=0.05).weight == pytest.approx(0.35)
    assert expected(float("nan"), 0.75).reason is not None


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_piece_weighs_more_than_the_most(weight: float) -> None:
    piece = SIGN.weighed("x", weight)
    assert abs(piece.weight) <= MOST
    assert (piece.found is Found.NEUTRAL) == (piece.weight == 0)


def test_noise_weighs_nothing_on_average() -> None:
    """The mean likelihood ratio of what has nothing to do with it is at most about 1.

    A likelihood ratio of chance has mean 1 by definition; one over it would convict the innocent.
    Values that change within the day as users' load does: AR(1) with 0.7 from hour to hour.
    """
    rng = np.random.default_rng(20261121)
    ratios, strong = [], 0
    for _ in range(400):
        noise = np.empty(84)
        noise[0] = rng.standard_normal()
        for index in range(1, 84):
            noise[index] = 0.7 * noise[index - 1] + np.sqrt(1 - 0.49) * rng.standard_normal()
        values = np.exp(0.3 * noise)
        weight = in_time(frame(values[:48].tolist(), values[48:].tolist()), ratio=1.1).weight
        ratios.append(10**weight)
        strong += weight > 1
    assert np.mean(ratios) < 1.3
    assert strong / 400 < 0.05


class TestBreadth:
    @staticmethod
    def make(good: dict[str, float], bad: dict[str, float]):
        from tests.explain.contexts import plain_context

        rows = [
            (T0 + timedelta(hours=hour), f"survey{hour}", target, "write_bandwidth", value)
            for hour, values in ((10, good), (60, bad))
            for target, value in values.items()
        ]
        surveys = pl.DataFrame(
            rows,
            schema={
                "at": pl.Datetime("us", "UTC"), "run": pl.String, "target": pl.String,
                "metric": pl.String, "value": pl.Float64,
            },
            orient="row",
        )  # fmt: skip
        return breadth(plain_context(surveys=surveys))

    def test_one_slow_target(self) -> None:
        usual = {f"OST{n}": 20e9 for n in range(8)}
        contrast = self.make(usual, {**usual, "OST3": 1e9})
        assert contrast.slow == ("OST3",)
        assert len(contrast.fast) == 7
        assert contrast.alike is False

    def test_a_target_that_is_always_slow_is_not_slow_now(self) -> None:
        usual = {f"OST{n}": 20e9 for n in range(8)} | {"OST3": 12e9}
        assert self.make(usual, usual).slow == ()

    def test_all_alike(self) -> None:
        usual = {f"OST{n}": 20e9 for n in range(8)}
        contrast = self.make(usual, {name: rate * 0.8 for name, rate in usual.items()})
        assert (contrast.slow, contrast.alike) == ((), True)
        assert contrast.level == pytest.approx(0.8)

    def test_no_survey(self) -> None:
        contrast = self.make({}, {})
        assert not contrast.surveyed
        assert contrast.alike is None
        assert contrast.reason.code == "no-bad-survey"


def test_figures_that_read_the_same_are_no_evidence() -> None:
    rows = [(T0 + timedelta(hours=7 * hour), 0.1121 + 0.0003 * (hour >= 20), hour >= 20)
            for hour in range(30)]  # fmt: skip
    frame = pl.DataFrame(
        rows, schema={"at": pl.Datetime("us", "UTC"), "value": pl.Float64, "bad": pl.Boolean},
        orient="row",
    )  # fmt: skip
    contrast = in_time(frame)
    assert contrast.weight > 0.5
    piece = Sign("share", Route.TIME, "share", unit="1").of(contrast)
    assert (piece.found, piece.weight) == (Found.NEUTRAL, 0.0), piece.what
