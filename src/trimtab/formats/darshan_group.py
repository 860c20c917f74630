"""One module of a Darshan dump, in groups of files, and the time of its slowest rank."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from trimtab.base.plain import as_number, as_text, as_whole
from trimtab.base.run import Access

TIMES: Final = ("read_s", "write_s", "metadata_s")
SUMS: Final = ("bytes_read", "bytes_written", *TIMES)


@dataclass(frozen=True, slots=True)
class DarshanGroup:
    """I/O of one process to all files with the same location, or of all to one shared file.

    A time that is damaged in the log (negative or invalid) is NaN, and so is everything computed
    from it.

    Attributes
    ----------
    rank
        ``None`` for a file that several processes share.
    mount, type
        Mount point and type of the file system; ``None`` if missing in the log.
    targets
        Indices of the OSTs that hold the files; empty if missing in the log.
    read_s, write_s, metadata_s
        For a shared file, the times of all processes together.
    slowest_s
        For a shared file, the total time of its slowest process; otherwise 0.
    """

    rank: int | None
    mount: str | None
    type: str | None
    targets: tuple[int, ...]
    files: int
    bytes_read: float
    bytes_written: float
    read_s: float
    write_s: float
    metadata_s: float
    slowest_s: float
    line: int

    def moved(self, access: Access) -> float:
        """Return the bytes of one access."""
        return self.bytes_written if access == "write" else self.bytes_read

    def spent_s(self, access: Access) -> float:
        """Return the seconds of one access, all processes of the group together."""
        return self.write_s if access == "write" else self.read_s


@dataclass(frozen=True, slots=True)
class Module:
    """A module of Darshan: its sums and its groups."""

    name: str
    partial: bool
    line: int
    sums: dict[str, float]
    groups: tuple[DarshanGroup, ...]

    def own_s(self) -> dict[int, float]:
        """Return rank to seconds in its own files: reading, writing and metadata."""
        times: dict[int, float] = {}
        for group in self.groups:
            if group.rank is not None:
                busy_s = group.read_s + group.write_s + group.metadata_s
                times[group.rank] = times.get(group.rank, 0.0) + busy_s
        return times

    def slowest_s(self) -> float:
        """Return Darshan's ``agg_time_by_slowest``."""
        shared = sum(group.slowest_s for group in self.groups if group.rank is None)
        return _longest(self.own_s().values()) + shared


def slowest_of(
    groups: tuple[DarshanGroup, ...] | list[DarshanGroup], access: Access
) -> float | None:
    """Return the slowest rank's time for one access to these files, without metadata.

    For a shared file it is the total time of its slowest process, including metadata, as there is
    no other. ``None`` if a shared file was both read and written.
    """
    seconds: dict[int, float] = {}
    shared = 0.0
    for group in groups:
        if not group.moved(access):
            continue
        if group.rank is not None:
            seconds[group.rank] = seconds.get(group.rank, 0.0) + group.spent_s(access)
        elif group.bytes_read and group.bytes_written:
            return None
        else:
            shared += group.slowest_s
    return _longest(seconds.values()) + shared


def _longest(seconds: Iterable[float]) -> float:
    """Return the longest time, NaN if one is unknown, 0 if there are none."""
    times = list(seconds)
    return math.nan if any(map(math.isnan, times)) else max(times, default=0.0)


def time_of(value: object) -> float:
    """Return a time of the dump, NaN if it is invalid: an endian or clock error."""
    seconds = as_number(value)
    return math.nan if seconds is None else seconds


def group_of(value: dict[str, Any], line: int) -> DarshanGroup | None:
    """Return a group of the dump, ``None`` if a value is impossible."""
    rank, files = value.get("rank"), as_whole(value.get("files"))
    moved = [as_number(value.get(key)) for key in SUMS[: -len(TIMES)]]
    times = [time_of(value.get(key)) for key in TIMES if key in value]
    known = [figure for figure in moved if figure is not None]
    held = value.get("targets")
    indices = [as_whole(index) for index in held] if isinstance(held, list) else []
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < -1:
        return None
    if files is None or files < 1 or len(known) < len(moved) or len(times) < len(TIMES):
        return None
    if any(index is None or not 0 <= index <= 0xFFFF for index in indices):
        return None
    if rank < 0 and "slowest_s" not in value:
        return None
    return DarshanGroup(
        None if rank < 0 else rank,
        as_text(value.get("mount")),
        as_text(value.get("type")),
        tuple(index for index in indices if index is not None),
        files,
        *known,
        *times,
        slowest_s=time_of(value["slowest_s"]) if rank < 0 else 0.0,
        line=line,
    )
