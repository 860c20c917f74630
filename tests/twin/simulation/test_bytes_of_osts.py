"""Bytes of each OST folded to ranges, and back."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.base.error import UsageError
from trimtab.twin.simulation.ost_array import folded, unfolded


def test_folding_is_undone_by_unfolding() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        values = rng.choice([0.0, 1.0, 7.5, 2.0**31], size=int(rng.integers(1, 40)))
        assert np.array_equal(unfolded(folded(values), len(values)), values)
    for wrong in ("4", "2-1", "-1", "x", "", "0-4"):
        with pytest.raises(UsageError):
            unfolded([(1.0, wrong)], 4)
