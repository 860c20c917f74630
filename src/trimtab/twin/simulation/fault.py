"""Faults of a simulation: the phases of an array, their effect on each OST, and their log events.

::

    spares      failed ── rebuilding onto spare space ──▶ rebuilt ── a drive short ──▶ replaced
    no spares   failed ── degraded ──▶ replaced ── rebuilding onto the new drive ──▶ rebuilt

``until`` of a fault is the replacement of the drive. A rebuild always runs to its end: copying back
from spare space to the new drive is not simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np

from trimtab.base.event import Event, EventKind, identifier_of
from trimtab.base.name_set import ost_name
from trimtab.twin.scenario import Fault, Scenario
from trimtab.twin.simulation.hardware import hardware, rebuild_s
from trimtab.twin.simulation.ost_array import Array, Flags, Integers

PhaseKind = Literal["degraded", "rebuilding", "short"]


@dataclass(frozen=True, slots=True)
class RebuildPhase:
    """A phase of arrays that lost a drive.

    Attributes
    ----------
    kind
        Data is missing and waits for a drive; is being rebuilt; is complete, on one drive fewer.
    """

    kind: PhaseKind
    at: datetime
    until: datetime | None
    osts: tuple[int, ...]


def acting(fault: Fault, scenario: Scenario) -> Fault:
    """Return a fault in its effective form: on all OSTs of an array, until no data is missing."""
    osts = _of_arrays(fault, scenario)
    if fault.kind != "failed-drive":
        return replace(fault, osts=osts)
    ends = [phase.until for phase in phases(fault, scenario) if phase.kind != "short"]
    return replace(fault, osts=osts, until=ends[-1])


def phases(fault: Fault, scenario: Scenario) -> Iterator[RebuildPhase]:
    """Yield the phases of a failed drive's arrays; nothing for other faults."""
    if fault.kind != "failed-drive":
        return
    raid, osts = scenario.osts.raid, _of_arrays(fault, scenario)
    # Only dRAID knows free space: it rebuilds only stored data, here the initial amount.
    part = scenario.users.fullness if raid.kind == "draid" else 1.0
    lasts = timedelta(seconds=rebuild_s(hardware(scenario.osts, scenario.server), part))
    if raid.spares > 0:
        rebuilt = fault.at + lasts
        yield RebuildPhase("rebuilding", fault.at, rebuilt, osts)
        if fault.until is None or fault.until > rebuilt:
            yield RebuildPhase("short", rebuilt, fault.until, osts)
        return
    yield RebuildPhase("degraded", fault.at, fault.until, osts)
    if fault.until is not None:
        yield RebuildPhase("rebuilding", fault.until, fault.until + lasts, osts)


def _of_arrays(fault: Fault, scenario: Scenario) -> tuple[int, ...]:
    """Return the affected OSTs of a fault; for drive faults all OSTs on the same drives."""
    shared = scenario.osts.raid.shared
    if fault.kind not in {"slow-drive", "failed-drive"} or shared == 1:
        return fault.osts
    arrays = sorted({ost // shared for ost in fault.osts})
    return tuple(ost for at in arrays for ost in range(at * shared, (at + 1) * shared))


SOURCE = "twin"


class EventLog:
    """The events, in the order in which they became known.

    Attributes
    ----------
    scripted
        Ids of events scripted by the scenario.
    """

    def __init__(self, site: str) -> None:
        self.site = site
        self.events: list[Event] = []
        self.scripted: set[str] = set()

    def add(
        self,
        kind: EventKind,
        at: datetime,
        detail: str,
        *,
        until: datetime | None = None,
        osts: Iterable[int] = (),
        scripted: bool = False,
    ) -> None:
        """Record an event; without OSTs it concerns the whole file system."""
        at, targets = at.astimezone(UTC), tuple(map(ost_name, osts))
        until = None if until is None else until.astimezone(UTC)
        made = identifier_of(at, self.site, kind.value, detail, *targets)
        if scripted:
            self.scripted.add(made)
        self.events.append(Event(made, self.site, kind, at, detail, SOURCE, until, targets))


SLOW_DRIVE = 0.3
"""Assumed if a fault has no size: remaining fraction of a slow drive's speed."""

Trouble = Fault | RebuildPhase
"""A fault, or a phase of the affected array."""

KINDS = {
    "silent-ost": EventKind.NOTE,
    "failover": EventKind.FAILOVER,
    "slow-drive": EventKind.NOTE,
    "failed-drive": EventKind.REBUILD,
    "name-service": EventKind.LAUNCH_FAILURE,
    "filling": EventKind.NOTE,
    "burst": EventKind.NOTE,
}
"""The event of each fault. A silent OST logs nothing; its note comes from the scenario."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Faults at one moment; arrays over real OSTs.

    Attributes
    ----------
    silent
        Does not accept I/O or answer.
    moved
        Served by the partner of its home server.
    drive_factor
        Remaining fraction of its slowest drive's speed.
    degraded, rebuilding, short
        Data of a failed drive is missing; is being rebuilt; is complete again, with one drive fewer
        (`trimtab.twin.simulation.fault`).
    names_resolve
        False while the name service does not answer.
    """

    silent: Flags
    moved: Flags
    drive_factor: Array
    degraded: Flags
    rebuilding: Flags
    short: Flags
    names_resolve: bool = True


def conditions(faults: Iterable[Trouble], start: datetime, end: datetime, osts: int) -> Conditions:
    """Return all faults at any moment from ``start`` to ``end``, both included."""
    silent, moved = np.zeros(osts, bool), np.zeros(osts, bool)
    degraded, rebuilding, short = (np.zeros(osts, bool) for _ in range(3))
    factor, resolve = np.ones(osts), True
    for fault in faults:
        if fault.at > end or (fault.until is not None and fault.until <= start):
            continue
        where = _where(fault, osts)
        if fault.kind == "silent-ost":
            silent[where] = True
        elif fault.kind == "failover":
            moved[where] = True
        elif isinstance(fault, RebuildPhase):
            short[where] |= fault.kind == "short"
            degraded[where] |= fault.kind != "short"
            rebuilding[where] |= fault.kind == "rebuilding"
        elif fault.kind == "slow-drive":
            left = SLOW_DRIVE if fault.size is None else fault.size
            factor[where] = np.minimum(factor[where], left)
        elif fault.kind == "name-service":
            resolve = False
    return Conditions(silent, moved, factor, degraded, rebuilding, short, resolve)


def log_faults(log: EventLog, faults: Sequence[Fault], first: int, end: datetime) -> int:
    """Record an event for each fault before ``end``, starting at ``first``; return the next.

    A silent OST is not noticed before a probe hangs.
    """
    number = first
    while number < len(faults) and faults[number].at < end:
        fault = faults[number]
        number += 1
        if fault.kind != "silent-ost":
            log.add(
                KINDS[fault.kind],
                fault.at,
                fault.detail or fault.kind,
                until=fault.until,
                osts=fault.osts,
                scripted=True,
            )
    return number


def added_bytes(
    faults: Iterable[Trouble], start: datetime, end: datetime, osts: int
) -> tuple[Array | None, float]:
    """Return the bytes that faults write from ``start`` to ``end``.

    Returns
    -------
    tuple
        Bytes to each real OST if one is being filled, and bytes of bursts on the whole.
    """
    filling, burst = None, 0.0
    for fault in faults:
        if isinstance(fault, RebuildPhase) or fault.kind not in {"filling", "burst"}:
            continue
        last = end if fault.until is None else min(end, fault.until)
        seconds = max(0.0, (last - max(start, fault.at)).total_seconds())
        if fault.kind == "filling":
            filling = np.zeros(osts) if filling is None else filling
            filling[_where(fault, osts)] += seconds * (fault.size or 0.0)
        else:
            burst += seconds * (fault.size or 0.0)
    return filling, burst


def _where(fault: Trouble, osts: int) -> Integers:
    if not fault.osts:
        return np.arange(osts)
    return np.array([ost for ost in fault.osts if ost < osts], np.int64)


def active(faults: Sequence[Trouble], start: datetime, end: datetime) -> tuple[Trouble, ...]:
    """Return the faults that are active at any moment from ``start`` to ``end``."""
    if not faults:
        return ()
    return tuple(
        fault
        for fault in faults
        if fault.at <= end and (fault.until is None or fault.until > start)
    )


def carriers(moved: Flags, per_server: int) -> Integers:
    """Return the server that serves each OST now: its home, or the partner in the same enclosure.

    Servers 2k and 2k + 1 are partners; the last of an odd number has none and keeps its OSTs.
    """
    home = np.arange(len(moved)) // per_server
    partner = home ^ 1
    partner_exists = partner <= (home[-1] if len(home) else 0)
    return np.where(moved & partner_exists, partner, home)
