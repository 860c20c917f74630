"""What a provisional comparison prints of its interval: what was measured, never better."""

from datetime import timedelta

import numpy as np
import pytest
from tests.calibration.series import START, ar1, lognormal

from trimtab.judge.compare import compare
from trimtab.judge.coverage import (
    MEASURED,
    autocorrelation_of,
    coverage_in_words,
    measured_coverage,
)
from trimtab.model.compare import Basis, Stretch

HOUR = timedelta(hours=1)


def effect(n, phi, *, seed=1, basis=Basis.RUNS):
    rng = np.random.default_rng(seed)
    values = lognormal(ar1(2 * n, phi, rng)).tolist()
    sides = [
        Stretch(tuple(values[k : k + n]), tuple(START + HOUR * (k + place) for place in range(n)))
        for k in (0, n)
    ]
    return compare(*sides, metric="write_bandwidth", basis=basis)


def test_the_next_worse_case_that_was_tried_answers():
    found = measured_coverage(100, 0.4)
    assert found is not None
    assert (found.n, found.autocorrelation) == (96, 0.5)
    assert found.share == MEASURED[96, 0.5]
    exact = measured_coverage(48, 0.3)
    assert exact is not None
    assert (exact.n, exact.autocorrelation) == (48, 0.3)


@pytest.mark.parametrize(("n", "phi"), [(3, 0.0), (48, 0.91), (48, 1.0)])
def test_what_was_not_tried_is_not_said(n, phi):
    assert measured_coverage(n, phi) is None


def test_every_cell_of_the_grid_is_there():
    sizes, memories = {n for n, _ in MEASURED}, {phi for _, phi in MEASURED}
    assert len(MEASURED) == len(sizes) * len(memories)
    assert {12, 48, 168} <= sizes
    assert all(0 < share <= 1 for share in MEASURED.values())


def test_memory_costs_most_where_runs_are_taken_as_independent():
    assert MEASURED[8, 0.0] > 0.9 > 0.75 > MEASURED[8, 0.7]
    assert min(MEASURED[n, phi] for n in (168, 336) for phi in (0.0, 0.3, 0.5, 0.7)) >= 0.92


def test_the_autocorrelation_is_that_of_the_side_that_has_more():
    found = autocorrelation_of(effect(100, 0.7))
    assert found is not None
    assert 0.4 < found < 0.95
    independent = autocorrelation_of(effect(100, 0.0))
    assert independent is not None
    assert independent < 0.3


def test_a_short_comparison_says_what_was_measured_of_it():
    text = coverage_in_words(effect(24, 0.3))
    assert text is not None
    assert "24 runs a side" in text
    assert "95 % that they are made for" in text


def test_under_twelve_a_side_both_truths_are_told():
    text = coverage_in_words(effect(8, 0.0))
    assert text is not None
    assert f"{100 * MEASURED[8, 0.0]:.0f} %" in text
    assert f"{100 * MEASURED[8, 0.5]:.0f} %" in text


def test_a_week_a_side_needs_no_warning_and_repetitions_have_another():
    assert coverage_in_words(effect(168, 0.5)) is None
    assert coverage_in_words(effect(24, 0.5, basis=Basis.REPETITIONS)) is None
