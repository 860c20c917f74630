"""Policies of an operator, and the miniature beneath the flow of bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab._core import OstFleet
from trimtab.twin.scenario import Gating, Purge, Trim
from trimtab.twin.simulation.miniature import COUNTS, TrailingWindow, table
from trimtab.twin.simulation.operation import gate, plan_purge, resets_due, trims_due

DAY = 86400.0
NOBODY = np.zeros(4, bool)
FULL = np.array([0.74, 0.76, 0.751, 0.72])


def closed(*columns):
    return [column in columns for column in range(4)]


def test_over_the_limit_an_ost_closes_and_at_the_lower_one_it_opens():
    gating = Gating(enabled=True, limit=0.75, reopen=0.73)
    one = np.ones(4)
    assert gate(FULL, NOBODY, one, gating).tolist() == closed(1, 2)
    was = np.array(closed(0, 1, 3))
    assert gate(FULL, was, one, gating).tolist() == closed(0, 1, 2)
    at = np.array([0.75, 0.73, 0.7300001, 0.0])
    assert gate(at, NOBODY, one, gating).tolist() == closed()
    assert gate(at, np.array(closed(1, 2)), one, gating).tolist() == closed(2)
    assert gate(FULL, was, one, Gating()).tolist() == closed()


def test_a_limit_on_closed_ones_keeps_the_fullest_closed():
    gating = Gating(enabled=True, limit=0.5, reopen=0.4, most_closed=0.5)
    assert gate(FULL, NOBODY, np.ones(4), gating).tolist() == closed(1, 2)
    # Four of eight real OSTs: the fullest column stands for three of them.
    assert gate(FULL, NOBODY, np.array([2.0, 3.0, 2.0, 1.0]), gating).tolist() == closed(1)
    assert gate(FULL, np.ones(4, bool), np.ones(4), gating).tolist() == closed(1, 2)


def test_a_purge_takes_what_is_over_the_target_as_far_as_it_is_old_enough():
    by_day = np.array([50.0, 20.0, 10.0, 5.0, 5.0])
    purge = Purge(enabled=True, target=0.7, min_age_s=2 * DAY)
    assert plan_purge(by_day, 100.0, purge).goal == pytest.approx(20.0)
    assert plan_purge(by_day, 120.0, purge).goal == pytest.approx(6.0)
    assert plan_purge(by_day, 130.0, purge).goal == 0.0
    strict = Purge(enabled=True, target=0.7, min_age_s=2 * DAY, max_age_s=3 * DAY)
    assert plan_purge(by_day, 1000.0, strict).goal == pytest.approx(10.0)
    assert plan_purge(by_day, 100.0, strict).goal == pytest.approx(20.0)
    # Ages are whole days: two days and an hour are three days to be sure.
    later = Purge(enabled=True, target=0.0, min_age_s=2 * DAY + 3600)
    assert plan_purge(by_day, 100.0, later).goal == pytest.approx(10.0)


def test_every_ost_is_trimmed_once_a_night_between_one_and_five():
    trim = Trim(every_s=DAY)
    hours = [trims_due(h * 3600.0, (h + 1) * 3600.0, 8, trim).tolist() for h in range(48)]
    for night in (hours[:24], hours[24:]):
        assert sorted(column for due in night for column in due) == list(range(8))
    # The first is due at one sharp, which belongs to the hour that ends then.
    assert (hours[0], hours[1]) == ([0], [1, 2])
    assert hours[5:24] == [[]] * 19


def test_a_weekly_trim_comes_once_a_week_and_one_of_two_hours_all_day():
    weekly = Trim(every_s=7 * DAY)
    due = [c for h in range(14 * 24) for c in trims_due(h * 3600, (h + 1) * 3600, 5, weekly)]
    assert sorted(due) == sorted([*range(5)] * 2)
    often = Trim(every_s=7200.0)
    due = [c for h in range(24) for c in trims_due(h * 3600, (h + 1) * 3600, 5, often)]
    assert sorted(due) == sorted([*range(5)] * 12)
    assert not len(trims_due(0.0, DAY, 5, Trim()))


def test_resets_of_an_hour_are_four_at_a_quarter_each():
    assert resets_due(0.0, 3600.0, 900.0) == 4
    assert [resets_due(h * 3600, (h + 1) * 3600, 7200.0) for h in range(4)] == [0, 1, 0, 1]
    assert resets_due(0.0, 3600.0, None) == 0


# The window behind a miniature's figures


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
@given(st.lists(st.tuples(_UNITS_WRITTEN, st.floats(0.0, 40.0)), min_size=1, max_size=260))
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
    made = table(fleet, [*reversed(state), "useless_c5", "nothing_c0"])
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
