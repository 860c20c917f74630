"""Snapshots and samples as frames, for statistics: columns all the way, no object a reading.

A snapshot of 300 targets has some 20,000 rows; taking it apart into objects costs a tenth of a
second, as a frame five thousandths.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from trimtab.model.telemetry import ROUNDED
from trimtab.record.batch import Base, frame_of_batch
from trimtab.record.text import storable

if TYPE_CHECKING:
    import polars as pl


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
        Readings that are wanted; all where ``None``.
    settings_at
        Times whose settings are wanted, which change seldom; of all where ``None``.
    categories
        Whether repeated texts of readings stay categories, as they are kept: of half a million
        rows most are looked at by few, and text takes longer to make than to read.
    target
        Only of this one, by its name; of all where ``None``. The others' rows are dropped as each
        snapshot is read: a thousand of a large site do not fit into memory.

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

    from trimtab.record.text import ESCAPE

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
    from trimtab.record.text import restored

    text = restored(kept_text)
    # Bytes of a name that are no UTF-8 are lone surrogates in Python, and nothing in Arrow.
    return text if text.encode(errors="ignore").decode() == text else kept_text
