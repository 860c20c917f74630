"""Probes and surveys: what they do to the file system, and what they tell of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
from tests.incidents import physics
from tests.incidents.physics import MIB, Array
from tests.incidents.rates import Phase, Rates, alone_on_server, open_rates, per_server, phase
from tests.incidents.system import (
    MDTS,
    PROBE_BYTES_PER_OST,
    PROBE_LIMIT_S,
    WRITER_FILES_PER_NODE,
    Conditions,
    Flags,
    Indices,
    State,
    System,
    Weather,
    stream,
)
from tests.incidents.world import Profile, Run, SurveyValue

if TYPE_CHECKING:
    from tests.incidents.engine import Record

SURVEY_HOUR = 1
"""Off-hours, an hour before the nightly trim."""
SECOND_EVERY_H = 3
NETWORK_TEST_EVERY_H = 6
OVERHEAD_S = 0.3
"""Assumed: barriers and closing, each phase."""
MEMORY_BYTES_PER_S = 60e9
"""Assumed: what a node reads from its own page cache."""
MDT_OPS_PER_S = 100_000.0


@dataclass(slots=True)
class Moved:
    """Bytes of one hour, a target: users and probes together.

    Attributes
    ----------
    requests
        Of the allocator.
    core_s
        That each server worked.
    """

    client_written: Array
    client_read: Array
    device_written: Array
    device_read: Array
    requests: Array
    core_s: Array
    operations: Array


def measure_hour(
    record: Record,
    weather: Weather,
    state: State,
    now: Conditions,
    rates: Rates,
    closed: Flags,
) -> Moved:
    """Run whatever is due in this hour, and return all that was moved in it."""
    system = record.system
    used_write, used_read = rates.used_write * 3600, rates.used_read * 3600
    probe_write, probe_read = np.zeros(system.osts), np.zeros(system.osts)
    survey = np.zeros(system.osts)
    operations = np.minimum(now.metadata_ops_per_s, MDT_OPS_PER_S) * 3600
    if now.launch != "not_started":
        written, read = _hourly(record, weather, state, now, rates, closed)
        probe_write, probe_read = probe_write + written, probe_read + read
        operations = operations + 4 * system.nodes * WRITER_FILES_PER_NODE / MDTS
    else:
        _not_run(record, weather, now, "hourly", "ior", "not_started")
    if now.hour % SECOND_EVERY_H == 0 and "second" not in system.spec.missing:
        if now.launch is not None:
            _not_run(record, weather, now, "second", system.site.second, now.launch)
        elif system.site.second == "fio":
            probe_write = probe_write + _fio(record, weather, now, rates, closed)
        else:
            operations = operations + _mdtest(record, weather, now)
    if now.hour % 24 == SURVEY_HOUR and "surveys" not in system.spec.missing:
        survey = _survey(record, weather, now, rates)
    wanted = system.site.lnet_selftest and "lnet_selftest" not in system.spec.missing
    if wanted and now.hour % NETWORK_TEST_EVERY_H == 0:
        _network_test(record, weather, now)
    client_written, client_read = used_write + probe_write, used_read + probe_read
    worked = (
        used_write * rates.user_core_s_per_byte_written
        + (probe_write + survey) * rates.core_s_per_byte_written
        + client_read * physics.CORE_S_PER_BYTE_READ
    )
    return Moved(
        client_written=client_written,
        client_read=client_read,
        device_written=(client_written + survey) * 1.01,
        device_read=client_read * 1.005 + survey,
        requests=used_write / MIB * 4 + (probe_write + survey) / MIB,
        core_s=per_server(system, now, worked),
        operations=operations,
    )


def _run(
    record: Record, now: Conditions, probe: str, kind: str, minute: float, hosts: list[str]
) -> Run:
    at = record.system.at(now.hour + minute)
    return Run(
        id=f"{probe}-{now.hour:05d}",
        at=at,
        until=at,
        probe=probe,
        kind=kind,
        status="ok",
        values={},
        tails={},
        disbelieved=[],
        problem=None,
        hosts=[] if "hosts" in record.system.spec.missing else hosts,
        nodes=len(hosts),
        tasks=len(hosts) * WRITER_FILES_PER_NODE,
        bytes_written=None,
        bytes_read=None,
    )


def _not_run(
    record: Record, weather: Weather, now: Conditions, probe: str, kind: str, status: str
) -> None:
    system = record.system
    minute = weather.minute[now.hour] + (0.0 if probe == "hourly" else 0.84)
    run = _run(record, now, probe, kind, minute, [])
    run["status"] = status
    run["nodes"] = system.nodes if probe == "hourly" else 1
    run["problem"] = None if "problems" in system.spec.missing else now.launch_problem
    record.runs.append(run)


def _placement(
    system: System, state: State, now: Conditions, closed: Flags, imbalance: Array
) -> Array:
    """Return the share of the probe's bytes that each target gets.

    Round-robin; weighted by free space where it differs by more than 17 % (QoS threshold).
    """
    free = 1 - state.fullness
    open_now = now.exists & ~closed & (~now.parted | now.still_given)
    weight = open_now * (1.0 + np.clip(imbalance, -0.03, 0.03))
    weighted = system.site.weighted_placement and bool(open_now.any())
    if weighted and free[open_now].max() * (1 - 0.17) > free[open_now].min():
        weight = weight * free
    return weight / max(float(weight.sum()), 1e-12)


def _hourly(
    record: Record,
    weather: Weather,
    state: State,
    now: Conditions,
    rates: Rates,
    closed: Flags,
) -> tuple[Array, Array]:
    """Run the file-per-process probe: write everything, then read it; return bytes moved."""
    system, hour = record.system, now.hour
    nodes = weather.nodes[hour]
    hosts = [system.clients[node] for node in nodes]
    run = _run(record, now, "hourly", "ior", weather.minute[hour], hosts)
    record.runs.append(run)
    nothing = np.zeros(system.osts)
    if now.launch == "failed":
        run["status"], run["until"] = "failed", run["at"] + timedelta(seconds=20)
        run["problem"] = None if "problems" in system.spec.missing else now.launch_problem
        return nothing, nothing
    total = PROBE_BYTES_PER_OST * system.base_osts * now.workload_share
    share = total * _placement(system, state, now, closed, weather.imbalance[hour])
    if bool((now.read_only & (share > 0)).any()):
        run["status"], run["until"] = "failed", run["at"] + timedelta(seconds=30)
        problem = "write failed: Input/output error"
        run["problem"] = None if "problems" in system.spec.missing else problem
        return nothing, nothing
    noise = float(weather.probe[hour])
    clients = _client_speed(weather, now, nodes, noise)
    write = phase(system, now, rates, share, clients, write=True, noise=noise)
    files = system.nodes * WRITER_FILES_PER_NODE
    opening = files / _creation_rate(now, streams=files / MDTS) + now.recovery_s
    write_s = write.duration_s + opening + OVERHEAD_S
    read = phase(system, now, rates, share, clients * 1.08, write=False, noise=noise)
    read_s = read.duration_s + OVERHEAD_S
    if now.cached:
        read_s = total / (system.nodes * MEMORY_BYTES_PER_S * np.exp(noise))
    return _finish(system, now, run, share, (write, write_s), (read, read_s))


def _finish(
    system: System,
    now: Conditions,
    run: Run,
    share: Array,
    write: tuple[Phase, float],
    read: tuple[Phase, float],
) -> tuple[Array, Array]:
    """Fill in how the hourly run ended; return bytes moved."""
    total, write_s, read_s = float(share.sum()), write[1], read[1]
    ended = run["at"] + timedelta(seconds=min(write_s + read_s, PROBE_LIMIT_S) + 15)
    run["until"] = ended
    problems = "problems" not in system.spec.missing
    if write_s > PROBE_LIMIT_S:
        run["status"] = "unfinished"
        run["problem"] = "time limit reached" if problems else None
        return np.minimum(share, write[0].rate * PROBE_LIMIT_S), np.zeros_like(share)
    run["values"]["write_bandwidth"] = total / write_s
    run["bytes_written"] = total
    if write_s + read_s > PROBE_LIMIT_S:
        run["status"] = "partial"
        run["problem"] = "time limit reached while reading" if problems else None
        return share, np.minimum(share, read[0].rate * (PROBE_LIMIT_S - write_s))
    run["values"]["read_bandwidth"] = total / read_s
    run["bytes_read"] = total
    if now.workload_share != 1.0:
        run["status"] = "invalid_workload"
        asked = PROBE_BYTES_PER_OST * system.base_osts
        if problems:
            run["problem"] = f"moved {total:.3g} of {asked:.3g} bytes"
    network = system.nodes * physics.CLIENT_NETWORK_BYTES_PER_S
    if total / read_s > network and now.workload_share == 1.0:
        run["disbelieved"].append(
            f"cached: {total / read_s:.3g} B/s is more than the network of "
            f"{system.nodes} nodes carries"
        )
    return share, np.zeros_like(share) if now.cached else share


def _client_speed(weather: Weather, now: Conditions, nodes: Indices, noise: float) -> Array:
    """Return bytes/s of nodes: time for a byte adds up, network trouble scales it."""
    once = 1 / physics.CLIENT_BYTES_PER_S + now.client_cost_s_per_byte
    scatter = np.exp(noise + weather.node[now.hour][nodes])
    return now.client_factor[nodes] * scatter / once


def _creation_rate(now: Conditions, streams: float) -> float:
    """Return files/s that a job creates over all MDTs: it ends with the slowest of them."""
    ceiling = np.full(MDTS, MDT_OPS_PER_S)
    left = physics.share_of(ceiling, now.metadata_ops_per_s, streams, now.metadata_streams)
    return float(MDTS * np.min(left / MDT_OPS_PER_S * physics.CREATES_PER_S / MDTS))


def _second_run(
    record: Record, weather: Weather, now: Conditions, count: int
) -> tuple[Run, list[int]]:
    """Return a run of the second probe, and the numbers of its nodes."""
    system = record.system
    rng = stream(system.spec.seed, "second", now.hour)
    nodes = sorted(int(node) for node in rng.choice(len(system.clients), count, replace=False))
    hosts = [system.clients[node] for node in nodes]
    run = _run(record, now, "second", system.site.second, weather.minute[now.hour] + 0.84, hosts)
    record.runs.append(run)
    return run, nodes


def _fio(record: Record, weather: Weather, now: Conditions, rates: Rates, closed: Flags) -> Array:
    """Run one node for a minute on files on every open target; return bytes written."""
    system = record.system
    run, nodes = _second_run(record, weather, now, 1)
    noise = weather.second[now.hour]
    speed = float(_client_speed(weather, now, np.array(nodes), float(noise[0]))[0])
    open_now = now.exists & ~closed & ~now.parted
    left = open_rates(system, now, rates, write=True, noise=0.0)
    asked = open_now * speed / max(int(open_now.sum()), 1)
    rate = np.minimum(left, asked)
    if (open_now & (left <= 0)).any():
        # A minute of fixed time: what hangs on one target holds the run up for ever.
        run["status"] = "failed" if now.read_only.any() else "unfinished"
        if "problems" not in system.spec.missing:
            run["problem"] = "Input/output error" if now.read_only.any() else "time limit reached"
        return np.zeros(system.osts)
    run["until"] = run["at"] + timedelta(seconds=70 + now.recovery_s)
    moved = rate * 60.0
    run["values"]["write_bandwidth"] = float(moved.sum()) / (60.0 + now.recovery_s)
    run["bytes_written"] = float(moved.sum())
    if "tails" not in system.spec.missing:
        tail = physics.latency_p99_s(rates.collecting[open_now])
        run["tails"]["write_latency:p99"] = tail * float(np.exp(3 * noise[1]))
    return moved


def _mdtest(record: Record, weather: Weather, now: Conditions) -> Array:
    """Create, stat and remove files from two nodes; return operations an MDT."""
    run, nodes = _second_run(record, weather, now, 2)
    files = 400_000.0
    noise = weather.second[now.hour]
    slowest = float(now.client_factor[nodes].min())
    # 60,000 creates/s a node (assumed): two good nodes do not bound it.
    rate = min(_creation_rate(now, streams=32.0), 60_000.0 * len(nodes) * slowest)
    for number, (metric, factor) in enumerate(
        (("file_creation_rate", 1.0), ("file_stat_rate", 2.5), ("file_removal_rate", 0.75))
    ):
        run["values"][metric] = rate * factor * float(np.exp(noise[number]))
    seconds = files * (1 + 1 / 2.5 + 1 / 0.75) / rate
    run["until"] = run["at"] + timedelta(seconds=min(seconds, 900.0))
    return np.full(MDTS, 3 * files / MDTS)


def _survey(record: Record, weather: Weather, now: Conditions, rates: Rates) -> Array:
    """Measure every target by itself on its server; return bytes that it wrote."""
    system = record.system
    at = system.at(now.hour + 0.5)
    noise = weather.survey[now.hour // 24]
    run = f"survey-{now.hour:05d}"
    for number, metric in enumerate(("write_bandwidth", "read_bandwidth")):
        values = alone_on_server(system, now, rates, write=number == 0)
        for ost in np.flatnonzero(now.exists):
            value = float(values[ost] * np.exp(noise[ost, number]))
            gone = value <= 0 or bool(now.parted[ost])
            record.surveys.append(
                SurveyValue(
                    at=at,
                    run=run,
                    target=system.name(int(ost)),
                    metric=metric,
                    value=None if gone else value,
                )
            )
    entry = _run(record, now, "survey", "obdfilter_survey", 0.5, [])
    entry["id"], entry["until"] = run, at + timedelta(minutes=6)
    entry["nodes"], entry["tasks"] = 0, 32 * int(now.exists.sum())
    record.runs.append(entry)
    if system.site.profiles and "profiles" not in system.spec.missing:
        _profile(record, now, rates)
    return np.where(rates.write > 0, 40e9, 0.0) * now.exists


def _network_test(record: Record, weather: Weather, now: Conditions) -> None:
    """Send from one node to each server: the slower of both ends."""
    system = record.system
    rng = stream(system.spec.seed, "network test", now.hour)
    nodes = rng.choice(len(system.clients), min(system.servers, len(system.clients)), False)
    hosts = [system.clients[int(node)] for node in nodes]
    run = _run(record, now, "network", "lnet_selftest", 0.94, hosts)
    run["until"] = run["at"] + timedelta(seconds=60)
    noise = weather.network_test[now.hour]
    used = now.up & (np.arange(system.servers) * 2 < int(now.exists.sum()))
    node = physics.CLIENT_NETWORK_BYTES_PER_S * float(np.mean(now.client_factor[nodes]))
    # One direction: LNet selftest kept 84.8 % writing, 97 % reading (seeds 29).
    for number, (metric, kept, ceiling) in enumerate(
        (
            ("write_bandwidth", 0.848, physics.SERVER_WRITE_BYTES_PER_S),
            ("read_bandwidth", 0.97, physics.SERVER_READ_BYTES_PER_S),
        )
    ):
        each = np.minimum(node * kept, ceiling * now.server_network[used])
        run["values"][metric] = float(each.sum() * np.exp(noise[number]))
    record.runs.append(run)


def _profile(record: Record, now: Conditions, rates: Rates) -> None:
    """Sample one server while the survey runs: where its cores are busy."""
    system = record.system
    rng = stream(system.spec.seed, "profile", now.hour)
    server = int(rng.integers(system.base_osts // 2))
    mine = now.serving == server
    if not mine.any():
        return
    search = float((rates.core_s_per_byte_written[mine] - 0.7e-9).mean())
    whole = search + 0.7e-9 + 0.1e-9
    parts = {
        "ldiskfs_mb_good_group": 0.62 * search,
        "ldiskfs_mb_regular_allocator": 0.33 * search + 0.004e-9,
        "ldiskfs_mb_find_by_goal": 0.05 * search + 0.003e-9,
        "raid6_avx24_gen_syndrome": 0.19e-9,
        "copy_user_enhanced_fast_string": 0.24e-9,
        "native_queued_spin_lock_slowpath": 0.06e-9,
        "osd_write_commit": 0.03e-9,
        "md_raid5_handle_stripe": 0.14e-9,
        "kiblnd_recv": 0.02e-9,
    }
    shares = {name: part / whole for name, part in parts.items()}
    record.profiles.append(
        Profile(at=system.at(now.hour + 0.52), server=system.server(server), shares=shares)
    )
