"""Distributions, quantiles, medians and q-values written by hand, against scipy's and numpy's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from tests.support.each import for_each

from trimtab.judge import quantile
from trimtab.judge.array import benjamini_hochberg, median

COUNTS = tuple((count, of) for of in (1, 12, 300, 50_000) for count in (0, 1, of // 20, of - 1))


@for_each("count", COUNTS)
@for_each("chance", (1e-4, 0.03, 0.5, 0.97))
def test_the_binomial_tail(count, chance):
    hits, of = count
    expected = stats.binom.sf(hits, of, chance)
    assert quantile.binomial_above(hits, of, chance) == pytest.approx(
        expected, rel=1e-9, abs=1e-290
    )


def test_the_binomial_tail_at_its_ends():
    assert quantile.binomial_above(-1, 0, 0.2) == 1.0
    assert quantile.binomial_above(5, 5, 0.2) == 0.0
    assert math.isnan(quantile.binomial_above(6, 5, 0.2))
    counts, trials = np.array([-1, 2, 2, 5]), np.array([4, 9, 9, 5])
    expected = [
        quantile.binomial_above(count, of, 0.2) for count, of in zip(counts, trials, strict=True)
    ]
    np.testing.assert_array_equal(quantile.binomials_above(counts, trials, 0.2), expected)


@for_each("a", (0.2, 1, 9.5, 400, 3e4))
@for_each("b", (0.5, 12, 2500))
@for_each("off", (-0.4, 0.0, 0.4))
def test_the_incomplete_beta_function(a, b, off):
    x = a / (a + b) * (1 + off * min(1, b / a))
    assert quantile.beta_lower(x, a, b) == pytest.approx(
        special.betainc(a, b, x), rel=1e-9, abs=1e-290
    )


@for_each("degrees", ((1, 2), (3, 20), (10, 300.5)))
@for_each("value", (0.0, 0.01, 1.0, 4.0, 60.0))
def test_f_and_t(degrees, value):
    assert quantile.f_above(value, *degrees) == pytest.approx(
        special.fdtrc(*degrees, value), rel=1e-11
    )
    assert quantile.t_above(value, degrees[1]) == pytest.approx(
        stats.t.sf(value, degrees[1]), rel=1e-11
    )


def test_the_normal_distribution_and_the_gamma_function():
    x = np.linspace(-38, 9, 4001).reshape(-1, 1)
    np.testing.assert_allclose(quantile.normal_lower(x), special.ndtr(x), rtol=1e-12, atol=1e-300)
    z = np.geomspace(0.01, 1e5, 2000)
    np.testing.assert_allclose(quantile.log_gamma(z), special.gammaln(z), rtol=1e-13, atol=1e-13)


@for_each("likeness", (1e-3, 0.1, 0.9))
@for_each("count", ((1, 2), (3, 30), (30, 30), (40, 365)))
def test_the_beta_binomial_tail(likeness, count):
    hits, of = count
    a, b = ((1 / likeness - 1) * share for share in (0.1, 0.9))
    expected = stats.betabinom.sf(hits - 1, of, a, b)
    assert quantile.beta_binomial_above(hits, of, a, b) == pytest.approx(expected, rel=1e-7)


# Quantiles


PROBABILITIES = (0.0005, 0.005, 0.025, 0.3, 0.5, 0.9, 0.975, 0.995)
DEGREES = (0.3, 1, 1.7, 2, 4, 7, 23, 47.31, 95, 500, 1e5)


@for_each("degrees", DEGREES)
@for_each("probability", PROBABILITIES)
def test_they_agree_with_scipy(probability, degrees):
    assert quantile.normal_quantile(probability) == pytest.approx(
        special.ndtri(probability), abs=1e-12
    )
    assert quantile.chi_square_quantile(probability, degrees) == pytest.approx(
        special.chdtri(degrees, 1 - probability), rel=1e-9
    )
    assert quantile.t_quantile(probability, degrees) == pytest.approx(
        special.stdtrit(degrees, probability), rel=1e-9, abs=1e-12
    )


@for_each("probability", PROBABILITIES)
def test_those_of_many_degrees_agree_with_scipy(probability):
    degrees = np.concatenate([np.geomspace(0.05, 1e4, 300), np.arange(1.0, 100.0)])
    expected = 2 * special.gammaincinv(degrees / 2, probability)
    np.testing.assert_allclose(
        quantile.chi_square_quantiles(probability, degrees), expected, rtol=1e-12
    )


@pytest.mark.parametrize("function", [quantile.chi_square_quantile, quantile.t_quantile])
@pytest.mark.parametrize(("probability", "degrees"), [(0, 5), (1, 5), (0.5, 0), (0.5, -1)])
def test_what_has_no_quantile_is_refused(function, probability, degrees):
    with pytest.raises(ValueError, match="no quantile"):
        function(probability, degrees)


# Medians and q-values


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1))
def test_it_is_numpys_median(values):
    assert median(np.array(values)) == float(np.median(values))


def test_nothing_has_no_middle():
    with pytest.raises(ValueError, match=r"."):
        median(np.array([]))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_q_values_are_those_of_benjamini_and_hochberg(p_values):
    q = benjamini_hochberg(np.array(p_values))
    assert q == pytest.approx(stats.false_discovery_control(p_values), abs=1e-12)


def test_no_hypotheses_have_no_q_values():
    assert benjamini_hochberg(np.array([])).tolist() == []
