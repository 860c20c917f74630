"""`drive-link-slow`: a drive's PCIe link runs below what both its ends can do."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.filesystem import BlockDevice
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_bytes_per_s


def find(observed: Observed) -> Iterator[Finding]:
    """Yield one finding for each drive whose link is slower or narrower than it could be."""
    by_name = {device.name: device for device in observed.path.own_devices}
    for drive in observed.path.own_drives:
        paths = [by_name[name] for name in drive.beneath if name in by_name] or [drive]
        rates = [path.link_bytes_per_s for path in paths if path.link_bytes_per_s is not None]
        best = max((path.link_max_bytes_per_s or 0.0 for path in paths), default=0.0)
        # A drive of two ports has half of its lanes on each: together they are what it has.
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
