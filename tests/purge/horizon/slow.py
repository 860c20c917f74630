"""Files one by one, and the slow and obvious answers that the horizon is held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from trimtab.purge.fullness import HOUR_S, AgeCurve, OwnerDays


@dataclass(frozen=True)
class File:
    """One eligible file."""

    last_use_s: int
    allocated_bytes: int
    uid: int = 0
    ost: int = 0


SPAN_HOURS = 60
"""Few hours, so that files share them."""

files = st.lists(
    st.builds(
        File,
        st.integers(-3 * HOUR_S, SPAN_HOURS * HOUR_S),
        st.sampled_from([0, 0, 512, 4096]) | st.integers(0, 10**6),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=40,
)


def curve_of(found: list[File]) -> AgeCurve:
    """Return the curve of some files."""
    return AgeCurve.of(
        [one.last_use_s // HOUR_S for one in found],
        [1] * len(found),
        [one.allocated_bytes for one in found],
    )


def packed(rows: Sequence[tuple[int, int, int]]) -> tuple[bytes, bytes, bytes]:
    """Return the buffers of the core: a time, files and bytes of each row."""
    times, files, sizes = (
        np.array([row[place] for row in rows], np.uint64 if place else np.int64).tobytes()
        for place in range(3)
    )
    return times, files, sizes


def days_of(curves: Mapping[int, Sequence[tuple[int, int, int]]]) -> OwnerDays:
    """Return the days of each owner, given day, files and bytes of each in ascending order."""
    return OwnerDays.from_buffers((owner, packed(rows)) for owner, rows in curves.items())


def freed_by(found: list[File], cut_off_s: int) -> tuple[int, int]:
    """Return files and bytes that were last used before an instant."""
    gone = [one for one in found if one.last_use_s < cut_off_s]
    return len(gone), sum(one.allocated_bytes for one in gone)


def earliest_cut_off(found: list[File], required_bytes: int, youngest_hour: int) -> int | None:
    """Return the earliest hour that frees enough, by trying every one."""
    for hour in range(-4, youngest_hour + 1):
        if freed_by(found, hour * HOUR_S)[1] >= required_bytes:
            return hour
    return None
