"""Parses elbencho's phases from its CSV, JSON or table. Pure.

::

    OPERATION   RESULT TYPE         FIRST DONE   LAST DONE
    =========== ================    ==========   =========
    WRITE       Elapsed time     :      2.004s      2.004s
                IOPS             :        8053        8053
                Throughput MiB/s :         503         503
                Total MiB        :        1008        1008
    ---

FIRST DONE is the work of all threads when the fastest finished, LAST DONE when the slowest did: the
latter is the result. CSV and table have truncated integers; JSON has bytes. The CSV has the command
in its last column as ``"a" "b"`` without doubled quotes, but with blanks for commas, so no CSV
reader is needed.

Source: breuner/elbencho, Statistics.cpp, at the tags from 1.0 to 3.1-9. Names of the table changed
in 1.4, 2.1 and 3.0, the CSV grew, JSON came with 3.0-27 and has the parameters since 3.0-37. Until
3.0-25 the CSV has the end time of a phase, since then its start time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from trimtab.base.error import Message
from trimtab.base.plain import as_dict, as_text, version_numbers, whole_lines, whole_of
from trimtab.base.units import MIB

_MB: Final = 10**6
_START_SINCE: Final = (3, 0, 27)

TITLE: Final = re.compile(r"OPERATION +RESULT TYPE +FIRST DONE +LAST DONE\s*")
CSV_HEAD: Final = re.compile(r"(?:[A-Za-z ]{1,20},){1,20}operation,time ms ")
LIVE_HEAD: Final = re.compile(r"(?:ISO Date,)?Label,Phase,RuntimeMS,Rank,")
JSON_HEAD: Final = '{"phase_type":'

_COLUMNS: Final[Mapping[str, tuple[str, float]]] = {
    "time ms [last]": ("elapsed", 1e-3),
    "MiB/s [last]": ("bandwidth", MIB),
    "MiB/s [first]": ("bandwidth first", MIB),
    "MiB [last]": ("moved", MIB),
    "IOPS [last]": ("iops", 1),
    "entries/s [last]": ("entries rate", 1),
    "entries [last]": ("entries", 1),
    "IO lat us [min]": ("latency min", 1e-6),
    "IO lat us [avg]": ("latency mean", 1e-6),
    "IO lat us [max]": ("latency max", 1e-6),
}
_KEYS: Final[Mapping[str, tuple[str, float]]] = {
    "elapsed_time_ms": ("elapsed", 1e-3),
    "bytes/s": ("bandwidth", 1),
    "bytes": ("moved", 1),
    "iops": ("iops", 1),
    "entries/s": ("entries rate", 1),
    "entries": ("entries", 1),
    "min_us": ("latency min", 1e-6),
    "avg_us": ("latency mean", 1e-6),
    "max_us": ("latency max", 1e-6),
}
_LABELS: Final[Mapping[str, tuple[str, float]]] = {
    **dict.fromkeys(("Elapsed ms", "time ms"), ("elapsed", 1e-3)),
    **dict.fromkeys(("Throughput MiB/s", "MiB/s", "MiB/s write"), ("bandwidth", MIB)),
    **dict.fromkeys(("Throughput MB/s", "MB/s write"), ("bandwidth", _MB)),
    **dict.fromkeys(("MiB/s read", "Read MiB/s"), ("read bandwidth", MIB)),
    "MB/s read": ("read bandwidth", _MB),
    **dict.fromkeys(("Total MiB", "MiB", "MiB write"), ("moved", MIB)),
    **dict.fromkeys(("MiB read", "Read MiB"), ("read moved", MIB)),
    **dict.fromkeys(("IOPS", "IOPS write"), ("iops", 1)),
    "IOPS read": ("read iops", 1),
    **dict.fromkeys(("Files/s", "Files/s write", "Dirs/s", "entries/s"), ("entries rate", 1)),
    **dict.fromkeys(("Files total", "Files write", "Total files"), ("entries", 1)),
    **dict.fromkeys(("Dirs total", "Total dirs", "entries"), ("entries", 1)),
}
_BRACKETS: Final = {"IO latency": "latency", "IO wr latency": "latency"} | {
    "IO rd latency": "read latency"
}
_LINE: Final = re.compile(
    r"(?:([A-Z][A-Z0-9+_-]{0,15}) +| +)([A-Za-z][A-Za-z/%.]*(?: [A-Za-z/%.]+){0,3}) *: *(\S.*?) *"
)
_HEAD: Final = re.compile(r"(ISO DATE|LABEL|COMMAND LINE): (.*?) *")
_TWO: Final = re.compile(r"(\S{1,24}) +(\S{1,24})")
_ELAPSED: Final = re.compile(
    r"(?:(\d{1,6})h)?(?:(\d{1,2})m)?(\d{1,2})(?:\.(\d{3}))?s|(\d{1,9})ms", re.ASCII
)
_LATENCIES: Final = re.compile(r"(min|avg|max)=(\d{1,9}(?:\.\d{1,2})?)(us|ms|s)\b", re.ASCII)
_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_END: Final = "---"


@dataclass(frozen=True, slots=True)
class Amount:
    """A truncated figure: the true value is between it and one ``step`` more."""

    value: float
    step: float

    @classmethod
    def of(cls, number: float, step: float) -> Amount:
        """Return an amount of ``number`` steps."""
        return cls(number * step if step >= 1 else number / round(1 / step), step)


@dataclass(frozen=True, slots=True)
class ElbenchoPhase:
    """One phase.

    Attributes
    ----------
    operation
        ``WRITE``, ``READ``, ``MKDIRS`` ...; empty where the line cannot be read.
    line
        Line of the operation; ``lines`` has that of each figure.
    began
        Start as printed, or computed from the end.
    config
        Parameters by the names of the CSV, as printed.
    figures
        By name, in base units: the result of all threads, and ``... first`` at the end of the
        first. Names that start with ``read`` are the reads of a mixed phase.
    problem
        Why the row is incomplete.
    run
        The run of the program it belongs to, if known.
    """

    operation: str
    line: int
    began: datetime | None = None
    version: str | None = None
    command: str | None = None
    label: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Amount] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    problem: Message | None = None
    run: int | None = None


def rows_of(text: str) -> list[ElbenchoPhase]:
    """Return every phase in an output, if any."""
    lines = list(whole_lines(text))
    for number, line in lines:
        if line.startswith(JSON_HEAD):
            rows = list(_rows_of_json(lines))
            break
        if CSV_HEAD.match(line):
            rows = list(_rows_of_csv(lines[number - 1 :]))
            break
    else:
        rows = list(_rows_of_table(lines))
    if rows and text.rpartition("\n")[2].strip():
        problem = Message("line-cut", "its last line was cut and is ignored")
        rows.append(ElbenchoPhase("", len(lines) + 1, problem=problem))
    return rows


def _rows_of_csv(lines: list[tuple[int, str]]) -> Iterator[ElbenchoPhase]:
    names: list[str] = []
    for number, line in lines:
        if CSV_HEAD.match(line):
            names = line.split(",")
            continue
        if not line.strip():
            continue
        fields = line.split(",")
        if len(fields) != len(names):
            text = f"line {number} has {len(fields)} columns instead of {len(names)}"
            yield ElbenchoPhase("", number, problem=Message("columns-differ", text))
            continue
        yield _row_of_fields(dict(zip(names, fields, strict=True)), number)


def _row_of_fields(fields: Mapping[str, str], number: int) -> ElbenchoPhase:
    figures: dict[str, Amount] = {}
    for name, text in fields.items():
        known = _COLUMNS.get(name.removeprefix("rwmix read "))
        value = whole_of(text)
        if known is not None and value is not None:
            of_reads = "read " if name.startswith("rwmix") else ""
            figures[of_reads + known[0]] = Amount.of(value, known[1])
    version = fields.get("version") or None
    began = iso_time(fields.get("ISO date", ""))
    elapsed = figures.get("elapsed")
    if began is not None and version_numbers(version or "") < _START_SINCE:
        began = None if elapsed is None else began - timedelta(seconds=elapsed.value)
    return ElbenchoPhase(
        fields["operation"],
        number,
        began,
        version,
        _normal(fields.get("command")),
        fields.get("label") or None,
        config={name: text for name, text in fields.items() if name in CONFIG and text},
        figures=figures,
    )


CONFIG: Final[Mapping[str, str]] = {
    "path type": "path_type",
    "paths": "paths",
    "hosts": "hosts",
    "threads": "threads",
    "dirs": "dirs",
    "files": "files",
    "file size": "file_size",
    "block size": "block_size",
    "direct IO": "direct_io",
    "random": "random_offsets",
    "IO depth": "io_depth",
    "shared paths": "shared_service_paths",
    "truncate": "truncate_files",
}
"""Parameters by their names in the CSV, with those in the JSON."""


def _rows_of_json(lines: list[tuple[int, str]]) -> Iterator[ElbenchoPhase]:
    for number, line in lines:
        # Standard output has the table as well.
        if not line.startswith(JSON_HEAD):
            continue
        try:
            document = as_dict(json.loads(line))
        except (ValueError, RecursionError):
            yield ElbenchoPhase(
                "", number, problem=Message("line-damaged", f"line {number} is not JSON")
            )
            continue
        yield _row_of_document(document, number)


def _row_of_document(document: dict[str, Any], number: int) -> ElbenchoPhase:
    config = as_dict(document.get("config"))
    last, first = (as_dict(document.get(part)) for part in ("last_done", "first_done"))
    latency = as_dict(as_dict(last.get("latency")).get("IO"))
    figures = _figures(last) | _figures(latency)
    for name, amount in _figures(first).items():
        if name.endswith("bandwidth"):
            figures[f"{name} first"] = amount
    values = ((name, as_text(config.get(key))) for name, key in CONFIG.items())
    return ElbenchoPhase(
        as_text(document.get("phase_type")) or "",
        number,
        iso_time(as_text(document.get("iso_start_date")) or ""),
        as_text(config.get("version")) or as_text(document.get("version")),
        _normal(as_text(config.get("command")) or as_text(document.get("command"))),
        as_text(document.get("label")),
        config={name: {"true": "1", "false": "0"}.get(text, text) for name, text in values if text},
        figures=figures,
    )


def _figures(values: Mapping[str, Any], prefix: str = "") -> dict[str, Amount]:
    figures: dict[str, Amount] = {}
    for key, (name, step) in _KEYS.items():
        number = whole_of(str(values.get(key)))  # all values are strings
        if number is not None:
            figures[prefix + name] = Amount.of(number, step)
    if not prefix:
        figures |= _figures(as_dict(values.get("rwmix_read")), "read ")
    return figures


@dataclass(slots=True)
class _ElbenchoTable:
    """State while the lines of the table are read."""

    run: int = 0
    began: datetime | None = None
    label: str | None = None
    command: str | None = None
    operation: str = ""
    line: int = 0
    figures: dict[str, Amount] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def row(self, problem: Message | None = None) -> ElbenchoPhase:
        row = ElbenchoPhase(
            self.operation, self.line, self.began, None, self.command, self.label,
            figures=self.figures, lines=self.lines, problem=problem, run=self.run,
        )  # fmt: skip
        self.operation, self.figures, self.lines = "", {}, {}
        return row

    def unfinished(self) -> Iterator[ElbenchoPhase]:
        """Yield the last phase if its end is missing."""
        if self.operation:
            yield self.row(Message("output-unfinished", "the output ends within a phase"))

    def headed(self, name: str, text: str) -> _ElbenchoTable:
        """Return the table after a line of its head; a date starts another table."""
        if name == "ISO DATE":
            return _ElbenchoTable(self.run, iso_time(text))
        if name == "LABEL":
            self.label = text
        else:
            self.command = _normal(text)
        return self

    def take(self, number: int, label: str, text: str) -> None:
        """Read one line of a phase; for a repeated figure the first counts."""
        if (name := _BRACKETS.get(label)) is not None:
            for statistic, value, unit in _LATENCIES.findall(text):
                key = f"{name} {statistic.replace('avg', 'mean')}"
                seconds = float(value) * _SECONDS[unit]
                self._put(key, Amount(seconds, 10.0 ** -len(value.partition(".")[2])), number)
            return
        known, both = _LABELS.get(label), _TWO.fullmatch(text)
        if both is None:
            return
        if label == "Elapsed time":
            self._put("elapsed", _elapsed(both[2]), number)
        elif known is not None:
            name, step = known
            first, last = whole_of(both[1]), whole_of(both[2])
            self._put(name, None if last is None else Amount.of(last, step), number)
            if name.endswith("bandwidth") and first is not None:
                self._put(f"{name} first", Amount.of(first, step), number)

    def _put(self, name: str, amount: Amount | None, number: int) -> None:
        if amount is not None and name not in self.figures:
            self.figures[name], self.lines[name] = amount, number


def _rows_of_table(lines: list[tuple[int, str]]) -> Iterator[ElbenchoPhase]:
    table, inside = _ElbenchoTable(), False
    for number, line in lines:
        if (match := _HEAD.fullmatch(line)) is not None:
            table = table.headed(match[1], match[2])
        elif TITLE.fullmatch(line):
            yield from table.unfinished()
            table.run, inside = table.run + 1, True
        elif inside and line.rstrip() == _END:
            if table.operation:
                yield table.row()
        elif inside and (match := _LINE.fullmatch(line)):
            if match[1]:
                yield from table.unfinished()
                table.operation, table.line = match[1], number
            if table.operation:
                table.take(number, match[2], match[3])
    yield from table.unfinished()


def _elapsed(text: str) -> Amount | None:
    """Parse a duration of the table: ``2.004s``, ``2m3.241s``, ``1h2m3s``."""
    match = _ELAPSED.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds, fraction, alone = (int(group or 0) for group in match.groups())
    if match[5]:
        return Amount(alone / 1000, 1e-3)
    whole = 3600 * hours + 60 * minutes + seconds
    return Amount(whole + fraction / 1000, 1e-3 if match[4] else 1.0)


def iso_time(text: str) -> datetime | None:
    """Parse a time with zone as elbencho prints it; ``None`` for anything else.

    Examples
    --------
    >>> iso_time("2026-09-01T02:00:00+0200").isoformat()
    '2026-09-01T02:00:00+02:00'
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _normal(command: str | None) -> str | None:
    """Return a command in the same form for all outputs: CSV and JSON have no commas."""
    return None if not command else " ".join(command.replace(",", " ").split())
