"""Tasks that write or read a file each on a simulated file system: what they move, and how long.

Files of several stripes are as fast as their first OST: the flow model knows whole files only.
A fixed time that is longer than a file takes goes around the file again; the drives are given the
file once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.errors import ToolError
from trimtab.model.run import Access
from trimtab.twin.guest import File, Guest
from trimtab.twin.instruments.probes import opening_s


@dataclass(frozen=True, slots=True)
class Transfer:
    """What tasks are to do.

    Attributes
    ----------
    paths
        The file of each task; the tasks of a node follow each other.
    fixed_s
        How long; 0: until the files are whole.
    shift
        Each task reads what the one so many further on wrote.
    """

    access: Access
    paths: Sequence[str]
    nodes: int
    tasks_per_node: int
    bytes_per_task: int
    transfer_size_bytes: int
    fixed_s: float = 0.0
    shift: int = 0


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


def move(guest: Guest, wanted: Transfer, left_s: float) -> Moved | None:
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
    life = guest.life
    files = _files(guest, wanted)
    rates, slowest_s = life.simulation.meet(
        np.array([file.osts[0] for file in files]),
        at=life.now,
        nodes=wanted.nodes,
        tasks_per_node=wanted.tasks_per_node,
        bytes_per_task=float(wanted.bytes_per_task),
        access=wanted.access,
    )
    opening = opening_s(wanted.fixed_s or slowest_s)
    elapsed_s = wanted.fixed_s + 2 * opening if wanted.fixed_s else slowest_s
    if not elapsed_s <= left_s or (wanted.fixed_s and not rates.all()):
        life.pass_by(max(left_s, 0.0))
        return None
    moved = np.full(len(files), wanted.bytes_per_task, dtype=np.float64)
    if wanted.fixed_s:
        size = wanted.transfer_size_bytes
        moved = np.floor(rates * wanted.fixed_s / size) * size
    held = np.minimum(moved, wanted.bytes_per_task)
    if wanted.access == "write":
        guest.write(dict(zip(wanted.paths, held.tolist(), strict=True)))
    life.pass_by(elapsed_s)
    return Moved(int(moved.sum()), int(held.sum()), elapsed_s, opening)


def _files(guest: Guest, wanted: Transfer) -> list[File]:
    """Return the file that each task works on; those to be written are made."""
    if wanted.access == "write":
        return guest.touch(wanted.paths)
    files = [guest.file(path) for path in wanted.paths]
    if any(file.size_bytes < wanted.bytes_per_task for file in files):
        raise ToolError("a file ends before what is to be read of it", code="file-too-short")
    return [files[(file + wanted.shift) % len(files)] for file in range(len(files))]
