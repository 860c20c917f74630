"""`writeback-throttling-on`: the kernel holds back writes to keep reads quick."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.explain.observed import Observed
from trimtab.model.filesystem import BlockDevice
from trimtab.model.finding import Finding, Fix, Seen, Severity
from trimtab.units import format_duration

_SCRIPT = 'for setting; do echo 0 > "$setting" || exit 1; done'


def find(observed: Observed) -> Iterator[Finding]:
    """Yield one finding with every flash device of the target whose throttling is on."""
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
    """Return how many drives are throttled; one that is reached over two paths counts once."""
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
