"""Both sides of a change, as in figures 3 and 4 of [S1]."""

import statistics
from dataclasses import replace

import numpy as np
import pytest
from tests.judge.frames import KEY, hour, series
from tests.judge.history import noise

from trimtab.judge.before_after import before_after
from trimtab.model.compare import Change


def exactly(values, mean, deviation):
    """Return the values moved and stretched so that mean and standard deviation are these."""
    raw = np.asarray(values)
    return (raw - raw.mean()) / raw.std(ddof=1) * deviation + mean


def test_the_seeds_checksums():
    # Row 37: 673,320 +- 31,779 to 554,012 +- 37,846 MB/s over 240 hours a side: -17.7 %.
    first, second = noise(2, 240, phi=0.3)
    values = [*exactly(first, 673_320e6, 31_779e6), *exactly(second, 554_012e6, 37_846e6)]
    found = before_after(series(values), hour(240), KEY)
    assert (found.before.n, found.after.n) == (240, 240)
    assert (found.before.mean, found.before.standard_deviation) == pytest.approx(
        (673_320e6, 31_779e6)
    )
    assert (found.after.mean, found.after.standard_deviation) == pytest.approx(
        (554_012e6, 37_846e6)
    )
    assert found.ratio_of_means == pytest.approx(1 - 0.177, abs=0.0005)
    effect = found.effect
    assert effect.change is Change.WORSE
    assert effect.provisional is False
    assert effect.ratio_interval is not None
    assert effect.ratio_interval.low < 0.823 < effect.ratio_interval.high
    assert effect.ratio_interval.high < 0.85


def test_less_than_a_week_a_side_is_provisional():
    values = noise(1, 480)[0]
    assert before_after(series(values), hour(240), KEY, width_s=72 * 3600).effect.provisional


def test_bins_are_shared_and_hold_every_finished_run():
    values = noise(1, 300)[0]
    values[150:] *= 1.3
    found = before_after(series(values, unfinished={10, 200}), hour(150), KEY)
    assert sum(found.before.counts) == found.before.n - 1 == 149
    assert sum(found.after.counts) == 149
    assert len(found.before.counts) == len(found.after.counts) == len(found.edges) - 1
    finished = [v for place, v in enumerate(values[:150]) if place != 10]
    assert dict(found.before.quantiles)[0.5] == pytest.approx(statistics.median(finished))
    assert found.before.mean == pytest.approx(sum(finished) / 150)


def test_only_the_width_counts_and_the_run_at_the_time_is_after():
    found = before_after(series(range(1, 101)), hour(50), KEY, width_s=5 * 3600)
    assert (found.before.from_, found.before.to) == (hour(45), hour(49))
    assert (found.after.from_, found.after.to) == (hour(50), hour(54))


def test_a_wash_out_is_shown_and_not_compared():
    values = [*noise(1, 240)[0], *[0.2] * 24, *noise(1, 216, seed=2)[0]]
    found = before_after(series(values), hour(240), KEY, wash_out_s=24 * 3600)
    assert found.after.n == 240
    assert found.effect.after.n < 240
    assert found.effect.ratio == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("place", [0, 100])
def test_a_side_without_runs_is_said(place):
    found = before_after(series(noise(1, 100)[0]), hour(place), KEY)
    empty = found.before if place == 0 else found.after
    assert (empty.n, empty.mean, empty.from_, empty.quantiles) == (0, None, None, ())
    assert found.ratio_of_means is None
    assert found.effect.change is Change.CANNOT_TELL


def test_constant_and_empty_series():
    found = before_after(series([5.0] * 10), hour(5), KEY)
    assert found.edges == (5.0, 5.0)
    assert (found.before.counts, found.after.counts) == ((5,), (5,))
    nothing = before_after(series([1.0] * 10, unfinished=set(range(10))), hour(5), KEY)
    assert (nothing.edges, nothing.before.counts) == ((), ())
    assert nothing.before.mean == 0.0


def test_somebody_elses_metric_and_times():
    key = replace(KEY, metric="wall clock", unit="min", more_is_better=False)
    values = noise(1, 400, cov=0.03)[0]
    values[200:] *= 1.2
    found = before_after(series(values, unfinished={3}), hour(200), key)
    assert found.effect.change is Change.WORSE
    assert found.unit == found.effect.unit == "min"
    assert found.effect.before.n <= 199
