"""Parses foreign output, and passes answers between machines as JSON, never as code.

Numbers, sizes, times and complete lines come from what tools print. Answers of other machines are
checked strictly against the type that their question declares; unpickling would run whatever the
author of a pickle wants, so none is read here. Tables and tallies are text in the JSON, and floats
keep every digit.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

from trimtab.base.error import ToolError, TrimtabError, visible

if TYPE_CHECKING:
    from pydantic import TypeAdapter


_DIGITS: Final = 18
_HALF_UNITS: Final = tuple(0.5 * 10.0**-decimals for decimals in range(20))


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A printed number, with half a unit of its last digit as maximum rounding error."""

    value: float
    half_unit: float

    @property
    def error(self) -> float:
        """The maximum rounding error, as a fraction."""
        return self.half_unit / self.value if self.value > 0 else float("inf")


def figure_of(word: str | None) -> PrintedNumber | None:
    """Parse a number with its rounding; ``None`` for ``NA``, ``-``, ``nan``, ``1,5``."""
    whole, _, decimals = (word or "").partition(".")
    digits = whole + decimals
    if not (whole and digits.isdecimal() and digits.isascii() and len(decimals) < len(_HALF_UNITS)):
        return None
    return PrintedNumber(float(f"{whole}.{decimals}"), _HALF_UNITS[len(decimals)])


def whole_lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield number and text of each complete line: the last one may have been cut.

    Examples
    --------
    >>> list(whole_lines("one\r\ntwo\nthr"))
    [(1, 'one'), (2, 'two')]
    """
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        yield number, line.rstrip("\r")


def in_a_row(pattern: re.Pattern[str], text: str) -> tuple[list[re.Match[str]], str]:
    """Return consecutive matches from the start of a text, and the rest.

    Examples
    --------
    >>> in_a_row(re.compile("[a-z] "), "a b 1 c ")[1]
    '1 c'
    """
    matches: list[re.Match[str]] = []
    position = 0
    while (match := pattern.match(text, position)) is not None:
        matches.append(match)
        position = match.end()
    return matches, text[position:].strip()


def unix_lines(content: bytes) -> bytes:
    r"""Return a text with Unix line ends; binary content is returned unchanged.

    Examples
    --------
    >>> unix_lines(b"one\r\ntwo\n")
    b'one\ntwo\n'
    """
    if b"\r" not in content or b"\0" in content[:65_536]:
        return content
    return content.replace(b"\r\n", b"\n")


def whole_of(text: str) -> int | None:
    """Parse an integer in plain digits; ``None`` for anything else.

    Numbers with more than 18 digits are meaningless and do not fit into the store.

    Examples
    --------
    >>> whole_of("42"), whole_of("-1"), whole_of("9" * 20)
    (42, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def version_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparing versions; empty if it is not one.

    Examples
    --------
    >>> version_numbers("3.0-30"), version_numbers("fio-3.33"), version_numbers("x")
    ((3, 0, 30), (3, 33), ())
    """
    return tuple(map(int, re.findall(r"[0-9]{1,9}", text)))


def as_number(value: object) -> float | None:
    """Return a finite number that is not negative, else ``None``, also for ``True``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def as_whole(value: object) -> int | None:
    """Return an integer, else ``None``, also for ``True``."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_text(value: object) -> str | None:
    """Return a string that is not empty, else ``None``."""
    return value if isinstance(value, str) and value else None


def as_dict(value: object) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def present(values: Mapping[str, object]) -> dict[str, object]:
    """Return the entries that are not ``None``."""
    return {name: value for name, value in values.items() if value is not None}


def time_of(text: str, form: str) -> datetime | None:
    """Parse a time with `datetime.strptime`; ``None`` for anything else."""
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


POSIX_DATE: Final = (
    r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d) ([A-Z]{1,6}|[+-]\d\d) (\d{4})"
)
"""The format of ``date`` with ``LC_ALL=POSIX``; its groups are the arguments of `posix_date`."""


def posix_date(moment: str, zone: str, year: str) -> datetime | None:
    """Return the time in `POSIX_DATE`: aware if the zone is UTC; others are not unique.

    Examples
    --------
    >>> posix_date("Nov 20 16:15:22", "UTC", "2026").isoformat()
    '2026-11-20T16:15:22+00:00'
    """
    at = time_of(f"{moment} {year}", "%b %d %H:%M:%S %Y")
    return at.replace(tzinfo=UTC) if at is not None and zone in ("UTC", "GMT") else at


def time_since_1970(seconds: float | None) -> datetime | None:
    """Return a time in UTC; ``None`` for 0 seconds and invalid values."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


_SIZE: Final = re.compile(r"([0-9]{1,18})([kmgtpe]?)(?:i?b)?", re.IGNORECASE)


def size_of(text: str) -> int | None:
    """Parse a size in bytes, with k = 1024; ``None`` if it is not a size.

    Examples
    --------
    >>> size_of("4096"), size_of("64k"), size_of("1MiB"), size_of("1x")
    (4096, 65536, 1048576, None)
    """
    match = _SIZE.fullmatch(text)
    return match and int(match[1]) * 1024 ** " kmgtpe".index(match[2].lower() or " ")


def options_of(
    words: Iterable[str], valued: Set[str], attached: Set[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """Yield name and value of each option, as ``getopt`` does; "" for one without a value.

    An option with a value takes the next word, whatever it looks like, unless the value is in the
    same word: ``-n 5``, ``-n5``, ``-n=5``, ``-Fun 5``, ``--name=value``.

    Parameters
    ----------
    words
        The command line without the program.
    valued
        Options that take a value.
    attached
        Letters of options that take a value only from the same word.

    Examples
    --------
    >>> list(options_of(("-Fun", "5", "-b=1m", "--direct"), {"n", "b"}))
    [('F', ''), ('u', ''), ('n', '5'), ('b', '1m'), ('direct', '')]
    """
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            yield name, next(rest, "") if name in valued and not equals else value
        elif word.startswith("-"):
            for place, letter in enumerate(word[1:], start=2):
                after = word[place:]
                takes = letter in valued
                if takes or letter in attached or after.startswith("="):
                    yield letter, next(rest, "") if takes and not after else after.removeprefix("=")
                    break
                yield letter, ""


ASK_WHOSE: Final = "is the scheduler the one that you started, and are all workers yours?"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class NotOfType(ValueError):
    """A value to send, or one that arrived, is not of its declared type."""


def packed(kind: Any, value: Any) -> bytes:
    """Return a value of a type as bytes; numbers of numpy as those of Python."""
    return _adapter(kind).dump_json(value, warnings=False, fallback=methodcaller("item"))


def unpacked(kind: Any, data: Any) -> Any:
    """Return the value of a type that bytes from elsewhere stand for.

    Raises
    ------
    NotOfType
        They stand for none.
    """
    if type(data) is not bytes:
        raise NotOfType("an answer is not bytes")
    try:
        return _adapter(kind).validate_json(data, strict=True)
    except Exception as error:
        import polars as pl  # which an answer without a table does not need

        ours = (TrimtabError, pl.exceptions.PolarsError, OSError, TypeError, ValueError)
        if not isinstance(error, ours):
            raise
        raise NotOfType(visible(f"{type(error).__name__}: {error}"[:300])) from error


def plain_file(directory: str | Path, name: str) -> Path:
    """Return a file in a directory, of the name that a worker gave it.

    Raises
    ------
    ToolError
        The name leads elsewhere.
    """
    if _NAME.fullmatch(name) is None:
        raise ToolError(
            f"a worker names the file {visible(name[:100])}, which leads elsewhere",
            code="answer-malformed",
            hint=ASK_WHOSE,
        )
    return Path(directory, name)


@cache  # each call would make types of its own, of which nothing was made before
def answer_type(question: Any) -> Any:
    """Return the type that a kind of question declares its answers to be of."""
    import polars as pl
    from pydantic import PlainSerializer, PlainValidator

    from trimtab._core import Tally

    def as_text(write: Any, read: Any) -> Any:
        return (
            PlainValidator(lambda text: read(b64decode(text, validate=True))),
            PlainSerializer(lambda value: b64encode(write(value)).decode()),
        )

    table = Annotated[pl.DataFrame, *as_text(_ipc, lambda data: pl.read_ipc(BytesIO(data)))]
    tally = Annotated[Tally, *as_text(lambda tally: tally.to_bytes(), Tally.from_bytes)]
    of_large = {"pl": SimpleNamespace(DataFrame=table), "Tally": tally}
    return get_type_hints(question.answer, localns=of_large, include_extras=True)["return"]


def _ipc(frame: Any) -> bytes:
    buffer = BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    # Without it what is not finite would be sent as null; a dataclass takes no configuration.
    config = None if is_dataclass(kind) else ConfigDict(ser_json_inf_nan="constants")
    return TypeAdapter(kind, config=config)
