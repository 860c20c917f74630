"""`never-trimmed`: flash that could be trimmed, and nothing that does it."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.findings.no_discard import takes_no_discard
from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.model.trim import TrimPractice


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when flash with discard has no trim schedule and shows no trim."""
    trim = observed.trim
    top = observed.path.devices[0] if observed.path.devices else None
    if trim is None or top is None or not observed.is_flash or takes_no_discard(top):
        return
    if trim.has_mechanism or _was_trimmed(trim):
        return
    # What the kernel shows ends at the mount or at boot: an earlier trim by hand leaves no sign.
    confidence = 0.5 if trim.trimmed_since_mount is None or trim.discarded_bytes else 0.8
    seen, *further = _signs(trim, top.name)
    yield Finding(
        id="never-trimmed",
        severity=Severity.WARNING,
        title="nothing trims this file system, and no trim is on record",
        target=observed.target,
        seen=seen,
        source=seen.source,
        why=(
            "The drive cannot know that a file was deleted until it is told. One seed found its "
            "drives writing at a quarter of their speed for want of a first trim (003); the "
            "first seed raised its trims from monthly to nightly, at minimal cost to jobs "
            "(000, 002)."
        ),
        fix=Fix(
            "Trim once now, in a quiet hour, then every night; for a local file system the "
            "distribution's timer does it weekly: systemctl enable --now fstrim.timer.",
            ("fstrim", "-v", observed.path.mount_point),
        ),
        confidence=confidence,
        evidence=tuple(further),
    )


def _signs(trim: TrimPractice, device: str) -> list[Seen]:
    """Return what speaks for it, the strongest sign first, without what cannot be seen."""
    signs = (
        ("trimmed_since_mount", trim.trimmed_since_mount, None, "trimmed since it was mounted"),
        ("discarded_bytes", trim.discarded_bytes, "B", f"discarded on {device} since attached"),
        ("timer_active", trim.timer_active, None, "fstrim.timer active"),
    )
    return [
        Seen(value, unit, what, trim.sources.get(part))
        for part, value, unit, what in signs
        if value is not None
    ]


def _was_trimmed(trim: TrimPractice) -> bool:
    """Return whether a trim is on record.

    ext4 remembers one since the mount. Elsewhere any discard on the device counts, which may
    have been mkfs: better silent than wrong.
    """
    if trim.trimmed_since_mount is not None:
        return trim.trimmed_since_mount
    return trim.discarded_bytes is None or trim.discarded_bytes > 0
