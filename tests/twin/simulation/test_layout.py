from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab._core import OstFleet
from trimtab.twin.simulation.miniature import COUNTS, TrailingWindow, table

UNITS = 1000.0


def counts(written, copied, requests=1.0, useless=0.0, considered=0.0):
    """Return the table of one column; loops other than c1 do nothing."""
    rows = dict.fromkeys(COUNTS, 0.0) | {
        "written_units": written,
        "copied_units": copied,
        "requests": requests,
        "useless_c1": useless,
        "considered_c1": considered,
    }
    return np.array([[rows[name]] for name in COUNTS])


_UNITS_WRITTEN = st.one_of(st.just(0.0), st.floats(0.01, 20.0))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(_UNITS_WRITTEN, st.floats(0.0, 40.0)), min_size=1, max_size=260),
)
def test_amplification_is_that_of_a_day_or_of_as_many_as_it_takes_to_write_a_tenth(epochs):
    window = TrailingWindow(counts(0.0, 0.0, requests=0.0), UNITS)
    written, copied, expected = [0.0], [0.0], 1.0
    for more, copies in epochs:
        written.append(written[-1] + more)
        copied.append(copied[-1] + copies)
        window.step(counts(written[-1], copied[-1]))
        for days in (1, 2, 4, 8):
            begin = max(0, len(written) - 1 - 24 * days)
            host = written[-1] - written[begin]
            if host >= UNITS / 10 or days == 8 or len(written) - 1 < 48 * days:
                break
        if host > 0.0:
            expected = 1.0 + (copied[-1] - copied[begin]) / host
        assert window.amplification[0] == pytest.approx(expected)


def test_what_is_looked_at_on_the_way_to_a_hit_is_not_a_walk_in_vain():
    window = TrailingWindow(counts(0.0, 0.0, requests=0.0), UNITS)
    # Ten requests: two went around all 16 groups in vain, the others looked at 40 on their way.
    window.step(counts(100.0, 0.0, requests=10.0, useless=2.0, considered=2 * 16 + 40))
    assert window.useless_per_request()[0] == pytest.approx(0.2)
    assert window.walks_per_request(16)[0] == pytest.approx(0.2)
    # A loop over a list of groups that holds three fails as often, and costs three.
    window = TrailingWindow(counts(0.0, 0.0, requests=0.0), UNITS)
    window.step(counts(100.0, 0.0, requests=10.0, useless=2.0, considered=2 * 3))
    assert window.walks_per_request(16)[0] == pytest.approx(0.6 / 16)


def test_columns_are_added_with_nothing_behind_them():
    window = TrailingWindow(counts(500.0, 500.0), UNITS)
    window.step(counts(600.0, 700.0))
    assert window.amplification.tolist() == [3.0]
    window.add_columns(1)
    window.step(np.hstack([counts(600.0, 700.0), counts(10.0, 5.0)]))
    np.testing.assert_allclose(window.amplification, [3.0, 1.5])


def test_figures_are_the_state_by_their_names():
    fleet = OstFleet(3, spare=0.12, groups=4)
    fleet.fill([0.9, 0.5, 0.7])
    state = fleet.state()
    names = [*reversed(state), "useless_c5", "nothing_c0"]
    made = table(fleet, names)
    assert made[:-2].tolist() == [state[name] for name in reversed(state)]
    assert made[-2:].tolist() == [[0.0] * 3] * 2, "what a layout has no name for"
    assert set(COUNTS) < set(state)


@pytest.mark.parametrize("epoch_s", [600.0, 1800.0, 7200.0, 6 * 3600.0, 86400.0])
def test_the_window_is_a_day_whatever_an_epoch_is(epoch_s):
    window = TrailingWindow(counts(0.0, 0.0, requests=0.0), UNITS, epoch_s)
    # Enough is written each day; each unit costs no copy for ten days, and then one for a day.
    per_epoch, written, copied = UNITS * epoch_s / 86400.0, 0.0, 0.0
    for epoch in range(round(11 * 86400.0 / epoch_s)):
        written += per_epoch
        copied += per_epoch if epoch * epoch_s >= 10 * 86400.0 else 0.0
        window.step(counts(written, copied))
    assert window.passed[0, 0] == pytest.approx(UNITS)
    assert window.amplification[0] == pytest.approx(2.0)
