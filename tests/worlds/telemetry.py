"""Snapshots: counters that count up, states as they are told, gaps with their reason.

All readings are computed for all hours at once; a snapshot is put together when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from tests.worlds.physics import LOOP_COST, Speeds
from tests.worlds.site import MIB, Site, client, server, stream, target
from tests.worlds.state import Array, Flags, State
from tests.worlds.world import HostState, TargetState, Value

MINUTE = 0.97
"""Of its hour: when a snapshot is made."""
MDT_BYTES = 8e12
NOT_COLLECTED = "not collected at this site"
STATES = frozenset({
    "create_enabled", "degraded", "read_only", "failover_active", "import_state", "server",
    "wbt_latency_s", "last_trim_at",
})  # fmt: skip
"""Readings that are told, not measured: every difference tells something."""


@dataclass(slots=True)
class Telemetry:
    """Every reading of every hour.

    Attributes
    ----------
    recorded
        Hours at which the record has a snapshot.
    targets, servers, mdts
        Name to H x T, H x S (the MDSs last) and H x M values.
    """

    state: State
    recorded: np.ndarray
    targets: dict[str, Array]
    servers: dict[str, Array]
    mdts: dict[str, Array]
    answered: Flags


def telemetry(state: State, speeds: Speeds, probes: Array) -> Telemetry:
    """Return all readings of a state; ``probes``: bytes that probes moved, H x T."""
    site = state.site
    rng = stream("telemetry", site.seed, site.name)
    written = state.users_write * 3600 * state.connected + probes
    read = state.users_read * 3600 * state.connected + probes
    network = np.zeros((site.hours, site.servers))
    for number in range(site.servers):
        network[:, number] = ((written + read) * (state.serving == number)).sum(axis=1)
    recorded = np.zeros(site.hours, bool)
    if site.snapshot_every_h:
        recorded[:: site.snapshot_every_h] = (
            rng.random(len(recorded[:: site.snapshot_every_h])) > 0.01
        )
    recorded &= ~state.no_snapshots
    anew = np.concatenate([np.zeros((1, site.osts), bool), np.diff(state.serving, axis=0) != 0])
    anew |= np.take_along_axis(state.rebooted, np.maximum(state.serving, 0), axis=1)
    servers = -(-site.mdts // 2)
    cpu = _cpu(state, network, rng)
    busy_mds = np.stack([state.operations[:, 2 * n : 2 * n + 2].sum(axis=1)
                         for n in range(servers)], axis=1)  # fmt: skip
    metadata_cpu = np.clip(0.05 + busy_mds / 2.4e5 + rng.normal(0, 0.01, busy_mds.shape), 0, 1)
    restart = np.concatenate([state.rebooted, np.zeros((site.hours, servers), bool)], axis=1)
    return Telemetry(
        state=state, recorded=np.flatnonzero(recorded),
        targets=_target_readings(state, speeds, written, read, anew),
        servers={
            "server_cpu_fraction": np.concatenate([cpu, metadata_cpu], axis=1),
            "network_bytes_total": _counted(
                np.concatenate([network, busy_mds * 3600 * 1500], axis=1), restart, 4e15),
            "network_errors_total": _counted(
                np.pad(state.network_errors, ((0, 0), (0, servers))), restart, 40),
            "checksum_errors_total": _counted(
                np.pad(state.checksum_errors, ((0, 0), (0, servers))), restart, 0),
        },
        mdts={"metadata_operations_total": _counted(
            state.operations * 3600, np.zeros_like(state.operations, bool), 5e9)},
        answered=np.concatenate([state.up, np.ones((site.hours, servers), bool)], axis=1),
    )  # fmt: skip


def _target_readings(
    state: State, speeds: Speeds, written: Array, read: Array, anew: Flags
) -> dict[str, Array]:
    site = state.site
    hour = np.arange(site.hours, dtype=float)[:, None]
    used = np.round(state.full * site.capacity_bytes, -6)
    requests = written / MIB
    trim = np.maximum.accumulate(np.where(state.trimmed, hour, -1.0), axis=0)
    none = np.zeros_like(anew)
    surveyed = written * 1.01 + 2e11 / 24
    discarded = np.where(state.trimmed, 0.5 * site.trim_every_h * written.mean(axis=0), 0.0)
    return {
        "capacity_bytes": np.full_like(used, site.capacity_bytes),
        "used_bytes": used,
        "available_bytes": site.capacity_bytes - used,
        "inodes_total": np.full_like(used, 2e8),
        "inodes_free": 2e8 - np.round(used / 8e6),
        "create_enabled": (state.open & state.connected).astype(float),
        "degraded": (state.missing_drives > 0).astype(float),
        "read_only": state.read_only.astype(float),
        "errors_total": np.maximum.accumulate(state.read_only, axis=0).astype(float),
        "server": state.serving.astype(float),
        "failover_active": (state.serving != site.home).astype(float),
        "import_state": state.connected.astype(float),
        "wbt_latency_s": np.where(state.throttled, 0.002, 0.0),
        "bytes_written_total": _counted(surveyed, anew, 9e15),
        "bytes_read_total": _counted(read * 1.01, anew, 9e15),
        "bytes_discarded_total": _counted(discarded, anew, 6e15),
        "last_trim_at": trim,
        "allocator_requests_total": _counted(requests, anew, 5e9),
        "allocator_useless_loops_total": _counted(requests * state.loops, anew, 900.0),
        "free_extent_mean_bytes": 8e5 * np.clip((1 - state.full) / 0.25, 0.02, 3),
        "client_bytes_written_total": _counted(written, anew, 8e15),
        "client_bytes_read_total": _counted(read, anew, 9e15),
        "drive_media_errors_total": np.maximum.accumulate(state.media_errors, axis=0),
        "drive_write_amplification": np.round(speeds.amplification, 3),
        "drive_percentage_used": np.round(_counted(surveyed * 1e-19, none, 0.03), 3),
    }


def _counted(increments: Array, anew: Flags, start: float) -> Array:
    """Return what a counter shows: it counts since the record began or was last started anew."""
    total = np.cumsum(increments, axis=0)
    before = np.where(anew, total - increments, 0.0)
    started = np.maximum.accumulate(anew, axis=0)
    return total - np.maximum.accumulate(before, axis=0) + np.where(started, 0.0, start)


def _cpu(state: State, network: Array, rng: np.random.Generator) -> Array:
    site = state.site
    limit = site.per_server * site.target_read * 3600
    loops = np.zeros_like(network)
    for number in range(site.servers):
        served = state.serving == number
        loops[:, number] = np.where(served, state.loops, 0).max(axis=1)
    busy = 0.06 + 0.6 * network / limit + np.clip(0.7 * LOOP_COST * loops, 0, 0.6)
    return np.clip(busy + rng.normal(0, 0.01, network.shape), 0.01, 1)


class LazySnapshot(Mapping[str, Any]):
    """A snapshot that is put together when its targets or hosts are asked for."""

    def __init__(self, source: Telemetry, hour: int) -> None:
        self.source, self.hour = source, hour
        self.at = source.state.site.at(hour + MINUTE)

    def __getitem__(self, name: str) -> Any:
        match name:
            case "at":
                return self.at
            case "targets":
                return _targets(self.source, self.hour)
            case "hosts":
                return _hosts(self.source, self.hour)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(("at", "targets", "hosts"))

    def __len__(self) -> int:
        return 3


class Snapshots(Sequence[LazySnapshot]):
    """The snapshots of a record."""

    def __init__(self, source: Telemetry) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source.recorded)

    def __getitem__(self, index: int) -> LazySnapshot:  # type: ignore[override]
        return LazySnapshot(self.source, int(self.source.recorded[index]))


def bad_checksums(source: Telemetry) -> list[tuple[datetime, str, int]]:
    """Return time, server and number of bad checksums that grew from snapshot to snapshot."""
    site = source.state.site
    counts = source.servers["checksum_errors_total"][source.recorded, : site.servers]
    grown = np.diff(counts, axis=0, prepend=counts[:1])
    return [
        (site.at(int(source.recorded[row]) + MINUTE), server(number), int(grown[row, number]))
        for row, number in np.argwhere(grown > 0).tolist()
    ]


def settings_at(state: State, hour: float) -> dict[str, dict[str, str]]:
    """Return the settings of ``clients``, ``servers``, ``targets``, ``mdts`` and of single ones."""
    old = state.site.allocator == "old"
    kernel = "4.18.0-477.10.1.el8_lustre.x86_64" if old else "5.14.0-362.13.1_lustre.el9.x86_64"
    settings: dict[str, dict[str, str]] = {
        "clients": {
            "lustre_version": "2.15.3", "kernel_release": "5.14.21-150400.24.69-default",
            "checksums": "0", "checksum_type": "crc32c", "rpcs_in_flight": "16",
            "pages_per_rpc": "1024", "dirty_mb": "2000", "read_ahead_mb": "1024",
            "statahead_max": "32", "debug_mb": "64",
        },
        "servers": {"lustre_version": "2.15.3", "kernel_release": kernel, "panic_on_lbug": "1",
                    "health_check": "healthy", "cpu_governor": "performance"},
        "targets": {
            "obdfilter/readonly": "0", "obdfilter/brw_size": "16", "osp/active": "1",
            "obdfilter/soft_sync_limit": "16", "obdfilter/job_cleanup_interval": "600",
            "drives/queue/scheduler": "none", "drives/queue/nr_requests": "1023",
            "md/stripe_cache_size": "16384", "ldiskfs/md0/mb_last_group": "0",
        },
        "mdts": {"lod/qos_threshold_rr": "17%", "lod/qos_prio_free": "90%"},
    }  # fmt: skip
    if old:
        settings["targets"] |= {"ldiskfs/md0/mb_c1_threshold": "25",
                             "ldiskfs/md0/mb_c2_threshold": "25",
                             "ldiskfs/md0/mb_c3_threshold": "5"}  # fmt: skip
    for begin, whose, name, value in state.settings:
        if begin <= hour + MINUTE:
            settings.setdefault(whose, {})[name] = value
    return settings


def _targets(source: Telemetry, hour: int) -> dict[str, TargetState]:
    state, site = source.state, source.state.site
    settings = {} if "settings" in site.missing else settings_at(state, hour)
    rows = {name: values[hour].tolist() for name, values in source.targets.items()}
    cpu = source.servers["server_cpu_fraction"][hour].tolist()
    network = source.servers["network_bytes_total"][hour].tolist()
    targets: dict[str, TargetState] = {}
    for ost in range(site.osts):
        raw = {name: row[ost] for name, row in rows.items()}
        number = int(raw["server"])
        readings = _as_told(site, raw)
        if number >= 0:
            readings |= {"server_cpu_fraction": cpu[number], "concurrent_jobs": state.jobs[hour],
                         "network_bytes_total": int(network[number])}  # fmt: skip
        name = target(ost)
        reasons = _withhold(site, readings)
        texts: dict[str, str] = {}
        if number < 0:
            readings, reasons = _parted(name, readings)
        elif settings:
            texts = settings["targets"] | settings.get(name, {}) | {
                "osp/max_create_count": "20000" if state.open[hour, ost] else "0",
                "obdfilter/degraded": str(int(raw["degraded"])),
                "drives/queue/wbt_lat_usec": "2000" if state.throttled[hour, ost] else "0",
                "devices": f"md0 (raid6), {12 - int(state.missing_drives[hour, ost])} x PM1733",
            }  # fmt: skip
        targets[name] = TargetState(
            kind="ost", server=server(number) if number >= 0 else None,
            readings=readings, reasons=reasons, settings=texts,
        )  # fmt: skip
    return targets | _mdts(source, hour, settings)


_LABELS = {
    "wbt_latency_s": "wbt_latency_s{nvme0n1}",
    "allocator_useless_loops_total": "allocator_useless_loops_total{cr1}",
    "drive_media_errors_total": "drive_media_errors_total{nvme0n1}",
    "drive_write_amplification": "drive_write_amplification{nvme0n1}",
    "drive_percentage_used": "drive_percentage_used{nvme0n1}",
}
_FRACTIONS = frozenset({"wbt_latency_s", "drive_write_amplification", "drive_percentage_used",
                        "free_extent_mean_bytes"})  # fmt: skip
_FLAGS = frozenset({"create_enabled", "degraded", "read_only", "failover_active"})


def _as_told(site: Site, raw: dict[str, float]) -> dict[str, Value | None]:
    readings: dict[str, Value | None] = {}
    for name, value in raw.items():
        if name in _FLAGS:
            readings[name] = bool(value)
        elif name == "server":
            readings[name] = server(int(value))
        elif name == "import_state":
            readings[name] = "FULL"
        elif name == "last_trim_at":
            readings[name] = site.at(value).isoformat() if value >= 0 else None
        else:
            readings[_LABELS.get(name, name)] = value if name in _FRACTIONS else int(value)
    readings["allocator_family"] = (
        "loops-by-number" if site.allocator == "old" else "criteria-by-number"
    )
    return readings


def _withhold(site: Site, readings: dict[str, Value | None]) -> dict[str, str]:
    """Take away what this site does not collect, and return the reason of every null."""
    for full in readings:
        if full.partition("{")[0] in site.missing:
            readings[full] = None
    return {full: NOT_COLLECTED for full, value in readings.items() if value is None}


def _parted(
    name: str, readings: Mapping[str, Value | None]
) -> tuple[dict[str, Value | None], dict[str, str]]:
    """Return what can be known of a target that nobody is connected to."""
    reasons = dict.fromkeys(readings, f"{name} is not connected (DISCONN); no server serves it")
    known: dict[str, Value | None] = {"import_state": "DISCONN", "create_enabled": False}
    for full in known:
        reasons.pop(full, None)
    return dict.fromkeys(readings) | known, reasons


def _mdts(
    source: Telemetry, hour: int, settings: dict[str, dict[str, str]]
) -> dict[str, TargetState]:
    site, mdts = source.state.site, {}
    operations = source.mdts["metadata_operations_total"][hour].tolist()
    cpu = source.servers["server_cpu_fraction"][hour].tolist()
    for mdt in range(site.mdts):
        used = (0.31 + 0.01 * mdt + 2e-4 * hour / 24) * MDT_BYTES
        readings: dict[str, Value | None] = {
            "capacity_bytes": MDT_BYTES, "used_bytes": used, "available_bytes": MDT_BYTES - used,
            "inodes_total": 4_000_000_000, "inodes_free": 3_100_000_000 - 8000 * hour,
            "create_enabled": True, "read_only": False, "errors_total": 0,
            "server": f"mds{mdt // 2:03d}", "failover_active": False, "import_state": "FULL",
            "server_cpu_fraction": cpu[site.servers + mdt // 2],
            "metadata_operations_total": int(operations[mdt]),
            "concurrent_jobs": source.state.jobs[hour],
        }  # fmt: skip
        reasons = _withhold(site, readings)
        mdts[f"MDT{mdt:04X}"] = TargetState(
            kind="mdt", server=f"mds{mdt // 2:03d}", readings=readings, reasons=reasons,
            settings=settings.get("mdts", {}),
        )  # fmt: skip
    return mdts


def _hosts(source: Telemetry, hour: int) -> dict[str, HostState]:
    state, site = source.state, source.state.site
    settings = {} if "settings" in site.missing else settings_at(state, hour)
    rows = {name: values[hour].tolist() for name, values in source.servers.items()}
    hosts: dict[str, HostState] = {}
    for number in range(source.answered.shape[1]):
        is_mds = number >= site.servers
        name = f"mds{number - site.servers:03d}" if is_mds else server(number)
        readings: dict[str, Value | None] = {
            full: row[number] if full == "server_cpu_fraction" else int(row[number])
            for full, row in rows.items()
        }
        reasons = _withhold(site, readings)
        answered = bool(source.answered[hour, number])
        texts = settings.get("servers", {}) | settings.get(name, {}) if settings else {}
        if not answered:
            reasons = dict.fromkeys(readings, f"ssh: connect to host {name}: No route to host")
            readings, texts = dict.fromkeys(readings), {}
        hosts[name] = HostState(
            role="server", answered=answered, readings=readings, reasons=reasons, settings=texts
        )
    for number in range(2):
        hosts[client(number)] = HostState(
            role="client", answered=True, readings={}, reasons={},
            settings=dict(settings.get("clients", {})),
        )  # fmt: skip
    return hosts
