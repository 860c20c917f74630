"""Intervals of rates and of their ratios, and how often a verdict is wrong."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from tests.judge.ladder.rungs import rung, track
from tests.support.counts import series_counts
from tests.support.known import known

from trimtab.base.site_hardware import parse_figure
from trimtab.judge.efficiency_ladder import IntervalBasis, LimitKind
from trimtab.judge.layer_efficiency import of_figure, of_values, ratio, scaled

trials = series_counts(gate=400, soak=4000)


def drawn(n: int, spread: float, seed: int, middle: float = 1.0) -> list[float]:
    draw = random.Random(seed)
    return [middle * math.exp(draw.gauss(0, spread)) for _ in range(n)]


def test_printed_figures_divide_as_intervals() -> None:
    found = ratio(of_figure(parse_figure("27 GB/s")), of_figure(parse_figure("31 GB/s")))
    assert (found.low, found.high) == (pytest.approx(26.5 / 31.5), pytest.approx(27.5 / 30.5))
    assert found.level is None
    assert found.basis is IntervalBasis.ROUNDING


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
    assert known(found.low) < found.value < known(found.high) < math.inf


def test_equal_values_leave_nothing_open() -> None:
    found = ratio(
        of_values([2.0] * 4, IntervalBasis.RUNS), of_values([4.0] * 5, IntervalBasis.RUNS)
    )
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_a_ratio_does_not_depend_on_the_scale() -> None:
    above, beneath = drawn(5, 0.05, 1), drawn(9, 0.05, 2)
    plain = ratio(of_values(above, IntervalBasis.RUNS), of_values(beneath, IntervalBasis.RUNS))
    large = ratio(
        scaled(of_values(above, IntervalBasis.RUNS), 1e9),
        scaled(of_values(beneath, IntervalBasis.RUNS), 1e9),
    )
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
    assert known(found.low) < found.value < known(found.high)
