"""LNet selftest, Lustre's network throughput without disks: results of ``lst stat``.

Each group of a test is a result, with one repetition per interval.

Data sent by clients is written, data sent by servers is read: on the servers' side R is the write
and W the read. ``lst`` does not print a group's side: the usual names and the commands, if present,
show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Literal

from trimtab.errors import DataError
from trimtab.measure.command_line import size_of
from trimtab.measure.lnet_selftest.intervals import (
    PROMPT,
    Direction,
    Figures,
    Interval,
    Test,
    read_tests,
)
from trimtab.measure.measurement import Measurement, Notes, concluded, missing, told_apart
from trimtab.measure.plain import present
from trimtab.measure.source import Format, Mark, Source
from trimtab.message import Message
from trimtab.model.finding import Missing
from trimtab.model.run import Sample

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


def read(source: Source) -> tuple[Measurement, ...]:
    """Return one result for each group and test; raise DataError if nothing was measured."""
    tests, others = read_tests(source.text)
    groups = [
        _Group(test, group)
        for test in tests
        for group in dict.fromkeys(interval.group for interval in test.intervals)
    ]
    if not groups:
        complaints = "; ".join([*others, *(error for test in tests for error in test.errors)])
        problem = "lst measured nothing" + (f": {complaints[:300]}" if complaints else "")
        raise DataError(problem, code="no-result", line=1)
    return told_apart(group.measurement() for group in groups)


@dataclass(frozen=True, slots=True)
class _Group:
    """One test of one group of nodes."""

    test: Test
    group: str

    @property
    def intervals(self) -> list[Interval]:
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

    def _rates(self, interval: Interval, repetition: int, side: Side | None) -> Iterator[Sample]:
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

    def _disbelief(self, interval: Interval, side: Side | None) -> str | None:
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


def _unfinished(interval: Interval, intervals: list[Interval]) -> str | None:
    """Return a reason if the other direction may be missing because the output was cut."""
    if interval.closed or len(interval.bandwidths) == 2:
        return None
    others = [
        interval.bandwidths for interval in intervals if interval.closed and interval.bandwidths
    ]
    if others and set(others[0]) == set(interval.bandwidths):
        return None
    return _CUT


def _only_headers(interval: Interval, direction: Direction, most: float) -> str | None:
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
FORMAT: Final = Format(KIND, _BEGINNING.stands_in, read, beginning=_BEGINNING)
