"""`array-degraded`: an array is missing a drive."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity


def find(observed: Observed) -> Iterator[Finding]:
    """Yield one finding for each array that lacks a drive."""
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
                "piece is computed from all the others, and the rebuild takes bandwidth. "
                "Suspect this first when the target is slow."
            ),
            fix=Fix(
                "Find the missing drive and check for a running rebuild. If none runs, replace the "
                "drive.",
                ("mdadm", "--detail", f"/dev/{array}") if array else (),
            ),
            confidence=0.95,
        )
