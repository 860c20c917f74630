"""How full a file system is now, and how its use has grown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from trimtab.errors import TrimtabError
from trimtab.launch import bounded
from trimtab.loop.stores import open_store
from trimtab.purge.horizon.forecast import WINDOW_S
from trimtab.purge.horizon.usage import Usage

Measure = Callable[[str], Usage]
"""From the path of a root to its use: `usage_now`, or what stands for it in a test."""

_DAY_S: Final = 86400
_SNAPSHOTS_A_DAY: Final = 4
"""So many are read: growth is told by days, and a snapshot of 298 OSTs takes its time."""


def usage_now(root: str) -> Usage:
    """Return how full the file system of a root is, as ``df`` has it; never hangs.

    Raises
    ------
    TrimtabError
        It cannot be asked, or did not answer in time.
    """
    space = bounded.free_space(root)
    return Usage(space.used_bytes, space.available_bytes, space.capacity_bytes)


def inodes_in_use(root: str) -> tuple[int, bool]:
    """Return the inodes of a root's file system, and whether all of them are beneath the root.

    0 where it does not say; a scan then has no end that could be estimated.
    """
    try:
        space = bounded.free_space(root)
    except TrimtabError:
        return 0, False
    return max(0, space.inodes - space.inodes_free), os.path.ismount(root)


def use_over_time(
    site: str, store_url: str | None, *, until: datetime
) -> tuple[tuple[int, int], ...]:
    """Return a site's use as its complete snapshots have it: seconds since 1970 and bytes used.

    A snapshot in which an OST is missing would look like a purge.
    """
    import polars as pl

    since = until - timedelta(seconds=WINDOW_S)
    with open_store(store_url) as store:
        snapshots = store.snapshots(site, since=since, until=until)
        times = thinned(snapshot.at for snapshot in snapshots if snapshot.complete)
        readings, _ = store.telemetry_frames(site, times, names=("used_bytes",), settings_at=())
    data = readings.filter((pl.col("kind") != "mdt") & pl.col("number").is_not_null())
    summed = data.group_by("at").agg(pl.col("number").sum()).sort("at")
    return tuple((int(at.timestamp()), int(used)) for at, used in summed.iter_rows())


def thinned(times: Iterable[datetime]) -> list[datetime]:
    """Return the last time within each quarter of a day, in order."""
    latest = {int(at.timestamp() * _SNAPSHOTS_A_DAY // _DAY_S): at for at in sorted(times)}
    return list(latest.values())
