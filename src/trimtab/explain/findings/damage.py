"""Damage: to the file system, or to an array beneath it."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.model.mounts import GAVE_UP


def gone_read_only(observed: Observed) -> Iterator[Finding]:
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


def _sign(observed: Observed) -> tuple[Seen | None, float]:
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


def array_degraded(observed: Observed) -> Iterator[Finding]:
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


def file_system_errors(observed: Observed) -> Iterator[Finding]:
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
