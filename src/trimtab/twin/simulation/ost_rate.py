"""The rates of each OST at one moment: ceilings of the layers, and the effect of throttling.

Ceilings come from `trimtab.twin.simulation.ost_array`; the effect of collection and writeback
throttling comes from windows of seconds that the Rust core simulates.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from trimtab._core import raid_write_ceiling, run_window
from trimtab.base.error import UsageError
from trimtab.twin.scenario import (
    Clients,
    DriveModel,
    Osts,
    ProbeLoad,
    Queue,
    Raid,
    Scenario,
    Server,
    ost_capacity_bytes,
)
from trimtab.twin.simulation import hardware
from trimtab.twin.simulation import job as client
from trimtab.twin.simulation import ost_array as ost_layer
from trimtab.twin.simulation.fault import Conditions
from trimtab.twin.simulation.hardware import FITTED, Constants
from trimtab.twin.simulation.job import JobResult, placed_job, survey_share
from trimtab.twin.simulation.ost_array import Array, Flags, Integers, OstRates


@dataclass(frozen=True, slots=True)
class OstTerms:
    """The state of each real OST at one moment.

    Attributes
    ----------
    amplification
        Units that its drives write per host unit.
    walks_per_request
        Block groups that one request of 1 MiB searches, as a fraction of its OST's groups.
    window
        Factor on writes through collection and throttling within seconds.
    server
        Its current server.
    conditions
        Its faults.
    """

    amplification: Array
    walks_per_request: Array
    window: Array
    server: Integers
    conditions: Conditions


class StackRates:
    """Ceilings of the layers, with fitted constants; tests substitute others."""

    def __init__(self, constants: Constants = FITTED) -> None:
        self._constants = constants
        self._machine: tuple[Osts, Server, hardware.OstHardware] | None = None
        self._last: tuple[Scenario, OstTerms, OstRates] | None = None
        self._fixed: dict[bool, _Fixed] = {}
        self._nodes: dict[int, tuple[Clients, hardware.Platform, client.NodeLimits]] = {}

    def osts(self, scenario: Scenario, terms: OstTerms, *, from_clients: bool) -> OstRates:
        """Return each OST's possible rates; 0 if it does not answer.

        Users and probes of an epoch use identical terms, so the result is cached.
        """
        if not from_clients:
            return self._made(scenario, terms, from_clients=False)
        if self._last is None or self._last[0] is not scenario or self._last[1] is not terms:
            self._last = (scenario, terms, self._made(scenario, terms, from_clients=True))
        return self._last[2]

    def _made(self, scenario: Scenario, terms: OstTerms, *, from_clients: bool) -> OstRates:
        fixed = self._fixed.get(from_clients)
        if fixed is None or not fixed.holds(scenario, terms):
            fixed = self._fixed[from_clients] = self._fix(scenario, terms, from_clients)
        now = fixed.ceilings.rates(
            terms.amplification,
            window=terms.window,
            groups_considered=terms.walks_per_request * fixed.groups,
        )
        return OstRates(now.write * fixed.answers, fixed.read)

    def _fix(self, scenario: Scenario, terms: OstTerms, from_clients: bool) -> _Fixed:
        machine, troubles = self._hardware(scenario), terms.conditions
        write_left, read_left = _left_of_arrays(troubles, scenario.osts.raid)
        ceilings = ost_layer.ceilings_of(
            machine,
            drive_write_factor=troubles.drive_factor * write_left,
            drive_read_factor=troubles.drive_factor * read_left,
            server_share=_server_share(terms.server, scenario.osts.per_server),
            from_clients=from_clients,
            checksums=scenario.clients.checksums,
            constants=self._constants,
        )
        answers = ~troubles.silent
        read = np.array(np.broadcast_to(ceilings.read, answers.shape)) * answers
        read.flags.writeable = False
        return _Fixed(scenario, troubles, terms.server, machine.groups, ceilings, answers, read)

    def survey(self, rates: OstRates, competing: OstRates) -> tuple[Array, Array]:
        """Return obdfilter-survey's rates of each OST."""
        return (
            survey_share(rates.write, competing.write),
            survey_share(rates.read, competing.read),
        )

    def job(
        self,
        scenario: Scenario,
        probe: ProbeLoad,
        rates: OstRates,
        competing: OstRates,
        ost_of_task: Integers,
        *,
        client_share: tuple[float, float],
    ) -> JobResult:
        """Return the result of a file-per-process job."""
        machine = self._hardware(scenario)
        return placed_job(
            ost_of_task,
            rates.write,
            rates.read,
            clients=self._of_nodes(scenario.clients, machine.platform, probe.tasks_per_node),
            job=probe,
            competing=competing.write,
            competing_read=competing.read,
            client_share=client_share,
        )

    def _of_nodes(
        self, clients: Clients, platform: hardware.Platform, tasks_per_node: int
    ) -> client.NodeLimits:
        known = self._nodes.get(tasks_per_node)
        if known is None or known[0] is not clients or known[1] is not platform:
            limits = client.node_limits(
                clients, platform, tasks_per_node, constants=self._constants
            )
            known = self._nodes[tasks_per_node] = (clients, platform, limits)
        return known[2]

    def _hardware(self, scenario: Scenario) -> hardware.OstHardware:
        known = self._machine
        if known is None or known[0] is not scenario.osts or known[1] is not scenario.server:
            osts = replace(scenario.osts, capacity_bytes=ost_capacity_bytes(scenario.osts))
            machine = hardware.hardware(osts, scenario.server)
            known = self._machine = (scenario.osts, scenario.server, machine)
        return known[2]


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Values that stay constant while the scenario and the faults do."""

    scenario: Scenario
    troubles: Conditions
    server: Integers
    groups: float
    ceilings: ost_layer.Ceilings
    answers: Flags
    read: Array

    def holds(self, scenario: Scenario, terms: OstTerms) -> bool:
        """Return whether it applies to the same scenario and terms."""
        same = self.scenario is scenario and self.troubles is terms.conditions
        return same and self.server is terms.server


def _left_of_arrays(troubles: Conditions, layout: Raid) -> tuple[Array, Array]:
    """Return the factors on writes and reads if a drive is missing.

    Writes to a lost drive are skipped: until it is rebuilt, whole stripes cost the other drives no
    more than before.
    """
    short = np.where(troubles.short, hardware.short_factor(layout), 1.0)
    read = np.where(troubles.degraded, hardware.degraded_read_factor(layout), short)
    write_rebuilding, read_rebuilding = hardware.rebuilding_factors(layout)
    return (
        np.where(troubles.rebuilding, write_rebuilding, short),
        np.where(troubles.rebuilding, read_rebuilding, read),
    )


def _server_share(server: Integers, per_server: int) -> Array:
    """Return an OST's fraction of its normal share of a server: less after a failover."""
    carried = np.bincount(server)[server]
    return np.minimum(1.0, per_server / carried)


_AMPLIFICATION_STEP: Final = 0.1
_LOAD_STEP: Final = 0.1
_BUSY: Final = 0.95
"""Load from which a closed loop is simulated, as the demand exceeds the capacity."""
_READS_PER_S: Final = 128.0
"""Small reads of an OST besides the writes: bitmaps, journal, users."""
_DURATION_S: Final = 5.0
_LINE: Final = 4096
"""Maximum outstanding operations with random arrivals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTerms:
    """One RAID group, its drives and its load, as the core simulates them (`flash::window`).

    The core reads these attributes by name; names and defaults are declared only here.

    Attributes
    ----------
    write_bytes_per_s, read_bytes_per_s, write_iops, read_iops
        Of one drive, from its data sheet.
    amplification
        Units programmed per host unit; 1: it never collects.
    drives, data, parity, chunk_bytes, kind
        The group: ``gridraid``, ``draid`` or ``raid10``; mirrors have parity 0.
    throttle, throttle_target_s, write_class
        Writeback throttling of each drive's queue, and its class of the RAID layer's writes:
        ``plain``, ``sync`` or ``direct``.
    queue_depth
        Requests in a drive's queue.
    submitters
        Threads that submit requests; one that waits for a drive serves no other.
    serial_s
        Serial time of each operation in the whole group.
    write_latency_s, read_latency_s
        Time of one operation on an idle drive.
    transfer_bytes, depth, operations_per_s
        Size of an operation and number outstanding; with a rate they arrive randomly.
    read_share, reads_per_s, read_bytes
        Fraction of operations that are reads; other reads per second; bytes of a read of both
        kinds.
    superblock_bytes, urgency, slice_s, slice_hit, erase_s, erase_hit, idle_s
        How drives collect; ``None``: the default of ``flash::window::Collection``.
    slow_drive
        Number of a slow drive and its remaining fraction of speed.
    failed_drives, rebuild_share
        Number of lost drives, and the fraction of every drive's speed used for rebuilding.
    warm_s, duration_s
        Warm-up time, which is not counted, and measured time, in seconds.
    """

    write_bytes_per_s: float
    read_bytes_per_s: float
    write_iops: float
    read_iops: float
    amplification: float = 1.0
    seed: int = 0
    drives: int = 12
    data: int = 8
    parity: int = 2
    chunk_bytes: int = 131_072
    kind: str = "gridraid"
    throttle: bool = True
    throttle_target_s: float = 0.002
    write_class: str = "plain"
    queue_depth: int = 1023
    submitters: int = 8
    serial_s: float = 0.0
    write_latency_s: float = 25e-6
    read_latency_s: float = 100e-6
    transfer_bytes: int = 1_048_576
    depth: int = 256
    operations_per_s: float | None = None
    read_share: float = 0.0
    reads_per_s: float = 0.0
    read_bytes: int = 4096
    superblock_bytes: float | None = None
    urgency: float | None = None
    slice_s: float | None = None
    slice_hit: float | None = None
    erase_s: float | None = None
    erase_hit: float | None = None
    idle_s: float | None = None
    slow_drive: tuple[int, float] | None = None
    failed_drives: int = 0
    rebuild_share: float = 0.0
    warm_s: float = 1.0
    duration_s: float = 5.0


@dataclass(frozen=True, slots=True)
class ThrottlingTerms:
    """The parameters of a window.

    Attributes
    ----------
    amplification
        Units programmed per host unit.
    load
        Demand on the group as a fraction of its drives' ceiling over ``amplification``.
    """

    drive: DriveModel
    raid: Raid
    queue: Queue
    amplification: float
    load: float = 1.0


@dataclass(frozen=True, slots=True)
class ThrottledWindow:
    """The result of a window.

    Attributes
    ----------
    write_bytes_per_s
        Delivered rate; per OST if several share drives, with all equally busy.
    ceiling_bytes_per_s
        Ceiling of healthy drives that never collect.
    factor
        ``write_bytes_per_s`` over the smaller of the demand and the ceiling over the amplification:
        the effect of waiting for the slowest drive and for throttling.
    figures
        All figures of the core: `trimtab._core.run_window`.
    """

    write_bytes_per_s: float
    ceiling_bytes_per_s: float
    factor: float
    figures: Mapping[str, Any]


def slowdown(terms: ThrottlingTerms) -> ThrottledWindow:
    """Return the window of these terms, after rounding.

    Amplification and load are rounded to 0.1: within a step the factor changes by about as much as
    between seeds, 1 to 3 %. A window of seconds is simulated once for each set of rounded terms.
    The seed follows from the terms, so results do not depend on the order or number of threads.

    Raises
    ------
    UsageError
        The group or load is impossible.
    """
    return _simulated(_rounded(terms))


def _rounded(terms: ThrottlingTerms) -> ThrottlingTerms:
    amplification = round(terms.amplification / _AMPLIFICATION_STEP) * _AMPLIFICATION_STEP
    load = 1.0 if terms.load >= _BUSY else round(terms.load / _LOAD_STEP) * _LOAD_STEP
    return replace(
        terms,
        amplification=max(1.0, round(amplification, 6)),
        load=max(_LOAD_STEP, round(load, 6)),
    )


@lru_cache(maxsize=4096)
def _simulated(terms: ThrottlingTerms) -> ThrottledWindow:
    group = _group(terms)
    try:
        ceiling = raid_write_ceiling(group)
        requested = terms.load * (ceiling / terms.amplification)
        if terms.load < 1.0:
            # Operations that wait for a place in the queue still count as outstanding.
            rate = requested / group.transfer_bytes
            group = replace(group, depth=_LINE, operations_per_s=rate)
        figures = run_window(group)
    except ValueError as error:
        raise UsageError(
            str(error), code="raid-invalid", hint="see the OSTs' drive and raid in the scenario"
        ) from error
    written = figures["write_bytes_per_s"]
    return ThrottledWindow(written, ceiling, written / requested, figures)


def _group(terms: ThrottlingTerms) -> WindowTerms:
    # Each of several OSTs that share drives has its share of every drive's speed.
    part = 1.0 / terms.raid.shared
    return WindowTerms(
        write_bytes_per_s=terms.drive.write_bytes_per_s * part,
        read_bytes_per_s=terms.drive.read_bytes_per_s * part,
        write_iops=terms.drive.write_iops * part,
        read_iops=terms.drive.read_iops * part,
        kind=terms.raid.kind,
        drives=terms.raid.drives,
        data=terms.raid.data,
        # A scenario counts copies as parity; the core has mirrors with one copy and no parity.
        parity=0 if terms.raid.kind == "raid10" else terms.raid.parity,
        chunk_bytes=terms.raid.chunk_bytes,
        amplification=terms.amplification,
        throttle=terms.queue.writeback_throttling,
        throttle_target_s=terms.queue.target_latency_s,
        reads_per_s=_READS_PER_S,
        duration_s=_DURATION_S,
    )


_NODES = (1.0, 1.4, 1.9, 2.5, 3.5)
"""Amplifications that are simulated; the factor is interpolated linearly between them."""


def throttling(scenario: Scenario, amplification: Array) -> Array:
    """Return the throttling factor on each column's writes; 1 without it.

    It is the rate with throttling over the rate without: waiting for the slowest drive, which
    occurs in both cases, belongs to the array's efficiency.
    """
    if not scenario.queue.writeback_throttling:
        return np.ones_like(amplification)
    first = max(0, bisect_right(_NODES, float(amplification.min())) - 1)
    last = min(len(_NODES) - 1, bisect_left(_NODES, float(amplification.max())))
    nodes, left = _table(scenario.osts.drive, scenario.osts.raid, scenario.queue, first, last)
    return np.interp(amplification, nodes, left)


@cache
def _table(
    drive: DriveModel, raid: Raid, queue: Queue, first: int, last: int
) -> tuple[Array, Array]:
    """Return some nodes and their throttling factors."""
    nodes = _NODES[first : last + 1]
    return np.array(nodes), np.array([_left(drive, raid, queue, node) for node in nodes])


@cache
def _left(drive: DriveModel, raid: Raid, queue: Queue, amplification: float) -> float:
    """Return the throttling factor at one amplification; 1 if drives copy nothing."""
    if amplification == 1.0:
        return 1.0
    terms = ThrottlingTerms(drive, raid, queue, amplification)
    off = replace(queue, writeback_throttling=False)
    without = slowdown(replace(terms, queue=off)).write_bytes_per_s
    return min(1.0, slowdown(terms).write_bytes_per_s / without)
