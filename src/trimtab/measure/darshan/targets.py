"""An application's I/O to each OST, from files on a single OST.

For a file striped over several OSTs Darshan has no time of each: such files are counted and
excluded.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Final

from trimtab.config.targets import ost_name
from trimtab.measure.darshan.groups import Group, Module, slowest_of
from trimtab.measure.measurement import ACCESSES, BANDWIDTH, missing
from trimtab.message import Message
from trimtab.model.finding import Missing
from trimtab.model.run import Access, Sample

BYTES: Final = {"write": "bytes_written", "read": "bytes_read"}
NO_TIME: Final = Message("no-time", "Darshan recorded no time")
DAMAGED: Final = Message("time-damaged", "a time in the log is negative or not a number")
_SHARED_FILE: Final = Message(
    "shared-file-no-time", "a shared file was read and written: Darshan has no separate times"
)
SLOW_RATIO: Final = 3.0
"""An OST is reported if a byte takes at least this much longer than on the median OST: in a healthy
job on 24 OSTs the slowest took 1.6 times as long, a slowly failing OST 49 times."""
_TARGETS_MINIMUM: Final = 4
_SHARE_MINIMUM: Final = 0.1


@dataclass(frozen=True, slots=True)
class ByTarget:
    """Samples of each OST, the outlier, and what is missing."""

    samples: tuple[Sample, ...]
    reported: dict[str, object]
    missing: tuple[Missing, ...]


def by_target(module: Module) -> ByTarget:
    """Return bytes, times and bandwidth of each OST, and the one far slower than the others.

    ``read_time`` and ``write_time`` are summed over all processes; the bandwidth is bytes over the
    time of the slowest process.
    """
    single, gaps = _single(module)
    if not single:
        return ByTarget((), {}, tuple(gaps))
    mount, held = single
    samples = [s for index in sorted(held) for s in _samples(ost_name(index), held[index])]
    reported = {"targets": len(held), "mount": mount, **_slowest(held)}
    return ByTarget(tuple(samples), reported, tuple(gaps))


def rate_of(moved: float, slowest_s: float | None) -> tuple[float | None, str | None]:
    """Return the bandwidth over the time of the slowest process, or why there is none."""
    if slowest_s is None:
        return None, _SHARED_FILE
    if math.isnan(slowest_s):
        return None, DAMAGED
    return (moved / slowest_s, None) if slowest_s > 0 else (None, NO_TIME)


def seconds(value_s: float) -> tuple[float | None, str | None]:
    """Return a time, or why there is none."""
    return (None, DAMAGED) if math.isnan(value_s) else (value_s, None)


def _single(
    module: Module,
) -> tuple[tuple[str, dict[int, list[Group]]] | None, list[Missing]]:
    """Return the groups on single OSTs, by OST index, of the mount with the most bytes."""
    mounts: dict[str, dict[int, list[Group]]] = {}
    gaps: list[Missing] = []
    striped = 0
    for group in module.groups:
        if len(group.targets) == 1:
            held = mounts.setdefault(group.mount or "", {})
            held.setdefault(group.targets[0], []).append(group)
        elif group.targets:
            striped += group.files
    if striped:
        reason = "the files span several OSTs, and Darshan has no time for each"
        gaps.append(missing(f"{striped} files per OST", "several-osts", reason))
    elif not mounts:
        reason = "no Lustre records: another file system, or Darshan without its Lustre module"
        gaps.append(missing("figures per OST", "no-lustre-record", reason))
    if not mounts:
        return None, gaps
    # OSTs of two file systems have the same indices: report only one file system.
    mount = max(mounts, key=lambda mount: (_bytes(mounts[mount]), mount))
    for other in sorted(set(mounts) - {mount}):
        reason = f"most bytes are on {mount}"
        gaps.append(missing(f"figures per OST of {other}", "other-mount", reason))
    return (mount, mounts[mount]), gaps


def _bytes(held: dict[int, list[Group]]) -> float:
    return sum(
        group.bytes_read + group.bytes_written for groups in held.values() for group in groups
    )


def _samples(target: str, groups: list[Group]) -> list[Sample]:
    samples: list[Sample] = []
    line = groups[0].line
    for access in ACCESSES:
        moved = sum(group.moved(access) for group in groups)
        if not moved:
            continue
        rate, reason = rate_of(moved, slowest_of(groups, access))
        spent, why = seconds(sum(group.spent_s(access) for group in groups))
        samples += [
            Sample(BANDWIDTH[access], rate, 0, target, "total", 0, line, reason),
            Sample(BYTES[access], moved, 0, target, "total", 0, line),
            Sample(f"{access}_time", spent, 0, target, "sum", 0, line, why),
        ]
    return samples


def _slowest(held: dict[int, list[Group]]) -> dict[str, object]:
    """Return the OST on which a byte takes far longer than on the others, if any.

    Compares seconds of all processes per byte, of the access that moved more bytes. OSTs with few
    bytes are excluded, as opening a small file takes as long as a large one.
    """
    written = sum(group.bytes_written for groups in held.values() for group in groups)
    access: Access = "write" if 2 * written >= _bytes(held) else "read"
    moved = {index: sum(group.moved(access) for group in groups) for index, groups in held.items()}
    enough = _SHARE_MINIMUM * statistics.median(moved.values())
    costs = {
        index: sum(group.spent_s(access) for group in held[index]) / size
        for index, size in moved.items()
        if size and size >= enough
    }
    if len(costs) < _TARGETS_MINIMUM or any(map(math.isnan, costs.values())):
        return {}
    median = statistics.median(costs.values())
    worst = max(costs, key=lambda index: (costs[index], -index))
    if median <= 0 or costs[worst] < SLOW_RATIO * median:
        return {}
    return {
        "slowest_target": ost_name(worst),
        "slowest_target_access": access,
        "slowest_target_ratio": costs[worst] / median,
    }
