"""Survey and target effects taken out, and what is left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge.targets.fields import field, frame

from trimtab.judge.targets.median_polish import median_polish, robust_residuals
from trimtab.judge.targets.table import survey_table


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


def test_a_night_bad_for_one_target_has_a_large_z_and_a_slow_target_has_none():
    values = field(40, 30, cov=0.05)
    values[:, 3] *= 0.6
    values[12, 7] *= 0.5
    found = robust_residuals(frame(values), "write_bandwidth")
    assert found.height == 1200
    worst = found.sort("z").row(0, named=True)
    assert (worst["target"], worst["run"], worst["server"]) == ("OST0007", "survey-12", "oss3")
    assert worst["z"] < -8
    slow = found.filter(found["target"] == "OST0003")
    assert max(abs(z) for z in slow["z"]) < 5
    assert slow["relative"].median() == pytest.approx(0.6, abs=0.03)


def test_a_silent_target_is_kept_and_has_no_logarithm():
    values = field(10, 8)
    values[4, 2] = 0.0
    values[6] = 0.0
    values[:, 5] = np.nan
    found = robust_residuals(frame(values), "write_bandwidth")
    assert found.height == 70
    silent = found.filter((found["run"] == "survey-4") & (found["target"] == "OST0002"))
    assert silent.row(0, named=True)["value"] == 0.0
    assert silent.row(0, named=True)["residual"] is None
    assert silent.row(0, named=True)["relative"] == 0.0
    dark = found.filter(found["run"] == "survey-6")
    assert dark["relative"].null_count() == dark.height == 7


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
