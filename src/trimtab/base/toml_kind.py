"""Kinds of values: how each is parsed from a file, and written to read back the same.

A quantity is text with a unit (``"48h"``, ``"15.36TB"``, ``"3.2 GB/s"``), converted to base SI. If
a key may have no value, a word represents that: ``never``, ``none``, ``unlimited``.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from trimtab.base.error import UsageError, visible
from trimtab.base.schedule import parse_schedule
from trimtab.base.toml_problem import NAME as NAME_FORM
from trimtab.base.toml_problem import BadValue, did_you_mean, problem_of
from trimtab.base.units import parse_bytes, parse_duration, parse_fraction, parse_unit

CENTURY_S: Final = 100 * 366 * 86400.0
_SMALLEST: Final = 1e-9
"""Smaller values are typing errors, with more digits than quantities may have."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_FIGURE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(\S+)\s*", re.ASCII)
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
_TIME_UNITS: Final = (("w", 604800), ("d", 86400), ("h", 3600), ("m", 60))
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Zl", "Zp"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ValueKind:
    """How the value of a key is read and written.

    Attributes
    ----------
    noun
        Its name in the documentation.
    example
        An example as in a file. read Converts a TOML value to the internal one; raises
        `UsageError`.
    write
        Converts the internal value to TOML text; ``None``: expressed by omission.
    unit
        Unit of the internal value: ``B``, ``s``, ``B/s``, ``1/s``, ``1`` for fractions.
    absent
        The word for no value, if allowed.
    schema
        JSON Schema of the value in a file.
    rows
        For a value that is a table: its keys and their texts.
    """

    noun: str
    example: str
    read: Callable[[object], Any]
    write: Callable[[Any], str | None]
    unit: str | None = None
    absent: str | None = None
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    rows: Callable[[Any], Mapping[str, str]] | None = None

    def or_word(self, word: str) -> ValueKind:
        """Return the kind that also allows ``word``, which becomes ``None``."""
        types = self.schema.get("type", "string")
        types = [*([types] if isinstance(types, str) else types)]
        schema = dict(self.schema) | {"type": types if "string" in types else [*types, "string"]}
        if "examples" in schema:
            schema["examples"] = [*schema["examples"], word]

        def read(value: object) -> Any:
            if value == word:
                return None
            try:
                return self.read(value)
            except UsageError as error:
                hint = f'{error.hint or "write " + self.example}, or "{word}"'
                raise BadValue(error.message, code=problem_of(error, ()).code, hint=hint) from error

        return replace(
            self,
            read=read,
            write=lambda value: quoted(word) if value is None else self.write(value),
            absent=word,
            schema=schema,
        )


def shown(value: object) -> str:
    """Format a value for an error message."""
    return visible(repr(value)[:80])


def wrong_type(value: object, noun: str, hint: str | None) -> BadValue:
    """Return the error for a value of the wrong type."""
    return BadValue(f"{shown(value)} is not {noun}", code="wrong-type", hint=hint)


def out_of_range(value: object, bounds: str, hint: str | None = None) -> BadValue:
    """Return the error for a value that is too small or too large."""
    return BadValue(f"{shown(value)} must be {bounds}", code="out-of-range", hint=hint)


def quoted(text: str) -> str:
    """Return a basic TOML string, with invisible characters escaped.

    Raises
    ------
    UsageError
        It is not UTF-8.
    """
    # JSON's escapes are TOML's; ensure_ascii would write pairs of surrogates, which are not.
    plain = json.dumps(text, ensure_ascii=False)
    return plain if plain.isprintable() else "".join(map(_escaped, plain))


def _escaped(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs":
        raise UsageError(
            "a name that is not UTF-8 cannot be written to a file",
            code="not-utf8",
            hint="TOML is UTF-8; mount the file system at another path",
        )
    if category in _UNSEEN:
        code = ord(character)
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character


def key_text(name: str) -> str:
    """Return a TOML key, quoted if necessary."""
    return name if _BARE_KEY.fullmatch(name) else quoted(name)


def number_text(value: float) -> str:
    """Return a TOML number without an exponent."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _quantity(value: object, example: str) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "text", f'write it as "{example}"')
    if value.strip().startswith("-"):
        raise out_of_range(value, "0 or more", f'write it as "{example}"')
    return value


def _bounded(value: float, original: object, least: float, most: float, most_text: str) -> float:
    if value and value < _SMALLEST:
        raise BadValue(f"{shown(original)} is too small to be meaningful", code="out-of-range")
    if value == 0 and least > 0:
        raise out_of_range(original, "greater than 0")
    if not least <= value <= most:
        bounds = f"at most {most_text}" if value > most else f"at least {least:g}"
        raise out_of_range(original, bounds)
    return value


def _fixed(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _effort(text: str) -> tuple[bool, int]:
    """Return a readability cost: 135.168 TB is better than 0.1 TB and 135168 GB."""
    digits = len(text.partition(".")[0].rstrip("BKMGTPEis /dhmOS"))
    return text.startswith("0.") or digits > 4, len(text)


def in_units(
    units: Sequence[tuple[str, int | Decimal]], parse: Callable[[str], float], gap: str = ""
) -> Callable[[float], str]:
    """Return a formatter that uses the unit with an exact and short text."""

    def is_exact(text: str, value: float) -> bool:
        try:
            return parse(text) == value
        except UsageError:
            return False

    def write(value: float) -> str:
        # Beyond 2^53 the shortest text of a float differs from its integer value.
        exact = Decimal(value) if value % 1 == 0 else Decimal(repr(value))
        texts = [f"{_fixed(exact / factor)}{gap}{unit}" for unit, factor in units]
        right = [text for text in texts if is_exact(text, value)]
        if not right:
            raise UsageError(
                f"{value!r} cannot be written exactly as {texts[-1]!r}", code="value-inexact"
            )
        return quoted(min(right, key=_effort))

    return write


def _write_duration(value_s: float) -> str:
    for unit, factor in _TIME_UNITS:
        # A single week, day or minute reads better in the smaller unit: 24h, 7d, 60s.
        least = {"d": 7, "h": 1}.get(unit, 2)
        if value_s >= least * factor and value_s % factor == 0:
            return f'"{int(value_s // factor)}{unit}"'
    exact = Decimal(repr(value_s))
    if 0 < exact < 1 and parse_duration(f"{_fixed(exact * 1000)}ms") == value_s:
        return f'"{_fixed(exact * 1000)}ms"'
    return f'"{_fixed(exact)}s"'


def duration(
    least_s: float = _SMALLEST,
    most_s: float = CENTURY_S,
    *,
    example: str = "48h",
    whole: bool = False,
    most_text: str = "100 years",
) -> ValueKind:
    """Return the kind for durations in seconds; ``whole``: an integer."""

    def read(value: object) -> float:
        seconds = parse_duration(_quantity(value, example))
        seconds = _bounded(seconds, value, least_s, most_s, most_text)
        if whole and seconds != int(seconds):
            raise BadValue(f"{shown(value)} is not a whole number of seconds")
        return int(seconds) if whole else seconds

    schema = {"type": "string", "examples": list(dict.fromkeys((example, "30m", "20s")))}
    return ValueKind("duration", f'"{example}"', read, _write_duration, "s", schema=schema)


def size(
    least: int = 1,
    most: float = 1e21,
    *,
    example: str = "1MiB",
    whole: bool = False,
    most_text: str = "1 ZB",
) -> ValueKind:
    """Return the kind for sizes in bytes; ``whole``: an integer."""

    def read(value: object) -> float:
        size_bytes = parse_bytes(_quantity(value, example))
        _bounded(size_bytes, value, least, most, most_text)
        return size_bytes if whole else float(size_bytes)

    write = in_units((*_BYTE_UNITS, ("B", 1)), parse_bytes)
    schema = {"type": "string", "examples": list(dict.fromkeys((example, "4k", "64GiB")))}
    return ValueKind("size", f'"{example}"', read, write, "B", schema=schema)


def _figure_kind(
    noun: str, example: str, unit: str, units: Sequence[tuple[str, int]], more: Sequence[str]
) -> ValueKind:
    quantity, hint = _FIGURES[unit]

    def parse(text: str) -> float:
        match = _FIGURE.fullmatch(text) if len(text) <= _TEXT_MAX else None
        try:
            factor, base = parse_unit(match[2]) if match else (Decimal(1), "")
        except UsageError:
            factor, base = Decimal(1), ""
        if match is None or base != unit:
            raise BadValue(f"{shown(text)} is not {quantity}", hint=hint)
        return _bounded(float(Decimal(match[1]) * factor), text, _SMALLEST, 1e18, "1e18")

    return ValueKind(
        noun,
        f'"{example}"',
        lambda value: parse(_quantity(value, example)),
        in_units(units, parse, gap=" "),
        unit,
        schema={"type": "string", "examples": [example, *more]},
    )


def fraction(*, zero: bool = False, inner: bool = False, percent: bool = False) -> ValueKind:
    """Return the kind for fractions up to 1.

    Parameters
    ----------
    zero
        Whether it may be 0.
    inner
        Whether 0 and 1 are excluded.
    percent
        Write it in percent: ``"70%"``.
    """
    hint = 'write 0.75 or "75%"'

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise wrong_type(value, "a fraction", hint)
        try:
            part = parse_fraction(value if isinstance(value, str) else repr(value))
        except UsageError as error:
            raise BadValue(error.message, code="out-of-range", hint=hint) from error
        if inner and part in (0.0, 1.0):
            raise out_of_range(value, "above 0 and below 1", hint)
        if part == 0 and not zero:
            raise out_of_range(value, "greater than 0", hint)
        return part if part == 0 else _bounded(part, value, 0.0, 1.0, "1")

    def write_percent(value: float) -> str:
        text = f"{_fixed(Decimal(repr(value)) * 100)}%"
        exact = 0 <= value <= 1 and parse_fraction(text) == value
        return f'"{text}"' if exact else repr(value)

    # The two bounds apply only to numbers (JSON Schema, validation 6.2).
    bounds = {"minimum": 0} if zero else {"exclusiveMinimum": 0}
    schema = {"type": ["number", "string"], **bounds, "maximum": 1, "examples": [0.75, "75%"]}
    noun = "fraction, neither 0 nor 1" if inner else "fraction"
    write = write_percent if percent else number_text
    return ValueKind(noun, "0.127" if inner else '0.75 or "75%"', read, write, "1", schema=schema)


def _read_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise BadValue(f"{shown(value)} is neither true nor false", code="wrong-type")
    return value


def read_text(value: object) -> str:
    """Parse text that is not empty and has no control characters."""
    if not isinstance(value, str):
        raise wrong_type(value, "text", "write it in quotes")
    if not value.strip():
        raise BadValue("it is empty", code="text-empty", hint="remove the key for the default")
    if _CONTROL.search(value):
        raise BadValue(f"{shown(value)} has a control character", code="control-character")
    return value


def _read_word(value: object) -> str:
    text = read_text(value)
    if text.startswith("-") or re.search(r"\s", text):
        raise BadValue(f"{shown(text)} must be one word without a leading dash")
    return text


def _read_name(value: object) -> str:
    name = read_text(value)
    if not NAME_FORM.fullmatch(name):
        raise BadValue(
            f"{shown(name)} is not a name",
            code="name-invalid",
            hint="use lower-case letters, digits and dashes",
        )
    return name


def read_texts(value: object, noun: str, hint: str) -> tuple[str, ...]:
    """Parse a list of texts."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise wrong_type(value, noun, hint)
    return tuple(map(read_text, value))


def listed(words: Sequence[str]) -> str:
    """Return a TOML list of texts."""
    return f"[{', '.join(map(quoted, words))}]"


def inline_table(values: Mapping[str, str]) -> str:
    """Return an inline table of values already in TOML form."""
    pairs = ", ".join(f"{key_text(name)} = {value}" for name, value in values.items())
    return f"{{ {pairs} }}" if pairs else "{}"


def of_text(parse: Callable[[str], T], noun: str, *examples: str, write: Any = quoted) -> ValueKind:
    """Return the kind for values that ``parse`` reads from text."""

    def read(value: object) -> T:
        if not isinstance(value, str):
            raise wrong_type(value, "text", f'write it as "{examples[0]}"')
        return parse(value)

    schema = {"type": "string", "examples": list(examples)}
    return ValueKind(noun, quoted(examples[0]), read, write, schema=schema)


def whole(least: int, most: int) -> ValueKind:
    """Return the kind for integers from ``least`` to ``most``."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(value, "a whole number", "write it without quotes")
        if not least <= value <= most:
            raise out_of_range(value, f"{least} to {most}")
        return value

    schema = {"type": "integer", "minimum": least, "maximum": most}
    noun = f"whole number, {least} to {most:,}"
    return ValueKind(noun, str(max(least, 1)), read, repr, schema=schema)


def real(least: float, most: float) -> ValueKind:
    """Return the kind for plain numbers from ``least`` to ``most``."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise wrong_type(value, "a number", "write it without quotes")
        if math.isnan(value) or not least <= value <= most:
            raise out_of_range(value, f"{least:g} to {most:g}")
        return float(value) if not value else _bounded(float(value), value, least, most, "")

    schema = {"type": "number", "minimum": least, "maximum": most}
    return ValueKind(f"number, {least:g} to {most:g}", "1.1", read, number_text, schema=schema)


def read_each(
    items: Iterable[tuple[str, object]], read: Callable[[str, object], Any]
) -> dict[str, Any]:
    """Parse the values of a table by name; an error has the name."""
    values = {}
    for name, item in items:
        try:
            values[name] = read(name, item)
        except UsageError as error:
            problem = problem_of(error, (name,))
            raise BadValue(
                problem.message, code=problem.code, hint=problem.hint, within=problem.location
            ) from error
    return values


def table_of(kind: ValueKind, example: str) -> ValueKind:
    """Return the kind for tables with free keys and values of ``kind``."""

    def read(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise BadValue("must be a table", code="wrong-type", hint=f"write {example}")
        return read_each(value.items(), lambda _, item: kind.read(item))

    return ValueKind(
        f"table of {kind.noun}",
        example,
        read,
        lambda values: inline_table({name: str(kind.write(item)) for name, item in values.items()}),
        schema={"type": "object", "additionalProperties": kind.schema},
    )


def choice(words: Sequence[str]) -> ValueKind:
    """Return the kind for one of several words."""
    known = ", ".join(f'"{word}"' for word in words[:-1]) + f' or "{words[-1]}"'

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            near = did_you_mean(value, words) if isinstance(value, str) else None
            raise BadValue(f"{shown(value)} is not {known}", code="unknown-value", hint=near)
        return value

    schema = {"enum": list(words), "type": "string"}
    return ValueKind(f"one of {', '.join(words)}", quoted(words[0]), read, quoted, schema=schema)


def _read_day(value: object) -> date:
    """Parse a day: a TOML date or text. A datetime, a date in Python, is refused."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError as error:
        raise wrong_type(value, "a day", "write until = 2027-01-31") from error


def _read_moment(value: object) -> date | str:
    """Parse a time, which is complete only with the site's time zone."""
    if isinstance(value, (date, str)) and value != "":
        return value
    raise wrong_type(value, "a time", "write 2023-09-12 or 2023-09-12T06:00")


DURATION: Final = duration()
DURATION_OR_ZERO: Final = duration(0)
SIZE: Final = size(example="15.36TB")
SIZE_OR_ZERO: Final = size(0, example="2.5PB")
WHOLE_SIZE: Final = size(most=2**53, most_text="8 PiB", whole=True)
"""Above 8 PiB the parsing arithmetic is no longer exact."""
RATE: Final = _figure_kind("rate", "3.2 GB/s", "B/s", _RATE_UNITS, ("1024 MiB/s", "400 Gb/s"))
OPERATIONS: Final = _figure_kind(
    "operations a second", "800 kIOPS", "1/s", (("kIOPS", 1000), ("IOPS", 1)), ("29000 IOPS",)
)
FRACTION: Final = fraction()
FRACTION_OR_ZERO: Final = fraction(zero=True)
INNER_FRACTION: Final = fraction(inner=True)
PERCENT: Final = fraction(percent=True)
SWITCH: Final = ValueKind(
    "true or false",
    "true",
    _read_switch,
    lambda value: "true" if value else "false",
    schema={"type": "boolean"},
)
TEXT: Final = ValueKind("text", '"one line"', read_text, quoted)
WORD: Final = ValueKind("one word", '"word"', _read_word, quoted)
NAME: Final = ValueKind("small letters, digits and dashes", '"my-scratch"', _read_name, quoted)
DAY: Final = ValueKind(
    "day",
    "2030-01-31",
    _read_day,
    date.isoformat,
    schema={"type": "string", "format": "date"},
)
MOMENT: Final = ValueKind("date or time", "2023-09-12", _read_moment, lambda at: at.isoformat())
TEXTS: Final = ValueKind(
    "list of texts",
    '["one", "two"]',
    lambda value: read_texts(value, "a list of texts", 'write ["one", "two"]'),
    listed,
    schema={"type": "array", "items": {"type": "string"}},
)

SCHEDULE: Final = of_text(
    lambda text: parse_schedule(text).text,
    "schedule",
    *("every 1h", "daily at 20:00", "30 2 * * *"),
)
