"""Parses the blocks of ``lst stat``, and the lines between them. Pure.

::

    SESSION: bw FEATURES: 1 TIMEOUT: 60 FORCE: No
    b1 is running now
    [LNet Rates of clients]
    [R] Avg: 2511     RPC/s Min: 2511     RPC/s Max: 2511     RPC/s
    [W] Avg: 2513     RPC/s Min: 2513     RPC/s Max: 2513     RPC/s
    [LNet Bandwidth of clients]
    [R] Avg: 627.12   MiB/s Min: 627.12   MiB/s Max: 627.12   MiB/s
    [W] Avg: 627.12   MiB/s Min: 627.12   MiB/s Max: 627.12   MiB/s

R is what the nodes of the group received, W what they sent. ``Avg``, ``Min`` and ``Max`` are over
the nodes of the group, per node and not summed. The figures are differences of LNet's own counters
between two readings, so they include all traffic of the node.

Unit: until Lustre 2.8 the text was always ``MB/s`` and the figure MiB/s; since 2.9 it is ``MiB/s``,
and with ``--mbs`` MB/s is 10^6 bytes per second (b7ac3e6bcd, LU-7977). The new MB/s is recognised
by two blanks after the last figure of a line with ``Max``.

Source: lnet/utils/lst.c (``lst_cal_lnet_stat``, ``lst_print_lnet_stat``, ``lst_print_stat``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal

from trimtab.errors import DataError
from trimtab.measure.plain import whole_lines
from trimtab.message import Message
from trimtab.units import MIB

Direction = Literal["R", "W"]

_MB: Final = 10**6
_LINES_MAXIMUM: Final = 2_000_000
_UNIT_UNKNOWN: Final = Message(
    "unit-unknown",
    "MB/s is MiB/s until Lustre 2.8, 10^6 B/s from 2.9: the text does not show which",
)

PROMPT: Final = (
    r"(?:\[[^\[\]\n]{1,120}\]|[^\s@\[\]]{1,64}@[^\s:]{1,120}:[^\n#$]{0,120}"
    r"|[\w.-]{1,120}:\S{1,120} )[#$>] "
)
"""``[root@mds01 ~]# ``, ``root@mds01:~# ``, ``mds01:~ # ``: ``lst stat &`` prints after it."""
_PROMPT: Final = re.compile(PROMPT)
_HEADER: Final = re.compile(r"\[LNet (Rates|Bandwidth) of ([^\]\s]{1,255})\]")
# ``%-8.0f`` and ``%-8.2f``: a figure that lost a digit does not fill its column.
_RATE: Final = re.compile(
    r"(Avg|Min|Max): ((?=\d+ *R)(?:[\d ]{8}|\d{9,15})) RPC/s(?: |$)", re.ASCII
)
_BANDWIDTH: Final = re.compile(
    r"(Avg|Min|Max): ((?=\d+\.\d\d *M)(?:[\d. ]{8}|\d{6,12}\.\d\d)) (MiB/s|MB/s)( *)"
)
_SESSION: Final = re.compile(r"SESSION: (\S{1,255}) FEATURES: [0-9a-f]+ TIMEOUT: \d+ FORCE: \w+")
_RUNNING: Final = re.compile(r"(\S{1,255}) is running now")
_FAILED: Final = re.compile(r"Failed to stat on (\d{1,9}) nodes")
_ERRORS: Final = re.compile(r"\S{1,255}: \[Session (\d{1,9}) brw errors, (\d{1,9}) ping errors\].*")
_COMMAND: Final = re.compile(r"(?:\++ |[#$] )?lst (add_group|add_test|stat) (.*)")
_MODERN: Final = re.compile(r"MiB/s|Max: [\d.]+ +MB/s +\r?$|(?:^|\s)--mbs(?:\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Figures:
    """One line: data that the nodes of a group received or sent.

    Attributes
    ----------
    mean, least, most
        Per node, in 1/s or B/s; ``None`` if not requested.
    """

    line: int
    mean: float | None
    least: float | None
    most: float | None
    reason: str | None = None


@dataclass(slots=True)
class Interval:
    """One reading of one group: messages, bytes, or both.

    Attributes
    ----------
    failed_nodes
        Nodes that did not answer and are not in the figures.
    """

    group: str
    line: int
    rates: dict[Direction, Figures] = field(default_factory=dict)
    bandwidths: dict[Direction, Figures] = field(default_factory=dict)
    failed_nodes: int = 0
    stopped: bool = False
    closed: bool = False


@dataclass(slots=True)
class Test:
    """The output from one start of a batch to the next.

    Attributes
    ----------
    errors
        Failed or corrupt transfers that the nodes reported.
    mixed
        Why its lines are not from a single output; if so, no figure can be attributed.
    ended
        Whether the batch was stopped.
    commands
        ``lst`` commands, if the text contains them.
    """

    session: str | None = None
    batch: str | None = None
    intervals: list[Interval] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    mixed: str | None = None
    commands: list[list[str]] = field(default_factory=list)
    ended: bool = False


def read_tests(text: str) -> tuple[tuple[Test, ...], tuple[str, ...]]:
    """Return the tests of a text, and other lines that may explain why there is none.

    Raises
    ------
    DataError
        The text is longer than any output of ``lst``.
    """
    if text.count("\n") > _LINES_MAXIMUM:
        raise DataError(
            f"more than {_LINES_MAXIMUM} lines: too many for lst", code="too-many-lines", line=1
        )
    reader = _Reader(old_unit=_MODERN.search(text) is None)
    for number, line in whole_lines(text):
        if line:
            prompt = _PROMPT.match(line)
            reader.take(number, line[prompt.end() if prompt else 0 :][:4096])
    return tuple(reader.tests), tuple(reader.others)


@dataclass(slots=True)
class _Reader:
    old_unit: bool
    tests: list[Test] = field(default_factory=lambda: [Test()])
    others: list[str] = field(default_factory=list)
    _open: tuple[Interval, str] | None = None
    _failed: int = 0

    def take(self, number: int, line: str) -> None:
        if line.startswith("["):
            if line.startswith(("[R] ", "[W] ")):
                self._figures(number, line)
            elif (header := _HEADER.fullmatch(line)) is not None:
                self._begin(number, header[2], header[1])
            else:
                self._close()
                self._other(line)
            return
        if (failed := _FAILED.fullmatch(line)) is not None:
            self._close()
            self._failed = int(failed[1])
            return
        self._close()
        self._between(line)

    def _between(self, line: str) -> None:
        test = self.tests[-1]
        if (match := _SESSION.fullmatch(line)) is not None:
            if test.intervals or test.session:
                test = Test()
                self.tests.append(test)
            test.session = match[1]
        elif (match := _RUNNING.fullmatch(line)) is not None:
            if test.intervals:
                test = Test(test.session, commands=list(test.commands))
                self.tests.append(test)
            test.batch, test.ended = match[1], False
        elif line == "Batch is stopped":
            test.ended = True
        elif (match := _ERRORS.fullmatch(line)) is not None:
            if match[1] != "0" or match[2] != "0":
                test.errors.append(line)
        elif (match := _COMMAND.fullmatch(line)) is not None and len(test.commands) < 1000:
            test.commands.append([match[1], *match[2].split()])
        else:
            self._other(line)

    def _other(self, line: str) -> None:
        if len(self.others) < 100:
            self.others.append(line)

    def _begin(self, number: int, group: str, part: str) -> None:
        test = self.tests[-1]
        previous, previous_part = self._open or (None, "")
        self._close()
        follows = (previous_part, part) == ("Rates", "Bandwidth")
        if follows and previous is not None and previous.group == group and previous.rates:
            previous.closed = False
            self._open = (previous, part)
            return
        interval = Interval(group, number, failed_nodes=self._failed, stopped=test.ended)
        self._failed = 0
        test.intervals.append(interval)
        self._open = (interval, part)

    def _close(self) -> None:
        if self._open is None:
            return
        interval, part = self._open
        if not (interval.rates if part == "Rates" else interval.bandwidths):
            self._mixed(interval.line, "has no figures")
        interval.closed = True
        self._open = None

    def _mixed(self, number: int, problem: str) -> None:
        test = self.tests[-1]
        text = f"two outputs are mixed: line {number} {problem}"
        test.mixed = test.mixed or Message("outputs-mixed", text)

    def _figures(self, number: int, line: str) -> None:
        """Read one line; in two mixed outputs some lines do not fit."""
        if self._open is None:
            self._mixed(number, "has no block")
            return
        interval, part = self._open
        direction: Direction = "R" if line[1] == "R" else "W"
        into = interval.rates if part == "Rates" else interval.bandwidths
        if direction in into or "W" in into:
            self._mixed(number, "does not follow the previous one")
            return
        read = _rates if part == "Rates" else self._bandwidths
        figures = read(number, line[4:])
        other = self._bandwidths if part == "Rates" else _rates
        if figures is None and other(number, line[4:]) is not None:
            self._mixed(number, f"is not one of {part}")
        if figures is None:
            self.tests[-1].problems.append(Message("line-damaged", f"line {number} is damaged"))
            damaged = Message("line-damaged", "the line is damaged")
            figures = Figures(number, None, None, None, damaged)
        into[direction] = figures

    def _bandwidths(self, number: int, text: str) -> Figures | None:
        matches = list(_whole(_BANDWIDTH, text))
        units = {match[3] for match in matches}
        if len(units) != 1:
            return None
        # Lustre 2.8 or before, or a newer text without its trailing blanks.
        doubtful = units == {"MB/s"} and self.old_unit
        factor = _MB if units == {"MB/s"} and not doubtful else MIB
        figures = [(match[1], float(match[2]) * factor) for match in matches]
        reason = _UNIT_UNKNOWN if doubtful else None
        return _of_line(number, figures, 0.011 * factor, reason)


def _rates(number: int, text: str) -> Figures | None:
    pairs = [(match[1], float(match[2])) for match in _whole(_RATE, text)]
    return _of_line(number, pairs, 1.0) if pairs else None


def _whole(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches that cover a text from start to end, or none."""
    matches: list[re.Match[str]] = []
    position = 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None or len(matches) == 3:
            return
        matches.append(match)
        position = match.end()
    yield from matches


def _of_line(
    number: int,
    pairs: list[tuple[str, float]],
    rounding: float,
    reason: str | None = None,
) -> Figures | None:
    """Return the figures of a line, ``None`` if it is not a line of ``lst``."""
    figures = dict(pairs)
    if [name for name, _ in pairs] != [name for name in ("Avg", "Min", "Max") if name in figures]:
        return None
    mean, least, most = (figures.get(name) for name in ("Avg", "Min", "Max"))
    # The mean is computed in single precision.
    slack = rounding + 1e-5 * max(figures.values())
    low, high = -inf if least is None else least, inf if most is None else most
    if low > high:
        reason = reason or Message("figures-disagree", "the minimum is above the maximum")
    elif mean is not None and not low - slack <= mean <= high + slack:
        text = "the mean is not between minimum and maximum"
        reason = reason or Message("figures-disagree", text)
    return Figures(number, mean, least, most, reason)
