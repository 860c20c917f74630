"""How often verdicts are wrong where the truth is known, and how often they see what is there.

Seeded, so that a result never depends on luck; ``make soak`` takes ten times the series.
Limits leave three standard errors of the reduced count above the rate found with many series.
"""

import math

import numpy as np
import pytest
from tests.judge.history import noise, points
from tests.support.counts import at_most, series_counts
from tests.support.narrow import present

from trimtab.base.verdict import TrendDirection, VerdictStatus
from trimtab.judge import spread
from trimtab.judge.run_verdict import compare_with_earlier
from trimtab.judge.series_level import trend
from trimtab.judge.variability import judge_history

MET, MISSED = VerdictStatus.MET, VerdictStatus.MISSED
NOMINAL = 0.025
trials = series_counts(gate=300, soak=3000)


def shares(series, n):
    """Return the share of `met` and of `missed` among the verdicts of ``series``."""
    statuses = [
        judge_history(
            points(values), metric="write_bandwidth", probe="p", goal=0.08, window_s=n * 3600.0
        ).status
        for values in series
    ]
    return [np.mean([one is status for one in statuses]) for status in (MET, MISSED)]


def held(truth, intervals):
    """Return the share of intervals that hold the truth."""
    return np.mean([one.low <= truth <= one.high for one in intervals])


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("n", [48, 96])
def test_just_at_the_goal_neither_side_is_claimed_too_often(n, phi, trials):
    met, missed = shares(noise(trials, n, phi=phi), n)
    assert missed <= at_most(NOMINAL, trials)
    assert met <= at_most(0.031 if phi > 0.5 else NOMINAL, trials)


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.5, 0.7])
def test_from_the_fewest_runs_that_are_judged(phi, trials):
    """24 runs: the interval itself, since a verdict would need them 1.5 h apart."""
    intervals = [
        present(spread.cov_interval_of_history(values.tolist()))
        for values in noise(trials, 24, phi=phi)
    ]
    assert np.mean([one.low > 0.08 for one in intervals]) <= at_most(NOMINAL, trials)
    under = np.mean([one.high < 0.08 for one in intervals])
    assert under <= at_most(0.038 if phi > 0.5 else NOMINAL, trials)


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_dips_do_not_make_a_verdict_hasty(phi, trials):
    """3 % of the runs 20 % down, all scatter together a COV of 8 %."""
    share, depth = 0.03, 0.2
    dips = noise(trials, 48, seed=2, cov=1.0) > 1.8808 + 1  # the upper 3 % of a normal
    mean = 1 - share * depth
    rest = math.sqrt((0.08 * mean) ** 2 - depth**2 * share * (1 - share))
    met, missed = shares(noise(trials, 48, phi=phi, cov=rest) - depth * dips, 48)
    assert missed <= at_most(NOMINAL, trials)
    assert met <= at_most(0.033, trials)


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_what_is_plain_is_seen(phi, trials):
    assert shares(noise(trials, 96, phi=phi, cov=0.12), 96)[1] > 0.95
    assert shares(noise(trials, 96, phi=phi, cov=0.04), 96)[0] > 0.95


def test_the_plain_interval_would_not_do(trials):
    """Why history has an interval of its own: with memory the plain one is wrong both ways."""
    covs = [present(spread.cov(values.tolist())) for values in noise(trials, 48, phi=0.7)]
    assert held(0.08, [spread.cov_interval(cov, 48) for cov in covs]) < 0.85


@pytest.mark.parametrize("n", [5, 8, 24, 48])
@pytest.mark.parametrize("true", [0.002, 0.08, 0.2, 0.45])
def test_the_plain_interval_covers_independent_numbers(n, true, trials):
    covs = [spread.cov(values.tolist()) for values in noise(trials, n, cov=true, seed=n)]
    intervals = [spread.cov_interval(cov, n) for cov in covs if cov is not None]
    assert 1 - held(true, intervals) <= at_most(0.055, len(intervals))


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.7])
def test_the_mean_of_a_history_is_covered(phi, trials):
    judged = [
        judge_history(points(values), metric="write_bandwidth", probe="p", goal=0.08)
        for values in noise(trials, 48, phi=phi, seed=3)
    ]
    assert 1 - held(1, [present(one.mean_interval) for one in judged]) <= at_most(0.05, trials)


def directions(series, step_s=3600.0):
    return [
        trend(points(values, step_s=step_s), metric="write_bandwidth", probe="p").direction
        for values in series
    ]


def alarms(found):
    return np.mean([one in (TrendDirection.RISING, TrendDirection.FALLING) for one in found])


@pytest.mark.parametrize(("days", "phi"), [(7, 0.0), (14, 0.5), (30, 0.7)])
def test_no_trend_is_rarely_called_one(days, phi, trials):
    count = trials // 3
    found = directions(noise(count, 24 * days, phi=phi, seed=4))
    assert alarms(found) <= at_most(0.05, count)


def test_days_that_resemble_each_other_are_reckoned_with(trials):
    """30 daily values, phi = 0.5: 9 % false alarms, 22 % without the correction."""
    found = directions(noise(trials, 30, phi=0.5, seed=8), step_s=86400.0)
    assert alarms(found) <= at_most(0.09, trials)


def test_a_trend_of_a_third_of_a_per_cent_a_day_is_seen_within_a_month(trials):
    count = trials // 3
    decline = [1 - 0.0033 * hour / 24 for hour in range(720)]
    found = directions(noise(count, 720, phi=0.5, seed=5) * decline)
    assert found.count(TrendDirection.FALLING) / count > 0.9
    assert found.count(TrendDirection.RISING) == 0


def against_earlier(series, factor=1.0):
    """Return the interval of each series' last run, so many times as fast, over its others."""
    compared = [
        compare_with_earlier(
            [factor * values[-1]],
            points(values[:-1], step_s=6 * 3600.0),
            metric="write_bandwidth",
            probe="p",
        )
        for values in series
    ]
    return [present(one.ratio_interval) for one in compared]


@pytest.mark.parametrize("n", [5, 12, 48])
@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_an_unchanged_run_is_rarely_called_unusual(n, phi, trials):
    intervals = against_earlier(noise(trials, n + 1, phi=phi, seed=6 + n))
    assert 1 - held(1, intervals) <= at_most(0.06, trials)


def test_a_run_at_half_the_speed_is_called_unusual(trials):
    intervals = against_earlier(noise(trials, 13, phi=0.5, seed=9), factor=0.5)
    assert np.mean([one.high < 1 for one in intervals]) > 0.97
