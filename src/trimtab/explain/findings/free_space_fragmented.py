"""`free-space-fragmented`: free space is there, in pieces too small for one transfer."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_percent

NOTE_FRACTION = 0.25
WARN_FRACTION = 0.5
"""Trimtab's own steps, not measured limits: a quarter is worth knowing, half is worth acting."""


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when a quarter or more of the free space is certain to be in small pieces."""
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


def _mean(observed: Observed) -> tuple[Seen, ...]:
    mean = observed.now.reading("free_extent_mean_bytes")
    if mean is None or mean.value is None:
        return ()
    return (Seen(mean.value, "B", "mean free extent, within a factor of 2", mean.source),)
