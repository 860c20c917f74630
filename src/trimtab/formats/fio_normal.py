"""Converts fio's human-readable normal output to the objects of its JSON.

::

    job: (g=0): rw=randread, bs=(R) 4096B-4096B, ..., ioengine=libaio, iodepth=32   before the run
    fio-3.33
    job: (groupid=0, jobs=4): err= 0: pid=1: Fri Nov 20 16:20:09 2026               after it
      read: IOPS=13.2k, BW=206MiB/s (216MB/s)(207MiB/1002msec)
        clat (nsec): min=1853, max=8768.7k, avg=187642.07, stdev=425129.29
        clat percentiles (usec):
         |  1.00th=[    3],  5.00th=[   56], ...
         issued rwts: total=13232,0,0,0 short=0,0,0,0 dropped=0,0,0,0
    Run status group 0 (all jobs):
       READ: bw=206MiB/s (216MB/s), ..., io=207MiB (217MB), run=1002-1002msec

Sizes and rates have three or four digits, but runtimes are whole milliseconds and operations are
integers. So bytes are computed as operations times their size, if that is a single size and agrees
with the printed bytes, and rates follow: exactly the figures of the same run's JSON. Otherwise the
printed figures are used, and one is doubted if rounding may hide more than 1 %.

A group counts only if a matching ``Run status`` follows; otherwise the output was cut, perhaps
between its jobs.

``fio --client`` prefixes its servers' lines with ``<host> `` before the run, but not their results,
which come as each server ends. Those of all servers are one document, as in JSON, which ends with a
total, ``All clients``.

Until 2.20 sizes were KiB under the name ``KB``: ``io=1024.0MB, bw=16.6MB/s, iops=4258, runt=...``.
Formats: ``show_thread_status_normal``, ``show_ddir_status`` and ``show_run_stats`` of fio's stat.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

from trimtab.base.error import Message
from trimtab.base.plain import as_dict, present, time_of, whole_lines
from trimtab.base.run import Access
from trimtab.formats.fio_document import FioDocument

_HEADER: Final = re.compile(
    r"(?P<name>\S.{0,199}?): \(g=(?P<group>[0-9]{1,9})\): rw=(?P<rw>[a-z]{1,20}), "
    r"bs=(?P<bs>.{1,200}?), ioengine=(?P<ioengine>[^\s,]{1,80}), iodepth=(?P<iodepth>[0-9]{1,9})\Z"
)
_VERSION: Final = re.compile(r"fio-[0-9]\S{0,60}\Z")
_SERVER: Final = re.compile(
    r"hostname=\S{1,255}, be=[01], .{1,200}, fio=(?P<version>fio-[^\s,]{1,60}), flags="
)
_OF_SERVER: Final = re.compile(r"(?:Jobs: .{0,400})?<(?P<host>[^<>\s]{1,255})> (?P<text>.*)\Z")
_ALL: Final = "All clients"
_JOB: Final = re.compile(
    r"(?P<name>\S.{0,199}?): \(groupid=(?P<group>[0-9]{1,9}), jobs=(?P<jobs>[0-9]{1,9})\): "
    r"err= ?(?P<error>[0-9]{1,9})(?: \(.{0,400}?\))?: pid=[0-9]{1,12}(?:: (?P<time>.{20,40}))?\Z"
)
_NUMBER: Final = r"[0-9]{1,18}(?:\.[0-9]{1,9})?"
_SIZE: Final = rf"{_NUMBER} ?[kKMGTP]?i?B"
_RATES: Final = re.compile(
    rf"\s+(?P<access>read|write|trim|mixed) ?: IOPS=(?P<iops>{_NUMBER}[kKMGT]?), "
    rf"BW=(?P<rate>{_SIZE})/s \((?P<decimal>{_SIZE})/s\)"
    rf"\((?P<io>{_SIZE})/(?P<time>[0-9]{{1,15}})msec\)"
)
_OLD_RATES: Final = re.compile(
    rf"\s+(?P<access>read|write|trim|mixed) ?: io=(?P<io>{_SIZE}), bw=(?P<rate>{_SIZE})/s, "
    rf"iops=(?P<iops>{_NUMBER}[kKMGT]?) ?, runt= *(?P<time>[0-9]{{1,15}})msec"
)
_LATENCY: Final = re.compile(
    rf"\s+clat \((?P<unit>nsec|usec|msec|sec)\) ?: min= *(?P<min>{_NUMBER}[kKMG]?) ?, "
    rf"max= *(?P<max>{_NUMBER}[kKMG]?) ?, avg= *(?P<mean>{_NUMBER}[kKMG]?),"
)
_PERCENTILES: Final = re.compile(r"\s+(?P<of>[a-z]{1,8}) percentiles \((?P<unit>[num]?sec)\) ?:")
_PERCENTILE: Final = re.compile(r"([0-9]{1,3}\.[0-9]{1,9})th=\[ *([0-9]{1,15})\]")
_ISSUED: Final = re.compile(
    r"\s+issued ?(?:rwts?|r/w/d)? *: total=(?P<total>[rwd=0-9,/]{1,120}?),? +"
    r"short=(?P<short>[rwd=0-9,/]{1,120})"
)
_STATUS: Final = re.compile(r"Run status group (?P<group>[0-9]{1,9}) \(all jobs\):")
_TOTAL: Final = re.compile(
    rf"\s+(?P<access>READ|WRITE): bw={_SIZE}/s \({_SIZE}/s\), .{{1,200}}?, "
    rf"io=(?P<io>{_SIZE}) \((?P<decimal>{_SIZE})\), run=[0-9]{{1,15}}-(?P<time>[0-9]{{1,15}})msec"
)
_OLD_TOTAL: Final = re.compile(
    rf"\s+(?P<access>READ|WRITE): io=(?P<io>{_SIZE}), aggrb=.{{1,200}}, "
    r"maxt=(?P<time>[0-9]{1,15})msec"
)
_ONE_SIZE: Final = re.compile(rf"({_NUMBER}[kKMGT]?i?B?)-({_NUMBER}[kKMGT]?i?B?)")
_ACCESSES: Final[tuple[Access, ...]] = ("read", "write")
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_NS: Final = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}
_SECTOR: Final = 512
_COARSE: Final = 0.01
_CUT: Final = Message("output-unfinished", "fio did not finish its output")


@dataclass(frozen=True)
class NormalDocument(FioDocument):
    """The normal output of one execution of fio, in the form of its JSON.

    Attributes
    ----------
    doubts
        Job and access to the reason to doubt its figures.
    lines
        Job and path of keys to line.
    printed_at
        Job to the time of printing, in the zone of the machine.
    """

    echoes_options: ClassVar[bool] = False
    doubts: Mapping[tuple[int, Access], Message] = field(default_factory=dict)
    lines: Mapping[tuple[int | str, ...], int] = field(default_factory=dict)
    printed_at: Mapping[int, datetime] = field(default_factory=dict)

    @property
    def _lines(self) -> Mapping[tuple[int | str, ...], int]:  # type: ignore[override]
        return self.lines

    def doubt(self, job: int, access: Access) -> Message | None:
        """Return why figures of a job are not credible."""
        return self.doubts.get((job, access))

    def is_in(self, document: FioDocument) -> bool:
        """Return whether JSON has the same jobs: fio can print several forms."""
        # Servers are in the order in which they ended, which may differ between JSON and this.
        others = list(document.jobs)
        for job in self.jobs:
            same = next((other for other in others if _is_state_of(job, other)), None)
            if same is None:
                return False
            others.remove(same)
        return not others


def normal_documents(text: str) -> list[NormalDocument]:
    """Return the normal outputs in a text, in order. Never raises."""
    reader = _NormalReader()
    for number, line in whole_lines(text):
        # A progress line of a terminal may precede the first line of the result.
        reader.take(number, line.rpartition("\r")[2])
    return list(reader.documents())


@dataclass(frozen=True, slots=True)
class _NormalNumber:
    """A printed number, in bytes or its own unit, and one unit of its last digit.

    Attributes
    ----------
    carry
        What fio 3.7 and others lose when rounding carries over: 56.99 MiB becomes ``56.0MiB``.
    """

    value: float
    unit: float
    carry: float = 0.0

    def may_be(self, value: float, slack: float = 0.0) -> bool:
        """Return whether a number, within ``slack``, could be printed like this."""
        distance = min(abs(self.value - value), abs(self.value + self.carry - value))
        return distance <= 1.01 * self.unit + slack

    @property
    def error(self) -> float:
        """The maximum rounding error, as a fraction."""
        return self.unit / 2 / self.value if self.value > 0 else float("inf")


@dataclass(slots=True)
class _Side:
    """State of one direction of one job while it is read."""

    line: int
    time_ms: int
    rate: _NormalNumber
    io: _NormalNumber
    iops: _NormalNumber
    decimal: _NormalNumber | None
    latency: dict[str, Any] = field(default_factory=dict)
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)


@dataclass(slots=True)
class _NormalJob:
    name: str
    group: int
    jobs: int
    error: int
    time: str | None
    line: int
    host: str | None = None
    sides: dict[str, _Side] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Start:
    """The lines of one start of fio, or of its client, before its results.

    Attributes
    ----------
    servers
        Number of servers that a client lists before they start.
    hosts
        Host names in the servers' lines.
    ending
        Servers that reported their end and have no result yet.
    """

    number: int = 0
    version: str = ""
    headers: dict[tuple[str, int], re.Match[str]] = field(default_factory=dict)
    servers: int = 0
    hosts: set[str] = field(default_factory=set)
    ending: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Execution:
    """One state of one execution, or of all servers of a client.

    Attributes
    ----------
    totals
        Group and direction to each server's sizes and longest time.
    every
        The total of all servers, which a client prints last.
    """

    start: _Start
    jobs: list[_NormalJob] = field(default_factory=list)
    totals: dict[tuple[int, str], list[tuple[tuple[_NormalNumber, ...], int]]] = field(
        default_factory=dict
    )
    groups: set[int] = field(default_factory=set)
    every: _NormalJob | None = None

    @property
    def servers(self) -> int:
        """Number of servers; 0 unless a client printed it."""
        return max(self.start.servers, len(self.start.hosts), self.every is not None)


class _NormalReader:
    """Tracks the current execution, job, direction and group."""

    def __init__(self) -> None:
        self._executions: list[_Execution] = []
        self._start = _Start()
        self._job: _NormalJob | None = None
        self._side: _Side | None = None
        self._percentiles: float | None = None
        self._group: int | None = None

    def take(self, number: int, line: str) -> None:
        """Read one complete line."""
        if match := _OF_SERVER.match(line):
            self._start.hosts.add(match["host"])
            line = match["text"]
            self._start.ending += [match["host"]] if not line else []
        if line[:1].isspace():
            self._indented(number, line)
        elif match := _JOB.match(line):
            self._begin(number, match)
        elif match := _HEADER.match(line):
            # A server may start after another has ended.
            if (last := self._last) and (last.every or not last.servers):
                self._start = _Start(self._start.number + 1)
            self._start.headers[match["name"], int(match["group"])] = match
        elif match := _SERVER.match(line):
            if self._last:
                self._start = _Start(self._start.number + 1)
            self._start.servers += 1
            self._start.version = match["version"]
        elif _VERSION.match(line):
            self._start.version = line
        elif (match := _STATUS.match(line)) and self._executions:
            self._group = int(match["group"])
            self._executions[-1].groups.add(self._group)

    @property
    def _last(self) -> _Execution | None:
        """The last state of the current execution, if any."""
        last = self._executions[-1] if self._executions else None
        return last if last and last.start is self._start else None

    def documents(self) -> Iterator[NormalDocument]:
        """Yield each state of each execution once."""
        for execution in self._executions:
            if execution.jobs:
                yield _document(execution)

    def _begin(self, number: int, match: re.Match[str]) -> None:
        last = self._last
        if last is None or (last.groups and not last.servers and match["name"] != _ALL):
            last = _Execution(self._start)
            self._executions.append(last)
        # Several that end at once cannot be separated.
        before = last.jobs[-1] if last.jobs and self._group is None else None
        ending = self._start.ending
        alone = before is None and len({*ending}) == 1
        host = ending.pop() if alone else before.host if before else None
        group, jobs, error = (int(match[key]) for key in ("group", "jobs", "error"))
        self._job = _NormalJob(match["name"], group, jobs, error, match["time"], number, host)
        self._side, self._percentiles, self._group = None, None, None
        if match["name"] != _ALL:
            last.jobs.append(self._job)
            return
        last.every = self._job
        while len(self._executions) > 1 and self._executions[-2].start is self._start:
            _join(self._executions[-2], self._executions.pop())

    def _indented(self, number: int, line: str) -> None:
        if self._job is None:
            return
        execution = self._executions[-1]
        if self._group is not None:
            if match := _TOTAL.match(line) or _OLD_TOTAL.match(line):
                printed = [match["io"], match.groupdict().get("decimal")]
                sizes = tuple(_size(text, match) for text in printed if text)
                key = self._group, match["access"].lower()
                execution.totals.setdefault(key, []).append((sizes, int(match["time"])))
        elif match := _RATES.match(line) or _OLD_RATES.match(line):
            self._side = self._job.sides[match["access"]] = _side(number, match)
            self._percentiles = None
        elif self._side is not None and (match := _LATENCY.match(line)):
            _take_latency(self._side, number, match)
        elif match := _PERCENTILES.match(line):
            self._percentiles = _NS[match["unit"]] if match["of"] == "clat" else None
        elif self._percentiles is not None and self._side is not None and "|" in line:
            _take_percentiles(self._side, number, line, self._percentiles)
        elif match := _ISSUED.match(line):
            self._job.operations = _of_accesses(match["total"])
            self._job.short = _of_accesses(match["short"])


def _join(execution: _Execution, later: _Execution) -> None:
    """Merge results of other servers that were mistaken for a later state."""
    execution.jobs += later.jobs
    execution.groups |= later.groups
    execution.every = later.every
    for key, totals in later.totals.items():
        execution.totals.setdefault(key, []).extend(totals)


def _side(number: int, match: re.Match[str]) -> _Side:
    decimal = match.groupdict().get("decimal")
    return _Side(
        line=number,
        time_ms=int(match["time"]),
        rate=_size(match["rate"], match),
        io=_size(match["io"], match),
        iops=_printed(match["iops"], 1000),
        decimal=None if decimal is None else _size(decimal, match),
        lines=dict.fromkeys((("bw_bytes",), ("iops",)), number),
    )


def _size(text: str, match: re.Match[str]) -> _NormalNumber:
    """Parse a size in bytes; before 2.21 ``KB`` is KiB, since then 1,000 bytes."""
    binary = "i" in text or match.re in (_OLD_RATES, _OLD_TOTAL)
    return _printed(text.replace("i", "").removesuffix("B"), 1024 if binary else 1000)


def _printed(text: str, base: int) -> _NormalNumber:
    """Parse a number with a suffix letter for a power of the base."""
    letter = text[-1].lower() if text[-1].isalpha() else ""
    digits = text.rstrip("kKMGTP ")
    factor = float(base ** _POWERS[letter])
    decimals = digits.partition(".")[2]
    carry = factor if decimals and not decimals.strip("0") else 0.0
    return _NormalNumber(float(digits) * factor, 10.0 ** -len(decimals) * factor, carry)


def _take_latency(side: _Side, number: int, match: re.Match[str]) -> None:
    unit_ns = _NS[match["unit"]]
    units = side.latency.setdefault("units", {})
    for key in ("min", "max", "mean"):
        printed = _printed(match[key], 1000)
        side.latency[key] = printed.value * unit_ns
        units[key] = printed.unit * unit_ns
        side.lines["clat_ns", key] = number


def _take_percentiles(side: _Side, number: int, line: str, unit_ns: float) -> None:
    percentiles = side.latency.setdefault("percentile", {})
    side.latency.setdefault("units", {})["percentile"] = unit_ns
    for share, value in _PERCENTILE.findall(line):
        percentiles[share] = int(value) * unit_ns
        side.lines["clat_ns", "percentile", share] = number


def _of_accesses(text: str) -> dict[str, int]:
    counts = [int(count) for count in re.findall(r"[0-9]+", text)]
    return dict(zip(("read", "write", "trim"), counts, strict=False))


def _document(execution: _Execution) -> NormalDocument:
    jobs: list[dict[str, Any]] = []
    doubts: dict[tuple[int, Access], Message] = {}
    lines: dict[tuple[int | str, ...], int] = {}
    printed_at: dict[int, datetime] = {}
    for index, job in enumerate(execution.jobs):
        header = execution.start.headers.get((job.name, job.group))
        value: dict[str, Any] = present(
            {
                "jobname": job.name,
                "groupid": job.group,
                "error": job.error,
                "job options": _options(header, job.jobs),
                "hostname": job.host,
            }
        )
        for name, side in job.sides.items():
            value[name] = _figures(job, side, name, header)
            for path, line in side.lines.items():
                lines[index, name, *path] = line
        jobs.append(value)
        if at := time_of(job.time or "", "%a %b %d %H:%M:%S %Y"):
            printed_at[index] = at
        for access in _ACCESSES:
            if access in job.sides and (doubt := _side_doubt(job.sides[access], value[access])):
                doubts[index, access] = doubt
    of_all = _servers_doubt(execution)
    for index, job in enumerate(execution.jobs):
        for access in _ACCESSES:
            doubt = of_all or _group_doubt(execution, jobs, job.group, access)
            if access in job.sides and doubt is not None:
                doubts.setdefault((index, access), doubt)
    value = {"fio version": execution.start.version, "execution": execution.start.number}
    first = execution.jobs[0].line
    return NormalDocument(value | {"jobs": jobs}, "", first, (), doubts, lines, printed_at)


def _options(header: re.Match[str] | None, jobs: int) -> dict[str, str]:
    """Return the options in the line before the run, and the number of tasks."""
    options = {"numjobs": str(jobs)}
    if header is None:
        return options
    options |= {name: header[name] for name in ("rw", "iodepth", "ioengine")}
    sizes = {access: _block_bytes(header, access) for access in _ACCESSES}
    wanted = [sizes[access] for access in _ACCESSES if access in header["rw"]] or [*sizes.values()]
    if None not in wanted and len(set(wanted)) == 1:
        options["bs"] = str(wanted[0])
    else:
        options["bs"] = header["bs"]
    return options


def _block_bytes(header: re.Match[str] | None, access: str) -> int | None:
    """Return the transfer size; ``None`` if it varies or is rounded."""
    ranges = _ONE_SIZE.findall("" if header is None else header["bs"])
    place = _ACCESSES.index("write" if access == "write" else "read")
    if len(ranges) <= place or ranges[place][0] != ranges[place][1]:
        return None
    text = ranges[place][0].replace("i", "").removesuffix("B")
    exact = _printed(text, 1024).value
    # A size with a letter is rounded; the actual one is a multiple of the sector.
    is_whole = exact == int(exact) and (not text[-1].isalpha() or exact % _SECTOR == 0)
    return int(exact) if is_whole else None


def _figures(
    job: _NormalJob, side: _Side, name: str, header: re.Match[str] | None
) -> dict[str, Any]:
    """Return the figures of one direction as in JSON, exact where possible."""
    time_s = side.time_ms / 1000
    operations = job.operations.get(name)
    figures: dict[str, Any] = {"runtime": side.time_ms, "io_kbytes": None}
    block = _block_bytes(header, name)
    rates = [side.rate] if side.decimal is None else [side.rate, side.decimal]
    moved = side.io.value
    rate = min(rates, key=lambda printed: printed.error).value
    if operations is not None and block is not None and not job.short.get(name) and time_s:
        exact = operations * block
        if side.io.may_be(exact) and all(each.may_be(exact / time_s) for each in rates):
            moved, rate = exact, exact / time_s
    figures |= {"io_bytes": round(moved), "bw_bytes": rate, "exact": moved != side.io.value}
    if operations is not None and time_s:
        counted = operations / time_s
        figures |= {"total_ios": operations, "iops": counted}
        if not side.iops.may_be(counted):
            figures["iops"] = side.iops.value
    else:
        figures["iops"] = side.iops.value
        figures["total_ios"] = round(side.iops.value * time_s)
    if side.latency:
        figures["clat_ns"] = side.latency
    return figures


def _side_doubt(side: _Side, figures: Mapping[str, Any]) -> Message | None:
    """Return why the figures of one direction are inconsistent or too coarse."""
    time_s, moved = side.time_ms / 1000, float(figures["io_bytes"])
    if not time_s:
        return Message("too-short", "fio's runtime is below its resolution of 1 ms")
    rates = [side.rate] if side.decimal is None else [side.rate, side.decimal]
    # If bytes are exact so is the rate; otherwise both are rounded.
    slack = 0.0 if figures["exact"] else side.io.unit / time_s
    for printed in rates:
        if not printed.may_be(moved / time_s, slack):
            text = f"fio printed {printed.value:.4g} B/s, but {moved:.4g} bytes in {time_s:g} s"
            return Message("figures-disagree", f"{text} do not match")
    if slack and min(each.error for each in (side.rate, side.decimal or side.rate)) > _COARSE:
        text = f"fio printed the bandwidth with too few digits: {side.rate.value:.3g} B/s"
        return Message("too-few-digits", text)
    return None


def _group_doubt(
    execution: _Execution, jobs: list[dict[str, Any]], group: int, access: Access
) -> Message | None:
    """Return why the jobs of a group are incomplete or contradict fio's totals."""
    totals = execution.totals.get((group, access))
    if group not in execution.groups or not totals:
        return _CUT
    of_group = [
        (job.sides[access], value[access])
        for job, value in zip(execution.jobs, jobs, strict=True)
        if job.group == group and access in job.sides
    ]
    moved = sum(figures["io_bytes"] for _, figures in of_group)
    rounding = sum(side.io.unit for side, figures in of_group if not figures["exact"])
    longest_ms = max((side.time_ms for side, _ in of_group), default=0)
    # Several servers' lines may be interleaved: compare them with the total.
    sizes = [_sum(of_unit) for of_unit in zip(*(sizes for sizes, _ in totals), strict=False)]
    fits = all(size.may_be(moved, rounding) for size in sizes)
    if fits and longest_ms == max(time_ms for _, time_ms in totals):
        return None
    text = f"the jobs of group {group} contradict fio's totals at the end"
    return Message("figures-disagree", text)


def _sum(sizes: Iterable[_NormalNumber]) -> _NormalNumber:
    value, unit, carry = (
        sum(figures)
        for figures in zip(*((size.value, size.unit, size.carry) for size in sizes), strict=True)
    )
    return _NormalNumber(value, unit, carry)


def _servers_doubt(execution: _Execution) -> Message | None:
    """Return why the servers' results are incomplete or contradict the client's totals."""
    if execution.servers < 2:
        return None
    if execution.every is None:
        return _CUT
    counts = [sum(job.operations.get(access, 0) for job in execution.jobs) for access in _ACCESSES]
    if counts == [execution.every.operations.get(access, 0) for access in _ACCESSES]:
        return None
    text = f"the jobs of {execution.servers} servers contradict fio's totals at the end"
    return Message("figures-disagree", text)


def _is_state_of(job: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether JSON has a job in the same state; it also lists idle directions."""
    if any(job.get(key) != other.get(key) for key in ("jobname", "groupid", "error")):
        return False
    for access in _ACCESSES:
        side, figures = job.get(access), as_dict(other.get(access))
        if side is None and figures.get("io_bytes"):
            return False
        if side is not None and side["runtime"] != figures.get("runtime"):
            return False
        if side is not None and side["total_ios"] != figures.get("total_ios", side["total_ios"]):
            return False
    return True
