"""Lines of journals for tests, and what they say of a row."""

from __future__ import annotations

from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.run.journal_line import PlanLine
from trimtab.purge.run.plan_progress import PlanProgress


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


def fate_of(standing: PlanProgress, row: int) -> str | None:
    """Return what became of a row; ``None``: nothing yet."""
    fates = (outcome for rows, outcome in standing.fates if rows.first <= row < rows.end)
    return next(fates, None)
