"""Snapshots in the store, and snapshots and samples as frames for statistics.

One snapshot is stored whole, as a base; others with the same rows are stored as their changes
(`trimtab.store.snapshot_batch.Base`). A base is searched for among the newest of the site: its
telemetry keeps its rows for months, or goes back and forth between a few shapes, as when a server
does not answer.

Frames are columns all the way, with no object per reading: a snapshot of 300 targets has some
20,000 rows, and takes 0.1 s as objects, 0.005 s as a frame.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, Select, delete, func, select

from trimtab.base.error import UnreadableError, storable
from trimtab.base.event import Event, new_identifier
from trimtab.base.server_message import message_events
from trimtab.base.snapshot import ROUNDED, Snapshot
from trimtab.store import checksum, schema
from trimtab.store.connection import (
    AT_ONCE,
    Connections,
    between,
    event_row,
    insert_unless_there,
    of_site,
    row_of,
    site_number,
)
from trimtab.store.location import Location
from trimtab.store.snapshot_batch import Base, Values, decode, frame_of, frame_of_batch

if TYPE_CHECKING:
    import polars as pl
    from sqlalchemy import Engine

    from trimtab.store.store import Store


_TRIED: Final = 4
"""Number of bases that a snapshot is compared with before it becomes one itself."""
_KEPT: Final = 8
"""Bases that stay in memory: some megabytes each at a large site."""
_DECODED: Final = 4
"""Snapshots that stay in memory as they were read: alerts, policies and metrics read the same."""


@dataclass(frozen=True, slots=True)
class Changes:
    """A snapshot in its stored form.

    Attributes
    ----------
    id
        Its id.
    at, driver, complete
        As in `Snapshot`.
    base, batch
        Its base, and the result of `Base.changes`.
    events
        What its kernel logs say; stored with it.
    """

    id: str
    at: datetime
    driver: str
    complete: bool
    base: Base
    batch: bytes
    events: tuple[Event, ...] = ()


class SnapshotRecords(Connections):
    """The part of the store for snapshots."""

    def __init__(self, engine: Engine, location: Location) -> None:
        super().__init__(engine, location)
        self._bases: dict[str, Base] = {}
        self._decoded: dict[tuple[str, bytes, str], Snapshot] = {}

    def add_snapshot(self, site: str, snapshot: Snapshot, *, identifier: str | None = None) -> str:
        """Store a snapshot permanently and return its id.

        Parameters
        ----------
        identifier
            Its id if the caller has chosen one; a snapshot that is stored under it stays as it
            is, and nothing is added.
        """
        identifier = identifier or new_identifier(snapshot.at)
        self.add_changes(site, self.changes_of(site, {identifier: snapshot}))
        return identifier

    def add_changes(self, site: str, changes: Sequence[Changes]) -> None:
        """Store snapshots that are encoded already, all in one transaction.

        Snapshots whose id is stored already stay as they are.
        """
        if changes:
            with self._writing() as connection:
                insert_snapshots(connection, site, changes)

    def changes_of(self, site: str, snapshots: Mapping[str, Snapshot]) -> list[Changes]:
        """Return snapshots of a site, by id, as `add_changes` takes them."""
        with self._reading() as connection:
            bases = self._newest_bases(connection, site)
        changes = []
        for identifier, snapshot in snapshots.items():
            frame = frame_of(snapshot)
            base = next((base for base in bases if base.fits(frame)), None)
            if base is None:
                base = Base.of(frame)
                bases = [base, *bases[: _TRIED - 1]]
            row = row_of(snapshot, schema.snapshot)
            batch, events = base.changes(Values.of(frame)), tuple(message_events(site, snapshot))
            changes.append(Changes(id=identifier, base=base, batch=batch, events=events, **row))
        return changes

    def snapshot(self, identifier: str) -> Snapshot | None:
        """Return the snapshot with that id; ``None`` if it is not, or no longer, stored."""
        query = select(schema.snapshot).where(schema.snapshot.c.id == identifier)
        snapshots = self._snapshots(query)
        return snapshots[0] if snapshots else None

    def latest_snapshot(self, site: str, at: datetime | None = None) -> Snapshot | None:
        """Return the last snapshot of a site, or the last one not after ``at``."""
        snapshots = self.snapshots(site, until=at, limit=1)
        return snapshots[0] if snapshots else None

    def snapshots(
        self,
        site: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> tuple[Snapshot, ...]:
        """Return snapshots of a site, the newest first; ``since`` and ``until`` are within."""
        at = schema.snapshot.c.at
        query = of_site(select(schema.snapshot), schema.snapshot, site)
        query = query.order_by(at.desc(), schema.snapshot.c.number.desc()).limit(limit)
        return self._snapshots(between(query, at, since, until))

    def _snapshots(self, query: Select[Any]) -> tuple[Snapshot, ...]:
        with self._reading() as connection:
            records = connection.execute(query).all()
            bases = self._bases_of(connection, (record.base for record in records))
        return tuple(self._snapshot(record, bases) for record in records)

    def _snapshot(self, row: Row[Any], bases: Mapping[int, Base]) -> Snapshot:
        checksum.require_row(schema.snapshot, row._mapping, f"the snapshot {row.id}")
        base = base_of(row, bases)
        key = row.id, row.batch, base.digest
        snapshot = self._decoded.get(key)
        if snapshot is None:
            snapshot = decode(row.batch, base, at=row.at, driver=row.driver, complete=row.complete)
        self._remember(key, snapshot)
        return snapshot

    def _remember(self, key: tuple[str, bytes, str], snapshot: Snapshot) -> None:
        """Keep a snapshot in memory as the newest of few."""
        self._decoded.pop(key, None)
        self._decoded[key] = snapshot
        for oldest in list(self._decoded)[:-_DECODED]:
            self._decoded.pop(oldest, None)

    def remember(self, changes: Iterable[Changes], snapshots: Mapping[str, Snapshot]) -> None:
        """Keep committed snapshots in memory: alerts and policies read them at once."""
        for change in changes:
            key = change.id, change.batch, change.base.digest
            self._remember(key, snapshots[change.id])

    def _newest_bases(self, connection: Connection, site: str) -> list[Base]:
        table = schema.snapshot_base.c
        query = of_site(select(table.number), schema.snapshot_base, site)
        query = query.order_by(table.number.desc()).limit(_TRIED)
        numbers = connection.execute(query).scalars().all()
        bases = self._bases_of(connection, numbers)
        return [bases[number] for number in numbers if number in bases]

    def _bases_of(self, connection: Connection, numbers: Iterable[int | None]) -> dict[int, Base]:
        """Return the bases with these numbers; those in memory are not read again.

        SQLite gives the number of a base that was removed to another one, so they are known by
        their digests.
        """
        table, bases = schema.snapshot_base.c, {}
        wanted = sorted({number for number in numbers if number is not None})
        for start in range(0, len(wanted), AT_ONCE):
            some = table.number.in_(wanted[start : start + AT_ONCE])
            for number, digest in connection.execute(
                select(table.number, table.digest).where(some)
            ):
                base = self._bases.pop(digest, None)
                if base is None:
                    query = select(table.batch).where(table.number == number)
                    batch = connection.execute(query).scalar_one()
                    base = Base.read(batch, digest)
                self._bases[digest] = bases[number] = base
        for digest in list(self._bases)[: -_KEPT or None]:
            self._bases.pop(digest, None)
        return bases


def base_of(row: Row[Any], bases: Mapping[int, Base]) -> Base:
    """Return the base of which a snapshot holds the changes.

    Raises
    ------
    UnreadableError
        Its row names none.
    """
    base = bases.get(row.base)
    if base is None:
        raise UnreadableError(
            f"the snapshot {row.id} names no base that the store has",
            code="snapshot-unreadable",
            hint="trimtab store check lists what is lost, and how to go on",
        )
    return base


def insert_snapshots(connection: Connection, site: str, changes: Sequence[Changes]) -> None:
    """Insert snapshots of a site with bases and events, except what is stored already."""
    site_row, numbers = site_number(connection, site), dict[str, int]()
    for change in changes:
        digest = change.base.digest
        if digest not in numbers:
            numbers[digest] = _base_number(connection, site_row, change.base)
        row = row_of(change, schema.snapshot, site=site_row, base=numbers[digest])
        connection.execute(insert_unless_there(connection, schema.snapshot, **row))
        for event in change.events:
            values = event_row(event, site_row)
            connection.execute(insert_unless_there(connection, schema.event, **values))


def remove_unused_bases(connection: Connection, site: int) -> None:
    """Remove the bases of a site that no snapshot refers to any more, but the newest."""
    base, snapshot = schema.snapshot_base, schema.snapshot.c
    newest = select(func.max(base.c.number)).where(base.c.site == site).scalar_subquery()
    used = select(snapshot.base).where(snapshot.base == base.c.number).exists()
    connection.execute(delete(base).where(base.c.site == site, base.c.number != newest, ~used))


def _base_number(connection: Connection, site: int, base: Base) -> int:
    """Return the number of a base, which is added where it is new."""
    table = schema.snapshot_base
    # Shared until the end of the transaction, so that no other process removes it meanwhile.
    query = (
        select(table.c.number)
        .where(table.c.site == site, table.c.digest == base.digest)
        .with_for_update(read=True, key_share=True)
    )
    number = connection.execute(query).scalar()
    if number is None:
        row = {"site": site, "digest": base.digest, "batch": base.batch}
        connection.execute(insert_unless_there(connection, table, **row))
        number = connection.execute(query).scalar_one()
    return number


TimedBatch = tuple[datetime, bytes, Base]
"""Time and batch of a snapshot, and the base of which it holds the changes."""


def readings_columns() -> dict[str, Any]:
    """Return names and types of the columns of readings, as `trimtab.explain.context` says."""
    import polars as pl

    text = pl.String
    return {
        "at": pl.Datetime("us", "UTC"),
        "target": text,
        "kind": text,
        "server": text,
        "name": text,
        "label": text,
        "number": pl.Float64,
        "text": text,
        "reason": text,
    }


def settings_columns() -> dict[str, Any]:
    """Return names and types of the columns of settings."""
    import polars as pl

    text = pl.String
    return {
        "at": pl.Datetime("us", "UTC"),
        "target": text,
        "kind": text,
        "name": text,
        "value": text,
    }


def telemetry_frames(
    batches: Sequence[TimedBatch],
    *,
    names: Collection[str] | None = None,
    settings_at: Collection[datetime] | None = None,
    categories: bool = False,
    target: str | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return readings and settings of several snapshots, by time.

    Parameters
    ----------
    batches
        Time, batch and base of each snapshot.
    names
        Wanted readings; ``None``: all.
    settings_at
        Times whose settings are wanted, which change seldom; ``None``: all.
    categories
        Whether repeated texts of readings stay categories, as they are stored: few of half a
        million rows are looked at, and text takes longer to make than to read.
    target
        Name of the only target to read; ``None``: all. Rows of others are dropped as each snapshot
        is read: a thousand snapshots of a large site do not fit into memory.

    Raises
    ------
    UnreadableError
        A batch is damaged.
    """
    import polars as pl

    def read(timed_batch: TimedBatch) -> pl.DataFrame:
        at, batch, base = timed_batch
        frame = _frame(batch, base, at)
        if target is not None:
            frame = frame.filter(pl.col("target") == storable(target))
        without = settings_at is not None and at not in settings_at
        return frame.filter(_is_reading(names)) if without else frame

    # A worker that shares its processors with others has one thread, and is faster without more.
    threads = pl.thread_pool_size()
    if threads == 1:
        frames = [read(batch) for batch in batches]
    else:
        with ThreadPoolExecutor(threads) as pool:
            frames = list(pool.map(read, batches))
    if not frames:
        return pl.DataFrame(schema=readings_columns()), pl.DataFrame(schema=settings_columns())
    # All at once: a question to a frame has its price, whether of one snapshot or of forty.
    whole = pl.concat(frames)
    readings = _readings(whole, names)
    if not categories:
        readings = readings.with_columns(pl.col(pl.Categorical).cast(pl.String))
    return readings, _settings(whole, settings_at)


_CATEGORIES: Final = (
    "target", "target_kind", "target_server", "name", "label", "type", "reason", "part",
)  # fmt: skip
_COLUMNS: Final = (*_CATEGORIES, "number", "integer", "text")


def _frame(batch: bytes, base: Base, at: datetime) -> pl.DataFrame:
    """Return the rows of one snapshot that hold something, and their time."""
    import polars as pl

    frame = frame_of_batch(batch, base, at)
    return frame.select(pl.lit(at, pl.Datetime("us", "UTC")).alias("at"), *_COLUMNS)


def _is_reading(names: Collection[str] | None) -> pl.Expr:
    import polars as pl

    part, name = pl.col("part"), pl.col("name")
    label = pl.col("label")
    wanted = (part.is_null() | (part == "host reading")) & name.is_not_null()
    wanted &= label.is_null() | (label != ROUNDED)
    if names is None:
        return wanted
    return wanted & pl.any_horizontal(
        *(name == expected for expected in sorted(names)), pl.lit(False)
    )


def _readings(whole: pl.DataFrame, names: Collection[str] | None) -> pl.DataFrame:
    import polars as pl

    is_text = pl.col("type") == "str"
    large = pl.when(is_text.not_()).then(pl.col("text")).cast(pl.Float64, strict=False)
    return whole.filter(_is_reading(names)).select(
        "at",
        "target",
        pl.col("target_kind").alias("kind"),
        pl.col("target_server").alias("server"),
        "name",
        "label",
        # Integers beyond 64 bits stand as text: the sum of a counter may be one.
        pl.coalesce("number", pl.col("integer").cast(pl.Float64), large).alias("number"),
        pl.when(is_text).then(pl.col("text")).alias("text"),
        "reason",
    )


def _settings(whole: pl.DataFrame, times: Collection[datetime] | None) -> pl.DataFrame:
    import polars as pl

    part = pl.col("part")
    wanted = ((part == "setting") | (part == "host setting")) & pl.col("type").is_not_null()
    if times is not None:
        wanted &= pl.col("at").is_in(pl.Series(sorted(times), dtype=pl.Datetime("us", "UTC")))
    return whole.filter(wanted).select(
        "at",
        pl.col("target").cast(pl.String),
        pl.col("target_kind").cast(pl.String).alias("kind"),
        pl.col("name").cast(pl.String),
        pl.col("text").alias("value"),
    )


def survey_frame(rows: Sequence[Sequence[Any]]) -> pl.DataFrame:
    """Return samples of single targets: at, run, target, metric, value; repetitions' median.

    Parameters
    ----------
    rows
        Microseconds since 1970, run, target (as it is kept), metric, value.
    """
    import polars as pl

    from trimtab.base.error import ESCAPE

    columns = {
        "at": pl.Int64,
        "run": pl.String,
        "target": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
    }
    values = zip(*rows, strict=True) if rows else ((),) * len(columns)
    frame = pl.DataFrame(
        [
            pl.Series(name, column, dtype=kind)
            for (name, kind), column in zip(columns.items(), values, strict=True)
        ]
    ).with_columns(pl.col("at").cast(pl.Datetime("us", "UTC")))
    if frame.get_column("target").str.contains(ESCAPE, literal=True).any():
        frame = frame.with_columns(pl.col("target").map_elements(_restored, pl.String))
    keys = [name for name in columns if name != "value"]
    if frame.select(keys).is_duplicated().any():
        frame = frame.group_by(keys, maintain_order=True).agg(pl.col("value").median())
    return frame.sort("at", maintain_order=True)


def _restored(kept_text: str) -> str:
    """Return a text as it was given, or as it is kept where no frame could hold it."""
    from trimtab.base.error import restored

    text = restored(kept_text)
    # Bytes of a name that are no UTF-8 are lone surrogates in Python, and nothing in Arrow.
    return text if text.encode(errors="ignore").decode() == text else kept_text


@dataclass(frozen=True, slots=True)
class SpaceAt:
    """The fullness of a site at one time.

    Attributes
    ----------
    fullest
        Name and fullness of the fullest target.
    """

    at: datetime
    used_bytes: float
    available_bytes: float
    fullest: tuple[str, float]

    @property
    def fullness(self) -> float:
        """Used / (used + available)."""
        return self.used_bytes / (self.used_bytes + self.available_bytes)


_SPACE: Final = ("used_bytes", "available_bytes")


def space_at(
    store: Store, site: str, times: Sequence[datetime], target: str | None = None
) -> tuple[SpaceAt, ...]:
    """Return how full a site was, or one of its targets, in some snapshots, the oldest first."""
    if not times:
        return ()
    import polars as pl

    readings, _ = store.telemetry_frames(site, times, names=_SPACE, settings_at=(), target=target)
    of_metadata = pl.col("kind").cast(pl.String).str.to_lowercase().is_in(["mdt", "mgt"])
    number, name = pl.col("number"), pl.col("name").cast(pl.String)
    used, left = pl.col("used_bytes"), pl.col("available_bytes")
    space = (
        readings.filter(pl.col("label").is_null() & number.is_not_null())
        .filter(~of_metadata | (target is not None))
        .group_by("at", pl.col("target").cast(pl.String), maintain_order=True)
        .agg(number.filter(name == each).last().alias(each) for each in _SPACE)
        .filter(used + left > 0)
        .with_columns((used / (used + left)).alias("full"))
        .sort("at", maintain_order=True)
        .group_by("at", maintain_order=True)
        .agg(pl.sum(*_SPACE), pl.col("target").get(pl.col("full").arg_max()), pl.max("full"))
    )
    return tuple(
        SpaceAt(at, used_bytes, available_bytes, (target, full))
        for at, used_bytes, available_bytes, target, full in space.rows()
    )
