"""Readings as values and rates: labels folded, resets and gaps respected, reasons given."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.explain.contexts import hours, plain_context

from trimtab.explain.context import READINGS, SETTINGS, Telemetry
from trimtab.explain.telemetry_frame import CLIENTS, MDTS, OSTS, SERVERS, observe


def row(hour: float, name: str, number: float | None, **changes: Any) -> dict[str, Any]:
    values = {
        "at": hours(hour), "target": "OST0000", "kind": "ost", "server": "oss1",
        "name": name, "label": None, "number": number, "text": None, "reason": None,
    }  # fmt: skip
    return values | changes


def seen(*rows: dict[str, Any], settings: tuple[tuple[Any, ...], ...] = ()):
    telemetry = Telemetry(
        pl.DataFrame(rows, schema=READINGS), pl.DataFrame(settings, schema=SETTINGS, orient="row")
    )
    return observe(plain_context(telemetry=telemetry))


def test_the_same_context_is_worked_out_once() -> None:
    context = plain_context()
    assert observe(context) is observe(context)
    assert observe(context) is not observe(plain_context())


def test_values_are_folded_as_suits_their_name() -> None:
    two = [("nvme0", 0.002), ("nvme1", 0.075)]
    rows = [row(1, "wbt_latency_s", value, label=label) for label, value in two]
    rows += [row(1, "drive_media_errors_total", value, label=label) for label, value in two]
    rows += [row(1, "drive_write_amplification", value, label=label) for label, value in two]
    frames = seen(*rows)
    assert frames.values("wbt_latency_s").get_column("value").to_list() == [0.075]
    assert frames.values("drive_media_errors_total").get_column("value").item() == pytest.approx(
        0.077
    )
    assert frames.values("drive_write_amplification").get_column("value").item() == pytest.approx(
        0.0385
    )
    assert frames.labelled("wbt_latency_s").get_column("label").to_list() == ["nvme0", "nvme1"]


def test_times_in_neither_stretch_are_left_out() -> None:
    frames = seen(*(row(hour, "used_bytes", 1.0) for hour in (-1, 0, 48, 48.5, 49, 84, 85)))
    values = frames.values("used_bytes")
    assert values.get_column("at").to_list() == [hours(h) for h in (0, 48, 49, 84)]
    assert values.get_column("bad").to_list() == [False, False, True, True]
    assert frames.times(bad=True) == (hours(49), hours(84))


def test_rates_are_of_neighbours_and_a_reset_is_no_rate() -> None:
    counted = [(50, 0.0), (51, 3600.0), (52, 10.0), (53, 7210.0)]
    rates = seen(*(row(hour, "bytes_written_total", n) for hour, n in counted)).rates(
        "bytes_written_total"
    )
    assert rates.get_column("at").to_list() == [hours(51), hours(53)]
    assert rates.get_column("value").to_list() == [1.0, 2.0]
    assert rates.get_column("seconds").to_list() == [3600.0, 3600.0]


def test_a_rate_belongs_to_the_stretch_that_most_of_it_was_in() -> None:
    counted = [(47, 0.0), (48, 3600.0), (48.9, 6840.0), (50, 10800.0), (51, 14400.0)]
    rates = seen(*(row(hour, "bytes_written_total", n) for hour, n in counted)).rates(
        "bytes_written_total"
    )
    # 48 to 48.9 lies between the stretches; 48.9 to 50 is bad but for its first tenth.
    assert rates.select("at", "bad").rows() == [
        (hours(48), False), (hours(50), True), (hours(51), True),
    ]  # fmt: skip


def test_no_rate_over_a_long_gap() -> None:
    counted = [(1, 0.0), (1 + 27, 100.0), (1 + 27 + 20, 200.0)]
    rates = seen(*(row(hour, "bytes_written_total", n) for hour, n in counted)).rates(
        "bytes_written_total"
    )
    assert rates.get_column("at").to_list() == [hours(48)]


def test_labels_of_a_counter_are_differenced_each_by_itself() -> None:
    """A label that begins later must not look like a jump of the sum."""
    rows = [row(h, "allocator_useless_loops_total", 100.0, label="c0") for h in (50, 51, 52)]
    rows += [row(h, "allocator_useless_loops_total", 1000.0, label="c1") for h in (51, 52)]
    rates = seen(*rows).rates("allocator_useless_loops_total")
    assert rates.get_column("value").to_list() == [0.0, 0.0]
    by_label = seen(*rows).rates("allocator_useless_loops_total", by_label=True)
    assert by_label.select("at", "label").rows() == [
        (hours(51), "c0"), (hours(52), "c0"), (hours(52), "c1"),
    ]  # fmt: skip


def slow_rates(rows):
    """Return (at, target, label, value) of each counter, one after the other."""
    counters = {}
    for reading in sorted(rows, key=lambda row: row["at"]):
        counters.setdefault((reading["target"], reading["label"] or ""), []).append(reading)
    frames = []
    for (target, label), read in counters.items():
        for before, after in pairwise(read):
            seconds = (after["at"] - before["at"]).total_seconds()
            grown = after["number"] - before["number"]
            if 0 < seconds <= 26 * 3600 and grown >= 0:
                frames.append((after["at"], target, label, grown / seconds))
    return sorted(frames)


@pytest.mark.calibration
@given(
    st.integers(1, 4),
    st.sampled_from([(None,), ("c0", "c1"), (None, "c1")]),
    st.lists(st.integers(49, 84), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(0, 40), max_size=3),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_rates_are_those_of_each_counter_by_itself(
    targets, labels, times, gone, categories, random
) -> None:
    """Whole snapshots are told apart from such with gaps, and neither from what it should be."""
    rows = [
        row(hour, "bytes_written_total", float(random.randrange(0, 10_000)),
            target=f"OST{target:04x}", label=label)
        for hour in sorted(times)
        for target in range(targets)
        for label in labels
    ]  # fmt: skip
    for place in gone:
        if place < len(rows):
            del rows[place]
    if gone:
        random.shuffle(rows)
    readings = pl.DataFrame(rows, schema=READINGS)
    if categories:
        texts = pl.col("target", "kind", "server", "name", "label", "reason")
        readings = readings.with_columns(texts.cast(pl.Categorical))
    telemetry = Telemetry(readings, pl.DataFrame(schema=SETTINGS))
    frames = observe(plain_context(telemetry=telemetry))
    by_label = frames.rates("bytes_written_total", by_label=True)
    summed_labels = by_label.select("at", "target", pl.col("label").fill_null(""), "value").rows()
    assert sorted(summed_labels) == slow_rates(rows)
    sums = {}
    for at, target, _, value in slow_rates(rows):
        sums[at, target] = sums.get((at, target), 0.0) + value
    summed = frames.rates("bytes_written_total").select("at", "target", "value").rows()
    assert [(at, target) for at, target, _ in summed] == sorted(sums)
    assert [value for _, _, value in summed] == [pytest.approx(sums[key]) for key in sorted(sums)]


def test_fullness_is_of_what_users_can_have() -> None:
    rows = [row(50, "used_bytes", 60.0), row(50, "available_bytes", 20.0)]
    assert seen(*rows).fullness().get_column("value").to_list() == [0.75]
    assert seen(row(50, "used_bytes", 60.0)).fullness().is_empty()


def test_kinds_are_kept_apart() -> None:
    rows = [
        row(50, "server_cpu_fraction", 0.1),
        row(50, "server_cpu_fraction", 0.2, target="MDT0000", kind="mdt"),
        row(50, "server_cpu_fraction", 0.3, target="oss1", kind="server"),
        row(50, "server_cpu_fraction", 0.4, target="login1", kind="client"),
    ]
    frames = seen(*rows)
    for kinds, value in ((OSTS, 0.1), (MDTS, 0.2), (SERVERS, 0.3), (CLIENTS, 0.4)):
        assert frames.values("server_cpu_fraction", kinds=kinds)["value"].to_list() == [value]


def test_why_not() -> None:
    assert observe(plain_context()).why_not("used_bytes").code == "no-snapshots"
    early = seen(row(1, "used_bytes", 1.0))
    assert early.why_not("used_bytes").code == "no-bad-snapshots"
    refused = seen(row(50, "degraded", None, reason="permission denied"))
    assert refused.why_not("degraded") == "degraded: permission denied"
    assert refused.why_not("read_only").code == "name-missing"


def test_setting_changes_are_told_once_for_all_that_changed_alike() -> None:
    settings = tuple(
        (hours(h), f"OST000{n}", "ost", "mb_c2_threshold", "15" if h < 50 or n == 2 else "25")
        for h in (48, 49, 50, 51)
        for n in range(3)
    )
    (change,) = seen(settings=settings).setting_changes()
    assert (change.before, change.after, change.of) == ("15", "25", 3)
    assert change.targets == ("OST0000", "OST0001")
    assert (change.before_at, change.at) == (hours(49), hours(50))
    frames = seen(settings=settings).setting("mb_c2_threshold")
    assert frames.height == 12


@pytest.mark.parametrize("readings", [pl.DataFrame(), pl.DataFrame({"at": [1, 2]})])
def test_frames_that_lack_columns_give_nothing(readings: pl.DataFrame) -> None:
    frames = observe(plain_context(telemetry=Telemetry(readings, pl.DataFrame())))
    assert frames.values("used_bytes").is_empty()
    assert frames.rates("bytes_written_total").is_empty()
    assert frames.fullness().is_empty()
    assert frames.texts("import_state").is_empty()
    assert frames.setting("checksums").is_empty()
    assert frames.setting_changes() == ()
    assert frames.times(bad=True) == ()


def test_numbers_that_are_none_are_left_out() -> None:
    rows = [row(50 + n, "used_bytes", value) for n, value in enumerate((1.0, None, float("nan")))]
    frames = seen(*rows).values("used_bytes")
    assert frames.get_column("at").to_list() == [hours(50)]
    assert frames.get_column("at").to_list()[0] - timedelta(hours=50) == hours(0)


def test_write_amplification_is_of_the_time_between_two_readings() -> None:
    """Lives of 3 PB and 1 PB written hide an hour in which the drive wrote six times as much."""
    gb, rows = 1e9, []
    for hour, media, host in (
        (1, 0, 0),
        (2, 20, 10),
        (49, 100, 50),
        (50, 400, 100),
        (51, 401, 100),
    ):
        rows += [
            row(hour, "drive_media_written_bytes_total", 3e15 + media * gb, label="nvme0"),
            row(hour, "drive_host_written_bytes_total", 1e15 + host * gb, label="nvme0"),
            row(hour, "drive_write_amplification", 3.0, label="nvme0"),
        ]
    figures = seen(*rows).write_amplification()
    values = dict(
        zip(*(figures.get_column(name).to_list() for name in ("at", "value")), strict=True)
    )
    assert values[hours(2)] == pytest.approx(2.0)
    assert values[hours(50)] == pytest.approx(6.0)
    assert hours(51) not in values, "the host wrote nothing: no ratio"


def test_without_counters_it_is_that_of_the_drives_life() -> None:
    frames = seen(row(49, "drive_write_amplification", 3.0, label="nvme0"))
    assert frames.write_amplification().get_column("value").to_list() == [3.0]
