"""Each chart draws what it was given, leaves out what was not measured, and says which is which."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from markupsafe import escape
from tests.support.known import known

from trimtab.base.run import LatencyHistogram, Sample, Timeline
from trimtab.base.verdict import HistoryPoint, Scope
from trimtab.probe.check.page_repetition import (
    HISTORY_MAX,
    STRIPS_MAX,
    history_chart,
    latency_chart,
    repetition_chart,
    timeline_chart,
)
from trimtab.probe.documents_probe import CheckResult
from trimtab.show.chart import NOT_DRAWN, drawn, render_svg


def rows(specification: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every inline data row of a specification."""
    found: list[dict[str, Any]] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            values = node.get("data", {}).get("values") if "data" in node else None
            found.extend(values or [])
            for one in node.values():
                walk(one)
        elif isinstance(node, list):
            for one in node:
                walk(one)

    walk(specification)
    return found


def test_repetitions_are_all_drawn_and_only_the_believed_ones_solid(full: CheckResult) -> None:
    chart = known(repetition_chart(known(full.run).samples, "read_bandwidth"))
    solid = {
        row["repetition"]: row["value"] for row in rows(chart.specification) if row["believed"]
    }
    assert solid == pytest.approx({0: 18.2, 1: 18.4, 2: 18.1, 3: 18.3, 4: 18.2})
    hollow = [row for row in rows(chart.specification) if not row["believed"]]
    assert {(row["repetition"], row["value"], row["letter"]) for row in hollow} == {(5, 63.0, "a")}
    assert chart.notes[0][0] == "a"
    assert "read from a cache" in chart.notes[0][1]


def test_a_missing_repetition_is_never_drawn_as_zero() -> None:
    samples = [
        Sample("write_bandwidth", 2e9, 0),
        Sample("write_bandwidth", None, 1, reason="cut off"),
    ]
    chart = known(repetition_chart(samples, "write_bandwidth"))
    assert [r["value"] for r in rows(chart.specification) if r["repetition"] == 1] == [None]
    assert chart.notes == (("a", "cut off"),)


def test_one_letter_for_one_reason() -> None:
    samples = [Sample("write_bandwidth", 1e9, n, reason="too short") for n in range(5)]
    chart = known(repetition_chart(samples, "write_bandwidth"))
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
    chart = known(timeline_chart(timelines, "write"))
    drawn = {row["repetition"] for row in rows(chart.specification)}
    assert drawn == set(range(20 - STRIPS_MAX, 20))
    assert f"The {STRIPS_MAX} slowest of 20" in chart.caption
    assert "No stall" in chart.caption


def test_a_timeline_that_stood_still_is_drawn() -> None:
    chart = known(timeline_chart([Timeline("write", 0, 0.1, (0,) * 10)], "write"))
    assert "9 of 9 intervals" in chart.caption
    assert "<svg" in render_svg(chart.specification, name="t", label="t")


def test_latency_marks_are_labelled_with_their_figures() -> None:
    histogram = LatencyHistogram("read", 0, (1e-3, 2e-3, 5e-1), (9_000, 995, 5))
    chart = known(latency_chart([histogram], "read"))
    for words in ("p50 1.00 ms", "p99 2.00 ms", "p99.9 2.00 ms", "max 500 ms", "10,000 operations"):
        assert words in chart.caption
    assert "max 500 ms" in render_svg(chart.specification, name="t", label="t")


def test_one_single_operation_has_a_chart() -> None:
    chart = known(latency_chart([LatencyHistogram("read", 0, (4e-3,), (1,))], "read"))
    assert "max 4.00 ms" in render_svg(chart.specification, name="t", label="t")


def test_history_holds_this_run_once_and_the_unfinished_at_zero(full: CheckResult) -> None:
    verdict = next(
        one for one in full.verdicts if one.scope is Scope.HISTORY and "write" in one.metric
    )
    this = HistoryPoint(full.at, "write_bandwidth", 11.9e9, False, "this-run")
    chart = known(
        history_chart([*full.history, this], "write_bandwidth", this=this, verdict=verdict)
    )
    kinds = [row["kind"] for row in rows(chart.specification) if "kind" in row]
    assert (kinds.count("this"), kinds.count("earlier"), kinds.count("unfinished")) == (1, 39, 1)
    band = next(row for row in rows(chart.specification) if "low" in row)
    assert (band["low"], band["high"]) == pytest.approx((11.5 * 0.92, 11.5 * 1.08))
    zero = [row["value"] for row in rows(chart.specification) if row.get("kind") == "unfinished"]
    assert zero == [0.0]


def test_a_long_history_is_cut_and_says_so(full: CheckResult) -> None:
    history = [
        HistoryPoint(full.at - timedelta(hours=n), "read_bandwidth", 1e9, False, str(n))
        for n in range(8760)
    ]
    chart = known(history_chart(history, "read_bandwidth"))
    assert f"The last {HISTORY_MAX} of 8,760 runs" in chart.caption
    assert sum("kind" in row for row in rows(chart.specification)) == HISTORY_MAX


def test_an_unfinished_this_run_is_marked_as_such(full: CheckResult) -> None:
    this = HistoryPoint(full.at, "write_bandwidth", 0.0, True, "this-run")
    chart = known(history_chart(full.history, "write_bandwidth", this=this))
    kinds = [row["kind"] for row in rows(chart.specification) if "kind" in row]
    assert kinds.count("unfinished") == 2


def test_a_drawing_is_escaped_and_reaches_for_nothing(full: CheckResult) -> None:
    chart = known(repetition_chart(known(full.run).samples, "write_bandwidth"))
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
    assert full.run is not None
    only = tuple(replace(one, metric="write_iops") for one in full.run.samples[:3])
    chart = known(repetition_chart(only, "write_iops"))
    values = [row["value"] for row in rows(chart.specification) if row["believed"]]
    assert values == [one.value for one in only]
