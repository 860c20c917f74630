"""Flash that never learns which blocks are free, or that is throttled."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.filesystem import BlockDevice
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.model.trim import TrimPractice
from trimtab.units import format_duration


def no_discard(observed: Observed) -> Iterator[Finding]:
    """Yield a finding if the file system is on flash without discard."""
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
        seen=Seen(top.discard_max_bytes, "B", f"largest discard supported by {top.name}"),
        source=f"/sys/class/block/{top.name}/queue/discard_max_bytes",
        why=(
            "Without discard a drive must keep copying data that was deleted long ago. ETH Zurich "
            "saw writes fall from 36 to 9.5 GB/s and recover with the first trim (S4); "
            "NERSC lost 10 % after about five full writes, and fstrim restored it (S3)."
        ),
        fix=Fix(_advice(lowest)),
        confidence=0.8,
        evidence=tuple(
            Seen(device.discard_max_bytes, "B", f"largest discard supported by {device.name}")
            for device in blocking[1:]
        ),
    )


def takes_no_discard(device: BlockDevice) -> bool:
    """Return whether the device reports no discard support; unknown is not a no."""
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


_UNSEEN = "check whether fstrim.timer runs"


def never_trimmed(observed: Observed) -> Iterator[Finding]:
    """Yield a finding if flash with discard has no trim schedule and no trim on record."""
    trim = observed.trim
    top = observed.path.devices[0] if observed.path.devices else None
    if trim is None or top is None or not observed.is_flash or takes_no_discard(top):
        return
    if observed.read_only:
        return
    if trim.has_mechanism or _was_trimmed(trim):
        return
    schedule_known = trim.timer_active is not None
    seen, *further = _signs(trim, top.name)
    yield Finding(
        id="never-trimmed",
        severity=Severity.WARNING if schedule_known else Severity.INFO,
        title=(
            "no trim schedule for this file system, and no trim on record"
            if schedule_known
            else "no trim of this file system on record, and no schedule visible from here"
        ),
        target=observed.target,
        seen=seen,
        source=seen.source,
        why=(
            "A drive learns of deleted files only from a trim. ETH Zurich found its drives "
            "writing at a quarter of their speed without a first trim (S4); "
            "NERSC went from monthly to nightly trims, at minimal cost to jobs "
            "(S1, S3)."
        ),
        fix=Fix(
            "Trim once now, in a quiet hour, then every night. For a local file system the "
            "distribution's timer trims weekly: systemctl enable --now fstrim.timer."
            + ("" if schedule_known else f" First: {trim.reasons.get('timer_active', _UNSEEN)}."),
            ("fstrim", "-v", observed.path.mount_point),
        ),
        confidence=_confidence(trim),
        evidence=tuple(further),
    )


def _confidence(trim: TrimPractice) -> float:
    if trim.timer_active is None:
        # Inside a container or chroot the host's timer is invisible: it may well trim.
        return 0.3
    # The kernel's record starts at mount or boot: an earlier manual trim leaves no trace.
    return 0.5 if trim.trimmed_since_mount is None or trim.discarded_bytes else 0.8


def _signs(trim: TrimPractice, device: str) -> list[Seen]:
    """Return the signs of a missing trim, strongest first, without what cannot be seen."""
    signs = (
        ("trimmed_since_mount", trim.trimmed_since_mount, None, "trimmed since it was mounted"),
        ("discarded_bytes", trim.discarded_bytes, "B", f"discarded on {device} since attached"),
        ("timer_active", trim.timer_active, None, "fstrim.timer active"),
    )
    return [
        Seen(value, unit, subject, trim.sources.get(part))
        for part, value, unit, subject in signs
        if value is not None
    ]


def _was_trimmed(trim: TrimPractice) -> bool:
    """Return whether a trim is on record.

    ext4 remembers one since the mount. Elsewhere any discard on the device counts, possibly from
    mkfs: better no finding than a wrong one.
    """
    if trim.trimmed_since_mount is not None:
        return trim.trimmed_since_mount
    return trim.discarded_bytes is None or trim.discarded_bytes > 0


_SCRIPT = 'for setting; do echo 0 > "$setting" || exit 1; done'


def writeback_throttling_on(observed: Observed) -> Iterator[Finding]:
    """Yield one finding listing every flash device of the target with throttling on."""
    throttled = [device for device in observed.flash_devices if device.writeback_throttling_s]
    if not throttled:
        return
    many = _drives_throttled(observed, {device.name for device in throttled}) > 1
    first = throttled[0]
    paths = tuple(_setting(device) for device in throttled)
    yield Finding(
        id="writeback-throttling-on",
        severity=Severity.WARNING if many else Severity.INFO,
        title=_title(throttled),
        target=observed.target,
        seen=Seen(first.writeback_throttling_s, "s", f"wbt_lat_usec of {first.name}"),
        source=_setting(first),
        why=(
            "Throttling cuts the number of writes in flight when the best read of a 100 ms window "
            "takes longer than this (kernel, block/blk-wbt.c). "
            + (
                "This target has several flash devices: each collects garbage at its "
                "own time, and the slowest limits the stripe. NERSC gained 10 % of "
                "write bandwidth by disabling it there (S1)."
                if many
                else "On a single flash device the default costs little; it matters when reads "
                "and buffered writes compete. Direct writes are exempt."
            )
        ),
        fix=Fix(
            "Turn it off now with this command, and keep it off with a udev rule such as "
            'ACTION=="add|change", SUBSYSTEM=="block", ATTR{queue/rotational}=="0", '
            'ATTR{queue/wbt_lat_usec}="0"',
            ("sh", "-c", _SCRIPT, "sh", *paths),
        ),
        confidence=0.8 if many else 0.4,
        evidence=tuple(
            Seen(device.writeback_throttling_s, "s", f"wbt_lat_usec of {device.name}")
            for device in throttled[1:]
        ),
    )


def _drives_throttled(observed: Observed, throttled: set[str]) -> int:
    """Return the number of throttled drives; a drive with two paths counts once."""
    return sum(
        drive.name in throttled
        or (drive.kind != "loop" and not throttled.isdisjoint(drive.beneath))
        for drive in observed.path.own_drives
    )


def _setting(device: BlockDevice) -> str:
    return f"/sys/class/block/{device.name}/queue/wbt_lat_usec"


def _title(throttled: list[BlockDevice]) -> str:
    latency = format_duration(throttled[0].writeback_throttling_s or 0.0)
    if len(throttled) == 1:
        return f"writeback throttling is on for {throttled[0].name} ({latency})"
    return f"writeback throttling is on for {len(throttled)} flash devices ({latency})"
