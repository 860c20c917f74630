"""Parses a survey's summary, which it also prints. Pure: text in, values out.

::

    Fri Nov 20 16:15:22 UTC 2026 Obdfilter-survey for case=disk from lustre1
    ost  1 sz  1638400K rsz 1024K obj    1 thr    1 write  374.82 [ 276.80,  387.66] rewrite ...

``sz``, ``obj`` and ``thr`` are totals of all OSTs. The figure of a test is all bytes over the time
from before the threads start until the last one ends; it is KiB over 1024, so MiB/s. The brackets
have the slowest and the fastest second of any OST, in the same unit; ``SHORT`` if an OST had no
full second after its start, ``ERROR`` if one printed an error.

The columns have fixed widths: a figure that lost a digit does not fill its column, which reveals a
damaged line.

A killed survey prints ``done!`` and exits with 0: only the incomplete line shows it.

Source: lustre-iokit/obdfilter-survey/obdfilter-survey (``print_summary``), Lustre 1.8 to 2.17.
In 1.8.0 the record size had no ``K``, before 2.9 the brackets had no blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from trimtab.errors import DataError
from trimtab.measure.measurement import beginning
from trimtab.measure.plain import POSIX_DATE, in_a_row, posix_date
from trimtab.message import Message
from trimtab.units import MIB

LINE_START: Final = re.compile(
    r"ost +(\d{1,6}) sz +(\d{1,15})K rsz +(\d{1,8})K? obj +(\d{1,8}) thr +(\d{1,8}) "
)
_COLUMN: Final = r"((?: {3}\d| {2}\d{2}| \d{3}|\d{4,12})\.\d\d)"
"""``%7.2f``: a figure that lost a digit does not match."""
_PART: Final = re.compile(
    rf"([a-z_]{{1,20}}) {_COLUMN} (?:\[{_COLUMN}, ?{_COLUMN}\]| {{12}}(SHORT|ERROR))(?: |$)"
)
_HEADER: Final = re.compile(
    POSIX_DATE + r" Obdfilter-survey for case=([a-z]{1,12}) from (\S{1,255})"
)
_TITLE: Final = "Obdfilter-survey for case="
_LINES_MAXIMUM: Final = 100_000
"""A survey has one line per combination: hundreds at most."""
_TEST_ALONE: Final = re.compile(r"[a-z_]{1,20} ?")
_ENDINGS: Final = frozenset({"done!", "Terminated", "program exited with error"})


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of a line of a summary, or a block of a detail.

    Attributes
    ----------
    size_kib, objects, threads
        Totals of all targets, as printed.
    record_kib
        Size of one write or read.
    """

    targets: int
    size_kib: int
    record_kib: int
    objects: int
    threads: int

    @property
    def sound(self) -> bool:
        """Whether the parameters are possible: each target gets the same share."""
        if 0 in (self.targets, self.size_kib, self.record_kib, self.objects, self.threads):
            return False
        shares = (self.size_kib, self.objects, self.threads)
        if any(share % self.targets for share in shares) or self.threads % self.objects:
            return False
        # Threads write whole records, and all the same number.
        return self.size_kib % (self.record_kib * self.threads) == 0

    @property
    def name(self) -> str:
        """Name that distinguishes it from others of its survey."""
        return f"rsz {self.record_kib}K obj {self.objects} thr {self.threads}"


@dataclass(frozen=True, slots=True)
class Part:
    """One test of one line.

    Attributes
    ----------
    bandwidth_bytes_per_s
        Total of all targets.
    slowest_bytes_per_s, fastest_bytes_per_s
        Of one target in one second; ``None`` if there is a ``word`` instead.
    word
        ``SHORT`` or ``ERROR``.
    """

    test: str
    bandwidth_bytes_per_s: float
    slowest_bytes_per_s: float | None = None
    fastest_bytes_per_s: float | None = None
    word: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line, as far as it is readable.

    Attributes
    ----------
    survey
        Index of its survey in `Summary.surveys`; ``None`` before the first.
    problem
        Why it is incomplete.
    unfinished
        The test that was running when the line ended; ``None`` if none was.
    damaged
        Whether it has text that no survey prints.
    text
        As printed.
    """

    number: int
    shape: Shape
    parts: tuple[Part, ...]
    survey: int | None = None
    problem: Message | None = None
    unfinished: str | None = None
    damaged: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Survey:
    """The title above the lines: time, host and case.

    Attributes
    ----------
    began
        Aware if the zone is UTC; other abbreviations are not unique.
    case
        ``disk``, ``network`` or ``netdisk``.
    title
        The title line itself.
    """

    began: datetime | None
    case: str
    host: str
    title: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A parsed summary, or output of a survey.

    Attributes
    ----------
    others
        Other lines with their numbers: error messages.
    """

    surveys: tuple[Survey, ...]
    lines: tuple[Line, ...]
    others: tuple[tuple[int, str], ...]


def read_summary(text: str) -> Summary:
    """Return the lines of a summary; an incomplete last one is read as far as possible.

    Raises
    ------
    DataError
        It has more lines than any survey.
    """
    if text.count("\n") > _LINES_MAXIMUM:
        raise DataError(
            f"more than {_LINES_MAXIMUM} lines: not an obdfilter-survey",
            code="too-many-lines",
            line=1,
        )
    surveys: list[Survey] = []
    lines: list[Line] = []
    others: list[tuple[int, str]] = []
    for number, line, whole in _lines(text):
        if _TITLE in line and (match := _HEADER.fullmatch(line)) is not None:
            surveys.append(_survey(match))
        elif (start := LINE_START.match(line)) is not None:
            shape = shape_of(start)
            if shape is None:
                others.append((number, Message("line-damaged", f"line {number} is damaged")))
                continue
            place = (number, len(surveys) - 1 if surveys else None)
            lines.append(_line(shape, (start[0], line[start.end() :]), place, whole=whole))
        elif line.strip() and len(others) < 100:
            others.append((number, line.strip()))
    return Summary(tuple(surveys), tuple(lines), tuple(others))


def shape_of(match: re.Match[str]) -> Shape | None:
    """Return the parameters at the start of a line, ``None`` if the columns do not fit.

    Parameters
    ----------
    found
        A match of `LINE_START`.
    """
    shape = Shape(*(int(group) for group in match.groups()))
    unit = "K" if "K obj" in match[0] else ""
    printed = (
        f"ost {shape.targets:2d} sz {shape.size_kib:8d}K rsz {shape.record_kib:4d}{unit}"
        f" obj {shape.objects:4d} thr {shape.threads:4d} "
    )
    return shape if match[0] == printed and shape.sound else None


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield number, text and whether the line is complete."""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if len(line) <= 4096:
            yield number, line.rstrip("\r"), number < len(lines)


def _survey(match: re.Match[str]) -> Survey:
    return Survey(posix_date(*match.groups()[:3]), match[4], match[5], match[0])


def _line(
    shape: Shape, halves: tuple[str, str], place: tuple[int, int | None], *, whole: bool
) -> Line:
    number, survey = place
    matches, rest = in_a_row(_PART, halves[1])
    parts = tuple(map(_part, matches))
    printed = "".join(halves).rstrip()
    problem, unfinished, damaged = None, None, False
    if rest:
        running = rest
        for ending in _ENDINGS:
            running = running.removesuffix(ending)
        if _TEST_ALONE.fullmatch(running):
            unfinished = running.strip()
            problem = Message("run-unfinished", f"it ended during {unfinished}")
        else:
            text = f"it is unreadable from: {beginning(rest)}"
            problem, damaged = Message("line-damaged", text), whole
    elif not parts:
        problem = Message("run-unfinished", "the output ends before the first test")
    elif not whole:
        problem = Message("end-unknown", "its end is missing")
    return Line(number, shape, parts, survey, problem, unfinished, damaged, printed)


def _part(match: re.Match[str]) -> Part:
    test, rate, slowest, fastest, word = match.groups()
    low, high = (None if speed is None else float(speed) * MIB for speed in (slowest, fastest))
    return Part(test, float(rate) * MIB, low, high, word)
