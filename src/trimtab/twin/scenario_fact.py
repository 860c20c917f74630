"""Describe a scenario for pages and documents: settings, components, timeline, simulated runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.base.encode import mapped, shape
from trimtab.base.error import UsageError
from trimtab.base.run import RunStatus
from trimtab.base.toml_kind import SIZE_OR_ZERO
from trimtab.base.units import format_bytes, format_bytes_per_s, format_duration, format_percent
from trimtab.twin.scenario import (
    Fault,
    ProbeLoad,
    Resolution,
    Scenario,
    ScenarioChange,
    capacity_bytes,
    ost_capacity_bytes,
    server_count,
)
from trimtab.twin.scenario_key import apply_change, find_key, known_keys, value_of


class Off(NamedTuple):
    """Relative errors of write amplification through the size of a miniature OST.

    ``benchmarks/miniature_size.py`` measures them: each size against the largest that can be
    simulated, at 60 to 85 % full, trimmed every night or never, with resets of the allocator's
    pointer, and with a probe; see docs/twin.md.

    Attributes
    ----------
    least, most
        With nightly trims, or without trims and resets.
    probed
        Worst case if a probe writes as much as users, in hourly runs, with nightly trims.
    """

    least: float
    most: float
    probed: float


OFF: Final[Mapping[tuple[int, int], Off]] = {
    (16, 64): Off(-0.223, 0.023, 0.039),
    (16, 256): Off(-0.109, 0.087, 0.253),
    (64, 256): Off(-0.102, 0.055, 0.133),
    (64, 2048): Off(-0.047, 0.046, 0.309),
    (256, 512): Off(-0.06, 0.046, 0.053),
    (256, 2048): Off(-0.023, 0.026, 0.255),
    (512, 512): Off(-0.06, 0.029, -0.017),
    (512, 1024): Off(-0.032, 0.019, 0.053),
    (1024, 1024): Off(-0.027, 0.011, 0.013),
}
"""Measured errors, by groups and units per superblock."""


def sentence(resolution: Resolution) -> str:
    """Describe the size of a miniature and its error."""
    size = f"{resolution.groups} groups, superblocks of {resolution.superblock_units:,} units"
    known = OFF.get((resolution.groups, resolution.superblock_units))
    if known is None:
        return f"{size}; the error of write amplification for this size was not measured"
    least, most, probed = (
        f"{'+' * (part > 0)}{format_percent(part)}"
        for part in (known.least, known.most, known.probed)
    )
    return f"{size}; write amplification {least} to {most} off, {probed} with a large probe"


@dataclass(frozen=True, slots=True)
class ScenarioSetting:
    """One setting: the value in base SI with its unit, and the reason if it is assumed.

    Attributes
    ----------
    text
        The value as written in a file.
    """

    key: str
    value: Any
    unit: str | None
    text: str
    assumed: str | None


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One entry of the timeline; faults that end have ``until``."""

    at: datetime
    text: str
    until: datetime | None = None


def settings(scenario: Scenario) -> tuple[ScenarioSetting, ...]:
    """Return every setting except those of probes, in the order of a file.

    The name of a drive is omitted: each of its figures has its own key.
    """
    return tuple(
        ScenarioSetting(
            name, value, key.kind.unit, str(key.kind.write(value)), assumed(scenario, name)
        )
        for name, key in known_keys().items()
        if name != "osts.drive" and not name.startswith("scenario.")
        for value in [value_of(scenario, name)]
    )


def assumed(scenario: Scenario, name: str) -> str | None:
    """Return why a setting's value is assumed: its own reason, or that of its table."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        reason = scenario.assumptions.get(".".join(parts[:length]))
        if reason is not None:
            return reason
    return None


def at_the_end(scenario: Scenario) -> Scenario:
    """Return the scenario with every change in force."""
    for change in scenario.changes:
        scenario = apply_change(scenario, change)
    return scenario


def local(at: datetime, scenario: Scenario) -> str:
    """Format a time in the site's time zone."""
    return at.astimezone(scenario.zone).strftime("%Y-%m-%d %H:%M")


def timeline(scenario: Scenario) -> tuple[TimelineEntry, ...]:
    """Return changes and faults in chronological order."""
    moments = [
        TimelineEntry(change.at, _change_text(scenario, change)) for change in scenario.changes
    ]
    moments += [
        TimelineEntry(fault.at, _fault_text(fault), fault.until) for fault in scenario.faults
    ]
    return tuple(sorted(moments, key=lambda moment: moment.at))


def _change_text(scenario: Scenario, change: ScenarioChange) -> str:
    text = ", ".join(
        f"{name} = {find_key(name, scenario).kind.write(value)}"
        for name, value in change.set.items()
    )
    return f"{text} ({change.detail})" if change.detail else text


def _fault_text(fault: Fault) -> str:
    text: str = fault.kind
    if fault.osts:
        text += f" of OST {', '.join(str(ost) for ost in fault.osts)}"
    if fault.size is not None:
        # A fraction refers to a drive's speed, a larger value is a rate: `scenario.FAULT_SIZE`.
        size = fault.size
        text += f", {format_bytes_per_s(size) if size > 1 else format_percent(size, 0) + ' left'}"
    return f"{text} ({fault.detail})" if fault.detail else text


def probe_text(probe: ProbeLoad, scenario: Scenario) -> str:
    """Return what a probe runs, and when."""
    text = f"{probe.kind}, {probe.schedule}"
    if probe.kind == "ior":
        text += (
            f": {probe.nodes} nodes of {probe.tasks_per_node} tasks, "
            f"{format_bytes(probe.transfer_size_bytes)} transfers, "
            f"{_size(probe.bytes_written)} written and read back"
        )
    since = "" if probe.since is None else f", since {local(probe.since, scenario)}"
    return f"{text}; counts as 0 after {format_duration(probe.timeout_s)}{since}"


def built_of(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the components of the file system at the start."""
    osts, raid, drive = scenario.osts, scenario.osts.raid, scenario.osts.drive
    yield (
        "OSTs",
        f"{osts.count} of {_size(ost_capacity_bytes(osts))}, "
        f"{format_bytes(capacity_bytes(scenario))} together, on {server_count(osts)} servers",
    )
    shared = "one" if raid.shared == 1 else f"{raid.shared} that share them"
    parts = "+".join(str(part) for part in (raid.data, raid.parity, raid.spares))
    yield "RAID", f"{raid.kind} {parts} over {raid.drives} drives for {shared}"
    yield (
        "drive",
        f"{drive.name}: {_size(drive.capacity_bytes)}, "
        f"{format_bytes_per_s(drive.write_bytes_per_s)} write, "
        f"{format_bytes_per_s(drive.read_bytes_per_s)} read, "
        f"{format_percent(drive.spare)} spare, {drive.drive_writes_per_day:g} DWPD",
    )
    server = scenario.server
    yield (
        "server",
        f"{server.generation}, {server.cores} cores, "
        f"{format_bytes_per_s(server.network_bytes_per_s)}",
    )
    yield "MDTs", f"{scenario.mdts.count} of {scenario.mdts.inodes:,.0f} inodes"
    clients = scenario.clients
    yield "clients", f"{clients.nodes:,} nodes of {format_bytes_per_s(clients.network_bytes_per_s)}"
    yield "miniature", sentence(scenario.resolution)


def used_by(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the users and space policies at the start."""
    users = scenario.users
    yield (
        "users",
        f"{users.count:,}: {_size(users.daily_writes_bytes)} written and "
        f"{_size(users.daily_reads_bytes)} read a day, {format_percent(users.fullness, 0)} "
        "full at the start",
    )
    yield "lifetimes", ", ".join(_lifetime_texts(scenario))
    yield "trim", _every(scenario.trim.every_s) + (", -o discard" * scenario.trim.discard)
    allocator = scenario.allocator
    thresholds = "/".join(f"{part * 100:g}" for part in (allocator.c1, allocator.c2, allocator.c3))
    yield (
        "allocator",
        f"{allocator.family}, thresholds {thresholds}, pointer reset {_every(allocator.reset_s)}",
    )
    yield "throttling", "on" if scenario.queue.writeback_throttling else "off"
    yield "placement", f"{scenario.placement.kind}, {scenario.placement.stripe_count} OST a file"
    purge, gating = scenario.purge, scenario.gating
    yield "purge", f"to {format_percent(purge.target, 0)}" if purge.enabled else "none"
    yield "gating", f"above {format_percent(gating.limit, 0)}" if gating.enabled else "none"


def _lifetime_texts(scenario: Scenario) -> Iterator[str]:
    for life in scenario.users.lifetimes:
        mean = "until purged" if life.mean_s is None else format_duration(life.mean_s)
        yield f"{format_percent(life.share)} {mean}"


def _every(seconds: float | None) -> str:
    return "never" if seconds is None else f"every {format_duration(seconds)}"


def _size(value: float) -> str:
    """Format a size in the units of its file; data sheets and papers count by 1000."""
    try:
        return str(SIZE_OR_ZERO.write(value)).strip('"')
    except UsageError:
        return format_bytes(value)  # fraction of a byte: shares of the drives' capacity


@dataclass(frozen=True, slots=True)
class ScenarioSummary:
    """One scenario of a list; bytes are those at the start."""

    scenario: Scenario


@dataclass(frozen=True, slots=True)
class ScenariosDocument:
    """The scenarios that come with Trimtab."""

    scenarios: tuple[ScenarioSummary, ...]


shape(ScenarioSetting, omit=["text"])
shape(
    Scenario,
    omit=[
        *("osts", "mdts", "server", "clients", "users", "resolution", "allocator", "queue"),
        *("trim", "placement", "purge", "gating"),
    ],
    derive={
        "end": "end",
        "capacity_bytes": (float, capacity_bytes),
        "capacity_at_end_bytes": (
            float,
            lambda scenario: capacity_bytes(at_the_end(scenario)),
        ),
        "settings": (tuple[ScenarioSetting, ...], settings),
        "lifetimes": "users.lifetimes",
    },
)
shape(
    ScenarioSummary,
    inline={"scenario": ("name", "title", "start", "end", "capacity_bytes")},
    derive={
        "osts": "scenario.osts.count",
        "probes": mapped("scenario.probes", len, int),
        "changes": mapped("scenario.changes", len, int),
        "faults": mapped("scenario.faults", len, int),
    },
)


@dataclass(frozen=True, slots=True)
class TwinRun:
    """The stored result.

    Attributes
    ----------
    statuses
        Status to number of runs.
    truth
        The files with the truth; empty if the store is not a file.
    """

    scenario: Scenario
    start: datetime
    end: datetime
    store: str
    site_file: Path
    truth: tuple[Path, ...]
    statuses: dict[RunStatus, int]
    surveys: int
    snapshots: int
    events: int


shape(
    TwinRun,
    omit=["statuses"],
    derive={"scenario": "scenario.name", "seed": "scenario.seed", "runs": "statuses"},
)
