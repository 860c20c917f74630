"""`array-degraded`: an array runs without one of its drives."""

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
            title=f"{array or 'an array of this target'} runs without one of its drives",
            target=observed.target,
            seen=Seen(True, None, f"degraded state of {array or observed.target}"),
            source=reading.source,
            why=(
                "The next failure may lose data. Until the rebuild is done each read of a missing "
                "piece is computed from all the others, and the rebuild itself takes bandwidth: "
                "a slow target that is degraded is slow for that reason first."
            ),
            fix=Fix(
                "See which drive is missing and whether a rebuild runs; if none does, replace the "
                "drive.",
                ("mdadm", "--detail", f"/dev/{array}") if array else (),
            ),
            confidence=0.95,
        )
