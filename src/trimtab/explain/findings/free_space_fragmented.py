"""`free-space-fragmented`: free space is there, in pieces too small for one transfer."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_bytes

LIMIT_BYTES = 1024**2
"""One full-stripe write of an 8+2 group with 128 KiB chunks, and Lustre's smallest RPC."""


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when the mean free extent is under 1 MiB."""
    mean = observed.now.number("free_extent_mean_bytes")
    if mean is None or mean >= LIMIT_BYTES:
        return
    reading = observed.now.reading("free_extent_mean_bytes")
    yield Finding(
        id="free-space-fragmented",
        severity=Severity.WARNING if mean < LIMIT_BYTES / 4 else Severity.INFO,
        title=f"free space lies in pieces of {format_bytes(mean)} on average",
        target=observed.target,
        seen=Seen(mean, "B", "mean free extent"),
        source=None if reading is None else reading.source,
        why=(
            "A 1 MiB write that does not find 1 MiB of contiguous space is split: more requests, "
            "read-modify-write in a parity group, and longer searches in the allocator."
        ),
        fix=Fix(
            "Free space in large pieces: purge old files rather than small ones, and keep the "
            "file system under its fullness limit. e2freefrag DEVICE shows the distribution; it "
            "reads the whole allocation bitmap, so give it a quiet hour on a large target."
        ),
        confidence=0.6,
    )
