"""`drive-write-amplification`: the drive writes much more than it is given."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.finding import Finding, Fix, Seen, Severity

LIMIT = 2.5
"""From a simulation of one drive, confirmed on none yet.

[S10], file churn at a spare factor of 0.12: 1.9 at 75 % full untrimmed, 2.6 at
85 % full untrimmed, 2.07 at 85 % trimmed nightly.
"""


def find(observed: Observed) -> Iterator[Finding]:
    """Yield one finding for each drive whose lifetime write amplification is over `LIMIT`."""
    for drive, amplification, source in observed.of_each_drive("drive_write_amplification"):
        if amplification <= LIMIT:
            continue
        yield Finding(
            id="drive-write-amplification",
            severity=Severity.INFO,
            title=f"{drive} has written {amplification:.1f} times the bytes it received",
            target=observed.target,
            seen=Seen(amplification, "B/B", f"physical over host bytes written of {drive}"),
            source=source,
            why=(
                "Every byte that the drive moves in garbage collection is write bandwidth lost to "
                "the hosts. The figure covers the drive's whole life. In a simulation of "
                "file churn a drive that was trimmed and kept under 85 % full stayed near 2; no "
                "drive has confirmed that limit yet, and other workloads differ."
            ),
            fix=_fix(observed),
            confidence=0.3,
        )


def _fix(observed: Observed) -> Fix:
    then = (
        "keep the file system under its fullness limit, and check again after a few drive writes: "
        "the lifetime figure falls slowly."
    )
    if not observed.can_be_trimmed:
        return Fix(then[0].upper() + then[1:])
    return Fix(f"Trim, {then}", ("fstrim", "-v", observed.path.mount_point))
