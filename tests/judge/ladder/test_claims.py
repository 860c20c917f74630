"""Printed values and estimates of rates: intervals, their ratios, and what follows from inputs."""

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.ladder.rungs import rung, track
from tests.support.codes import raises
from tests.support.counts import series_counts
from tests.support.narrow import present

from trimtab.base.error import UsageError
from trimtab.base.site_hardware import Figure, parse_figure
from trimtab.judge.efficiency_ladder import Claim, IntervalBasis, LimitKind, Match
from trimtab.judge.ladder_analysis import check_claim, evaluate
from trimtab.judge.layer_efficiency import of_figure, of_values, ratio, scaled

FIGURES = {
    "drive.write": parse_figure("38 GB/s"),
    "drive.read_iops": parse_figure("9600 kIOPS"),
    "client.write": parse_figure("27 GB/s"),
    "client.read_iops": parse_figure("1400 kIOPS"),
    "hardware.parity": Figure(1.25, "1"),
    "hardware.drives": Figure(12, "1"),
    "walltime": parse_figure("2900 s"),
}


def match(value: str, formula: str | None, **more: object) -> Match:
    claim = Claim("x", parse_figure(value), formula, **more)  # pyrefly: ignore[bad-argument-type]
    return check_claim(claim, FIGURES).match


def test_within_the_rounding_of_the_inputs() -> None:
    found = check_claim(
        Claim("x", parse_figure("88.4 %"), "client.write * hardware.parity / drive.write"), FIGURES
    )
    assert (found.match, found.value) == (Match.GIVEN, pytest.approx(27 * 1.25 / 38))
    assert (found.low, found.high) == (
        pytest.approx(26.5 * 1.25 / 38.5),
        pytest.approx(27.5 * 1.25 / 37.5),
    )


@pytest.mark.parametrize(
    ("value", "formula", "expected"),
    [
        ("71 %", "client.write / drive.write", Match.GIVEN),
        ("88.4 %", "client.write / drive.write", Match.NOT_GIVEN),
        ("14.6 %", "client.read_iops / drive.read_iops", Match.GIVEN),
        ("15.1 %", "client.read_iops / drive.read_iops", Match.GIVEN_IF_ROUNDED),
        ("16.1 %", "client.read_iops / drive.read_iops", Match.NOT_GIVEN),
        ("3.2 GB/s", "drive.write / hardware.drives", Match.GIVEN),
        ("3.3 GB/s", "drive.write / hardware.drives", Match.NOT_GIVEN),
        ("29 %", "1 - client.write / drive.write", Match.GIVEN),
        ("40 %", None, Match.NO_INPUTS),
    ],
)
def test_what_is_given_and_what_is_not(value: str, formula: str | None, expected: Match) -> None:
    assert match(value, formula) is expected


def test_more_than_needs_no_more_than_that() -> None:
    assert match("30 GB/s", "drive.write", at_least=True) is Match.GIVEN
    assert match("38.4 GB/s", "drive.write", at_least=True) is Match.GIVEN  # may have been 38.5
    assert match("39 GB/s", "drive.write", at_least=True) is Match.GIVEN  # 38.5 prints as both
    assert match("40 GB/s", "drive.write", at_least=True) is Match.NOT_GIVEN


def test_an_assumption_never_counts_as_given() -> None:
    formula = "client.write * hardware.parity / drive.write"
    assert match("88.4 %", formula, assumes="parity") is Match.ASSUMED
    assert match("50 %", formula, assumes="parity") is Match.NOT_GIVEN


@pytest.mark.parametrize(
    ("formula", "code"),
    [
        ("", "formula-invalid"),
        ("client.write *", "formula-invalid"),
        ("client.write ** 2", "formula-invalid"),
        ("__import__('os')", "formula-invalid"),
        ("client.write if 1 else 2", "formula-invalid"),
        ("1if 2else 3", "formula-invalid"),
        ("client.write.x", "formula-invalid"),
        ("[client.write]", "formula-invalid"),
        ("(" * 150 + "1" + ")" * 40, "formula-invalid"),
        ("1 +" * 100 + "1", "formula-invalid"),
        ("nothing", "figure-unknown"),
        ("client.nothing", "figure-unknown"),
        ("client.write + walltime", "unit-mismatch"),
        ("client.write * walltime", "unit-mismatch"),
        ("client.write / (1 - 1)", "division-by-zero"),
        ("client.write / client.write", "figure-repeated"),
    ],
)
def test_a_formula_that_cannot_be_worked_out(formula: str, code: str) -> None:
    with raises(UsageError, code):
        match("50 %", formula)


def test_an_exact_figure_may_stand_twice() -> None:
    assert match("100 %", "hardware.parity / hardware.parity") is Match.GIVEN


@given(st.text(alphabet="clientwrdv.+-*/() 0123456789_", max_size=60) | st.text(max_size=250))
def test_any_text_is_worked_out_or_refused(formula: str) -> None:
    try:
        found = evaluate(formula, FIGURES)
    except UsageError:
        return
    assert found.low <= found.value * (1 + 1e-12) or found.low <= found.value + 1e-9
    assert found.low <= found.high


@given(
    st.lists(st.integers(1, 99), min_size=4, max_size=4),
    st.sampled_from(["a * b / c - d / 100", "a / (b + c) * d", "(a + b) / (c + d)", "1 - a / b"]),
    st.integers(0, 2**32),
)
def test_every_value_within_the_rounding_lies_within_the_bounds(
    numbers: list[int], formula: str, seed: int
) -> None:
    """A slow and obvious twin: inputs drawn from their rounding never leave the interval."""
    figures = {name: parse_figure(str(n)) for name, n in zip("abcd", numbers, strict=True)}
    bounds = evaluate(formula, figures)
    draw = random.Random(seed)
    for _ in range(20):
        inputs = {name: draw.uniform(*figure.possible()) for name, figure in figures.items()}
        assert bounds.low - 1e-9 <= eval(formula, {}, inputs) <= bounds.high + 1e-9


@given(st.integers(100, 9999), st.integers(100, 9999))
def test_what_follows_from_the_true_values_is_always_given(above: int, beneath: int) -> None:
    """Rounding the truth and then the inputs never turns a true claim into one not given."""
    true_above, true_beneath = above / 100 + 0.0034, beneath / 100 + 0.0021
    rates = {"a": true_above, "b": true_beneath}
    figures = {name: parse_figure(f"{rate:.1f} GB/s") for name, rate in rates.items()}
    claim = Claim("x", parse_figure(f"{true_above / true_beneath * 100:.1f} %"), "a / b")
    assert check_claim(claim, figures).match is Match.GIVEN


# Intervals of rates and of their ratios, and how often a verdict is wrong


trials = series_counts(gate=400, soak=4000)


def drawn(n: int, spread: float, seed: int, middle: float = 1.0) -> list[float]:
    draw = random.Random(seed)
    return [middle * math.exp(draw.gauss(0, spread)) for _ in range(n)]


def test_printed_figures_divide_as_intervals() -> None:
    found = ratio(of_figure(parse_figure("27 GB/s")), of_figure(parse_figure("31 GB/s")))
    assert (found.low, found.high) == (pytest.approx(26.5 / 31.5), pytest.approx(27.5 / 30.5))
    assert (found.level, found.basis) == (None, IntervalBasis.ROUNDING)


def test_a_line_rate_is_exact() -> None:
    found = of_figure(parse_figure("50 GB/s"), exact=True)
    assert (found.low, found.high) == (50e9, 50e9)


def test_the_median_and_nothing_of_one() -> None:
    found = of_values([3.0, 1.0, 2.0], IntervalBasis.RUNS)
    assert found.value == 2.0
    assert found.low is not None
    assert of_values([3.0], IntervalBasis.REPETITIONS).low is None
    for values in ([], [0.0, 1.0], [math.inf], [math.nan], [-1.0]):
        with pytest.raises(ValueError, match="positive"):
            of_values(values, IntervalBasis.RUNS)


def test_two_values_that_have_nothing_in_common_stay_finite() -> None:
    wild = of_values([1e-100, 1e100], IntervalBasis.RUNS)
    found = ratio(wild, of_values([1.0, 2.0], IntervalBasis.RUNS))
    assert present(found.low) < found.value < present(found.high) < math.inf


def test_equal_values_leave_nothing_open() -> None:
    found = ratio(
        of_values([2.0] * 4, IntervalBasis.RUNS), of_values([4.0] * 5, IntervalBasis.RUNS)
    )
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_a_ratio_does_not_depend_on_the_scale() -> None:
    above, beneath = drawn(5, 0.05, 1), drawn(9, 0.05, 2)
    plain = ratio(of_values(above, IntervalBasis.RUNS), of_values(beneath, IntervalBasis.RUNS))
    sides = [scaled(of_values(side, IntervalBasis.RUNS), 1e9) for side in (above, beneath)]
    large = ratio(*sides)
    assert (plain.low, plain.high) == (pytest.approx(large.low), pytest.approx(large.high))


def test_a_measured_rate_against_a_printed_one_takes_both_bounds() -> None:
    above = of_values([9.0, 10.0, 11.0], IntervalBasis.RUNS)
    found = ratio(above, of_figure(parse_figure("10 B/s")))
    assert found.low == pytest.approx((above.low or 0) / 10.5)
    assert found.high == pytest.approx((above.high or 0) / 9.5)


@pytest.mark.parametrize(("n", "m"), [(3, 3), (3, 7), (5, 5), (12, 12), (24, 5)])
def test_the_interval_of_a_ratio_holds_the_true_one(n: int, m: int, trials: int) -> None:
    """Nominal 5 % of intervals miss; medians of few numbers make it cautious, never careless."""
    series = trials if min(n, m) < 8 else trials // 4
    missed = 0
    for seed in range(series):
        found = ratio(
            of_values(drawn(n, 0.08, 2 * seed), IntervalBasis.RUNS),
            of_values(drawn(m, 0.04, 2 * seed + 1), IntervalBasis.RUNS),
        )
        missed += not (found.low or 0) <= 1 <= (found.high or 0)
    assert missed / series < 0.05 + 3 * math.sqrt(0.05 * 0.95 / series)


def _kind(efficiency: float, n: int, seed: int, spread: float = 0.04):
    found = track(
        rung("drive", drawn(n, spread, 4 * seed, 42.0)),
        rung("ost", drawn(n, spread, 4 * seed + 1, 42.0)),
        rung("network", drawn(n, spread, 4 * seed + 2, 80.0)),
        rung("client", drawn(n, spread, 4 * seed + 3, 42.0 * efficiency)),
    )
    return found.limit


def test_false_alarms_where_a_layer_loses_just_the_margin(trials: int) -> None:
    """At exactly 90 % neither answer is right; each may come up in 2.5 % of series."""
    limits = [_kind(0.9, 5, seed) for seed in range(trials)]
    lost = sum(one.kind is LimitKind.LAYER and one.layer == "client" for one in limits)
    kept = sum(one.kind is LimitKind.DRIVES for one in limits)
    allowed = 0.025 * trials + 3 * math.sqrt(0.025 * trials)
    assert lost <= allowed
    assert kept <= allowed


def test_false_alarms_where_nothing_is_lost(trials: int) -> None:
    limits = [_kind(1.0, 5, seed) for seed in range(trials)]
    assert sum(one.kind is LimitKind.LAYER for one in limits) <= 0.01 * trials
    assert sum(one.kind is LimitKind.NETWORK for one in limits) == 0


def test_power() -> None:
    """A fifth lost in the client is named in nine of ten series, and so are the drives."""
    lost = sum(_kind(0.75, 6, seed).layer == "client" for seed in range(100))
    kept = sum(_kind(1.0, 6, seed).kind is LimitKind.DRIVES for seed in range(100))
    assert lost >= 90
    assert kept >= 75


def test_medians_of_blocks_are_used_from_eight_values_on() -> None:
    above, beneath = drawn(20, 0.05, 1), drawn(20, 0.05, 2)
    found = ratio(of_values(above, IntervalBasis.RUNS), of_values(beneath, IntervalBasis.RUNS))
    assert found.value == pytest.approx(median(above) / median(beneath))
    assert present(found.low) < found.value < present(found.high)
