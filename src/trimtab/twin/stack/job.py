"""A parallel job: sharing of OSTs between tasks, and the time of the slowest task.

File per process: each task writes a file on an OST, then reads it back. Tasks share their node and
OST fairly with each other and with users. A job takes as long as its slowest task (see
`trimtab.twin.stack.sharing`), so its bandwidth is all bytes over that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from trimtab.twin.constants import FITTED
from trimtab.twin.scenario.model import ProbeLoad
from trimtab.twin.stack.client import NodeLimits
from trimtab.twin.stack.sharing import Array, Indices, fair_share

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
        Current rates of each OST for clients, bytes per second: `stack.ost.Ceilings.rates`.
    clients
        Limits of a node and a process: `stack.client.node_limits`.
    competing, competing_read
        Users' demand on each OST meanwhile, bytes per second.
    streams
        Number of processes behind the users' demand; ``None``: `USER_STREAM_BYTES_PER_S` each.
    client_share
        Fraction of the clients left to this run's write and read: `stack.client.run_share`.
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
