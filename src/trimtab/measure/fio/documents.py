"""Finds the JSON objects in fio's output, and the line of each number.

fio prints one object at its end, and with ``--status-interval`` one per interval. Its error
messages come before it on the same stream. An object starts with ``{`` at the start of a line; its
content is indented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Final

from trimtab.measure.plain import as_dict, as_list
from trimtab.message import Message
from trimtab.model.run import Access

_EDGES: Final = re.compile(
    r"^(?:(?P<opens>\{)[ \t\r]*$|(?P<closes>\}))"
    r'|(?P<line>\{[ \t]*"fio version".*)|(?P<behind>\{)[ \t\r]*\n(?=[ \t]*"fio version")',
    re.MULTILINE,
)
"""Start and end of an object, or an object that another program put on one line.

An object that starts with fio's version may follow other text on its line.
"""
_NO_NUMBER: Final = re.compile(r'(?<=")( ?: ?)(?:-?nan|-?inf)(?=[,\s}])')
"""What C prints for NaN and infinity, which JSON does not have."""
_ODD_MAXIMUM: Final = 1000
"""Unmatched starts and ends: a text with more is not fio's output and is given up."""
_COMPLAINT: Final = re.compile(r"^fio:.*", re.MULTILINE)
_SAID_MAXIMUM: Final = 200
"""Error lines that are kept; further ones repeat them, except one about a signal."""
_KEY: Final = re.compile(r'\s*"([^"\\]{1,60})" ?: ?')
_LINES_LEFT_OUT: Final = frozenset({"bins", "job options", "global options", "disk_util"})


@dataclass(frozen=True)
class Document:
    """One JSON object of fio.

    Attributes
    ----------
    value
        The decoded object.
    text
        Its text in the output.
    first_line
        Its first line in the output, from 1.
    mixed
        Names of numbers that occur twice with different values: two mixed outputs.
    """

    echoes_options: ClassVar[bool] = True
    """Whether an option missing in a job's list was certainly not given."""
    value: dict[str, Any]
    text: str
    first_line: int
    mixed: tuple[str, ...] = ()

    def doubt(self, job: int, access: Access) -> Message | None:
        """Return a reason to doubt a job's figures that does not follow from their values."""
        return None

    @cached_property
    def jobs(self) -> list[dict[str, Any]]:
        """Its jobs or groups of jobs, the units of fio's figures; of all hosts of a client."""
        listed = as_list(self.value.get("client_stats" if self.is_of_client else "jobs"))
        jobs = [job for job in listed if isinstance(job, dict)]
        if self.is_of_client and len(jobs) > 1 and jobs[-1].get("jobname") == "All clients":
            jobs.pop()  # the total of the others
        return jobs

    @property
    def is_of_client(self) -> bool:
        """Whether ``fio --client`` printed it, for servers on other hosts."""
        return "client_stats" in self.value

    @cached_property
    def options(self) -> dict[str, Any]:
        """The global options, which fio echoes since 2.3."""
        return as_dict(self.value.get("global options"))

    def line_of(self, job: int, *path: str) -> int:
        """Return the line of a job's number, given its path: ``write``, ``clat_ns``, ``mean``.

        For a number without its own line, returns that of the enclosing object.
        """
        while path:
            line = self._lines.get((job, *path))
            if line is not None:
                return line
            path = path[:-1]
        return self.first_line

    @cached_property
    def _lines(self) -> dict[tuple[int | str, ...], int]:
        """Job and path of keys to line, built in one pass."""
        lines: dict[tuple[int | str, ...], int] = {}
        job, path, left_out = -1, [], 0
        for number, line in enumerate(self.text.split("\n"), start=self.first_line):
            stripped = line.strip()
            match = None if left_out else _KEY.match(line)
            key = match[1] if match else ""
            if key == "jobname":
                job, path = job + 1, []
            elif key and job >= 0:
                lines.setdefault((job, *path, key), number)
            if stripped.endswith("{"):
                if left_out or key in _LINES_LEFT_OUT:
                    left_out += 1
                else:
                    path.append(key)
            elif stripped.startswith("}"):
                if left_out:
                    left_out -= 1
                elif path:
                    path.pop()
        return lines


@dataclass(frozen=True, slots=True)
class Output:
    """A parsed output of fio.

    Attributes
    ----------
    documents
        Its complete JSON objects, in order.
    complaints
        The error lines before each of them, and one more list: those after the last.
    unfinished
        Whether the last object is incomplete.
    """

    documents: list[Document] = field(default_factory=list)
    complaints: list[list[str]] = field(default_factory=list)
    unfinished: bool = False


def take_apart(text: str) -> Output:
    """Return the JSON objects and error lines of an output. Never raises.

    Takes time linear in the length of the text: no part is decoded twice.
    """
    text = _NO_NUMBER.sub(r"\1null", text)
    output = Output()
    broken, position, line, counted = 0, 0, 1, 0
    for start, end in _segments(text):
        if broken > _ODD_MAXIMUM:
            break
        # An object on one line may be followed by other text.
        document = None if end is None else _decoded(text[start:end])
        if end is None or document is None:
            broken += 1
            continue
        line, counted = line + text.count("\n", counted, start), start
        value, mixed = document
        output.complaints.append(list(_complaints(text[position:start])))
        output.documents.append(Document(value, text[start:end], line, mixed))
        position = end
    output.complaints.append(list(_complaints(text[position:])))
    return Output(output.documents, output.complaints, broken > 0)


def _segments(text: str) -> Iterator[tuple[int, int | None]]:
    """Yield start and end of each object at the start of a line; no end if incomplete."""
    begin: int | None = None
    odd = 0
    for edge in _EDGES.finditer(text):
        if odd > _ODD_MAXIMUM:
            return
        if edge["closes"] is not None:
            if begin is not None:
                yield begin, edge.end()
            else:
                odd += 1
            begin = None
            continue
        if begin is not None:
            odd += 1
            yield begin, None
        begin = None if edge["line"] is not None else edge.start()
        if begin is None:
            yield edge.start(), edge.end()
    if begin is not None:
        yield begin, None


def _decoded(text: str) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Decode an object, and return which of its numbers occur twice with other values."""
    twice: list[str] = []
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: _object(pairs, twice))
    try:
        value, _ = decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "fio version" not in value:
        return None
    return value, tuple(dict.fromkeys(twice))


def _object(pairs: list[tuple[str, Any]], twice: list[str]) -> dict[str, Any]:
    """Build an object, and note names that occur twice with different values."""
    value = dict(pairs)
    if len(value) != len(pairs):
        # fio 2 pads its percentiles with "0.00" : 0; options are strings and may repeat.
        twice += [
            key
            for key, member in pairs
            if key != "0.00" and not isinstance(member, str) and member != value[key]
        ]
    return value


def _complaints(text: str) -> Iterator[str]:
    for number, complaint in enumerate(islice(_COMPLAINT.finditer(text), 100 * _SAID_MAXIMUM)):
        if number < _SAID_MAXIMUM or "terminating on signal" in complaint[0]:
            yield complaint[0].rstrip("\r")
