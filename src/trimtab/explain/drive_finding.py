"""The input of all findings, one target at one time, and the findings about drives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trimtab.base.filesystem import BlockDevice, PathDescription
from trimtab.base.finding import Finding, Fix, Seen, Severity
from trimtab.base.run import Sample
from trimtab.base.site import LIMITS, SiteLimits
from trimtab.base.snapshot import NotAvailable, Setting, TargetSnapshot, TrimPractice
from trimtab.base.units import format_bytes_per_s, format_duration, format_percent


@dataclass(frozen=True, slots=True)
class ObservedTarget:
    """One target at one time, with the results of a probe if one ran.

    Attributes
    ----------
    before
        The target before the probe; ``None`` without one. The baseline for counters.
    now
        The target now.
    trim
        How it is trimmed; ``None`` if that cannot be seen.
    samples
        Samples of the probe, with the reasons why some are not credible.
    left_behind
        Directories of earlier, killed probes that still exist under the path.
    direct
        Whether the probe used direct I/O.
    """

    path: PathDescription
    now: TargetSnapshot
    before: TargetSnapshot | None = None
    settings: Mapping[str, Setting | NotAvailable] = field(default_factory=dict)
    trim: TrimPractice | None = None
    samples: tuple[Sample, ...] = ()
    limits: SiteLimits = LIMITS
    left_behind: tuple[str, ...] = ()
    direct: bool = True

    @property
    def target(self) -> str:
        """The target's name."""
        return self.now.target.name

    @property
    def is_flash(self) -> bool:
        """Whether the target is known to be flash; unknown counts as not."""
        return self.path.is_flash is True

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written: an image, or a read-only mount or file system."""
        return self.path.read_only or self.now.value("read_only") is True

    @property
    def can_be_trimmed(self) -> bool:
        """Whether fstrim would work: the device reports discard support."""
        top = self.path.devices[0] if self.path.devices else None
        if top is None or self.read_only:
            return False
        return bool(top.discard_max_bytes) and top.discard_granularity_bytes != 0

    @property
    def flash_devices(self) -> tuple[BlockDevice, ...]:
        """The underlying flash devices that have a queue of their own."""
        return tuple(
            device
            for device in self.path.own_devices
            if device.is_flash and device.kind != "partition"
        )

    def of_each_drive(self, name: str) -> Iterator[tuple[str, float, str | None]]:
        """Yield drive, value and source of every reading of that name that has a value."""
        for drive, value in self.now.labelled(name).items():
            yield drive, value, self.now.source(name, drive)

    def growth(self, name: str, label: str | None = None) -> float | None:
        """Return the growth of a counter during the probe, ``None`` if unknown.

        A counter that went down was reset in between; its growth is unknown.
        """
        if self.before is None:
            return None
        start, end = self.before.number(name, label), self.now.number(name, label)
        if start is None or end is None or end < start:
            return None
        return end - start


WARN_FRACTION = 0.8
"""Early enough to order drives: the rated life is not used up yet."""


def drive_wear(observed: ObservedTarget) -> Iterator[Finding]:
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


def drive_media_errors(observed: ObservedTarget) -> Iterator[Finding]:
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


def drive_link_slow(observed: ObservedTarget) -> Iterator[Finding]:
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
    observed: ObservedTarget,
    drive: BlockDevice,
    paths: list[BlockDevice],
    *,
    now: float,
    best: float,
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


def drive_write_amplification(observed: ObservedTarget) -> Iterator[Finding]:
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


def _fix(observed: ObservedTarget) -> Fix:
    then = (
        "keep the file system under its fullness limit, and check again after a few drive writes: "
        "the lifetime figure falls slowly."
    )
    if not observed.can_be_trimmed:
        return Fix(then[0].upper() + then[1:])
    return Fix(f"Trim, {then}", ("fstrim", "-v", observed.path.mount_point))


def no_discard(observed: ObservedTarget) -> Iterator[Finding]:
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


def never_trimmed(observed: ObservedTarget) -> Iterator[Finding]:
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


def writeback_throttling_on(observed: ObservedTarget) -> Iterator[Finding]:
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


def _drives_throttled(observed: ObservedTarget, throttled: set[str]) -> int:
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
