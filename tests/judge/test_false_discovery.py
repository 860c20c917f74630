"""Many questions at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trimtab.judge.false_discovery import benjamini_hochberg


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_q_values_are_those_of_benjamini_and_hochberg(p_values):
    q = benjamini_hochberg(np.array(p_values))
    assert q == pytest.approx(stats.false_discovery_control(p_values), abs=1e-12)


def test_no_questions_have_no_answers():
    assert benjamini_hochberg(np.array([])).tolist() == []
