"""What a controller decides on, a site at one time, and why a target is left alone.

`SiteObserved` has every observation that a controller may use, and no means to look anything up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trimtab.base.action import Action, Instruction, Plan, Untouched
from trimtab.base.error import Message
from trimtab.base.site import Site
from trimtab.base.snapshot import (
    CONNECTED,
    INACTIVE,
    NotAvailable,
    Reading,
    Snapshot,
    TargetSnapshot,
    TrimPractice,
)

Answer = Instruction | Untouched
"""A controller's decision on a target, or on one of its settings."""


@dataclass(frozen=True, slots=True)
class SiteObserved:
    """A site at one time.

    Attributes
    ----------
    site
        Its limits, policies, servers and time zone.
    snapshot
        The newest snapshot; ``None`` if there is none.
    baseline
        An earlier snapshot, at least an hour older if possible, for rates and changes since.
    actions
        The ledger, oldest first, including actions without an outcome: all settings, closings and
        openings ever, trims and resets of at least two intervals, everything else of thirty days.
    busy
        Target to why it must be left alone now: a probe, survey, purge, rebuild or recovery. The
        empty name means all targets.
    practices
        Target to how the system itself trims it.
    pools
        Pool to its OSTs, or why they are unknown.
    measured
        Target to when a probe or survey last measured it alone.
    integrity
        Open incidents and findings about wrong data, each as a sentence.
    clock_jump_s
        Difference between the clocks of this host and the servers, or between the last snapshot and
        now, in seconds; 0 if they agree.
    """

    site: Site
    snapshot: Snapshot | None
    baseline: Snapshot | None = None
    actions: tuple[Action, ...] = ()
    busy: Mapping[str, Message] = field(default_factory=dict)
    practices: Mapping[str, TrimPractice | NotAvailable] = field(default_factory=dict)
    pools: Mapping[str, frozenset[str]] | NotAvailable = field(default_factory=dict)
    measured: Mapping[str, datetime] = field(default_factory=dict)
    integrity: tuple[Message, ...] = ()
    clock_jump_s: float = 0.0

    def plan(
        self,
        policy: str,
        now: datetime,
        answers: Sequence[Answer] = (),
        held: tuple[Message, ...] = (),
    ) -> Plan:
        """Return a plan based on these observations."""
        at = None if self.snapshot is None else self.snapshot.at
        instructions = tuple(each for each in answers if isinstance(each, Instruction))
        untouched = tuple(each for each in answers if isinstance(each, Untouched))
        return Plan(self.site.name, policy, now, at, instructions, untouched, held)


ABSENT: Final = Message("target-absent", "it is not in the snapshot")
_SERVED: Final = frozenset({"ost", "mdt"})
"""Kinds of targets with a server; a local file system is served by this host."""


def server_of(seen: TargetSnapshot) -> str | None:
    """Return the server that serves a target now, also after a failover; ``None`` if unknown."""
    reading = seen.reading("server")
    if reading is None:
        return seen.target.server
    return None if reading.value is None else str(reading.value)


def why_left_alone(observed: SiteObserved, seen: TargetSnapshot) -> Message | None:
    """Return why a target may not be changed; an unknown state is a reason too."""
    busy = observed.busy.get("") or observed.busy.get(seen.target.name)
    return busy or unreached(observed, seen) or unfit(seen)


def unfit(seen: TargetSnapshot) -> Message | None:
    """Return why a target cannot take new data normally: read-only or rebuilding."""
    read_only = seen.reading("read_only")
    if read_only is not None and read_only.value is True:
        return Message("target-read-only", f"it is read-only: {read_only.source}")
    if read_only is not None and read_only.value is None and seen.number("errors_total"):
        return Message("target-read-only", f"it may be read-only: {read_only.reason}")
    for reading in seen.readings:
        if reading.name == "degraded" and reading.value is True:
            of = "it" if reading.label is None else reading.label
            return Message("target-degraded", f"{of} is degraded: {reading.source}")
    return None


def up_before_s(seen: TargetSnapshot, now: datetime, then: datetime) -> float | None:
    """Return its server's uptime at an earlier time in seconds; negative if restarted since."""
    uptime_s = seen.number("server_uptime_s")
    return None if uptime_s is None else uptime_s - (now - then).total_seconds()


def closed_in_part(seen: TargetSnapshot) -> Reading | None:
    """Return the reading of an MDT that creates no files on a target, if any."""
    of_mdts = (each for each in seen.readings if each.name == "create_enabled" and each.label)
    return next((reading for reading in of_mdts if reading.value is False), None)


def disconnected(seen: TargetSnapshot) -> Message | None:
    """Return a reason if the connections show that a target is disconnected or recovering."""
    state = seen.value("import_state")
    if state is None or state in CONNECTED or state == INACTIVE:
        return None
    return Message("target-disconnected", f"it is disconnected or recovering: {state}")


def unreached(observed: SiteObserved, seen: TargetSnapshot) -> Message | None:
    """Return why the state of a target is unknown: its server or the connection to it."""
    server = server_of(seen)
    if seen.target.kind in _SERVED and server is None:
        reading = seen.reading("server")
        why = reading.reason if reading is not None else "the snapshot names none"
        return Message("server-unknown", f"its server is unknown: {why}")
    for host in observed.snapshot.hosts if observed.snapshot is not None else ():
        if host.name == server and host.role == "server" and host.problem is not None:
            return Message("server-partial", f"{server} answered only in part: {host.problem}")
    return disconnected(seen)
