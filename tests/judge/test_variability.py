"""Verdicts: what the words say, what is missing, and the edges of the window."""

import dataclasses
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judge.frames import mira_reads
from tests.judge.history import noise, points, with_cov
from tests.support.narrow import present
from tests.support.sentences import numbers

from trimtab.base.verdict import HistoryPoint, Interval, Scope, VerdictStatus
from trimtab.judge.variability import judge_history, judge_repetitions

MET, MISSED, CANNOT_TELL = VerdictStatus.MET, VerdictStatus.MISSED, VerdictStatus.CANNOT_TELL
HOUR_S = 3600.0


def repetitions(values, **more):
    return judge_repetitions(values, metric="write_bandwidth", probe="check", goal=0.08, **more)


def history(series, metric="write_bandwidth", goal=0.08, **more):
    return judge_history(series, metric=metric, probe="check", goal=goal, **more)


# --- repetitions


@given(st.lists(st.floats(0, 1e12), max_size=20))
def test_repetitions_never_meet_or_miss_the_goal(values):
    verdict = repetitions(values)
    assert (verdict.status, verdict.scope) == (CANNOT_TELL, Scope.REPETITIONS)
    assert verdict.n == len(values)
    assert verdict.reason


def test_five_repetitions_have_all_their_numbers():
    verdict = repetitions([98.0, 99.0, 100.0, 101.0, 102.0])
    assert (verdict.mean, verdict.median, verdict.slowest, verdict.goal) == (100, 100, 98, 0.08)
    assert (verdict.cov, verdict.mad_cv) == (pytest.approx(0.0158114), pytest.approx(0.014826))
    assert present(verdict.cov_interval).low < 0.0158114 < present(verdict.cov_interval).high
    assert present(verdict.mean_interval).low == pytest.approx(100 - 2.776445 * (2.5 / 5) ** 0.5)
    assert (verdict.unit, verdict.reason.code) == ("B/s", "repetitions-only")
    assert numbers(verdict.reason)[-1] == 8


def test_no_one_and_two_repetitions():
    none, one, two = repetitions([]), repetitions([5.0]), repetitions([4.0, 6.0])
    assert none.mean is none.median is none.slowest is none.cov is none.mean_interval is None
    assert none.reason.code == "no-repetition"
    assert (one.mean, one.median, one.slowest) == (5, 5, 5)
    assert one.cov is one.cov_interval is one.mad_cv is one.mean_interval is None
    assert one.reason.code == "one-repetition"
    assert two.cov == pytest.approx(0.2828427)
    assert present(two.cov_interval).high > 1  # two numbers exclude next to nothing


def test_repetitions_that_moved_nothing_have_no_cov():
    verdict = repetitions([0.0, 0.0, 0.0])
    assert verdict.cov is verdict.cov_interval is None
    assert verdict.reason.code == "mean-zero"


def test_what_was_not_believed_is_said_first():
    some = repetitions([1.0, 2.0], disbelieved=["too short", "cached", "cached"])
    assert (some.reason.code, numbers(some.reason)[:3]) == ("repetitions-only", [3, 5, 1])
    assert "cached" in some.reason
    assert "too short" not in some.reason
    for count, figures in ((5, [5]), (1, [])):
        none = repetitions([], disbelieved=["cached"] * count)
        assert none.reason.code == "no-believed-repetition"
        assert none.reason.endswith(": cached")
        assert numbers(none.reason) == figures


def test_the_slowest_of_a_time_is_the_longest():
    verdict = judge_repetitions([1.0, 3.0, 2.0], metric="output_time", probe="wrf", goal=0.08)
    assert (verdict.slowest, verdict.unit) == (3.0, "s")


# --- history: the three answers


@pytest.mark.parametrize(
    ("cov", "status", "code"),
    [
        (0.04, MET, "goal-met"),
        (0.06, MET, "goal-met"),
        (0.07, CANNOT_TELL, "goal-in-interval"),
        (0.09, CANNOT_TELL, "goal-in-interval"),
        (0.11, MISSED, "goal-missed"),
    ],
)
def test_48_hourly_runs(cov, status, code):
    verdict = history(points(with_cov(48, cov)))
    assert (verdict.status, verdict.reason.code, verdict.scope) == (status, code, Scope.HISTORY)
    assert (verdict.n, verdict.unfinished, verdict.cov) == (48, 0, pytest.approx(cov))
    assert verdict.cov_finished == pytest.approx(cov)
    assert present(verdict.cov_interval).low < cov < present(verdict.cov_interval).high
    assert numbers(verdict.reason)[0] == pytest.approx(100 * cov)
    assert numbers(verdict.reason)[3:] == [8, 48]


@given(st.lists(st.floats(0, 1e12), min_size=30, max_size=60), st.floats(0.001, 0.5))
def test_status_is_where_the_interval_lies(values, goal):
    verdict = history(points(values, step_s=1.5 * HOUR_S), goal=goal, window_s=200 * HOUR_S)
    interval = verdict.cov_interval
    is_met = interval is not None and interval.high <= goal
    is_missed = interval is not None and interval.low > goal
    assert verdict.status is (MET if is_met else MISSED if is_missed else CANNOT_TELL)


# --- history: what is missing


@pytest.mark.parametrize(
    ("n", "step_h", "span_h", "lacking"),
    [(23, 2, 44, [1]), (24, 1, 23, [13]), (1, 1, 0, [23, 36]), (0, 1, 0, [24, 36])],
)
def test_too_little_history_says_what_is_missing(n, step_h, span_h, lacking):
    verdict = history(points(with_cov(50, 0.02)[:n], step_s=step_h * HOUR_S))
    assert (verdict.status, verdict.reason.code) == (CANNOT_TELL, "too-few-runs")
    assert (numbers(verdict.reason), verdict.n) == ([n, span_h, 48, 24, 36, *lacking], n)


def test_24_runs_over_exactly_36_hours_are_enough():
    steps_s = 36 * HOUR_S / 23
    assert history(points(with_cov(24, 0.02), step_s=steps_s)).status is MET
    assert history(points(with_cov(24, 0.02), step_s=steps_s - 1)).status is CANNOT_TELL


def test_runs_back_to_back_do_not_make_a_history():
    burst = points(with_cov(40, 0.002), step_s=60)
    later = dataclasses.replace(burst[0], at=points([1] * 40)[-1].at, run="later")
    verdict = history([*burst, later])
    assert (verdict.status, verdict.reason.code) == (CANNOT_TELL, "too-few-runs")
    assert numbers(verdict.reason) == [41, 39, 48, 4, 15, 24, 36, 20]


def test_a_window_that_can_never_hold_enough_is_named():
    verdict = history(points(with_cov(48, 0.02)), window_s=24 * HOUR_S)
    assert (verdict.status, verdict.reason.code) == (CANNOT_TELL, "window-too-short")
    assert numbers(verdict.reason) == [24, 24, 36]


# --- history: the window


def test_the_window_ends_with_the_last_run_and_leaves_out_its_beginning():
    series = points([1.0, *([9.0] * 200), *with_cov(48, 0.05)])
    verdict = history(series)
    assert (verdict.n, verdict.from_, verdict.to) == (48, series[-48].at, series[-1].at)
    assert verdict.cov == pytest.approx(0.05)


@given(st.randoms(use_true_random=False))
def test_order_and_doubles_change_nothing(shuffler: random.Random):
    series = points(with_cov(60, 0.07))
    mixed = series + series[10:30] + points([5.0] * 9, metric="read_bandwidth")
    shuffler.shuffle(mixed)
    assert history(mixed) == history(series)


def test_two_runs_at_the_same_moment_both_count():
    series = points(with_cov(48, 0.02))
    assert history([*series, dataclasses.replace(series[-1], run="other")]).n == 49


# --- history: unfinished runs, zeros, constants


def test_an_unfinished_run_counts_as_0():
    series = points(with_cov(48, 0.02), unfinished={7, 20, 33})
    verdict = history(series)
    plain = history([dataclasses.replace(p, unfinished=False) for p in series])
    assert (verdict.status, verdict.unfinished, verdict.slowest) == (MISSED, 3, 0)
    assert (verdict.cov, verdict.cov_finished) == (plain.cov, pytest.approx(0.02, rel=0.2))
    assert numbers(verdict.reason)[-2:] == [3, 0]


def test_a_value_beside_an_unfinished_run_is_not_used():
    series = points(with_cov(48, 0.02), unfinished={7})
    told = [dataclasses.replace(p, value=1e9) if p.unfinished else p for p in series]
    assert history(told) == history(series)


def test_one_event_is_too_few_to_tell_but_is_seen():
    verdict = history(points(with_cov(48, 0.02), unfinished={7}))
    assert present(verdict.cov) > 0.08
    assert verdict.status is CANNOT_TELL


def test_nothing_finished():
    verdict = history(points([1.0] * 48, unfinished=set(range(48))))
    assert (verdict.status, verdict.reason.code) == (MISSED, "none-finished")
    assert verdict.cov is verdict.cov_interval is verdict.cov_finished is verdict.mad_cv is None
    assert (verdict.mean, verdict.unfinished) == (0, 48)


def test_finished_runs_of_0_have_no_cov():
    verdict = history(points([0.0] * 48))
    assert (verdict.status, verdict.reason.code) == (CANNOT_TELL, "mean-zero")


def test_a_constant_series_is_met_and_wondered_at():
    verdict = history(points([0.1] * 48))
    assert (verdict.status, verdict.cov, verdict.cov_interval) == (MET, 0, Interval(0.0, 0.0))
    assert verdict.reason.code == "constant-values"


def test_an_unfinished_run_is_no_short_time():
    steady = with_cov(48, 0.02)
    series = points(steady, metric="output_time", unfinished={7})
    verdict = history(series, metric="output_time")
    assert (verdict.status, verdict.n, verdict.unfinished) == (CANNOT_TELL, 47, 1)
    assert verdict.slowest == max(steady[:7] + steady[8:])
    assert (verdict.reason.code, numbers(verdict.reason)[-1]) == ("unfinished-not-counted", 1)
    wild = points(with_cov(48, 0.2), metric="output_time", unfinished={7})
    assert history(wild, metric="output_time").status is MISSED
    hung = points(steady, metric="output_time", unfinished=set(range(48)))
    assert history(hung, metric="output_time").status is CANNOT_TELL


def test_a_series_that_drifts_slowly_has_few_independent_runs():
    verdict = history(points(1 + 0.15 * (i // 6 % 2) for i in range(96)), window_s=96 * HOUR_S)
    assert (verdict.status, verdict.reason.code) == (CANNOT_TELL, "goal-in-interval")
    *_, runs, independent = numbers(verdict.reason)
    assert runs == 96
    assert independent < 48


@pytest.mark.parametrize(
    ("values", "unfinished", "why"),
    [
        ([1 + 0.05 * (i // 12 % 2) for i in range(48)], (), "autocorrelated"),
        (with_cov(48, 0.02), {7}, "outliers"),
    ],
)
def test_an_interval_that_says_nothing_is_not_printed(values, unfinished, why):
    """Such as 7 to 502 %: the words give how many independent runs there are, JSON the ends."""
    verdict = history(points(values, unfinished=unfinished))
    interval = present(verdict.cov_interval)
    assert interval.high > 8 * interval.low
    assert (verdict.status, verdict.reason.code) == (CANNOT_TELL, "too-few-independent-runs")
    assert numbers(verdict.reason) == [48, 2, *((1, 0) if unfinished else ())]
    assert why in verdict.reason
    assert "%" not in verdict.reason


def test_a_wide_interval_on_one_side_of_the_goal_gives_its_near_end():
    drifting = [1 + 0.05 * (i // 12 % 2) for i in range(48)]
    missed, met = (history(points(drifting), goal=goal) for goal in (0.001, 5.0))
    assert (missed.status, missed.reason.code) == (MISSED, "goal-missed")
    assert (met.status, met.reason.code) == (MET, "goal-met")
    low, high = present(missed.cov_interval).low, present(met.cov_interval).high
    assert numbers(missed.reason)[1] == pytest.approx(100 * low, rel=0.01)
    assert numbers(met.reason)[1] == pytest.approx(100 * high, rel=0.01)
    assert " to " not in missed.reason + met.reason


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(ValueError, match="cannot be judged"):
        history(points([1.0, bad]))
    with pytest.raises(ValueError, match="cannot be judged"):
        repetitions([1.0, bad])


def test_an_unknown_metric_is_refused():
    with pytest.raises(KeyError):
        judge_repetitions([1.0], metric="speed", probe="p", goal=0.08)


# --- a real year


def test_a_real_year_of_daily_reads_is_uneven_through_few_bad_days():
    """HACC-IO reads on Mira, 2017: COV 20 % against a MAD-CV of 2.5 % [TOKIO, SC18]."""
    series = [
        HistoryPoint(at, "read_bandwidth", value, False, f"run-{place}")
        for place, (at, value) in enumerate(mira_reads().iter_rows())
    ]
    verdict = history(series, metric="read_bandwidth", window_s=400 * 86400.0)
    assert verdict.n > 300
    assert (verdict.status, verdict.cov) == (MISSED, pytest.approx(0.20, abs=0.01))
    assert verdict.mad_cv == pytest.approx(0.025, abs=0.002)


@pytest.mark.parametrize("days", [1.0, 2.0])
def test_a_probe_of_every_day_gets_its_verdict_over_24_runs(days):
    """48 hours hold two daily runs: the window is as long as 24 of them take, at most 60 days."""
    values = noise(1, 60, cov=0.03, seed=4)[0]
    verdict = history(points(values, step_s=days * 86400.0))
    assert (verdict.status, verdict.n) == (VerdictStatus.MET, 24)
    assert verdict.reason.startswith("over the last 24 runs,")
    assert "48 h hold too few runs of this probe" in verdict.reason


def test_runs_of_more_than_two_months_are_no_window():
    values = noise(1, 60, cov=0.03, seed=4)[0]
    verdict = history(points(values, step_s=3 * 86400.0))
    assert (verdict.status, verdict.reason.code) == (VerdictStatus.CANNOT_TELL, "too-few-runs")
    assert verdict.n == 20


def test_hourly_runs_after_a_pause_wait_for_their_window():
    values = noise(1, 60, cov=0.03, seed=4)[0]
    pause = [
        dataclasses.replace(point, at=point.at + timedelta(days=5) * (place >= 50))
        for place, point in enumerate(points(values))
    ]
    verdict = history(pause)
    assert (verdict.n, verdict.reason.code) == (10, "too-few-runs")
