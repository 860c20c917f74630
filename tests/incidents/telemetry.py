"""Snapshots of a world: counters as counters, states as they are told, gaps with their reason."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tests.incidents.engine import Hour, Record
from tests.incidents.physics import CAPACITY_BYTES, CORES, Array
from tests.incidents.system import MDTS, System, Weather, stream
from tests.incidents.world import HostState, Snapshot, TargetState, Value

SNAPSHOT_MINUTE = 0.97
"""Of the hour: after its probes."""
MDT_BYTES = 8e12
NOT_COLLECTED = "not collected at this site"
LIFE_BYTES = 40 * CAPACITY_BYTES
"""Written to the drives of a target before the record."""


@dataclass(slots=True)
class Counters:
    """What counts up, from the last start of whatever counts it."""

    client_written: Array
    client_read: Array
    device_written: Array
    device_read: Array
    discarded: Array
    requests: Array
    loops: Array
    groups: Array
    life_host: Array
    life_media: Array
    network: Array
    checksums: Array
    operations: Array
    errors: Array
    serving: Array
    cache: dict[tuple[object, ...], dict[str, str]] = field(default_factory=dict)


def write_snapshots(record: Record, weather: Weather) -> list[Snapshot]:
    """Return the telemetry of a record."""
    system = record.system
    counters = _first_counters(system)
    snapshots: list[Snapshot] = []
    for number, hour in enumerate(record.hours):
        _count(system, counters, hour)
        if number % system.spec.snapshot_every_h == 0:
            snapshots.append(_snapshot(system, weather, counters, hour))
    return snapshots


def _first_counters(system: System) -> Counters:
    rng = stream(system.spec.seed, "counters")
    age = rng.uniform(5, 60, system.osts) * 86400 * 1e8

    def none() -> Array:
        return np.zeros(system.osts)

    return Counters(
        client_written=age.copy(),
        client_read=age * 2,
        device_written=age * 1.01,
        device_read=age * 2,
        discarded=age * 0.8,
        requests=age / 2**18,
        loops=age / 2**18 * 1e-4,
        groups=age / 2**18 * 0.4,
        life_host=np.full(system.osts, LIFE_BYTES),
        life_media=np.full(system.osts, LIFE_BYTES * 1.6),
        network=rng.uniform(1e15, 9e15, system.servers + 2),
        checksums=np.zeros(system.servers),
        operations=rng.uniform(1e9, 9e9, MDTS),
        errors=none(),
        serving=system.home.astype(float),
    )


def _count(system: System, counters: Counters, hour: Hour) -> None:
    """Add one hour; whatever was started anew in it begins at 0 first."""
    now, moved, rates = hour.now, hour.moved, hour.rates
    anew = (now.serving != counters.serving) | now.rebooted[now.serving]
    counters.serving = now.serving.astype(float)
    for name in (
        "client_written", "client_read", "device_written", "device_read", "discarded",
        "requests", "loops", "groups",
    ):  # fmt: skip
        values = getattr(counters, name)
        values[anew] = 0.0
    counters.network[: system.servers][now.rebooted] = 0.0
    counters.checksums[now.rebooted] = 0.0
    counters.client_written += moved.client_written
    counters.client_read += moved.client_read
    counters.device_written += moved.device_written
    counters.device_read += moved.device_read
    free = (1 - hour.state.fullness) * CAPACITY_BYTES
    fresh = np.minimum(hour.state.dose * CAPACITY_BYTES, free)
    counters.discarded += np.where(hour.trimmed, fresh, 0.0)
    counters.requests += moved.requests
    counters.loops += moved.requests * rates.loops
    counters.groups += moved.requests * (0.3 + rates.loops * 1e6)
    counters.life_host += moved.device_written
    counters.life_media += moved.device_written * rates.amplification
    both = moved.client_written + moved.client_read
    counters.network[: system.servers] += np.bincount(
        now.serving, weights=both, minlength=system.servers
    )
    counters.network[system.servers :] += moved.operations.sum() / 2 * 1500.0
    counters.checksums += now.bad_checksums
    counters.operations += moved.operations
    counters.errors = np.maximum(counters.errors, now.errors)


def _snapshot(system: System, weather: Weather, counters: Counters, hour: Hour) -> Snapshot:
    cpu = _cpu(system, weather, hour)
    texts = _texts(system, counters, hour)
    targets = _osts(system, counters, hour, cpu, texts)
    targets |= _mdts(system, counters, hour, cpu)
    for state in targets.values():
        _withhold(system, state["readings"], state["reasons"])
        if "settings" in system.spec.missing:
            state["settings"] = {}
    return Snapshot(
        at=system.at(hour.now.hour + SNAPSHOT_MINUTE),
        targets=targets,
        hosts=_hosts(system, counters, hour, cpu),
    )


def _withhold(system: System, readings: dict[str, Value | None], reasons: dict[str, str]) -> None:
    """Take away what this world does not tell."""
    if not (missing := system.spec.missing):
        return
    for full in readings:
        if full.partition("{")[0] in missing:
            readings[full] = None
            reasons[full] = NOT_COLLECTED


def _cpu(system: System, weather: Weather, hour: Hour) -> Array:
    """Return the busy share of every server's cores over the hour, the MDSs last."""
    own = weather.cpu[hour.now.hour]
    oss = own[: system.servers] + hour.moved.core_s / 3600 / CORES
    each = np.minimum(hour.now.metadata_ops_per_s, 1e5).reshape(2, MDTS // 2).sum(axis=1)
    # Assumed: 200,000 operations/s are what the cores of one MDS can do.
    mds = own[system.servers :] + each / 2e5 * 0.9
    return np.clip(np.concatenate([oss, mds]), 0, 1)


def _texts(system: System, counters: Counters, hour: Hour) -> list[dict[str, str]]:
    """Return the settings of every OST; alike ones are one and the same dictionary."""
    now, old = hour.now, system.site.allocator == "old"
    found = []
    for ost in range(system.osts):
        key = (
            now.thresholds,
            bool(now.throttling[ost]),
            bool(hour.closed[ost]),
            bool(now.missing_drives[ost] > 0),
        )
        if key not in counters.cache:
            counters.cache[key] = _settings(key, old=old)
        found.append(counters.cache[key])
    return found


def _settings(key: tuple[object, ...], *, old: bool) -> dict[str, str]:
    thresholds, throttling, closed, degraded = key
    assert isinstance(thresholds, tuple)
    settings = {
        "obdfilter/degraded": "1" if degraded else "0",
        "obdfilter/readonly": "0",
        "obdfilter/no_create": "0",
        "osp/active": "1",
        "osp/max_create_count": "0" if closed else "20000",
        "drives/queue/wbt_lat_usec": "2000" if throttling else "0",
        "drives/queue/scheduler": "none",
        "devices": f"md0 (raid6), {11 if degraded else 12} x PM1733",
        "ldiskfs/md0/mb_last_group": "0",
    }
    if old:
        for number, value in enumerate(thresholds, start=1):
            settings[f"ldiskfs/md0/mb_c{number}_threshold"] = str(value)
    return settings


def _osts(
    system: System, counters: Counters, hour: Hour, cpu: Array, texts: list[dict[str, str]]
) -> dict[str, TargetState]:
    now, state, rates = hour.now, hour.state, hour.rates
    old = system.site.allocator == "old"
    used = np.round(state.fullness * CAPACITY_BYTES, -6).tolist()
    written, read = counters.client_written.tolist(), counters.client_read.tolist()
    device_written = counters.device_written.tolist()
    device_read, discarded = counters.device_read.tolist(), counters.discarded.tolist()
    requests, loops = counters.requests.tolist(), counters.loops.tolist()
    groups, amplification = counters.groups.tolist(), rates.amplification.tolist()
    if system.site.drive_telemetry == "lifetime":
        amplification = (counters.life_media / counters.life_host).tolist()
    extent = (200 * 4096 * np.clip((1 - state.fullness) / 0.25, 0.02, 3)).tolist()
    busy, network = cpu.tolist(), counters.network.tolist()
    worn = (counters.life_media / (5 * 365 * CAPACITY_BYTES)).tolist()
    trims, trimmed = state.last_trim_hour.tolist(), hour.trimmed.tolist()
    written_at: dict[float, str | None] = {}
    result: dict[str, TargetState] = {}
    for ost in np.flatnonzero(now.exists).tolist():
        server = int(now.serving[ost])
        trimmed_at = float(now.hour) if trimmed[ost] else trims[ost]
        if trimmed_at not in written_at:
            known = trimmed_at == trimmed_at
            written_at[trimmed_at] = system.at(trimmed_at).isoformat() if known else None
        trim = written_at[trimmed_at]
        degraded = bool(now.missing_drives[ost] > 0)
        shut = bool(hour.closed[ost])
        readings: dict[str, Value | None] = {
            "capacity_bytes": CAPACITY_BYTES,
            "used_bytes": used[ost],
            "available_bytes": CAPACITY_BYTES - used[ost],
            "inodes_total": 200_000_000,
            "inodes_free": 200_000_000 - int(used[ost] / 8e6),
            "create_enabled": not shut,
            "degraded": degraded,
            "degraded{md0}": degraded,
            "read_only": bool(now.read_only[ost]),
            "errors_total": int(counters.errors[ost]),
            "server": system.server(server),
            "failover_active": server != int(system.home[ost]),
            "import_state": "FULL",
            "wbt_latency_s{nvme0n1}": 0.002 if now.throttling[ost] else 0.0,
            "discard_granularity_bytes": 65536,
            "bytes_written_total": int(device_written[ost]),
            "bytes_read_total": int(device_read[ost]),
            "bytes_discarded_total": int(discarded[ost]),
            "last_trim_at": trim,
            "allocator_family": "loops-by-number" if old else "criteria-by-number",
            "allocator_requests_total": int(requests[ost]),
            "allocator_useless_loops_total{cr0}": 0,
            "allocator_useless_loops_total{cr1}": int(loops[ost]),
            "allocator_useless_loops_total{cr2}": 0,
            "allocator_useless_loops_total{cr3}": 0,
            "free_extent_mean_bytes": extent[ost],
            "server_cpu_fraction": busy[server],
            "network_bytes_total": int(network[server]),
            "client_bytes_written_total": int(written[ost]),
            "client_bytes_read_total": int(read[ost]),
            "metadata_operations_total": None,
            "concurrent_jobs": now.jobs,
            "drive_percentage_used{nvme0n1}": round(worn[ost], 2),
            "drive_media_errors_total{nvme0n1}": 0,
            "drive_write_amplification{nvme0n1}": round(amplification[ost], 3),
            "drive_write_amplification{nvme1n1}": round(amplification[ost] * 1.01, 3),
            "checksum_errors_total": None,
        }
        name = system.server(server)
        reasons = {
            "metadata_operations_total": "an OST serves no metadata operations",
            "checksum_errors_total": f"they are counted for {name}, not for its targets",
        }
        if trim is None:
            reasons["last_trim_at"] = "no trim is known"
        if old:
            readings["allocator_groups_considered_total{cr1}"] = None
            reasons["allocator_groups_considered_total{cr1}"] = "this format does not count them"
        else:
            readings["allocator_groups_considered_total{cr1}"] = int(groups[ost])
        if now.parted[ost]:
            _part(readings, reasons, system.name(ost))
        result[system.name(ost)] = TargetState(
            kind="ost",
            server=None if now.parted[ost] else name,
            readings=readings,
            reasons=reasons,
            settings={} if now.parted[ost] else texts[ost],
        )
    return result


def _part(readings: dict[str, Value | None], reasons: dict[str, str], target: str) -> None:
    """Leave what can be known of a target that nobody is connected to."""
    for name in readings:
        readings[name] = None
        reasons[name] = f"{target} is not connected (DISCONN); no server serves it"
    for name, value in (("import_state", "DISCONN"), ("create_enabled", False)):
        readings[name] = value
        del reasons[name]


def _mdts(system: System, counters: Counters, hour: Hour, cpu: Array) -> dict[str, TargetState]:
    result: dict[str, TargetState] = {}
    jobs, days = hour.now.jobs, hour.now.hour / 24
    threshold = "17%" if system.site.weighted_placement else "100%"
    for mdt in range(MDTS):
        server = mdt // 2
        used = (0.31 + 0.01 * mdt + 0.0002 * days) * MDT_BYTES
        readings: dict[str, Value | None] = {
            "capacity_bytes": MDT_BYTES,
            "used_bytes": used,
            "available_bytes": MDT_BYTES - used,
            "inodes_total": 4_000_000_000,
            "inodes_free": 3_100_000_000 - int(200_000 * days),
            "create_enabled": True,
            "degraded": None,
            "read_only": False,
            "errors_total": 0,
            "server": f"mds{server:03d}",
            "failover_active": False,
            "import_state": "FULL",
            "wbt_latency_s{nvme0n1}": 0.0,
            "server_cpu_fraction": float(cpu[system.servers + server]),
            "network_bytes_total": int(counters.network[system.servers + server]),
            "metadata_operations_total": int(counters.operations[mdt]),
            "concurrent_jobs": jobs,
            "client_bytes_written_total": None,
            "client_bytes_read_total": None,
        }
        reasons = {
            "degraded": "Lustre keeps no such flag for an MDT",
            "client_bytes_written_total": "no data on this MDT",
            "client_bytes_read_total": "no data on this MDT",
        }
        result[f"MDT{mdt:04X}"] = TargetState(
            kind="mdt",
            server=f"mds{server:03d}",
            readings=readings,
            reasons=reasons,
            settings={"lod/qos_threshold_rr": threshold, "lod/qos_prio_free": "90%"},
        )
    return result


def _hosts(system: System, counters: Counters, hour: Hour, cpu: Array) -> dict[str, HostState]:
    hosts: dict[str, HostState] = {}
    kernel = (
        "4.18.0-477.10.1.el8_lustre.x86_64"
        if system.site.allocator == "old"
        else "5.14.0-362.13.1_lustre.el9.x86_64"
    )
    there = system.servers if hour.now.exists.all() else (system.base_osts + 1) // 2
    numbers = [*range(there), system.servers, system.servers + 1]
    for number in numbers:
        is_mds = number >= system.servers
        name = f"mds{number - system.servers:03d}" if is_mds else system.server(number)
        readings: dict[str, Value | None] = {
            "server_cpu_fraction": float(cpu[number]),
            "network_bytes_total": int(counters.network[number]),
            "checksum_errors_total": 0 if is_mds else int(counters.checksums[number]),
        }
        reasons: dict[str, str] = {}
        answered = is_mds or bool(hour.now.up[number])
        settings = {
            "lustre_version": "2.15.3",
            "kernel_release": hour.now.texts.get("server_kernel", kernel),
            "health_check": "healthy",
        }
        if not answered:
            reasons = dict.fromkeys(readings, f"ssh: connect to host {name}: No route to host")
            readings, settings = dict.fromkeys(readings), {}
        hosts[name] = HostState(
            role="server",
            answered=answered,
            readings=readings,
            reasons=reasons,
            settings=settings,
        )
    hosts |= _clients(system, hour)
    for state in hosts.values():
        _withhold(system, state["readings"], state["reasons"])
        if "settings" in system.spec.missing:
            state["settings"] = {}
    return hosts


def _clients(system: System, hour: Hour) -> dict[str, HostState]:
    """Return the two clients that are looked at."""
    checksums = "1" if hour.now.checksums else "0"
    settings = {
        "lustre_version": hour.now.texts.get("client_lustre", "2.15.3"),
        "kernel_release": hour.now.texts.get(
            "client_kernel", "5.14.21-150400.24.69_15.0.74-cray_shasta_c"
        ),
        "checksums": checksums,
        "llite_checksums": checksums,
        "checksum_type": "crc32c",
    }
    return {
        name: HostState(
            role="client", answered=True, readings={}, reasons={}, settings=dict(settings)
        )
        for name in system.clients[:2]
    }
