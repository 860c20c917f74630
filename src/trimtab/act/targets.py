"""Why a target is left alone now, whatever is to be changed of it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from trimtab.act.observed import Observed
from trimtab.message import Message
from trimtab.model.telemetry import CONNECTED, INACTIVE, Reading, TargetSnapshot

ABSENT: Final = Message("target-absent", "it is not in the snapshot")
_SERVED: Final = frozenset({"ost", "mdt"})
"""Kinds of targets that have a server; a local file system has this host."""


def server_of(seen: TargetSnapshot) -> str | None:
    """Return the server that has a target now, after a failover too; ``None``: not known."""
    reading = seen.reading("server")
    if reading is None:
        return seen.target.server
    return None if reading.value is None else str(reading.value)


def why_left_alone(observed: Observed, seen: TargetSnapshot) -> Message | None:
    """Return why nothing may be changed of a target; what is not known is a reason too."""
    busy = observed.busy.get("") or observed.busy.get(seen.target.name)
    return busy or unreached(observed, seen) or unfit(seen)


def unfit(seen: TargetSnapshot) -> Message | None:
    """Return why a target takes no new data as it should: read-only, or a rebuild."""
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
    """Return for how long its server was up at an earlier time; below 0: it has started since."""
    uptime_s = seen.number("server_uptime_s")
    return None if uptime_s is None else uptime_s - (now - then).total_seconds()


def closed_in_part(seen: TargetSnapshot) -> Reading | None:
    """Return the reading of an MDT that does not create on a target, if there is one."""
    of_mdts = (each for each in seen.readings if each.name == "create_enabled" and each.label)
    return next((reading for reading in of_mdts if reading.value is False), None)


def disconnected(seen: TargetSnapshot) -> Message | None:
    """Return that a target is lost to somebody or in recovery, as its connections show."""
    state = seen.value("import_state")
    if state is None or state in CONNECTED or state == INACTIVE:
        return None
    return Message("target-disconnected", f"it is not connected, or recovers: {state}")


def unreached(observed: Observed, seen: TargetSnapshot) -> Message | None:
    """Return why the state of a target is not known now: its server, or the way to it."""
    server = server_of(seen)
    if seen.target.kind in _SERVED and server is None:
        reading = seen.reading("server")
        why = reading.reason if reading is not None else "the snapshot names none"
        return Message("server-unknown", f"its server is not known: {why}")
    for host in observed.snapshot.hosts if observed.snapshot is not None else ():
        if host.name == server and host.role == "server" and host.problem is not None:
            return Message("server-partial", f"{server} answered in part: {host.problem}")
    return disconnected(seen)
