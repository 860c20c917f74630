"""Tasks that write or read a file each on a simulated file system: what they move, and how long.

Files of several stripes are as fast as their first OST: the flow model knows whole files only.
A fixed time that is longer than a file takes goes around the file again; the drives are given the
file once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.errors import ToolError
from trimtab.model.run import Access
from trimtab.twin.guest import File, Guest
from trimtab.twin.instruments.command import LoadCommand
from trimtab.twin.instruments.probes import opening_s


@dataclass(frozen=True, slots=True)
class Moved:
    """What came of it.

    Attributes
    ----------
    held_bytes
        In all files afterwards.
    elapsed_s
        From the first open to the last close, ``opening_s`` at both ends among it.
    """

    moved_bytes: int
    held_bytes: int
    elapsed_s: float
    opening_s: float


def move(guest: Guest, command: LoadCommand, access: Access, left_s: float) -> Moved | None:
    """Let all tasks write or read; return ``None`` where that does not end in time.

    Raises
    ------
    UsageError
        A directory, or a file that is to be read, does not exist.
    NoSpace
        No OST takes new files, or one cannot hold what is written to it.
    ToolError
        A file is shorter than what is to be read of it.
    """
    life, fixed_s = guest.life, command.fixed_s
    files = _files(guest, command, access)
    rates, slowest_s = life.simulation.meet(
        np.array([file.osts[0] for file in files]),
        at=life.now,
        nodes=command.nodes,
        tasks_per_node=command.tasks_per_node,
        bytes_per_task=float(command.task_bytes),
        access=access,
    )
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


def _files(guest: Guest, command: LoadCommand, access: Access) -> list[File]:
    """Return the file that each task works on; those to be written are made."""
    if access == "write":
        return guest.touch(command.files)
    files = [guest.file(path) for path in command.files]
    if any(file.size_bytes < command.task_bytes for file in files):
        raise ToolError("a file ends before what is to be read of it", code="file-too-short")
    # Each reads what a task of another node wrote; the tasks of a node follow each other.
    shift = command.reorder * command.tasks_per_node
    return [files[(file + shift) % len(files)] for file in range(len(files))]
