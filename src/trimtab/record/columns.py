"""Column types: aware UTC times as integer microseconds, any text, plain JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from trimtab.errors import UnreadableError
from trimtab.record.text import restored, storable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UtcMicroseconds(TypeDecorator[datetime]):
    """An aware datetime, kept as microseconds since 1970 UTC, so that both databases agree."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Return the microseconds; a time without a zone is a bug and raises ValueError."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone: it cannot be kept")
        return (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the time, aware and in UTC."""
        try:
            return None if value is None else _EPOCH + timedelta(microseconds=value)
        except (TypeError, OverflowError) as error:
            raise _damaged("time", error) from error


class AnyText(TypeDecorator[str]):
    """Text that may hold anything a file name or a tool can: see `trimtab.record.text`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text as every database takes it."""
        return None if value is None else storable(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text as it was given."""
        try:
            return None if value is None else restored(value)
        except TypeError as error:
            raise _damaged("text", error) from error


class PlainJson(TypeDecorator[Any]):
    """Plain JSON values as text; a value that JSON has no word for raises ValueError."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str:
        """Return the JSON text, other scripts readable, surrogates escaped."""
        return storable(json.dumps(value, ensure_ascii=False, allow_nan=False))

    def process_result_value(self, value: str | None, dialect: Dialect) -> object:
        """Return the values; tuples come back as lists."""
        try:
            return None if value is None else json.loads(restored(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise _damaged("JSON", error) from error


def _damaged(noun: str, error: Exception) -> UnreadableError:
    """Return that a value is none of its column's kind: the row is damaged."""
    return UnreadableError(
        f"the store holds a value that is no {noun}: {error}",
        code="store-rows-damaged",
        hint="trimtab store check lists what is damaged; restore a backup",
    )
