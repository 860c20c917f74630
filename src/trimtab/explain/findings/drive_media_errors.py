"""`drive-media-errors`: a drive could not give back what was written to it."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity


def find(observed: Observed) -> Iterator[Finding]:
    """Yield one finding for each drive whose media error count is not 0."""
    for drive, errors, source in observed.of_each_drive("drive_media_errors_total"):
        if errors <= 0:
            continue
        yield Finding(
            id="drive-media-errors",
            severity=Severity.WARNING,
            title=f"{drive} reports {errors:.0f} unrecovered media errors",
            target=observed.target,
            seen=Seen(errors, "errors", f"media errors of {drive}"),
            source=source,
            why=(
                "The drive counts a media error when data could not be recovered by its own "
                "error correction (NVMe base specification, SMART log, media and data integrity "
                "errors). A RAID layer repairs it, and each repair delays the stripes it touches."
            ),
            fix=Fix(
                f"Compare with the other drives of the group and watch the count; if it grows, "
                f"replace {drive} in a maintenance window.",
                ("nvme", "smart-log", f"/dev/{drive}"),
            ),
            confidence=0.9,
        )
