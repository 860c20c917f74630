"""A snapshot's readings as one compressed columnar batch, and back, exactly.

One Arrow IPC file, compressed as a whole with zlib, with a row for each reading. The value's
Python type is part of the data: 1, 1.0 and True are three different readings, and 0 is not a
missing one. A target without readings has one row in which ``name`` is null.

Words that come again and again (names, sources, reasons) are dictionaries: 1,000 targets with 33
random counters each take 7 bytes a reading, 14 without, and one target takes 2 KiB; compressing
column by column, as Arrow itself can, takes 8 KiB for that. The checksum of zlib is needed
besides: a single wrong bit can make an Arrow reader abort the process.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from trimtab.errors import UnreadableError
from trimtab.model.telemetry import Reading, Snapshot, Target, TargetSnapshot
from trimtab.record.text import restored, storable

if TYPE_CHECKING:
    import polars as pl

_INTEGER_LIMIT = 2**63
_WORDS = ["target", "target_kind", "target_server", "name", "label", "type", "source", "reason"]


def encode(snapshot: Snapshot) -> bytes:
    """Return the readings of all targets as an Arrow IPC file within a zlib stream.

    The columns are ``position`` (of the target), ``target``, ``target_kind``, ``target_server``,
    ``name``, ``label``, ``type`` (``float``, ``int``, ``str``, ``bool``; null for a missing
    value), ``number``, ``integer``, ``text``, ``source``, ``reason``.
    """
    import polars as pl

    frame = pl.DataFrame(list(_rows(snapshot)), schema=_columns(), orient="row")
    stream = io.BytesIO()
    words = frame.with_columns(pl.col(_WORDS).cast(pl.Categorical))
    # The oldest form of strings: a store outlives the library that wrote it.
    words.write_ipc(stream, compression="uncompressed", compat_level=pl.CompatLevel.oldest())
    return zlib.compress(stream.getvalue(), 6)


def decode(batch: bytes, *, at: datetime, driver: str, complete: bool) -> Snapshot:
    """Return the snapshot that `encode` was given.

    Raises
    ------
    UnreadableError
        The batch is damaged, or a newer program wrote names that this one does not know.
    """
    import polars as pl

    try:
        frame = pl.read_ipc(io.BytesIO(zlib.decompress(batch)))
        targets = _targets(frame)
    except (zlib.error, pl.exceptions.PolarsError, ValueError, OSError) as error:
        raise UnreadableError(
            f"the snapshot of {at.isoformat()} cannot be read: {error}",
            hint="a newer Trimtab may have written it; everything else in the store stands",
        ) from error
    return Snapshot(at=at, driver=driver, complete=complete, targets=targets)


def _columns() -> dict[str, Any]:
    import polars as pl

    return {
        "position": pl.Int32,
        "target": pl.String,
        "target_kind": pl.String,
        "target_server": pl.String,
        "name": pl.String,
        "label": pl.String,
        "type": pl.String,
        "number": pl.Float64,
        "integer": pl.Int64,
        "text": pl.String,
        "source": pl.String,
        "reason": pl.String,
    }


def _rows(snapshot: Snapshot) -> Iterator[tuple[Any, ...]]:
    for position, one in enumerate(snapshot.targets):
        target = one.target
        head = (position, storable(target.name), storable(target.kind), _stored(target.server))
        if not one.readings:
            yield (*head, *(None,) * 8)
        for reading in one.readings:
            yield (
                *head,
                reading.name,
                _stored(reading.label),
                *_split(reading.value),
                _stored(reading.source),
                _stored(reading.reason),
            )


def _split(
    value: float | int | str | bool | None,
) -> tuple[str | None, float | None, int | None, str | None]:
    """Return type, number, integer and text of a value; at most one of the three is set."""
    match value:
        case None:
            return None, None, None, None
        case bool():  # before int, which it is too
            return "bool", None, int(value), None
        case int() if -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
            return "int", None, value, None
        case int():  # a counter summed over its 64 bits
            return "int", None, None, str(value)
        case float():
            return "float", value, None, None
        case str():
            return "str", None, None, storable(value)


def _joined(
    kind: str | None, number: float | None, integer: int | None, text: str | None
) -> float | int | str | bool | None:
    match kind:
        case None:
            return None
        case "bool":
            return bool(integer)
        case "int":
            return integer if integer is not None else int(text or "")
        case "float":
            return number
        case "str" if text is not None:
            return restored(text)
        case _:
            raise ValueError(f"a value of type {kind!r} is not known")


def _targets(frame: pl.DataFrame) -> tuple[TargetSnapshot, ...]:
    targets: dict[int, Target] = {}
    readings: dict[int, list[Reading]] = {}
    for position, name, kind, server, *rest in frame.select(list(_columns())).iter_rows():
        if position not in targets:
            targets[position] = Target(restored(name), restored(kind), _restored(server))
            readings[position] = []
        if rest[0] is not None:
            readings[position].append(_reading(rest))
    return tuple(TargetSnapshot(targets[one], tuple(readings[one])) for one in sorted(targets))


def _reading(fields: list[Any]) -> Reading:
    name, label, kind, number, integer, text, source, reason = fields
    return Reading(
        name=name,
        value=_joined(kind, number, integer, text),
        source=_restored(source),
        reason=_restored(reason),
        label=_restored(label),
    )


def _stored(text: str | None) -> str | None:
    return None if text is None else storable(text)


def _restored(text: str | None) -> str | None:
    return None if text is None else restored(text)
