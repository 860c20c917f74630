"""Transfers with bad checksums, from the counters in a site's snapshots.

The counts are of messages in a kernel's log: a count that falls was reset by a boot, or old
messages have left the log. Neither is a failed transfer. One snapshot a day shows whether a count
changed, and the others of that day show when. Each period of a whole record is counted by itself
(`trimtab.store.kept_period`); growth from one period to the next is looked up afterwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from trimtab.explain.failed_run import BadChecksums
from trimtab.site.lookup import borrowed
from trimtab.store.kept_period import bounds_of

if TYPE_CHECKING:
    from trimtab.store.store import Store

_CHECKSUMS: Final = ("checksum_errors_total",)
_FEW: Final = 4
"""Up to this many snapshots are compared directly: after each slot the watch asks for the last."""

Counts = Mapping[str, Sequence[tuple[datetime, float]]]
"""Target or host to its counts, by time; there is none where it did not answer."""


@dataclass(frozen=True, slots=True)
class PeriodCounts:
    """The counts of a period.

    Attributes
    ----------
    first, last
        Target or host to the time and value of its first and last daily count.
    grew
        By how much counts grew within the period, and when.
    """

    first: dict[str, tuple[datetime, float]]
    last: dict[str, tuple[datetime, float]]
    grew: tuple[BadChecksums, ...]


@dataclass(frozen=True, slots=True)
class ChecksumsQuestion:
    """The counts of some periods of a site's snapshots.

    Attributes
    ----------
    periods
        ``None``: all of the record together.
    last
        The period of the last snapshot, which is counted besides the first of each day.
    """

    url: str
    site: str
    periods: tuple[int, ...] | None = None
    last: int | None = None

    def answer(self) -> tuple[PeriodCounts, ...]:
        """Return the counts of each period."""
        store = borrowed(self.url)
        if self.periods is None:
            times = store.snapshot_times(self.site)
            grew = bad_checksums(store, self.site, times[0], times[-1]) if times else ()
            return (PeriodCounts({}, {}, grew),)
        return tuple(
            _counted(store, self.site, period, is_last=period == self.last)
            for period in self.periods
        )


def _counted(store: Store, site: str, period: int, *, is_last: bool) -> PeriodCounts:
    begin, end = bounds_of(period)
    times = store.snapshot_times(site, since=begin, until=end)
    counts = _counts(store, site, _daily(times, with_last=is_last))
    return PeriodCounts(
        {name: of[0] for name, of in counts.items()},
        {name: of[-1] for name, of in counts.items()},
        tuple(_grown(store, site, times, _changed(counts))),
    )


def grown_over(store: Store, site: str, periods: Iterable[PeriodCounts]) -> list[BadChecksums]:
    """Return by how much counts grew over all periods, given in order of time, and when."""
    last: dict[str, tuple[datetime, float]] = {}
    grew: dict[tuple[datetime, str], BadChecksums] = {}
    for period in periods:
        between = {
            (last[name][0], at)
            for name, (at, count) in period.first.items()
            if name in last and last[name][1] != count
        }
        for since, until in sorted(between):
            times = store.snapshot_times(site, since=since, until=until)
            within = _grown(store, site, times, {(since, until)})
            grew |= {(each.at, each.where): each for each in within}
        grew |= {(each.at, each.where): each for each in period.grew}
        last |= period.last
    return [*grew.values()]


def bad_checksums(
    store: Store, site: str, since: datetime, until: datetime
) -> tuple[BadChecksums, ...]:
    """Return by how much counts grew within a stretch, and when."""
    times = store.snapshot_times(site, since=since, until=until)
    if len(times) <= _FEW and not _counts_differ(store, site, since, until):
        return ()
    counts = _counts(store, site, _daily(times, with_last=True))
    return tuple(_grown(store, site, times, _changed(counts)))


def _daily(times: Sequence[datetime], *, with_last: bool) -> list[datetime]:
    """Return the first time of each day and, if ``with_last``, the last of all."""
    return [
        at
        for place, at in enumerate(times)
        if place == 0
        or at.date() != times[place - 1].date()
        or (with_last and place == len(times) - 1)
    ]


def _changed(counts: Counts) -> set[tuple[datetime, datetime]]:
    """Return the stretches between two counts that differ."""
    return {
        (earlier, at)
        for of_target in counts.values()
        for (earlier, before), (at, after) in pairwise(of_target)
        if before != after
    }


def _grown(
    store: Store, site: str, times: Sequence[datetime], changed: set[tuple[datetime, datetime]]
) -> Iterator[BadChecksums]:
    """Yield by how much counts grew from one snapshot to the next in some stretches."""
    near = {
        at
        for before, after in changed
        for at in times[bisect_left(times, before) : bisect_right(times, after)]
    }
    if not near:
        return
    for target, of_target in _counts(store, site, sorted(near)).items():
        for (_, before), (at, after) in pairwise(of_target):
            if (count := int(after - before)) > 0:
                yield BadChecksums(at, target, count)


def _counts_differ(store: Store, site: str, since: datetime, until: datetime) -> bool:
    """Return whether the counts differ between snapshots of a stretch."""
    counts = []
    for snapshot in store.snapshots(site, since=since, until=until):
        places = [(seen.target.name, seen.readings) for seen in snapshot.targets]
        places += [(host.name, host.readings) for host in snapshot.hosts]
        counts.append(
            [
                (name, reading.label, reading.value)
                for name, readings in places
                for reading in readings
                if reading.name in _CHECKSUMS
            ]
        )
    return any(of_snapshot != counts[0] for of_snapshot in counts)


def _counts(store: Store, site: str, times: Sequence[datetime]) -> Counts:
    """Return the counts of the snapshots of these times."""
    readings, _ = store.telemetry_frames(site, times, names=_CHECKSUMS, settings_at=())
    numbers = readings.select("target", "at", "number").drop_nulls()
    counted = numbers.group_by("target", "at").sum().sort("at")
    return {
        str(target): of_target.select("at", "number").rows()
        for (target,), of_target in counted.group_by("target", maintain_order=True)
    }
