"""The closed forms are those that were printed, and hold together."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import digamma, lambertw

from trimtab.twin.amplification import amplification, effective_spare, fifo, greedy, separated

TABLE = {
    0.0654: (7.820, 7.001, 7.388, 7.598, 7.707, 7.763, 7.805),
    0.07: (7.318, 6.598, 6.939, 7.124, 7.219, 7.268, 7.305),
    0.10: (5.179, 4.815, 4.990, 5.083, 5.130, 5.154, 5.173),
    0.12: (4.348, 4.092, 4.216, 4.281, 4.314, 4.331, 4.344),
    0.20: (2.693, 2.598, 2.644, 2.668, 2.681, 2.687, 2.691),
    0.28: (1.992, 1.942, 1.967, 1.979, 1.985, 1.988, 1.991),
    0.50: (1.255, 1.239, 1.247, 1.251, 1.253, 1.254, 1.255),
}
UNITS = (64, 128, 256, 512, 1024, 4096)


@pytest.mark.parametrize("spare", TABLE)
def test_the_table(spare: float) -> None:
    first, *rest = TABLE[spare]
    assert fifo(spare) == pytest.approx(first, abs=6e-4)
    for units, printed in zip(UNITS, rest, strict=True):
        assert greedy(spare, units) == pytest.approx(printed, abs=6e-4)


def test_over_provisioning_of_thirty_per_cent_gives_what_xiang_and_kurkoski_print() -> None:
    assert fifo(1 - 1 / 1.3) == pytest.approx(2.36, abs=0.01)


@given(st.floats(0.005, 0.95), st.integers(2, 5000))
def test_they_solve_their_equations_as_scipy_does(spare: float, units: int) -> None:
    a = 1 / (1 - spare)
    assert fifo(spare) == pytest.approx(a / (a + lambertw(-a * math.exp(-a)).real), rel=1e-9)
    if (amplified := greedy(spare, units)) > 1:
        valid = units * (1 - 1 / amplified)
        span = digamma(units + 1) - digamma(valid + 1)
        assert (units - valid) / span == pytest.approx((1 - spare) * units, rel=1e-9)


@given(st.floats(0.02, 0.9), st.integers(2, 2000))
def test_greedy_is_never_worse_than_fifo_and_comes_to_it(spare: float, units: int) -> None:
    assert 1.0 <= greedy(spare, units) <= fifo(spare) * (1 + 1e-9)
    assert greedy(spare, 10**6) == pytest.approx(fifo(spare), rel=1e-3)


@given(st.floats(0.05, 0.5), st.floats(0.2, 1.0))
def test_what_is_trimmed_is_spare(spare: float, live: float) -> None:
    assert effective_spare(spare, 1.0) == pytest.approx(spare)
    assert effective_spare(spare, live) >= spare - 1e-12
    trimmed = amplification("greedy", spare, 256, live)
    assert trimmed == greedy(effective_spare(spare, live), 256)


def test_no_formula_for_cost_benefit() -> None:
    assert amplification("cost-benefit", 0.1, 256) is None


def test_kept_apart_hot_and_cold_are_better_than_all_alike() -> None:
    apart = [separated(0.12, 256, part, 1 - part) for part in (0.4, 0.2, 0.05)]
    assert greedy(0.12, 256) > apart[0] > apart[1] > apart[2] > 1
    assert separated(0.12, 256, 0.5, 0.5) == pytest.approx(greedy(0.12, 256), rel=1e-3)
