"""The throughput of a parallel job: what its nodes, its OSTs and other users leave to each task.

File per process: each task writes a file on an OST, then reads it back. Tasks share their node and
OST fairly with each other and with users. A job takes as long as its slowest task, so its bandwidth
is all bytes over that time. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.scenario import Clients, ProbeLoad
from trimtab.twin.simulation import hardware
from trimtab.twin.simulation.hardware import FITTED, Constants, Platform
from trimtab.twin.simulation.ost_array import Array

Indices = NDArray[np.intp]

_SAME = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Resource:
    """Resources of one kind that flows share.

    Attributes
    ----------
    passed
        Index of the one each flow uses, shape ``(flows,)``.
    capacity
        Capacity of each.
    others_demand, others_weight
        Maximum demand of others on each, and their number of flows; ``None``: no others.
    """

    passed: Indices
    capacity: Array
    others_demand: Array | None = None
    others_weight: Array | None = None


def fair_share(
    capacity: Array, flows: Array, demand: Array | None = None, weight: Array | None = None
) -> Array:
    """Return the share of each of several unlimited flows, in competition with others.

    Others take their demand or ``weight`` shares, whichever is less. ``inf`` without a flow.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if demand is not None and weight is not None:
            share = np.maximum((capacity - demand) / flows, capacity / (flows + weight))
        else:
            share = np.maximum(capacity, 0.0) / flows
    return np.where(flows > 0, np.maximum(share, 0.0), np.inf)


def shares(resource: Resource) -> Array:
    """Return each resource's share per flow with all flows active, as if it were the only limit;
    ``inf`` for an unused one.
    """
    flows = np.bincount(resource.passed, minlength=len(resource.capacity)).astype(np.float64)
    return fair_share(resource.capacity, flows, resource.others_demand, resource.others_weight)


def slowest_rate(resources: Sequence[Resource], limit: float) -> float:
    """Return the overall rate of the last of flows with equal bytes.

    Parameters
    ----------
    limit
        Maximum demand of each flow.

    Notes
    -----
    The time of the slowest of tasks with equal bytes needs no filling. Let s be the smallest share
    that any resource gives its flows when all are active, or a task's own limit if that is less. No
    task ever gets less than s, since shares only rise as others end; and at the resource with share
    s, n tasks need n x bytes / (n x s), since fewer tasks together get no more than all did. So the
    slowest ends at exactly bytes / s.
    """
    return min([limit, *(float(shares(resource).min()) for resource in resources)])


def max_min(resources: Sequence[Resource], limits: Array) -> Array:
    """Return the rate of every flow.

    Parameters
    ----------
    resources
        All kinds of resources; every flow uses one of each kind.
    limits
        Maximum demand of each flow; ``inf`` for unlimited.

    Notes
    -----
    Progressive filling: all flows grow at the same pace until a resource is full or a flow has
    reached its demand; those stop and the others continue. The result is max-min fair: no flow can
    get more without reducing one that has less (D. Bertsekas and R. Gallager, Data Networks, 1992,
    6.5).

    Filling one resource at a time takes as many rounds as there are levels. Here every resource
    that is the tightest of *all* its flows is closed in the same round: the others can only become
    wider meanwhile, so their order does not matter.
    """
    rates = np.zeros(len(limits))
    active = np.arange(len(limits))
    left = [resource.capacity.astype(np.float64) for resource in resources]
    passed = [resource.passed for resource in resources]
    wanted = limits
    while active.size:
        levels: list[Array] = []
        for resource, where, capacity in zip(resources, passed, left, strict=True):
            flows = np.bincount(where, minlength=len(capacity)).astype(np.float64)
            share = fair_share(capacity, flows, resource.others_demand, resource.others_weight)
            levels.append(share[where])
        tightest = np.minimum.reduce([wanted, *levels])
        done = wanted <= tightest
        for where, level, capacity in zip(passed, levels, left, strict=True):
            looser = np.bincount(where, tightest * _SAME < level, minlength=len(capacity))
            done |= looser[where] == 0
        granted = tightest[done]
        rates[active[done]] = granted
        if done.all():
            break
        for number, where in enumerate(passed):
            left[number] -= np.bincount(where[done], granted, minlength=len(left[number]))
        keep = ~done
        active, wanted = active[keep], wanted[keep]
        passed = [where[keep] for where in passed]
    return rates


NODE_CORES: Final = 64
"""Cores of a node of the hourly probe (source S3: one EPYC 7763)."""
SMALL_READS_PER_S: Final = 1.66e9 / 4096
"""Published, for one node with 96 processes (source S2)."""
SMALL_WRITES_PER_S: Final = 0.92e9 / 4096
"""Printed, likewise."""
SMALL_PROCESSES: Final = 96


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Limits of one node and of one of its processes, in bytes per second."""

    write_bytes_per_s: float
    read_bytes_per_s: float
    process_bytes_per_s: float = FITTED.process_bytes_per_s


def processor_bytes_per_s(
    clients: Clients, tasks_per_node: int, cores: int = NODE_CORES, constants: Constants = FITTED
) -> float:
    """Return a node's throughput without its ports, for writing or reading.

    The client cost of reads is not published: assume that of writes.

    Notes
    -----
    A byte costs a process ``(1 + SafeRet) / process rate`` of its own and then the shared part of
    the node, ``(1 + SafeRet) / node rate + checksum / cores``. With p processes a node moves
    ``1 / (own / p + shared)``, or what its ports carry (`node_limits`).
    """
    slower = 1 + constants.saferet_cost * clients.saferet
    own_s = slower / constants.process_bytes_per_s
    shared_s = slower / (constants.node_bytes_per_s * cores / NODE_CORES)
    if clients.checksums:
        shared_s += constants.checksum_core_s_per_byte / cores
    return 1 / (own_s / tasks_per_node + shared_s)


def node_limits(
    clients: Clients,
    platform: Platform,
    tasks_per_node: int = 64,
    *,
    cores: int = NODE_CORES,
    constants: Constants = FITTED,
) -> NodeLimits:
    """Return the limits of one of a scenario's nodes with that many processes."""
    processor = processor_bytes_per_s(clients, tasks_per_node, cores, constants)
    path = hardware.shrunk(constants.client_path_efficiency, platform.host(constants))
    line = clients.network_bytes_per_s
    write = hardware.port_write_bytes_per_s(line, platform, constants) * path
    read = hardware.port_read_bytes_per_s(line, constants) * path
    return NodeLimits(min(processor, write), min(processor, read), constants.process_bytes_per_s)


def run_share(draws: Array, constants: Constants = FITTED) -> Array:
    """Return the fraction of a run's clients left by other nodes and paths, from normal draws.

    It is at most 1: noise belongs to the layer in which it arises, and only reduces it.
    """
    return np.exp(-constants.run_spread * np.abs(draws))


def mean_run_share(constants: Constants = FITTED) -> float:
    """Return the mean of `run_share`.

    >>> round(mean_run_share(), 3)
    0.947
    """
    spread = constants.run_spread
    return math.exp(spread**2 / 2) * math.erfc(spread / math.sqrt(2))


def small_reads_per_s(tasks_per_node: int) -> float:
    """Return random 4 KiB reads per second of one node, one at a time per process."""
    return SMALL_READS_PER_S * min(1.0, tasks_per_node / SMALL_PROCESSES)


def small_writes_per_s(tasks_per_node: int) -> float:
    """Return random 4 KiB writes per second of one node."""
    return SMALL_WRITES_PER_S * min(1.0, tasks_per_node / SMALL_PROCESSES)


USER_STREAM_BYTES_PER_S: Final = FITTED.node_bytes_per_s / 64
"""Rate of one user process, one of 64 on a node; gives the number of processes of a demand."""
SURVEY_THREADS: Final = 64
"""Threads of a survey on one OST at its best point; assumed, no source has it."""
_NEAR = 0.995
"""OSTs whose tasks end within 0.5 % of the last one count as slowest."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job.

    Attributes
    ----------
    write_bytes_per_s, read_bytes_per_s
        All bytes over the time of the slowest task; 0 if it never ends.
    write_s, read_s
        ``inf`` if a task never ends.
    write_of_file, read_of_file
        Rate of each file on an OST while all are written or read, bytes per second; 0 without
        files.
    slowest_osts
        OSTs whose tasks are last to finish writing; all of them if clients are the limit.
    limit
        The limit of the last task's write.
    """

    write_bytes_per_s: float
    read_bytes_per_s: float
    write_s: float
    read_s: float
    write_of_file: Array
    read_of_file: Array
    slowest_osts: Indices
    limit: Literal["client", "ost"]


def placed_job(
    ost_of_task: Indices,
    per_ost_write: Array,
    per_ost_read: Array,
    *,
    clients: NodeLimits,
    job: ProbeLoad,
    competing: Array | None = None,
    competing_read: Array | None = None,
    streams: Array | None = None,
    client_share: tuple[float, float] = (1.0, 1.0),
) -> JobResult:
    """Return the result of a file-per-process job: write, then read.

    Parameters
    ----------
    ost_of_task
        OST of each task's file; tasks of a node are consecutive.
    per_ost_write, per_ost_read
        Current rates of each OST for clients, bytes per second, as from
        `trimtab.twin.simulation.ost_array.Ceilings.rates`.
    clients
        Limits of a node and a process: `node_limits`.
    competing, competing_read
        Users' demand on each OST meanwhile, bytes per second.
    streams
        Number of processes behind the users' demand; ``None``: `USER_STREAM_BYTES_PER_S` each.
    client_share
        Fraction of the clients left to this run's write and read: `run_share`.
    """
    files = np.bincount(ost_of_task, minlength=len(per_ost_write)).astype(np.float64)

    def rate_and_shares(
        rate: Array, users: Array | None, per_node: float, left: float
    ) -> tuple[float, float, Array]:
        of_osts = _shares(files, rate, users, streams)
        # Nodes are identical and full.
        of_task = min(clients.process_bytes_per_s, max(per_node, 0.0) / job.tasks_per_node)
        of_clients = of_task * left
        return min(of_clients, float(of_osts.min())), of_clients, of_osts

    def of_file(of_clients: float, of_osts: Array) -> Array:
        return np.where(files > 0, np.minimum(of_osts, of_clients), 0.0)

    write, of_clients, of_osts = rate_and_shares(
        per_ost_write, competing, clients.write_bytes_per_s, client_share[0]
    )
    read, read_of_clients, read_of_osts = rate_and_shares(
        per_ost_read, competing_read, clients.read_bytes_per_s, client_share[1]
    )
    # If the nodes are the limit, all tasks are last, regardless of their OSTs.
    last = of_osts <= write / _NEAR if write < of_clients else files > 0
    moves = job.bytes_per_task > 0
    return JobResult(
        write_bytes_per_s=job.tasks * write * moves,
        read_bytes_per_s=job.tasks * read * moves,
        write_s=_seconds(job.bytes_per_task, write),
        read_s=_seconds(job.bytes_per_task, read),
        write_of_file=of_file(of_clients, of_osts),
        read_of_file=of_file(read_of_clients, read_of_osts),
        slowest_osts=np.flatnonzero(last),
        limit="ost" if write < of_clients else "client",
    )


def _shares(files: Array, rate: Array, users: Array | None, streams: Array | None) -> Array:
    """Return each file's rate on its OST while all are active; ``inf`` without files."""
    if users is None or not np.count_nonzero(users):
        return fair_share(rate, files)
    if streams is None:
        streams = np.ceil(users / USER_STREAM_BYTES_PER_S)
    return fair_share(rate, files, users, streams)


def _seconds(size_bytes: float, bytes_per_s: float) -> float:
    if size_bytes == 0:
        return 0.0
    return size_bytes / bytes_per_s if bytes_per_s > 0 else float("inf")


def survey_share(rate: Array, competing: Array, streams: Array | None = None) -> Array:
    """Return obdfilter-survey's rate on each OST with users' demand ``competing``.

    It runs on the OST's server, without clients or network: it loses what users take, up to the
    fair share of their streams against its `SURVEY_THREADS`.
    """
    if streams is None:
        streams = np.ceil(competing / USER_STREAM_BYTES_PER_S)
    fair = rate * SURVEY_THREADS / (SURVEY_THREADS + streams)
    return np.maximum(rate - competing, fair)
