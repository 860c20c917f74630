"""Intervals hold what they are said to hold; the full counts stand in docs/calibration.md.

Nominal 95 %. With 400 windows a coverage of 93 % is known to 1.3 %: an interval that truly held in
90 % would pass one case in fifty, and there are twelve of them.
"""

from itertools import product

import numpy as np
import pytest
from tests.calibration.intervals import (
    cov_coverage,
    cov_power,
    ratio_coverage,
    true_cov,
    values_of,
)
from tests.support.counts import repetitions

from trimtab.judge.spread import cov

WINDOWS = repetitions(gate=400, soak=10_000)
PAIRS = repetitions(gate=30, soak=1500)
VERDICTS = repetitions(gate=100, soak=2000)


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("n", [24, 48, 96, 168])
@pytest.mark.parametrize("windows", WINDOWS)
def test_the_interval_of_the_cov_holds_what_it_says_or_is_wider(n, phi, windows):
    found = cov_coverage("normal", n, phi, count=windows)
    assert found.without == 0
    assert found.held >= 0.93
    # Neither a goal just met nor one just missed is claimed much oftener than in 2.5 %.
    assert max(found.over, found.under) <= 0.05


@pytest.mark.parametrize("n", [24, 48])
@pytest.mark.parametrize("windows", WINDOWS)
def test_it_cannot_see_dips_that_the_window_does_not_hold(n, windows):
    """Why docs/calibration.md warns of a COV that a few rare dips make.

    3 % dips in 48 runs: a quarter of the windows hold none, and their interval is of the rest.
    """
    found = cov_coverage("dips", n, 0.0, count=windows)
    assert found.held < 0.8
    assert found.over <= 0.08
    assert found.under > 0.15


@pytest.mark.parametrize("verdicts", VERDICTS)
def test_a_longer_window_answers_where_the_requested_one_cannot(verdicts):
    """Autocorrelation 0.8: with 48 h alone a true COV of 5 % was met in a quarter of windows."""
    found = cov_power(0.8, 0.05, count=verdicts)
    assert found.met >= 0.85 * verdicts
    assert found.met_alone <= 0.45 * verdicts
    assert found.missed == found.missed_alone == 0
    assert 7 <= found.window_days <= 12


def test_the_true_cov_is_that_of_very_long_series():
    rng = np.random.default_rng(4)
    for kind, phi in (("normal", 0.5), ("laplace", 0.0), ("laplace", 0.7), ("dips", 0.5)):
        long = cov(values_of(kind, 200_000, phi, rng).tolist())
        assert long == pytest.approx(true_cov(kind, phi), rel=0.02), (kind, phi)


@pytest.mark.parametrize("pairs", PAIRS)
def test_before_and_after_holds_what_it_says_from_a_week_a_side_on(pairs):
    """Pooled over what noise may be like: 95 % or more, measured; 93 % is what is demanded.

    180 pairs: a coverage of 95.5 % passes in 95 of 100 draws of seeds, one of 90 % in nine.
    """
    noises = product(("normal", "t3", "dips"), (0.5, 0.7))
    held = [ratio_coverage(kind, 168, phi, count=pairs).held for kind, phi in noises]
    assert sum(held) / len(held) >= 0.93


@pytest.mark.parametrize("pairs", PAIRS)
def test_under_twelve_a_side_memory_breaks_it(pairs):
    """Why a short comparison prints what was measured: the exact interval knows no memory."""
    assert ratio_coverage("normal", 8, 0.0, count=4 * pairs).held >= 0.92
    assert ratio_coverage("normal", 8, 0.7, count=4 * pairs).held < 0.75
