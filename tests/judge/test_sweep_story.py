"""What a sweep says of one pair of settings is the same in table, reason and effects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.sweeps import METRIC, sweep
from tests.support.counts import at_most, series_counts
from tests.support.known import known

from trimtab.judge.best_setting import best_settings, factor_effects
from trimtab.judge.sweep_analysis import analyse_sweep
from trimtab.judge.sweep_result import MeasuredPoint

trials = series_counts(gate=40, soak=1000)


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
    assert other.may_be_best == (known(other.of_best_interval).high > 1) == (not effect.matters)


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
        points = sweep(
            {"a": (1, 2), "b": (1, 2)},
            lambda a, b: 0.6 if (a, b) == (1, 1) else 1.0,
            rounds=2,
            scatter=0.1,
            seed=seed,
        )
        analysis = analyse_sweep(points)
        apart = any(one.may_be_best is False for one in analysis.best[0].settings)
        matters = any(one.matters for one in (analysis.effects or {})[METRIC])
        told = any(note.code == "no-single-factor" for note in analysis.notes)
        assert told == (apart and not matters)
        found.append(told)
    assert any(found)
    assert not all(found)
