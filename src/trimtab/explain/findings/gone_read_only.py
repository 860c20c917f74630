"""`gone-read-only`: the file system stopped taking writes by itself."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.model.mounts import GAVE_UP


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when an error, not a person, has made the file system read-only."""
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
            "After an error in its structures or its journal a file system stops writing to "
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
    # A person who mounts read-only makes the mount so. An error makes the superblock so, and the
    # mount's own option, the first of them, stays.
    by_itself = options[:1] != ("ro",)
    return (
        Seen(errors, "errors", f"read-only, with {errors:.0f} errors on record", source),
        0.9 if by_itself else 0.5,
    )
