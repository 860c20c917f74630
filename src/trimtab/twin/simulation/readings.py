"""Telemetry readings of a running simulation."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.formulas import fifo
from trimtab.twin.instruments.ior import Space
from trimtab.twin.instruments.state import (
    CRITERIA,
    MdtState,
    OstState,
    SettingState,
    TargetState,
    settings_of,
)
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.faults import carriers
from trimtab.twin.simulation.mdts import BYTES_PER_INODE, removed
from trimtab.twin.simulation.own_settings import OwnSettings
from trimtab.twin.simulation.state import State
from trimtab.twin.stack.hardware import GROUP_BYTES, platform_of
from trimtab.twin.stack.ost import REQUEST_BYTES, request_core_s

_BYTES_PER_INODE_OST = 1024**2
"""mkfs.lustre's default for large OSTs."""
_WARRANTY_DAYS = 5 * 365


def readings(simulation: Simulation, constants: Constants = FITTED) -> TargetState:
    """Return the state of all targets, one row per column; `expanded` makes one per real OST.

    Parameters
    ----------
    constants
        Constants of the stack: a server's cost of searching free blocks.
    """
    return TargetState(
        at=simulation.now,
        osts=_osts(simulation, constants),
        mdts=_mdts(simulation),
        column=simulation.columns.member,
        settings=settings_of(simulation.scenario),
        own_settings=_settings_of(simulation.own_settings),
        own_mdt_settings=_settings_of(simulation.own_mdt_settings),
    )


def printed_space(simulation: Simulation) -> Space:
    """Return the usage of the file system, as IOR prints it."""
    state, weight = simulation.state, simulation.columns.weight
    capacity = float(state.capacity_bytes @ weight)
    mdts = simulation.scenario.mdts
    inodes = mdts.inodes * mdts.count
    return Space(
        capacity,
        float(state.used_bytes @ weight) / capacity,
        inodes,
        float(simulation.accounts.inodes().sum()) / max(inodes, 1.0),
    )


def _settings_of(parts: OwnSettings) -> dict[int, SettingState]:
    return {number: settings_of(scenario) for number, scenario in parts.scenarios.items()}


def drive_percentage_used(scenario: Scenario, state: State) -> np.ndarray:
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
    """Return the CPU load of each column's server through writes, as in `trimtab.twin.stack.ost`.

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
