"""Finds the lines of keys in TOML text; tomllib returns only values."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Final

from trimtab.units import is_digits
from trimtab.visible import visible

Location = tuple[str, ...]
"""Table and key: ``("probe", "hourly", "launcher")``; list entries by number, from 0."""
ELSEWHERE: Final = "*"
"""Replaces the number of an entry in another file that this one extends."""

_SIMPLE_KEY = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_KEY = rf"{_SIMPLE_KEY}(?:[ \t]*\.[ \t]*{_SIMPLE_KEY})*"
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_TABLE_LINE: Final = re.compile(rf"[ \t]*(\[?)\[[ \t]*({_KEY})[ \t]*\]")
_KEY_LINE: Final = re.compile(rf"[ \t]*({_KEY})[ \t]*=")
_LONG_TEXT: Final = re.compile(r'"""|\'\'\'')


@dataclass(frozen=True, slots=True)
class Lines:
    """The line, counted from 1, of every table and key of a file.

    Keys inside an inline table have the line of the enclosing key. The second
    ``[[exempt]]`` is the table ``("exempt", "1")``.
    """

    keys: dict[Location, int] = field(default_factory=dict)
    tables: dict[Location, int] = field(default_factory=dict)
    lists: set[Location] = field(default_factory=set)

    def line_of(self, location: Location) -> int | None:
        """Return the line of a key or its nearest enclosing table; ``None``: the file."""
        if ELSEWHERE in location:
            return None
        every = self.tables | self.keys
        while location:
            if location in every:
                return every[location]
            below = [line for key, line in every.items() if key[: len(location)] == location]
            if below:
                return min(below)  # [probe.hourly] without a [probe]
            location = location[:-1]
        return None

    def place_of(self, location: Location) -> str:
        """Format a location: ``[probe.hourly] nodes``, ``[[exempt]] 2 id``.

        Keys inside an inline table follow the enclosing key.
        """
        if location[1:2] == (ELSEWHERE,) or (len(location) > 1 and location[:1] in self.lists):
            number = f" {int(location[1]) + 1}" if is_digits(location[1]) else ""
            return " ".join((f"[[{_shown(location[0])}]]{number}", *map(_shown, location[2:])))
        depth = len(location) if location in self.tables else max(len(location) - 1, 1)
        for length in range(2, depth + 1):
            if location[:length] in self.keys:
                depth = length - 1
                break
        table = ".".join(map(_shown, location[:depth]))
        return " ".join((f"[{table}]", *map(_shown, location[depth:])))


def key_lines(text: str) -> Lines:
    """Return the lines of all tables and keys in a text that tomllib accepts."""
    lines = Lines()
    counts: dict[Location, int] = {}
    table: Location = ()
    inside_long_text = False
    for number, line in enumerate(text.split("\n"), start=1):
        if not inside_long_text:
            if match := _TABLE_LINE.match(line):
                parts = _parts(match[2])
                if match[1]:
                    counts[parts] = counts.get(parts, -1) + 1
                    lines.lists.add(parts)
                table = _numbered(parts, counts)
                lines.tables.setdefault(table, number)
            elif match := _KEY_LINE.match(line):
                lines.keys.setdefault((*table, *_parts(match[1])), number)
        if len(_LONG_TEXT.findall(line)) % 2:
            inside_long_text = not inside_long_text
    return lines


def _numbered(parts: Location, counts: dict[Location, int]) -> Location:
    """Return a table's location including numbers of enclosing lists of tables."""
    for length in range(1, len(parts) + 1):
        if parts[:length] in counts:
            return (*parts[:length], str(counts[parts[:length]]), *parts[length:])
    return parts


def _shown(part: str) -> str:
    return part if _BARE_KEY.fullmatch(part) else f'"{visible(part[:80])}"'


def _parts(key: str) -> Location:
    """Return a dotted key's parts, using tomllib for quotes and escapes."""
    if _BARE_KEY.fullmatch(key):
        return (key,)
    try:
        value: object = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return (key,)  # not a key: a line within a list
    parts = []
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return tuple(parts)
