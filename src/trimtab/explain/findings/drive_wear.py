"""`drive-wear`: a drive has used up most of the endurance it was sold with."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_percent

WARN_FRACTION = 0.8
"""From here there is time to order drives: the rated life is not used up yet."""


def find(observed: Observed) -> Iterator[Finding]:
    """Yield one finding for each drive that has used 80 % or more of its rated endurance."""
    for drive, used, source in observed.of_each_drive("drive_percentage_used"):
        if used < WARN_FRACTION:
            continue
        yield Finding(
            id="drive-wear",
            severity=Severity.CRITICAL if used >= 1.0 else Severity.WARNING,
            title=f"{drive} has used {format_percent(used, 0)} of its rated endurance",
            target=observed.target,
            seen=Seen(used, "1", f"percentage used of {drive}"),
            source=source,
            why=(
                "Percentage used is the vendor's own estimate of life consumed (NVMe base "
                "specification, SMART log); past 100 % the drive is outside its "
                "qualification. Drives of one group wear at the same rate, so others follow soon. "
                "For scale: a busy scratch system had used 1 % after six months (source S4)."
            ),
            fix=Fix(
                f"Plan the replacement of {drive} and of its group. Check its write "
                "amplification and what writes so much.",
                ("nvme", "smart-log", f"/dev/{drive}"),
            ),
            confidence=0.95,
        )
