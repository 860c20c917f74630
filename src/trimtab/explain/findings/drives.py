"""What single drives report about themselves."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.filesystem import BlockDevice
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_bytes_per_s, format_percent

WARN_FRACTION = 0.8
"""Early enough to order drives: the rated life is not used up yet."""


def drive_wear(observed: Observed) -> Iterator[Finding]:
    """Yield one finding per drive that has used 80 % or more of its rated endurance."""
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
                "amplification and the source of the writes.",
                ("nvme", "smart-log", f"/dev/{drive}"),
            ),
            confidence=0.95,
        )


def drive_media_errors(observed: Observed) -> Iterator[Finding]:
    """Yield one finding per drive with media errors."""
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


def drive_link_slow(observed: Observed) -> Iterator[Finding]:
    """Yield one finding per drive whose link is slower or narrower than it could be."""
    by_name = {device.name: device for device in observed.path.own_devices}
    for drive in observed.path.own_drives:
        paths = [by_name[name] for name in drive.beneath if name in by_name] or [drive]
        rates = [path.link_bytes_per_s for path in paths if path.link_bytes_per_s is not None]
        best = max((path.link_max_bytes_per_s or 0.0 for path in paths), default=0.0)
        # A dual-port drive has half of its lanes on each port: the sum is what it has.
        now = sum(rates)
        if len(rates) < len(paths) or now >= best:
            continue
        yield _finding(observed, drive, paths, now=now, best=best)


def _finding(
    observed: Observed, drive: BlockDevice, paths: list[BlockDevice], *, now: float, best: float
) -> Finding:
    first = paths[0].name
    return Finding(
        id="drive-link-slow",
        severity=Severity.WARNING,
        title=(
            f"the PCIe link of {drive.name} carries {format_bytes_per_s(now)} of "
            f"{format_bytes_per_s(best)}"
        ),
        target=observed.target,
        seen=Seen(now, "B/s", f"PCIe link of {drive.name}, speed x width"),
        source=f"/sys/class/block/{first}/device: current_link_speed and current_link_width",
        why=(
            "Drive and port negotiated fewer lanes or a lower speed than both support: a bad "
            "contact, cable or riser, or a firmware setting. In an array the slowest link limits "
            "every full stripe. A drive that saves power may lower its speed while idle."
        ),
        fix=Fix(
            "Check again under load. If it remains, reseat the drive or its cable in a maintenance "
            "window and check the firmware settings of the slot. lspci shows both ends (LnkCap "
            "and LnkSta).",
            ("lspci", "-vv"),
        ),
        confidence=0.7,
        evidence=(Seen(best, "B/s", "what drive and port both support"),),
    )


AMPLIFICATION_LIMIT = 2.5
"""From a simulation of one drive, not yet confirmed on a real one.

[S10], file churn at a spare factor of 0.12: 1.9 untrimmed at 75 % full, 2.6 untrimmed at 85 %,
2.07 at 85 % with nightly trims.
"""


def drive_write_amplification(observed: Observed) -> Iterator[Finding]:
    """Yield one finding per drive that wrote `AMPLIFICATION_LIMIT` times its host bytes or more."""
    for drive, amplification, source in observed.of_each_drive("drive_write_amplification"):
        if amplification <= AMPLIFICATION_LIMIT:
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
