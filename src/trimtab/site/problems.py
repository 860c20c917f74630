"""What is wrong with a strict TOML file, told: each problem with its line, and all as one error.

Site files, policies and scenarios differ in their tables; how a person is told is the same.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from trimtab.errors import UsageError
from trimtab.site.checks import Problem
from trimtab.site.locate import Lines, key_lines
from trimtab.visible import visible

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SHOWN_PROBLEMS: Final = 5
"""A reader mends the first few, and asks again."""

Tell = Callable[[Problem], str]


def one_error(found: Sequence[Problem], tell: Tell, *, count: int | None = None) -> UsageError:
    """Return one error for the first of all problems; one alone keeps its hint apart.

    Parameters
    ----------
    found
        One at least.
    tell
        A problem with where it is; see `told`.
    count
        How many there are, where ``found`` has the first of them only.
    """
    shown = found[:SHOWN_PROBLEMS]
    more = (len(found) if count is None else count) - len(shown)
    if len(shown) == 1 and not more:
        return UsageError(tell(shown[0]), hint=shown[0].hint)
    texts = [f"{tell(one)} ({one.hint})" if one.hint else tell(one) for one in shown]
    if more:
        texts.append(f"and {more} more")
    return UsageError("; ".join(texts))  # one line: it goes to logs as well


def told(problem: Problem, source: str, line: int | None, where: str) -> str:
    """Return a problem with its file, its line where that is known, and its table and key."""
    place = source if line is None else f"{source}:{line}"
    return f"{place}: {where}: {problem.message}"


def lines_of(text: str, lists: Iterable[str] = ()) -> Lines:
    """Return the line of every table and key; tables of ``lists`` go by their number from 0.

    The second ``[[exempt]]`` is the table ``("exempt", "1")``.
    """
    names = "|".join(re.escape(name) for name in lists)
    head = re.compile(rf"[ \t]*\[\[[ \t]*({names})[ \t]*\]\]")
    counts: dict[str, int] = {}
    rewritten = []
    for line in text.split("\n"):
        found = head.match(line) if names else None
        if found is None:
            rewritten.append(line)
            continue
        noun = found[1]
        rewritten.append(f"[{noun}.{counts.get(noun, 0)}]")
        counts[noun] = counts.get(noun, 0) + 1
    return key_lines("\n".join(rewritten))


def common_problem(error: ErrorDetails, location: tuple[str, ...]) -> Problem:
    """Return what pydantic says of a value in words that are the same for every file."""
    context: Mapping[str, Any] = error.get("ctx", {})
    shown = visible(repr(error["input"])[:80])
    match error["type"]:
        case "model_type" | "dict_type" | "model_attributes_type":
            return Problem(location, "is to be a table")
        case "int_type" | "int_from_float":
            return Problem(location, f"{shown} is not a whole number")
        case "bool_type":
            return Problem(location, f"{shown} is neither true nor false")
        case "greater_than_equal" | "less_than_equal":
            bound = "at least" if "ge" in context else "at most"
            limit = context.get("ge", context.get("le"))
            return Problem(location, f"{shown} is to be {bound} {limit}")
        case _:
            return Problem(location, f"{shown}: {visible(error['msg'][:200])}")


def unknown_key(
    location: tuple[str, ...], known: Iterable[str], elsewhere: Iterable[str]
) -> Problem:
    """Return that there is no such key or table, with what was probably meant.

    Parameters
    ----------
    known
        The keys of its table, or all tables.
    elsewhere
        Tables that do have such a key.
    """
    *above, key = location
    names, others = list(known), [f"[{name}]" for name in elsewhere]
    hint = did_you_mean(key, names) or (
        f"{key} is a key of {' and '.join(others)}" if others else f"known: {', '.join(names)}"
    )
    return Problem(location, "there is no such key" if above else "there is no such table", hint)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a question about the nearest of known words; ``None``: none is near."""
    near = difflib.get_close_matches(word[:80], list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else None
