"""A JSON file with the line of each figure, and the settings beside it."""

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
MIB: Final = 2**20
GIB: Final = 2**30
# Means and rates are printed with all digits of a double; adding in another order moves the last.
_TOLERANCE: Final = 1e-9

_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object with the line of each of its figures."""

    value: dict[str, Any]
    lines: dict[_Path, int]

    def number(self, *path: str) -> float | None:
        """Return the figure at a path, ``None`` where there is none."""
        return as_number(self._at(path))

    def numbers(self, *path: str) -> list[float | None]:
        """Return a list of figures, ``None`` for what is no figure."""
        return [as_number(number) for number in as_list(self._at(path))]

    def _at(self, path: Sequence[str]) -> object:
        return reduce(lambda value, key: as_dict(value).get(key), path, self.value)


def document_of(source: Source, name: str = "a file of MLPerf Storage") -> Document:
    """Return the object that a JSON file holds.

    Raises
    ------
    DataError
        It is cut, or no object; with the line where it stops being JSON.
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
        raise DataError(f"this is not {name}: it is no JSON object", code="not-this-format", line=1)
    return Document(value, _lines(source.text))


_TOKEN: Final = re.compile(r'\n|[{}\[\],:]|"(?:[^"\\\n]|\\.)*"|[^\s{}\[\],:"]+')


# Of a summary a few thousand; what is far longer is none, and not worth the time.
_TOKENS_MAXIMUM: Final = 500_000


def _lines(text: str) -> dict[_Path, int]:
    """Return the line of every value of a JSON text that is known to be right."""
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

    That is all that DLIO's configurations hold of interest; what is in another form is left out.
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
    """Return a figure that may stand in quotes; ``None`` for what is none."""
    if not isinstance(value, str):
        return as_number(value)
    match = re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", value)
    return None if match is None else float(value)


def whole(value: object) -> int | None:
    """Return a whole number that may stand in quotes; ``None`` for what is none."""
    if isinstance(value, str):
        return whole_of(value)
    return as_whole(value)


def mean_reason(name: str, figures: Sequence[float | None], mean: float | None) -> str | None:
    """Return why figures and the mean that stands beside them do not fit together."""
    known = [figure for figure in figures if figure is not None]
    if mean is None or len(known) < len(figures):
        return Message("figures-incomplete", f"a figure or the mean of {name} is missing")
    expected = sum(known) / len(known) if known else 0.0
    if math.isclose(expected, mean, rel_tol=_TOLERANCE):
        return None
    text = f"the mean of {name} is given as {mean:g}, its figures give {expected:g}"
    return Message("figures-disagree", text)
