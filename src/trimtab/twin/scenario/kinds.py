"""Kinds of values that only scenarios have, in addition to `trimtab.config.kinds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final

from trimtab.config import kinds
from trimtab.config.kinds import (
    INNER_FRACTION,
    MOMENT,
    RATE,
    Kind,
    choice,
    in_units,
    listed,
    number_text,
    out_of_range,
    read_texts,
    shown,
    size,
    wrong_type,
)
from trimtab.config.problems import BadValue
from trimtab.config.schedule import find_zone
from trimtab.units import parse_duration, parse_moment

_TIME_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1), ("ms", Decimal("0.001")))
DURATION: Final = replace(kinds.DURATION, write=in_units(_TIME_UNITS, parse_duration))
WHOLE_SIZE: Final = size(most=2**50, most_text="1 PiB", whole=True)


def _read_fault_size(value: object) -> float:
    """Parse a fraction or bytes per second; the kind of fault decides which is needed."""
    if isinstance(value, str) and not value.strip().endswith("%"):
        rate = RATE.read(value)
        if rate <= 1:
            raise out_of_range(value, "more than 1 B/s")
        return rate
    return INNER_FRACTION.read(value)


def _read_osts(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(ost) is int and ost >= 0 for ost in value):
        raise wrong_type(value, "a list of OSTs", "write osts = [17, 18]")
    if len(set(value)) != len(value):
        raise BadValue(f"{shown(value)} names an OST twice", code="duplicate-value")
    return tuple(value)


def choices(words: Sequence[str]) -> Kind:
    """Return the kind for lists of certain words."""
    word = choice(words)

    def read(value: object) -> tuple[str, ...]:
        texts = read_texts(value, "a list of texts", f"write {listed(words)}")
        return tuple(word.read(text) for text in texts)

    noun = f"list of {', '.join(f'`{kinds.quoted(word)}`' for word in words)}"
    return Kind(noun, listed(words[:1]), read, listed)


@cache
def moment_in(timezone: str) -> Kind:
    """Return the kind for times, stored in UTC; without an offset they are in a time zone."""

    def parse(value: date | str) -> datetime:
        if not isinstance(value, date):
            return parse_moment(value, timezone).astimezone(UTC)
        text = value.isoformat()
        return parse_moment(text if isinstance(value, datetime) else f"{text}T00:00:00", timezone)

    def write(at: datetime) -> str:
        """Format a time in the site's zone, with an offset if it is ambiguous."""
        local = at.astimezone(find_zone(timezone)).replace(tzinfo=None)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        for plain in (local.date() if local == midnight else local, local):
            if parse(plain) == at:
                return plain.isoformat()
        return at.isoformat()

    def read(value: Any) -> datetime:
        return parse(MOMENT.read(value))

    return replace(MOMENT, read=read, write=write)


OSTS: Final = Kind("list of OST numbers", "[17]", _read_osts, lambda osts: str(list(osts)))
FAULT_SIZE: Final = Kind(
    "fraction or rate",
    '0.5 or "2 GB/s"',
    _read_fault_size,
    lambda value: RATE.write(value) if value > 1 else number_text(value),
)
