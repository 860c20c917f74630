"""The median of numpy, and q-values, against their references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trimtab.judge.array import benjamini_hochberg, median


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
