"""Where a key stands in a TOML text: tomllib tells values, not lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

_SIMPLE_KEY = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_KEY = rf"{_SIMPLE_KEY}(?:[ \t]*\.[ \t]*{_SIMPLE_KEY})*"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TABLE_LINE = re.compile(rf"[ \t]*\[[ \t]*({_KEY})[ \t]*\]")
_KEY_LINE = re.compile(rf"[ \t]*({_KEY})[ \t]*=")
_LONG_TEXT = re.compile(r'"""|\'\'\'')

Lines = dict[tuple[str, ...], int]


def key_lines(text: str) -> Lines:
    """Return the line, counted from 1, of every table and key of a text that tomllib accepts.

    Keys inside an inline table stand on the line of the key that holds it.
    """
    lines: Lines = {}
    table: tuple[str, ...] = ()
    inside_long_text = False
    for number, line in enumerate(text.split("\n"), start=1):
        if not inside_long_text:
            if found := _TABLE_LINE.match(line):
                table = _parts(found.group(1))
                lines.setdefault(table, number)
            elif found := _KEY_LINE.match(line):
                lines.setdefault((*table, *_parts(found.group(1))), number)
        if len(_LONG_TEXT.findall(line)) % 2:
            inside_long_text = not inside_long_text
    return lines


def line_of(lines: Lines, location: Sequence[str]) -> int | None:
    """Return the line of a key, else of the nearest table around it; ``None`` for the file."""
    location = tuple(location)
    while location:
        if location in lines:
            return lines[location]
        below = [n for key, n in lines.items() if key[: len(location)] == location]
        if below:
            return min(below)  # [probe.hourly] without a [probe]
        location = location[:-1]
    return None


def _parts(key: str) -> tuple[str, ...]:
    """Return a dotted key's parts: TOML's own reader knows quotes and escapes."""
    if _BARE_KEY.fullmatch(key):
        return (key,)
    try:
        value: object = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return (key,)  # not a key after all: a line within a list
    parts = []
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return tuple(parts)
