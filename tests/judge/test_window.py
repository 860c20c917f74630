"""The window is as long as autocorrelation asks for, and never reaches over a step."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge.frames import KEY, series
from tests.judge.history import START, noise, points
from tests.support.counts import at_most, repetitions
from tests.support.narrow import present
from tests.support.sentences import numbers

from trimtab.base.verdict import VerdictStatus
from trimtab.judge.change import newest_level
from trimtab.judge.series_analysis import judge_series
from trimtab.judge.variability import judge_history

MET, MISSED = VerdictStatus.MET, VerdictStatus.MISSED
DAY_S = 86400.0
SERIES = repetitions(gate=200, soak=2000)


def judged(series_points, level_from=START, **terms):
    return judge_history(
        series_points,
        metric="write_bandwidth",
        probe="p",
        goal=0.08,
        level_from=level_from,
        **terms,
    )


def shares(count, phi, cov):
    """Return the share of ``met`` and of ``missed`` among series of two weeks."""
    statuses = [judged(points(v)).status for v in noise(count, 336, phi=phi, cov=cov, seed=7)]
    return [np.mean([one is status for one in statuses]) for status in (MET, MISSED)]


@pytest.mark.parametrize("phi", [0.5, 0.8])
@pytest.mark.parametrize("count", SERIES)
def test_a_goal_plainly_met_or_missed_is_found_in_spite_of_autocorrelation(phi, count):
    assert shares(count, phi, 0.05)[0] >= 0.85
    assert shares(count, phi, 0.12)[1] >= 0.80


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("count", SERIES)
def test_just_at_the_goal_the_longer_window_claims_neither_side_too_often(phi, count):
    assert max(shares(count, phi, 0.08)) <= at_most(0.025, count)


@pytest.mark.parametrize(("hours", "held"), [(1, 48), (2, 24), (6, 24)])
def test_independent_runs_keep_the_window_that_was_requested(hours, held):
    """Also of rarer runs, of which it holds fewer: they are not autocorrelated."""
    series_points = [points(v, step_s=3600.0 * hours) for v in noise(60, 336, cov=0.05)]
    verdicts = [judged(runs) for runs in series_points]
    kept = [verdict for verdict in verdicts if verdict.cov_of_window is None]
    assert len(kept) >= 55
    assert kept[0].n == held
    assert kept[0].cov_of_window_interval is None


def test_rare_autocorrelated_runs_are_compared_with_their_own_window():
    """48 h of six-hourly runs are too few anyway: the reason names the last 24 runs."""
    verdict = judged(points(noise(1, 120, phi=0.6, cov=0.05)[0], step_s=6 * 3600.0))
    days = present(verdict.window_s) / DAY_S
    assert 8 <= days <= 14
    assert (verdict.n, numbers(verdict.reason)[:2]) == (4 * days, [days, 24])


def test_the_requested_window_stands_beside_the_longer_one():
    runs = points(noise(1, 336, phi=0.6, cov=0.05, seed=3)[0])
    longer, alone = judged(runs), judged(runs, level_from=None)
    days = present(longer.window_s) / DAY_S
    assert days == int(days)
    assert 3 <= days <= 9
    assert (longer.n, alone.n, alone.window_s) == (24 * days, 48, None)
    assert (longer.cov_of_window, longer.cov_of_window_interval) == (alone.cov, alone.cov_interval)
    assert longer.from_ == present(longer.to) - timedelta(hours=24 * days - 1)
    assert numbers(longer.reason)[:2] == [days, 48]
    assert numbers(longer.reason)[2] == pytest.approx(100 * present(alone.cov), rel=0.01)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.5, 0.8, 0.95]),
    st.integers(1, 400),
    st.floats(0.001, 20.0),
)
def test_the_window_follows_from_order_and_times_alone(seed, phi, begin, factor):
    """Never from the spread, and so never from the verdict; within the level, in whole days."""
    values = noise(1, 400, phi=phi, cov=0.01, seed=seed)[0]
    plain, spread = points(values), points(np.maximum(1 + factor * (values - 1), 0.001))
    level_from = START + timedelta(hours=begin)
    window_s = judged(plain, level_from).window_s
    if min(1 + factor * (values - 1)) > 0.001:
        assert judged(spread, level_from).window_s == window_s
    if window_s is not None:
        assert window_s % DAY_S == 0
        assert 2 * DAY_S < window_s <= min(14 * DAY_S, (400 - begin) * 3600.0)


@pytest.mark.parametrize("phi", [0.3, 0.7])
def test_a_step_three_days_ago_is_no_variability(phi):
    """Through the detection of changes: in `judge`, and in the level that `status` takes."""
    for values in noise(6, 28 * 24, phi=phi, cov=0.04, seed=5) * 1e9:
        values[-72:] *= 0.9
        verdict = judge_series(series(values), KEY).verdict
        assert (verdict.window_s or 0.0) <= 3.5 * DAY_S
        assert verdict.status is not MISSED
        runs = points(values)
        level = newest_level([run.at for run in runs], values.tolist())
        assert abs(present(level.since) - runs[-72].at) <= timedelta(days=1)


def test_a_step_would_count_where_the_level_is_not_given():
    """Why a window is not lengthened without: the same series, as if it had one level."""
    values = noise(1, 28 * 24, phi=0.3, cov=0.03, seed=5)[0]
    values[-72:] *= 0.8
    runs = points(values)
    assert present(judged(runs, START).cov) > 0.07
    assert present(judged(runs, runs[-72].at).cov) < 0.04


def test_runs_further_apart_than_the_window_allows_stay_with_their_own():
    """24 daily runs are a longer window than autocorrelation may ask for."""
    verdict = judged(points(noise(1, 60, phi=0.8, seed=4)[0], step_s=DAY_S))
    assert (verdict.n, verdict.cov_of_window) == (24, None)
    assert present(verdict.window_s) > 14 * DAY_S
