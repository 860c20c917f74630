"""Sweeps whose truth is known: best settings, factors, knees, and how often they are wrong."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.support.counts import at_most, series_counts
from tests.support.narrow import present
from tests.support.sentences import numbers

from trimtab.base.error import code_of
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.judge.best_setting import (
    best_settings,
    dunnett_quantile,
    factor_effects,
    fit_blocks,
    geometric_mean,
    heat_map,
    ordered_levels,
)
from trimtab.judge.sweep_analysis import analyse_sweep, measured_points, scaling
from trimtab.judge.sweep_result import MeasuredPoint, ScalingShape

trials = series_counts(gate=40, soak=1000)
NODES = (1, 2, 4, 8, 16, 32)
METRIC = "write_bandwidth"
UNFINISHED = MeasuredPoint({"nodes": 64}, {METRIC: (0.0, 1.0, 1.0)})


def sweep(levels, rate, *, rounds=3, scatter=0.03, drift=0.1, seed=1, metric=METRIC):
    """Every combination of levels, with rounds that are faster and slower as a whole."""
    rng = np.random.default_rng(seed)
    of_round = rng.normal(0, drift, rounds)
    return [
        MeasuredPoint(
            dict(zip(levels, combination, strict=True)),
            {
                metric: tuple(
                    1e9 * rate(*combination) * math.exp(of_round[r] + rng.normal(0, scatter))
                    for r in range(rounds)
                )
            },
        )
        for combination in product(*levels.values())
    ]


def figures(point):
    """Return a point's values, which are all there."""
    return tuple(float(value) for value in point.values[METRIC])


# Best settings

SETTINGS = {"nps": (1, 2, 4), "cpt": (4, 8, 16)}


def winner(nps, cpt):
    return 1.3 if (nps, cpt) == (1, 8) else 1.0


def alike(*_):
    return 1.0


def best_of(points, metric=METRIC):
    """Return the best settings of a sweep of one workload."""
    (best,) = best_settings(points, metric)
    return best


def setting_of(best, levels):
    return next(one for one in best.settings if one.levels == levels)


def altered(points, change):
    """Return the points with other values; ``change`` takes those of a point."""
    return [MeasuredPoint(p.levels, {METRIC: tuple(change(figures(p)))}) for p in points]


def test_the_best_setting_stands_alone_when_it_does():
    best = best_of(sweep(SETTINGS, winner))
    assert (best.best, best.runners_up) == ({"nps": 1, "cpt": 8}, ())
    assert (best.reason.code, best.degrees) == ("best-distinct", 16)
    shares = [one.of_best or math.nan for one in best.settings]
    assert shares == sorted(shares, reverse=True)


def test_the_scatter_is_that_of_a_run(trials):
    squares = [
        fit_blocks(sweep(SETTINGS, winner, seed=s), METRIC).scatter or 0 for s in range(trials)
    ]
    assert np.mean(np.square(squares)) == pytest.approx(0.03**2, rel=0.2)


def test_settings_that_are_alike_are_all_kept():
    best = best_of(sweep(SETTINGS, alike))
    assert len(best.runners_up) >= 6
    assert (best.reason.code, numbers(best.reason)[0]) == ("best-tied", len(best.runners_up))


@pytest.mark.parametrize("rounds", [2, 3, 6])
def test_the_truly_best_is_rarely_left_out(rounds, trials):
    """Two settings are the best by a hair over one; the rest are far behind."""

    def rate(nps, cpt):
        return {(1, 8): 1.0, (1, 4): 0.999}.get((nps, cpt), 0.9)

    lost = 0
    for seed in range(trials):
        best = best_of(sweep(SETTINGS, rate, rounds=rounds, seed=seed))
        lost += not setting_of(best, {"nps": 1, "cpt": 8}).may_be_best
    assert lost / trials <= at_most(0.05, trials)


def test_what_is_worse_by_six_scatters_is_told_apart(trials):
    seeds = range(trials)
    best = [best_of(sweep(SETTINGS, winner, scatter=0.05, seed=seed)) for seed in seeds]
    assert sum(not one.runners_up for one in best) / trials > 0.95


def test_a_slow_round_is_nobodys_fault():
    points = sweep(SETTINGS, winner, drift=0.0)
    slowed = altered(points, lambda values: (values[0] * 0.5, *values[1:]))
    calm, stormy = (best_of(one) for one in (points, slowed))
    assert stormy.scatter == pytest.approx(calm.scatter)
    assert [(one.levels, one.of_best) for one in calm.settings] == [
        (one.levels, pytest.approx(one.of_best)) for one in stormy.settings
    ]


def test_a_setting_that_missed_the_fast_round_is_not_worse_for_it():
    points = sweep(SETTINGS, alike, scatter=0.001, drift=0.0)
    points = altered(points, lambda values: (2 * values[0], *values[1:]))
    points[:1] = altered(points[:1], lambda values: (None, *values[1:]))
    own = setting_of(best_of(points), points[0].levels)
    assert (own.n, own.of_best) == (2, pytest.approx(1.0, abs=0.01))


def test_rounds_are_taken_out_as_least_squares_would():
    """Against a plain design of indicators, holes and all."""
    rng = np.random.default_rng(4)
    points = altered(
        sweep(SETTINGS, winner, rounds=4),
        lambda values: (value if rng.random() > 0.3 else None for value in values),
    )
    found = fit_blocks(points, METRIC)
    rows, y = [], []
    for place, point in enumerate(found.points):
        for number, value in enumerate(point.values[METRIC]):
            if value is not None:
                row = np.zeros(len(found.points) + 3)
                row[place] = 1
                if number:
                    row[len(found.points) + number - 1] = 1
                rows.append(row)
                y.append(math.log(value))
    design = np.array(rows)
    solution, squares, rank, _ = np.linalg.lstsq(design, np.array(y), rcond=None)
    assert found.degrees == len(y) - rank
    assert found.scatter == pytest.approx(math.sqrt(squares[0] / found.degrees))
    covariance = np.linalg.inv(design.T @ design) * present(found.scatter) ** 2
    for other in range(1, len(found.points)):
        assert found.effects[0] - found.effects[other] == pytest.approx(
            solution[0] - solution[other]
        )
        error = covariance[0, 0] + covariance[other, other] - 2 * covariance[0, other]
        assert found.error(0, other) == pytest.approx(math.sqrt(error))


def test_one_round_tells_nothing_of_chance():
    best = best_of(sweep(SETTINGS, winner, rounds=1))
    assert best.best is not None
    assert all(one.may_be_best is None for one in best.settings[1:])
    assert best.reason.code == "one-round"
    notes = analyse_sweep(sweep(SETTINGS, winner, rounds=1)).notes
    assert [note.code for note in notes] == ["one-round"]


def test_settings_that_failed_are_not_best_and_are_listed():
    points = sweep(SETTINGS, winner)
    failed = ({METRIC: (9e9, 0.0, 9e9)}, {METRIC: (None, None, None)}, {})
    for place, values in enumerate(failed):
        points[place] = MeasuredPoint(points[place].levels, values)
    assert [
        (code_of(one.reason), one.may_be_best, one.middle) for one in best_of(points).settings[-3:]
    ] == [("unfinished-run", False, None), *[("not-measured", None, None)] * 2]
    assert best_of(points[:3]).best is None
    assert best_settings([], METRIC) == ()


def test_workloads_have_a_best_each():
    levels = {"size": ("4KiB", "16MiB"), "nps": (1, 4)}
    points = sweep(levels, lambda size, nps: 1.5 if (size == "4KiB") == (nps == 4) else 1.0)
    found = best_settings(points, METRIC, workload=("size",))
    by_size = {one.workload["size"]: present(one.best)["nps"] for one in found}
    assert by_size == {"4KiB": 4, "16MiB": 1}


def test_of_a_time_the_least_is_best():
    points = sweep(SETTINGS, lambda nps, cpt: 1 / winner(nps, cpt), metric="output_time")
    best = best_of(points, "output_time")
    assert best.best == {"nps": 1, "cpt": 8}
    assert best.settings[0].middle == min(one.middle or 0.0 for one in best.settings)
    assert best.settings[1].of_best == pytest.approx(1 / 1.3, abs=0.08)


def test_no_level_of_a_protection_is_advised():
    """Checksums cost a fifth: that is shown, and each level has a best of its own."""
    points = sweep(
        {"checksums": ("on", "off"), "nps": (1, 4)},
        lambda checksums, nps: (0.8 if checksums == "on" else 1.0) * (1.1 if nps == 1 else 1.0),
    )
    found = analyse_sweep(points)
    assert [dict(one.workload) for one in found.best] == [{"checksums": "on"}, {"checksums": "off"}]
    assert all(one.best is not None and one.best["nps"] == 1 for one in found.best)
    assert found.effects is not None
    cost = next(one for one in found.effects[METRIC] if one.factors == ("checksums",))
    assert cost.ratio == pytest.approx(1.25, rel=0.05)
    assert [note.code for note in found.notes] == ["protection"]
    assert "checksums" in found.notes[0]


def test_equal_values_are_equal():
    for rate, tied in ((alike, 8), (winner, 0)):
        assert len(best_of(sweep(SETTINGS, rate, scatter=0.0, drift=0.0)).runners_up) == tied


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_what_is_no_number_is_refused(bad):
    points = [MeasuredPoint({"nodes": 1}, {METRIC: (bad, 1.0)})]
    with pytest.raises(ValueError, match="cannot be judged"):
        best_settings(points, METRIC)
    with pytest.raises(ValueError, match="cannot be judged"):
        scaling(points, METRIC, "nodes")


@pytest.mark.parametrize(("count", "degrees"), [(1, 5), (3, 8), (8, 16), (20, 60)])
def test_dunnetts_quantile_against_simulation(count, degrees):
    rng = np.random.default_rng(1)
    z = rng.standard_normal((100_000, count + 1))
    s = np.sqrt(rng.chisquare(degrees, 100_000) / degrees)
    largest = (z[:, 1:] - z[:, :1]).max(axis=1) / (math.sqrt(2) * s)
    expected = np.quantile(largest, 0.95)
    assert dunnett_quantile(0.95, count, degrees) == pytest.approx(expected, rel=0.02)


def test_dunnett_of_one_difference_is_student():
    for degrees in (1, 2, 4, 30):
        expected = stats.t.ppf(0.95, degrees)
        assert dunnett_quantile(0.95, 1, degrees) == pytest.approx(expected, rel=5e-3)


# Factors


def test_what_matters_and_what_does_not():
    levels = {"nodes": (1, 2, 4), "nps": (1, 4), "colour": ("a", "b")}
    points = sweep(levels, lambda nodes, nps, _: nodes * (1.1 if nps == 1 else 1.0), seed=2)
    effects = {one.factors: one for one in factor_effects(points, METRIC)}
    assert {factors for factors, one in effects.items() if one.matters} == {("nodes",), ("nps",)}
    assert effects["nodes",].share > 0.9
    assert effects["nodes",].ratio == pytest.approx(4, rel=0.05)
    assert effects["nps",].ratio == pytest.approx(1.1, abs=0.03)
    assert effects["nodes", "nps"].ratio is None


def test_an_interaction_is_seen():
    """Best at four tasks with NPS 1 and at eight with NPS 4: neither factor alone says it."""
    points = sweep(
        {"nps": (1, 4), "cpt": (4, 8)}, lambda nps, cpt: 1.3 if (nps == 1) == (cpt == 4) else 1.0
    )
    first = factor_effects(points, METRIC)[0]
    assert first.factors == ("nps", "cpt")
    assert first.matters
    assert first.share > 0.8


def test_a_sweep_of_nothing_rarely_shows_something(trials):
    found = [factor_effects(sweep(SETTINGS, alike, seed=seed), METRIC) for seed in range(trials)]
    alarms = sum(any(one.matters for one in effects) for effects in found)
    assert alarms / trials <= at_most(0.05, trials)


def test_shares_of_a_whole_matrix_add_up():
    effects = factor_effects(sweep(SETTINGS, winner), METRIC)
    assert 0.9 < sum(one.share for one in effects) <= 1.0 + 1e-9


def test_one_round_has_shares_and_no_probability():
    effects = factor_effects(sweep(SETTINGS, winner, rounds=1), METRIC)
    assert effects
    assert all(one.probability is None and one.matters is None for one in effects)
    assert factor_effects([], METRIC) == ()


# Maps


def test_a_heat_map_is_a_slice_through_the_best():
    levels = {"size": ("16MiB", "1MiB"), "nodes": (4, 1), "nps": (1, 4)}
    points = sweep(levels, lambda size, nodes, nps: nodes * nps, scatter=0.001, drift=0.0)
    found = heat_map(
        points, METRIC, row_factor="size", column_factor="nodes", fixed={"nps": 4, "nodes": 1}
    )
    assert (found.rows, found.columns, found.fixed) == (("1MiB", "16MiB"), (1, 4), {"nps": 4})
    assert found.cells[0][1] == pytest.approx(16e9, rel=0.01)
    rest = [p for p in points if p.levels != {"size": "1MiB", "nodes": 4, "nps": 4}]
    missing = heat_map(rest, METRIC, row_factor="size", column_factor="nodes", fixed={"nps": 4})
    assert missing.cells[0][1] is None


def test_levels_in_order():
    assert ordered_levels([4, 1, 4.0, 2]) == (1, 2, 4)
    assert ordered_levels(["1MiB", "4k"]) == ("4k", "1MiB")
    assert ordered_levels([True, False]) == (True, False)


def test_geometric_means():
    point = MeasuredPoint({}, {METRIC: (1.0, None, 4.0), "read_bandwidth": (0.0, 1.0)})
    assert geometric_mean(point, METRIC) == pytest.approx(2.0)
    assert geometric_mean(point, "read_bandwidth") == 0
    assert geometric_mean(point, "write_iops") is None


# Scaling


def curve(rate, *, amounts=NODES, **options):
    return sweep({"nodes": amounts}, rate, **options)


def knee_of(rate, **options):
    return scaling(curve(rate, **options), METRIC, "nodes")


def knees(trials, rate, **options):
    return [knee_of(rate, seed=seed, **options) for seed in range(trials)]


@pytest.mark.parametrize("growth", [0.0, 0.4, 1.0])
def test_a_straight_line_rarely_has_a_knee(growth, trials):
    found = knees(trials, lambda nodes: nodes**growth, scatter=0.08)
    assert sum(one.shape is ScalingShape.KNEE for one in found) / trials <= at_most(0.02, trials)
    expected = ScalingShape.FLAT if growth == 0 else ScalingShape.GROWING
    assert sum(one.shape is expected for one in found) / trials > 0.85


@pytest.mark.parametrize("limit", [4, 8, 12.5])
def test_a_knee_is_found_and_held(limit, trials):
    found = knees(trials, lambda nodes: min(nodes, limit), scatter=0.05)
    assert all(one.shape is ScalingShape.KNEE for one in found)
    intervals = [one.knee_interval for one in found if one.knee_interval is not None]
    held = [one.low <= limit <= one.high for one in intervals]
    assert sum(held) / trials >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / trials)


def test_a_soft_approach_is_found(trials):
    found = knees(trials, lambda nodes: nodes / (1 + nodes / 4), scatter=0.03)
    assert all(one.shape is ScalingShape.KNEE for one in found)
    assert np.median([one.knee or math.nan for one in found]) == pytest.approx(4, rel=0.1)
    assert any("saturates" in one.reason for one in found)


def test_a_curve_like_that_of_the_e2000():
    """Peak at 16 nodes for bandwidth, still rising at 32 for read IOPS (one scalable unit)."""
    bandwidth = knee_of(lambda nodes: min(11 * nodes, 150))
    assert (bandwidth.shape, bandwidth.enough) == (ScalingShape.KNEE, 16)
    assert (bandwidth.knee, bandwidth.reason.code) == (pytest.approx(150 / 11, rel=0.1), "knee")
    assert numbers(bandwidth.reason)[-2] == 16
    iops = knee_of(lambda nodes: nodes**0.8)
    assert (iops.shape, iops.enough, iops.reason.code) == (ScalingShape.GROWING, 32, "growing")
    assert (numbers(iops.reason)[:2], iops.growth) == ([1, 32], pytest.approx(0.8, abs=0.05))


def test_beyond_the_peak_it_falls():
    found = knee_of(lambda n: min(n, 8) * max(1, n / 8) ** -0.4)
    assert (found.shape, found.enough) == (ScalingShape.KNEE, 8)
    assert present(found.growth_after) < -0.1
    assert "beyond it falls" in found.reason


def test_a_bend_that_still_pays_is_no_knee():
    found = knee_of(lambda n: min(n, 8) * max(1, n / 8) ** 0.7, scatter=0.01)
    assert (found.shape, found.reason.code) == (ScalingShape.GROWING, "growth-changes")
    assert found.knee is None


def test_a_knee_at_the_end_of_what_was_measured_says_or_more():
    found = knee_of(lambda n: min(n, 16), scatter=0.01)
    assert found.shape is ScalingShape.KNEE
    assert "or more" in found.reason


def test_of_a_time_the_speed_is_looked_at():
    points = curve(lambda nodes: 1 / min(nodes, 8), metric="output_time")
    found = scaling(points, "output_time", "nodes")
    assert (found.shape, found.enough) == (ScalingShape.KNEE, 8)


@pytest.mark.parametrize(
    ("points", "code"),
    [
        (curve(lambda n: n, amounts=(1, 2, 4)), "too-few-amounts"),
        (curve(lambda n: n, rounds=1), "too-few-runs"),
        ([], "too-few-amounts"),
        ([*curve(lambda n: n), UNFINISHED], "unfinished-run"),
    ],
)
def test_what_is_not_enough_for_a_knee(points, code):
    found = scaling(points, METRIC, "nodes")
    assert (found.shape, found.reason.code) == (ScalingShape.CANNOT_TELL, code)


def test_without_scatter_there_is_still_an_answer():
    exact = knee_of(lambda n: min(n, 8), scatter=0.0, drift=0.0)
    assert (exact.shape, exact.knee) == (ScalingShape.KNEE, pytest.approx(8))
    assert knee_of(lambda n: n, scatter=0.0, drift=0.0).shape is ScalingShape.GROWING


@pytest.mark.calibration
@given(st.lists(st.floats(1e3, 1e12), min_size=12, max_size=12), st.integers(2, 3))
def test_any_values_have_an_answer(values, rounds):
    count = len(values) // rounds
    points = [
        MeasuredPoint({"nodes": 2**k}, {METRIC: tuple(values[k * rounds : (k + 1) * rounds])})
        for k in range(count)
    ]
    found = scaling(points, METRIC, "nodes")
    assert found.reason
    if found.knee is not None:
        assert present(found.knee_interval).low <= found.knee * (1 + 1e-9)
        assert found.knee <= present(found.knee_interval).high * (1 + 1e-9)
    analyse_sweep(points)


# All of it


def test_a_whole_sweep():
    points = sweep(
        {"nps": (1, 2, 4), "nodes": NODES, "transfer_size": ("1MiB", "16MiB")},
        lambda nps, nodes, size: min(nodes, 8) * (1.2 if nps == 1 else 1.0),
    )
    found = analyse_sweep(points)
    assert (found.points, found.rounds, found.notes) == (36, 3, ())
    (best,) = found.best
    assert present(best.best)["nps"] == 1
    assert present(found.effects)[METRIC][0].factors == ("nodes",)
    (grid,) = found.maps
    assert ({grid.row_factor, grid.column_factor}, len(grid.cells)) == ({"nps", "nodes"}, 3)
    (scale,) = found.scaling
    assert (scale.factor, scale.fixed["nps"], scale.shape) == ("nodes", 1, ScalingShape.KNEE)


def test_an_empty_sweep():
    found = analyse_sweep([])
    assert (found.best, found.maps) == ((), ())


def test_runs_become_points():
    def run(*values, status=RunStatus.OK, target=None, reason=None):
        samples = tuple(
            Sample(METRIC, value, number, target=target, reason=reason)
            for number, value in enumerate(values)
        )
        return Run("1", "s", "sweep-x", "ior", status, None, samples=samples)

    one, two = {"nodes": 1, "nps": 1}, {"nps": 4, "nodes": 1}
    found = measured_points(
        [
            (one, 0, run(1.0, 2.0, 9.0)),
            (two, 0, run(status=RunStatus.UNFINISHED)),
            (dict(reversed(one.items())), 1, run(3.0)),
            (two, 1, run(5.0, status=RunStatus.FAILED)),
            (one, 2, None),
            (two, 2, run(5.0, reason="cached")),
        ]
    )
    assert [point.levels for point in found] == [one, two]
    values = [figures for point in found for figures in point.values.values()]
    assert values == [(2.0, 3.0, None), (0.0, None, None)]
    assert measured_points([(one, 0, run(5.0, target="OST0000"))])[0].values == {METRIC: (None,)}
    assert measured_points([]) == ()


def test_all_stripes_are_no_amount():
    points = [*curve(lambda n: min(n, 8)), MeasuredPoint({"nodes": -1}, {METRIC: (1e9, 1e9, 1e9)})]
    found = scaling(points, METRIC, "nodes")
    assert (found.shape, found.points[0].amount) == (ScalingShape.KNEE, 1)


# What is said of one pair of settings is the same in table, reason and effects


def behind(a, b):
    return 0.6 if (a, b) == (1, 1) else 1.0


def two_settings(a, b):
    return [
        MeasuredPoint({"size": "1MiB"}, {METRIC: tuple(1e9 * v for v in a)}),
        MeasuredPoint({"size": "4MiB"}, {METRIC: tuple(1e9 * v for v in b)}),
    ]


@pytest.mark.parametrize(("a", "b"), [((1.0, 1.0), (0.40, 0.55)), ((1.0, 1.1), (0.5, 0.56))])
def test_the_interval_that_is_shown_and_the_answer_tell_the_same(a, b):
    """Two rounds leave one degree of freedom: half as fast can be chance."""
    points = two_settings(a, b)
    (best,) = best_settings(points, METRIC)
    other = best.settings[1]
    (effect,) = factor_effects(points, METRIC)
    assert other.may_be_best == (present(other.of_best_interval).high > 1) == (not effect.matters)


@pytest.mark.calibration
@given(
    st.lists(st.floats(0.2, 1.0), min_size=2, max_size=8), st.integers(2, 4), st.integers(0, 10**6)
)
def test_what_may_be_the_best_reaches_it_and_nothing_else(rates, rounds, seed):
    levels = {"one": tuple(range(len(rates)))}
    points = sweep(levels, lambda one: rates[one], rounds=rounds, scatter=0.2, seed=seed)
    (best,) = best_settings(points, METRIC)
    for one in best.settings[1:]:
        assert one.of_best_interval is not None
        assert one.of_best_interval.low <= (one.of_best or 0) <= one.of_best_interval.high
        assert one.may_be_best == (one.of_best_interval.high > 1)
    if len(rates) == 2:
        (effect,) = factor_effects(points, METRIC)
        assert bool(effect.matters) == (not best.settings[1].may_be_best)


def test_of_alike_settings_one_in_twenty_sweeps_leaves_one_out(trials):
    """With two or three settings a one-sided bound alone would do so twice as often."""
    levels = {"one": (1, 2)}
    lost = 0
    for seed in range(trials):
        points = sweep(levels, lambda one: 1.0, rounds=4, seed=seed)
        lost += not best_settings(points, METRIC)[0].runners_up
    assert lost / trials <= at_most(0.05, trials)


@pytest.mark.calibration
def test_settings_told_apart_without_a_factor_that_matters_are_explained():
    """Four settings in two rounds, of which one is behind: Holm's F tests do not see it yet."""
    found = []
    for seed in range(60):
        levels = {"a": (1, 2), "b": (1, 2)}
        points = sweep(levels, behind, rounds=2, scatter=0.1, seed=seed)
        analysis = analyse_sweep(points)
        apart = any(one.may_be_best is False for one in analysis.best[0].settings)
        matters = any(one.matters for one in (analysis.effects or {})[METRIC])
        told = any(note.code == "no-single-factor" for note in analysis.notes)
        assert told == (apart and not matters)
        found.append(told)
    assert any(found)
    assert not all(found)
