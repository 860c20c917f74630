"""Which stored telemetry of a site moves with its performance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UsageError
from trimtab.base.snapshot import TELEMETRY_UNITS
from trimtab.base.text import levels_text
from trimtab.judge.correlation import Correlated, CorrelatedSeries, correlate
from trimtab.judge.spread import OCCASIONS_MINIMUM
from trimtab.probe.site_judgement import Progress
from trimtab.probe.site_series import frames_of, mistyped, series_apart, series_of
from trimtab.site.place import Place

if TYPE_CHECKING:
    import polars as pl

    from trimtab.base.series import SeriesKey
    from trimtab.store.store import Store

STRETCH: Final = timedelta(days=90)
"""Default length of the record used: each hour of a large site takes some milliseconds."""
TOLERANCE: Final = timedelta(minutes=45)
"""Maximum distance of a snapshot from its run; further away it describes another hour."""
_AT_ONCE: Final = 168
_FLAGS: Final = ("create_enabled", "degraded", "read_only", "failover_active", "pool_autotrim")
_NOT_HELD: Final = ("capacity_bytes", "inodes_total", "drive_percentage_used")
"""Left out because fullness and free inodes show the same, or because they only ever grow."""


def correlate_site(
    store: Store,
    place: Place,
    *,
    since: str | None = None,
    until: str | None = None,
    probe: str | None = None,
    metric: str | None = None,
    progress: Progress = lambda text, fraction: None,
) -> Correlated:
    """Return for each series of a site which telemetry moves with it.

    Telemetry is that of the whole site: means, extremes and sums over its targets and machines,
    counters as rates.

    Raises
    ------
    UsageError
        No series has enough runs, or nothing is kept that it could be held against.
    """
    end = place.moment(until, end=True) or _last_run(store, place)
    begin = place.moment(since) or end - STRETCH
    series = _series_between(store, place, begin, end, probe=probe, metric=metric)
    if not series:
        raise UsageError(
            f"no series of {place.name} has {OCCASIONS_MINIMUM} runs in that time",
            code="too-few-runs",
            hint=mistyped(store, place, probe, metric)
            or "trimtab status lists the series; --since, --until, --probe, --metric",
        )
    times = store.snapshot_times(place.name, since=begin - TOLERANCE, until=end + TOLERANCE)
    telemetry = _of_site(store, place.name, times, progress)
    if not telemetry:
        raise UsageError(
            f"no telemetry of {place.name} is stored for that time",
            code="no-telemetry",
            hint="trimtab watch SITE takes snapshots; [snapshot] schedule in the site file",
        )
    correlations = []
    for number, (key, frame) in enumerate(series):
        progress(f"{key.metric} of {key.probe}", 0.7 + 0.3 * number / len(series))
        correlated = correlate(
            frame,
            telemetry,
            more_is_better=key.more_is_better,
            tolerance_s=TOLERANCE.total_seconds(),
            timezone=place.timezone,
        )
        first, last = frame["at"][0], frame["at"][-1]
        correlations.append(CorrelatedSeries(key, frame.height, first, last, correlated))
    progress("done", 1.0)
    return Correlated(str(store.location), place.name, len(times), tuple(correlations))


def _series_between(
    store: Store,
    place: Place,
    begin: datetime,
    end: datetime,
    *,
    probe: str | None,
    metric: str | None,
) -> list[tuple[SeriesKey, pl.DataFrame]]:
    """Return the series that have runs enough, each named by what sets it apart."""
    stored = {entry.key: entry for entry in series_of(store, store.series(place.name), probe)}
    histories = {name: store.history(*name, since=begin, until=end) for name in stored}
    last_runs = {name: points[-1].run if points else None for name, points in histories.items()}
    apart = series_apart(store, tuple(stored.values()), last_runs)
    return [
        (key, frame)
        for name, entry in stored.items()
        for key, frame in frames_of(
            entry, histories[name], metric, apart=levels_text(apart.get(name, {}))
        )
        if frame.height >= OCCASIONS_MINIMUM
    ]


def _last_run(store: Store, place: Place) -> datetime:
    lasts = [series.last_at for series in store.series(place.name) if series.last_at is not None]
    if not lasts:
        raise UsageError(f"no run of {place.name} has a time", code="no-times")
    return max(lasts)


def _of_site(
    store: Store, site: str, times: Sequence[datetime], progress: Progress
) -> dict[str, pl.DataFrame]:
    """Return telemetry of the whole site over time, by name: a few snapshots in memory at once."""
    import polars as pl

    parts: dict[str, list[pl.DataFrame]] = {}
    wanted = [name for name in TELEMETRY_UNITS if name not in _NOT_HELD]
    for start in range(0, len(times), _AT_ONCE):
        progress("reading snapshots", 0.7 * start / len(times))
        # With the last of the previous ones: the growth of counters is measured from it.
        chosen = times[max(0, start - 1) : start + _AT_ONCE]
        readings, _ = store.telemetry_frames(site, chosen, names=wanted, settings_at=())
        new = pl.col("at") >= times[start]
        for name, frame in _wholes(readings):
            parts.setdefault(name, []).append(frame.filter(new))
    return {name: pl.concat(frames).sort("at") for name, frames in parts.items()}


def _wholes(readings: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield name and frame of each telemetry of the whole site in some snapshots."""
    import polars as pl

    numbers = readings.drop_nulls("number").select("at", "target", "name", "label", "number")
    yield from _fullness(numbers)
    space = ("used_bytes", "available_bytes")
    for (name,), of_name in numbers.group_by("name", maintain_order=True):
        text = str(name)
        if text in space:
            continue
        over = _by_time(of_name, "number").select(
            "at", mean=pl.col("number").list.mean(), max=pl.col("number").list.max()
        )
        if text.endswith("_total"):
            yield text, _rates(of_name)
        elif text in _FLAGS:
            yield f"{text} (share of targets)", over.select("at", value="mean")
        else:
            yield f"{text} (mean)", over.select("at", value="mean")
            yield f"{text} (largest)", over.select("at", value="max")


def _rates(counters: pl.DataFrame) -> pl.DataFrame:
    """Return by how much all targets' counters grew a second.

    Each by itself: one that is lost and comes back would count for all that it ever did.
    """
    import polars as pl

    by_counter = ["target", "label"]
    steps = counters.sort(*by_counter, "at").with_columns(
        seconds=pl.col("at").diff().over(by_counter).dt.total_microseconds() / 1e6,
        grown=pl.col("number").diff().over(by_counter),
    )
    rated = steps.filter((pl.col("seconds") > 0) & (pl.col("grown") >= 0)).select(
        "at", value=pl.col("grown") / pl.col("seconds")
    )
    return _by_time(rated, "value").with_columns(pl.col("value").list.sum())


def _fullness(numbers: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield how full the targets are together, and the fullest of them."""
    import polars as pl

    sides = [
        numbers.filter(pl.col("name") == name).select("at", "target", pl.col("number").alias(name))
        for name in ("used_bytes", "available_bytes")
    ]
    joined = sides[0].join(sides[1], on=["at", "target"], maintain_order="left")
    used, whole = pl.col("used_bytes"), pl.col("used_bytes") + pl.col("available_bytes")
    if joined.is_empty():
        return
    rows = joined.filter(whole > 0).select("at", used=used, whole=whole, share=used / whole)
    over = _by_time(rows, "used", "whole", "share")
    together = pl.col("used").list.sum() / pl.col("whole").list.sum()
    yield "fullness (all targets)", over.select("at", value=together)
    yield "fullness (fullest target)", over.select("at", value=pl.col("share").list.max())


def _by_time(rows: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return the values of each time, as lists in the order of the rows.

    What a group-by adds up by itself differs in its last bits from process to process, and they
    decide which values are alike.
    """
    return rows.group_by("at", maintain_order=True).agg(*columns)
