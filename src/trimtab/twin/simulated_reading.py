"""Read the state of a running simulation at one moment, with the names of telemetry.

The simulation fills `OstState` and `MdtState` with one value per column; if columns represent
several targets, `expanded` gives each target its column's values with small individual differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import numpy as np

from trimtab.twin.amplification import fifo
from trimtab.twin.scenario import AllocatorFamily, Scenario
from trimtab.twin.simulated_ior import PrintedSpace
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.fault import carriers
from trimtab.twin.simulation.hardware import FITTED, GROUP_BYTES, Constants, platform_of
from trimtab.twin.simulation.miniature import ColumnState
from trimtab.twin.simulation.operation import BYTES_PER_INODE, OwnSettings, removed
from trimtab.twin.simulation.ost_array import REQUEST_BYTES, Array, Flags, Integers, request_core_s

CRITERIA: Final[Mapping[AllocatorFamily, tuple[str, ...]]] = {
    "classic": ("cr0", "cr1", "cr2", "cr3"),
    "optimize-scan": ("cr0", "cr1", "cr2", "cr3"),
    "el9": ("cr_p2_aligned", "cr_goal_fast", "cr_best_avail", "cr_goal_slow", "cr_any_free"),
}
"""The loops of each family, named as in real statistics (`trimtab.reach.block_allocator`)."""

_DIFFERENCE: Final = 0.004
"""Standard deviation of a target's factor; small compared with differences of columns."""
_OWN: Final = (
    "used_bytes",
    "inodes_used",
    "bytes_written_total",
    "bytes_read_total",
    "bytes_discarded_total",
    "client_bytes_written_total",
    "client_bytes_read_total",
    "allocator_requests_total",
    "allocator_useless_loops_total",
    "allocator_groups_considered_total",
    "free_extent_mean_bytes",
)
_WITH_WRITTEN = ("drive_host_written_bytes_total", "drive_media_written_bytes_total")
"""Readings that follow from the bytes written, with the same factor."""


@dataclass(frozen=True, slots=True)
class OstState:
    """State of OSTs; arrays are ``(n,)`` unless noted.

    Attributes
    ----------
    failover_active
        Whether the partner of its home server serves it.
    answers
        False without any connection.
    bytes_written_total, bytes_read_total, bytes_discarded_total
        At the drives, without parity and copies.
    last_trim_s
        Seconds since 1970 UTC; NaN: never.
    allocator_useless_loops_total, allocator_groups_considered_total
        ``(n, criteria)``, in the order of `CRITERIA`.
    allocator_last_group
        Block group where the next large search starts.
    server_cpu_fraction
        CPU of its current server.
    drive_host_written_bytes_total, drive_media_written_bytes_total
        Of one of its drives, with parity and, for the media, copies.
    drive_write_amplification
        Over about the last day.
    """

    capacity_bytes: Array
    used_bytes: Array
    inodes_total: Array
    inodes_used: Array
    create_enabled: Flags
    degraded: Flags
    failover_active: Flags
    answers: Flags
    bytes_written_total: Array
    bytes_read_total: Array
    bytes_discarded_total: Array
    client_bytes_written_total: Array
    client_bytes_read_total: Array
    last_trim_s: Array
    allocator_requests_total: Array
    allocator_useless_loops_total: Array
    allocator_groups_considered_total: Array
    allocator_last_group: Array
    free_extent_mean_bytes: Array
    server_cpu_fraction: Array
    drive_percentage_used: Array
    drive_write_amplification: Array
    drive_host_written_bytes_total: Array
    drive_media_written_bytes_total: Array

    def __len__(self) -> int:
        """Return their number."""
        return len(self.capacity_bytes)


@dataclass(frozen=True, slots=True)
class MdtState:
    """State of MDTs; arrays are ``(n,)``."""

    capacity_bytes: Array
    used_bytes: Array
    inodes_total: Array
    inodes_used: Array
    metadata_operations_total: Array
    server_cpu_fraction: Array
    bytes_discarded_total: Array
    last_trim_s: Array

    def __len__(self) -> int:
        """Return their number."""
        return len(self.capacity_bytes)


@dataclass(frozen=True, slots=True)
class SettingState:
    """Settings of a target, or of all with equal settings.

    Attributes
    ----------
    c1, c2, c3
        Free fractions; only the classic allocator has them.
    wbt_latency_s
        0: no throttling.
    """

    family: AllocatorFamily = "classic"
    c1: float = 0.25
    c2: float = 0.15
    c3: float = 0.05
    wbt_latency_s: float = 0.002
    checksums: bool = False
    saferet: bool = False
    discard: bool = False
    qos_threshold_rr: float = 0.17
    qos_prio_free: float = 0.91


@dataclass(frozen=True, slots=True)
class SimulatedState:
    """All targets at one moment.

    Attributes
    ----------
    at
        Aware.
    column
        ``(OSTs,)``: the row of ``osts`` that represents each real OST.
    own_settings, own_mdt_settings
        Row of ``osts`` or number of an MDT to its settings if they differ.
    """

    at: datetime
    osts: OstState
    mdts: MdtState
    column: Integers
    settings: SettingState = SettingState()
    own_settings: Mapping[int, SettingState] = field(default_factory=dict)
    own_mdt_settings: Mapping[int, SettingState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the arrays fit together.

        Raises
        ------
        ValueError
            A length differs, or a column represents nothing: a bug of the caller.
        """
        if self.at.tzinfo is None:
            raise ValueError("the time of a state has no zone")
        for part in (self.osts, self.mdts):
            for column in fields(part):
                if len(getattr(part, column.name)) != len(part):
                    raise ValueError(f"{column.name} differs in length from the others")
        if len(self.column) and not 0 <= self.column.min() <= self.column.max() < len(self.osts):
            raise ValueError("a target is in a column that does not exist")


def settings_of(scenario: Scenario) -> SettingState:
    """Return the current settings of a scenario."""
    allocator, queue = scenario.allocator, scenario.queue
    return SettingState(
        family=allocator.family,
        c1=allocator.c1,
        c2=allocator.c2,
        c3=allocator.c3,
        wbt_latency_s=queue.target_latency_s if queue.writeback_throttling else 0.0,
        checksums=scenario.clients.checksums,
        saferet=scenario.clients.saferet,
        discard=scenario.trim.discard,
        qos_threshold_rr=scenario.placement.qos_threshold_rr,
        qos_prio_free=scenario.placement.qos_prio_free,
    )


def expanded(state: SimulatedState, seed: int) -> SimulatedState:
    """Return the state with one row for each real OST.

    If a column represents several, each gets a constant factor, so that counters never decrease; an
    OST with its own column is unchanged.
    """
    column = state.column
    count = len(column)
    alone = np.bincount(column, minlength=len(state.osts))[column] == 1
    values: dict[str, Any] = {
        array.name: getattr(state.osts, array.name)[column] for array in fields(state.osts)
    }
    for place, first in enumerate(_OWN):
        factor = np.where(alone, 1.0, _factors(seed, place, count))
        for name in (first, *(_WITH_WRITTEN if first == "bytes_written_total" else ())):
            shared = values[name]
            values[name] = shared * (factor if shared.ndim == 1 else factor[:, None])
    values["used_bytes"] = np.minimum(values["used_bytes"], values["capacity_bytes"])
    values["inodes_used"] = np.minimum(values["inodes_used"], values["inodes_total"])
    own_settings = {
        target: state.own_settings[row]
        for target, row in enumerate(column.tolist())
        if row in state.own_settings
    }
    return replace(
        state, osts=OstState(**values), column=np.arange(count), own_settings=own_settings
    )


@lru_cache(maxsize=64)
def _factors(seed: int, place: int, count: int) -> Array:
    """Return a factor near 1 for each target; more targets do not change earlier factors."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 0x7A46, place])))
    factors = np.exp(_DIFFERENCE * rng.standard_normal(count))
    factors.flags.writeable = False
    return factors


_BYTES_PER_INODE_OST = 1024**2
"""mkfs.lustre's default for large OSTs."""
_WARRANTY_DAYS = 5 * 365


def readings(simulation: Simulation, constants: Constants = FITTED) -> SimulatedState:
    """Return the state of all targets, one row per column; `expanded` makes one per real OST.

    Parameters
    ----------
    constants
        Constants of the stack: a server's cost of searching free blocks.
    """
    return SimulatedState(
        at=simulation.now,
        osts=_osts(simulation, constants),
        mdts=_mdts(simulation),
        column=simulation.columns.member,
        settings=settings_of(simulation.scenario),
        own_settings=_settings_of(simulation.own_settings),
        own_mdt_settings=_settings_of(simulation.own_mdt_settings),
    )


def printed_space(simulation: Simulation) -> PrintedSpace:
    """Return the usage of the file system, as IOR prints it."""
    state, weight = simulation.state, simulation.columns.weight
    capacity = float(state.capacity_bytes @ weight)
    mdts = simulation.scenario.mdts
    inodes = mdts.inodes * mdts.count
    return PrintedSpace(
        capacity,
        float(state.used_bytes @ weight) / capacity,
        inodes,
        float(simulation.accounts.inodes().sum()) / max(inodes, 1.0),
    )


def _settings_of(parts: OwnSettings) -> dict[int, SettingState]:
    return {number: settings_of(scenario) for number, scenario in parts.scenarios.items()}


def drive_percentage_used(scenario: Scenario, state: ColumnState) -> np.ndarray:
    """Return the used fraction of each OST's drives' rated life.

    Drives are rated for ``drive_writes_per_day`` over five years of random writes (JESD 219), with
    the amplification of a full drive; this is compared with the actual flash writes.
    """
    drive = scenario.osts.drive
    days = drive.drive_writes_per_day * _WARRANTY_DAYS
    rated = drive.capacity_bytes * days * fifo(drive.spare)
    return _of_a_drive(scenario, state.flash_written_total) / rated


def _of_a_drive(scenario: Scenario, total: np.ndarray) -> np.ndarray:
    """Return one drive's part of an OST's bytes, including parity."""
    raid = scenario.osts.raid
    return total * ((raid.data + raid.parity) / raid.data) * raid.shared / raid.drives


def _osts(simulation: Simulation, constants: Constants) -> OstState:
    scenario, state, miniature = simulation.scenario, simulation.state, simulation.miniature
    loops = len(CRITERIA[scenario.allocator.family])
    of_the_state: dict[str, Any] = {
        array.name: getattr(state, array.name).copy()
        for array in fields(OstState)
        if hasattr(state, array.name)
    }
    return OstState(
        **of_the_state,
        inodes_total=np.floor(state.capacity_bytes / _BYTES_PER_INODE_OST),
        inodes_used=state.used_bytes / scenario.users.file_mean_bytes,
        allocator_useless_loops_total=state.useless_loops_total[:loops].T.copy(),
        allocator_groups_considered_total=state.groups_considered_total[:loops].T.copy(),
        allocator_last_group=np.floor(miniature.last_group * state.capacity_bytes / GROUP_BYTES),
        free_extent_mean_bytes=miniature.free_extent_mean_bytes,
        server_cpu_fraction=_server_cpu(simulation, constants),
        drive_percentage_used=drive_percentage_used(scenario, state),
        drive_write_amplification=state.amplification.copy(),
        drive_host_written_bytes_total=_of_a_drive(scenario, state.bytes_written_total),
        drive_media_written_bytes_total=_of_a_drive(scenario, state.flash_written_total),
    )


def _server_cpu(simulation: Simulation, constants: Constants) -> np.ndarray:
    """Return the CPU load of each column's server through writes.

    As in `trimtab.twin.simulation.ost_array`.

    A server works for all OSTs it currently serves.
    """
    scenario, state, columns = simulation.scenario, simulation.state, simulation.columns
    groups = simulation.miniature.walks_per_request * state.capacity_bytes / GROUP_BYTES
    request_s = request_core_s(groups, constants)
    if scenario.clients.checksums:
        request_s = request_s + constants.checksum_core_s_per_byte * REQUEST_BYTES
    host = platform_of(scenario.server).host(constants)
    cores = state.write_bytes_per_s / REQUEST_BYTES * request_s / host
    server = carriers(state.failover_active[columns.member], scenario.osts.per_server)
    busy = np.bincount(server, weights=cores[columns.member]) / scenario.server.cores
    return np.minimum(busy[server[columns.first]], 1.0)


def _mdts(simulation: Simulation) -> MdtState:
    scenario, accounts = simulation.scenario, simulation.accounts
    mdts = scenario.mdts
    files, made = accounts.inodes(), accounts.creates()
    gone = removed(accounts)
    seconds = max((simulation.now - scenario.start).total_seconds(), 1.0)
    busy = (made / mdts.creates_per_s + gone / mdts.removes_per_s) / seconds
    total = np.full(mdts.count, mdts.inodes)
    return MdtState(
        capacity_bytes=total * BYTES_PER_INODE,
        used_bytes=np.minimum(files, total) * BYTES_PER_INODE,
        inodes_total=total,
        inodes_used=np.minimum(files, total),
        metadata_operations_total=made + gone,
        # The scenario's rates are for the whole file system.
        server_cpu_fraction=np.minimum(busy * mdts.count, 1.0),
        bytes_discarded_total=simulation.mdt_trims.discarded_bytes.copy(),
        last_trim_s=simulation.mdt_trims.last_trim_s.copy(),
    )
