"""`no-discard`: the flash never learns which blocks are free."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.filesystem import BlockDevice
from trimtab.model.finding import Finding, Fix, Seen, Severity


def find(observed: Observed) -> Iterator[Finding]:
    """Yield a finding when the device of the file system is flash without discard."""
    top = observed.path.devices[0] if observed.path.devices else None
    if top is None or not observed.is_flash or not takes_no_discard(top) or observed.read_only:
        return
    blocking = [device for device in observed.path.devices if takes_no_discard(device)]
    lowest = blocking[-1]
    yield Finding(
        id="no-discard",
        severity=Severity.WARNING,
        title=f"{top.name} does not support discard: deleted data stays live inside the flash",
        target=observed.target,
        seen=Seen(top.discard_max_bytes, "B", f"largest discard that {top.name} takes"),
        source=f"/sys/class/block/{top.name}/queue/discard_max_bytes",
        why=(
            "Without discard a drive must keep copying data that was deleted long ago. ETH Zurich "
            "saw writes fall from 36 to 9.5 GB/s and come back with the first trim (S4), "
            "NERSC 10 % lost after about five full writes and restored by fstrim (S3)."
        ),
        fix=Fix(_advice(lowest)),
        confidence=0.8,
        evidence=tuple(
            Seen(device.discard_max_bytes, "B", f"largest discard that {device.name} takes")
            for device in blocking[1:]
        ),
    )


def takes_no_discard(device: BlockDevice) -> bool:
    """Return whether the device says that it takes no discard; unknown is not a no."""
    return device.discard_max_bytes == 0 or device.discard_granularity_bytes == 0


def _advice(device: BlockDevice) -> str:
    match device.kind:
        case "device-mapper":
            return (
                f"{device.name} is a device-mapper layer that does not pass discards down "
                f"(dmsetup table /dev/{device.name} names it). dm-crypt holds them back on "
                "purpose: which blocks are free would be visible on the drive. That is the "
                "site's own trade-off; it costs flash that never learns which blocks are free. "
                "More free space and more spare area in the drives compensate in part."
            )
        case "md":
            return (
                f"{device.name} is an md array that passes no discards. RAID 4, 5 and 6 hold "
                "them back on purpose: a drive that does not return zeroes after a discard would "
                "break the parity. That trade-off is for safety; it costs flash that "
                "never learns which blocks are free. More free space and more spare area in the "
                "drives compensate in part."
            )
        case "loop":
            return (
                f"{device.name} is a loop device: keep its backing file on a file system that can "
                "punch holes."
            )
        case _:
            return (
                f"Check whether {device.name} supports discard (queue/discard_max_hw_bytes); "
                "a value set to 0 is restored only when the device is probed again. "
                "Without discard, keep more space free."
            )
