"""LNet selftest, Lustre's network throughput without disks: results of ``lst stat``. Pure.

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

Each group of a test is a result, with one repetition per interval. Data sent by clients is written,
data sent by servers is read: on the servers' side R is the write and W the read. ``lst`` does not
print a group's side: the usual names and the commands, if present, show it.

Source: lnet/utils/lst.c (``lst_cal_lnet_stat``, ``lst_print_lnet_stat``, ``lst_print_stat``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Final, Literal

from trimtab.base.error import DataError, Message
from trimtab.base.finding import Missing
from trimtab.base.plain import present, size_of, whole_lines
from trimtab.base.run import Sample
from trimtab.base.units import MIB
from trimtab.formats.measurement import (
    Mark,
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
    missing,
    told_apart,
)

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
class LnetInterval:
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
class LnetTest:
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
    intervals: list[LnetInterval] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    mixed: str | None = None
    commands: list[list[str]] = field(default_factory=list)
    ended: bool = False


def read_tests(text: str) -> tuple[tuple[LnetTest, ...], tuple[str, ...]]:
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
    reader = _LnetReader(old_unit=_MODERN.search(text) is None)
    for number, line in whole_lines(text):
        if line:
            prompt = _PROMPT.match(line)
            reader.take(number, line[prompt.end() if prompt else 0 :][:4096])
    return tuple(reader.tests), tuple(reader.others)


@dataclass(slots=True)
class _LnetReader:
    old_unit: bool
    tests: list[LnetTest] = field(default_factory=lambda: [LnetTest()])
    others: list[str] = field(default_factory=list)
    _open: tuple[LnetInterval, str] | None = None
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
                test = LnetTest()
                self.tests.append(test)
            test.session = match[1]
        elif (match := _RUNNING.fullmatch(line)) is not None:
            if test.intervals:
                test = LnetTest(test.session, commands=list(test.commands))
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
        interval = LnetInterval(group, number, failed_nodes=self._failed, stopped=test.ended)
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


KIND: Final = "lnet-selftest"
Side = Literal["client", "server"]

_SIDES: Final[dict[str, Side]] = {
    **dict.fromkeys(("client", "clients", "reader", "readers", "writer", "writers"), "client"),
    **dict.fromkeys(("lfrom", "from"), "client"),
    **dict.fromkeys(("server", "servers", "oss", "mds", "lto", "to"), "server"),
}
"""Names in the manual, lst-survey and lst.sh; case is ignored."""
_METRICS: Final[dict[tuple[Side, Direction], str]] = {
    ("client", "R"): "read_bandwidth",
    ("client", "W"): "write_bandwidth",
    ("server", "R"): "write_bandwidth",
    ("server", "W"): "read_bandwidth",
}
_HEADERS_BYTES: Final = 512
"""A message without data has about 160 bytes; a direction's mean near that has no data."""
_HEADERS_FRACTION: Final = 0.02
_NID: Final = re.compile(r"[0-9A-Za-z.:\[\],/*-]{1,120}@[a-z0-9]{1,16}")
_BRACKET: Final = re.compile(r"\[([\d,/-]{1,100})\]")
_PART: Final = re.compile(r"(\d{1,5})(?:-(\d{1,5})(?:/(\d{1,5}))?)?")
_SIZE: Final = re.compile(r"size=(\d{1,9}[kKmM]?)")
_WORDS: Final = {
    "--concurrency": "concurrency",
    "--distribute": "distribute",
    "--loop": "loop",
}


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return one result for each group and test; raise DataError if nothing was measured."""
    tests, others = read_tests(source.text)
    groups = [
        _LnetGroup(test, group)
        for test in tests
        for group in dict.fromkeys(interval.group for interval in test.intervals)
    ]
    if not groups:
        complaints = "; ".join([*others, *(error for test in tests for error in test.errors)])
        problem = "lst measured nothing" + (f": {complaints[:300]}" if complaints else "")
        raise DataError(problem, code="no-result", line=1)
    return told_apart(group.measurement() for group in groups)


@dataclass(frozen=True, slots=True)
class _LnetGroup:
    """One test of one group of nodes."""

    test: LnetTest
    group: str

    @property
    def intervals(self) -> list[LnetInterval]:
        return [interval for interval in self.test.intervals if interval.group == self.group]

    def side(self) -> Side | None:
        """Return the side of the group; ``None`` if unknown, or both."""
        sides: set[Side] = set()
        for words in self.test.commands:
            if words[0] == "add_test":
                if _value(words, "--from") == self.group:
                    sides.add("client")
                if _value(words, "--to") == self.group:
                    sides.add("server")
        if sides:
            return sides.pop() if len(sides) == 1 else None
        return _SIDES.get(self.group.lower())

    def measurement(self) -> Measurement:
        side = self.side()
        samples = tuple(self._samples(side))
        problems = Notes([*self.test.problems[:3], *self.test.errors[:3]])
        failed = max(interval.failed_nodes for interval in self.intervals)
        if failed:
            problems.add("nodes-silent", f"{failed} nodes did not answer and are not in the mean")
        if any(sample.reason == _CUT for sample in samples):
            problems.append(_CUT)
        open_end = Message("end-unknown", "the output does not show the end of the batch")
        return concluded(
            KIND,
            samples,
            problems,
            "no interval has a figure",
            name=self.group,
            layer="network",
            requested=self._requested(side),
            reported=self._reported(side),
            warnings=() if self.test.ended else (open_end,),
            missing=self._missing(),
        )

    def _requested(self, side: Side | None) -> dict[str, object]:
        requested: dict[str, object] = {} if side is None else {"side": side}
        tests: list[str] = []
        for words in self.test.commands:
            if words[0] != "add_test":
                continue
            requested |= {key: value for at, key in _WORDS.items() if (value := _value(words, at))}
            if "ping" in words:
                tests.append("ping")
            elif "brw" in words[:-1]:
                tests.append(f"brw {words[words.index('brw') + 1]}")
            for word in words:
                if (size := _SIZE.fullmatch(word)) is not None:
                    requested["transfer_size_bytes"] = size_of(size[1])
                elif word.startswith("check="):
                    requested["check"] = word.removeprefix("check=")
        return requested | {"tests": tests} if tests else requested

    def _reported(self, side: Side | None) -> dict[str, object]:
        # The figures are per node.
        reported: dict[str, object] = {} if side is None else {f"{side}s": 1}
        reported |= present({"session": self.test.session})
        nids = [
            nid
            for words in self.test.commands
            if words[0] == "add_group" and self.group in words
            for nid in words[words.index(self.group) + 1 :]
        ]
        counts = [count_of_nids(nid) for nid in nids]
        if counts and None not in counts:
            reported["nodes"] = sum(filter(None, counts))
        return reported

    def _missing(self) -> tuple[Missing, ...]:
        if any(words[0] == "add_test" for words in self.test.commands):
            return ()
        reason = "lst stat does not print the test's parameters"
        return (missing("parameters", "parameters-not-printed", reason),)

    def _samples(self, side: Side | None) -> Iterator[Sample]:
        intervals = self.intervals
        most = 0.0
        for repetition, interval in enumerate(line for line in intervals if line.bandwidths):
            unfinished = _unfinished(interval, intervals)
            most = max(most, *(line.mean or 0.0 for line in interval.bandwidths.values()))
            for direction, figures in interval.bandwidths.items():
                metric = _METRICS[side or "client", direction]
                reason = (
                    self._disbelief(interval, side)
                    or figures.reason
                    or unfinished
                    or _only_headers(interval, direction, most)
                )
                yield from _of(metric, repetition, figures, reason)
        for repetition, interval in enumerate(line for line in intervals if line.rates):
            yield from self._rates(interval, repetition, side)

    def _rates(
        self, interval: LnetInterval, repetition: int, side: Side | None
    ) -> Iterator[Sample]:
        # A client sends one message per RPC, and a second one for a write.
        asking: Direction = "R" if side == "server" else "W"
        for direction, figures in interval.rates.items():
            reason = self._disbelief(interval, side) or figures.reason
            if direction == asking:
                yield from _of("rpc_rate", repetition, figures, reason)
            statistic = "received" if direction == "R" else "sent"
            reason = self.test.mixed or figures.reason
            total, *_ = _of("rpc_rate", repetition, figures, reason)
            yield replace(total, statistic=statistic)

    def _disbelief(self, interval: LnetInterval, side: Side | None) -> str | None:
        if self.test.mixed is not None:
            return self.test.mixed
        if interval.stopped:
            return Message("batch-stopped", "the batch had been stopped")
        rates, bandwidths = (
            {interval.group for interval in self.test.intervals if getattr(interval, part)}
            for part in ("rates", "bandwidths")
        )
        if rates and bandwidths and (self.group in rates) != (self.group in bandwidths):
            text = f"{self.group} has only rates or only bandwidths: a name was damaged"
            return Message("name-damaged", text)
        if side is None:
            text = f"the side of {self.group} is unknown: its received data may be reads or writes"
            return Message("side-unknown", text)
        return None


_CUT: Final = Message("interval-cut", "the output ends within an interval")


def _of(metric: str, repetition: int, figures: Figures, reason: str | None) -> Iterator[Sample]:
    mean, line, doubt = figures.mean, figures.line, reason
    if mean is None:
        doubt = reason or Message("mean-not-printed", "the mean was not requested (--avg)")
    yield Sample(metric, mean, repetition, None, "total", 0, line, doubt)
    for statistic, value in (("node_min", figures.least), ("node_max", figures.most)):
        if value is not None:
            yield Sample(metric, value, repetition, None, statistic, 0, line, reason)


def _unfinished(interval: LnetInterval, intervals: list[LnetInterval]) -> str | None:
    """Return a reason if the other direction may be missing because the output was cut."""
    if interval.closed or len(interval.bandwidths) == 2:
        return None
    others = [
        interval.bandwidths for interval in intervals if interval.closed and interval.bandwidths
    ]
    if others and set(others[0]) == set(interval.bandwidths):
        return None
    return _CUT


def _only_headers(interval: LnetInterval, direction: Direction, most: float) -> str | None:
    """Return a reason if no data went this way, only requests and replies.

    Parameters
    ----------
    most
        The highest mean of the group so far, in either direction.
    """
    mean = interval.bandwidths[direction].mean
    if mean is None:
        return None
    if direction in interval.rates:
        rate = interval.rates[direction].mean
        a_message = mean / rate if rate else 0.0
        evidence = f"{a_message:.0f} bytes a message" if a_message < _HEADERS_BYTES else None
    else:
        little = mean < _HEADERS_FRACTION * most
        evidence = "it is less than a fiftieth of the other" if little else None
    text = f"no data went this way: {evidence}"
    return Message("no-data-this-way", text) if evidence else None


def _value(words: list[str], option: str) -> str | None:
    """Return the word after an option or its ``=``."""
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def count_of_nids(nid: str) -> int | None:
    """Return the number of nodes in a name with ranges, ``None`` if it is not simple.

    Examples
    --------
    >>> count_of_nids("10.0.2.[15-18,30]@o2ib")
    5
    >>> count_of_nids("10.0.2.15@tcp")
    1
    """
    if _NID.fullmatch(nid) is None or "*" in nid:
        return None
    counts = [_count(bracket) for bracket in _BRACKET.findall(nid)]
    rest = _BRACKET.sub("", nid)
    if None in counts or "[" in rest or "]" in rest or "," in rest:
        return None
    return prod(count for count in counts if count is not None)


def _count(bracket: str) -> int | None:
    total = 0
    for part in bracket.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if step == 0 or last < first:
            return None
        total += (last - first) // step + 1
    return total


_BEGINNING: Final = Mark(
    (b"[LNet ", b"SESSION: "),
    re.compile(
        rb"^(?:%s)?"
        rb"(?:\[LNet (?:Rates|Bandwidth) of [^\]\s]{1,99}\]|SESSION: \S{1,99} FEATURES: [0-9a-f])"
        % PROMPT.encode(),
        re.MULTILINE,
    ),
)
FORMAT: Final = OutputFormat(KIND, _BEGINNING.stands_in, read, beginning=_BEGINNING)
