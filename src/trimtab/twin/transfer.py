"""Simulates tasks that each write or read a file: their bytes and duration.

Striped files are as fast as their first OST: the flow model has only whole files. If a fixed time
is longer than a file takes, the file is written again; the drives get it only once.

External files do not belong to users: no lifetime, quota or purge applies, and they stay until
removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trimtab.errors import ToolError
from trimtab.model.run import Access
from trimtab.twin.arrays import Array, Integers
from trimtab.twin.guest import File, Guest
from trimtab.twin.instruments.command import LoadCommand
from trimtab.twin.instruments.probes import opening_s
from trimtab.twin.life import Life
from trimtab.twin.simulation.streams import stream
from trimtab.twin.stack import client
from trimtab.twin.stack.hardware import platform_of
from trimtab.twin.stack.job import USER_STREAM_BYTES_PER_S
from trimtab.twin.stack.sharing import Resource, max_min, slowest_rate


@dataclass(frozen=True, slots=True)
class Moved:
    """The result.

    Attributes
    ----------
    held_bytes
        Bytes in all files afterwards.
    elapsed_s
        From the first open to the last close, including ``opening_s`` at both ends.
    """

    moved_bytes: int
    held_bytes: int
    elapsed_s: float
    opening_s: float


def move(guest: Guest, command: LoadCommand, access: Access, left_s: float) -> Moved | None:
    """Let all tasks write or read; return ``None`` if that does not end in time.

    Raises
    ------
    UsageError
        A directory, or a file to read, does not exist.
    NoSpace
        No OST accepts new files, or one has too little space.
    ToolError
        A file is shorter than the read.
    """
    life, fixed_s = guest.life, command.fixed_s
    files = _files(guest, command, access)
    rates, slowest_s = _rates(life, np.array([file.osts[0] for file in files]), command, access)
    opening = opening_s(fixed_s or slowest_s)
    elapsed_s = fixed_s + 2 * opening if fixed_s else slowest_s
    if not elapsed_s <= left_s or (fixed_s and not rates.all()):
        life.pass_by(max(left_s, 0.0))
        return None
    moved = np.full(len(files), command.task_bytes, dtype=np.float64)
    if fixed_s:
        size = command.transfer_size_bytes
        moved = np.floor(rates * fixed_s / size) * size
    held = np.minimum(moved, command.task_bytes)
    if access == "write":
        guest.write(dict(zip(command.files, held.tolist(), strict=True)))
    life.pass_by(elapsed_s)
    return Moved(int(moved.sum()), int(held.sum()), elapsed_s, opening)


def _rates(
    life: Life, ost_of_task: Integers, command: LoadCommand, access: Access
) -> tuple[Array, float]:
    """Return each task's rate while all run, and when the slowest has moved its bytes.

    Returns
    -------
    tuple
        Bytes per second, and seconds; ``inf`` if a task never ends.
    """
    scenario, at = life.simulation.scenario, life.now
    could, users = life.simulation.met(at)
    each = command.tasks_per_node
    limits = client.node_limits(scenario.clients, platform_of(scenario.server), each)
    draws = stream(scenario.seed, "guest", access, int(at.timestamp()))
    share = float(client.run_share(draws.standard_normal(1))[0])
    of_osts, demand, per_node = (
        (could.write, users.write, limits.write_bytes_per_s)
        if access == "write"
        else (could.read, users.read, limits.read_bytes_per_s)
    )
    node = np.arange(len(ost_of_task)) // each
    nodes = Resource(node, np.full(command.nodes, per_node * share))
    osts = Resource(ost_of_task, of_osts, demand, np.ceil(demand / USER_STREAM_BYTES_PER_S))
    process = limits.process_bytes_per_s * share
    rates = max_min([nodes, osts], np.full(len(ost_of_task), process))
    slowest = slowest_rate([nodes, osts], process)
    return rates, command.task_bytes / slowest if slowest > 0.0 else math.inf


def _files(guest: Guest, command: LoadCommand, access: Access) -> list[File]:
    """Return the file of each task; files to be written are created."""
    if access == "write":
        return guest.touch(command.files)
    files = [guest.file(path) for path in command.files]
    if any(file.size_bytes < command.task_bytes for file in files):
        raise ToolError("a file is shorter than the read", code="file-too-short")
    # Each reads the file of a task on another node; tasks of a node are consecutive.
    shift = command.reorder * command.tasks_per_node
    return [files[(file + shift) % len(files)] for file in range(len(files))]
