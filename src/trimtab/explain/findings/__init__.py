"""What can be wrong now: one pure file per finding, one table that lists them.

Each file has one function ``find(observed)`` that yields `Finding` rows. To add one, copy
``file_system_errors.py`` (one value) or ``drive_media_errors.py`` (one row for each drive), and add
a line to `TABLE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trimtab.explain.findings import (
    allocator_useless_loops,
    array_degraded,
    cached_read,
    drive_link_slow,
    drive_media_errors,
    drive_wear,
    drive_write_amplification,
    file_system_errors,
    free_space_fragmented,
    fullness_over_limit,
    gone_read_only,
    inodes_nearly_used,
    never_trimmed,
    no_discard,
    probe_files_left,
    writeback_throttling_on,
)
from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding

TABLE: dict[str, Callable[[Observed], Iterator[Finding]]] = {
    "gone-read-only": gone_read_only.find,
    "array-degraded": array_degraded.find,
    "file-system-errors": file_system_errors.find,
    "fullness-over-limit": fullness_over_limit.find,
    "inodes-nearly-used": inodes_nearly_used.find,
    "no-discard": no_discard.find,
    "never-trimmed": never_trimmed.find,
    "writeback-throttling-on": writeback_throttling_on.find,
    "allocator-useless-loops": allocator_useless_loops.find,
    "free-space-fragmented": free_space_fragmented.find,
    "drive-wear": drive_wear.find,
    "drive-media-errors": drive_media_errors.find,
    "drive-link-slow": drive_link_slow.find,
    "drive-write-amplification": drive_write_amplification.find,
    "cached-read": cached_read.find,
    "probe-files-left": probe_files_left.find,
}
"""Every finding by its id."""


def find_all(observed: Iterable[Observed]) -> tuple[Finding, ...]:
    """Return all findings on all targets, worst first, surest first among equals."""
    findings = [
        finding for target in observed for find in TABLE.values() for finding in find(target)
    ]
    return tuple(
        sorted(
            findings, key=lambda finding: (finding.severity.rank, -finding.confidence, finding.id)
        )
    )
