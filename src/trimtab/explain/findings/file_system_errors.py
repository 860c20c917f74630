"""`file-system-errors`: the kernel found the file system inconsistent."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when the superblock's error count is not 0."""
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
