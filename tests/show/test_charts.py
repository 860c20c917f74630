"""Each chart draws what it was given and says what it left out; the arithmetic behind it."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape
from tests.show.conftest import rows_of
from tests.support.narrow import present

from trimtab.base.run import LatencyHistogram, Sample, Timeline
from trimtab.base.verdict import HistoryPoint, Scope
from trimtab.probe.check_result import CheckResult
from trimtab.probe.page_check_detail import (
    HISTORY_MAX,
    STRIPS_MAX,
    history_chart,
    latency_chart,
    repetition_chart,
    timeline_chart,
)
from trimtab.show.chart import (
    NOT_DRAWN,
    bandwidth_scale,
    drawn,
    merged,
    render_svg,
    round_top,
    stalled_intervals,
    stalls_of,
    tail_of,
)


def test_repetitions_are_all_drawn_and_only_the_believed_ones_solid(full: CheckResult) -> None:
    chart = present(repetition_chart(present(full.run).samples, "read_bandwidth"))
    rows = rows_of(chart.specification)
    solid = {row["repetition"]: row["value"] for row in rows if row["believed"]}
    assert solid == pytest.approx({0: 18.2, 1: 18.4, 2: 18.1, 3: 18.3, 4: 18.2})
    hollow = [row for row in rows if not row["believed"]]
    assert {(row["repetition"], row["value"], row["letter"]) for row in hollow} == {(5, 63.0, "a")}
    assert chart.notes[0][0] == "a"
    assert "read from a cache" in chart.notes[0][1]


def test_a_missing_repetition_is_never_drawn_as_zero() -> None:
    samples = [
        Sample("write_bandwidth", 2e9, 0),
        Sample("write_bandwidth", None, 1, reason="cut off"),
    ]
    chart = present(repetition_chart(samples, "write_bandwidth"))
    assert [r["value"] for r in rows_of(chart.specification) if r["repetition"] == 1] == [None]
    assert chart.notes == (("a", "cut off"),)


def test_one_letter_for_one_reason() -> None:
    samples = [Sample("write_bandwidth", 1e9, n, reason="too short") for n in range(5)]
    chart = present(repetition_chart(samples, "write_bandwidth"))
    assert chart.notes == (("a", "too short"),)
    assert "5 of 5 not credible" in chart.caption


def test_targets_and_percentiles_are_not_repetitions() -> None:
    samples = [
        Sample("write_bandwidth", 1e9, 0, target="OST0000"),
        Sample("write_latency", 1e-3, 0, statistic="p99"),
        Sample("write_bandwidth", 3e9),
    ]
    assert repetition_chart(samples, "write_bandwidth") is None
    assert repetition_chart(samples, "write_latency") is None


def test_nothing_gives_no_chart() -> None:
    assert repetition_chart([], "write_bandwidth") is None
    assert timeline_chart([], "write") is None
    assert timeline_chart([Timeline("write", 0, 0.1, ())], "write") is None
    assert latency_chart([], "write") is None
    assert latency_chart([LatencyHistogram("write", 0, (1.0,), (0,))], "write") is None
    assert history_chart([], "write_bandwidth") is None


def test_timeline_keeps_the_slowest_and_says_so() -> None:
    timelines = [Timeline("write", n, 0.1, (10**9 - n * 10**6,) * 20) for n in range(20)]
    chart = present(timeline_chart(timelines, "write"))
    drawn = {row["repetition"] for row in rows_of(chart.specification)}
    assert drawn == set(range(20 - STRIPS_MAX, 20))
    assert f"The {STRIPS_MAX} slowest of 20" in chart.caption
    assert "No stall" in chart.caption


def test_a_timeline_that_stood_still_is_drawn() -> None:
    chart = present(timeline_chart([Timeline("write", 0, 0.1, (0,) * 10)], "write"))
    assert "9 of 9 intervals" in chart.caption
    assert "<svg" in render_svg(chart.specification, name="t", label="t")


def test_latency_marks_are_labelled_with_their_figures() -> None:
    histogram = LatencyHistogram("read", 0, (1e-3, 2e-3, 5e-1), (9_000, 995, 5))
    chart = present(latency_chart([histogram], "read"))
    for words in ("p50 1.00 ms", "p99 2.00 ms", "p99.9 2.00 ms", "max 500 ms", "10,000 operations"):
        assert words in chart.caption
    assert "max 500 ms" in render_svg(chart.specification, name="t", label="t")
    single = present(latency_chart([LatencyHistogram("read", 0, (4e-3,), (1,))], "read"))
    assert "max 4.00 ms" in render_svg(single.specification, name="t", label="t")


def test_history_holds_this_run_once_and_the_unfinished_at_zero(full: CheckResult) -> None:
    over_time = (one for one in full.verdicts if one.scope is Scope.HISTORY)
    verdict = next(one for one in over_time if "write" in one.metric)
    this = HistoryPoint(full.at, "write_bandwidth", 11.9e9, False, "this-run")
    points = [*full.history, this]
    chart = present(history_chart(points, "write_bandwidth", this=this, verdict=verdict))
    rows = rows_of(chart.specification)
    kinds = Counter(row["kind"] for row in rows if "kind" in row)
    assert kinds == {"this": 1, "earlier": 39, "unfinished": 1}
    band = next(row for row in rows if "low" in row)
    assert (band["low"], band["high"]) == pytest.approx((11.5 * 0.92, 11.5 * 1.08))
    assert [row["value"] for row in rows if row.get("kind") == "unfinished"] == [0.0]
    # The same, unfinished itself.
    this = replace(this, value=0.0, unfinished=True)
    chart = present(history_chart(full.history, "write_bandwidth", this=this))
    assert sum(row.get("kind") == "unfinished" for row in rows_of(chart.specification)) == 2


def test_a_long_history_is_cut_and_says_so(full: CheckResult) -> None:
    history = [
        HistoryPoint(full.at - timedelta(hours=n), "read_bandwidth", 1e9, False, str(n))
        for n in range(8760)
    ]
    chart = present(history_chart(history, "read_bandwidth"))
    assert f"The last {HISTORY_MAX} of 8,760 runs" in chart.caption
    assert sum("kind" in row for row in rows_of(chart.specification)) == HISTORY_MAX


def test_a_drawing_is_escaped_and_reaches_for_nothing(full: CheckResult) -> None:
    chart = present(repetition_chart(present(full.run).samples, "write_bandwidth"))
    hostile = json.loads(json.dumps(chart.specification))
    hostile["title"] = "</svg><script>\udcff\x00"
    svg = render_svg(hostile, name="a", label='"><script>')
    assert "<script>" not in svg
    assert "\\xff" in svg
    assert "xmlns" not in svg
    hostile["layer"][0]["data"] = {"url": "http://127.0.0.1:9/data.json"}
    with pytest.raises(ValueError, match=r"127\.0\.0\.1"):
        render_svg(hostile, name="a", label="a")


def test_without_vl_convert_a_sentence_stands_for_each_drawing(
    full: CheckResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    ((_, drawing),) = drawn([None, history_chart(full.history, "write_bandwidth")])
    assert drawing == f"<p>{escape(NOT_DRAWN)}</p>"


def test_samples_of_another_metric_do_not_leak(full: CheckResult) -> None:
    only = tuple(replace(one, metric="write_iops") for one in present(full.run).samples[:3])
    chart = present(repetition_chart(only, "write_iops"))
    values = [row["value"] for row in rows_of(chart.specification) if row["believed"]]
    assert values == [one.value for one in only]


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
    tail = present(tail_of([LatencyHistogram("read", 0, upper, tuple(counts))], points_max=100))
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
