"""What can be wrong now: pure functions, one file per subject, and a table of them.

Each yields `Finding` rows of observations. To add one, copy `damage.file_system_errors` (one
value) or `drives.drive_media_errors` (one row per drive), and add a line to `TABLE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trimtab.explain.findings.damage import array_degraded, file_system_errors, gone_read_only
from trimtab.explain.findings.drives import (
    drive_link_slow,
    drive_media_errors,
    drive_wear,
    drive_write_amplification,
)
from trimtab.explain.findings.flash import never_trimmed, no_discard, writeback_throttling_on
from trimtab.explain.findings.probe import cached_read, probe_files_left
from trimtab.explain.findings.space import (
    allocator_useless_loops,
    free_space_fragmented,
    fullness_over_limit,
    inodes_nearly_used,
)
from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding

TABLE: dict[str, Callable[[Observed], Iterator[Finding]]] = {
    "gone-read-only": gone_read_only,
    "array-degraded": array_degraded,
    "file-system-errors": file_system_errors,
    "fullness-over-limit": fullness_over_limit,
    "inodes-nearly-used": inodes_nearly_used,
    "no-discard": no_discard,
    "never-trimmed": never_trimmed,
    "writeback-throttling-on": writeback_throttling_on,
    "allocator-useless-loops": allocator_useless_loops,
    "free-space-fragmented": free_space_fragmented,
    "drive-wear": drive_wear,
    "drive-media-errors": drive_media_errors,
    "drive-link-slow": drive_link_slow,
    "drive-write-amplification": drive_write_amplification,
    "cached-read": cached_read,
    "probe-files-left": probe_files_left,
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
