"""A snapshot as one compressed columnar batch, and back, exactly.

One Arrow IPC file, compressed as a whole with zlib, with a row for each reading and each setting.
The value's Python type is part of the data: 1, 1.0 and True are three different readings, and 0
is not a missing one. Where a value is missing, ``text`` has the code of its ``reason``. ``part``
says what a row is::

    null            a reading of a target; without a ``name``: a target that has no readings
    setting         a setting of a target; ``label`` only where the setting is called otherwise
    host            a machine: whether it answered, and its problem as ``reason``
    host reading    as of a target, with the machine's name and role in place of the target's
    host setting

Words that come again and again (names, sources, reasons) are dictionaries: 1,000 targets with 33
random counters each take 7 bytes a reading, 14 without, and one target takes 2 KiB; compressing
column by column, as Arrow itself can, takes 8 KiB for that. The checksum of zlib is needed
besides: a single wrong bit can make an Arrow reader abort the process.

From one snapshot of a site to the next little but numbers change. So of snapshots with the same
rows one is stored whole, the base, and of each other one only the rows whose values differ from the
base's (`Base.changes`), in the same form: ``after`` (number of rows after the previous one, in the
order of readings), ``number``, ``integer`` (the difference) and ``text``. That is a fifth of the
bytes.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self, cast

from trimtab.base.error import Message, UnreadableError, code_of, restored, storable
from trimtab.base.snapshot import (
    HostRole,
    HostSnapshot,
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
)

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

_INTEGER_LIMIT = 2**63
_WORDS = (
    "target",
    "target_kind",
    "target_server",
    "name",
    "label",
    "type",
    "source",
    "reason",
    "part",
)
_VALUES: Final = ("number", "integer", "text")
_AT_ONCE: Final = 500
_FAST: Final = 1
"""Compression level of zlib: a third of the default's time for a twentieth more space."""
_SETTING, _HOST, _HOST_READING, _HOST_SETTING = "setting", "host", "host reading", "host setting"
_Settings = Mapping[str, Setting | NotAvailable]
_Row = tuple[Any, ...]


def frame_of(snapshot: Snapshot) -> pl.DataFrame:
    """Return the rows of a snapshot: everything but time, driver and ``complete``.

    The columns are ``position`` (of the target or machine), ``target``, ``target_kind``,
    ``target_server``, ``name``, ``label``, ``type`` (``float``, ``int``, ``str``, ``bool``; null
    for a missing value), ``number``, ``integer``, ``text``, ``source``, ``reason``, ``part``.
    """
    import polars as pl

    kinds = _columns()
    columns: list[list[Any]] = [[] for _ in kinds]
    rows = _rows(snapshot)
    # A few at a time: Python would go through all tuples that stay, in search of garbage.
    while some := tuple(islice(rows, _AT_ONCE)):
        for column, values in zip(columns, zip(*some, strict=True), strict=True):
            column.extend(values)
    series = [
        pl.Series(name, values, dtype=kind)
        for (name, kind), values in zip(kinds.items(), columns, strict=True)
    ]
    return pl.DataFrame(series).with_columns(pl.col(_WORDS).cast(pl.Categorical))


def packed(frame: pl.DataFrame, level: int = -1) -> bytes:
    """Return rows as they are kept: an Arrow IPC file in a zlib stream of a level."""
    import polars as pl

    stream = io.BytesIO()
    # The oldest form of strings: a store outlives the library that wrote it.
    frame.write_ipc(stream, compression="uncompressed", compat_level=pl.CompatLevel.oldest())
    return zlib.compress(stream.getvalue(), level)


def unpacked(data: bytes) -> pl.DataFrame:
    """Return the rows that `packed` was given."""
    import polars as pl

    return pl.read_ipc(io.BytesIO(zlib.decompress(data)))


@dataclass(slots=True, eq=False)
class Values:
    """The values of a snapshot's rows: of each row at most one.

    Attributes
    ----------
    numbers, integers, texts
        0, 0 and ``None`` where a row has no value of that kind.
    is_number, is_integer
        Whether it has.
    """

    numbers: np.ndarray
    integers: np.ndarray
    texts: np.ndarray
    is_number: np.ndarray
    is_integer: np.ndarray

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Self:
        """Return the values of rows, as a copy."""
        import numpy as np

        number, integer, text = (frame[name] for name in _VALUES)
        return cls(
            number.fill_null(0.0).to_numpy().copy(),
            integer.fill_null(0).to_numpy().copy(),
            np.array([*text.to_list(), None], dtype=object)[:-1],
            number.is_not_null().to_numpy(),
            integer.is_not_null().to_numpy(),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """A snapshot that is kept whole, for others with the same rows.

    Attributes
    ----------
    frame, values
        The rows as `frame_of` returns them, and their values.
    order
        Order of its rows, as changes have it.
    batch, digest
        Its stored form, and the SHA-256 of that in hexadecimal.
    """

    frame: pl.DataFrame
    values: Values
    order: np.ndarray
    batch: bytes
    digest: str

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Self:
        """Return the rows of a snapshot as a base."""
        batch = packed(frame)
        return cls(frame, Values.of(frame), _order(frame), batch, hashlib.sha256(batch).hexdigest())

    def with_values(self, values: Values) -> Self:
        """Return a base with the same rows and other values.

        A base that is near in time has fewer changes.
        """
        import numpy as np

        rows = np.arange(self.frame.height)
        frame = self.frame.with_columns(_columns_of(values, rows, values.integers))
        batch = packed(frame)
        digest = hashlib.sha256(batch).hexdigest()
        return type(self)(frame, Values.of(frame), self.order, batch, digest)

    @classmethod
    def read(cls, batch: bytes, digest: str) -> Self:
        """Return a stored base.

        Raises
        ------
        UnreadableError
            It is damaged.
        """
        import polars as pl

        try:
            if hashlib.sha256(batch).hexdigest() != digest:
                raise ValueError("its digest is another")
            frame = unpacked(batch)
            return cls(frame, Values.of(frame), _order(frame), batch, digest)
        except (zlib.error, pl.exceptions.PolarsError, ValueError, OSError) as error:
            raise UnreadableError(
                f"the snapshots that rest on the base {digest[:12]} cannot be read: {error}",
                code="snapshot-unreadable",
                hint="everything else in the store is intact",
            ) from error

    def fits(self, frame: pl.DataFrame) -> bool:
        """Return whether a snapshot has the same rows, whatever their values."""
        others = [name for name in self.frame.columns if name not in _VALUES]
        return frame.height == self.frame.height and frame.select(others).equals(
            self.frame.select(others)
        )

    def changes(self, values: Values) -> bytes:
        """Return the batch of a snapshot that fits: the rows whose values differ.

        Integers are stored as the difference, modulo 2^64: small differences that are alike in all
        targets compress well.
        """
        import numpy as np
        import polars as pl

        then = self.values
        differs = (then.numbers != values.numbers) | (then.integers != values.integers)
        differs |= np.signbit(then.numbers) != np.signbit(values.numbers)  # 0.0 and -0.0
        differs |= then.is_integer != values.is_integer
        is_word = ~(values.is_number | values.is_integer)
        differs[is_word] |= then.texts[is_word] != values.texts[is_word]
        places = np.flatnonzero(differs[self.order])
        rows = self.order[places]
        after = pl.Series("after", np.diff(places, prepend=0).astype(np.uint32))
        columns = _columns_of(values, rows, (values.integers - then.integers)[rows])
        return packed(pl.DataFrame((after, *columns)), _FAST)


def _columns_of(values: Values, rows: np.ndarray, integers: np.ndarray) -> tuple[pl.Series, ...]:
    """Return number, integer and text of some rows; ``integers`` are of those rows alone."""
    import polars as pl

    return (
        _where("number", values.numbers[rows], values.is_number[rows]),
        _where("integer", integers, values.is_integer[rows]),
        pl.Series("text", values.texts[rows].tolist(), dtype=pl.String),
    )


def _order(frame: pl.DataFrame) -> np.ndarray:
    import numpy as np
    import polars as pl

    # All targets' values of one reading side by side: similar values compress well.
    first = frame.with_row_index("row").select(pl.col("row").first().over("name", "label"))
    return np.argsort(first.to_series().to_numpy(), kind="stable")


def frame_of_batch(batch: bytes, base: Base, at: datetime) -> pl.DataFrame:
    """Return the rows of a snapshot.

    Parameters
    ----------
    base
        The base that the changes in the batch refer to.
    at
        Time of the snapshot, for the message.

    Raises
    ------
    UnreadableError
        The batch is damaged.
    """
    import polars as pl

    try:
        return _changed(base, batch).select(list(_columns()))
    except (
        *(zlib.error, pl.exceptions.PolarsError, ValueError, TypeError, IndexError, OSError),
    ) as error:
        raise _unreadable(at, error) from error


def decode(batch: bytes, base: Base, *, at: datetime, driver: str, complete: bool) -> Snapshot:
    """Return the snapshot whose changes of a base the batch holds.

    Raises
    ------
    UnreadableError
        The batch is damaged, or a newer program wrote names that this one does not know.
    """
    frame = frame_of_batch(batch, base, at)
    parts = _Parts()
    try:
        for row in frame.iter_rows():
            parts.take(row)
    except ValueError as error:
        raise _unreadable(at, error) from error
    return Snapshot(
        at=at, driver=driver, complete=complete, targets=parts.targets(), hosts=parts.hosts()
    )


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
        "part": pl.String,
    }


def _rows(snapshot: Snapshot) -> Iterator[_Row]:
    for position, state in enumerate(snapshot.targets):
        target = state.target
        head = (position, storable(target.name), storable(target.kind), _stored(target.server))
        if not state.readings:
            yield (*head, *(None,) * 9)
        yield from _reading_rows(head, state.readings, None)
        yield from _setting_rows(head, state.settings, _SETTING)
    for position, host in enumerate(snapshot.hosts):
        head = (position, storable(host.name), host.role, None)
        code = code_of(host.problem)
        answered = (None, None, "bool", None, int(host.answered), code, None)
        yield (*head, *answered, _stored(host.problem), _HOST)
        yield from _reading_rows(head, host.readings, _HOST_READING)
        yield from _setting_rows(head, host.settings, _HOST_SETTING)


def _reading_rows(head: _Row, readings: Iterable[Reading], part: str | None) -> Iterator[_Row]:
    for reading in readings:
        yield (
            *head,
            reading.name,
            _stored(reading.label),
            *_split(reading.value, reading.reason),
            _stored(reading.source),
            _stored(reading.reason),
            part,
        )


def _setting_rows(head: _Row, settings: _Settings, part: str) -> Iterator[_Row]:
    for name, setting in settings.items():
        stored = storable(name)
        if isinstance(setting, NotAvailable):
            yield (
                *head,
                stored,
                None,
                *_split(None, setting.reason),
                None,
                storable(setting.reason),
                part,
            )
        else:
            label = None if setting.name == name else storable(setting.name)
            value = ("str", None, None, storable(setting.value))
            yield (*head, stored, label, *value, storable(setting.source), None, part)


def _split(
    value: float | int | str | bool | None, reason: str | None
) -> tuple[str | None, float | None, int | None, str | None]:
    """Return type, number, integer and text of a value; at most one of the three is set."""
    match value:
        case None:
            return None, None, None, code_of(reason)
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


def _changed(base: Base, data: bytes) -> pl.DataFrame:
    """Return the rows of a base with other values in some of them."""
    import numpy as np
    import polars as pl

    height, changed = base.frame.height, unpacked(data)
    places = np.cumsum(changed["after"].to_numpy(), dtype=np.int64)
    if len(places) and places[-1] >= height:
        raise ValueError("the batch holds changes of another base")
    rows = base.order[places]
    integer = pl.col("integer") + pl.Series(base.values.integers[rows])  # wraps, as differences did
    others = changed.select("number", integer, "text")
    source = np.arange(height)
    source[rows] = height + np.arange(len(rows))
    return base.frame.with_columns(pl.concat([base.frame.select(_VALUES), others])[source])


def _where(name: str, values: np.ndarray, present: np.ndarray) -> pl.Series:
    """Return a column that has values where they are present."""
    import polars as pl

    column = pl.Series(name, values)
    return column.zip_with(pl.Series(present), pl.Series(name, [None], dtype=column.dtype))


def _unreadable(at: datetime, error: Exception) -> UnreadableError:
    return UnreadableError(
        f"the snapshot of {at.isoformat()} cannot be read: {error}",
        code="snapshot-unreadable",
        hint="a newer Trimtab may have written it; everything else in the store is intact",
    )


class _Parts:
    """The targets and machines of a batch, as their rows come."""

    def __init__(self) -> None:
        self._targets: dict[int, tuple[Target, list[Reading], dict[str, Any]]] = {}
        self._hosts: dict[int, tuple[_Row, list[Reading], dict[str, Any]]] = {}

    def take(self, row: _Row) -> None:
        """Take in one row.

        Raises
        ------
        ValueError
            It is of no kind that this program knows.
        """
        position, name, kind, server, *fields, part = row
        match part:
            case None | "setting":
                if position not in self._targets:
                    target = Target(restored(name), restored(kind), _restored(server))
                    self._targets[position] = (target, [], {})
                _, readings, settings = self._targets[position]
            case "host":
                self._hosts[position] = (row, [], {})
                return
            case "host reading" | "host setting" if position in self._hosts:
                _, readings, settings = self._hosts[position]
            case _:
                raise ValueError(f"a row of the kind {part!r} is not known here")
        if part in (_SETTING, _HOST_SETTING):
            settings[restored(fields[0])] = _setting(fields)
        elif fields[0] is not None:
            readings.append(_reading(fields))

    def targets(self) -> tuple[TargetSnapshot, ...]:
        """Return the targets in their order."""
        return tuple(
            TargetSnapshot(target, tuple(readings), settings)
            for _, (target, readings, settings) in sorted(
                self._targets.items(), key=lambda item: item[0]
            )
        )

    def hosts(self) -> tuple[HostSnapshot, ...]:
        """Return the machines in their order."""
        return tuple(
            _host(head, readings, settings)
            for _, (head, readings, settings) in sorted(
                self._hosts.items(), key=lambda item: item[0]
            )
        )


def _host(head: _Row, readings: list[Reading], settings: dict[str, Any]) -> HostSnapshot:
    _, name, role, _, _, _, _, _, answered, code, _, problem, _ = head
    return HostSnapshot(
        name=restored(name),
        role=cast("HostRole", role),
        answered=bool(answered),
        problem=_reason(problem, code),
        readings=tuple(readings),
        settings=settings,
    )


def _reading(fields: list[Any]) -> Reading:
    name, label, kind, number, integer, text, source, reason = fields
    return Reading(
        name=name,
        value=_joined(kind, number, integer, text),
        source=_restored(source),
        reason=_reason(reason, text),
        label=_restored(label),
    )


def _setting(fields: list[Any]) -> Setting | NotAvailable:
    name, label, kind, _, _, text, source, reason = fields
    if kind is None:
        return NotAvailable(_reason(reason, text) or "")
    return Setting(restored(name if label is None else label), restored(text), restored(source))


def _reason(text: str | None, code: str | None) -> str | None:
    """Return a reason with its code, if it has one."""
    if text is None or code is None:
        return _restored(text)
    return Message(code, restored(text))


@lru_cache(maxsize=8192)  # the words of a snapshot are few, and those of the next are the same
def _stored(text: str | None) -> str | None:
    return None if text is None else storable(text)


def _restored(text: str | None) -> str | None:
    return None if text is None else restored(text)
