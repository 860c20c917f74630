"""A parallel job: which task shares an OST with which, and when the slowest is done.

File per process: each task writes a file on an OST, then reads it back. Tasks share their node and
their OST fairly with each other and with what users do there. A job takes as long as its slowest
task (`trimtab.twin.stack.sharing` says when that is), so its bandwidth is all bytes over that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from trimtab.twin.constants import FITTED
from trimtab.twin.stack.client import NodeLimits
from trimtab.twin.stack.sharing import Array, Indices, fair_share

USER_STREAM_BYTES_PER_S: Final = FITTED.node_bytes_per_s / 64
"""A process of a user moves what one of 64 on a node can: how many a demand comes from."""
SURVEY_THREADS: Final = 64
"""Threads of a survey on one OST at its best point: an assumption, no source prints it."""
_NEAR = 0.995
"""OSTs whose tasks end within 0.5 % of the last count as slowest."""


@dataclass(frozen=True, slots=True)
class IorJob:
    """A job of file per process: ``bytes_per_task`` are written by each task, and read back."""

    nodes: int
    tasks_per_node: int
    bytes_per_task: float

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
    write_of_file, read_of_file
        What each file on an OST gets while all are written, or read, bytes per second; 0 where it
        has none.
    slowest_osts
        Whose tasks end last in the write: all of them where the clients limit.
    limit
        What the last task of the write waits for.
    """

    write_bytes_per_s: float
    read_bytes_per_s: float
    write_s: float
    read_s: float
    write_of_file: Array
    read_of_file: Array
    slowest_osts: Indices
    limit: Literal["client", "ost"]

    @property
    def slowest(self) -> int:
        """The first of the OSTs whose tasks end last."""
        return int(self.slowest_osts[0])


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
    client_share: tuple[float, float] = (1.0, 1.0),
) -> JobResult:
    """Return what a job of file per process measures: write, then read.

    Parameters
    ----------
    ost_of_task
        OST of each task's file; the tasks of a node follow each other.
    per_ost_write, per_ost_read
        What each OST gives to clients now, bytes per second: `stack.ost.Ceilings.rates`.
    clients
        What a node and a process can move: `stack.client.node_limits`.
    competing, competing_read
        What users ask of each OST meanwhile, bytes per second.
    streams
        Processes that the users' demand comes from; ``None``: `USER_STREAM_BYTES_PER_S` each.
    client_share
        Part of the clients that is left to this run's write and read: `stack.client.run_share`.
    """
    files = np.bincount(ost_of_task, minlength=len(per_ost_write)).astype(np.float64)

    def rate_and_shares(
        rate: Array, users: Array | None, per_node: float, left: float
    ) -> tuple[float, float, Array]:
        of_osts = _shares(files, rate, users, streams)
        # Nodes are alike and full.
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
    # Where the nodes limit, all tasks are last, wherever their files lie.
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
    """Return what each file gets of its OST while all are written; ``inf`` where there is none."""
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
    """Return what obdfilter-survey gets of each OST beside users who ask for ``competing``.

    It runs on the OST's own server, with neither clients nor network: what users take at that time
    is missing, to the fair share of their streams against its `SURVEY_THREADS`.
    """
    if streams is None:
        streams = np.ceil(competing / USER_STREAM_BYTES_PER_S)
    fair = rate * SURVEY_THREADS / (SURVEY_THREADS + streams)
    return np.maximum(rate - competing, fair)
