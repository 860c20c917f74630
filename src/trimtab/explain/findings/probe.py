"""Findings about the probe itself."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.judge.credibility import is_from_memory
from trimtab.model.finding import Finding, Fix, Seen, Severity


def cached_read(observed: Observed) -> Iterator[Finding]:
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


def _fix(observed: Observed) -> Fix:
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


def probe_files_left(observed: Observed) -> Iterator[Finding]:
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
