"""`garbage-collection`: drive figures, tails, and what tells it from the allocator."""

from __future__ import annotations

import pytest
from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOUR, gauge, missing, space, survey
from tests.explain.causes.storage import NIGHTLY, OST_WRITE, SLOW, allocator, hourly, sound, trim

from trimtab.base.incident import Found
from trimtab.explain.causes.storage import allocator_loops
from trimtab.explain.causes.storage.garbage_collection import CAUSE
from trimtab.explain.context import CpuProfile

FULL = space(0.8, 0.82)
BUSY = gauge("drive_write_amplification", 1.5, 3.2, label="nvme0n1")


def test_amplification_in_time() -> None:
    # Drives that collect while they are written.
    of = sound(FULL, BUSY, tail=9.0)
    assert weight_of(CAUSE, of) > 2
    shows(CAUSE, of, "amplification-in-time", Found.FOR, value=3.2, reference=1.5)
    assert shows(CAUSE, of, "amplification-over-limit", value=3.2).weight >= 0.3
    assert weight_of(allocator_loops.CAUSE, of) < 0
    # Drives that write what they are given are against.
    shows(CAUSE, sound(), "amplification-in-time", Found.AGAINST, value=1.5)
    # A tenth more is the least that matters.
    little = gauge("drive_write_amplification", hourly(1.5), hourly(1.6), label="nvme0n1")
    shows(CAUSE, sound(little), "amplification-in-time", Found.AGAINST, value=1.6)
    enough = gauge("drive_write_amplification", 1.5, 1.7, label="nvme0n1")
    shows(CAUSE, sound(enough), "amplification-in-time", Found.FOR, value=1.7)
    # A figure of the drives whole life clears nothing.
    lifelong = gauge("drive_write_amplification", 1.5, label="nvme0n1")
    shows(CAUSE, sound(lifelong), "amplification-in-time", Found.NEUTRAL, value=1.5)


def test_slow_targets_whose_drives_write_more() -> None:
    slow = survey(OST_WRITE, 8e9, slow_targets=SLOW)
    high = gauge("drive_write_amplification", 3.2, targets=SLOW, label="nvme0n1")
    shows(CAUSE, sound(high, surveys=slow), "amplification-between-targets", Found.FOR)
    shows(CAUSE, sound(surveys=slow), "amplification-between-targets", Found.AGAINST)


@pytest.mark.parametrize(
    ("fullness", "outcome"), [(0.4, Found.AGAINST), (0.65, Found.NEUTRAL), (0.85, Found.FOR)]
)
def test_drives_with_room_need_not_collect(fullness: float, outcome: Found) -> None:
    shows(CAUSE, sound(space(fullness)), "fullness-for-collection", outcome)


def test_server_cpu_that_rose_speaks_for_something_else() -> None:
    of = sound(FULL, BUSY, gauge("server_cpu_fraction", 0.3, 0.9))
    shows(CAUSE, of, "server-cpu", Found.AGAINST)
    shows(CAUSE, sound(), "server-cpu", Found.FOR)


def test_useless_loops_speak_for_the_allocator() -> None:
    of = sound(FULL, allocator(0.0, 0.08))
    shows(CAUSE, of, "loops-in-time", Found.AGAINST)
    assert weight_of(allocator_loops.CAUSE, of) > weight_of(CAUSE, of)


def test_a_profile_comes_before_the_counters() -> None:
    profile = CpuProfile(BAD_FROM + HOUR, {"ldiskfs_mb_good_group": 0.25})
    of = sound(FULL, profiles=[profile])
    shows(CAUSE, of, "allocator-cpu-share", Found.AGAINST, value=0.25)


def test_a_trim_cures_it_and_not_the_allocator() -> None:
    of = sound(
        FULL, BUSY, events=[*NIGHTLY, trim(4)],
        runs=sound(writes=0.8).runs,
    )  # fmt: skip
    shows(CAUSE, of, "trim-recovery", Found.AGAINST)
    shows(allocator_loops.CAUSE, of, "trim-recovery", Found.FOR)


def test_amplification_over_limit() -> None:
    # Amplified in all hours is left to expectation.
    of = sound(gauge("drive_write_amplification", 4.0, label="nvme0n1"))
    assert shows(CAUSE, of, "amplification-in-time", value=4.0).weight <= 0
    assert shows(CAUSE, of, "amplification-over-limit", value=4.0).weight >= 0.3
    # Drives of one target are put together.
    rows = [
        *gauge("drive_write_amplification", 1.0, label="nvme0n1"),
        *gauge("drive_write_amplification", 2.0, label="nvme1n1"),
    ]
    shows(CAUSE, sound(rows), "amplification-over-limit", value=1.5)


def test_drives_that_do_not_tell() -> None:
    of = sound(missing("drive_write_amplification", "needs nvme-cli and root"))
    pieces = [piece for piece in CAUSE.assess(of) if "nvme-cli" in (piece.reason or "")]
    assert len(pieces) == 2
    drift = sound(but=["allocator_useless_loops_total", "server_cpu_fraction"])
    shows(CAUSE, drift, "loops-in-time", Found.NOT_AVAILABLE)
    shows(CAUSE, drift, "server-cpu", Found.NOT_AVAILABLE)
