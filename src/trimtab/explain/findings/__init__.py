"""What can be wrong now: pure functions, one file per subject, and a table of them.

Each yields `Finding` rows of observations. To add one, copy `damage.file_system_errors` (one
value) or `drives.drive_media_errors` (one row per drive), and add a line to `TABLE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trimtab.explain.findings import damage, drives, flash, probe, space
from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding

TABLE: dict[str, Callable[[Observed], Iterator[Finding]]] = {
    "gone-read-only": damage.gone_read_only,
    "array-degraded": damage.array_degraded,
    "file-system-errors": damage.file_system_errors,
    "fullness-over-limit": space.fullness_over_limit,
    "inodes-nearly-used": space.inodes_nearly_used,
    "no-discard": flash.no_discard,
    "never-trimmed": flash.never_trimmed,
    "writeback-throttling-on": flash.writeback_throttling_on,
    "allocator-useless-loops": space.allocator_useless_loops,
    "free-space-fragmented": space.free_space_fragmented,
    "drive-wear": drives.drive_wear,
    "drive-media-errors": drives.drive_media_errors,
    "drive-link-slow": drives.drive_link_slow,
    "drive-write-amplification": drives.drive_write_amplification,
    "cached-read": probe.cached_read,
    "probe-files-left": probe.probe_files_left,
}
"""Every finding by its id."""


def find_all(observed: Iterable[Observed]) -> tuple[Finding, ...]:
    """Return all findings on all targets, most severe first, then most certain."""
    findings = [
        finding for target in observed for find in TABLE.values() for finding in find(target)
    ]
    return tuple(
        sorted(
            findings, key=lambda finding: (finding.severity.rank, -finding.confidence, finding.id)
        )
    )
