"""What slows flash that fills: the allocator's loops, garbage collection, trims that stay away."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from tests.explain.causes.contexts import (
    BAD,
    BAD_FROM,
    DAY,
    END,
    FAST,
    GOOD,
    HOUR,
    HOURS,
    NIGHTLY,
    OST_WRITE,
    OSTS,
    SERVERS,
    SIZE,
    SLOW,
    START,
    WELL,
    allocator,
    both,
    counter,
    event,
    gauge,
    hourly,
    incident,
    missing,
    reading,
    setting,
    shows,
    sound,
    sound_settings,
    space,
    stands,
    survey,
    trim,
    weight_of,
)

from trimtab.base.error import Message, code_of
from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Incident, Route, Shape
from trimtab.explain.causes.allocator_loops import ALLOCATOR_LOOPS as LOOPS
from trimtab.explain.causes.garbage_collection import GARBAGE_COLLECTION as GC
from trimtab.explain.causes.trim_overdue import TRIM_OVERDUE as OVERDUE
from trimtab.explain.context import Context, CpuProfile, Period

# `allocator-loops`: counters, CPU, profiles and thresholds, as the allocator was found.

DEFAULTS = [
    *setting("ldiskfs/md0/mb_c1_threshold", "25"),
    *setting("ldiskfs/md0/mb_c2_threshold", "15"),
    *setting("ldiskfs/md0/mb_c3_threshold", "5"),
]


def _found_by_nersc(**more: Any) -> Context:
    """Return what NERSC saw: loops and CPU on the slow OSTs, over 75 % full, and not on others."""
    return sound(
        space(0.74, 0.8, targets=SLOW), allocator(0.0, 0.05, targets=SLOW),
        allocator(0.0, targets=FAST), gauge("server_cpu_fraction", 0.3, 0.85, targets=SLOW),
        surveys=survey(OST_WRITE, 8e9, slow_targets=SLOW), settings=DEFAULTS, **more,
    )  # fmt: skip


def test_loops_in_good_hours() -> None:
    # As it was found.
    of = _found_by_nersc()
    assert weight_of(LOOPS, of) > 5
    assert weight_of(GC, of) < 0
    shows(LOOPS, of, "loops-in-time", Found.FOR, value=0.05, reference=0.0)
    shows(LOOPS, of, "loops-between-targets", Found.FOR, value=0.05, reference=0.0, targets=SLOW)
    shows(LOOPS, of, "groups-searched", Found.FOR)
    shows(LOOPS, of, "server-cpu", Found.FOR)
    shows(LOOPS, of, "cpu-of-slow-targets", Found.FOR)
    shows(LOOPS, of, "thresholds", Found.FOR)
    # No loops no cause.
    assert shows(LOOPS, sound(), "loops-over-limit", value=0.0).weight < -0.7
    assert shows(LOOPS, sound(), "loops-in-time", value=0.0).weight < 0


@pytest.mark.parametrize(
    ("rate", "outcome"), [(0.005, Found.AGAINST), (0.01, Found.NEUTRAL), (0.024, Found.FOR)]
)
def test_the_limit_is_one_in_a_hundred(rate: float, outcome: Found) -> None:
    shows(LOOPS, sound(allocator(rate)), "loops-over-limit", outcome, value=rate)


def test_loops_in_time() -> None:
    # Loops in all hours are a standing condition.
    of = sound(allocator(0.05), space(0.8), settings=DEFAULTS)
    stands(LOOPS, of, "loops-in-time", value=0.05, reference=0.05)
    assert shows(LOOPS, of, "loops-over-limit").weight >= 0.3
    # Loops of all criteria count whatever their names.
    rows = [*allocator(0.0), *counter("allocator_useless_loops_total", 0.0, 300.0, label="cr2"),
            *counter("allocator_useless_loops_total", 0.0, 200.0, label="cr3")]  # fmt: skip
    rows = [row for row in rows if row["label"] != "cr1"]
    shows(LOOPS, sound(rows), "loops-over-limit", value=0.05)
    # A counter that was set back is not negative.
    rows = [
        {**row, "number": 5.0} if row["at"] == START + 9 * HOUR else row for row in allocator(0.02)
    ]
    shows(LOOPS, sound(rows), "loops-over-limit", value=0.02)
    # An idle target has no rate.
    shows(LOOPS, sound(allocator(0.05, per_s=1e-4)), "loops-in-time", Found.NOT_AVAILABLE)


def test_cpu_of_the_machines_comes_before_that_shown_with_targets() -> None:
    of = sound(gauge("server_cpu_fraction", 0.3, 0.9, targets=SERVERS))
    shows(LOOPS, of, "server-cpu", Found.FOR)
    shows(LOOPS, sound(), "server-cpu", Found.AGAINST)


@pytest.mark.parametrize(
    ("share", "outcome"), [(0.01, Found.AGAINST), (0.1, Found.NEUTRAL), (0.3, Found.FOR)]
)
def test_profiles_of_the_bad_hours(share: float, outcome: Found) -> None:
    shares = {"ldiskfs_mb_regular_allocator": share / 2, "ext4_mb_good_group": share / 2,
              "ext4_map_blocks": 0.4, "copy_user_generic": 0.2}  # fmt: skip
    profile = CpuProfile(BAD_FROM + HOUR, shares)
    shows(LOOPS, sound(profiles=[profile]), "allocator-cpu-share", outcome, value=share)


def test_a_profile_as_bad_in_good_hours_tells_less() -> None:
    two = [CpuProfile(at, {"ldiskfs_mb_x": 0.3}) for at in (START, BAD_FROM)]
    both = shows(LOOPS, sound(profiles=two), "allocator-cpu-share", throughout=True)
    alone = shows(LOOPS, sound(profiles=two[1:]), "allocator-cpu-share")
    assert both.weight < alone.weight
    undated = CpuProfile(None, {"ldiskfs_mb_x": 0.3})
    shows(LOOPS, sound(profiles=[undated]), "allocator-cpu-share", weight=alone.weight)
    other = CpuProfile(START - 90 * 24 * HOUR, {"ldiskfs_mb_x": 0.3})
    shows(LOOPS, sound(profiles=[other]), "allocator-cpu-share", Found.NOT_AVAILABLE)


def test_thresholds_that_were_taken_back() -> None:
    """Where no loops are counted, the setting that makes them is a sign of its own."""
    lowered = [row for row in sound_settings() if "mb_c2" not in row["name"]]
    lowered += setting("ldiskfs/md0/mb_c2_threshold", "25", "15")
    piece = shows(LOOPS, sound(settings=lowered), "thresholds-lowered", Found.FOR, weight=0.8)
    assert piece.route is Route.TIME


def test_thresholds() -> None:
    # Thresholds that skip the loop.
    shows(LOOPS, sound(), "thresholds-in-force", Found.AGAINST)
    shows(LOOPS, sound(settings=DEFAULTS), "thresholds", Found.FOR)
    lower = [*setting("mb_c1_threshold", "10"), *setting("mb_c2_threshold", "5")]
    shows(LOOPS, sound(settings=lower), "thresholds", Found.NEUTRAL)
    # Newer kernels have no thresholds.
    new = gauge("allocator_family", "criteria-by-name")
    shows(LOOPS, sound(new, settings=[]), "allocator-family", weight=-0.3)
    shows(LOOPS, sound(settings=[]), "allocator-family", weight=0)
    none = sound(settings=[], but=["allocator_family"])
    shows(LOOPS, none, "thresholds", Found.NOT_AVAILABLE)


@pytest.mark.parametrize(
    ("fullness", "outcome"), [(0.5, Found.AGAINST), (0.72, Found.NEUTRAL), (0.85, Found.FOR)]
)
def test_it_needs_full_targets(fullness: float, outcome: Found) -> None:
    shows(LOOPS, sound(space(fullness)), "fullest-target", outcome)


def test_a_trim_that_helped_clears_it() -> None:
    helped = _found_by_nersc(
        events=[*NIGHTLY, trim(12)], now=BAD_FROM + 40 * HOUR,
        of=_ended(Shape.DIP),
    )  # fmt: skip
    # Trims come every night: one in three incidents ends within four hours of one by chance.
    shows(LOOPS, helped, "trim-recovery", weight=pytest.approx(-0.477, abs=1e-3))
    stayed = _found_by_nersc(events=[*NIGHTLY, trim(4)])
    shows(LOOPS, stayed, "trim-recovery", Found.FOR)


def _ended(shape: Shape) -> Incident:
    return incident(shape, until=END)


def test_counters_that_are_off() -> None:
    of = sound(missing("allocator_useless_loops_total", "the counters are off (mb_stats is 0)"))
    reasons = [piece.reason for piece in LOOPS.assess(of) if piece.what.code.startswith("loops-")]
    assert len(reasons) == 3
    assert all("mb_stats is 0" in (reason or "") for reason in reasons)


# `garbage-collection`: drive figures, tails, and what tells it from the allocator.

FULL = space(0.8, 0.82)
BUSY = gauge("drive_write_amplification", 1.5, 3.2, label="nvme0n1")


def test_amplification_in_time() -> None:
    # Drives that collect while they are written.
    of = sound(FULL, BUSY, tail=9.0)
    assert weight_of(GC, of) > 2
    shows(GC, of, "amplification-in-time", Found.FOR, value=3.2, reference=1.5)
    assert shows(GC, of, "amplification-over-limit", value=3.2).weight >= 0.3
    assert weight_of(LOOPS, of) < 0
    # Drives that write what they are given are against.
    shows(GC, sound(), "amplification-in-time", Found.AGAINST, value=1.5)
    # A tenth more is the least that matters.
    little = gauge("drive_write_amplification", hourly(1.5), hourly(1.6), label="nvme0n1")
    shows(GC, sound(little), "amplification-in-time", Found.AGAINST, value=1.6)
    enough = gauge("drive_write_amplification", 1.5, 1.7, label="nvme0n1")
    shows(GC, sound(enough), "amplification-in-time", Found.FOR, value=1.7)
    # A figure of the drives whole life clears nothing.
    lifelong = gauge("drive_write_amplification", 1.5, label="nvme0n1")
    shows(GC, sound(lifelong), "amplification-in-time", Found.NEUTRAL, value=1.5)


def test_slow_targets_whose_drives_write_more() -> None:
    slow = survey(OST_WRITE, 8e9, slow_targets=SLOW)
    high = gauge("drive_write_amplification", 3.2, targets=SLOW, label="nvme0n1")
    shows(GC, sound(high, surveys=slow), "amplification-between-targets", Found.FOR)
    shows(GC, sound(surveys=slow), "amplification-between-targets", Found.AGAINST)


@pytest.mark.parametrize(
    ("fullness", "outcome"), [(0.4, Found.AGAINST), (0.65, Found.NEUTRAL), (0.85, Found.FOR)]
)
def test_drives_with_room_need_not_collect(fullness: float, outcome: Found) -> None:
    shows(GC, sound(space(fullness)), "fullness-for-collection", outcome)


def test_server_cpu_that_rose_speaks_for_something_else() -> None:
    of = sound(FULL, BUSY, gauge("server_cpu_fraction", 0.3, 0.9))
    shows(GC, of, "server-cpu", Found.AGAINST)
    shows(GC, sound(), "server-cpu", Found.FOR)


def test_useless_loops_speak_for_the_allocator() -> None:
    of = sound(FULL, allocator(0.0, 0.08))
    shows(GC, of, "loops-in-time", Found.AGAINST)
    assert weight_of(LOOPS, of) > weight_of(GC, of)


def test_a_profile_comes_before_the_counters() -> None:
    profile = CpuProfile(BAD_FROM + HOUR, {"ldiskfs_mb_good_group": 0.25})
    of = sound(FULL, profiles=[profile])
    shows(GC, of, "allocator-cpu-share", Found.AGAINST, value=0.25)


def test_a_trim_cures_it_and_not_the_allocator() -> None:
    parts = {"events": [*NIGHTLY, trim(4)], "runs": sound(writes=0.8).runs}
    of = sound(FULL, **parts)
    shows(GC, of, "trim-recovery", Found.AGAINST)
    shows(LOOPS, of, "trim-recovery", Found.FOR)
    # Drives that went on collecting after the trim could give nothing back.
    shows(GC, sound(FULL, BUSY, **parts), "trim-recovery", Found.NEUTRAL)
    shows(LOOPS, sound(FULL, BUSY, **parts), "trim-recovery", Found.FOR)


def test_amplification_over_limit() -> None:
    # Amplified in all hours is left to expectation.
    of = sound(gauge("drive_write_amplification", 4.0, label="nvme0n1"))
    assert shows(GC, of, "amplification-in-time", value=4.0).weight <= 0
    assert shows(GC, of, "amplification-over-limit", value=4.0).weight >= 0.3
    # Drives of one target are put together.
    rows = [
        *gauge("drive_write_amplification", 1.0, label="nvme0n1"),
        *gauge("drive_write_amplification", 2.0, label="nvme1n1"),
    ]
    shows(GC, sound(rows), "amplification-over-limit", value=1.5)


def test_drives_that_do_not_tell() -> None:
    of = sound(missing("drive_write_amplification", "needs nvme-cli and root"))
    pieces = [piece for piece in GC.assess(of) if "nvme-cli" in (piece.reason or "")]
    assert len(pieces) == 2
    drift = sound(but=["allocator_useless_loops_total", "server_cpu_fraction"])
    shows(GC, drift, "loops-in-time", Found.NOT_AVAILABLE)
    shows(GC, drift, "server-cpu", Found.NOT_AVAILABLE)


# `trim-overdue`: the dose since the last trim, and whether a trim cured it.

DRIFT = incident(Shape.DRIFT, effect=0.9)


def _trimmed(days_before: float) -> list[Any]:
    return [event(EventKind.TRIM, BAD_FROM - timedelta(days=days_before), "by hand")]


def _dose(of: Context) -> Any:
    return shows(OVERDUE, of, "trim-dose")


@pytest.mark.parametrize(
    ("days", "outcome"),
    [(0.5, Found.AGAINST), (4, Found.AGAINST), (10, Found.FOR), (70, Found.FOR)],
)
def test_the_dose_since_the_last_trim(days: float, outcome: Found) -> None:
    piece = _dose(sound(events=_trimmed(days)))
    assert piece.found is outcome
    assert piece.value == pytest.approx(0.07 * (days + 11 / 24), rel=0.01)


def test_five_full_writes_weigh_more_than_one() -> None:
    weights = [_dose(sound(events=_trimmed(days))).weight for days in (8, 15, 70)]
    assert weights == sorted(weights)
    assert weights[-1] == pytest.approx(1.0, abs=0.01)


def test_overdue_trims_in_a_drift_that_a_trim_ends() -> None:
    of = sound(
        counter("bytes_written_total", 0.4 * SIZE / DAY),
        events=[*_trimmed(13), trim(12.5)], writes=0.88, now=END + 24 * HOUR,
        of=incident(Shape.DRIFT, effect=0.88, until=END),
    )  # fmt: skip
    assert weight_of(OVERDUE, of) > 2
    shows(OVERDUE, of, "trim-recovery", Found.FOR, value=1.0)


def test_a_trim_that_ended_it_does_not_hide_the_dose() -> None:
    rate = counter("bytes_written_total", 0.4 * SIZE / DAY)
    of = sound(rate, events=[*_trimmed(13), trim(10)], writes=0.88, of=DRIFT)
    assert _dose(of).value == pytest.approx(0.4 * (13 + 10 / 24), rel=0.01)
    # Nightly trims leave what a day writes.
    nightly = [*_trimmed(1), *[trim(hours) for hours in (0.5, 8)]]
    assert _dose(sound(rate, events=nightly, of=DRIFT)).value == pytest.approx(0.4, rel=0.1)


def test_trims_that_stopped_in_the_good_hours_are_no_standing_condition() -> None:
    """Erased blocks run out over days: the hours before the onset were on the way."""
    heavy = counter("bytes_written_total", 3.0 * SIZE / DAY)
    stopped = [event(EventKind.TRIM, START + hours * HOUR, "timer") for hours in (-21, -9, 3)]
    of = sound(heavy, events=stopped, writes=0.88, of=DRIFT)
    shows(OVERDUE, of, "trim-dose-in-time", Found.FOR, value=3 * 56 / 24, reference=1.5)
    assert not _dose(of).throughout


def test_the_last_days_before_a_weekly_trim_are_as_usual() -> None:
    """Whatever the day on which the good hours began, a week's dose was borne before."""
    rate = counter("bytes_written_total", 0.25 * SIZE / DAY)
    weekly = [event(EventKind.TRIM, START + timedelta(days=day), "timer") for day in (-14, -7, 0)]
    of = sound(rate, events=weekly, of=DRIFT)
    piece = shows(OVERDUE, of, "trim-dose-in-time", reference=0.25 * 7)
    assert piece.found is not Found.FOR


def test_trim_dose_in_time() -> None:
    # A dose that was as large before is a standing condition.
    assert _dose(sound(events=_trimmed(70))).throughout
    shows(OVERDUE, sound(events=_trimmed(70)), "trim-dose-in-time", throughout=True)
    # A dose that grew with the incident.
    heavy = counter("bytes_written_total", 1.0 * SIZE / DAY)
    of = sound(heavy, events=_trimmed(2.0), of=DRIFT)
    shows(OVERDUE, of, "trim-dose-in-time", Found.FOR)
    assert not _dose(of).throughout


def test_a_trim_just_before_the_first_bad_run_clears_it() -> None:
    piece = shows(OVERDUE, sound(events=_trimmed(0.25)), "trimmed-recently")
    assert piece.at == BAD_FROM - 6 * HOUR
    assert (piece.found, piece.weight) == (Found.AGAINST, -1.0)


def test_never_trimmed_counts_all_that_was_written_since_attached() -> None:
    piece = _dose(sound(gauge("bytes_discarded_total", SIZE), events=[]))
    assert piece.at is None
    assert piece.value == pytest.approx(40.2, abs=0.1)
    assert piece.throughout


def test_never_trimmed_but_young_is_overdue_before_long() -> None:
    young = counter("bytes_written_total", 0.07 * SIZE / DAY, start=0.0)
    piece = _dose(sound(young, gauge("bytes_discarded_total", SIZE), events=[]))
    assert piece.weight == pytest.approx(0.35)


def test_discards_that_grow_are_trims_that_nobody_wrote_down() -> None:
    late = START + 40 * HOUR
    rows = [
        reading(at, target, "bytes_discarded_total", (9.05 if at >= late else 9.0) * SIZE)
        for target in OSTS
        for at in HOURS
    ]
    assert _dose(sound(rows, events=[])).value == pytest.approx(0.07 * 19.5 / 24, rel=0.01)


def test_the_timers_own_word() -> None:
    ran = gauge("last_trim_at", (BAD_FROM - 5 * HOUR).isoformat())
    assert _dose(sound(ran, events=[])).value == pytest.approx(0.07 * 16 / 24, rel=0.01)
    nonsense = gauge("last_trim_at", "n/a")
    assert dose_reason(sound(nonsense, events=[]))


def dose_reason(of: Context) -> Message:
    reason = shows(OVERDUE, of, "trim-dose").reason
    assert reason is not None
    return reason


def test_hours_without_snapshots_are_no_hours_without_trims() -> None:
    """The timer's word is in snapshots alone, and there was none while it was slow."""
    timer = gauge(
        "last_trim_at",
        lambda _, at: (at - (at - START) % (6 * HOUR)).isoformat(), targets=OSTS,
    )  # fmt: skip
    heavy = counter("bytes_written_total", 1.0 * SIZE / DAY)
    of = sound(heavy, timer, events=[])
    early = of.telemetry.readings.filter(pl.col("at") < BAD_FROM - 12 * HOUR)
    blind = replace(of, telemetry=replace(of.telemetry, readings=early))
    shows(OVERDUE, blind, "trim-dose", Found.NOT_AVAILABLE)
    shows(OVERDUE, blind, "trims-missed", Found.NOT_AVAILABLE)


def test_where_nothing_would_show_a_trim_nothing_is_said() -> None:
    assert dose_reason(sound(events=[])).code == "trims-unknown"


def test_what_clients_wrote_does_where_the_devices_do_not_count() -> None:
    of = sound(but=["bytes_written_total"], events=_trimmed(10))
    assert _dose(of).value == pytest.approx(0.06 * (10 + 11 / 24), rel=0.01)


def test_no_counters_no_dose() -> None:
    rows = missing("bytes_written_total", "no underlying block device is visible")
    of = sound(rows, but=["client_bytes_written_total"])
    assert "no underlying block device" in dose_reason(of)


def test_slow_targets_that_were_left_out_of_the_trims() -> None:
    slow = survey(OST_WRITE, 9e9, slow_targets=SLOW)
    partly = [event(EventKind.TRIM, BAD_FROM - timedelta(days=40), "all"),
              *(event(EventKind.TRIM, BAD_FROM - timedelta(days=day), "some", targets=OSTS[3:])
                for day in range(1, 12))]  # fmt: skip
    shows(OVERDUE, sound(surveys=slow, events=partly), "trim-dose-between-targets", Found.FOR)
    shows(OVERDUE, sound(surveys=slow), "trim-dose-between-targets", Found.AGAINST)


def test_trims_that_stayed_away() -> None:
    early = [event(EventKind.TRIM, BAD_FROM - timedelta(days=day), "") for day in range(8, 14)]
    shows(OVERDUE, sound(events=early), "trims-missed", Found.FOR)
    shows(OVERDUE, sound(), "trims-missed", Found.AGAINST)
    assert shows(OVERDUE, sound(events=early[:2]), "trims-missed").reason is not None


@pytest.mark.parametrize(
    ("options", "weight"),
    [("rw,discard", -1.0), ("rw,fstrim=256", -1.0), ("rw,nodiscard", 0.0), ("rw,nofstrim", 0.0)],
)
def test_mount_options_that_trim(options: str, weight: float) -> None:
    of = sound(settings=setting("mount/options", options))
    shows(OVERDUE, of, "trims-by-mount-option", weight=weight)


def test_erased_blocks_run_out_by_degrees() -> None:
    weights = [
        shows(OVERDUE, sound(of=incident(shape)), "shape-of-decline").weight
        for shape in (Shape.DRIFT, Shape.STEP, Shape.DIP)
    ]
    assert weights == [0.5, -0.2, -1.3]


# What trims did


def test_trim_recovery() -> None:
    # A trim that did not help.
    shows(OVERDUE, sound(events=[*NIGHTLY, trim(4)]), "trim-recovery", Found.AGAINST)
    # Many trims that did not help weigh more than one.
    single = shows(OVERDUE, sound(events=[trim(4)]), "trim-recovery").weight
    many = shows(
        OVERDUE, sound(events=[trim(3), trim(5), trim(7)]), "trim-recovery", value=0.0
    ).weight
    assert many < single < 0


def test_a_trim_after_which_the_runs_are_well() -> None:
    from dataclasses import replace

    bad = Period(BAD_FROM, BAD_FROM + 6 * HOUR)
    after = Period(BAD_FROM + 7 * HOUR, END)
    well = tuple(
        replace(run, values={"write_bandwidth": WELL}) if run.at >= after.from_ else run
        for run in both(0.8, 1.0)
    )
    of = sound(events=[trim(6.5)], runs=well, bad=(bad,), good=(GOOD, after))
    shows(OVERDUE, of, "trim-recovery", Found.FOR, value=1.0)


def test_no_trim_and_no_runs_near_one() -> None:
    untrimmed = shows(OVERDUE, sound(), "trim-recovery").reason
    assert code_of(untrimmed) == "no-trim"
    at_once = shows(OVERDUE, sound(events=[trim(0.5)]), "trim-recovery").reason
    assert code_of(at_once) == "too-few-runs"


@pytest.mark.parametrize(("after", "outcome"), [(15e9, Found.FOR), (9e9, Found.AGAINST)])
def test_the_experiment_on_one_target(after: float, outcome: Found) -> None:
    trimmed = OSTS[0]
    first = survey(OST_WRITE, 9e9, slow_targets=[trimmed], at=[BAD_FROM + 2 * HOUR])
    again = survey(OST_WRITE, after, slow_targets=[trimmed], at=[BAD_FROM + 8 * HOUR])
    of = sound(surveys=[*first, *[{**row, "run": "again"} for row in again]],
               events=[trim(5, targets=[trimmed])], bad=(BAD,))  # fmt: skip
    shows(OVERDUE, of, "trim-recovery", outcome)


def test_a_target_that_had_lost_nothing_shows_nothing() -> None:
    two = [survey(OST_WRITE, at=[BAD_FROM + hour * HOUR]) for hour in (2, 8)]
    of = sound(surveys=[*two[0], *[{**row, "run": "again"} for row in two[1]]],
               events=[trim(5, targets=[OSTS[0]])])  # fmt: skip
    shows(OVERDUE, of, "trim-recovery", Found.NOT_AVAILABLE)


def test_nothing_after_the_incident_makes_a_trim_overdue() -> None:
    """Trims were nightly up to a dip of two hours, and stopped a week after it."""
    dip = incident(Shape.DIP, until=BAD_FROM + 2 * HOUR)
    nightly = [event(EventKind.TRIM, BAD_FROM - timedelta(hours=4 + 24 * n)) for n in range(8)]
    of = sound(events=nightly, of=dip)
    later = replace(of, now=BAD_FROM + timedelta(days=200))
    piece = shows(OVERDUE, later, "trims-missed", Found.AGAINST, value=6 * 3600)
    assert shows(OVERDUE, of, "trims-missed").weight == piece.weight


def test_a_trim_that_journal_and_timer_both_tell_of_is_one() -> None:
    """A nightly trim stood in the log book at 02:12 and in the timer at 02:00: every 24 hours."""
    shown = gauge(
        "last_trim_at", "",
        lambda _, at: (at.replace(hour=2) - timedelta(days=at.hour < 2)).isoformat(),
    )  # fmt: skip
    logged = [event(EventKind.TRIM, START + timedelta(days=n, hours=2.2)) for n in range(-6, 2)]
    assert shows(OVERDUE, sound(shown, events=logged), "trims-missed").reference == 24 * 3600


def test_disks_need_no_trim_and_collect_no_garbage() -> None:
    disks = setting("queue/rotational", "1")
    for cause in (OVERDUE, GC):
        (piece,) = cause.assess(sound(settings=disks))
        assert piece.weight <= -1.5
