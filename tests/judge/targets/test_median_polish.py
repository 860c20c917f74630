"""Survey and target effects taken out, and what is left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge.targets.fields import field, frame

from trimtab.judge.lower_tail import survey_table
from trimtab.judge.straggler import median_polish


def by_hand(logs):
    """Median polish with loops over rows and columns."""
    left = [list(row) for row in logs]
    for _ in range(200):
        for row in left:
            middle = float(np.median([v for v in row if np.isfinite(v)]))
            row[:] = [v - middle for v in row]
        for column in range(len(left[0])):
            known = [row[column] for row in left if np.isfinite(row[column])]
            middle = float(np.median(known))
            for row in left:
                row[column] -= middle
    return np.array(left)


@pytest.mark.calibration
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 2**31))
def test_it_is_the_polish_by_hand(rows, columns, seed):
    rng = np.random.default_rng(seed)
    values = np.exp(rng.standard_normal((rows, columns)))
    parts = median_polish(values)
    again = (
        parts.whole
        + parts.survey_effects[:, None]
        + parts.target_effects[None, :]
        + parts.residuals
    )
    assert again == pytest.approx(np.log(values))
    # The order of steps may end elsewhere by a little; the sum of what is left must be as small.
    assert np.abs(parts.residuals).sum() <= np.abs(by_hand(np.log(values))).sum() * 1.02 + 1e-2


def test_planted_effects_are_found():
    values = field(60, 50, cov=0.02)
    values[:, 4] *= 0.7
    values[10] *= 0.5
    values[20, 30] *= 0.4
    parts = median_polish(values)
    assert parts.target_effects[4] == pytest.approx(np.log(0.7), abs=0.02)
    assert parts.residuals[20, 30] == pytest.approx(np.log(0.4), abs=0.05)
    assert np.abs(parts.residuals[10]).max() < 0.1
    assert np.abs(parts.residuals[:, 4]).max() < 0.1


def test_a_night_bad_for_one_target_has_the_largest_residual_and_a_slow_target_has_small_ones():
    values = field(40, 30, cov=0.05)
    values[:, 3] *= 0.6
    values[12, 7] *= 0.5
    residuals = median_polish(values).residuals
    spread = 1.4826 * np.median(np.abs(residuals))
    assert np.unravel_index(np.argmin(residuals), residuals.shape) == (12, 7)
    assert residuals[12, 7] < -8 * spread
    assert np.abs(residuals[:, 3]).max() < 5 * spread


def test_a_silent_target_has_no_logarithm_and_pulls_at_no_other():
    values = field(10, 8)
    values[4, 2] = 0.0
    values[6] = 0.0
    values[:, 5] = np.nan
    residuals = median_polish(values).residuals
    assert np.isnan(residuals[4, 2])
    assert np.isnan(residuals[6]).all()
    assert np.isnan(residuals[:, 5]).all()
    assert np.isfinite(residuals).sum() == 70 - 7 - 1


def test_the_table_takes_medians_orders_surveys_and_passes_over_what_is_no_rate():
    values = field(3, 2)
    twice = frame(values).vstack(frame(values * 3)).vstack(frame(values * 2))
    others = twice.vstack(frame(values * 9, metric="read_bandwidth"))
    bad = frame(np.array([[-1.0, np.inf]]))
    table = survey_table(others.vstack(bad).reverse(), "write_bandwidth")
    assert table.runs == ("survey-0", "survey-1", "survey-2")
    assert table.targets == ("OST0000", "OST0001")
    assert table.servers == ("oss0", "oss0")
    assert table.values == pytest.approx(values * 2)
    assert survey_table(frame(values, servers=False), "write_bandwidth").servers == (None, None)
    assert survey_table(frame(values), "rewrite_bandwidth").at == ()
