"""Two sides of one metric: effect, interval, answer, how often they are wrong, what is noticed."""

import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.judge.history import START, noise
from tests.support.counts import at_most, series_counts
from tests.support.narrow import present
from tests.support.sentences import numbers

from trimtab.base.error import code_of
from trimtab.base.verdict import Change
from trimtab.judge.comparison import (
    CompareTerms,
    compare,
    compare_summaries,
    fieller_interval,
    hour_weights,
)
from trimtab.judge.comparison_result import Basis, Stretch, Summary
from trimtab.judge.effect_size import (
    StripedProbe,
    TargetCount,
    busy_targets,
    minimum_detectable_effect,
    probe_limit,
    survey_limit,
    taken_out,
)

HOUR = timedelta(hours=1)
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
trials = series_counts(gate=40, soak=1500)


def stretch(values, *, begin=START, step=HOUR, unfinished=()):
    return Stretch(
        tuple(float(value) for value in values),
        tuple(begin + index * step for index in range(len(values))),
        tuple(index in unfinished for index in range(len(values))),
    )


def effect(before, after, *, metric="write_bandwidth", basis=Basis.RUNS, **terms):
    return compare(before, after, metric=metric, basis=basis, terms=CompareTerms(**terms))


def later(values, **options):
    return stretch(values, begin=START + timedelta(days=30), **options)


def answers(trials, factor, *, n=168, phi=0.5, seed=1, **terms):
    befores, afters = (noise(trials, n, phi=phi, seed=seed + side) for side in (0, 50))
    return [
        effect(stretch(a), later(factor * b), **terms) for a, b in zip(befores, afters, strict=True)
    ]


def share(effects, *changes):
    return sum(one.change in changes for one in effects) / len(effects)


# Calibration


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_no_change_is_rarely_called_one(phi, trials):
    found = answers(trials, 1.0, phi=phi)
    assert share(found, Change.BETTER, Change.WORSE) <= at_most(0.045, trials)


def test_ten_per_cent_less_is_worse_and_more_is_better(trials):
    assert share(answers(trials, 0.9), Change.WORSE) > 0.95
    assert share(answers(trials, 1 / 0.9), Change.BETTER) > 0.95


def test_nothing_that_matters_is_said_when_it_can_be(trials):
    """COV 3 % for two weeks: an interval of 2 % either way fits into 5 %."""
    befores, afters = noise(trials, 336, cov=0.03, phi=0.3), noise(trials, 336, cov=0.03, seed=9)
    found = [effect(stretch(a), later(b)) for a, b in zip(befores, afters, strict=True)]
    assert share(found, Change.NO_DIFFERENCE) > 0.95


def test_a_true_difference_at_the_margin_is_rarely_called_none(trials):
    found = answers(trials, 1.05, phi=0.0, n=336)
    assert share(found, Change.NO_DIFFERENCE) <= at_most(0.03, trials)


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_what_is_said_to_be_detectable_is_seen_four_times_in_five(phi, trials):
    n_effective = 168 * (1 - phi) / (1 + phi)
    factor = 1 - minimum_detectable_effect(0.08, n_effective)
    seen = share(answers(trials, factor, phi=phi, seed=3, margin=0.001), Change.WORSE)
    room = 0.06 + 3 * math.sqrt(0.16 / trials)
    assert 0.8 - room < seen < 0.8 + room


@pytest.mark.parametrize(("n", "expected"), [(48, 0.046), (168, 0.024)])
def test_the_published_detectable_effects(n, expected):
    """COV 8 %, independent runs: the formula for means."""
    assert minimum_detectable_effect(0.08, n, statistic="mean") == pytest.approx(expected, abs=6e-4)
    assert minimum_detectable_effect(0.08, n) > minimum_detectable_effect(0.08, n, statistic="mean")


# What an effect says


def test_an_effect_of_two_weeks():
    a, b = noise(1, 168, seed=4)[0] * 1e9, noise(1, 168, seed=5)[0] * 0.8e9
    found = effect(stretch(a), later(b))
    assert found.ratio == pytest.approx(median(b) / median(a))
    assert present(found.ratio_interval).low < 0.8 < present(found.ratio_interval).high < 0.85
    assert (found.change, found.reason.code) == (Change.WORSE, "worse")
    assert found.provisional is False
    assert (found.before.n, found.detectable) == (168, pytest.approx(0.03, abs=0.012))
    assert code_of(found.weighted) == "hours-balanced"
    assert "every hour " in (found.weighted or "")


def test_in_a_time_more_is_worse():
    a, b = noise(2, 168, cov=0.02)
    assert effect(stretch(a), later(1.2 * b), metric="output_time").change is Change.WORSE
    assert effect(stretch(a), later(1.2 * b)).change is Change.BETTER


def test_under_a_week_is_provisional():
    a, b = noise(2, 100, cov=0.02)
    found = effect(stretch(a), later(0.8 * b))
    assert found.change is Change.WORSE
    assert found.provisional is True
    assert code_of(found.weighted) == "under-a-week"


def test_a_small_difference_that_is_sure_does_not_matter():
    a, b = noise(2, 336, cov=0.01)
    found = effect(stretch(a), later(0.98 * b))
    assert present(found.ratio_interval).high < 1
    assert (found.change, found.reason.code) == (Change.NO_DIFFERENCE, "within-margin")
    assert effect(stretch(a), later(0.98 * b), margin=0.01).change is Change.WORSE


def test_what_would_tell_is_said_when_nothing_can_be():
    a, b = noise(2, 24, cov=0.08)
    found = effect(stretch(a), later(b))
    assert (found.change, found.reason.code) == (Change.CANNOT_TELL, "inconclusive")
    assert numbers(found.reason)[-1] > 24  # runs per side that would decide


@pytest.mark.parametrize(("n", "told"), [(1, False), (3, False), (4, True), (6, True)])
def test_few_runs(n, told):
    values = [1 + 0.001 * place for place in range(n)]
    found = effect(stretch(values), later([0.5 * value for value in values]))
    assert found.ratio == pytest.approx(0.5)
    assert (found.ratio_interval is not None) == told
    assert (found.change is Change.WORSE) == told
    if not told:
        assert (found.reason.code, numbers(found.reason)[-1]) == ("too-few-runs", n)


def test_repetitions_of_single_runs_tell_nothing_of_days():
    values = [1.0 + 0.001 * place for place in range(10)]
    halves = [0.5 * value for value in values]
    found = effect(stretch(values), later(halves), basis=Basis.REPETITIONS)
    assert found.ratio == pytest.approx(0.5)
    assert found.ratio_interval is not None
    assert (found.change, found.reason.code) == (Change.CANNOT_TELL, "repetitions-only")
    assert found.detectable is None


def test_unfinished_runs_count_as_0():
    values = [1.0] * 30
    found = effect(stretch(values), later([0.0] * 3 + values, unfinished=(0, 1, 2)))
    assert (found.after.unfinished, found.ratio) == (3, 1.0)
    gone = effect(stretch(values), later([0.0] * 30, unfinished=range(30)))
    assert (gone.ratio, gone.ratio_interval, gone.change) == (0, None, Change.CANNOT_TELL)
    assert gone.reason.code == "ratio-zero"


def test_nothing_to_divide_by():
    found = effect(stretch([0.0] * 20), later([1.0] * 20))
    assert (found.ratio, found.reason.code) == (None, "median-zero")
    empty = effect(stretch([1.0]), Stretch(())).reason
    assert empty.code == "side-empty"
    assert "second" in empty


def test_what_the_change_disturbed_is_left_out():
    a = noise(1, 168, cov=0.01)[0]
    b = a.copy()
    b[:24] *= 0.2
    found = effect(stretch(a), later(b), wash_out_s=86400.0)
    assert (found.after.n, found.after.washed_out, found.before.washed_out) == (144, 24, 0)
    back = effect(later(b), stretch(a), wash_out_s=86400.0)
    assert (back.before.washed_out, back.after.washed_out) == (24, 0)


@given(st.lists(st.floats(1, 10), min_size=1, max_size=30), st.floats(1e3, 1e12))
def test_units_of_the_values_do_not_matter(values, scale):
    one = effect(stretch(values), later(values[::-1]))
    scaled = [scale * value for value in values]
    other = effect(stretch(scaled), later(scaled[::-1]))
    assert (other.ratio, other.change) == (pytest.approx(one.ratio), one.change)


# Hours of the week


def weekly(begin, days, factor):
    """Hourly runs with weekends at ``factor``: an hour of the week decides the value."""
    times = [begin + index * HOUR for index in range(24 * days)]
    wobble = np.random.default_rng(days).normal(1, 0.005, len(times))
    levels = [factor if at.weekday() >= 5 else 1.0 for at in times]
    return Stretch(tuple((wobble * levels).tolist()), tuple(times))


def test_a_weekend_more_on_one_side_is_no_change():
    """Ten days from a Monday have one weekend, nine from a Friday two: the median moves."""
    before, after = weekly(MONDAY, 12, 1.3), weekly(MONDAY + timedelta(days=32), 10, 1.3)
    plain = compare(Stretch(before.values), Stretch(after.values), metric="write_bandwidth")
    weighed = effect(before, after)
    assert plain.ratio is not None
    assert abs(present(weighed.ratio) - 1) < 0.005
    assert weighed.before.n == 288
    mean_before, mean_after = np.mean(before.values), np.mean(after.values)
    assert mean_after / mean_before > 1.05


def test_weights_sum_to_the_same_in_every_hour_of_both_sides():
    before = [MONDAY + index * HOUR for index in range(200)]
    after = [MONDAY + timedelta(days=21, minutes=40) + index * HOUR for index in range(400)]
    found = hour_weights(before, after)
    first, second = (
        sums_by_hour(times, present(weights))
        for times, weights in ((before, found.before), (after, found.after))
    )
    assert first == pytest.approx(dict.fromkeys(first, 1.0))
    assert second == pytest.approx(dict.fromkeys(first, 1.0))


def sums_by_hour(times, weights):
    """Return the sum of the weights of each hour of the week."""
    sums = Counter()
    for at, weight in zip(times, weights, strict=True):
        sums[at.weekday(), at.hour] += weight
    return dict(sums)


def test_runs_at_odd_times_are_balanced_in_longer_parts():
    rng = np.random.default_rng(1)
    sides = [
        sorted(MONDAY + timedelta(days=30 * k, hours=float(h)) for h in rng.uniform(0, 336, 60))
        for k in range(2)
    ]
    found = hour_weights(*sides)
    assert found.before is not None
    assert found.method.code == "hours-balanced"
    assert "every hour " not in found.method


def test_sides_with_no_hour_in_common_are_not_balanced():
    mondays = [MONDAY + timedelta(weeks=index) for index in range(10)]
    found = hour_weights(mondays, [at + timedelta(days=1) for at in mondays])
    assert (found.before, found.method.code) == (None, "hours-not-shared")


def test_weeks_run_in_the_zone_of_the_site():
    """Hourly runs of one Monday in Zurich, of another by UTC: the parts differ."""
    before = [MONDAY - HOUR + timedelta(days=d) for d in range(28)]
    found = hour_weights(before, before, timezone="Europe/Zurich")
    assert sum(present(found.before)) == pytest.approx(7.0)


# Targets


def test_the_seeds_probe_over_more_targets():
    """2,048 files: 8 on the fullest of 274 targets, 7 on that of 298."""
    assert busy_targets(2048, 298) / busy_targets(2048, 274) == pytest.approx(8 / 7)
    before = [673_320e6] * 20
    given = effect(stretch(before), later(before), targets=TargetCount(274, 298, 2048))
    assert given.ratio == given.ratio_measured == 1.0
    assert given.taken_out is not None
    assert not given.taken_out.applied
    assert given.taken_out.reason.code == "limit-unknown"
    assert given.taken_out.remaining == pytest.approx(7 / 8)
    assert given.taken_out.remaining_interval is not None
    slow = TargetCount(274, 298, 2048, target_bytes_per_s=2.8e9)
    shown = effect(stretch(before), later(before), targets=slow)
    assert shown.ratio == pytest.approx(7 / 8)
    assert present(shown.taken_out).reason.code == "targets-limit"
    assert present(shown.taken_out).remaining is None


def test_what_was_measured_is_the_answer_where_nothing_shows_that_targets_limit():
    """20 % faster on twice the targets: not "40 % worse" for an assumption's sake."""
    before, after = noise(2, 40, cov=0.01)
    given = effect(stretch(before), later(1.2 * after), targets=TargetCount(4, 8))
    assert (given.change, given.ratio) == (Change.BETTER, pytest.approx(1.2, rel=0.02))
    assert present(given.taken_out).remaining == pytest.approx(0.6, rel=0.02)


def test_targets_that_do_not_limit_are_not_taken_out():
    known = TargetCount(274, 298, 2048, target_bytes_per_s=15.1e9)
    found = taken_out(known, metric="write_bandwidth", unit="B/s", before=673_320e6)
    assert not found.applied
    assert found.reason.code == "other-limit"
    assert 2.63 in numbers(found.reason)
    slow = TargetCount(274, 298, 2048, target_bytes_per_s=2.8e9)
    assert taken_out(slow, metric="write_bandwidth", unit="B/s", before=673_320e6).applied


def test_targets_say_nothing_of_metadata_or_times():
    count = TargetCount(10, 20)
    metrics = {"file_creation_rate": "1/s", "output_time": "s", "read_latency": "s"}
    for metric, unit in metrics.items():
        correction = taken_out(count, metric=metric, unit=unit, before=1.0)
        assert (correction.applied, correction.reason.code) == (False, "not-data-rate")


@given(st.integers(1, 500), st.integers(1, 500))
def test_a_job_ends_with_its_fullest_target(files, targets):
    """Counted out: files dealt to targets one by one, each target's time its number of files."""
    dealt = [0] * targets
    for file in range(files):
        dealt[file % targets] += 1
    assert busy_targets(files, targets) == pytest.approx(files / max(dealt))
    assert busy_targets(files, targets, fixed_time=True) == sum(count > 0 for count in dealt)


@pytest.mark.parametrize(("files", "targets"), [(0, 1), (1, 0), (-1, 5)])
def test_no_files_or_targets(files, targets):
    with pytest.raises(ValueError, match="targets"):
        busy_targets(files, targets)


# Means and deviations alone


SEED = (
    Summary(673_320e6, 31_779e6, 240, "B/s", "write_bandwidth"),
    Summary(554_012e6, 37_846e6, 240, "B/s", "write_bandwidth"),
)


def test_the_cost_of_checksums():
    """Two windows of 240 hours: 17.7 % less."""
    found = compare_summaries(*SEED)
    assert found.ratio == pytest.approx(0.8228, abs=5e-5)
    interval = present(found.ratio_interval)
    assert (interval.low, interval.high) == pytest.approx((0.8142, 0.8315), abs=1e-4)
    assert (found.change, found.reason.code) == (Change.WORSE, "worse")
    assert (numbers(found.reason)[0], found.basis) == (17.7, Basis.SUMMARY)
    assert (found.method.code, found.provisional) == ("fieller", None)


def test_hourly_runs_that_resemble_one_another_know_less():
    plain, wide = (compare_summaries(*SEED, autocorrelation=phi) for phi in (0.0, 0.5))
    widths = [
        present(one.ratio_interval).high - present(one.ratio_interval).low for one in (plain, wide)
    ]
    assert widths[1] / widths[0] == pytest.approx(math.sqrt(3), rel=0.01)


def test_fieller_is_where_welch_refuses():
    """At either end of the interval a Welch test of b - rho a is just at its level."""
    a, b = Summary(10, 3, 12, "s"), Summary(7, 1, 9, "s")
    interval = present(fieller_interval((a, b), (12, 9)))
    parts = 0.7**2 * 9 / 12, 1 / 9
    quantile = stats.t.ppf(0.975, sum(parts) ** 2 / (parts[0] ** 2 / 11 + parts[1] ** 2 / 8))
    for rho in (interval.low, interval.high):
        error = math.sqrt(rho**2 * 9 / 12 + 1 / 9)
        assert abs(7 - rho * 10) / error == pytest.approx(quantile)


@pytest.mark.calibration
def test_fieller_holds_the_ratio_as_often_as_it_says():
    rng = np.random.default_rng(3)
    count, missed = 3000, 0
    for _ in range(count):
        one, other = rng.normal(10, 3, 8), rng.normal(8, 1, 20)
        made = [Summary(float(x.mean()), float(x.std(ddof=1)), len(x), "s") for x in (one, other)]
        interval = present(fieller_interval((made[0], made[1]), (8, 20)))
        missed += not interval.low <= 0.8 <= interval.high
    assert missed / count <= at_most(0.055, count)


def test_a_mean_that_may_be_0_has_no_end():
    found = compare_summaries(Summary(1, 10, 3, "s"), Summary(1, 0.1, 3, "s"))
    assert (found.ratio_interval, found.change) == (None, Change.CANNOT_TELL)
    assert found.reason.code == "mean-near-zero"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Summary(1, 1, 5, "s"), Summary(1, 1, 5, "B/s")),
        (Summary(1, 1, 5, "B/s", "write_bandwidth"), Summary(1, 1, 5, "B/s", "read_bandwidth")),
        (Summary(0, 1, 5, "s"), Summary(1, 1, 5, "s")),
        (Summary(1, -1, 5, "s"), Summary(1, 1, 5, "s")),
        (Summary(1, 1, 1, "s"), Summary(1, 1, 5, "s")),
        (Summary(math.nan, 1, 5, "s"), Summary(1, 1, 5, "s")),
    ],
)
def test_summaries_that_mean_nothing(before, after):
    with pytest.raises(ValueError, match=r"compared|ratio|not usable"):
        compare_summaries(before, after)


# What a probe over all targets, and a survey of each, could have noticed


# NERSC's hourly probe: 32 nodes with 64 tasks each, 673 GB/s, 274 OSTs, a file a process. It
# moves about 250 TB, written and read back: 125 TB written [S1, III, VI.B; S2].
PERLMUTTER = StripedProbe(
    bytes_moved=125e12, targets=274, bandwidth_bytes_per_s=673.32e9, cov=31_779 / 673_320
)


def test_the_probe_of_the_seeds_is_blind_to_osts_that_lose_half():
    limit = probe_limit(PERLMUTTER)
    asked = PERLMUTTER.bandwidth_bytes_per_s / PERLMUTTER.targets
    assert asked == pytest.approx(2.46e9, rel=0.01)  # "2.5 GB/s per OST"
    assert 2.0e9 < limit.notices_below_bytes_per_s < asked
    for healthy in (15.1e9, 19.9e9):
        assert limit.notices_below_bytes_per_s < healthy / 2
    assert numbers(limit.reason)[:2] == [2.46, 274]


def test_the_limit_is_where_a_simulated_run_is_told_from_chance():
    # A slow twin: each target takes its share, the run ends with the last one.
    probe = PERLMUTTER
    limit = probe_limit(probe)
    rng = np.random.default_rng(4)
    before = probe.bandwidth_bytes_per_s * (1 + probe.cov * rng.standard_normal((4000, 168)))

    def seen(rate):
        usual_s = probe.bytes_moved / probe.bandwidth_bytes_per_s
        slowest_s = max(usual_s, (probe.bytes_moved / probe.targets) / rate)
        noisy = 1 + probe.cov * rng.standard_normal(len(before))
        found = probe.bytes_moved / slowest_s * noisy
        reach = 1.96 * before.std(axis=1) * math.sqrt(1 + 1 / 168)
        return np.mean(found < before.mean(axis=1) - reach)

    assert seen(limit.notices_below_bytes_per_s) == pytest.approx(0.8, abs=0.05)
    assert seen(limit.notices_below_bytes_per_s * 0.9) > 0.95
    assert seen(7.5e9) < 0.05  # half of what an OST does: not seen at all


def test_more_runs_notice_less_and_a_memory_hides_it():
    one, day = probe_limit(PERLMUTTER), probe_limit(PERLMUTTER, runs=24)
    assert day.detectable < one.detectable / 2
    assert day.notices_below_bytes_per_s > one.notices_below_bytes_per_s
    resembling = replace(PERLMUTTER, autocorrelation=0.5)
    assert probe_limit(resembling, runs=24).detectable > 1.5 * day.detectable


def test_a_survey_sees_what_the_probe_cannot():
    survey = survey_limit(17e9, 0.08)
    probe = probe_limit(PERLMUTTER)
    assert survey.notices_below_bytes_per_s > 12e9
    assert survey.notices_below_bytes_per_s > 5 * probe.notices_below_bytes_per_s


@pytest.mark.parametrize(
    "wrong", [{"bytes_moved": 0.0}, {"targets": 0}, {"cov": -0.1}, {"autocorrelation": 1.0}]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=r"greater than 0|autocorrelation"):
        replace(PERLMUTTER, **wrong)
