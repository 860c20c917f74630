"""Probes and surveys: when they run, what they measure, how they end, how they scatter.

All random numbers are drawn for the whole schedule and by purpose: the runs of a site with and
without a fault have the same noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray
from tests.worlds.physics import Speeds
from tests.worlds.site import Probe, Site, client, stream, target
from tests.worlds.state import Array, Flags, Pool, State
from tests.worlds.world import Run, SurveyValue

CUT_OFF = 0.1
"""A run slower than this part of its nominal speed is cut off by its time limit."""
FULL = 0.99
VOLUME_S = 240.0
"""Seconds that the main probe writes for at its nominal speed."""
FILE_RATES = {"file_creation_rate": 6e4, "file_stat_rate": 2.2e5, "file_removal_rate": 4.5e4}
NO_SPACE = "ior ERROR: write(12, 0x2b1c, 1048576) failed, errno 28, No space left on device"
IO_ERROR = "ior ERROR: open64() failed, errno 5, Input/output error"
ACCIDENTS = (
    "srun: error: nid001077: task 12: Exited with exit code 1",
    "srun: error: Node failure on nid001093", "MPI_Abort was called, rank 17",
    "slurmstepd: error: Detected 1 oom_kill event",
)  # fmt: skip


@dataclass(slots=True)
class Table:
    """The schedule of one probe and what came of each run.

    Attributes
    ----------
    time, hour
        Hours since the start of the record, and the index of that hour.
    made
        Whether the run is in the record at all.
    nodes
        First node, offset and size of the pool of each run.
    moved
        Part of the bytes that the probe asks for.
    """

    probe: Probe
    time: Array
    hour: NDArray[np.int64]
    made: Flags
    status: NDArray[np.object_]
    problem: list[str | None]
    values: dict[str, Array]
    nodes: list[tuple[int, int, int]]
    moved: Array
    disbelieved: Flags

    def hosts(self, run: int) -> list[int]:
        """Return the numbers of the nodes of a run."""
        first, offset, size = self.nodes[run]
        return [first + (offset + node) % size for node in range(self.probe.nodes)]


def measure(state: State, speeds: Speeds) -> dict[str, Table]:
    """Return what every probe measured, by its name."""
    return {probe.name: _measure(state, speeds, probe) for probe in state.site.probes}


def _measure(state: State, speeds: Speeds, probe: Probe) -> Table:
    site = state.site
    rng = stream("probe", site.seed, site.name, probe.name)
    time = _times(site, probe, rng)
    hour = time.astype(np.int64)
    chance = rng.random((7, time.size))
    dips = np.where(chance[0] < site.dip_rate, rng.uniform(0.55, 0.9, time.size), 1.0)
    second = chance[1] < (0.5 if site.second_type < 1 else 0)
    pools = _pools(state, time)
    nodes = [
        (
            pool.first_node + 5000 * int(slow),
            int(chance[2][run] * pool.size) * site.roams,
            pool.size,
        )
        for run, (pool, slow) in enumerate(zip(pools, second.tolist(), strict=True))
    ]
    client_write, client_read = _client_factors(state, time, nodes, probe)
    if probe.kind != "lnet_selftest":  # other nodes have other processors, on the same fabric
        client_write *= [pool.write for pool in pools]
        client_read *= [pool.read for pool in pools]
    kind = np.where(second, site.second_type, 1.0) * probe.per_node
    table = Table(
        probe, time, hour, ~state.no_runs[hour], np.full(time.size, "ok", object),
        [None] * time.size, {}, nodes, np.ones(time.size), np.zeros(time.size, bool),
    )  # fmt: skip
    for metric, clients, storage in _speeds(state, speeds, probe, hour):
        factor = client_read if metric == "read_bandwidth" else client_write
        level = np.minimum(clients * factor * kind, storage)
        table.values[metric] = level * dips * np.exp(_noise(site, probe, metric, hour, state))
    _workload(state, table)
    _endings(state, table, chance[3:])
    return table


def _times(site: Site, probe: Probe, rng: np.random.Generator) -> Array:
    occasions = np.arange(probe.first_h, site.hours - 1, probe.every_h)
    occasions += rng.uniform(0, 0.04, occasions.size)
    times = occasions[:, None] + np.arange(probe.burst) * (5 / 60)
    return times.ravel()


def _pools(state: State, time: Array) -> list[Pool]:
    """Return the pool of each run: the latest before it."""
    pools = sorted(state.pools, key=lambda pool: pool.hour)
    latest = np.searchsorted([pool.hour for pool in pools], time, side="right") - 1
    return [pools[index] for index in latest.tolist()]


def _client_factors(
    state: State, time: Array, nodes: Sequence[tuple[int, int, int]], probe: Probe
) -> tuple[Array, Array]:
    write, read = np.ones(time.size), np.ones(time.size)
    for slow in state.slow_nodes:
        for run in np.flatnonzero((time >= slow.begin) & (time < slow.end)).tolist():
            first, offset, size = nodes[run]
            if 0 <= slow.node - first < size and (slow.node - first - offset) % size < probe.nodes:
                write[run] *= slow.factor
                read[run] *= slow.factor
    return write, read


def _speeds(
    state: State, speeds: Speeds, probe: Probe, hour: NDArray[np.int64]
) -> list[tuple[str, Array, Array]]:
    """Return each metric with what clients and what the storage could do in a run's hour."""
    endless = np.full(hour.size, np.inf)
    match probe.kind:
        case "ior":
            return [
                ("write_bandwidth", speeds.clients_write[hour], speeds.storage_write[hour]),
                ("read_bandwidth", speeds.clients_read[hour], speeds.storage_read[hour]),
            ]
        case "fio":
            return [
                ("write_bandwidth", speeds.one_write[hour], endless),
                ("read_bandwidth", speeds.one_read[hour], endless),
            ]
        case "mdtest":
            return [(name, rate * speeds.metadata[hour], endless)
                    for name, rate in FILE_RATES.items()]  # fmt: skip
        case _:
            rate = speeds.network[hour] * probe.nodes * 20e9
            return [(name, rate, endless) for name in ("write_bandwidth", "read_bandwidth")]


def _noise(site: Site, probe: Probe, metric: str, hour: NDArray[np.int64], state: State) -> Array:
    """Return the scatter of the logarithm: half of it is common to the metrics of a run."""
    scatter = np.zeros(hour.size)
    quiet = 0.4 if probe.kind == "lnet_selftest" else 1.0
    for part, who in ((0.6, "common"), (0.8, metric)):
        rng = stream("noise", site.seed, site.name, probe.name, who)
        steps = rng.standard_t(site.dof, hour.size) * np.sqrt(max(site.dof - 2, 0.5) / site.dof)
        series = np.empty_like(steps)
        level, keep = 0.0, np.sqrt(1 - site.phi**2)
        for run, step in enumerate(steps.tolist()):
            level = site.phi * level + keep * step
            series[run] = level
        scatter += part * series
    more = stream("spread", site.seed, site.name, probe.name, metric).normal(size=hour.size)
    return quiet * site.sigma * scatter + state.spread[hour] * more


def _workload(state: State, table: Table) -> None:
    """Let runs do something else than wanted: move less, or read from memory."""
    if table.probe.kind != "ior":
        return
    wanted = state.mismatch[table.hour]
    table.moved = wanted.copy()
    table.status[wanted < 0.1] = "invalid_workload"
    table.values = {name: values * (0.7 + 0.3 * wanted) for name, values in table.values.items()}
    cached = state.cached[table.hour]
    read = table.values["read_bandwidth"]
    read *= 1 + cached
    table.disbelieved = (cached > 0) & (read > table.probe.nodes * 25e9)


def _endings(state: State, table: Table, chance: Array) -> None:
    """Let runs fail: for want of space or time, by a fault, or by accident."""
    site, probe, hour = state.site, table.probe, table.hour
    nominal = min(site.share, 1.0) * site.osts * site.target_write

    def end(which: Flags, status: str, problem: str | None) -> None:
        for run in np.flatnonzero(which & (table.status == "ok")).tolist():
            table.status[run], table.problem[run] = status, problem

    for outcome in state.outcomes:
        inside = (table.time >= outcome.begin) & (table.time < outcome.end)
        if not outcome.probes or probe.name in outcome.probes:
            end(inside & (chance[0] < outcome.share), outcome.status, outcome.problem)
    if probe.kind == "ior":
        fullest = np.where(state.open, state.full, 0.0).max(axis=1)
        end(fullest[hour] >= FULL, "failed", NO_SPACE)
        unwritable = np.logical_or.reduce(state.open & (state.read_only | ~state.connected), axis=1)
        end(
            unwritable[hour] & (chance[2] < 0.5),
            "failed",
            IO_ERROR,
        )
        slow = np.minimum(*(table.values[name] for name in ("write_bandwidth", "read_bandwidth")))
        end(slow < CUT_OFF * nominal, "unfinished", None)
    accident = ACCIDENTS[int(chance[1].sum() * 1e6) % len(ACCIDENTS)]
    end(chance[1] < site.fail_rate, "failed", accident)
    end(chance[1] > 1 - site.unfinished_rate, "unfinished", None)


def runs_of(state: State, tables: dict[str, Table]) -> list[Run]:
    """Return the runs that are in the record, in order of time."""
    runs = [_run(state.site, table, index) for table in tables.values()
             for index in np.flatnonzero(table.made).tolist()]  # fmt: skip
    rng = stream("twice", state.site.seed, state.site.name)
    if state.site.duplicates:
        twice = rng.random(len(runs)) < state.site.duplicates
        runs += [Run(**{**run, "id": run["id"] + "b"})  # pyrefly: ignore[bad-argument-type]
                  for run, again in zip(tuple(runs), twice, strict=True) if again]  # fmt: skip
    return sorted(runs, key=lambda run: run["at"])


def _run(site: Site, table: Table, index: int) -> Run:
    probe, status = table.probe, str(table.status[index])
    at = site.at(float(table.time[index]))
    values = {name: float(value[index]) for name, value in table.values.items()}
    values = {name: value for name, value in values.items() if value > 0}
    wanted = site.share * site.osts * site.target_write * VOLUME_S if probe.kind == "ior" else None
    moved = None if wanted is None else wanted * float(table.moved[index])
    done = {"ok": 1.0, "invalid_workload": 1.0, "unfinished": 0.5}.get(status, 0.0)
    lasted = 3000.0 if status == "unfinished" else 90.0
    if status == "ok" and moved is not None:
        lasted = sum(moved / value for value in values.values())
    hosts = [] if "hosts" in site.missing else [client(node) for node in table.hosts(index)]
    return Run(
        id=f"{probe.name}-{index}", at=at, until=at + timedelta(seconds=round(lasted)),
        probe=probe.name, kind=probe.kind, status=status,
        values=values if done == 1.0 else {}, tails={},
        disbelieved=["read_bandwidth is over what the nodes' network carries"]
        if table.disbelieved[index] else [],
        problem=table.problem[index],
        hosts=[] if status == "not_started" else hosts,
        nodes=probe.nodes, tasks=probe.tasks,
        bytes_written=None if moved is None else moved * done,
        bytes_read=None if moved is None else moved * done,
    )  # fmt: skip


def moved_by_probes(state: State, tables: dict[str, Table]) -> Array:
    """Return bytes that probes wrote (and read again), H x T."""
    site = state.site
    moved = np.zeros((site.hours, site.osts))
    for table in tables.values():
        if table.probe.kind != "ior":
            continue
        wanted = site.share * site.osts * site.target_write * VOLUME_S
        part = np.select([np.isin(table.status.astype(str), ("ok", "invalid_workload")),
                          table.status == "unfinished"], [1.0, 0.5], 0.0)  # fmt: skip
        total = np.bincount(
            table.hour, weights=part * table.moved * table.made * wanted, minlength=site.hours
        )
        usable = state.open & state.connected
        moved += total[:, None] * usable / np.maximum(usable.sum(axis=1, keepdims=True), 1)
    return moved


@dataclass(slots=True)
class Surveys:
    """Hours of the surveys, and K x T values of each metric; NaN where nothing came back."""

    time: Array
    made: Flags
    values: dict[str, Array]


def survey(state: State, speeds: Speeds) -> Surveys:
    """Return what the surveys of all targets measured."""
    site = state.site
    if not site.survey_every_h:
        return Surveys(np.empty(0), np.empty(0, bool), {})
    rng = stream("survey", site.seed, site.name)
    time = np.arange(25.5 - site.start.hour % 24, site.hours - 1, site.survey_every_h)
    hour = time.astype(np.int64)
    made = ~state.no_runs[hour] & (rng.random(time.size) > 0.02)
    busy = 0.5 * (state.users_write + state.users_read)[hour]
    values = {}
    for metric, speed in (("write_bandwidth", speeds.target_write),
                          ("read_bandwidth", speeds.target_read)):  # fmt: skip
        scatter = rng.standard_t(5, (time.size, site.osts)) * site.survey_sigma * 0.8
        odd = np.where(rng.random(scatter.shape) < 0.008, rng.uniform(0.5, 0.85, scatter.shape), 1)
        whole = rng.normal(0, 0.02, (time.size, 1))
        level = np.maximum(speed[hour] - busy, 0.3 * speed[hour])
        level = level * odd * np.exp(scatter + whole)
        values[metric] = np.where(level > 0.004 * site.target_write, level, np.nan)
    return Surveys(time, made, values)


def survey_rows(site: Site, surveys: Surveys) -> list[SurveyValue]:
    """Return one row a survey, target and metric."""
    rows = []
    for number in np.flatnonzero(surveys.made).tolist():
        at, run = site.at(float(surveys.time[number])), f"survey-{number}"
        for metric, values in surveys.values.items():
            for ost, value in enumerate(values[number].tolist()):
                rows.append(SurveyValue(
                    at=at, run=run, target=target(ost), metric=metric,
                    value=None if value != value else value,
                ))  # fmt: skip
    return rows
