"""Kinds of values in a scenario: how each is read from a file, and written so that it reads back.

A quantity is text with its unit (``"48h"``, ``"15.36TB"``, ``"3.2 GB/s"``); inside it is base SI.
Where a key may have no value, a word says what that means: ``never``, ``none``, ``all``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from trimtab.config.schedule import find_zone, parse_schedule
from trimtab.errors import UsageError
from trimtab.units import parse_bytes, parse_duration, parse_fraction, parse_unit
from trimtab.visible import visible

_DURATION_MAX_S: Final = 100 * 366 * 86400.0
_BYTES_MAX: Final = 1e21
_SMALLEST: Final = 1e-9
"""Below, a value is a slip, and its text would have more digits than quantities may have."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_FIGURE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(\S+)\s*", re.ASCII)
_TEXT_MAX: Final = 60
_FIGURES: Final = {
    "B/s": ("a rate", "write 50 GB/s, 1024 MiB/s or 400 Gb/s"),
    "1/s": ("operations a second", "write 800 kIOPS or 29000 IOPS"),
}
_BYTE_UNITS: Final = tuple(
    (f"{prefix}{kind}", factor**power)
    for power, prefix in ((6, "E"), (5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "K"))
    for kind, factor in (("B", 1000), ("iB", 1024))
)
_RATE_UNITS: Final = (
    *(("TB/s", 10**12), ("GB/s", 10**9), ("GiB/s", 2**30)),
    *(("MB/s", 10**6), ("MiB/s", 2**20), ("B/s", 1)),
)
_TIME_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1), ("ms", Decimal("0.001")))


@dataclass(frozen=True, slots=True)
class Kind:
    """How the value of a key is read and written.

    Attributes
    ----------
    noun
        As documentation names it.
    example
        As it would stand in a file.
    read
        From what TOML gives to the value inside; raises `UsageError`.
    write
        From the value inside to its text in TOML.
    unit
        Of the value inside: ``B``, ``s``, ``B/s``, ``1/s``, ``1`` for fractions.
    absent
        The word for no value, if there may be none.
    """

    noun: str
    example: str
    read: Callable[[object], Any]
    write: Callable[[Any], str]
    unit: str | None = None
    absent: str | None = None

    def or_word(self, word: str) -> Kind:
        """Return the kind that may also be ``word``, which is ``None`` inside."""
        return replace(
            self,
            read=lambda value: None if value == word else self.read(value),
            write=lambda value: text(word) if value is None else self.write(value),
            absent=word,
        )

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Let pydantic read a field through this kind, and keep the hint of an error."""
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, value: object) -> Any:
        try:
            return self.read(value)
        except UsageError as error:
            # As values of the context: pydantic fills the template in.
            said = {"message": error.message, "hint": error.hint or ""}
            raise PydanticCustomError("scenario", "{message}", said) from error


def text(value: str) -> str:
    """Return text as TOML writes it."""
    # JSON's escapes are TOML's, but for the pairs of surrogates, which ensure_ascii would write.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def number(value: float) -> str:
    """Return a number as TOML writes it, without an exponent that a reader has to count."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _shown(value: object) -> str:
    return visible(repr(value)[:60])


def _quoted(value: object, example: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{_shown(value)} is not text", hint=f'write it as "{example}"')
    if value.strip().startswith("-"):
        raise UsageError(f"{_shown(value)} is negative", hint=f'write it as "{example}"')
    return value


def _bounded(value: float, shown: object, least: float, most: float) -> float:
    if value and value < _SMALLEST:
        raise UsageError(f"{_shown(shown)} is too small to mean anything")
    if not least <= value <= most:
        bound = "more than 0" if least and value == 0 else f"{least:g} to {most:g}"
        raise UsageError(f"{_shown(shown)} is to be {bound}")
    return value


def _read_duration(value: object) -> float:
    seconds = parse_duration(_quoted(value, "48h"))
    if seconds > _DURATION_MAX_S:
        raise UsageError(f"{_shown(value)} is more than 100 years")
    return _bounded(seconds, value, _SMALLEST, _DURATION_MAX_S)


def _read_size(value: object) -> float:
    return _bounded(float(parse_bytes(_quoted(value, "15.36TB"))), value, 1, _BYTES_MAX)


def _read_size_or_zero(value: object) -> float:
    return _bounded(float(parse_bytes(_quoted(value, "2.5PB"))), value, 0, _BYTES_MAX)


def _read_whole_size(value: object) -> int:
    return int(_bounded(parse_bytes(_quoted(value, "1MiB")), value, 1, 2**50))


def _read_rate(value: object) -> float:
    return _figure(_quoted(value, "3.2 GB/s"), "B/s")


def _read_operations(value: object) -> float:
    return _figure(_quoted(value, "1600 kIOPS"), "1/s")


def _figure(said: str, unit: str) -> float:
    found = _FIGURE.fullmatch(said) if len(said) <= _TEXT_MAX else None
    noun, hint = _FIGURES[unit]
    try:
        factor, base = parse_unit(found.group(2)) if found else (Decimal(1), "")
    except UsageError:
        base = factor = None
    if found is None or factor is None or base != unit:
        raise UsageError(f"{_shown(said)} is not {noun}", hint=hint)
    return _bounded(float(Decimal(found.group(1)) * factor), said, _SMALLEST, 1e18)


def _read_fraction(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UsageError(f"{_shown(value)} is not a fraction", hint='write 0.75 or "75%"')
    fraction = parse_fraction(value if isinstance(value, str) else repr(value))
    return _bounded(fraction, value, 0.0, 1.0)


def _read_inner_fraction(value: object) -> float:
    fraction = _read_fraction(value)
    if fraction in (0.0, 1.0):
        raise UsageError(f"{_shown(value)} is to be between 0 and 1, neither of them")
    return fraction


def _read_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{_shown(value)} is neither true nor false")
    return value


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{_shown(value)} is not text", hint="write it in quotes")
    if not value.strip():
        raise UsageError("it is empty", hint="leave the key out for the default")
    if _CONTROL.search(value):
        raise UsageError(f"{_shown(value)} holds a control character")
    return value


def _read_name(value: object) -> str:
    name = _read_text(value)
    if not _NAME.fullmatch(name):
        raise UsageError(f"{_shown(name)} is not a name", hint="small letters, digits and dashes")
    return name


def _read_schedule(value: object) -> str:
    return parse_schedule(_quoted(value, "every 1h")).text


def _read_zone(value: object) -> str:
    zone = _read_text(value)
    find_zone(zone)
    return zone


def _read_moment(value: object) -> date | datetime | str:
    """Return what says a time; only with the site's time zone is it one."""
    if isinstance(value, (date, str)) and value != "":
        return value
    raise UsageError(f"{_shown(value)} is not a time", hint="write 2023-09-12 or 2023-09-12T06:00")


def _read_fault_size(value: object) -> float:
    """Return a fraction, or bytes a second: which one is needed depends on the kind of fault."""
    if isinstance(value, str) and not value.strip().endswith("%"):
        rate = _read_rate(value)
        if rate <= 1:
            raise UsageError(f"{_shown(value)} is to be more than 1 B/s")
        return rate
    return _read_inner_fraction(value)


def _read_osts(value: object) -> tuple[int, ...]:
    whole = isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
    )
    if not isinstance(value, list) or not whole:
        raise UsageError(f"{_shown(value)} is no list of OSTs", hint="write osts = [17, 18]")
    if len(set(value)) != len(value):
        raise UsageError(f"{_shown(value)} names an OST twice")
    return tuple(value)


def whole(least: int, most: int) -> Kind:
    """Return the kind of whole numbers from ``least`` to ``most``."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{_shown(value)} is not a whole number")
        if not least <= value <= most:
            raise UsageError(f"{value} is to be {least} to {most}")
        return value

    return Kind(f"whole number, {least} to {most:,}", str(max(least, 1)), read, str)


def real(least: float, most: float) -> Kind:
    """Return the kind of plain numbers from ``least`` to ``most``."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"{_shown(value)} is not a number", hint="write it without quotes")
        if not math.isfinite(value):
            raise UsageError(f"{value} is not a number to reckon with")
        return _bounded(float(value), value, least, most)

    return Kind(f"number, {least:g} to {most:g}", "1.1", read, number)


def choice(words: Sequence[str]) -> Kind:
    """Return the kind of one word of several."""
    listed = ", ".join(words)

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise UsageError(f"{_shown(value)} is none of {listed}")
        return value

    return Kind(f"one of {listed}", text(words[0]), read, text)


def _fixed(value: Decimal) -> str:
    shown = format(value, "f")
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _effort(said: str) -> tuple[bool, int]:
    """Return how hard a quantity is to read: 0.1 TB and 135168 GB lose against 135.168 TB."""
    before = len(said.partition(".")[0].rstrip("BKMGTPEis /dhmOS"))
    return said.startswith("0.") or before > 4, len(said)


def _in_units(
    units: Sequence[tuple[str, int | Decimal]], parse: Callable[[str], float], gap: str = ""
) -> Callable[[float], str]:
    """Return what writes a value in the largest unit that few digits say it exactly in."""

    def write(value: float) -> str:
        exact = Decimal(repr(value))
        said = [f"{_fixed(exact / factor)}{gap}{unit}" for unit, factor in units]
        right = [one for one in said if _says(one, value)]
        if not right:
            raise UsageError(f"{value!r} cannot be written exactly as {said[-1]!r}")
        return text(min(right, key=_effort))

    def _says(said: str, value: float) -> bool:
        try:
            return parse(said) == value
        except UsageError:
            return False

    return write


DURATION: Final = Kind(
    "duration", '"48h"', _read_duration, _in_units(_TIME_UNITS, _read_duration), "s"
)
_write_size = _in_units((*_BYTE_UNITS, ("B", 1)), _read_size_or_zero)
SIZE: Final = Kind("size", '"15.36TB"', _read_size, _write_size, "B")
SIZE_OR_ZERO: Final = Kind("size", '"2.5PB"', _read_size_or_zero, _write_size, "B")
WHOLE_SIZE: Final = Kind("size", '"1MiB"', _read_whole_size, _write_size, "B")
RATE: Final = Kind(
    "rate", '"3.2 GB/s"', _read_rate, _in_units(_RATE_UNITS, _read_rate, gap=" "), "B/s"
)
OPERATIONS: Final = Kind(
    "operations a second",
    '"800 kIOPS"',
    _read_operations,
    _in_units((("kIOPS", 1000), ("IOPS", 1)), _read_operations, gap=" "),
    "1/s",
)
FRACTION: Final = Kind("fraction", '0.75 or "75%"', _read_fraction, number, "1")
INNER_FRACTION: Final = Kind(
    "fraction, neither 0 nor 1", "0.127", _read_inner_fraction, number, "1"
)
SWITCH: Final = Kind("true or false", "true", _read_bool, lambda value: str(value).lower())
TEXT: Final = Kind("text", '"one line"', _read_text, text)
NAME: Final = Kind("small letters, digits and dashes", '"my-scratch"', _read_name, text)
SCHEDULE: Final = Kind("schedule", '"every 1h"', _read_schedule, text)
ZONE: Final = Kind("time zone", '"Europe/Zurich"', _read_zone, text)
MOMENT: Final = Kind("date or time", "2023-09-12", _read_moment, lambda at: at.isoformat())
OSTS: Final = Kind("list of OST numbers", "[17]", _read_osts, lambda value: str(list(value)))


def _write_fault_size(value: float) -> str:
    return RATE.write(value) if value > 1 else number(value)


FAULT_SIZE: Final = Kind("fraction or rate", '0.5 or "2 GB/s"', _read_fault_size, _write_fault_size)
