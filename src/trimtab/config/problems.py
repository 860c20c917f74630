"""Problems of a configuration file, each with code, line, table and key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.config.lines import Lines, Location
from trimtab.errors import UsageError
from trimtab.visible import visible

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
