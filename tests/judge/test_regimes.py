"""Stretches between confirmed changes."""

import pytest
from tests.judge.frames import change, hour, series

from trimtab.base.series import ChangeStatus
from trimtab.judge.series_analysis import confirmed_times, regimes
from trimtab.judge.spread import cov


def test_a_change_is_the_first_run_of_the_next_stretch():
    values = [10.0, 11.0, 12.0, 20.0, 22.0]
    first, second = regimes(series(values, unfinished={1}), [hour(3)])
    assert (first.from_, first.to, first.n, first.unfinished) == (hour(0), hour(2), 3, 1)
    assert (first.median, first.mean, first.cov) == (11.0, 11.0, cov([10.0, 12.0]))
    assert (second.from_, second.to, second.n, second.unfinished) == (hour(3), hour(4), 2, 0)
    assert second.mean == 21.0


def test_changes_outside_or_without_runs_between_make_no_empty_stretch():
    frame = series([1.0, 2.0, 3.0, 4.0], gaps={2})
    found = regimes(frame, [hour(-5), hour(0), hour(1.2), hour(1.5), hour(9)])
    assert [(one.from_, one.n) for one in found] == [(hour(0), 2), (hour(3), 1)]


def test_a_stretch_of_unfinished_runs_has_no_level():
    found = regimes(series([1.0] * 4, unfinished={2, 3}), [hour(2)])
    assert (found[1].median, found[1].mean, found[1].cov) == (None, None, None)
    assert found[1].unfinished == 2


def test_nothing_has_no_regime():
    assert regimes(series([]), [hour(1)]) == ()


def test_only_what_is_confirmed_and_not_dismissed_counts():
    points = [
        change(30, 1.0, 0.8),
        change(10, 1.0, 0.9),
        change(20, 1.0, 0.9, status=ChangeStatus.SUSPECT),
        change(25, 1.0, 0.9, dismissed_at=hour(60)),
    ]
    assert confirmed_times(points) == (hour(10), hour(30))


def test_the_mean_of_all_regimes_is_that_of_the_series():
    values = [float(value) for value in range(1, 30)]
    found = regimes(series(values), [hour(7), hour(20)])
    total = sum((one.mean or 0.0) * one.n for one in found)
    assert total / 29 == pytest.approx(15.0)
