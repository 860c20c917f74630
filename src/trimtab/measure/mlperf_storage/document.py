"""Reads a JSON file with the line of each figure, and the settings next to it."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from trimtab.errors import DataError
from trimtab.measure.plain import as_dict, as_list, as_number, as_whole, whole_of
from trimtab.measure.source import Source
from trimtab.message import Message

KIND: Final = "mlperf-storage"
# Means and rates have all digits of a double; the order of addition changes the last one.
_TOLERANCE: Final = 1e-9

_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object with the line of each figure."""

    value: dict[str, Any]
    lines: dict[_Path, int]

    def number(self, *path: str) -> float | None:
        """Return the figure at a path, ``None`` if there is none."""
        return as_number(self._at(path))

    def numbers(self, *path: str) -> list[float | None]:
        """Return a list of figures, with ``None`` for other values."""
        return [as_number(number) for number in as_list(self._at(path))]

    def _at(self, path: Sequence[str]) -> object:
        return reduce(lambda value, key: as_dict(value).get(key), path, self.value)


def document_of(source: Source, name: str = "a file of MLPerf Storage") -> Document:
    """Return the object in a JSON file.

    Raises
    ------
    DataError
        It is cut, or not an object; with the line of the error.
    """
    try:
        value = json.loads(source.text)
    except json.JSONDecodeError as error:
        problem = f"{name} is cut or damaged: {error.msg}"
        raise DataError(problem, code="json-cut", line=error.lineno) from None
    except (ValueError, RecursionError):
        problem = f"this is not {name}: its JSON cannot be read"
        raise DataError(problem, code="not-this-format", line=1) from None
    if not isinstance(value, dict):
        raise DataError(
            f"this is not {name}: it is not a JSON object", code="not-this-format", line=1
        )
    return Document(value, _lines(source.text))


_TOKEN: Final = re.compile(r'\n|[{}\[\],:]|"(?:[^"\\\n]|\\.)*"|[^\s{}\[\],:"]+')


# A summary has a few thousand; a much longer file is not one and not worth the time.
_TOKENS_MAXIMUM: Final = 500_000


def _lines(text: str) -> dict[_Path, int]:
    """Return the line of every value of a valid JSON text."""
    lines: dict[_Path, int] = {}
    path: list[str | int] = []
    line, key = 1, ""
    for token_match in itertools.islice(_TOKEN.finditer(text), _TOKENS_MAXIMUM):
        token = token_match[0]
        if token == "\n":
            line += 1
        elif token in "{[":
            lines.setdefault(tuple(path), line)
            path.append("" if token == "{" else 0)
        elif token in "}]":
            path.pop()
        elif token == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else ""
        elif token == ":":
            path[-1] = json.loads(key)
        else:
            key = token
            lines[tuple(path)] = line
    return lines


def settings_of(text: str) -> dict[str, str]:
    """Return the scalars of a YAML file of nested mappings, keyed ``workload.dataset.format``.

    DLIO's configurations need no more; other values are omitted.
    """
    values: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = re.fullmatch(r"( *)([\w-]+):(?: +(\S.*?))?\s*", line[:1000])
        if match is None:
            continue
        indent = len(match[1])
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, match[2]))
        if match[3] is not None:
            values[".".join(name for _, name in above)] = match[3].strip("'\"")
    return values


def decimal(value: object) -> float | None:
    """Parse a figure that may be quoted; ``None`` for other values."""
    if not isinstance(value, str):
        return as_number(value)
    match = re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", value)
    return None if match is None else float(value)


def whole(value: object) -> int | None:
    """Parse an integer that may be quoted; ``None`` for other values."""
    if isinstance(value, str):
        return whole_of(value)
    return as_whole(value)


def mean_reason(name: str, figures: Sequence[float | None], mean: float | None) -> str | None:
    """Return why figures contradict their mean."""
    known = [figure for figure in figures if figure is not None]
    if mean is None or len(known) < len(figures):
        return Message("figures-incomplete", f"a figure or the mean of {name} is missing")
    expected = sum(known) / len(known) if known else 0.0
    if math.isclose(expected, mean, rel_tol=_TOLERANCE):
        return None
    text = f"the mean of {name} is {mean:g}, but its figures give {expected:g}"
    return Message("figures-disagree", text)
