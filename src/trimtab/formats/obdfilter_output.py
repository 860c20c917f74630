"""Parses what obdfilter-survey writes: its summary, which it also prints, and its detail. Pure.

The summary has one line for each combination of record size, objects and threads::

    Fri Nov 20 16:15:22 UTC 2026 Obdfilter-survey for case=disk from lustre1
    ost  1 sz  1638400K rsz 1024K obj    1 thr    1 write  374.82 [ 276.80,  387.66] rewrite ...

``sz``, ``obj`` and ``thr`` are totals of all OSTs. The figure of a test is all bytes over the time
from before the threads start until the last one ends; it is KiB over 1024, so MiB/s. The brackets
have the slowest and the fastest second of any OST, in the same unit; ``SHORT`` if an OST had no
full second after its start, ``ERROR`` if one printed an error.

The columns have fixed widths: a figure that lost a digit does not fill its column, which reveals a
damaged line. A killed survey prints ``done!`` and exits with 0: only the incomplete line shows it.

In 1.8.0 the record size had no ``K``, before 2.9 the brackets had no blank.

The detail has each OST's figures::

    =======================> ost  1 sz  1638400K rsz 1024K obj    1 thr    1
    =============> Create 1 on localhost:scratch-OST0001_ecc
    create: 1 objects
    create: #1 is object id 0xa
    =============> write localhost:scratch-OST0001_ecc
    Print status every 1 seconds
    --threads: starting 1 threads on device 49 running test_brw 1600 wx q 256 1t10 p256
    1/1 Total: 276.803746/second
    Total: total 1600 threads 1 sec 4.081836 391.980472/second
    =============> write global
    3 276.803746 387.660797
    =============> Destroy 1 on localhost:scratch-OST0001_ecc

A rate is records of ``rsz`` per second: each thread counts one for each write or read it requested
(``shmem_bump``), and the time runs from the start of the last thread to the end of the last one.
``global`` has a row for each OST: seconds, then the rates of the slowest and fastest second, in
records.

Sources: lustre-iokit/obdfilter-survey/obdfilter-survey (``print_summary``, ``create_objects``,
``get_stats``), Lustre 1.8 to 2.17; lustre/utils/obd.c (``jt_obd_test_brw``, ``shmem_total``,
``shmem_snap``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final

from trimtab.base.error import DataError, Message
from trimtab.base.plain import POSIX_DATE, in_a_row, posix_date
from trimtab.base.units import MIB
from trimtab.formats.measurement import agrees, beginning

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
class SurveyShape:
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
class SummaryPart:
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
        Index of its survey in `SurveySummary.surveys`; ``None`` before the first.
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
    shape: SurveyShape
    parts: tuple[SummaryPart, ...]
    survey: int | None = None
    problem: Message | None = None
    unfinished: str | None = None
    damaged: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class SurveyTitle:
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
class SurveySummary:
    """A parsed summary, or output of a survey.

    Attributes
    ----------
    others
        Other lines with their numbers: error messages.
    """

    surveys: tuple[SurveyTitle, ...]
    lines: tuple[Line, ...]
    others: tuple[tuple[int, str], ...]


def read_summary(text: str) -> SurveySummary:
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
    surveys: list[SurveyTitle] = []
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
    return SurveySummary(tuple(surveys), tuple(lines), tuple(others))


def shape_of(match: re.Match[str]) -> SurveyShape | None:
    """Return the parameters at the start of a line, ``None`` if the columns do not fit.

    Parameters
    ----------
    found
        A match of `LINE_START`.
    """
    shape = SurveyShape(*(int(group) for group in match.groups()))
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


def _survey(match: re.Match[str]) -> SurveyTitle:
    return SurveyTitle(posix_date(*match.groups()[:3]), match[4], match[5], match[0])


def _line(
    shape: SurveyShape, halves: tuple[str, str], place: tuple[int, int | None], *, whole: bool
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


def _part(match: re.Match[str]) -> SummaryPart:
    test, rate, slowest, fastest, word = match.groups()
    low, high = (None if speed is None else float(speed) * MIB for speed in (slowest, fastest))
    return SummaryPart(test, float(rate) * MIB, low, high, word)


_MARK: Final = "=============> "
_BLOCK_MARK_REST: Final = "=========="
"""Start of a section's marker; that of a block is ten characters longer."""
_TOTAL: Final = re.compile(
    r"Total: total (\d{1,15}) threads (\d{1,6}) sec (\d{1,9}\.\d{6}) (\d{1,12}\.\d{6})/second\n"
)
_ROW: Final = re.compile(r"(-?\d{1,9}) (\d{1,12}\.\d{6}) (\d{1,12}\.\d{6})")
_CREATED: Final = re.compile(r"^create: #\d{1,6} is object id (0x[0-9a-f]{1,16}|\d{1,18})$", re.M)
_DESTROYED: Final = re.compile(
    r"^destroy: #\d{1,6} is object id (0x[0-9a-f]{1,16}|\d{1,18})$", re.M
)
_ROUNDING: Final = 1e-6
_BLOCKS_MAXIMUM: Final = 10_000
"""A survey has one per combination: hundreds at most."""


@dataclass(frozen=True, slots=True)
class TargetRate:
    """The figures of one target in one test.

    Attributes
    ----------
    client
        The echo client, as printed: ``localhost:scratch-OST0001_ecc``.
    bandwidth_bytes_per_s, elapsed_s
        ``None`` if not printed.
    line
        Line of the figure, or of the section's start if there is none.
    reason
        Why it is not credible.
    """

    client: str
    bandwidth_bytes_per_s: float | None
    elapsed_s: float | None
    line: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Extremes:
    """Slowest and fastest second of any target, as in the summary."""

    seconds: int
    slowest_bytes_per_s: float
    fastest_bytes_per_s: float


@dataclass(slots=True)
class DetailTest:
    """One test of all targets; ``extremes`` is ``None`` if its ``global`` part is incomplete."""

    name: str
    rates: list[TargetRate] = field(default_factory=list)
    extremes: Extremes | None = None
    closed: bool = False


@dataclass(slots=True)
class DetailBlock:
    """One combination of record size, objects and threads.

    Attributes
    ----------
    destroyed
        Number of targets whose objects were removed at its end.
    damaged
        Why nothing in it is credible.
    """

    shape: SurveyShape
    tests: list[DetailTest] = field(default_factory=list)
    destroyed: int = 0
    damaged: str | None = None

    @property
    def whole(self) -> bool:
        """Whether it is complete: every target's objects were removed."""
        return self.destroyed == self.shape.targets

    def damage(self, text: str) -> None:
        """Mark it as damaged."""
        self.damaged = Message("line-damaged", text)


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects that a survey created on one target."""

    client: str
    ids: tuple[int, ...]


def read_detail(text: str) -> tuple[DetailBlock, ...]:
    """Return the blocks of a detail; the last one may be incomplete.

    Raises
    ------
    DataError
        It has more blocks than any survey.
    """
    unix = text.replace("\r\n", "\n") if "\r" in text else text
    sections = unix.split(_MARK)
    blocks: list[DetailBlock] = []
    before, line = sections[0], 1 + sections[0].count("\n")
    for section in sections[1:]:
        if before.endswith(_BLOCK_MARK_REST):
            _begin(blocks, section, line)
            if len(blocks) > _BLOCKS_MAXIMUM:
                raise DataError(
                    f"more than {_BLOCKS_MAXIMUM} blocks: too many for a survey",
                    code="too-many-results",
                    line=line,
                )
        elif blocks:
            if before and not before.endswith("\n"):
                blocks[-1].damage(f"line {line} has two entries")
            _take(blocks[-1], section, line)
        before = section
        line += section.count("\n")
    return tuple(blocks)


def objects_left(text: str) -> tuple[Objects, ...]:
    """Return the objects that a survey created and did not remove, according to its detail.

    If killed, it leaves them on its targets, where no file owns them. An object is in the detail as
    soon as it exists, when `lctl create` has ended.
    """
    left: dict[str, dict[int, None]] = {}
    for section in text.replace("\r\n", "\n").split(_MARK)[1:]:
        head, _, body = section.partition("\n")
        words = head.split()
        if len(words) != 4 or words[2] != "on":
            continue
        of_client = left.setdefault(words[3], {})
        if words[0] == "Create":
            of_client |= {int(identifier, 0): None for identifier in _CREATED.findall(body)}
        elif words[0] == "Destroy":
            for object_id in _DESTROYED.findall(body):
                of_client.pop(int(object_id, 0), None)
    return tuple(Objects(client, tuple(ids)) for client, ids in left.items() if ids)


@lru_cache(maxsize=4096)
def target_of(client: str) -> str:
    """Return the target of an echo client, without host and suffix.

    Examples
    --------
    >>> target_of("localhost:scratch-OST000a_ecc")
    'scratch-OST000a'
    """
    name = client.rpartition(":")[2]
    for ending in ("_ecc", "_echo_client"):
        name = name.removesuffix(ending)
    return name


def _begin(blocks: list[DetailBlock], section: str, line: int) -> None:
    match = LINE_START.match(section)
    shape = None if match is None else shape_of(match)
    if shape is not None:
        blocks.append(DetailBlock(shape))
    elif blocks:
        blocks[-1].damage(f"line {line} does not start an entry: {beginning(section)}")


def _take(block: DetailBlock, section: str, line: int) -> None:
    head, ended, body = section.partition("\n")
    word, _, rest = head.partition(" ")
    if word == "Create" or not ended:
        return
    if word == "Destroy":
        block.destroyed += f"destroy: #{rest.partition(' ')[0]} is object id " in body
    elif rest == "global":
        if block.tests and block.tests[-1].name == word and not block.tests[-1].closed:
            _close(block, block.tests[-1], body)
        else:
            block.damage(f"line {line} ends a test that never started")
    elif " " in rest or not rest:
        block.damage(f"line {line} is unreadable: {beginning(head)}")
    else:
        if not block.tests or block.tests[-1].closed:
            block.tests.append(DetailTest(word))
        if block.tests[-1].name != word:
            block.damage(f"line {line} belongs to {beginning(word)}, not {block.tests[-1].name}")
        elif len(block.tests[-1].rates) >= block.shape.targets:
            block.damage(f"line {line} has one target too many")
        else:
            block.tests[-1].rates.append(_rate(block.shape, rest, section, line))


def _rate(shape: SurveyShape, client: str, section: str, line: int) -> TargetRate:
    position = section.rfind("\nTotal: ") + 1
    match = _TOTAL.match(section, position) if position else None
    if match is None:
        reason = Message("no-total", "no total printed for this target")
        return TargetRate(client, None, None, line, reason)
    records, threads, elapsed_s, rate = match.groups()
    elapsed, per_s, reason = float(elapsed_s), float(rate), None
    if "error" in section:
        text = f"lctl printed an error: {beginning(section[section.find('error') :])}"
        reason = Message("tool-error", text)
    elif int(threads) * shape.targets != shape.threads:
        text = f"{threads} threads, but {shape.threads // shape.targets} were requested"
        reason = Message("workload-mismatch", text)
    elif int(records) * shape.record_kib * shape.targets != shape.size_kib:
        text = f"{records} records are not its share of {shape.size_kib}K"
        reason = Message("workload-mismatch", text)
    elif not agrees(per_s, int(records), elapsed, tolerance=_ROUNDING + 1e-6 / (elapsed or 1)):
        text = f"{records} records in {elapsed_s} s do not give {rate} per second"
        reason = Message("figures-disagree", text)
    line += section.count("\n", 0, position)
    return TargetRate(client, per_s * shape.record_kib * 1024, elapsed, line, reason)


def _close(block: DetailBlock, test: DetailTest, body: str) -> None:
    test.closed = True
    rows = [_ROW.fullmatch(row) for row in body.split("\n")[:-1]]
    if len(rows) != block.shape.targets or not all(rows):
        return
    seconds, slowest, fastest = zip(*(row.groups() for row in rows if row), strict=True)
    record_bytes = block.shape.record_kib * 1024
    slowest_bytes, fastest_bytes = min(map(float, slowest)), max(map(float, fastest))
    seconds = min(map(int, seconds))
    test.extremes = Extremes(seconds, slowest_bytes * record_bytes, fastest_bytes * record_bytes)
