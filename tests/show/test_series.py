"""The arithmetic behind the charts, against slow and obvious ways to get the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.known import known

from trimtab.base.run import LatencyHistogram, Timeline
from trimtab.show.chart_series import (
    bandwidth_scale,
    merged,
    round_top,
    stalled_intervals,
    stalls_of,
    tail_of,
)

BUCKETS = st.dictionaries(
    st.floats(1e-7, 100.0, allow_nan=False), st.integers(0, 5000), min_size=1, max_size=40
)


@pytest.mark.calibration
@given(BUCKETS)
def test_tail_agrees_with_counting_operations_one_by_one(buckets: dict[float, int]) -> None:
    histogram = LatencyHistogram("read", 0, tuple(buckets), tuple(buckets.values()))
    operations = sorted(upper for upper, count in buckets.items() for _ in range(count))
    tail = tail_of([histogram])
    if not operations:
        assert tail is None
        return
    assert tail is not None
    assert tail.operations == len(operations)
    for latency, fraction in zip(tail.latency_s, tail.fraction, strict=True):
        slower = sum(one >= latency for one in operations)
        assert fraction == pytest.approx(slower / len(operations))
    marks = {name: latency for name, latency, _ in tail.marks}
    assert marks["max"] == operations[-1]
    for name, quantile in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        if name in marks:
            assert marks[name] == operations[math.ceil(quantile * len(operations)) - 1]


@settings(max_examples=15)
@given(st.lists(st.integers(1, 9), min_size=200, max_size=400))
def test_a_thinned_tail_keeps_its_ends_and_marks(counts: list[int]) -> None:
    upper = tuple(1e-5 * 1.01**n for n in range(len(counts)))
    tail = known(tail_of([LatencyHistogram("read", 0, upper, tuple(counts))], points_max=100))
    assert len(tail.latency_s) <= 100 + 1 + len(tail.marks)
    assert (tail.latency_s[0], tail.latency_s[-1]) == (upper[0], upper[-1])
    assert tail.fraction[0] == 1.0
    assert {latency for _, latency, _ in tail.marks} <= set(tail.latency_s)


@given(st.floats(1e-6, 1e18))
def test_the_top_of_an_axis_is_at_or_above_its_data_and_not_far_off(value: float) -> None:
    top = round_top(value)
    assert value <= top * (1 + 1e-9) + 1e-12
    assert top <= value * 1.6 + 1e-11


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=500), st.integers(1, 60))
def test_merging_loses_no_byte(moved: list[int], intervals_max: int) -> None:
    timeline = merged(Timeline("write", 0, 0.1, tuple(moved)), intervals_max)
    assert sum(timeline.moved_bytes) == sum(moved)
    assert len(timeline.moved_bytes) <= intervals_max


def test_stalls_are_counted_without_the_cut_last_interval() -> None:
    timeline = Timeline("write", 2, 0.1, (100, 100, 0, 9, 100, 0, 100, 3))
    assert stalled_intervals(timeline) == (False, False, True, True, False, True, False)
    stalls = stalls_of([timeline])
    assert (stalls.count, stalls.of, stalls.longest_repetition) == (3, 7, 2)
    assert stalls.longest_s == pytest.approx(0.2)


def test_no_stall_in_even_flow() -> None:
    stalls = stalls_of([Timeline("write", 0, 0.1, (100,) * 50)])
    assert (stalls.count, stalls.longest_s, stalls.longest_repetition) == (0, 0.0, None)


@pytest.mark.parametrize(
    ("largest", "unit"),
    [(0.0, "B/s"), (999.0, "B/s"), (1.94e9, "GB/s"), (999.9e6, "GB/s"), (3e13, "TB/s")],
)
def test_bandwidth_scale(largest: float, unit: str) -> None:
    assert bandwidth_scale(largest).unit == unit
