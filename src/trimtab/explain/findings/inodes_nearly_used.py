"""`inodes-nearly-used`: file creation will fail although there is space."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_percent

LIMIT = 0.95


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when 95 % of the inodes or more are used."""
    if observed.read_only:
        return
    total, free = observed.now.number("inodes_total"), observed.now.number("inodes_free")
    if not total or free is None or (total - free) / total < LIMIT:
        return
    used = (total - free) / total
    yield Finding(
        id="inodes-nearly-used",
        severity=Severity.CRITICAL if free == 0 else Severity.WARNING,
        title=f"{format_percent(used)} of the inodes are used; {free:,.0f} are free",
        target=observed.target,
        seen=Seen(used, "1", "used inodes over all inodes"),
        source=observed.now.source("inodes_free"),
        why="When the last inode is used, creating a file fails with ENOSPC, whatever the space.",
        fix=Fix(
            "Find the owners of most files and remove or pack them. ext4 cannot add inodes later."
        ),
        confidence=0.95,
    )
