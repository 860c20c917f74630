"""The JSON objects in an output of fio, and the line that each number of them stands on.

fio prints one object at its end, and with ``--status-interval`` one each time. Its complaints come
on the same stream, before it. An object begins a line with ``{``; what is in it is indented.
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
"""Where an object begins and ends, or one that another program has put on one line.

What begins with fio's version may stand behind other text on its line.
"""
_NO_NUMBER: Final = re.compile(r'(?<=")( ?: ?)(?:-?nan|-?inf)(?=[,\s}])')
"""What C prints for a number that is none; JSON has no word for it."""
_ODD_MAXIMUM: Final = 1000
"""Ends without a beginning and the reverse: what has more is no output of fio, and not tried on."""
_COMPLAINT: Final = re.compile(r"^fio:.*", re.MULTILINE)
_SAID_MAXIMUM: Final = 200
"""Lines of complaint that are kept; more say the same, but for one that tells of a signal."""
_KEY: Final = re.compile(r'\s*"([^"\\]{1,60})" ?: ?')
_LINES_LEFT_OUT: Final = frozenset({"bins", "job options", "global options", "disk_util"})


@dataclass(frozen=True)
class Document:
    """One JSON object of fio.

    Attributes
    ----------
    value
        What it says.
    text
        As it stands in the output.
    first_line
        Of the output, counted from 1.
    mixed
        Names of numbers that it gives twice, differently: two outputs in one.
    """

    echoes_options: ClassVar[bool] = True
    """Whether an option that is not among those of a job was not given."""
    value: dict[str, Any]
    text: str
    first_line: int
    mixed: tuple[str, ...] = ()

    def doubt(self, job: int, access: Access) -> Message | None:
        """Return why figures of a job are not to be believed, apart from what they are."""
        return None

    @cached_property
    def jobs(self) -> list[dict[str, Any]]:
        """Its jobs, or groups of them: what fio gives figures of; of all hosts of a client."""
        listed = as_list(self.value.get("client_stats" if self.is_of_client else "jobs"))
        jobs = [job for job in listed if isinstance(job, dict)]
        if self.is_of_client and len(jobs) > 1 and jobs[-1].get("jobname") == "All clients":
            jobs.pop()  # the sum of the others
        return jobs

    @property
    def is_of_client(self) -> bool:
        """Whether ``fio --client`` printed it, for servers on other hosts."""
        return "client_stats" in self.value

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options that hold for all jobs, as fio echoes them since 2.3."""
        return as_dict(self.value.get("global options"))

    def line_of(self, job: int, *path: str) -> int:
        """Return the line of a number of a job, as ``write``, ``clat_ns``, ``mean``.

        Of one that stands on no line of its own, the line of what it is in.
        """
        while path:
            line = self._lines.get((job, *path))
            if line is not None:
                return line
            path = path[:-1]
        return self.first_line

    @cached_property
    def _lines(self) -> dict[tuple[int | str, ...], int]:
        """Job and path of keys to line; one pass, whatever the number of jobs."""
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
    """An output of fio, taken apart.

    Attributes
    ----------
    documents
        Its JSON objects that are whole, in order.
    complaints
        For each of them the lines of complaint before it, and one more list: those after the last.
    unfinished
        Whether an object begins that does not end.
    """

    documents: list[Document] = field(default_factory=list)
    complaints: list[list[str]] = field(default_factory=list)
    unfinished: bool = False


def take_apart(text: str) -> Output:
    """Return the JSON objects of an output and what fio said beside them. Never raises.

    Time is linear in the length of the text: no part of it is decoded twice.
    """
    text = _NO_NUMBER.sub(r"\1null", text)
    output = Output()
    broken, position, line, counted = 0, 0, 1, 0
    for start, end in _segments(text):
        if broken > _ODD_MAXIMUM:
            break
        # On one line other text may stand behind it, too.
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
    """Yield begin and end of each object that begins a line; no end where it has none."""
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
    """Return an object of fio, and which of its numbers stand in it twice and differ."""
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
    """Return an object as JSON has it, and note what stands in it twice, differently."""
    value = dict(pairs)
    if len(value) != len(pairs):
        # fio 2 fills its list of percentiles up with "0.00" : 0; options are text, and may repeat.
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
