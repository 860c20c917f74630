"""`allocator-loops`: counters, CPU, profiles and thresholds, as the allocator was found."""

from __future__ import annotations

from typing import Any

import pytest
from tests.explain.causes.around import shows, weight_of
from tests.explain.causes.contexts import (
    BAD_FROM,
    END,
    HOUR,
    SERVERS,
    START,
    counter,
    gauge,
    incident,
    missing,
    setting,
    space,
    survey,
)
from tests.explain.causes.storage import FAST, NIGHTLY, OST_WRITE, SLOW, allocator, sound, trim

from trimtab.base.incident import Found, Incident, Shape
from trimtab.explain.causes.storage import garbage_collection
from trimtab.explain.causes.storage.allocator_loops import CAUSE
from trimtab.explain.context import Context, CpuProfile

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
    assert weight_of(CAUSE, of) > 5
    assert weight_of(garbage_collection.CAUSE, of) < 0
    shows(CAUSE, of, "loops-in-time", Found.FOR, value=0.05, reference=0.0)
    targets = shows(CAUSE, of, "loops-between-targets", value=0.05, reference=0.0)
    assert (targets.found, targets.targets) == (Found.FOR, SLOW)
    shows(CAUSE, of, "groups-searched", Found.FOR)
    shows(CAUSE, of, "server-cpu", Found.FOR)
    shows(CAUSE, of, "cpu-of-slow-targets", Found.FOR)
    shows(CAUSE, of, "thresholds", Found.FOR)
    # No loops no cause.
    assert shows(CAUSE, sound(), "loops-over-limit", value=0.0).weight < -0.7
    assert shows(CAUSE, sound(), "loops-in-time", value=0.0).weight < 0


@pytest.mark.parametrize(
    ("rate", "outcome"), [(0.005, Found.AGAINST), (0.01, Found.NEUTRAL), (0.024, Found.FOR)]
)
def test_the_limit_is_one_in_a_hundred(rate: float, outcome: Found) -> None:
    shows(CAUSE, sound(allocator(rate)), "loops-over-limit", outcome, value=rate)


def test_loops_in_time() -> None:
    # Loops in all hours are a standing condition.
    of = sound(allocator(0.05), space(0.8), settings=DEFAULTS)
    shows(CAUSE, of, "loops-in-time", value=0.05, reference=0.05, throughout=True, weight=0)
    assert shows(CAUSE, of, "loops-over-limit").weight >= 0.3
    # Loops of all criteria count whatever their names.
    rows = [*allocator(0.0), *counter("allocator_useless_loops_total", 0.0, 300.0, label="cr2"),
            *counter("allocator_useless_loops_total", 0.0, 200.0, label="cr3")]  # fmt: skip
    rows = [row for row in rows if row["label"] != "cr1"]
    shows(CAUSE, sound(rows), "loops-over-limit", value=0.05)
    # A counter that was set back is not negative.
    rows = [
        {**row, "number": 5.0} if row["at"] == START + 9 * HOUR else row for row in allocator(0.02)
    ]
    shows(CAUSE, sound(rows), "loops-over-limit", value=0.02)
    # An idle target has no rate.
    shows(CAUSE, sound(allocator(0.05, per_s=1e-4)), "loops-in-time", Found.NOT_AVAILABLE)


def test_cpu_of_the_machines_comes_before_that_shown_with_targets() -> None:
    of = sound(gauge("server_cpu_fraction", 0.3, 0.9, targets=SERVERS))
    shows(CAUSE, of, "server-cpu", Found.FOR)
    shows(CAUSE, sound(), "server-cpu", Found.AGAINST)


@pytest.mark.parametrize(
    ("share", "outcome"), [(0.01, Found.AGAINST), (0.1, Found.NEUTRAL), (0.3, Found.FOR)]
)
def test_profiles_of_the_bad_hours(share: float, outcome: Found) -> None:
    shares = {"ldiskfs_mb_regular_allocator": share / 2, "ext4_mb_good_group": share / 2,
              "ext4_map_blocks": 0.4, "copy_user_generic": 0.2}  # fmt: skip
    profile = CpuProfile(BAD_FROM + HOUR, shares)
    shows(CAUSE, sound(profiles=[profile]), "allocator-cpu-share", outcome, value=share)


def test_a_profile_as_bad_in_good_hours_tells_less() -> None:
    two = [CpuProfile(at, {"ldiskfs_mb_x": 0.3}) for at in (START, BAD_FROM)]
    both = shows(CAUSE, sound(profiles=two), "allocator-cpu-share", throughout=True)
    alone = shows(CAUSE, sound(profiles=two[1:]), "allocator-cpu-share")
    assert both.weight < alone.weight
    undated = CpuProfile(None, {"ldiskfs_mb_x": 0.3})
    shows(CAUSE, sound(profiles=[undated]), "allocator-cpu-share", weight=alone.weight)
    other = CpuProfile(START - 90 * 24 * HOUR, {"ldiskfs_mb_x": 0.3})
    shows(CAUSE, sound(profiles=[other]), "allocator-cpu-share", Found.NOT_AVAILABLE)


def test_thresholds() -> None:
    # Thresholds that skip the loop.
    shows(CAUSE, sound(), "thresholds-in-force", Found.AGAINST)
    shows(CAUSE, sound(settings=DEFAULTS), "thresholds", Found.FOR)
    lower = [*setting("mb_c1_threshold", "10"), *setting("mb_c2_threshold", "5")]
    shows(CAUSE, sound(settings=lower), "thresholds", Found.NEUTRAL)
    # Newer kernels have no thresholds.
    new = gauge("allocator_family", "criteria-by-name")
    shows(CAUSE, sound(new, settings=[]), "allocator-family", weight=-0.3)
    shows(CAUSE, sound(settings=[]), "allocator-family", weight=0)
    none = sound(settings=[], but=["allocator_family"])
    shows(CAUSE, none, "thresholds", Found.NOT_AVAILABLE)


@pytest.mark.parametrize(
    ("fullness", "outcome"), [(0.5, Found.AGAINST), (0.72, Found.NEUTRAL), (0.85, Found.FOR)]
)
def test_it_needs_full_targets(fullness: float, outcome: Found) -> None:
    shows(CAUSE, sound(space(fullness)), "fullest-target", outcome)


def test_a_trim_that_helped_clears_it() -> None:
    helped = _found_by_nersc(
        events=[*NIGHTLY, trim(12)], now=BAD_FROM + 40 * HOUR,
        of=_ended(Shape.DIP),
    )  # fmt: skip
    # Trims come every night: one in three incidents ends within four hours of one by chance.
    shows(CAUSE, helped, "trim-recovery", weight=pytest.approx(-0.477, abs=1e-3))
    stayed = _found_by_nersc(events=[*NIGHTLY, trim(4)])
    shows(CAUSE, stayed, "trim-recovery", Found.FOR)


def _ended(shape: Shape) -> Incident:
    return incident(shape, until=END)


def test_counters_that_are_off() -> None:
    of = sound(missing("allocator_useless_loops_total", "the counters are off (mb_stats is 0)"))
    reasons = [piece.reason for piece in CAUSE.assess(of) if piece.what.code.startswith("loops-")]
    assert len(reasons) == 3
    assert all("mb_stats is 0" in (reason or "") for reason in reasons)
