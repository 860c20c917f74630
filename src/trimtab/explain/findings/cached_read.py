"""`cached-read`: what looked like reading the file system was reading memory."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity

MARK = "cache"
"""What every reason for a read that did not reach the device says; ``judge.credibility``."""


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when read repetitions were answered from a cache and direct I/O would help.

    A loop device that reads its backing file through the page cache is left out: no setting of
    the probe reaches past it, and the verdict says so already.
    """
    if any(device.direct_to_backing is False for device in observed.path.devices):
        return
    cached = [
        sample
        for sample in observed.samples
        if sample.metric == "read_bandwidth"
        and sample.statistic == "total"
        and sample.reason is not None
        and MARK in sample.reason
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
