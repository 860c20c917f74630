"""What can be wrong now: the table of all findings, and those of file systems, arrays and probes.

Each finding is a pure function that yields `Finding` rows of observations. To add one, copy
`file_system_errors` (one value) or `drive_finding.drive_media_errors` (one row per drive), and add
a line to `TABLE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from trimtab.base.filesystem import GAVE_UP
from trimtab.base.finding import Finding, Fix, Seen, Severity
from trimtab.base.units import format_bytes, format_percent
from trimtab.explain.drive_finding import (
    ObservedTarget,
    drive_link_slow,
    drive_media_errors,
    drive_wear,
    drive_write_amplification,
    never_trimmed,
    no_discard,
    writeback_throttling_on,
)
from trimtab.explain.space_forecast import INODE_LIMIT
from trimtab.judge.credibility import is_from_memory


def gone_read_only(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding if an error, not an administrator, made the file system read-only."""
    seen, confidence = _sign(observed)
    if seen is None:
        return
    yield Finding(
        id="gone-read-only",
        severity=Severity.CRITICAL,
        title=f"the file system no longer accepts writes ({seen.what})",
        target=observed.target,
        seen=seen,
        source=seen.source,
        why=(
            "After an error in its structures or its journal, a file system stops writing to "
            "contain the damage; every write fails from then on. The mount may still show rw, "
            "and df looks normal."
        ),
        fix=Fix(
            "Find the first error in the kernel log and repair the underlying device. Then "
            "unmount, run a full check, and mount again. Unflushed data is lost.",
            ("dmesg", "--level=err,crit,alert,emerg"),
        ),
        confidence=confidence,
    )


def _sign(observed: ObservedTarget) -> tuple[Seen | None, float]:
    options = observed.path.options
    if gave_up := sorted(GAVE_UP.intersection(options)):
        return Seen(gave_up[0], None, f"mount option {gave_up[0]}", "/proc/self/mountinfo"), 0.95
    errors = observed.now.number("errors_total")
    if not observed.read_only or not errors:
        return None, 0.0
    source = observed.now.source("errors_total")
    # An administrator who mounts read-only makes the mount ro. An error makes the superblock ro and
    # leaves the mount's own option, the first of them, unchanged.
    by_itself = options[:1] != ("ro",)
    return (
        Seen(errors, "errors", f"read-only, with {errors:.0f} errors on record", source),
        0.9 if by_itself else 0.5,
    )


def array_degraded(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield one finding per array that lacks a drive."""
    for reading in observed.now.readings:
        if reading.name != "degraded" or reading.value is not True:
            continue
        array = reading.label
        yield Finding(
            id="array-degraded",
            severity=Severity.CRITICAL,
            title=f"{array or 'an array of this target'} is missing a drive",
            target=observed.target,
            seen=Seen(True, None, f"degraded state of {array or observed.target}"),
            source=reading.source,
            why=(
                "The next failure may lose data. Until the rebuild ends, each read of a missing "
                "block is computed from all the others, and the rebuild takes bandwidth. "
                "Suspect this first when the target is slow."
            ),
            fix=Fix(
                "Find the missing drive and check for a running rebuild. If none runs, replace the "
                "drive.",
                ("mdadm", "--detail", f"/dev/{array}") if array else (),
            ),
            confidence=0.95,
        )


def file_system_errors(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding if the superblock's error count is not 0."""
    errors = observed.now.number("errors_total")
    if not errors:
        return
    yield Finding(
        id="file-system-errors",
        severity=Severity.CRITICAL,
        title=f"the kernel has recorded {errors:.0f} errors in this file system",
        target=observed.target,
        seen=Seen(errors, "errors", "errors recorded in the superblock"),
        source=observed.now.source("errors_total"),
        why=(
            "ext4 and ldiskfs count every inconsistency they meet, and the count survives "
            "reboots. A target that an error made read-only looks healthy by every other sign, "
            "mount options included (seen on a running Lustre 2.17)."
        ),
        fix=Fix(
            "Read the kernel log for the first error, stop writing, and run a full check of the "
            "unmounted file system.",
            ("dmesg", "--level=err,crit,alert,emerg"),
        ),
        confidence=0.95,
    )


CRITICAL_FULLNESS = 0.95
"""From here jobs fail with ENOSPC within hours on a busy system, on any medium."""

_WHY_FLASH = (
    "From about 75 % on, garbage collection inside the drives takes a growing share of write "
    "bandwidth (source S2), and the block allocator searches many groups before it finds room "
    "(sources S1, S2: useless loops from about 75 %). NERSC keeps its file system there."
)
_WHY_ALLOCATOR = (
    "The block allocator finds less and less contiguous space as a file system fills up; the "
    "sources saw its useless loops grow from about 75 % on (S1, S2)."
)


def fullness_over_limit(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding if used / (used + available) exceeds the limit."""
    fullness = observed.now.fullness()
    # An image is always full: nothing will be written to it.
    if fullness is None or fullness <= observed.limits.fullness or observed.read_only:
        return
    trims = observed.is_flash and observed.can_be_trimmed
    used = observed.now.number("used_bytes") or 0.0
    available = observed.now.number("available_bytes") or 0.0
    to_free = used - observed.limits.fullness * (used + available)
    yield Finding(
        id="fullness-over-limit",
        severity=_severity(observed, fullness),
        title=(
            f"{format_percent(fullness)} full, over the limit of "
            f"{format_percent(observed.limits.fullness, 0)}"
        ),
        target=observed.target,
        seen=Seen(fullness, "1", "used / (used + available)"),
        source=observed.now.source("used_bytes"),
        why=_WHY_FLASH if observed.is_flash else _WHY_ALLOCATOR,
        fix=Fix(
            f"Free {format_bytes(to_free)} to reach the limit: purge or move data."
            + (" Then trim, so that the drives know." if trims else ""),
            ("fstrim", "-v", observed.path.mount_point) if trims else (),
        ),
        confidence=0.9 if observed.is_flash else 0.6,
    )


def _severity(observed: ObservedTarget, fullness: float) -> Severity:
    if fullness >= CRITICAL_FULLNESS:
        return Severity.CRITICAL
    return Severity.WARNING if observed.is_flash else Severity.INFO


def inodes_nearly_used(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding if 95 % or more of the inodes are used."""
    if observed.read_only:
        return
    total, free = observed.now.number("inodes_total"), observed.now.number("inodes_free")
    if not total or free is None or (total - free) / total < INODE_LIMIT:
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


RATE_LIMIT = 0.01
"""Useless loops per request, from a simulation, not yet confirmed on a real target.

A model of the kernel's loops shows none up to 75 % full, 0.024 at 80 % and 0.077 at 85 % with the
default thresholds of older kernels [S10].
"""
LOOPS_MINIMUM = 5
"""A few after mount are the allocator learning its groups."""


@dataclass(frozen=True, slots=True)
class _LoopCounts:
    requests: float
    loops: dict[str, float]
    while_measured: bool

    @property
    def total(self) -> float:
        return sum(self.loops.values())


def allocator_useless_loops(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding that names the criteria with useless loops.

    Counted over the probe if one ran, else since the counters started, with less confidence.
    """
    counts = _counted_by_probe(observed) or _counted_so_far(observed)
    if counts is None or counts.requests <= 0 or counts.total < LOOPS_MINIMUM:
        return
    rate = counts.total / counts.requests
    if rate < RATE_LIMIT:
        return
    worst = sorted(counts.loops.items(), key=lambda item: -item[1])
    named = ", ".join(f"{criterion} {loops:,.0f}" for criterion, loops in worst if loops)
    when = "during the probe" if counts.while_measured else "since the counters started"
    yield Finding(
        id="allocator-useless-loops",
        severity=Severity.WARNING,
        title=(
            f"the block allocator made {counts.total:,.0f} full scans without a result in "
            f"{counts.requests:,.0f} requests {when} ({named})"
        ),
        target=observed.target,
        seen=Seen(rate, "1", "useless loops per allocation request"),
        source=observed.now.source("allocator_useless_loops_total", worst[0][0]),
        why=(
            "Each useless loop scans every block group without a result, on the CPU that "
            "the write waits for; its cost grows with the size of the target. NERSC "
            "found these loops on its slow OSTs and not on the fast ones, and they began at "
            "about 75 % full (S1, S2); one more site came to a halt over them (S4). The "
            "harmful rate has not been measured: in a simulation there were none up to 75 % "
            "full and 2 to 8 in 100 requests at 80 to 85 %; the limit here is 1 in 100."
        ),
        fix=Fix(_advice(observed)),
        confidence=0.6 if counts.while_measured else 0.4,
        evidence=tuple(Seen(loops, "loops", f"criterion {name}") for name, loops in worst),
    )


def _counted_by_probe(observed: ObservedTarget) -> _LoopCounts | None:
    requests = observed.growth("allocator_requests_total")
    if not requests:
        return None
    criteria = observed.now.labelled("allocator_useless_loops_total")
    growth = {
        criterion: observed.growth("allocator_useless_loops_total", criterion)
        for criterion in criteria
    }
    loops = {criterion: loops for criterion, loops in growth.items() if loops is not None}
    return _LoopCounts(requests, loops, while_measured=True) if loops else None


def _counted_so_far(observed: ObservedTarget) -> _LoopCounts | None:
    requests = observed.now.number("allocator_requests_total")
    loops = observed.now.labelled("allocator_useless_loops_total")
    if not requests or not loops:
        return None
    return _LoopCounts(requests, loops, while_measured=False)


def _advice(observed: ObservedTarget) -> str:
    fullness = observed.now.fullness()
    full = "" if fullness is None else f" (now {format_percent(fullness, 0)} full)"
    lustre = observed.path.fs_type in {"lustre", "ldiskfs"}
    return (
        f"Free space first{full}, and in large pieces: remove or rewrite the files that fragment "
        "it (e4defrag -c PATH shows how badly; e2freefrag DEVICE shows the free extents)."
        + (
            " On RHEL 8-era ldiskfs the thresholds mb_c1..c3_threshold can skip the loops that "
            "fail; el9 and later kernels do not have them."
            if lustre
            else ""
        )
    )


NOTE_FRACTION = 0.25
WARN_FRACTION = 0.5
"""Trimtab's own steps, not measured limits: a quarter is notable, half calls for action."""


def free_space_fragmented(observed: ObservedTarget) -> Iterator[Finding]:
    """Yield a finding if at least a quarter of the free space must be in small pieces."""
    fraction = observed.now.number("free_space_fragmented_fraction")
    if fraction is None or fraction < NOTE_FRACTION:
        return
    yield Finding(
        id="free-space-fragmented",
        severity=Severity.WARNING if fraction >= WARN_FRACTION else Severity.INFO,
        title=(f"{format_percent(fraction, 0)} of the free space or more has no contiguous 1 MiB"),
        target=observed.target,
        seen=Seen(fraction, "1", "free space in block groups without a free extent of 1 MiB"),
        source=observed.now.source("free_space_fragmented_fraction"),
        why=(
            "ext4 lists its block groups by their largest free extent; this share of the free "
            "space fits in none of the groups that have 1 MiB left, so it is a lower bound. A "
            "1 MiB write that lands there is split: more requests, longer searches in the "
            "allocator and, in a parity group, read-modify-write."
        ),
        fix=Fix(
            "Free large extents: purge old files rather than small ones, and keep the "
            "file system under its fullness limit. e2freefrag DEVICE shows the distribution; it "
            "reads the whole allocation bitmap, so run it in a quiet hour on a large target."
        ),
        confidence=0.7,
        evidence=_mean(observed),
    )


def _mean(observed: ObservedTarget) -> tuple[Seen, ...]:
    mean = observed.now.reading("free_extent_mean_bytes")
    if mean is None or mean.value is None:
        return ()
    return (Seen(mean.value, "B", "mean free extent, within a factor of 2", mean.source),)


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
