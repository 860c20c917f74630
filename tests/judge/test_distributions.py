"""The distribution functions written by hand against scipy's, also far out and with many runs."""

import math

import numpy as np
import pytest
from scipy import special, stats
from tests.support.each import for_each

from trimtab.judge.quantile import (
    beta_binomial_above,
    beta_lower,
    binomial_above,
    binomials_above,
    f_above,
    log_gamma,
    normal_lower,
    t_above,
)

COUNTS = tuple((count, of) for of in (1, 12, 300, 50_000) for count in (0, 1, of // 20, of - 1))


@for_each("count", COUNTS)
@for_each("chance", (1e-4, 0.03, 0.5, 0.97))
def test_the_binomial_tail(count, chance):
    hits, of = count
    expected = stats.binom.sf(hits, of, chance)
    assert binomial_above(hits, of, chance) == pytest.approx(expected, rel=1e-9, abs=1e-290)


def test_the_binomial_tail_at_its_ends():
    assert binomial_above(-1, 0, 0.2) == 1.0
    assert binomial_above(5, 5, 0.2) == 0.0
    assert math.isnan(binomial_above(6, 5, 0.2))
    counts, trials = np.array([-1, 2, 2, 5]), np.array([4, 9, 9, 5])
    expected = [binomial_above(count, of, 0.2) for count, of in zip(counts, trials, strict=True)]
    np.testing.assert_array_equal(binomials_above(counts, trials, 0.2), expected)


@for_each("a", (0.2, 1, 9.5, 400, 3e4))
@for_each("b", (0.5, 12, 2500))
@for_each("off", (-0.4, 0.0, 0.4))
def test_the_incomplete_beta_function(a, b, off):
    x = a / (a + b) * (1 + off * min(1, b / a))
    assert beta_lower(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-290)


@for_each("degrees", ((1, 2), (3, 20), (10, 300.5)))
@for_each("value", (0.0, 0.01, 1.0, 4.0, 60.0))
def test_f_and_t(degrees, value):
    assert f_above(value, *degrees) == pytest.approx(special.fdtrc(*degrees, value), rel=1e-11)
    assert t_above(value, degrees[1]) == pytest.approx(stats.t.sf(value, degrees[1]), rel=1e-11)


def test_the_normal_distribution_and_the_gamma_function():
    x = np.linspace(-38, 9, 4001).reshape(-1, 1)
    np.testing.assert_allclose(normal_lower(x), special.ndtr(x), rtol=1e-12, atol=1e-300)
    z = np.geomspace(0.01, 1e5, 2000)
    np.testing.assert_allclose(log_gamma(z), special.gammaln(z), rtol=1e-13, atol=1e-13)


@for_each("likeness", (1e-3, 0.1, 0.9))
@for_each("count", ((1, 2), (3, 30), (30, 30), (40, 365)))
def test_the_beta_binomial_tail(likeness, count):
    hits, of = count
    a, b = ((1 / likeness - 1) * share for share in (0.1, 0.9))
    expected = stats.betabinom.sf(hits - 1, of, a, b)
    assert beta_binomial_above(hits, of, a, b) == pytest.approx(expected, rel=1e-7)
