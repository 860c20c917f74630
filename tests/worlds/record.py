"""What a site has of its hours: runs, surveys, snapshots, a log book; all with gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from .faults import INNOCENT, Fault, draw_faults
from .site import Array, Hours, Site, calm_hours, draw_site, stream, wander

CAPACITY = 60e12
OST_BYTES_PER_S = 6e9
NODE_BYTES_PER_S = 5e9
RUN_BYTES_PER_NODE = 2e11
UNFINISHED_UNDER = 0.05
"""Of the usual bandwidth: the run is cut off by its time limit."""
PROBLEM = ("slurmstepd: error: *** JOB 88123 CANCELLED DUE TO TIME LIMIT ***", "time limit reached")
KERNEL = "4.18.0-553.el8_lustre.x86_64"


@dataclass
class World:
    """The record of one site, and the truth beside it."""

    site: dict[str, Any]
    runs: list[dict[str, Any]]
    surveys: list[dict[str, Any]]
    snapshots: Sequence[Mapping[str, Any]]
    events: list[dict[str, Any]]
    truth: list[Fault]
    facts: Site
    dark: tuple[tuple[datetime, datetime], ...] = ()
    profiles: list[dict[str, Any]] = field(default_factory=list)


def make_world(seed: int, faults: int | None = None) -> World:
    """Return the world of a seed.

    Parameters
    ----------
    faults
        How many; ``None``: drawn, a quarter of the sites have none.
    """
    site = draw_site(seed)
    hours = calm_hours(site)
    count = faults
    if count is None:
        count = int(stream(seed, "count").choice(4, p=(0.25, 0.4, 0.25, 0.1)))
        count += count > 0 and site.hours > 24 * 250
    if site.hours < 24 * 35:
        count = min(count, 1)
    truth = draw_faults(hours, count)
    _innocent(hours)
    runs = [*_main_runs(hours), *_second_runs(hours), *_network_runs(hours)]
    surveys, survey_runs = _surveys(hours)
    runs += survey_runs
    hours.log.sort(key=lambda line: line["at"])
    if site.log == "some":
        people = [line for line in hours.log if line["source"] == "person"][:1]
        hours.log = [line for line in hours.log if line["source"] != "person"] + people
    return World(
        site=_site_file(site), runs=sorted(runs, key=lambda run: run["at"]), surveys=surveys,
        snapshots=Snapshots(hours, runs), events=hours.log, truth=truth, facts=site,
    )  # fmt: skip


def _innocent(hours: Hours) -> None:
    """Write down what people do all the time and what has nothing to do with anything."""
    site = hours.site
    rng = stream(site.seed, "innocent")
    for _ in range(rng.poisson(site.hours / 168 * rng.uniform(0.2, 1.2))):
        kind, detail = INNOCENT[int(rng.integers(len(INNOCENT)))]
        hours.write_down(kind, rng.uniform(0, site.hours), detail)
    for hour in np.flatnonzero(hours.trim.any(axis=1)):
        hours.write_down("trim", float(hour) + 0.2, "fstrim", source="journal")


def _site_file(site: Site) -> dict[str, Any]:
    return {
        "name": f"site{site.seed}",
        "limits": {"fullness": 0.75, "cov": 0.08},
        "home": {site.ost(ost): site.server(ost // 2) for ost in range(site.osts)},
        "clients": [f"nid{number:04d}" for number in range(site.pool)],
        "hardware": {
            "drives_per_ost": 10, "osts": site.osts, "servers": site.servers, "parity_data": 8,
            "parity_parity": 2, "drive_write_bytes_per_s": 3e9, "drive_read_bytes_per_s": 6e9,
            "network_bytes_per_s": _server_network(site),
            "client_network_bytes_per_s": 6.5e9,
        },
    }  # fmt: skip


def _server_network(site: Site) -> float:
    return 2 * site.nodes * NODE_BYTES_PER_S / site.servers


def _run(site: Site, hour: float, probe: str, kind: str, hosts: Sequence[int]) -> dict[str, Any]:
    at = site.at(hour)
    return {
        "id": f"{probe}-{round(hour * 100):08d}", "at": at, "until": at + timedelta(minutes=10),
        "probe": probe, "kind": kind, "status": "ok", "values": {}, "tails": {}, "disbelieved": [],
        "problem": None, "hosts": [f"nid{number:04d}" for number in hosts], "nodes": len(hosts),
        "tasks": 16 * len(hosts), "bytes_written": None, "bytes_read": None,
    }  # fmt: skip


def _noise(hours: Hours, name: str, n: int, sigma: float) -> Array:
    site = hours.site
    rng = stream(site.seed, "noise", name)
    slow = wander(rng, (n,), site.phi, sigma * np.sqrt(0.5)) if site.phi else 0.0
    fast = rng.standard_normal(n) * sigma * (np.sqrt(0.5) if site.phi else 1.0)
    dips = np.where(rng.random(n) < 0.012, -rng.uniform(0.05, 0.35, n), 0.0)
    return slow + fast + dips


def _main_runs(hours: Hours) -> Iterator[dict[str, Any]]:
    site = hours.site
    rng = stream(site.seed, "main runs")
    times = np.arange(0, site.hours, site.probe_every_h)
    clean = hours.clean()
    usual = site.nodes * NODE_BYTES_PER_S * 0.8
    noise = {
        m: _noise(hours, m, len(times), site.sigma) for m in ("write_bandwidth", "read_bandwidth")
    }
    for index, hour in enumerate(times):
        if hours.dark[hour] or rng.random() < 0.01:
            continue
        hosts = np.sort(rng.choice(site.pool, site.nodes, replace=False))[
            : hours.nodes_used[hour]
        ].tolist()
        run = _run(site, hour + 0.05 + 0.1 * rng.random(), "main", "ior", hosts)
        if hours.launch[hour] and rng.random() < 0.85:
            run["status"] = "failed" if hours.launch[hour] == 1 else "not_started"
            run["problem"] = (
                "srun: error: Unable to resolve host"
                if hours.launch[hour] == 1
                else "the batch system did not start it"
            )
            yield run
            continue
        slowest = float(hours.node[hour, hosts].min())
        if (hours.hangs[hour] and rng.random() < 0.8) or rng.random() < site.unfinished:
            run["status"], run["problem"] = "unfinished", PROBLEM[int(rng.integers(2))]
            yield run
            continue
        if rng.random() < site.unfinished / 2:
            run["status"], run["problem"] = "failed", "node failure: nid0003 rebooted"
            yield run
            continue
        moved = RUN_BYTES_PER_NODE * len(hosts) * hours.bytes_share[hour]
        for metric in ("write_bandwidth", "read_bandwidth"):
            value = clean[metric][hour] * slowest * np.exp(noise[metric][index])
            if value < UNFINISHED_UNDER:
                run["status"], run["problem"] = "unfinished", PROBLEM[1]
                run["values"] = {}
                break
            run["values"][metric] = float(usual * value)
        else:
            run["bytes_written"] = run["bytes_read"] = moved
            if hours.cached[hour]:
                run["values"]["read_bandwidth"] = float(
                    site.nodes * 4e10 * np.exp(noise["read_bandwidth"][index])
                )
                run["disbelieved"].append(
                    "cached: read_bandwidth is more than the network of the nodes carries"
                )
        yield run


def _second_runs(hours: Hours) -> Iterator[dict[str, Any]]:
    site = hours.site
    if not site.second:
        return
    rng = stream(site.seed, "second runs")
    times = np.arange(0, site.hours, site.second_every_h)
    noise = [_noise(hours, f"second {number}", len(times), site.sigma) for number in range(3)]
    clean = hours.clean()
    for index, hour in enumerate(times):
        if hours.dark[hour] or rng.random() < 0.02:
            continue
        hosts = np.sort(rng.choice(site.pool, min(2, site.pool), replace=False)).tolist()
        run = _run(site, hour + 0.6, "second", site.second, hosts)
        if hours.launch[hour]:
            run["status"], run["problem"] = "not_started", "the batch system did not start it"
        elif rng.random() < site.unfinished:
            run["status"], run["problem"] = "unfinished", PROBLEM[0]
        elif site.second == "mdtest":
            node = float(hours.node[hour, hosts].min()) ** 0.5
            rate = 8e4 * clean["metadata"][hour] * node
            for number, (metric, factor) in enumerate(
                (("file_creation_rate", 1), ("file_stat_rate", 3), ("file_removal_rate", 0.7))
            ):
                run["values"][metric] = float(rate * factor * np.exp(noise[number][index]))
        else:
            node = float(hours.node[hour, hosts].min())
            ask = min(hours.client_write[hour] * node, 1.0)
            slow = float(np.quantile(hours.write[hour], 0.1))
            value = 2 * NODE_BYTES_PER_S * 0.7 * min(ask, slow) * np.exp(noise[0][index])
            run["values"]["write_bandwidth"] = float(value)
            run["tails"]["write_latency:p99"] = float(
                2e-3 * hours.tail[hour] * np.exp(2 * noise[1][index])
            )
            run["tails"]["write_latency:p50"] = float(3e-4 * np.exp(noise[2][index]))
        yield run


def _network_runs(hours: Hours) -> Iterator[dict[str, Any]]:
    site = hours.site
    if not site.network_every_h:
        return
    rng = stream(site.seed, "network runs")
    for hour in range(5, site.hours, site.network_every_h):
        if hours.dark[hour]:
            continue
        hosts = np.sort(rng.choice(site.pool, min(site.servers, site.pool), replace=False)).tolist()
        run = _run(site, hour + 0.8, "network", "lnet_selftest", hosts)
        for metric, rate in (("write_bandwidth", 19e9), ("read_bandwidth", 22e9)):
            most = min(rate, 6e9 * len(hosts) / site.servers)
            total = most * float(hours.network[hour].sum()) * float(hours.node[hour, hosts].mean())
            run["values"][metric] = float(total * np.exp(rng.standard_normal() * 0.02))
        yield run


def _surveys(hours: Hours) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    site = hours.site
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    if not site.survey_every_h:
        return rows, runs
    rng = stream(site.seed, "surveys")
    own = np.exp(rng.standard_normal(site.osts) * 0.03)
    for hour in range(1, site.hours, site.survey_every_h):
        if hours.dark[hour] or rng.random() < 0.03:
            continue
        run = _run(site, hour + 0.5, "survey", "obdfilter_survey", [])
        runs.append(run)
        for metric, factors in (("write_bandwidth", hours.write), ("read_bandwidth", hours.read)):
            noise = np.exp(rng.standard_normal(site.osts) * 0.04)
            for ost in range(site.osts):
                value = float(OST_BYTES_PER_S * own[ost] * factors[hour, ost] * noise[ost])
                gone = bool(hours.parted[hour, ost])
                rows.append({
                    "at": run["at"], "run": run["id"], "target": site.ost(ost), "metric": metric,
                    "value": None if gone else value,
                })  # fmt: skip
    return rows, runs


class Snapshots(Sequence[Mapping[str, Any]]):
    """The snapshots of a world, each made when it is looked at."""

    def __init__(self, hours: Hours, runs: Sequence[Mapping[str, Any]]) -> None:
        site = self.site = hours.site
        self.hours = hours
        rng = stream(site.seed, "snapshots")
        gap = np.array(hours.dark)
        for _ in range(rng.poisson(site.hours / 24 / 40)):
            begin = int(rng.integers(site.hours))
            gap[begin : begin + int(rng.integers(6, 72))] = True
        step = site.snapshot_every_h or site.hours + 1
        first = site.snapshots_from_h if site.snapshot_every_h else site.hours
        self.at_hours = [hour for hour in range(first, site.hours, step) if not gap[hour]]
        restart = np.array(hours.reboot)
        restart[1:] |= hours.up[1:] & ~hours.up[:-1]
        moved = np.zeros((site.hours, site.osts), bool)
        moved[1:] = hours.serving[1:] != hours.serving[:-1]
        of_target = restart[:, np.arange(site.osts) // 2] | moved
        moved_by_runs = np.zeros(site.hours)
        for run in runs:
            hour = int((run["at"] - site.start) / timedelta(hours=1))
            moved_by_runs[hour] += (run["bytes_written"] or 0.0) / site.osts
        written = hours.user_write * 3600 + moved_by_runs[:, None]
        read = hours.user_read * 3600 + (moved_by_runs * ~hours.cached)[:, None]
        requests = written / 1e6
        self.counters = {
            "written": _counted(written, of_target),
            "read": _counted(read, of_target),
            "device": _counted(written * 1.02, of_target),
            "requests": _counted(requests, of_target),
            "loops": _counted(requests * hours.loops, of_target),
            "discarded": _counted(np.where(hours.trim, 0.05 * CAPACITY, 0.0), of_target),
            "network": _counted((written + read)[:, ::2], restart),
            "operations": _counted(hours.operations * 3600, np.zeros_like(hours.operations, bool)),
            "checksums": _counted(hours.bad_checksums, restart),
            "network errors": _counted(
                stream(site.seed, "network errors").poisson(hours.network_errors).astype(float),
                restart,
            ),
        }
        self.trimmed = np.maximum.accumulate(
            np.where(hours.trim, np.arange(site.hours)[:, None], -1), axis=0
        )

    def __len__(self) -> int:
        return len(self.at_hours)

    def __getitem__(self, index: int) -> Mapping[str, Any]:  # pyrefly: ignore[bad-override]
        return Snapshot(self, self.at_hours[index])

    def made(self, hour: int) -> dict[str, Any]:
        """Return all that one snapshot holds."""
        site = self.site
        targets = {site.ost(ost): self._ost(hour, ost) for ost in range(site.osts)}
        targets |= {f"MDT{mdt:04x}": self._mdt(hour, mdt) for mdt in range(site.mdts)}
        hosts = {site.server(server): self._server(hour, server) for server in range(site.servers)}
        hosts["nid0000"] = self._client(hour)
        for state in (*targets.values(), *hosts.values()):
            for full in list(state["readings"]):
                if full.partition("{")[0] in site.missing:
                    state["readings"][full] = None
                    state["reasons"][full] = "not collected at this site"
            if "settings" in site.missing:
                state["settings"] = {}
        return {"at": site.at(hour + 0.9), "targets": targets, "hosts": hosts}

    def _settings(self, role: str, hour: int) -> dict[str, str]:
        return {
            name: value
            for of, begin, end, name, value in self.hours.settings
            if of == role and begin <= hour < end
        }

    def _ost(self, hour: int, ost: int) -> dict[str, Any]:
        hours, site, count = self.hours, self.site, self.counters
        server = int(hours.serving[hour, ost])
        used = float(hours.fullness[hour, ost]) * CAPACITY
        closed, throttled = bool(hours.closed[hour, ost]), float(hours.throttled_s[hour])
        trimmed = int(self.trimmed[hour, ost])
        reasons: dict[str, str] = {}
        readings: dict[str, Any] = {
            "capacity_bytes": CAPACITY,
            "used_bytes": used,
            "available_bytes": CAPACITY - used,
            "inodes_total": 1e8,
            "inodes_free": 1e8 - used / 4e6,
            "create_enabled": not closed,
            "degraded": bool(hours.degraded[hour, ost]),
            "read_only": bool(hours.read_only[hour, ost]),
            "errors_total": 0,
            "server": site.server(server),
            "failover_active": server != ost // 2,
            "import_state": "FULL",
            "wbt_latency_s{nvme0n1}": throttled,
            "bytes_written_total": int(count["device"][hour, ost]),
            "bytes_read_total": int(count["read"][hour, ost]),
            "bytes_discarded_total": int(count["discarded"][hour, ost]) if site.flash else None,
            "last_trim_at": site.at(trimmed).isoformat() if trimmed >= 0 else None,
            "allocator_family": "loops-by-number" if site.old_allocator else "criteria-by-number",
            "allocator_requests_total": int(count["requests"][hour, ost]),
            "allocator_useless_loops_total{cr1}": int(count["loops"][hour, ost]),
            "server_cpu_fraction": float(hours.cpu[hour, server]),
            "client_bytes_written_total": int(count["written"][hour, ost]),
            "client_bytes_read_total": int(count["read"][hour, ost]),
            "concurrent_jobs": float(hours.jobs[hour]),
            "drive_write_amplification{nvme0n1}": round(float(hours.amplification[hour, ost]), 3)
            if site.flash
            else None,
            "drive_media_errors_total{nvme0n1}": 0,
        }
        settings = {
            "osp/active": "1",
            "osp/max_create_count": "0" if closed else "20000",
            "obdfilter/degraded": "1" if hours.degraded[hour, ost] else "0",
            "drives/queue/wbt_lat_usec": str(round(throttled * 1e6)),
            "drives/queue/rotational": "0" if site.flash else "1",
            "drives/queue/scheduler": "none",
        } | self._settings("ost", hour)
        if site.old_allocator:
            c2 = "15" if hours.thresholds[hour] else "25"
            settings |= {"ldiskfs/md0/mb_c1_threshold": "25", "ldiskfs/md0/mb_c2_threshold": c2,
                         "ldiskfs/md0/mb_c3_threshold": "5"}  # fmt: skip
        if hours.parted[hour, ost]:
            reasons = dict.fromkeys(readings, f"{site.ost(ost)} is not connected (DISCONN)")
            readings = dict.fromkeys(readings) | {
                "import_state": "DISCONN",
                "create_enabled": False,
            }
            reasons.pop("import_state"), reasons.pop("create_enabled")
            settings = {}
        for name, value in readings.items():
            if value is None:
                reasons.setdefault(
                    name, "no trim is known" if "trim" in name else "not a flash drive"
                )
        return {"kind": "ost", "server": site.server(server), "readings": readings,
                "reasons": reasons, "settings": settings}  # fmt: skip

    def _mdt(self, hour: int, mdt: int) -> dict[str, Any]:
        readings: dict[str, Any] = {
            "capacity_bytes": 4e12, "used_bytes": 1.3e12, "available_bytes": 2.7e12,
            "create_enabled": True, "read_only": False, "errors_total": 0, "server": "mds01",
            "failover_active": False, "import_state": "FULL",
            "metadata_operations_total": int(self.counters["operations"][hour, mdt]),
            "concurrent_jobs": float(self.hours.jobs[hour]),
        }  # fmt: skip
        return {"kind": "mdt", "server": "mds01", "readings": readings, "reasons": {},
                "settings": {"lod/qos_threshold_rr": "17%"}}  # fmt: skip

    def _server(self, hour: int, server: int) -> dict[str, Any]:
        up, name = bool(self.hours.up[hour, server]), self.site.server(server)
        readings: dict[str, Any] = {
            "server_cpu_fraction": float(self.hours.cpu[hour, server]),
            "network_bytes_total": int(self.counters["network"][hour, server]),
            "checksum_errors_total": int(self.counters["checksums"][hour, server]),
            "network_errors_total": int(self.counters["network errors"][hour, server]),
        }
        settings = {"lustre_version": "2.15.4", "kernel_release": KERNEL} | self._settings(
            "server", hour
        )
        reasons = {} if up else dict.fromkeys(readings, f"ssh: connect to host {name}: No route")
        return {"role": "server", "readings": readings if up else dict.fromkeys(readings),
                "reasons": reasons, "settings": settings if up else {}, "answered": up}  # fmt: skip

    def _client(self, hour: int) -> dict[str, Any]:
        settings = {
            "lustre_version": "2.15.4", "kernel_release": "5.14.0-427.el9.x86_64",
            "checksums": "1" if self.site.checksums else "0", "osc/max_rpcs_in_flight": "16",
        } | self._settings("client", hour)  # fmt: skip
        return {
            "role": "client",
            "readings": {},
            "reasons": {},
            "settings": settings,
            "answered": True,
        }

    def bad_checksums(self) -> Iterator[tuple[datetime, str, int]]:
        """Return what the counters of damaged transfers show between snapshots."""
        if "checksum_errors_total" in self.site.missing:
            return
        for earlier, later in zip(self.at_hours, self.at_hours[1:], strict=False):
            grown = self.counters["checksums"][later] - self.counters["checksums"][earlier]
            for server in np.flatnonzero(grown > 0):
                yield self.site.at(later + 0.9), self.site.server(int(server)), int(grown[server])


class Snapshot(Mapping[str, Any]):
    """One snapshot: its time is known at once, the rest is made when it is asked for."""

    def __init__(self, of: Snapshots, hour: int) -> None:
        self.of, self.hour = of, hour
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name == "at":
            return self.of.site.at(self.hour + 0.9)
        self._made = self._made or self.of.made(self.hour)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("at", "targets", "hosts"))

    def __len__(self) -> int:
        return 3


def _counted(amount: Array, restart: np.ndarray[Any, Any]) -> Array:
    """Return the counter of an amount an hour; a restart of what counts sets it to 0."""
    total = np.cumsum(amount, axis=0) + 1e9
    base = np.maximum.accumulate(np.where(restart, total, 0.0), axis=0)
    return total - base
