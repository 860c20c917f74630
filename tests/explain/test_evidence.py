"""Readings as values and rates, and what they weigh: bounded, and nothing where noise is all."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.explain.contexts import hours, plain_context

from trimtab.base.error import Message, code_of
from trimtab.base.incident import Found, Route
from trimtab.explain.breadth import Breadth, breadth
from trimtab.explain.context import READINGS, SETTINGS, SURVEYS, Period, Telemetry
from trimtab.explain.contrast import MOST, Sign, between_targets, expected, in_time, presence
from trimtab.explain.sight import View
from trimtab.explain.telemetry_frame import CLIENTS, MDTS, OSTS, SERVERS, observe

# Readings as values and rates: labels folded, resets and gaps respected, reasons given.


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
    names = ("wbt_latency_s", "drive_media_errors_total", "drive_write_amplification")
    two = [("nvme0", 0.002), ("nvme1", 0.075)]
    frames = seen(*(row(1, name, value, label=label) for name in names for label, value in two))
    for name, folded in zip(names, (0.075, 0.077, 0.0385), strict=True):
        assert frames.values(name).get_column("value").to_list() == [pytest.approx(folded)], name
    assert frames.labelled("wbt_latency_s").get_column("label").to_list() == ["nvme0", "nvme1"]


def test_times_in_neither_stretch_are_left_out() -> None:
    frames = seen(*(row(hour, "used_bytes", 1.0) for hour in (-1, 0, 48, 48.5, 49, 84, 85)))
    values = frames.values("used_bytes")
    assert values.get_column("at").to_list() == [hours(h) for h in (0, 48, 49, 84)]
    assert values.get_column("bad").to_list() == [False, False, True, True]
    assert frames.times(bad=True) == (hours(49), hours(84))


def rates_of(*counted: tuple[float, float]) -> pl.DataFrame:
    """Return the rates of a counter that was read at these hours."""
    name = "bytes_written_total"
    return seen(*(row(hour, name, number) for hour, number in counted)).rates(name)


def test_rates_are_of_neighbours_and_a_reset_is_no_rate() -> None:
    rates = rates_of((50, 0.0), (51, 3600.0), (52, 10.0), (53, 7210.0))
    assert rates.get_column("at").to_list() == [hours(51), hours(53)]
    assert rates.get_column("value").to_list() == [1.0, 2.0]
    assert rates.get_column("seconds").to_list() == [3600.0, 3600.0]


def test_a_rate_belongs_to_the_stretch_that_most_of_it_was_in() -> None:
    rates = rates_of((47, 0.0), (48, 3600.0), (48.9, 6840.0), (50, 10800.0), (51, 14400.0))
    # 48 to 48.9 lies between the stretches; 48.9 to 50 is bad but for its first tenth.
    assert rates.select("at", "bad").rows() == [
        (hours(48), False), (hours(50), True), (hours(51), True),
    ]  # fmt: skip


def test_where_spells_are_shorter_than_a_step_a_step_with_part_of_one_is_bad() -> None:
    spells = tuple(Period(hours(h), hours(h + 1)) for h in (53, 70))
    between = (Period(hours(0), hours(52)), Period(hours(54), hours(69)))
    rows = [row(4 * n, "bytes_written_total", 1e6 * n) for n in range(20)]
    telemetry = Telemetry(pl.DataFrame(rows, schema=READINGS), pl.DataFrame())
    of = plain_context(bad=spells, good=between, telemetry=telemetry)
    rates = observe(of).rates("bytes_written_total")
    assert rates.filter("bad")["at"].to_list() == [hours(56), hours(72)]
    # Readings are of one moment: those around a spell do not show it.
    assert not observe(of).values("bytes_written_total")["bad"].any()


def test_no_rate_over_a_long_gap() -> None:
    rates = rates_of((1, 0.0), (1 + 27, 100.0), (1 + 27 + 20, 200.0))
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
    assert seen(settings=settings).setting("mb_c2_threshold").height == 12


@pytest.mark.parametrize("readings", [pl.DataFrame(), pl.DataFrame({"at": [1, 2]})])
def test_frames_that_lack_columns_give_nothing(readings: pl.DataFrame) -> None:
    frames = observe(plain_context(telemetry=Telemetry(readings, pl.DataFrame())))
    for nothing in (
        frames.values("used_bytes"), frames.rates("bytes_written_total"), frames.fullness(),
        frames.texts("import_state"), frames.setting("checksums"),
    ):  # fmt: skip
        assert nothing.is_empty()
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
    read = ((1, 0, 0), (2, 20, 10), (49, 100, 50), (50, 400, 100), (51, 401, 100))
    for hour, media, host in read:
        rows += [
            row(hour, "drive_media_written_bytes_total", 3e15 + media * gb, label="nvme0"),
            row(hour, "drive_host_written_bytes_total", 1e15 + host * gb, label="nvme0"),
            row(hour, "drive_write_amplification", 3.0, label="nvme0"),
        ]
    values = dict(seen(*rows).write_amplification().select("at", "value").rows())
    assert values[hours(2)] == pytest.approx(2.0)
    assert values[hours(50)] == pytest.approx(6.0)
    assert hours(51) not in values, "the host wrote nothing: no ratio"


def test_without_counters_it_is_that_of_the_drives_life() -> None:
    frames = seen(row(49, "drive_write_amplification", 3.0, label="nvme0"))
    assert frames.write_amplification().get_column("value").to_list() == [3.0]


# Weights: their sign, their bounds, and that noise weighs nothing on average.

SIGN = Sign("x", Route.LOG, "something", view=View.LOG)


def hourly_frame(good: list[float], bad: list[float], *, targets: int = 1) -> pl.DataFrame:
    """Return hourly values, the good ones first."""
    values = [*good, *bad]
    rows = [
        (hours(hour), f"OST{n:04x}", "oss1", value, hour >= len(good))
        for hour, value in enumerate(values)
        for n in range(targets)
    ]
    return pl.DataFrame(
        rows,
        schema={
            "at": pl.Datetime("us", "UTC"), "target": pl.String, "server": pl.String,
            "value": pl.Float64, "bad": pl.Boolean,
        },
        orient="row",
    )  # fmt: skip


def test_a_value_that_rose_speaks_for_and_one_that_did_not_against() -> None:
    rose = in_time(hourly_frame([1.0] * 48, [3.0] * 36), ratio=1.5)
    assert 1.0 < rose.weight <= MOST
    assert (rose.value, rose.reference) == (3.0, 1.0)
    stayed = in_time(hourly_frame([1.0] * 48, [1.0] * 36), ratio=1.5, absent=-0.8)
    assert stayed.weight == pytest.approx(-0.8 * 48 / 49)
    assert in_time(hourly_frame([3.0] * 48, [1.0] * 36), worse="lower").weight == rose.weight


def test_snapshots_of_one_stretch_count_once() -> None:
    """Forty-eight snapshots within six hours are one look at one thing."""
    short = in_time(hourly_frame([1.0] * 48, [3.0] * 6))
    assert short.weight < 1.0 < in_time(hourly_frame([1.0] * 48, [3.0] * 48)).weight


def test_a_rise_that_does_not_matter_tells_against() -> None:
    assert in_time(hourly_frame([1.0] * 48, [1.05] * 48), ratio=1.5).weight < 0
    assert in_time(hourly_frame([1.0] * 48, [1.4] * 48), by=0.5).weight < 0


def test_what_was_there_all_along_weighs_nothing_and_says_so() -> None:
    always = in_time(hourly_frame([0.8] * 48, [0.8] * 48), present_from=0.75)
    assert (always.weight, always.throughout) == (0.0, True)
    piece = Sign("fullness", Route.TIME, "fullness", "used_bytes", "1", view=View.TARGETS).of(
        always
    )
    assert piece.found is Found.NEUTRAL
    assert piece.throughout
    assert presence(hourly_frame([1.0] * 48, [1.0] * 48)).throughout


def test_presence() -> None:
    """6 of 6 bad stretches and 0 of 8 good ones: log10((6.5 / 7) / (0.5 / 9))."""
    contrast = presence(hourly_frame([0.0] * 48, [1.0] * 36))
    assert contrast.weight == pytest.approx(np.log10((6.5 / 7) / (0.5 / 9)))
    assert contrast.at == hours(48)
    assert presence(hourly_frame([0.0] * 48, [0.0] * 36), absent=-1.2).weight == pytest.approx(
        -1.2 * 6 / 7
    )
    assert presence(hourly_frame([1.0] * 48, [0.0] * 36)).weight < 0


NOT_READ = Message("not-read", "not read")


def test_what_is_missing_has_a_reason() -> None:
    for contrast, code in (
        (in_time(hourly_frame([1.0], [])), "no-bad-value"),
        (in_time(hourly_frame([], [1.0])), "no-good-value"),
        (presence(hourly_frame([1.0], [])), "no-bad-value"),
        (presence(hourly_frame([], [1.0])), "no-good-value"),
        (expected(None, 0.75), "no-bad-value"),
    ):
        piece = SIGN.of(contrast)
        assert (piece.found, code_of(piece.reason)) == (Found.NOT_AVAILABLE, code)
    assert SIGN.of(in_time(hourly_frame([], [])), why_not=NOT_READ).reason is NOT_READ
    assert SIGN.not_available(NOT_READ).reason is NOT_READ


def test_slow_targets_are_held_against_fast_ones() -> None:
    names = [f"OST{n:04x}" for n in range(24)]
    rows = hourly_frame([1.0] * 4, [1.0] * 12, targets=24).with_columns(
        value=pl.when(pl.col("target").is_in(names[:3])).then(9.0).otherwise(1.0)
    )
    sides = Breadth(tuple(names[:3]), tuple(names[3:]), 1.0, True, False, NOT_READ)
    contrast = between_targets(rows, sides, ratio=2)
    assert (contrast.value, contrast.reference) == (9.0, 1.0)
    assert contrast.weight > 1.0
    swapped = Breadth(sides.fast, sides.slow, 1.0, True, False, NOT_READ)
    assert between_targets(rows, swapped, ratio=2).weight < 0
    nobody = Breadth((), tuple(names), 1.0, True, True, NOT_READ)
    assert SIGN.of(between_targets(rows, nobody)).reason is nobody.reason


def test_expectations() -> None:
    assert expected(0.8, 0.75).weight == 0.7
    assert expected(0.7, 0.75).weight == -0.7
    assert expected(0.7, 0.75, worse="lower").weight == 0.7
    assert expected(0.8, 0.75, scale=0.05).weight == pytest.approx(0.35)
    assert expected(float("nan"), 0.75).reason is not None


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_piece_weighs_more_than_the_most(weight: float) -> None:
    piece = SIGN.weighed("x", weight)
    assert abs(piece.weight) <= MOST
    assert (piece.found is Found.NEUTRAL) == (piece.weight == 0)


def test_noise_weighs_nothing_on_average() -> None:
    """The mean likelihood ratio of what has nothing to do with it is at most about 1.

    A likelihood ratio of chance has mean 1 by definition; one over it would convict the innocent.
    Values that change within the day as users' load does: AR(1) with 0.7 from hour to hour.
    """
    rng = np.random.default_rng(20261121)
    ratios, strong = [], 0
    for _ in range(400):
        noise = np.empty(84)
        noise[0] = rng.standard_normal()
        for index in range(1, 84):
            noise[index] = 0.7 * noise[index - 1] + np.sqrt(1 - 0.49) * rng.standard_normal()
        values = np.exp(0.3 * noise)
        weight = in_time(hourly_frame(values[:48].tolist(), values[48:].tolist()), ratio=1.1).weight
        ratios.append(10**weight)
        strong += weight > 1
    assert np.mean(ratios) < 1.3
    assert strong / 400 < 0.05


def breadth_of(good: dict[str, float], bad: dict[str, float]) -> Breadth:
    """Return how broad a loss is by two surveys, one in good hours and one in bad ones."""
    surveys = pl.DataFrame(
        [
            (hours(hour), f"survey{hour}", target, "write_bandwidth", value)
            for hour, values in ((10, good), (60, bad))
            for target, value in values.items()
        ],
        schema=SURVEYS,
        orient="row",
    )
    return breadth(plain_context(surveys=surveys))


def test_surveys_show_whether_some_targets_are_slow_or_all_alike() -> None:
    usual = {f"OST{n}": 20e9 for n in range(8)}
    one = breadth_of(usual, {**usual, "OST3": 1e9})
    assert (one.slow, len(one.fast), one.alike) == (("OST3",), 7, False)
    always = usual | {"OST3": 12e9}
    assert breadth_of(always, always).slow == ()
    alike = breadth_of(usual, {name: rate * 0.8 for name, rate in usual.items()})
    assert (alike.slow, alike.alike, alike.level) == ((), True, pytest.approx(0.8))
    none = breadth_of({}, {})
    assert (none.surveyed, none.alike, none.reason.code) == (False, None, "no-bad-survey")


def test_noise_of_both_surveys_makes_no_slow_target() -> None:
    """With one survey before and one since, all that is known of noise is how targets differ."""
    found, lost = 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        good, bad = (
            {f"OST{n:04x}": 1e10 * math.exp(0.08 * rng.standard_t(4)) for n in range(30)}
            for _ in range(2)
        )
        found += bool(breadth_of(good, bad).slow)
        lost += "OST0007" in breadth_of(good, bad | {"OST0007": 0.1 * good["OST0007"]}).slow
    assert found <= 5
    assert lost >= 80


def test_one_survey_of_one_spell_among_many_supports_half_of_a_weight() -> None:
    rows = [(hours(at), f"survey{at}", "OST0", "write_bandwidth", 2e10) for at in (10, 60)]
    of = plain_context(surveys=pl.DataFrame(rows, schema=SURVEYS, orient="row"))
    assert breadth(of).sure == 1.0
    spells = (Period(hours(50), hours(51)), Period(hours(59), hours(61)))
    assert breadth(replace(of, bad=spells)).sure == pytest.approx(1 / 2)


def test_figures_that_read_the_same_are_no_evidence() -> None:
    rows = [(hours(7 * hour), 0.1121 + 0.0003 * (hour >= 20), hour >= 20)
            for hour in range(30)]  # fmt: skip
    hourly_frame = pl.DataFrame(
        rows, schema={"at": pl.Datetime("us", "UTC"), "value": pl.Float64, "bad": pl.Boolean},
        orient="row",
    )  # fmt: skip
    contrast = in_time(hourly_frame)
    assert contrast.weight > 0.5
    piece = Sign("share", Route.TIME, "share", unit="1", view=View.PROBE).of(contrast)
    assert (piece.found, piece.weight) == (Found.NEUTRAL, 0.0), piece.what
