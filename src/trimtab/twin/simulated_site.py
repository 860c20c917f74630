"""A simulated file system as a site: its targets, servers and devices, site file, and telemetry.

Commands treat the site like a real one, and the telemetry has the form of a real driver's. One
labelled row represents an OST's drives, which are identical: twelve rows each would be most of a
snapshot without more information. Settings have the names of `trimtab.reach.lustre.lustre_setting`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from math import isnan
from typing import Final

import numpy as np

from trimtab.base.name_set import mdt_name, ost_name
from trimtab.base.site import Servers, Site, SiteLauncher, SiteLimits, SiteProbe, SiteStore
from trimtab.base.site_hardware import Figure, Hardware, Parity, parse_figure
from trimtab.base.snapshot import (
    TELEMETRY_UNITS,
    HostSnapshot,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
)
from trimtab.site import site_file
from trimtab.twin.probe_output import LAUNCHER, command_of
from trimtab.twin.scenario import AllocatorFamily, ProbeLoad, Scenario
from trimtab.twin.simulated_reading import (
    CRITERIA,
    MdtState,
    SettingState,
    SimulatedState,
    expanded,
)
from trimtab.twin.simulation.fault import carriers
from trimtab.twin.simulation.ost_array import Integers

MDTS_PER_SERVER: Final = 2
CLIENT: Final = "nid001000"
"""The compute node in snapshots."""


@lru_cache(maxsize=64)
def _numbered(word: str, count: int) -> tuple[str, ...]:
    return tuple(f"{word}{number:04d}" for number in range(count))


@dataclass(frozen=True, slots=True)
class SiteLayout:
    """Numbers of targets and servers.

    `trimtab.twin.simulation.fault.carriers` gives the servers that serve OSTs now.

    Attributes
    ----------
    osts
        Current number; grows when capacity is added.
    per_server
        OSTs per OSS without failover.
    """

    osts: int
    mdts: int
    per_server: int = 1

    @property
    def osses(self) -> tuple[str, ...]:
        """Names of the OSSs."""
        return _numbered("oss", -(-self.osts // self.per_server))

    @property
    def mdses(self) -> tuple[str, ...]:
        """Names of the MDSs."""
        return _numbered("mds", -(-self.mdts // MDTS_PER_SERVER))

    @property
    def home(self) -> Integers:
        """Number of each OST's home server."""
        return np.arange(self.osts) // self.per_server


def site_layout_of(scenario: Scenario, osts: int | None = None) -> SiteLayout:
    """Return the layout of a scenario, with ``osts`` if some were added."""
    count = scenario.osts.count if osts is None else osts
    return SiteLayout(count, scenario.mdts.count, scenario.osts.per_server)


def identity_of(scenario: Scenario) -> str:
    """Return the identity of a scenario's file system."""
    return f"twin:{scenario.name}:{scenario.seed}"


def devices_of(scenario: Scenario) -> str:
    """Describe the devices beneath an OST, top down."""
    osts = scenario.osts
    return f"md0 ({osts.raid.kind}), {osts.raid.drives} x {osts.drive.name}"


def site_of(
    scenario: Scenario, named: str, directory: str | os.PathLike[str], store_url: str
) -> Site:
    """Return the site of a scenario.

    Parameters
    ----------
    named
        Preset or file by which the driver finds the scenario.
    directory
        The site's path on this host.
    """
    gating = scenario.gating
    probes = tuple(_probe(probe) for probe in scenario.probes if probe.kind == "ior")
    return Site(
        name=scenario.name,
        driver="twin",
        path=os.fspath(directory),
        timezone=scenario.timezone,
        scenario=named,
        servers=_servers(scenario),
        limits=SiteLimits(fullness=gating.limit, reopen=gating.reopen),
        probes=probes,
        launchers=(SiteLauncher(LAUNCHER, LAUNCHER),) if probes else (),
        store=SiteStore(url=store_url),
        hardware=_hardware(scenario),
    )


def site_text(
    scenario: Scenario, named: str, directory: str | os.PathLike[str], store_url: str
) -> str:
    """Return the text of the site file of a scenario; see `site_of`.

    Raises
    ------
    UsageError
        A value that is invalid in a site file, such as the name.
    """
    site = site_of(scenario, named, directory, store_url)
    notes = (f"simulated: {scenario.title}", "it is not a real file system")
    return site_file.site_text(site, remarks=notes)


def _servers(scenario: Scenario) -> Servers:
    layout = site_layout_of(scenario)
    osses, mdses = layout.osses, layout.mdses
    home = {ost_name(ost): osses[server] for ost, server in enumerate(layout.home.tolist())}
    home |= {mdt_name(mdt): mdses[mdt // MDTS_PER_SERVER] for mdt in range(layout.mdts)}
    return Servers(oss=osses, mds=mdses, home=home)


def _probe(probe: ProbeLoad) -> SiteProbe:
    """Return an ``ior`` probe as a single command."""
    return SiteProbe(
        name=probe.name,
        benchmark="ior",
        schedule=probe.schedule,
        launcher=LAUNCHER,
        nodes=probe.nodes,
        tasks_per_node=probe.tasks_per_node,
        timeout_s=probe.timeout_s,
        command=command_of(probe),
    )


def _hardware(scenario: Scenario) -> Hardware:
    osts, drive, raid = scenario.osts, scenario.osts.drive, scenario.osts.raid
    return Hardware(
        drive_write=_rate(drive.write_bytes_per_s),
        drive_read=_rate(drive.read_bytes_per_s),
        drives=-(-osts.count // raid.shared) * raid.drives,
        drives_per_ost=None if raid.shared > 1 else raid.drives,
        osts=osts.count,
        oss=-(-osts.count // osts.per_server),
        parity=Parity(1, 1) if raid.kind == "raid10" else Parity(raid.data, raid.parity),
        network=_rate(scenario.server.network_bytes_per_s),
        client_network=_rate(scenario.clients.network_bytes_per_s),
    )


def _rate(bytes_per_s: float) -> Figure:
    """Return a rate in the form of a site file."""
    giga = (Decimal(repr(bytes_per_s)) / 10**9).normalize()
    return parse_figure(f"{giga:f} GB/s", "B/s")


DRIVER: Final = "twin"
SOURCE: Final = "simulated"
DRIVE: Final = "nvme0n1"
FAMILIES: Final[Mapping[AllocatorFamily, str]] = {
    "classic": "loops-by-number",
    "optimize-scan": "criteria-by-number",
    "el9": "criteria-by-name",
}
"""The statistics format of each family (`trimtab.reach.block_allocator`)."""
DISCARD_GRANULARITY_BYTES: Final = 65536
NETWORK_ERRORS: Final = 0
"""The simulated network loses no messages."""
_BYTES_PER_OPERATION: Final = 1500.0
"""Assumed: overhead of request and reply on the wire."""
_KERNELS: Final[Mapping[AllocatorFamily, str]] = {
    "classic": "4.18.0-477.10.1.el8_lustre.x86_64",
    "optimize-scan": "5.14.0-362.13.1_lustre.el9.x86_64",
    "el9": "5.14.0-503.11.1_lustre.el9.x86_64",
}
_CLIENT_KERNELS: Final = {
    False: "5.14.21-150400.24.69-default",
    True: "5.14.21-150400.24.81-default",
}
"""Kernels without and with the mitigation."""

LAST_GROUP: Final = "ldiskfs/md0/mb_last_group"
"""It changes with the writes, so targets do not share it."""

Value = float | int | str | bool | None
Columns = dict[tuple[str, str | None], Sequence[Value] | np.ndarray]
"""Name and label of a reading to a common value, or an array with one per target."""


def snapshot_of(
    state: SimulatedState, layout: SiteLayout, *, devices: str, seed: int = 0
) -> Snapshot:
    """Return the snapshot of a state.

    Parameters
    ----------
    devices
        The devices beneath an OST, top down: ``md0 (raid6), 12 x PM1733``.
    seed
        The scenario's seed, for small differences between targets of one column.
    """
    whole = expanded(state, seed)
    osts = _osts(whole, layout, devices)
    return Snapshot(
        at=state.at.astimezone(UTC),
        driver=DRIVER,
        complete=bool(whole.osts.answers.all()),
        targets=(*osts, *mdt_targets(whole, layout)),
        hosts=_hosts(whole, layout),
    )


def whole_of(values: np.ndarray) -> np.ndarray:
    """Return counters as integers."""
    return np.round(values).astype(np.int64)


def _network(state: SimulatedState, layout: SiteLayout) -> np.ndarray:
    """Return each OSS's traffic: client writes and reads of its home OSTs."""
    moved = state.osts.client_bytes_written_total + state.osts.client_bytes_read_total
    return np.bincount(layout.home, weights=moved, minlength=len(layout.osses))


@lru_cache(maxsize=64)
def _settings(
    settings: SettingState, devices: str, create: bool, degraded: bool
) -> dict[str, Setting]:
    """Return the settings of an OST; equal settings share one dictionary."""
    return _named(ost_settings(settings, devices, create, degraded))


def ost_settings(
    settings: SettingState, devices: str, create: bool, degraded: bool
) -> dict[str, str]:
    """Return the named settings of an OST as text."""
    columns = {
        "obdfilter/degraded": str(int(degraded)),
        "obdfilter/readonly": "0",
        "obdfilter/no_create": "0",
        "obdfilter/checksum_type": "crc32c",
        "osp/active": "1",
        "osp/max_create_count": "20000" if create else "0",
        "drives/queue/wbt_lat_usec": f"{settings.wbt_latency_s * 1e6:.0f}",
        "drives/queue/scheduler": "none",
        "drives/queue/rotational": "0",
        "devices": devices,
        "mount/options": "rw,discard" if settings.discard else "rw",
    }
    if settings.family == "classic":
        for name, value in (("c1", settings.c1), ("c2", settings.c2), ("c3", settings.c3)):
            columns[f"ldiskfs/md0/mb_{name}_threshold"] = f"{100 * value:.0f}"
    else:
        columns["ldiskfs/md0/mb_optimize_scan"] = "1"
    return columns


def _named(texts: Mapping[str, str]) -> dict[str, Setting]:
    return {name: Setting(name, value, SOURCE) for name, value in texts.items()}


def ost_columns(whole: SimulatedState, layout: SiteLayout) -> Columns:
    """Return name and label of each reading to one value per OST, of an expanded state."""
    state, settings = whole.osts, whole.settings
    count = len(state)
    available = state.capacity_bytes - state.used_bytes
    columns: Columns = {
        ("capacity_bytes", None): whole_of(state.capacity_bytes),
        ("used_bytes", None): whole_of(state.used_bytes),
        ("available_bytes", None): whole_of(available),
        ("inodes_total", None): whole_of(state.inodes_total),
        ("inodes_free", None): whole_of(state.inodes_total - state.inodes_used),
        ("create_enabled", None): state.create_enabled,
        ("degraded", None): state.degraded,
        ("degraded", "md0"): state.degraded,
        ("read_only", None): np.zeros(count, bool),
        ("errors_total", None): np.zeros(count, np.int64),
        ("failover_active", None): state.failover_active,
        ("import_state", None): ["FULL"] * count,
        ("wbt_latency_s", DRIVE): _latencies(settings, whole.own_settings, count),
        ("discard_granularity_bytes", None): np.full(count, DISCARD_GRANULARITY_BYTES),
        ("bytes_written_total", None): whole_of(state.bytes_written_total),
        ("bytes_read_total", None): whole_of(state.bytes_read_total),
        ("bytes_discarded_total", None): whole_of(state.bytes_discarded_total),
        ("last_trim_at", None): _trims(state.last_trim_s),
        ("allocator_family", None): [FAMILIES[settings.family]] * count,
        ("allocator_requests_total", None): whole_of(state.allocator_requests_total),
    }
    for place, name in enumerate(CRITERIA[settings.family]):
        loops = state.allocator_useless_loops_total[:, place]
        groups = state.allocator_groups_considered_total[:, place]
        columns["allocator_useless_loops_total", name] = whole_of(loops)
        # The oldest format counts no groups.
        known = settings.family != "classic"
        columns["allocator_groups_considered_total", name] = (
            whole_of(groups) if known else [None] * count
        )
    columns |= {
        ("free_extent_mean_bytes", None): state.free_extent_mean_bytes,
        ("free_space_fragmented_fraction", None): [None] * count,
        ("server_cpu_fraction", None): state.server_cpu_fraction,
        ("server_uptime_s", None): [None] * count,
        ("session_bytes_written_total", None): [None] * count,
        ("client_bytes_written_total", None): whole_of(state.client_bytes_written_total),
        ("client_bytes_read_total", None): whole_of(state.client_bytes_read_total),
        ("metadata_operations_total", None): [None] * count,
        ("concurrent_jobs", None): [None] * count,
        # SMART has whole percents.
        ("drive_percentage_used", DRIVE): np.round(state.drive_percentage_used, 2),
        ("drive_media_errors_total", DRIVE): np.zeros(count, np.int64),
        ("drive_write_amplification", DRIVE): np.round(state.drive_write_amplification, 3),
        ("drive_host_written_bytes_total", DRIVE): whole_of(state.drive_host_written_bytes_total),
        ("drive_media_written_bytes_total", DRIVE): whole_of(state.drive_media_written_bytes_total),
        ("network_errors_total", None): np.full(count, NETWORK_ERRORS),
        ("checksum_errors_total", None): [None] * count,
    }
    columns |= {(name, None): [None] * count for name in (*_MESSAGES, *_POOL)}
    serving = carriers(state.failover_active, layout.per_server)
    servers = layout.osses
    columns["server", None] = [servers[number] for number in serving.tolist()]
    columns["network_bytes_total", None] = whole_of(_network(whole, layout)[serving])
    return columns


_MESSAGES: Final = (
    "evictions_total",
    "reconnections_total",
    "lock_timeouts_total",
    "slow_requests_total",
)
_POOL: Final = ("pool_fragmentation_fraction", "pool_capacity_fraction", "pool_autotrim")
REASONS: Final[Mapping[str, str]] = {
    "server_uptime_s": "simulated servers do not restart",
    "session_bytes_written_total": "mounts are not simulated",
    "last_trim_at": "no trim is known",
    "allocator_groups_considered_total": "this format does not count them",
    "free_space_fragmented_fraction": "the groups of this target were not read",
    "metadata_operations_total": "OSTs serve no metadata operations",
    "concurrent_jobs": "no scheduler was queried",
    "checksum_errors_total": "they are counted for the server, not for its targets",
    **dict.fromkeys(_MESSAGES, "kernel logs are not simulated"),
    **dict.fromkeys(_POOL, "simulated targets are ldiskfs, which has no pool"),
}
"""Why a reading of an OST has no value."""


def _latencies(
    common: SettingState, own_settings: Mapping[int, SettingState], count: int
) -> np.ndarray:
    """Return the target latency of writeback throttling of each target."""
    latencies = np.full(count, common.wbt_latency_s)
    for number, settings in own_settings.items():
        latencies[number] = settings.wbt_latency_s
    return latencies


def _trims(last_trim_s: np.ndarray) -> Sequence[str | None]:
    """Return the time of each last trim as text; equal times are formatted once."""
    return _trim_texts(last_trim_s.tobytes())


@lru_cache(maxsize=4)
def _trim_texts(last_trim_s: bytes) -> tuple[str | None, ...]:
    """Return times as text; cached, as they rarely change between snapshots."""
    times = np.frombuffer(last_trim_s)
    texts: dict[float, str | None] = {
        at: None if isnan(at) else datetime.fromtimestamp(at, UTC).isoformat()
        for at in np.unique(times).tolist()
    }
    return tuple(None if isnan(at) else texts[at] for at in times.tolist())


def _osts(whole: SimulatedState, layout: SiteLayout, devices: str) -> list[TargetSnapshot]:
    osts, columns = whole.osts, ost_columns(whole, layout)
    names = columns["server", None]
    snapshots: list[TargetSnapshot] = []
    for number, values in enumerate(_by_target(columns)):
        target = ost_name(number)
        if not osts.answers[number]:
            snapshots.append(_silent(target))
            continue
        readings = _readings(columns, values, REASONS)
        flags = (osts.create_enabled[number], osts.degraded[number])
        state = whole.own_settings.get(number, whole.settings)
        last_group = Setting(LAST_GROUP, str(int(osts.allocator_last_group[number])), SOURCE)
        settings = {**_settings(state, devices, *map(bool, flags)), LAST_GROUP: last_group}
        snapshots.append(
            TargetSnapshot(Target(target, "ost", str(names[number])), readings, settings)
        )
    return snapshots


def _silent(target: str) -> TargetSnapshot:
    """Return the readings of a target without any connection."""
    known = {"import_state": "DISCONN", "create_enabled": False}
    why = f"{target} is not connected (DISCONN); no server serves it"
    readings = tuple(
        Reading(name, known[name], SOURCE) if name in known else Reading(name, None, SOURCE, why)
        for name in TELEMETRY_UNITS
    )
    return TargetSnapshot(Target(target, "ost", None), readings)


def mdt_columns(state: SimulatedState, layout: SiteLayout) -> Columns:
    """Return name and label of each known reading to one value per MDT."""
    mdts, count = state.mdts, len(state.mdts)
    place = np.arange(count) // MDTS_PER_SERVER
    return {
        ("capacity_bytes", None): whole_of(mdts.capacity_bytes),
        ("used_bytes", None): whole_of(mdts.used_bytes),
        ("available_bytes", None): whole_of(mdts.capacity_bytes - mdts.used_bytes),
        ("inodes_total", None): whole_of(mdts.inodes_total),
        ("inodes_free", None): whole_of(mdts.inodes_total - mdts.inodes_used),
        ("create_enabled", None): np.ones(count, bool),
        ("degraded", None): [None] * count,
        ("read_only", None): np.zeros(count, bool),
        ("errors_total", None): np.zeros(count, np.int64),
        ("server", None): [layout.mdses[number] for number in place.tolist()],
        ("failover_active", None): np.zeros(count, bool),
        ("import_state", None): ["FULL"] * count,
        ("wbt_latency_s", DRIVE): _latencies(state.settings, state.own_mdt_settings, count),
        ("server_cpu_fraction", None): mdts.server_cpu_fraction,
        ("network_bytes_total", None): whole_of(_mds_network(mdts)[place]),
        ("network_errors_total", None): np.full(count, NETWORK_ERRORS),
        ("metadata_operations_total", None): whole_of(mdts.metadata_operations_total),
        ("bytes_discarded_total", None): whole_of(mdts.bytes_discarded_total),
        ("last_trim_at", None): _trims(mdts.last_trim_s),
        ("concurrent_jobs", None): [None] * count,
        ("client_bytes_written_total", None): [None] * count,
        ("client_bytes_read_total", None): [None] * count,
    }


def mdt_targets(state: SimulatedState, layout: SiteLayout) -> list[TargetSnapshot]:
    """Return the readings of each MDT."""
    columns = mdt_columns(state, layout)
    known = {name for name, _ in columns}
    unknown = tuple(
        Reading(name, reason="not simulated for MDTs")
        for name in TELEMETRY_UNITS
        if name not in known
    )
    snapshots: list[TargetSnapshot] = []
    for number, values in enumerate(_by_target(columns)):
        settings = state.own_mdt_settings.get(number, state.settings)
        readings = _readings(columns, values, _WHY_MDT) + unknown
        target = Target(mdt_name(number), "mdt", layout.mdses[number // MDTS_PER_SERVER])
        snapshots.append(TargetSnapshot(target, readings, _mdt_settings(settings)))
    return snapshots


def _readings(
    columns: Columns, values: Sequence[Value], why: Mapping[str, str]
) -> tuple[Reading, ...]:
    """Return the readings of one target."""
    return tuple(
        Reading(name, value, SOURCE, None if value is not None else why[name], label)
        for (name, label), value in zip(columns, values, strict=True)
    )


def _by_target(columns: Columns) -> Iterator[tuple[Value, ...]]:
    """Yield the values of each target as Python types."""
    values_of = (
        column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()
    )
    return zip(*values_of, strict=True)


@lru_cache(maxsize=64)
def _mdt_settings(settings: SettingState) -> dict[str, Setting]:
    return _named({
        "mdt/readonly": "0",
        "mdt/no_create": "0",
        "lod/qos_threshold_rr": f"{100 * settings.qos_threshold_rr:.0f}%",
        "lod/qos_prio_free": f"{100 * settings.qos_prio_free:.0f}%",
        "drives/queue/wbt_lat_usec": f"{settings.wbt_latency_s * 1e6:.0f}",
    })  # fmt: skip


_WHY_MDT: Final[Mapping[str, str]] = {
    **REASONS,
    "degraded": "Lustre has no such flag for an MDT",
    "client_bytes_written_total": "no data on this MDT",
    "client_bytes_read_total": "no data on this MDT",
}


def _mds_network(mdts: MdtState) -> np.ndarray:
    place = np.arange(len(mdts)) // MDTS_PER_SERVER
    return np.bincount(place, weights=mdts.metadata_operations_total * _BYTES_PER_OPERATION)


def machine_values(state: SimulatedState, layout: SiteLayout) -> tuple[list[float], list[int]]:
    """Return CPU and network bytes of each server, OSSs first, of an expanded state."""
    cpu = np.zeros(len(layout.osses))
    serving = carriers(state.osts.failover_active, layout.per_server)
    np.maximum.at(cpu, serving, state.osts.server_cpu_fraction)
    mds = np.zeros(len(layout.mdses))
    np.maximum.at(mds, np.arange(layout.mdts) // MDTS_PER_SERVER, state.mdts.server_cpu_fraction)
    moved = [
        *whole_of(_network(state, layout)).tolist(),
        *whole_of(_mds_network(state.mdts)).tolist(),
    ]
    return [*cpu.tolist(), *mds.tolist()], moved


def _hosts(state: SimulatedState, layout: SiteLayout) -> tuple[HostSnapshot, ...]:
    texts = _named({
        "lustre_version": "2.15.3",
        "kernel_release": _KERNELS[state.settings.family],
        "health_check": "healthy",
    })  # fmt: skip
    named, (busy, moved) = (*layout.osses, *layout.mdses), machine_values(state, layout)
    checksums = "1" if state.settings.checksums else "0"
    client = _named({
        "lustre_version": "2.15.3",
        "kernel_release": _CLIENT_KERNELS[state.settings.saferet],
        "checksums": checksums,
        "llite_checksums": checksums,
        "checksum_type": "crc32c",
    })  # fmt: skip
    servers = (
        HostSnapshot(
            name,
            "server",
            readings=(
                Reading("server_cpu_fraction", busy[place], SOURCE),
                Reading("network_bytes_total", moved[place], SOURCE),
                Reading("network_errors_total", NETWORK_ERRORS, SOURCE),
                Reading("checksum_errors_total", 0, SOURCE),
            ),
            settings=texts,
        )
        for place, name in enumerate(named)
    )
    return (*servers, HostSnapshot(CLIENT, "client", settings=client))
