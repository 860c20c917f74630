"""The quantiles written by hand against scipy's."""

import numpy as np
import pytest
from scipy import special
from tests.support.each import for_each

from trimtab.judge.quantile import (
    chi_square_quantile,
    chi_square_quantiles,
    normal_quantile,
    t_quantile,
)

PROBABILITIES = (0.0005, 0.005, 0.025, 0.3, 0.5, 0.9, 0.975, 0.995)
DEGREES = (0.3, 1, 1.7, 2, 4, 7, 23, 47.31, 95, 500, 1e5)


@for_each("degrees", DEGREES)
@for_each("probability", PROBABILITIES)
def test_they_agree_with_scipy(probability, degrees):
    assert normal_quantile(probability) == pytest.approx(special.ndtri(probability), abs=1e-12)
    assert chi_square_quantile(probability, degrees) == pytest.approx(
        special.chdtri(degrees, 1 - probability), rel=1e-9
    )
    assert t_quantile(probability, degrees) == pytest.approx(
        special.stdtrit(degrees, probability), rel=1e-9, abs=1e-12
    )


@for_each("probability", PROBABILITIES)
def test_those_of_many_degrees_agree_with_scipy(probability):
    degrees = np.concatenate([np.geomspace(0.05, 1e4, 300), np.arange(1.0, 100.0)])
    expected = 2 * special.gammaincinv(degrees / 2, probability)
    np.testing.assert_allclose(chi_square_quantiles(probability, degrees), expected, rtol=1e-12)


@pytest.mark.parametrize("function", [chi_square_quantile, t_quantile])
@pytest.mark.parametrize(("probability", "degrees"), [(0, 5), (1, 5), (0.5, 0), (0.5, -1)])
def test_what_has_no_quantile_is_refused(function, probability, degrees):
    with pytest.raises(ValueError, match="no quantile"):
        function(probability, degrees)
