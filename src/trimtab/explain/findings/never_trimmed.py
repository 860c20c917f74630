"""`never-trimmed`: flash that could be trimmed, and nothing that does it."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.findings.no_discard import takes_no_discard
from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.model.trim import TrimPractice

_UNSEEN = "check whether fstrim.timer runs"


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when flash with discard has no trim schedule and shows no trim."""
    trim = observed.trim
    top = observed.path.devices[0] if observed.path.devices else None
    if trim is None or top is None or not observed.is_flash or takes_no_discard(top):
        return
    if observed.read_only:
        return
    if trim.has_mechanism or _was_trimmed(trim):
        return
    schedule_known = trim.timer_active is not None
    seen, *further = _signs(trim, top.name)
    yield Finding(
        id="never-trimmed",
        severity=Severity.WARNING if schedule_known else Severity.INFO,
        title=(
            "no trim schedule for this file system, and no trim on record"
            if schedule_known
            else "no trim of this file system on record, and no schedule visible from here"
        ),
        target=observed.target,
        seen=seen,
        source=seen.source,
        why=(
            "A drive learns of deleted files only from a trim. ETH Zurich found its drives "
            "writing at a quarter of their speed without a first trim (S4); "
            "NERSC went from monthly to nightly trims, at minimal cost to jobs "
            "(S1, S3)."
        ),
        fix=Fix(
            "Trim once now, in a quiet hour, then every night. For a local file system the "
            "distribution's timer trims weekly: systemctl enable --now fstrim.timer."
            + ("" if schedule_known else f" First: {trim.reasons.get('timer_active', _UNSEEN)}."),
            ("fstrim", "-v", observed.path.mount_point),
        ),
        confidence=_confidence(trim),
        evidence=tuple(further),
    )


def _confidence(trim: TrimPractice) -> float:
    if trim.timer_active is None:
        # From inside a container or chroot the host's timer cannot be seen: it may well trim.
        return 0.3
    # What the kernel shows ends at the mount or at boot: an earlier trim by hand leaves no sign.
    return 0.5 if trim.trimmed_since_mount is None or trim.discarded_bytes else 0.8


def _signs(trim: TrimPractice, device: str) -> list[Seen]:
    """Return what speaks for it, the strongest sign first, without what cannot be seen."""
    signs = (
        ("trimmed_since_mount", trim.trimmed_since_mount, None, "trimmed since it was mounted"),
        ("discarded_bytes", trim.discarded_bytes, "B", f"discarded on {device} since attached"),
        ("timer_active", trim.timer_active, None, "fstrim.timer active"),
    )
    return [
        Seen(value, unit, subject, trim.sources.get(part))
        for part, value, unit, subject in signs
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
