"""A parallel job: which task shares an OST with which, and when the slowest is done.

File per process: each task writes a file on an OST, then reads it back. Tasks share their node and
their OST fairly with each other and with what users do there. A job takes as long as its slowest
task (`trimtab.twin.stack.sharing` says when that is), so its bandwidth is all bytes over that time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.constants import FITTED
from trimtab.twin.stack.client import NodeLimits
from trimtab.twin.stack.sharing import Array, Indices, fair_share

USER_STREAM_BYTES_PER_S: Final = FITTED.node_bytes_per_s / 64
"""A process of a user moves what one of 64 on a node can: how many a demand comes from."""
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
    files = np.bincount(ost_of_task, minlength=len(per_ost_write)).astype(np.float64)

    def rate_and_shares(
        rate: Array, users: Array | None, per_node: float
    ) -> tuple[float, float, Array]:
        of_osts = _shares(files, rate, users, streams)
        # Nodes are alike and full.
        of_clients = min(clients.process_bytes_per_s, max(per_node, 0.0) / job.tasks_per_node)
        return min(of_clients, float(of_osts.min())), of_clients, of_osts

    write, of_clients, of_osts = rate_and_shares(
        per_ost_write, competing, clients.write_bytes_per_s
    )
    read, _, _ = rate_and_shares(per_ost_read, competing_read, clients.read_bytes_per_s)
    # Where the nodes limit, all tasks are last, wherever their files lie.
    last = of_osts <= write / _NEAR if write < of_clients else files > 0
    moves = job.bytes_per_task > 0
    return JobResult(
        write_bytes_per_s=job.tasks * write * moves,
        read_bytes_per_s=job.tasks * read * moves,
        write_s=_seconds(job.bytes_per_task, write),
        read_s=_seconds(job.bytes_per_task, read),
        slowest_osts=np.flatnonzero(last),
        per_ost_bytes=files * job.bytes_per_task,
        limit="ost" if write < of_clients else "client",
    )


def _shares(files: Array, rate: Array, users: Array | None, streams: Array | None) -> Array:
    """Return what each file gets of its OST while all are written; ``inf`` where there is none."""
    if users is None or not users.any():
        return fair_share(rate, files)
    if streams is None:
        streams = np.ceil(users / USER_STREAM_BYTES_PER_S)
    return fair_share(rate, files, users, streams)


def _seconds(size_bytes: float, bytes_per_s: float) -> float:
    if size_bytes == 0:
        return 0.0
    return size_bytes / bytes_per_s if bytes_per_s > 0 else float("inf")
