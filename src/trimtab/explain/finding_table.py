"""What can be wrong now: the table of all findings, and those about the probe itself.

Each finding is a pure function that yields `Finding` rows of observations. To add one, copy
`file_system_finding.file_system_errors` (one value) or `drive_finding.drive_media_errors` (one row
per drive), and add a line to `TABLE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trimtab.base.finding import Finding, Fix, Seen, Severity
from trimtab.explain.drive_finding import (
    drive_link_slow,
    drive_media_errors,
    drive_wear,
    drive_write_amplification,
    never_trimmed,
    no_discard,
    writeback_throttling_on,
)
from trimtab.explain.file_system_finding import (
    allocator_useless_loops,
    array_degraded,
    file_system_errors,
    free_space_fragmented,
    fullness_over_limit,
    gone_read_only,
    inodes_nearly_used,
)
from trimtab.explain.observed_target import ObservedTarget
from trimtab.judge.credibility import is_from_memory


def cached_read(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding if read repetitions were served from a cache and direct I/O would help.

    A loop device that reads its backing file through the page cache is left out: no probe setting
    gets past it, and the verdict says so already.
    """
    if any(device.direct_to_backing is False for device in observed.path.devices):
        return
    cached = [
        sample
        for sample in observed.samples
        if sample.metric == "read_bandwidth"
        and sample.statistic == "total"
        and is_from_memory(sample.reason)
    ]
    if not cached:
        return
    fastest = max((sample.value or 0.0 for sample in cached), default=0.0)
    yield Finding(
        id="cached-read",
        severity=Severity.INFO,
        title=f"{len(cached)} read repetitions were served from a cache and are not credible",
        target=observed.target,
        seen=Seen(fastest, "B/s", "fastest of these reads"),
        source="the probe's own output and the device's counters",
        why=cached[0].reason or "",
        fix=_fix(observed),
        confidence=0.9,
    )


def _fix(observed: ObservedTarget) -> Fix:
    further = (
        "Measure more data than all memory on the path holds (--space, --block-size), or read on "
        "another node than the one that wrote."
    )
    if observed.direct:
        return Fix(f"The probe used direct I/O: the cache is below this node. {further}")
    return Fix(
        f"Measure with direct I/O (the default). {further}",
        ("trimtab", "check", observed.path.path, "--direct"),
    )


def probe_files_left(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding that names the directories left by killed probes."""
    left = observed.left_behind
    if not left:
        return
    yield Finding(
        id="probe-files-left",
        severity=Severity.INFO,
        title=f"{len(left)} director{'y' if len(left) == 1 else 'ies'} of a killed probe remain",
        target=observed.target,
        seen=Seen(len(left), "directories", "left by probes that no longer run"),
        source=left[0],
        why=(
            "A probe that is killed outright (SIGKILL, power loss) cannot remove its files; they "
            "take space until someone removes them."
        ),
        fix=Fix("Remove them; no probe uses them.", ("rm", "-r", "--", *left)),
        confidence=0.9,
    )


TABLE: dict[str, Callable[[ObservedTarget], Iterator[Finding]]] = {
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


def find_all(observed: Iterable[ObservedTarget]) -> tuple[Finding, ...]:
    """Return all findings on all targets, most severe first, then most certain."""
    findings = [
        finding for target in observed for find in TABLE.values() for finding in find(target)
    ]
    return tuple(
        sorted(
            findings, key=lambda finding: (finding.severity.rank, -finding.confidence, finding.id)
        )
    )
