"""Phases of an array after a drive failure: rebuild, and the state afterwards.

::

    spares      failed ── rebuilding onto spare space ──▶ rebuilt ── a drive short ──▶ replaced
    no spares   failed ── degraded ──▶ replaced ── rebuilding onto the new drive ──▶ rebuilt

``until`` of a fault is the replacement of the drive. A rebuild always runs to its end: copying back
from spare space to the new drive is not simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from trimtab.twin.scenario.model import Fault, Scenario
from trimtab.twin.stack.hardware import hardware
from trimtab.twin.stack.raid import rebuild_s

PhaseKind = Literal["degraded", "rebuilding", "short"]


@dataclass(frozen=True, slots=True)
class Phase:
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


def phases(fault: Fault, scenario: Scenario) -> Iterator[Phase]:
    """Yield the phases of a failed drive's arrays; nothing for other faults."""
    if fault.kind != "failed-drive":
        return
    raid, osts = scenario.osts.raid, _of_arrays(fault, scenario)
    # Only dRAID knows free space: it rebuilds only stored data, here the initial amount.
    part = scenario.users.fullness if raid.kind == "draid" else 1.0
    lasts = timedelta(seconds=rebuild_s(hardware(scenario.osts, scenario.server), part))
    if raid.spares > 0:
        rebuilt = fault.at + lasts
        yield Phase("rebuilding", fault.at, rebuilt, osts)
        if fault.until is None or fault.until > rebuilt:
            yield Phase("short", rebuilt, fault.until, osts)
        return
    yield Phase("degraded", fault.at, fault.until, osts)
    if fault.until is not None:
        yield Phase("rebuilding", fault.until, fault.until + lasts, osts)


def _of_arrays(fault: Fault, scenario: Scenario) -> tuple[int, ...]:
    """Return the affected OSTs of a fault; for drive faults all OSTs on the same drives."""
    shared = scenario.osts.raid.shared
    if fault.kind not in {"slow-drive", "failed-drive"} or shared == 1:
        return fault.osts
    arrays = sorted({ost // shared for ost in fault.osts})
    return tuple(ost for at in arrays for ost in range(at * shared, (at + 1) * shared))
