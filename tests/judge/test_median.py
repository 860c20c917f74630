import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.judge.median import median


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1))
def test_it_is_numpys_median(values):
    assert median(np.array(values)) == float(np.median(values))


def test_nothing_has_no_middle():
    with pytest.raises(ValueError, match=r"."):
        median(np.array([]))
