"""What a site knows of the file system that is purged: its reads, its OSTs, its record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from trimtab.errors import UsageError
from trimtab.loop.purging.reads import read_recording
from trimtab.loop.sites import open_driver, open_site
from trimtab.loop.stores import open_store
from trimtab.model.telemetry import NotAvailable, Snapshot
from trimtab.purge.horizon.forecast import WINDOW_S
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.rules import ReadRecording
from trimtab.visible import visible

_HEXADECIMAL_DIGITS: Final = 4
_DAY_S: Final = 86400
_SNAPSHOTS_A_DAY: Final = 4
"""So many are read: growth is told by days, and a snapshot of 298 OSTs takes its time."""


@dataclass(frozen=True, slots=True)
class SiteSays:
    """What a site says; without one, nothing.

    Attributes
    ----------
    site, store_url
        Under which name its snapshots are kept, and where; empty without a site.
    reads
        Whether a read extends a file's life here.
    osts
        How full each OST is, by its index; ``None`` where that is not known.
    pools
        The OSTs of each pool, by their index; ``None`` where that is not known.
    why_no_pools
        Why not, where they were asked for.
    """

    site: str = ""
    store_url: str | None = None
    reads: ReadRecording = field(default_factory=ReadRecording)
    osts: Mapping[int, Usage] | None = None
    pools: Mapping[str, tuple[int, ...]] | None = None
    why_no_pools: str | None = None


def ask_site(where: str, root: str, *, now: datetime) -> SiteSays:
    """Return what a site says of a root beneath it; a canary is read through every client.

    Raises
    ------
    UsageError
        There is no such site, or it is another file system's.
    """
    site = open_site(where).site
    if root != site.path and not root.startswith(site.path.rstrip("/") + "/"):
        raise UsageError(
            f"the site {visible(site.name)} is of {visible(site.path)}, and {visible(root)} is "
            "not beneath it",
            code="site-elsewhere",
            hint="name the site whose file system is purged",
        )
    driver = open_driver(site)
    is_lustre = site.driver == "lustre"  # nothing else has OSTs that a policy may name
    pools = driver.pools() if is_lustre else None
    unknown = isinstance(pools, NotAvailable)
    return SiteSays(
        site=site.name,
        store_url=site.store.url,
        reads=read_recording(site, driver, now_s=now.timestamp()),
        osts=ost_usages(driver.snapshot(now)) if is_lustre else None,
        pools=None if unknown else pools,
        why_no_pools=pools.reason if unknown else None,
    )


def ost_usages(snapshot: Snapshot) -> dict[int, Usage] | None:
    """Return how full each OST of a snapshot is; ``None`` where there is none, or one is missing.

    A target for OSTs of which one is not known would be no promise.
    """
    usages = {}
    for seen in snapshot.targets:
        if seen.target.kind != "ost":
            continue
        used, available = seen.number("used_bytes"), seen.number("available_bytes")
        if used is None or available is None or used + available <= 0:
            return None
        index = int(seen.target.name[-_HEXADECIMAL_DIGITS:], 16)
        usages[index] = Usage(int(used), int(available))
    return usages or None


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
