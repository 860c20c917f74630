"""Sweeps whose truth is known: best settings, factors, knees, and how often they are wrong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.judge.sweeps import METRIC, sweep
from tests.support.counts import at_most, series_counts
from tests.support.known import known
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
from trimtab.judge.scaling import scaling
from trimtab.judge.sweep_analysis import analyse_sweep, measured_points
from trimtab.judge.sweep_result import MeasuredPoint, ScalingShape

trials = series_counts(gate=40, soak=1000)
NODES = (1, 2, 4, 8, 16, 32)


def figures(point):
    """Return a point's values, which are all there."""
    return tuple(float(value) for value in point.values[METRIC])


# Best settings

SETTINGS = {"nps": (1, 2, 4), "cpt": (4, 8, 16)}


def winner(nps, cpt):
    return 1.3 if (nps, cpt) == (1, 8) else 1.0


def test_the_best_setting_stands_alone_when_it_does():
    (best,) = best_settings(sweep(SETTINGS, winner), METRIC)
    assert best.best == {"nps": 1, "cpt": 8}
    assert best.runners_up == ()
    assert best.reason.code == "best-distinct"
    assert best.degrees == 16
    shares = [one.of_best or math.nan for one in best.settings]
    assert shares == sorted(shares, reverse=True)


def test_the_scatter_is_that_of_a_run(trials):
    squares = [
        fit_blocks(sweep(SETTINGS, winner, seed=s), METRIC).scatter or 0 for s in range(trials)
    ]
    assert np.mean(np.square(squares)) == pytest.approx(0.03**2, rel=0.2)


def test_settings_that_are_alike_are_all_kept():
    (best,) = best_settings(sweep(SETTINGS, lambda *_: 1.0), METRIC)
    assert len(best.runners_up) >= 6
    assert best.reason.code == "best-tied"
    assert numbers(best.reason)[0] == len(best.runners_up)


@pytest.mark.parametrize("rounds", [2, 3, 6])
def test_the_truly_best_is_rarely_left_out(rounds, trials):
    """Two settings are the best by a hair over one; the rest are far behind."""

    def rate(nps, cpt):
        return {(1, 8): 1.0, (1, 4): 0.999}.get((nps, cpt), 0.9)

    lost = 0
    for seed in range(trials):
        (best,) = best_settings(sweep(SETTINGS, rate, rounds=rounds, seed=seed), METRIC)
        own = next(one for one in best.settings if one.levels == {"nps": 1, "cpt": 8})
        lost += not own.may_be_best
    assert lost / trials <= at_most(0.05, trials)


def test_what_is_worse_by_six_scatters_is_told_apart(trials):
    found = sum(
        not best_settings(sweep(SETTINGS, winner, scatter=0.05, seed=seed), METRIC)[0].runners_up
        for seed in range(trials)
    )
    assert found / trials > 0.95


def test_a_slow_round_is_nobodys_fault():
    points = sweep(SETTINGS, winner, drift=0.0)
    slowed = [
        MeasuredPoint(p.levels, {METRIC: (figures(p)[0] * 0.5, *p.values[METRIC][1:])})
        for p in points
    ]
    calm, stormy = (best_settings(one, METRIC)[0] for one in (points, slowed))
    assert [one.levels for one in calm.settings] == [one.levels for one in stormy.settings]
    assert stormy.scatter == pytest.approx(calm.scatter)
    for one, other in zip(calm.settings, stormy.settings, strict=True):
        assert one.of_best == pytest.approx(other.of_best)


def test_a_setting_that_missed_the_fast_round_is_not_worse_for_it():
    points = sweep(SETTINGS, lambda *_: 1.0, scatter=0.001, drift=0.0)
    points = [
        MeasuredPoint(p.levels, {METRIC: (2 * figures(p)[0], *p.values[METRIC][1:])})
        for p in points
    ]
    points[0] = MeasuredPoint(points[0].levels, {METRIC: (None, *points[0].values[METRIC][1:])})
    (best,) = best_settings(points, METRIC)
    own = next(one for one in best.settings if one.levels == points[0].levels)
    assert own.n == 2
    assert own.of_best == pytest.approx(1.0, abs=0.01)


def test_rounds_are_taken_out_as_least_squares_would():
    """Against a plain design of indicators, holes and all."""
    rng = np.random.default_rng(4)
    points = sweep(SETTINGS, winner, rounds=4)
    points = [
        MeasuredPoint(
            p.levels, {METRIC: tuple(v if rng.random() > 0.3 else None for v in p.values[METRIC])}
        )
        for p in points
    ]
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
    covariance = np.linalg.inv(design.T @ design) * known(found.scatter) ** 2
    for other in range(1, len(found.points)):
        assert found.effects[0] - found.effects[other] == pytest.approx(
            solution[0] - solution[other]
        )
        error = covariance[0, 0] + covariance[other, other] - 2 * covariance[0, other]
        assert found.error(0, other) == pytest.approx(math.sqrt(error))


def test_one_round_tells_nothing_of_chance():
    (best,) = best_settings(sweep(SETTINGS, winner, rounds=1), METRIC)
    assert best.best is not None
    assert all(one.may_be_best is None for one in best.settings[1:])
    assert best.reason.code == "one-round"
    notes = analyse_sweep(sweep(SETTINGS, winner, rounds=1)).notes
    assert [note.code for note in notes] == ["one-round"]


def test_settings_that_failed_are_not_best_and_are_listed():
    points = sweep(SETTINGS, winner)
    points[0] = MeasuredPoint(points[0].levels, {METRIC: (9e9, 0.0, 9e9)})
    points[1] = MeasuredPoint(points[1].levels, {METRIC: (None, None, None)})
    points[2] = MeasuredPoint(points[2].levels, {})
    (best,) = best_settings(points, METRIC)
    last = best.settings[-3:]
    codes = [code_of(setting.reason) for setting in last]
    assert codes == ["unfinished-run", "not-measured", "not-measured"]
    assert [one.may_be_best for one in last] == [False, None, None]
    assert all(one.middle is None for one in last)
    (none,) = best_settings(points[:3], METRIC)
    assert none.best is None
    assert best_settings([], METRIC) == ()


def test_workloads_have_a_best_each():
    levels = {"size": ("4KiB", "16MiB"), "nps": (1, 4)}
    points = sweep(levels, lambda size, nps: 1.5 if (size == "4KiB") == (nps == 4) else 1.0)
    found = best_settings(points, METRIC, workload=("size",))
    assert [(one.workload["size"], (one.best or {})["nps"]) for one in found] == [
        ("4KiB", 4),
        ("16MiB", 1),
    ]


def test_of_a_time_the_least_is_best():
    points = sweep(SETTINGS, lambda nps, cpt: 1 / winner(nps, cpt), metric="output_time")
    (best,) = best_settings(points, "output_time")
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
    assert [dict(one.workload) for one in found.best] == [
        {"checksums": "on"},
        {"checksums": "off"},
    ]
    assert all(one.best is not None and one.best["nps"] == 1 for one in found.best)
    assert found.effects is not None
    cost = next(one for one in found.effects[METRIC] if one.factors == ("checksums",))
    assert cost.ratio == pytest.approx(1.25, rel=0.05)
    assert [note.code for note in found.notes] == ["protection"]
    assert "checksums" in found.notes[0]


def test_equal_values_are_equal():
    points = sweep(SETTINGS, lambda *_: 1.0, scatter=0.0, drift=0.0)
    (best,) = best_settings(points, METRIC)
    assert len(best.runners_up) == 8
    points = sweep(SETTINGS, winner, scatter=0.0, drift=0.0)
    assert best_settings(points, METRIC)[0].runners_up == ()


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
    assert dunnett_quantile(0.95, count, degrees) == pytest.approx(
        np.quantile(largest, 0.95), rel=0.02
    )


def test_dunnett_of_one_difference_is_student():
    for degrees in (1, 2, 4, 30):
        assert dunnett_quantile(0.95, 1, degrees) == pytest.approx(
            stats.t.ppf(0.95, degrees), rel=5e-3
        )


# Factors


def test_what_matters_and_what_does_not():
    points = sweep(
        {"nodes": (1, 2, 4), "nps": (1, 4), "colour": ("a", "b")},
        lambda nodes, nps, _: nodes * (1.1 if nps == 1 else 1.0),
        seed=2,
    )
    effects = {one.factors: one for one in factor_effects(points, METRIC)}
    assert effects["nodes",].matters
    assert effects["nodes",].share > 0.9
    assert effects["nodes",].ratio == pytest.approx(4, rel=0.05)
    assert effects["nps",].matters
    assert effects["nps",].ratio == pytest.approx(1.1, abs=0.03)
    assert not effects["colour",].matters
    assert not effects["nodes", "nps"].matters
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
    alarms = sum(
        any(
            one.matters
            for one in factor_effects(sweep(SETTINGS, lambda *_: 1.0, seed=seed), METRIC)
        )
        for seed in range(trials)
    )
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
    assert found.rows == ("1MiB", "16MiB")
    assert found.columns == (1, 4)
    assert found.fixed == {"nps": 4}
    assert found.cells[0][1] == pytest.approx(16e9, rel=0.01)
    missing = heat_map(
        [p for p in points if p.levels != {"size": "1MiB", "nodes": 4, "nps": 4}],
        METRIC,
        row_factor="size",
        column_factor="nodes",
        fixed={"nps": 4},
    )
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


def knees(trials, rate, **options):
    return [scaling(curve(rate, seed=seed, **options), METRIC, "nodes") for seed in range(trials)]


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
    held = [
        one.knee_interval.low <= limit <= one.knee_interval.high
        for one in found
        if one.knee_interval is not None
    ]
    assert sum(held) / trials >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / trials)


def test_a_soft_approach_is_found(trials):
    found = knees(trials, lambda nodes: nodes / (1 + nodes / 4), scatter=0.03)
    assert all(one.shape is ScalingShape.KNEE for one in found)
    assert np.median([one.knee or math.nan for one in found]) == pytest.approx(4, rel=0.1)
    assert any("saturates" in one.reason for one in found)


def test_a_curve_like_that_of_the_e2000():
    """Peak at 16 nodes for bandwidth, still rising at 32 for read IOPS (one scalable unit)."""
    bandwidth = scaling(curve(lambda nodes: min(11 * nodes, 150)), METRIC, "nodes")
    assert bandwidth.shape is ScalingShape.KNEE
    assert bandwidth.enough == 16
    assert bandwidth.knee == pytest.approx(150 / 11, rel=0.1)
    assert bandwidth.reason.code == "knee"
    assert numbers(bandwidth.reason)[-2] == 16
    iops = scaling(curve(lambda nodes: nodes**0.8), METRIC, "nodes")
    assert iops.shape is ScalingShape.GROWING
    assert iops.enough == 32
    assert iops.reason.code == "growing"
    assert numbers(iops.reason)[:2] == [1, 32]
    assert iops.growth == pytest.approx(0.8, abs=0.05)


def test_beyond_the_peak_it_falls():
    found = scaling(curve(lambda n: min(n, 8) * max(1, n / 8) ** -0.4), METRIC, "nodes")
    assert found.shape is ScalingShape.KNEE
    assert found.enough == 8
    assert known(found.growth_after) < -0.1
    assert "beyond it falls" in found.reason


def test_a_bend_that_still_pays_is_no_knee():
    found = scaling(
        curve(lambda n: min(n, 8) * max(1, n / 8) ** 0.7, scatter=0.01), METRIC, "nodes"
    )
    assert found.shape is ScalingShape.GROWING
    assert found.reason.code == "growth-changes"
    assert found.knee is None


def test_a_knee_at_the_end_of_what_was_measured_says_or_more():
    found = scaling(curve(lambda n: min(n, 16), scatter=0.01), METRIC, "nodes")
    assert found.shape is ScalingShape.KNEE
    assert "or more" in found.reason


def test_of_a_time_the_speed_is_looked_at():
    points = curve(lambda nodes: 1 / min(nodes, 8), metric="output_time")
    found = scaling(points, "output_time", "nodes")
    assert found.shape is ScalingShape.KNEE
    assert found.enough == 8


@pytest.mark.parametrize(
    ("points", "code"),
    [
        (curve(lambda n: n, amounts=(1, 2, 4)), "too-few-amounts"),
        (curve(lambda n: n, rounds=1), "too-few-runs"),
        ([], "too-few-amounts"),
        (
            [*curve(lambda n: n), MeasuredPoint({"nodes": 64}, {METRIC: (0.0, 1.0, 1.0)})],
            "unfinished-run",
        ),
    ],
)
def test_what_is_not_enough_for_a_knee(points, code):
    found = scaling(points, METRIC, "nodes")
    assert found.shape is ScalingShape.CANNOT_TELL
    assert found.reason.code == code


def test_without_scatter_there_is_still_an_answer():
    exact = scaling(curve(lambda n: min(n, 8), scatter=0.0, drift=0.0), METRIC, "nodes")
    assert exact.shape is ScalingShape.KNEE
    assert exact.knee == pytest.approx(8)
    line = scaling(curve(lambda n: n, scatter=0.0, drift=0.0), METRIC, "nodes")
    assert line.shape is ScalingShape.GROWING


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
        assert known(found.knee_interval).low <= found.knee * (1 + 1e-9)
        assert found.knee <= known(found.knee_interval).high * (1 + 1e-9)
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
    assert known(best.best)["nps"] == 1
    assert known(found.effects)[METRIC][0].factors == ("nodes",)
    (grid,) = found.maps
    assert {grid.row_factor, grid.column_factor} == {"nps", "nodes"}
    assert len(grid.cells) == 3
    (scale,) = found.scaling
    assert scale.factor == "nodes"
    assert scale.fixed["nps"] == 1
    assert scale.shape is ScalingShape.KNEE


def test_an_empty_sweep():
    found = analyse_sweep([])
    assert found.best == ()
    assert found.maps == ()


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
    assert [figures for point in found for figures in point.values.values()] == [
        (2.0, 3.0, None),
        (0.0, None, None),
    ]
    assert measured_points([(one, 0, run(5.0, target="OST0000"))])[0].values == {METRIC: (None,)}
    assert measured_points([]) == ()


def test_all_stripes_are_no_amount():
    points = [*curve(lambda n: min(n, 8)), MeasuredPoint({"nodes": -1}, {METRIC: (1e9, 1e9, 1e9)})]
    found = scaling(points, METRIC, "nodes")
    assert found.shape is ScalingShape.KNEE
    assert found.points[0].amount == 1
