"""A small simulated file system for tests: four OSTs of 2 GiB, a column each, and few users."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from trimtab.twin.life import Life
from trimtab.twin.scenario import Lifetime, Scenario
from trimtab.twin.scenario_file import load_scenario

START = datetime(2026, 11, 1, tzinfo=UTC)
OST_BYTES = 2.0 * 2**30


def small_scenario(**changes: object) -> Scenario:
    """Return the scenario: the template, made small."""
    base = load_scenario("template")
    users = replace(
        base.users,
        count=10,
        fullness=0.4,
        daily_writes_bytes=400.0 * 2**20,
        daily_reads_bytes=400.0 * 2**20,
        lifetimes=(Lifetime(1.0, 8 * 86400.0),),
        quota_bytes=None,
        quota_inodes=None,
    )
    small = replace(
        base,
        name="small",
        start=START,
        length_s=30 * 86400.0,
        timezone="UTC",
        osts=replace(base.osts, count=4, capacity_bytes=OST_BYTES),
        mdts=replace(base.mdts, count=1),
        users=users,
        probes=(),
        changes=(),
        faults=(),
        trim=replace(base.trim, every_s=None),
        purge=replace(base.purge, enabled=False),
        gating=replace(base.gating, enabled=False),
        resolution=replace(base.resolution, classes=None, groups=16, superblock_units=64),
    )
    return replace(small, **changes)  # type: ignore[arg-type]


def small_life(directory: Path | None = None, **changes: object) -> Life:
    """Return the life of that scenario, at its beginning."""
    return Life(small_scenario(**changes), directory)
