"""A series by days, between changes and in windows: how it spreads in each."""

import math
import statistics
from collections import Counter
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judge.frames import change, hour, mira_reads, series
from tests.judge.history import noise, with_cov
from tests.support.narrow import present
from tests.support.sentences import numbers

from trimtab.base.series import ChangeStatus, Noise
from trimtab.base.verdict import VerdictStatus
from trimtab.judge.rolling import may_be_thinned, rolling
from trimtab.judge.series_analysis import confirmed_times, dispersion, regimes
from trimtab.judge.series_frame import daily, missing, normalised, points_of
from trimtab.judge.spread import cov, mad_cv, quartile_dispersion
from trimtab.judge.variability import judge_history

# One day after another


def test_each_day_has_its_own_mean_deviation_and_cov_with_unfinished_runs_as_0():
    values = [float(v) for v in noise(1, 48)[0]]
    first, second = daily(series(values, unfinished={30}))
    assert (first.day, first.n, first.unfinished, first.missing) == (date(2026, 3, 1), 24, 0, None)
    assert first.mean == pytest.approx(statistics.fmean(values[:24]))
    assert first.standard_deviation == pytest.approx(statistics.stdev(values[:24]))
    counted = [0.0 if place == 30 else values[place] for place in range(24, 48)]
    finished = [values[place] for place in range(24, 48) if place != 30]
    assert (second.n, second.unfinished) == (24, 1)
    assert second.mean == pytest.approx(statistics.fmean(counted))
    assert second.cov == pytest.approx(statistics.stdev(counted) / statistics.fmean(counted))
    assert second.median == pytest.approx(statistics.median(finished))


def test_of_a_time_unfinished_runs_are_left_out():
    (day,) = daily(series([10.0, 1.0, 12.0], unfinished={1}), more_is_better=False)
    assert (day.n, day.unfinished, day.mean) == (3, 1, 11.0)
    (none,) = daily(series([1.0, 1.0], unfinished={0, 1}), more_is_better=False)
    assert (none.n, none.mean, none.cov, none.median) == (2, None, None, None)


def test_a_day_of_nothing_but_unfinished_runs_is_0_and_has_no_cov():
    (day,) = daily(series([1.0] * 3, unfinished={0, 1, 2}))
    assert (day.mean, day.standard_deviation, day.cov, day.median) == (0.0, 0.0, None, None)


def test_one_run_has_no_deviation():
    (day,) = daily(series([5.0]))
    assert (day.mean, day.standard_deviation, day.cov) == (5.0, None, None)


def test_equal_values_have_none_at_all():
    (day,) = daily(series([0.1] * 3))
    assert (day.standard_deviation, day.cov) == (0.0, 0.0)


def test_days_are_the_sites_own_across_the_change_of_clocks():
    # 29 March 2026: 23 hours in Zurich. Runs from 1 March 00:00 UTC on, 01:00 there.
    days = daily(series([1.0] * 24 * 31), timezone="Europe/Zurich")
    assert [day.n for day in days if day.day in {date(2026, 3, 28), date(2026, 3, 29)}] == [24, 23]
    assert days[0].n == 23
    west = daily(series([1.0] * 30), timezone="America/Los_Angeles")
    assert [(day.day, day.n) for day in west] == [(date(2026, 2, 28), 8), (date(2026, 3, 1), 22)]


def test_a_day_without_any_run_is_told_where_runs_were_due():
    frame = series([1.0] * 72, gaps=set(range(24, 48)))
    assert [day.n for day in daily(frame)] == [24, 24]
    due = [hour(place) for place in range(72)]
    days = daily(frame, schedule=due)
    assert [(day.n, day.missing) for day in days] == [(24, 0), (0, 24), (24, 0)]
    assert (days[1].mean, days[1].standard_deviation, days[1].cov) == (None, None, None)


def test_a_run_that_was_not_judged_is_not_missing():
    frame = series([1.0] * 5, gaps={3})
    due = [hour(place) for place in range(5)]
    assert daily(frame, schedule=due)[0].missing == 1
    assert daily(frame, schedule=due, present=[hour(3)])[0].missing == 0


def test_late_and_slightly_early_runs_are_the_ones_that_were_due():
    due = [hour(0), hour(1), hour(2), hour(3)]
    runs = [hour(0.0), hour(1.9), hour(2) - timedelta(seconds=30)]
    assert missing(due, runs) == (hour(3),)
    assert missing(due, [hour(-1)]) == tuple(due)
    assert missing([], runs) == ()


@pytest.mark.calibration
@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 3000)))
def test_a_due_time_is_missing_if_no_run_begins_before_the_next(due_hours, run_minutes):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    due = sorted({start + timedelta(hours=h) for h in due_hours})
    runs = [start + timedelta(minutes=m) for m in run_minutes]
    early = timedelta(seconds=60)
    slow = []
    for place, at in enumerate(due):
        until = due[place + 1] if place + 1 < len(due) else datetime(2027, 1, 1, tzinfo=UTC)
        if not any(at <= run + early < until for run in runs):
            slow.append(at)
    assert missing(due[::-1], runs) == tuple(slow)


# Between confirmed changes


def test_a_change_is_the_first_run_of_the_next_stretch():
    first, second = regimes(series([10.0, 11.0, 12.0, 20.0, 22.0], unfinished={1}), [hour(3)])
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
    assert sum((one.mean or 0.0) * one.n for one in found) / 29 == pytest.approx(15.0)


# Windows: all at once are each by itself


MET, MISSED, CANNOT_TELL = VerdictStatus.MET, VerdictStatus.MISSED, VerdictStatus.CANNOT_TELL


def one_by_one(frame, **terms):
    """Return (at, n, cov, interval, status) of every window from a verdict of its own."""
    tidy, _ = normalised(frame)
    points = points_of(tidy, "write_bandwidth")
    more = terms.pop("more_is_better", True)
    found = []
    for end in range(1, len(points) + 1):
        verdict = judge_history(
            points[:end],
            metric="write_bandwidth",
            probe="p",
            more_is_better=more,
            unit="B/s" if more else "s",
            goal=terms.get("goal", 0.08),
            window_s=terms.get("window_s", 48 * 3600.0),
        )
        found.append((points[end - 1].at, verdict))
    return found


def agree(frame, **terms):
    together, apart = rolling(frame, **terms), one_by_one(frame, **terms)
    assert len(together) == len(apart)
    for window, (at, verdict) in zip(together, apart, strict=True):
        assert (window.at, window.n, window.status) == (at, verdict.n, verdict.status), at
        if verdict.cov is None:
            assert window.cov is None
        else:
            assert window.cov == pytest.approx(verdict.cov, rel=1e-9)
        if verdict.cov_interval is None:
            assert window.interval is None
        else:
            assert window.interval is not None
            wanted = (verdict.cov_interval.low, verdict.cov_interval.high)
            assert (window.interval.low, window.interval.high) == pytest.approx(wanted, rel=1e-7)
    return together


@pytest.mark.parametrize("more_is_better", [True, False])
def test_hourly_runs_with_gaps_dips_and_unfinished_ones(more_is_better):
    values = noise(1, 150, phi=0.5, cov=0.08, seed=3)[0] * 1e9
    values[[20, 90, 91]] *= 0.3
    frame = series(values, unfinished={33, 34, 120}, gaps=set(range(60, 75)))
    windows = agree(frame, more_is_better=more_is_better)
    assert {window.status for window in windows} >= {CANNOT_TELL, MISSED}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1.0, 1.0, 1.1, 0.9, None]), min_size=1, max_size=60),
    st.sampled_from([600.0, 1800.0, 3600.0, 7200.0]),
    st.booleans(),
    st.floats(0.0, 0.5),
)
def test_ties_zeros_and_any_spacing(values, step_s, more_is_better, goal):
    ended = {place for place, value in enumerate(values) if value is None}
    frame = series([v or 0.0 for v in values], step_s=step_s, unfinished=ended)
    agree(frame, goal=goal, more_is_better=more_is_better)


def test_each_answer_is_given():
    steady = noise(1, 48, cov=0.02)[0]
    windows = agree(series([*steady, *noise(1, 96, cov=0.2, seed=5)[0]]))
    assert windows[22].status is CANNOT_TELL  # 23 runs are too few
    assert (windows[47].status, windows[-1].status) == (MET, MISSED)
    assert {w.status for w in agree(series([5.0] * 40))} == {CANNOT_TELL, MET}
    nothing = agree(series([1.0] * 40, unfinished=set(range(40))))
    assert (nothing[-1].status, nothing[-1].cov) == (MISSED, None)


def test_nothing_comes_of_nothing():
    assert rolling(series([])) == ()


def test_runs_before_since_still_count():
    frame = series(noise(1, 100)[0])
    every = rolling(frame)
    later = rolling(frame, since=hour(60))
    assert later == every[60:]
    assert later[0].n == 48


def test_a_year_of_hourly_runs():
    windows = rolling(series(noise(1, 8760, phi=0.5, cov=0.08)[0] * 1e9))
    assert len(windows) == 8760
    covs = np.array([window.cov for window in windows[47:]])
    # Within a window some of the spread of a series with a memory is hidden.
    assert 0.06 < covs.mean() < 0.08


def test_of_very_many_windows_every_kth_is_judged_as_all_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = series(noise(1, 200, phi=0.5, cov=0.08)[0] * 1e9)
    every = rolling(frame)
    cells = sum(window.n for window in every)
    monkeypatch.setattr("trimtab.judge.rolling._CELLS_MOST", cells // 7 + 1)
    few = rolling(frame)
    assert few == every[::-1][::7][::-1]
    assert few[-1] == every[-1]


@pytest.mark.parametrize("seed", range(8))
def test_later_windows_alone_are_those_of_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    frame = bursts(random, 400)
    every = rolling(frame)
    after = every[int(random.integers(len(every)))].at
    assert rolling(frame, after=after) == tuple(each for each in every if each.at > after)
    begin = hour(float(random.integers(200)))
    assert rolling(frame, since=begin, after=after) == tuple(
        each for each in every if each.at > after and each.at >= begin
    )


def test_where_only_every_kth_is_judged_later_windows_are_not_judged_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = series(noise(1, 200, phi=0.5, cov=0.08)[0] * 1e9)
    assert not may_be_thinned(frame, window_s=48 * 3600.0)
    monkeypatch.setattr("trimtab.judge.rolling._CELLS_MOST", 1000)
    assert may_be_thinned(frame, window_s=48 * 3600.0)
    assert rolling(frame, after=hour(150)) == rolling(frame)


@pytest.mark.parametrize("seed", range(8))
def test_windows_are_settled_five_weeks_later(seed: int) -> None:
    """Which runs form a burst only later ones may show, but not those of many weeks later."""
    random = np.random.default_rng(seed)
    frame = bursts(random, 2000)
    at = frame["at"][int(random.integers(len(frame)))]
    part = frame.filter(pl.col("at") <= at + timedelta(weeks=5))
    settled = [each for each in rolling(frame) if each.at <= at]
    assert [each for each in rolling(part) if each.at <= at] == settled


def bursts(random: np.random.Generator, runs: int) -> pl.DataFrame:
    """Return runs one by one, in bursts and with outages, some of them unfinished."""
    gaps = random.choice([0.1, 1.0, 6.0, 24.0, 500.0], runs, p=[0.3, 0.4, 0.2, 0.099, 0.001])
    frame = series(
        random.normal(1e9, 5e7, runs).tolist(), unfinished={*random.integers(0, runs, 9)}
    )
    return frame.with_columns(at=pl.Series([hour(float(at)) for at in np.cumsum(gaps)]))


# What a COV is made of


def kinds(many, **more):
    return Counter(dispersion(series(values), **more).noise for values in many)


def test_every_measure_is_the_one_it_says():
    values = with_cov(100, 0.08)
    found = dispersion(series(values, unfinished={7, 50}))
    finished = [value for place, value in enumerate(values) if place not in {7, 50}]
    zeros = [0.0 if place in {7, 50} else value for place, value in enumerate(values)]
    assert (found.n, found.unfinished, found.cov) == (100, 2, cov(zeros))
    assert found.cov_finished == cov(finished)
    assert found.cov_within_regimes == pytest.approx(cov(finished))
    assert found.mad_cv == mad_cv(finished)
    assert found.quartile_dispersion == quartile_dispersion(finished)
    assert found.cov_over_mad_cv == present(found.cov) / present(found.mad_cv)
    assert present(found.cov_interval).low < present(found.cov) < present(found.cov_interval).high


def test_one_step_of_8_per_cent_without_noise_is_a_cov_of_4_2_per_cent():
    # A single 8 % step in the middle of the window.
    values = [1.0] * 24 + [0.92] * 24
    found = dispersion(series(values), changes=[hour(24)])
    assert (found.cov, found.cov_within_regimes) == (pytest.approx(0.042, abs=0.0005), 0.0)
    assert (found.noise, found.reason.code) == (Noise.STEPS, "steps")
    changes, share, *_ = numbers(found.reason)
    assert (changes, share) == (1, 100)


def test_within_regimes_each_level_costs_a_degree_of_freedom():
    values = [level * (1 + d) for level in [100.0, 60.0, 140.0] for d in (-0.1, 0.0, 0.1)]
    found = dispersion(series(values), changes=[hour(3), hour(6)])
    # Deviations of 10 % in two of three runs each: six of them, over 9 - 3 degrees.
    assert found.cov_within_regimes == pytest.approx(math.sqrt(6 * 0.01 / 6))
    assert (found.noise, found.reason.code) == (Noise.CANNOT_TELL, "too-few-runs")
    assert numbers(found.reason) == [9, 24]


def test_two_levels_and_as_much_noise_are_not_steps():
    values = noise(1, 480, cov=0.08)[0]
    values[240:] *= 0.92
    found = dispersion(series(values), changes=[hour(240)])
    assert found.noise is Noise.ALWAYS_NOISY
    assert found.cov_within_regimes == pytest.approx(cov(noise(1, 480, cov=0.08)[0]), rel=0.01)


def test_unfinished_runs_are_bad_events():
    found = dispersion(series(noise(1, 200, cov=0.03)[0], unfinished={20, 70, 71, 150, 190}))
    assert (found.noise, found.reason.code) == (Noise.FEW_BAD_EVENTS, "few-bad-events")
    assert numbers(found.reason)[-2:] == [200, 5]
    assert present(found.cov) > 4 * present(found.cov_finished)


def test_the_cov_of_a_time_leaves_unfinished_runs_out():
    found = dispersion(series([10.0, 12.0, 11.0], unfinished={1}), more_is_better=False)
    assert found.cov == found.cov_finished == cov([10.0, 11.0])


def test_which_side_the_events_are_on_is_told():
    values = with_cov(300, 0.02)
    for place, factor in ((10, 0.3), (100, 0.4), (200, 0.35), (250, 0.3), (280, 1.9)):
        values[place] = factor * 1e9
    found = dispersion(series(values))
    assert (found.noise, numbers(found.reason)[-3:]) == (Noise.FEW_BAD_EVENTS, [300, 4, 1])
    assert found.reason.index("4 far below") < found.reason.index("1 far above")


@pytest.mark.parametrize(
    ("values", "code"),
    [([5.0] * 30, "constant-values"), ([0.0] * 30, "mean-zero"), ([], "too-few-runs")],
)
def test_why_nothing_can_be_told(values, code):
    found = dispersion(series(values))
    assert (found.noise, found.reason.code) == (Noise.CANNOT_TELL, code)
    assert found.cov_over_mad_cv is None


def test_nothing_finished():
    found = dispersion(series([1.0] * 30, unfinished=set(range(30))))
    assert found.noise is Noise.CANNOT_TELL
    assert (found.unfinished, found.cov, found.cov_finished, found.mad_cv) == (30, None, None, None)


def test_mostly_one_value_has_no_mad_and_only_events():
    found = dispersion(series([1.0] * 30 + [0.2]))
    assert (found.noise, found.cov_over_mad_cv) == (Noise.FEW_BAD_EVENTS, None)
    assert (found.reason.code, numbers(found.reason)) == ("bulk-constant", [31, 1])


def test_autocorrelation_is_taken_within_regimes():
    values = noise(1, 600, cov=0.05, seed=8)[0]
    values[300:] *= 0.6
    plain, cut = dispersion(series(values)), dispersion(series(values), changes=[hour(300)])
    assert present(plain.autocorrelation) > 0.5
    assert cut.autocorrelation == pytest.approx(0.0, abs=0.1)


@pytest.mark.calibration
@pytest.mark.parametrize(("n", "phi"), [(24, 0.0), (24, 0.5), (48, 0.0), (48, 0.5), (168, 0.5)])
def test_broad_noise_seldom_passes_for_bad_events(n, phi):
    found = kinds(noise(150, n, phi=phi, seed=n))
    # Measured on 1,000: 3.6, 1.5, 1.3, 0.6 and 0 % (in the order of the cases).
    assert found[Noise.FEW_BAD_EVENTS] <= 12
    assert found[Noise.ALWAYS_NOISY] >= 120


def test_dips_are_told_from_broad_noise():
    rng = np.random.default_rng(2)
    found = Counter()
    for values in noise(60, 168, phi=0.3, cov=0.03):
        dipped = rng.random(168) < 0.03
        values[dipped] *= rng.uniform(0.3, 0.8, dipped.sum())
        found[dispersion(series(values)).noise] += 1
    assert found[Noise.FEW_BAD_EVENTS] >= 54


def test_miras_rare_deep_dips():
    # HACC read on Mira [S9]: COV 20 %, MAD-CV 2.5 %, quartile dispersion 2.9 %.
    found = dispersion(mira_reads())
    assert found.noise is Noise.FEW_BAD_EVENTS
    assert (found.cov, found.mad_cv, found.quartile_dispersion) == pytest.approx(
        (0.20, 0.025, 0.029), rel=0.05
    )
