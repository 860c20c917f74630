"""Targets that are slow repeatedly, and how rarely one is named by chance."""

import numpy as np
import pytest
from scipy import stats
from tests.judge.targets.fields import field, table

from trimtab.judge.straggler import (
    SURVEYS_MINIMUM,
    SlowMarks,
    _beta_binomial_tail,
    marks,
    straggler_p_values,
    stragglers,
)


def names(found):
    return {one.target for one in found}


def test_the_slowest_twentieth_is_marked_and_ties_raise_the_chance():
    values = np.arange(1.0, 41.0)[None, :].repeat(2, axis=0)
    values[1, :10] = 5.0
    found = marks(values)
    assert found.slow[0].nonzero()[0].tolist() == [0, 1]
    assert found.slow[1].nonzero()[0].tolist() == list(range(10))
    assert found.chance == pytest.approx([2 / 40, 10 / 40])


def test_no_mark_where_none_is_slower():
    values = np.array([[3.0, 3.0, 3.0], [1.0, np.nan, np.nan], [np.nan] * 3])
    found = marks(values)
    assert not found.slow.any()
    assert found.chance.tolist() == [0.0, 0.0, 0.0]


def test_a_silent_target_is_the_slowest():
    values = field(1, 40)
    values[0, 17] = 0.0
    assert marks(values, worst=0.02).slow[0].nonzero()[0].tolist() == [17]


def test_p_values_are_close_to_the_binomial_tail_and_not_under_it():
    rng = np.random.default_rng(6)
    slow = rng.random((60, 200)) < 0.05
    found = straggler_p_values(SlowMarks(np.ones_like(slow), slow, np.full(60, 0.05)))
    exact = stats.binom.sf(slow.sum(axis=0) - 1, 60, 0.05)
    likely = exact > 1e-4
    assert (found >= exact * 0.8).all()
    assert found[likely] == pytest.approx(exact[likely], rel=0.5)


def test_stragglers_are_named_the_slowest_first_with_their_figures():
    values = field(30, 60, seed=4)
    values[:, 5] *= 0.7
    values[:, 9] *= 0.6
    values[:20, 9] = np.nan
    values[:, 30] = 0.0
    found = stragglers(table(values))
    assert [one.target for one in found] == ["OST001e", "OST0009", "OST0005"]
    silent, partly, slow = found
    assert (silent.relative, silent.slow, silent.surveys) == (0.0, 30, 30)
    assert partly.surveys == 10
    assert slow.relative == pytest.approx(0.7, abs=0.03)
    assert slow.p_value <= slow.q_value <= 0.05


def test_one_bad_night_and_one_bad_week_make_no_straggler():
    values = field(90, 60, seed=2)
    values[40] *= 0.3
    values[12, 5] *= 0.1
    assert stragglers(table(values)) == ()
    values[50:57, 8] *= 0.5
    # A week is 7 marks of 90 where 4.5 are expected of anybody.
    assert stragglers(table(values)) == ()


def test_few_surveys_name_nobody():
    values = field(SURVEYS_MINIMUM - 1, 40)
    values[:, 3] *= 0.1
    assert stragglers(table(values)) == ()
    assert stragglers(table(np.empty((0, 0)))) == ()


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("surveys", "targets", "phi", "tails"),
    [(30, 274, 0.0, None), (30, 274, 0.8, None), (90, 60, 0.5, 3), (200, 40, 0.8, None)],
)
def test_seldom_is_somebody_named_by_chance(surveys, targets, phi, tails):
    rounds = 25
    alarms = 0
    for seed in range(rounds):
        values = field(surveys, targets, phi=phi, tails=tails, seed=seed)
        values[np.random.default_rng(seed).random(values.shape) < 0.03] = np.nan
        alarms += bool(stragglers(table(values)))
    # 5 % at most are promised: 4 or more of 25 would come by chance in under 4 % of cases.
    assert alarms <= 4


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_a_quarter_less_is_found_and_hardly_anybody_else(phi):
    hits = others = named = 0
    for seed in range(8):
        values = field(30, 274, phi=phi, seed=seed)
        values[:, :3] *= 0.75
        found = names(stragglers(table(values)))
        wanted = {f"OST{place:04x}" for place in range(3)}
        hits, others = hits + len(found & wanted), others + len(found - wanted)
        named += len(found)
    assert hits >= 22
    assert others <= 0.15 * named


@pytest.mark.parametrize("inflation", [1.0, 1.3, 4.0])
def test_the_tail_is_that_of_the_beta_binomial_distribution(inflation):
    """scipy takes it from 1 less the rest, which leaves no digit of what is under 1e-9."""
    n = 60
    likeness = (inflation - 1) / (n - 1)
    for p in (0.01, 0.05, 0.4):
        rest = stats.binom(n, p)
        if likeness:
            rest = stats.betabinom(n, p * (1 / likeness - 1), (1 - p) * (1 / likeness - 1))
        for count in (1, 3, 9, 20, 60):
            expected = rest.sf(count - 1)
            found = _beta_binomial_tail(count, n, p, inflation)
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_the_loss_is_the_loss_now():
    """Over the whole record its median would hide ten bad days of 30, or a recovery."""
    values = field(30, 40, cov=0.01, seed=7)
    values[:20, 5] *= 0.9
    values[20:, 5] *= 0.3
    values[:22, 8] *= 0.8
    found = {one.target: round(one.relative, 1) for one in stragglers(table(values))}
    assert found == {"OST0005": 0.3, "OST0008": 1.0}
