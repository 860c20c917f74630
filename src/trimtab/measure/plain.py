"""Reading what others print: whole lines, and JSON values that may be anything."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

_DIGITS: Final = 18


def whole_lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield number and text of each line that has its end: the last one may have been cut.

    Examples
    --------
    >>> list(whole_lines("one\r\ntwo\nthr"))
    [(1, 'one'), (2, 'two')]
    """
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        yield number, line.rstrip("\r")


def whole_of(text: str) -> int | None:
    """Return a whole number that is printed in digits; ``None`` for anything else.

    More than 18 digits count nothing that there is, and do not fit where they are kept.

    Examples
    --------
    >>> whole_of("42"), whole_of("-1"), whole_of("9" * 20)
    (42, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def as_number(value: object) -> float | None:
    """Return a figure that is finite and not negative, else ``None``; ``True`` is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def as_whole(value: object) -> int | None:
    """Return a whole number, else ``None``; ``True`` is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_dict(value: object) -> dict[str, Any]:
    """Return an object, an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a list, an empty one in place of anything else."""
    return value if isinstance(value, list) else []
