"""lst-survey of lustre-iokit: LNet selftest between groups of nodes.

::

    CSV results: /tmp/lst_survey.1666207637/results.1666207637.csv
    Commence lst-survey - Wed 19 Oct 2022 01:27:17 PM MDT
    Server Group: 172.18.2.5@tcp 172.18.2.6@tcp
    Client Group: 172.18.2.7@tcp 172.18.2.8@tcp

              Mode       Read MB/s       Read RPC/s      Write MB/S      Write RPC/s
           read 4k              22           149981             608           299961

    Finished lst-survey - Wed 19 Oct 2022 01:28:08 PM MDT

MB/s is what ``lst stat`` prints without ``--mbs``: MiB/s. Each figure is the mean per node of a
group, truncated to an integer. The group, servers (the default) or clients, is not printed, but the
data of a ``read`` leaves the servers. The number in the names of its files is its start in seconds
since 1970; printed times are local, without a reliable zone.

Source: lustre-iokit/lst-survey/lst-survey and lst.sh, Lustre 2.16.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final, Literal

from trimtab.base.error import DataError, Message
from trimtab.base.plain import present, size_of, time_of, time_since_1970, whole_lines, whole_of
from trimtab.base.run import BANDWIDTH, Access, Sample
from trimtab.base.units import MIB
from trimtab.formats.measurement import (
    Mark,
    Measurement,
    Notes,
    OutputFile,
    OutputFormat,
    concluded,
    told_apart,
)

KIND: Final = "lst-survey"
Side = Literal["client", "server"]
_COARSE: Final = 20
"""A figure of fewer whole units may be more than 5 % too low."""
_COMMENCE: Final = re.compile(r"Commence lst-survey - (.{10,60})")
_FINISHED: Final = re.compile(r"Finished lst-survey - .{10,60}")
_GROUP: Final = re.compile(r"(Server|Client) Group: (.{1,4000})")
_HEAD: Final = re.compile(r" *Mode +Read MB/s +Read RPC/s +Write MB/S +Write RPC/s")
_ROW: Final = re.compile(r" *(?:(read|write|rw)[ _](\d{1,9}[kKmM]?)|(ping))((?: +\d{1,15}){4})")
_ERRORS: Final = re.compile(r"(Server|Client) Errors: (\d{1,12})")
_FAILED: Final = re.compile(r"Error: Failed to get all samples.{0,80}")
_SECONDS: Final = re.compile(r"results\.(\d{9,11})\.csv")
_CSV: Final = re.compile(
    r"Servers(?P<by>.{1,3})Clients(?P=by)Mode(?P=by)Read_BW(?P=by)Read_Rate(?P=by)Write_BW(?P=by)"
    r"Write_Rate(?P=by)Server_Errors(?P=by)Client_Errors"
)
_DATES: Final = (
    "%a %d %b %Y %I:%M:%S %p",
    "%a %b %d %I:%M:%S %p %Y",
    "%a %b %d %H:%M:%S %Y",
    "%a %d %b %Y %H:%M:%S",
)
"""The format of ``date`` in English locales, without the zone."""
_ZONE: Final = re.compile(r" ([A-Z]{3,5}|[+-]\d\d(?:\d\d)?)(?= \d{4}$|$)")
_QUARTER: Final = timedelta(minutes=15)
_DATA: Final[dict[tuple[str, Side], str]] = {
    ("read", "client"): "read",
    ("read", "server"): "write",
    ("write", "client"): "write",
    ("write", "server"): "read",
}
"""The column with a test's data: what servers send is read by clients."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines common to the tests of a group of servers and a group of clients."""

    seconds: int | None = None
    began: datetime | None = None
    servers: str = ""
    clients: str = ""


@dataclass(frozen=True, slots=True)
class _LstRow:
    """One test: columns by their names, in MiB/s and RPC/s."""

    block: _Block
    line: int
    mode: str
    size_bytes: int | None
    columns: Mapping[str, int]
    errors: int = 0

    @property
    def name(self) -> str:
        size = self.size_bytes
        if size is None:
            return self.mode
        unit = next((unit for unit in (2**20, 1024) if size % unit == 0), 1)
        return f"{self.mode} {size // unit}{ {2**20: 'm', 1024: 'k', 1: ''}[unit] }"

    def side(self) -> Side | None:
        """Return the side of the figures; ``None`` if unknown."""
        read, write = (self.columns[f"{access} MB/s"] for access in ("read", "write"))
        more = "read" if read > 2 * write else "write" if write > 2 * read else None
        if self.mode not in BANDWIDTH or more is None:
            return None
        return "client" if more == self.mode else "server"


def read(source: OutputFile) -> tuple[Measurement, ...]:
    """Return one result for each test; raise DataError if there is none."""
    lines = list(whole_lines(source.text))
    head = next((match for _, line in lines if (match := _CSV.fullmatch(line))), None)
    complaints: list[Message] = []
    rows = (
        list(_rows_printed(lines, complaints))
        if head is None
        else list(_rows_of_csv(source, lines, head["by"], complaints))
    )
    if not rows:
        text = "; ".join(complaints) or "no test line"
        raise DataError(f"lst-survey measured nothing: {text}", code="no-result", line=1)
    sides: set[Side] = {side for row in rows if (side := row.side()) is not None}
    side: Side | None = sides.pop() if len(sides) == 1 else None
    return told_apart(
        _measurement(row, side, complaints if row is rows[-1] else []) for row in rows
    )


@dataclass(slots=True)
class _LstReader:
    """State while the lines of lst-survey are read."""

    complaints: list[Message]
    block: _Block = _Block()
    zone: timezone | None = None
    inside: bool = False

    def take(self, number: int, line: str) -> None:
        """Read a line other than a test's."""
        if match := _SECONDS.search(line):
            self.block = _Block(seconds=int(match[1]))
        elif match := _COMMENCE.fullmatch(line):
            seconds, printed = self.block.seconds, _date(match[1])
            self.zone = self.zone or _zone_of(printed, seconds)
            began = printed and printed.replace(tzinfo=self.zone)
            self.block, self.inside = _Block(seconds, began), True
        elif match := _GROUP.fullmatch(line):
            part = "servers" if match[1] == "Server" else "clients"
            named: dict[str, Any] = {part: " ".join(match[2].split())}
            self.block = replace(self.block, **named)
        elif _FINISHED.fullmatch(line):
            self.inside = False
        else:
            self._take_complaint(number, line)

    def _take_complaint(self, number: int, line: str) -> None:
        if match := _ERRORS.fullmatch(line):
            if int(match[2]):
                self.complaints.append(Message("transfers-failed", line.strip()))
        elif _FAILED.match(line):
            self.complaints.append(Message("tool-error", line.strip()))
        elif self.inside and line.strip() and not _HEAD.fullmatch(line):
            text = f"line {number} is not one of lst-survey"
            self.complaints.append(Message("line-damaged", text))


def _rows_printed(lines: list[tuple[int, str]], complaints: list[Message]) -> Iterator[_LstRow]:
    printed = _LstReader(complaints)
    for number, line in lines:
        match = _ROW.fullmatch(line)
        if match is None:
            printed.take(number, line)
            continue
        numbers = [int(word) for word in match[4].split()]
        yield _row(printed.block, number, match, numbers)
    if printed.inside:
        complaints.append(Message("output-unfinished", "the output ends before the survey did"))


def _row(
    block: _Block, number: int, match: re.Match[str], numbers: Sequence[int], errors: int = 0
) -> _LstRow:
    mode, size, ping = match.groups()[:3]
    names = ("read MB/s", "read RPC/s", "write MB/s", "write RPC/s")
    return _LstRow(
        block, number, mode or ping, size_of(size or ""),
        dict(zip(names, numbers, strict=True)), errors,
    )  # fmt: skip


def _rows_of_csv(
    source: OutputFile, lines: list[tuple[int, str]], by: str, complaints: list[Message]
) -> Iterator[_LstRow]:
    named = _SECONDS.search(source.file_name)
    seconds = None if named is None else int(named[1])
    for number, line in lines:
        if _CSV.fullmatch(line) or not line.strip():
            continue
        fields = line.split(by)
        numbers = [whole_of(field) for field in fields[3:]]
        known = [value for value in numbers if value is not None]
        match = _ROW.fullmatch(f"{fields[2]} 0 0 0 0") if len(fields) == 9 else None
        if match is None or len(known) != len(numbers):
            text = f"line {number} is not one of lst-survey"
            complaints.append(Message("line-damaged", text))
            continue
        block = _Block(seconds, time_since_1970(seconds), fields[0], fields[1])
        yield _row(block, number, match, known[:4], sum(known[4:]))


def _measurement(row: _LstRow, side: Side | None, complaints: Sequence[Message]) -> Measurement:
    block = row.block
    samples = tuple(_samples(row, side))
    problems, warnings = Notes(complaints), Notes()
    if row.errors:
        warnings.add("transfers-failed", f"{row.errors} failed RPCs up to this test")
    nids = {"servers": block.servers.split(), "clients": block.clients.split()}
    numbers = " ".join(map(str, row.columns.values()))
    return concluded(
        KIND,
        samples,
        problems,
        "the test has no figure",
        name=row.name,
        layer="network",
        began=block.began,
        requested=present(
            {
                "mode": row.mode,
                "transfer_size_bytes": row.size_bytes,
                "side": side,
                **{group: of or None for group, of in nids.items()},
            }
        ),
        # The figures are per node.
        reported={} if side is None else {f"{side}s": 1},
        warnings=warnings,
        identity=None
        if block.seconds is None
        else f"{block.seconds} {block.servers} {block.clients} {row.name} {numbers}",
    )


def _samples(row: _LstRow, side: Side | None) -> Iterator[Sample]:
    of_mode = _DATA.get((row.mode, side)) if side is not None else None
    for column in BANDWIDTH if row.mode != "ping" else ():
        value = row.columns[f"{column} MB/s"]
        access: Access = column if side != "server" else "write" if column == "read" else "read"
        reason = None
        if side is None:
            text = "the measured side is unknown: received data may be reads or writes"
            reason = Message("side-unknown", text)
        elif of_mode not in (None, column):
            reason = Message("no-data-this-way", f"the data of a {row.mode} goes the other way")
        elif value < _COARSE:
            text = f"printed as {value}, in whole units: too coarse to be judged"
            reason = Message("too-few-digits", text)
        yield Sample(BANDWIDTH[access], float(value * MIB), 0, None, "total", 0, row.line, reason)
    # A client sends one message per RPC, and a second one for a write.
    received, sent = row.columns["read RPC/s"], row.columns["write RPC/s"]
    rate = received if side == "server" else sent
    reason = None
    if side is None and received != sent:
        reason = Message("side-unknown", "the measured side is unknown")
    elif rate < _COARSE:
        reason = Message("too-few-digits", f"printed as {rate}, in whole units")
    yield Sample("rpc_rate", float(rate), 0, None, "total", 0, row.line, reason)


def _date(text: str) -> datetime | None:
    """Parse a time as ``date`` prints it; aware if its zone is UTC, else local.

    Examples
    --------
    >>> _date("Wed 19 Oct 2022 01:27:17 PM MDT"), _date("Wed Oct 19 19:27:17 UTC 2022").tzinfo
    (datetime.datetime(2022, 10, 19, 13, 27, 17), datetime.timezone.utc)
    """
    zone = _ZONE.search(text.replace(" AM", " am").replace(" PM", " pm"))
    bare = text if zone is None else text[: zone.start()] + text[zone.end() :]
    for form in _DATES:
        moment = time_of(" ".join(bare.split()), form)
        if moment is not None:
            known = zone is not None and zone[1] in ("UTC", "GMT")
            return moment.replace(tzinfo=UTC) if known else moment
    return None


def _zone_of(printed: datetime | None, seconds: int | None) -> timezone | None:
    """Return the zone in which the printed time equals the start; UTC if printed."""
    start = time_since_1970(seconds)
    if printed is None or start is None:
        return None if printed is None or printed.tzinfo is None else UTC
    quarters = round((printed.replace(tzinfo=UTC) - start) / _QUARTER)
    return timezone(quarters * _QUARTER) if abs(quarters) <= 14 * 4 else None


def _recognises(source: OutputFile) -> bool:
    head = source.content[: 2**16]
    return _BEGINNING.search(head) is not None or _CSV.match(source.head) is not None


_BEGINNING: Final = re.compile(
    rb"^(?:CSV results: \S{1,400}/results\.\d{9,11}\.csv|Commence lst-survey - )", re.MULTILINE
)
FORMAT: Final = OutputFormat(
    KIND, _recognises, read, beginning=Mark((b"Commence lst-survey", b"CSV results: "), _BEGINNING)
)
