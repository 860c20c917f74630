from __future__ import annotations

import numpy as np
import pytest

from trimtab.twin.scenario import Gating, Purge, Trim
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
    weight = np.array([2.0, 3.0, 2.0, 1.0])
    assert gate(FULL, NOBODY, weight, gating).tolist() == closed(1)
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
    assert hours[0] == [0]
    assert hours[1] == [1, 2]
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
