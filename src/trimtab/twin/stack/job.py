"""A parallel job: which task shares an OST with which, and when the slowest is done.

File per process: each task writes a file on an OST, then reads it back. Tasks share their node and
their OST fairly with each other and with what users do there. A job takes as long as its slowest
task, so its bandwidth is all bytes over the longest time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.constants import FITTED
from trimtab.twin.stack.client import NodeLimits
from trimtab.twin.stack.sharing import Array, Indices, Resource, fair_share, max_min

USER_STREAM_BYTES_PER_S: Final = FITTED.node_bytes_per_s / 64
"""A process of a user moves what one of 64 on a node can: how many a demand comes from."""
_STEPS = 8
_EXACT = 1.002
_LATE = 1.01
_NEAR = 0.995
"""OSTs whose tasks end within 0.5 % of the last count as slowest."""


@dataclass(frozen=True, slots=True)
class IorJob:
    """A job of file per process.

    Attributes
    ----------
    bytes_per_task
        Written by each task, and read back.
    placement
        ``round-robin`` from a random OST on, or ``weighted`` draws.
    """

    nodes: int
    tasks_per_node: int
    bytes_per_task: float
    placement: Literal["round-robin", "weighted"] = "round-robin"

    @property
    def tasks(self) -> int:
        """Processes of the job."""
        return self.nodes * self.tasks_per_node


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job measures.

    Attributes
    ----------
    write_bytes_per_s, read_bytes_per_s
        All bytes over the time of the slowest task; 0 where that never ends.
    write_s, read_s
        ``inf`` where a task never ends.
    slowest_osts
        Whose tasks end last in the write: all of them where the clients limit.
    per_ost_bytes
        Written to each OST.
    limit
        What the last task of the write waits for.
    """

    write_bytes_per_s: float
    read_bytes_per_s: float
    write_s: float
    read_s: float
    slowest_osts: Indices
    per_ost_bytes: Array
    limit: Literal["client", "ost", "nothing open"]


def place(
    files: int,
    open_osts: NDArray[np.bool_],
    rng: np.random.Generator,
    weights: Array | None = None,
) -> Indices:
    """Return the OST of each file.

    Parameters
    ----------
    weights
        Draw each file by them (free space, as the weighted allocator does without its penalties);
        ``None``: round-robin from a random start.
    """
    osts = np.flatnonzero(open_osts)
    if weights is None:
        return osts[(int(rng.integers(osts.size)) + np.arange(files)) % osts.size]
    chances = weights[osts]
    return rng.choice(osts, size=files, p=chances / chances.sum())


def balance(files: int, osts: int) -> float:
    """Return the mean load of an OST over the greatest, for files placed round-robin.

    >>> [round(balance(2048, osts), 3) for osts in (274, 298)]
    [0.934, 0.982]
    """
    return files / osts / -(-files // osts)


def ior_job(
    per_ost_write: Array,
    per_ost_read: Array,
    competing: Array,
    open_osts: NDArray[np.bool_],
    *,
    clients: NodeLimits,
    job: IorJob,
    rng: np.random.Generator,
    competing_read: Array | None = None,
    streams: Array | None = None,
    placement_weights: Array | None = None,
    columns: NDArray[np.intp] | None = None,
) -> JobResult:
    """Return what a job of file per process measures: write, then read.

    Parameters
    ----------
    per_ost_write, per_ost_read
        What each OST gives to clients now, bytes per second: `stack.ost.rates`.
    competing, competing_read
        What users ask of each OST meanwhile, bytes per second.
    open_osts
        Which take new files.
    clients
        What a node and a process can move: `stack.client.node_limits`.
    streams
        Processes that the users' demand comes from; ``None``: `USER_STREAM_BYTES_PER_S` each.
    placement_weights
        Of each OST, with ``weighted`` placement.
    columns
        Real OSTs that each entry stands for; ``None``: one. `JobResult` speaks of entries then.
    """
    stands = np.ones(len(per_ost_write), dtype=np.intp) if columns is None else columns
    entry = np.repeat(np.arange(len(stands)), stands)
    is_open = open_osts[entry]
    if not is_open.any():
        none = np.zeros(0, dtype=np.intp)
        nothing = np.zeros(len(stands))
        return JobResult(0.0, 0.0, np.inf, np.inf, none, nothing, "nothing open")
    weights = None
    if job.placement == "weighted":
        weights = np.ones(len(entry)) if placement_weights is None else placement_weights[entry]
    result = placed_job(
        place(job.tasks, is_open, rng, weights),
        per_ost_write[entry],
        per_ost_read[entry],
        clients=clients,
        job=job,
        competing=competing[entry],
        competing_read=None if competing_read is None else competing_read[entry],
        streams=None if streams is None else streams[entry],
    )
    if columns is None:
        return result
    return replace(
        result,
        slowest_osts=np.unique(entry[result.slowest_osts]),
        per_ost_bytes=np.bincount(entry, result.per_ost_bytes, minlength=len(stands)),
    )


def placed_job(
    ost_of_task: Indices,
    per_ost_write: Array,
    per_ost_read: Array,
    *,
    clients: NodeLimits,
    job: IorJob,
    competing: Array | None = None,
    competing_read: Array | None = None,
    streams: Array | None = None,
) -> JobResult:
    """Return what a job measures whose files are placed already, one entry an OST.

    Parameters
    ----------
    ost_of_task
        Of each task's file; the tasks of a node follow each other.
    """
    node = np.arange(job.tasks) // job.tasks_per_node

    def ends(rate: Array, users: Array | None, per_node: float) -> tuple[Array, bool]:
        processes = streams
        if users is None or not users.any():
            users = processes = None
        elif processes is None:
            processes = np.ceil(users / USER_STREAM_BYTES_PER_S)
        return finish_s(
            Resource(node, np.full(job.nodes, per_node)),
            Resource(ost_of_task, rate, users, processes),
            job.bytes_per_task,
            clients.process_bytes_per_s,
        )

    written, by_ost = ends(per_ost_write, competing, clients.write_bytes_per_s)
    read, _ = ends(per_ost_read, competing_read, clients.read_bytes_per_s)
    total = job.tasks * job.bytes_per_task
    write_s, read_s = float(written.max()), float(read.max())
    last = written >= write_s * _NEAR if np.isfinite(write_s) else np.isinf(written)
    files = np.bincount(ost_of_task, minlength=len(per_ost_write)).astype(np.float64)
    return JobResult(
        write_bytes_per_s=total / write_s if write_s > 0 else 0.0,
        read_bytes_per_s=total / read_s if read_s > 0 else 0.0,
        write_s=write_s,
        read_s=read_s,
        slowest_osts=np.flatnonzero(np.bincount(ost_of_task[last], minlength=len(files))),
        per_ost_bytes=files * job.bytes_per_task,
        limit="ost" if by_ost else "client",
    )


def finish_s(
    nodes: Resource, osts: Resource, bytes_per_task: float, process_bytes_per_s: float
) -> tuple[Array, bool]:
    """Return when each task is done, seconds, and whether OSTs make the last of them late.

    Who ends leaves its share to the others, so sharing is worked out anew then; it ends early where
    the slowest is within `_EXACT` of what no sharing can better, and after `_STEPS`, from where on
    rates stay as they are (late rather than early).
    """
    by_node, by_ost = _shares(nodes), _shares(osts)
    least = min(float(by_node.min()), process_bytes_per_s)
    widest = float(np.where(np.isfinite(by_node), by_node, 0.0).max())
    if min(float(by_ost.min()), process_bytes_per_s) >= widest > 0:
        # Nobody waits for an OST: the hourly probe on most days.
        return bytes_per_task / by_node[nodes.passed], False
    with np.errstate(divide="ignore"):
        floor = float(np.divide(bytes_per_task, least))
        bound = max(floor, float(np.divide(bytes_per_task, by_ost.min())))
    left = np.full(len(osts.passed), float(bytes_per_task))
    done = np.zeros(len(left))
    active = np.arange(len(left))
    now = 0.0
    for step in range(_STEPS):
        rates = max_min(
            [
                replace(nodes, passed=nodes.passed[active]),
                replace(osts, passed=osts.passed[active]),
            ],
            np.full(active.size, process_bytes_per_s),
        )
        with np.errstate(divide="ignore"):
            needs = left[active] / rates
        done[active] = now + needs
        soonest, latest = float(needs.min()), float(needs.max())
        if now + latest <= bound * _EXACT or soonest * _EXACT >= latest or step == _STEPS - 1:
            break
        # Who ends almost together ends in one step.
        until = min(soonest * _EXACT, latest)
        left[active] -= rates * until
        now += until
        active = active[needs > until]
    slowest = float(done.max())
    return done, slowest > floor * _LATE


def _shares(shared: Resource) -> Array:
    """Return what each task gets if these alone limit it; the least bounds the job's time."""
    flows = np.bincount(shared.passed, minlength=len(shared.capacity)).astype(np.float64)
    return fair_share(shared.capacity, flows, shared.others_demand, shared.others_weight)
