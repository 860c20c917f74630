"""Journals of plans as tests read them: their first lines, and what became of each row."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.run.journal_line import PlanLine
from trimtab.purge.run.plan_progress import PlanProgress, replay
from trimtab.purge.run.rows import Rows
from trimtab.purge.run.run_journal import journals, read


def plan_line(
    plan: str,
    sha256: str = "",
    rows: int = 1,
    root: str = "/scratch",
    file_system: str = "ext4 /dev/md0",
) -> PlanLine:
    """Return the first line of a plan's journal; of the file system no more than two words say."""
    kind, _, name = file_system.partition(" ")
    identity = FileSystemIdentity(kind, name or kind)
    return PlanLine(plan, sha256, rows, root, file_system, identity)


def journal_of(directory: Path) -> Path:
    """Return the one journal that stands in ``journals`` of a directory."""
    (path,) = journals(directory / "journals")
    return path


def standing_of(directory: Path) -> PlanProgress:
    """Return how far the plan of that journal is."""
    return replay(read(journal_of(directory)))


def numbers(many: Iterable[Rows]) -> set[int]:
    """Return the rows of these stretches one by one."""
    return {row for rows in many for row in range(rows.first, rows.end)}


def fates_of(standing: PlanProgress) -> dict[int, str]:
    """Return what became of each row that was dealt with; none was dealt with twice."""
    fates = {row: fate for rows, fate in standing.fates for row in numbers([rows])}
    assert len(fates) == sum(rows.count for rows, _ in standing.fates), "a row has two fates"
    return fates


def flip(path: Path, place: int) -> None:
    """Change a bit of a file; the second time it is what it was."""
    with path.open("r+b", buffering=0) as file:
        byte = os.pread(file.fileno(), 1, place)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), place)
