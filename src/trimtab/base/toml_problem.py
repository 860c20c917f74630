"""Problems of a TOML file, each with code, line, table and key.

tomllib returns only values, so the lines of keys are found in the text.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from trimtab.base.error import UsageError, visible
from trimtab.base.units import is_digits

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


NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
"""Names of sites, probes, launchers and policies, which occur in file names, units and URLs."""
SHOWN_PROBLEMS: Final = 5
"""A user fixes the first few problems and tries again."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file cannot be used.

    Attributes
    ----------
    location
        Table and key: ``("probe", "hourly", "launcher")``.
    message
        The problem, without its place.
    code
        Stable name of the problem: ``unknown-key``, ``wrong-type``, ``out-of-range``,
        ``missing-key``, ``malformed-value``, ``unknown-value``; ``contradiction`` if keys exclude
        each other.
    """

    location: Location
    message: str
    hint: str | None = None
    code: str = "contradiction"


class ConfigError(UsageError):
    """A file with problems: the message has the first few, `problems` all of them.

    Its code is that of the first.
    """

    code = "config"

    def __init__(self, message: str, problems: Sequence[Problem], *, hint: str | None) -> None:
        super().__init__(message, code=problems[0].code, hint=hint)
        self.problems = tuple(problems)


class BadValue(UsageError):
    """An invalid value of a key.

    Parameters
    ----------
    within
        Path within the value to the error, if it is a table.
    """

    code = "malformed-value"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        within: Location = (),
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.within = within


def problem_of(error: UsageError, location: Location) -> Problem:
    """Convert an error of a value to a problem of its key."""
    if isinstance(error, BadValue):
        return Problem((*location, *error.within), error.message, error.hint, error.code)
    return Problem(location, error.message, error.hint, BadValue.code)


def config_error(problems: Sequence[Problem], source: str, lines: Lines) -> ConfigError:
    """Combine all problems of a file into one error; a single one keeps its hint.

    Parameters
    ----------
    problems
        At least one.
    source
        The file's name in the error.
    """

    def text(problem: Problem) -> str:
        line = lines.line_of(problem.location)
        file = source if line is None else f"{source}:{line}"
        return f"{file}: {lines.place_of(problem.location)}: {problem.message}"

    shown = problems[:SHOWN_PROBLEMS]
    if len(problems) == 1:
        return ConfigError(text(shown[0]), problems, hint=shown[0].hint)
    texts = [text(each) + (f" ({each.hint})" if each.hint else "") for each in shown]
    if len(problems) > len(shown):
        texts.append(f"and {len(problems) - len(shown)} more")
    return ConfigError("; ".join(texts), problems, hint=None)  # one line: it goes to logs as well


def unknown_key(location: Location, known: Iterable[str], elsewhere: Iterable[str]) -> Problem:
    """Return the problem of an unknown key or table, with a suggestion.

    Parameters
    ----------
    known
        The keys of its table, or all tables.
    elsewhere
        Tables that have such a key.
    """
    *above, key = location
    names, others = list(known), [f"[{name}]" for name in elsewhere]
    hint = did_you_mean(key, names) or (
        f"{key} is a key of {' and '.join(others)}" if others else f"known: {', '.join(names)}"
    )
    noun = "key" if above else "table"
    return Problem(location, f"there is no such {noun}", hint, f"unknown-{noun}")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Suggest the closest known word; ``None`` if none is close."""
    near = difflib.get_close_matches(word[:80], list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else None


def name_problems(name: str, location: Location) -> Iterable[Problem]:
    """Yield a problem for an invalid name: it occurs in file names, units and URLs."""
    if not NAME.fullmatch(name):
        yield Problem(
            location,
            f"{visible(name[:80])!r} is not a name",
            "use lower-case letters, digits and inner dashes, at most 64",
            "name-invalid",
        )


def raised(problem: Problem, place: str = "") -> UsageError:
    """Convert a problem to a separate error, without a file."""
    message = f"{place}: {problem.message}" if place else problem.message
    return UsageError(message, code=problem.code, hint=problem.hint)
