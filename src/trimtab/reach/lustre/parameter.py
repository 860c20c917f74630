"""Parses the output of ``lctl get_param``: parameters, counters and job statistics. Pure.

A parameter has one of two forms::

    osp.scratch-OST0000-osc-MDT0000.active=1        a value of one line
    osd-ldiskfs.scratch-OST0000.brw_stats=          a value with line feeds: all its
    snapshot_time:         1795190466.966 secs      lines follow the name's line

A value ends only at the next name, and its lines may contain a ``=`` (``flags=0xa04``). So a line
starts a parameter only if its name starts with one of Lustre's trees and a dot, or is a known name
outside of all trees.

The exit status of ``lctl`` is useless: 0 although files could not be read, or 2 although all
patterns but one succeeded. Only the output counts.

Counters have the formats of 2.10 to 2.17. Their functions take the complete value of a parameter,
from `Parameters.get`. Lines of unknown format are skipped: their values are missing, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

# fmt: off
_TREES: Final = frozenset((
    "echo_client", "fid", "fld", "gss", "ldlm", "llite", "lmv", "lnet", "lod", "lov",
    "lu_site", "lustre", "lwp", "mdc", "mdd", "mds", "mdt", "mgc", "mgs", "nodemap", "nrs",
    "obdecho", "obdfilter", "ofd", "osc", "osp", "ost", "page_pools", "ptlrpc", "qmt",
    "qsd", "quota", "seq", "sptlrpc",
))
# fmt: on
"""First parts of names in 2.10 to 2.17; in addition, ``osd-`` and its backend."""
_ALONE: Final = re.compile(
    "allow_register|at_[a-z_]+|buffers|bulk_timeout|catastrophe|checksum_speed|console_[a-z_]+"
    "|cpu_partition_[a-z]+|daemon_file|debug|debug_[a-z_]+|devices|dump_on_[a-z]+|enable_[a-z_]+"
    "|expected_clients|fail_[a-z]+|force_lbug|health_check|jobid_[a-z_]+|lbug_on_[a-z]+"
    "|ldlm_timeout|lnet_[a-z_]+|lu_site|max_dirty_mb|memused|memused_max|nis|no_transno"
    "|panic_on_lbug|peers|ping_interval|pinger|portal_rotor|printk|routers|routes|stats"
    "|subsystem_[a-z]+|suppress_pings|swap_pages|timeout|version|watchdog_ratelimit"
)
"""Names outside of all trees in 2.10 to 2.17."""
_LINE: Final = re.compile(
    r"^(?P<first>[a-z][a-z0-9_-]{0,31})(?P<rest>\.[!-<>-~]{1,400})?=(?P<value>[^\n]*)", re.MULTILINE
)
# The address of a NID is the only part of a name that contains dots.
_ANY_PART: Final = r"(?:[^.]+|[A-Za-z]*[0-9]+(?:\.[0-9]+){3}@[^.]+)"
_NUMBER: Final = re.compile(r"\s*([+-]?[0-9]{1,20})\s*")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters in the output of one ``lctl get_param``, by name.

    Attributes
    ----------
    text
        The output.
    complete
        Whether the output is complete. If not, the parameter that may have been cut is omitted, so
        every value is whole.

    Notes
    -----
    For a repeated name the first value counts: then a cut output never shows a value that differs
    from the complete one.
    """

    text: str = field(repr=False)
    complete: bool
    _spans: Mapping[str, tuple[int, int]] = field(repr=False)
    _index: Mapping[tuple[str, str], list[str]] = field(repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order of the output."""
        return tuple(self._spans)

    def get(self, name: str) -> str | None:
        """Return the value without its last line feed; ``None`` if missing."""
        span = self._spans.get(name)
        return None if span is None else self.text[span[0] : span[1]]

    def number(self, name: str) -> int | None:
        """Return a value that is an integer and nothing else; otherwise ``None``."""
        value = self.get(name)
        match = None if value is None else _NUMBER.fullmatch(value)
        return None if match is None else int(match[1])

    def matching(self, pattern: str) -> dict[str, str]:
        """Return name to value for the matching names, in the order of the output.

        Parameters
        ----------
        pattern
            ``*``, ``?`` and ``[...]`` as in ``lctl get_param``. They match within one part between
            dots: ``obdfilter.*.stats`` does not match ``obdfilter.X.exports.Y.stats``. A part that
            is only ``*`` also matches a NID with its dots.
        """
        first, last = _ends(pattern)
        if _is_plain(first) and _is_plain(last):
            candidates = self._index.get((first, last), [])
        else:
            wanted_first, wanted_last = _compiled(first), _compiled(last)
            candidates = [
                name
                for ends, names in self._index.items()
                if wanted_first.fullmatch(ends[0]) and wanted_last.fullmatch(ends[1])
                for name in names
            ]
            candidates.sort(key=lambda name: self._spans[name])
        wanted = _compiled(pattern)
        return {
            name: self.text[slice(*self._spans[name])]
            for name in candidates
            if wanted.fullmatch(name)
        }


def parse_parameters(stdout: str, *, complete: bool = True) -> Parameters:
    r"""Parse the output of ``lctl get_param``.

    Parameters
    ----------
    complete
        False if the output was cut or ``lctl`` was stopped. A text without a final line feed always
        counts as cut.

    Examples
    --------
    >>> found = parse_parameters("health_check=healthy\nosp.a-OST0000-osc-MDT0000.active=1\n")
    >>> found.get("health_check"), found.number("osp.a-OST0000-osc-MDT0000.active")
    ('healthy', 1)
    """
    ended = stdout == "" or stdout.endswith("\n")
    whole = complete and ended
    last_line = len(stdout) if ended else stdout.rfind("\n") + 1
    spans: dict[str, tuple[int, int]] = {}
    name: str | None = None
    start = 0
    for match in _LINE.finditer(stdout):
        first, rest = match["first"], match["rest"]
        if not _begins(first, rest):
            continue
        if name is not None:
            spans.setdefault(name, _lines(start, match.start()))
            name = None
        if match.start() >= last_line:
            # The last line was cut: its value may be incomplete.
            break
        if match["value"]:
            spans.setdefault(first + (rest or ""), match.span("value"))
        else:
            name, start = first + (rest or ""), match.end()
    if name is not None and whole:
        spans.setdefault(name, _lines(start, len(stdout)))
    index: dict[tuple[str, str], list[str]] = {}
    for name in spans:
        index.setdefault(_ends(name), []).append(name)
    return Parameters(stdout, whole, spans, index)


def _begins(first: str, rest: str | None) -> bool:
    if rest is None:
        return _ALONE.fullmatch(first) is not None
    return first in _TREES or (first.startswith("osd-") and len(first) > 4)


def _lines(start: int, end: int) -> tuple[int, int]:
    """Return the span of the lines after the name's, without the surrounding line feeds."""
    return (start, start) if end - start < 2 else (start + 1, end - 1)


def _ends(name: str) -> tuple[str, str]:
    """Return the first and the last part of a name or pattern."""
    return name.partition(".")[0], name.rpartition(".")[2]


def _is_plain(part: str) -> bool:
    return not any(sign in part for sign in "*?[")


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern of ``lctl`` as a regular expression; see `Parameters.matching`."""
    return re.compile(r"\.".join(_part(part) for part in pattern.split(".")))


def _part(part: str) -> str:
    if part == "*":
        return _ANY_PART
    pieces = re.split(r"(\[!?[^\]\[\\]+\]|\*+|\?)", part)
    return "".join(
        "[^.]*"
        if piece.startswith("*")
        else "[^.]"
        if piece == "?"
        else piece.replace("[!", "[^")
        if _is_class(piece)
        else re.escape(piece)
        for piece in pieces
    )


def _is_class(piece: str) -> bool:
    return len(piece) > 2 and piece[0] == "[" and piece[-1] == "]"


_COUNTER: Final = re.compile(
    r"([!-~]{1,64})\s{1,64}([0-9]{1,20}) samples \[[!-\\^-~]{1,16}\](?: (.*))?"
)
_COLUMNS: Final = re.compile(r"-?[0-9]{1,24} -?[0-9]{1,24} (-?[0-9]{1,24})(?: -?[0-9]{1,24})?")
"""Minimum, maximum and sum; since 2.10 also the sum of squares."""
_TIME: Final = re.compile(r"(snapshot|start)_time:?\s{1,64}([0-9]{1,12}\.[0-9]{1,9})\s.*")
_BUCKET: Final = re.compile(
    r"\s{0,8}([0-9]{1,12})([KMGTP]?):\s{1,32}([0-9]{1,20})\s{1,16}[0-9]{1,3}\s{1,16}([0-9]{1,3})"
    r"\s{1,16}\|\s{1,16}([0-9]{1,20})\s{1,16}[0-9]{1,3}\s{1,16}([0-9]{1,3})\s{0,8}"
)
_SCALE: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_NID: Final = re.compile(r"\s{0,8}([!-~]{1,100}@[a-z0-9]{1,16})\s{1,64}[A-Za-z]{1,16}\s.*")
_DIGITS: Final = re.compile(r"[0-9]{1,20}")
_LNET_NUMBERS: Final = 11
_LINE_CHARACTERS_MAXIMUM: Final = 1024
_UNREAD_MAXIMUM: Final = 50


@dataclass(frozen=True, slots=True)
class Counter:
    """One line of a ``stats`` file.

    Attributes
    ----------
    samples
        Number of events.
    sum
        Sum over all samples: bytes, microseconds ...; ``None`` without such a column.
    """

    samples: int
    sum: int | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """A ``stats`` file.

    Attributes
    ----------
    snapshot_time_s
        Time of reading by the server's clock, in seconds since 1970 (since boot in some versions);
        ``None`` if missing.
    counters
        Counters by name; events that never happened have no line and are missing.
    unread
        First words of lines of unknown format: these counters are unknown.
    """

    snapshot_time_s: float | None
    counters: Mapping[str, Counter]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bucket:
    """One row of a histogram: counts from ``start`` up to the next row's ``start``."""

    start: int
    reads: int
    writes: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """One section of ``brw_stats``.

    Attributes
    ----------
    complete
        Whether no row is missing, according to Lustre's cumulative percentages.
    """

    buckets: tuple[Bucket, ...]
    complete: bool = True

    @property
    def reads(self) -> int:
        """Reads, summed over the buckets."""
        return sum(bucket.reads for bucket in self.buckets)

    @property
    def writes(self) -> int:
        """Writes, summed over the buckets."""
        return sum(bucket.writes for bucket in self.buckets)


@dataclass(frozen=True, slots=True)
class LnetStats:
    """LNet traffic of all networks together, since the module was loaded.

    Attributes
    ----------
    errors, drops
        Messages that failed, and messages that were dropped.
    """

    send_bytes: int
    receive_bytes: int
    errors: int
    drops: int


def parse_stats(text: str) -> Stats:
    """Parse a ``stats`` or ``md_stats`` file.

    For a repeated name the first line counts.
    """
    times: dict[str, float] = {}
    counters: dict[str, Counter] = {}
    unread: dict[str, None] = {}
    for line in _counter_lines(text):
        if match := _COUNTER.fullmatch(line):
            # Keep a counter with other columns, without a sum: omitted, it would look like no
            # events.
            columns = _COLUMNS.fullmatch((match[3] or "").strip())
            total = None if columns is None else int(columns[1])
            counters.setdefault(match[1], Counter(int(match[2]), total))
        elif match := _TIME.fullmatch(line):
            times.setdefault(match[1], float(match[2]))
        elif line.strip() and not line.startswith("elapsed_time") and len(unread) < _UNREAD_MAXIMUM:
            unread.setdefault(line.split(maxsplit=1)[0])
    return Stats(times.get("snapshot"), counters, tuple(unread))


def parse_brw_stats(text: str) -> dict[str, Histogram]:
    """Return section title to histogram of a ``brw_stats`` file, in the order of the file."""
    sections: dict[str, list[tuple[Bucket, int, int]]] = {}
    rows: list[tuple[Bucket, int, int]] | None = None
    for line in _counter_lines(text):
        if match := _BUCKET.fullmatch(line):
            start = int(match[1]) * _SCALE[match[2]]
            row = Bucket(start, int(match[3]), int(match[5])), int(match[4]), int(match[6])
            if rows is not None and (not rows or rows[-1][0].start < start):
                rows.append(row)
        elif "% cum % |" in line and line.count("% cum %") == 2:
            title = line.split("%", 1)[0].split()[:-1]  # the counted things follow it
            rows = []
            # A repeated title belongs to another file: keep the first.
            sections.setdefault(" ".join(title), rows)
        else:
            rows = None
    return {
        title: Histogram(tuple(bucket for bucket, _, _ in rows), complete=_adds_up(rows))
        for title, rows in sections.items()
    }


def parse_lnet_stats(text: str) -> LnetStats | None:
    """Parse LNet's counters from the parameter ``stats``.

    It is eleven numbers: messages allocated and their maximum, errors, messages sent, received,
    routed and dropped, then bytes sent, received, routed and dropped (lnet/lnet/router_proc.c).
    ``None`` if it is not, or was cut.
    """
    words = text[: 2 * _LINE_CHARACTERS_MAXIMUM].split()
    if len(words) != _LNET_NUMBERS or not all(_DIGITS.fullmatch(word) for word in words):
        return None
    numbers = [int(word) for word in words]
    return LnetStats(
        send_bytes=numbers[7], receive_bytes=numbers[8], errors=numbers[2], drops=numbers[6]
    )


def parse_nis(text: str) -> tuple[str, ...]:
    """Return a host's own NIDs from the parameter ``nis``, each once."""
    # A NID has a line for each of its CPU partitions.
    rows = map(_NID.fullmatch, _counter_lines(text))
    return tuple(dict.fromkeys(row[1] for row in rows if row is not None))


def _counter_lines(text: str) -> list[str]:
    # No line of Lustre is this long: the rest of a longer one is of unknown format.
    return [line[: _LINE_CHARACTERS_MAXIMUM + 1] for line in text.split("\n")]


def _adds_up(rows: list[tuple[Bucket, int, int]]) -> bool:
    """Return whether the cumulative percentages reach 100, or nothing was counted.

    They can exceed 100: Lustre sums first and keeps counting while it prints.
    """
    if not rows:
        return True
    _, reads_percent, writes_percent = rows[-1]
    reads = any(bucket.reads for bucket, _, _ in rows)
    writes = any(bucket.writes for bucket, _, _ in rows)
    return (not reads or reads_percent >= 100) and (not writes or writes_percent >= 100)


_JOB: Final = re.compile(r"- job_id:\s{1,16}(\S.{0,199})")
_JOB_COUNTER: Final = re.compile(
    r"\s{1,8}([a-z_]{1,40}):\s{1,16}\{ samples:\s{0,20}([0-9]{1,20})"
    r"(?:, unit:\s{1,8}[a-z]{1,8})?(?:.{0,120}?, sum:\s{0,24}([0-9]{1,24}))?[ ,}].*"
)
_ESCAPE: Final = re.compile(rb"\\x([0-9a-fA-F]{2})")
_JOBS_MAXIMUM: Final = 1_000_000


@dataclass(slots=True)
class JobCounters:
    """Counters of one job on one target, since it was first seen there.

    Attributes
    ----------
    samples, sums
        By counter: number of events, and the sum of the counted quantity.
    """

    samples: dict[str, int] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)


def parse_job_stats(text: str) -> Mapping[str, JobCounters]:
    r"""Return job id to counters; for a repeated id, the first entry.

    A counter whose line was cut is omitted, and so is a job without any other counter.

    ``job_stats`` of a target has the bytes and operations of each job::

        job_stats:
        - job_id:          dd.0
          snapshot_time:   1795190762.815500726 secs.nsecs
          read_bytes:      { samples:           5, unit: bytes, min:  1048576, max:  4194304, ...
          open:            { samples:           2, unit: usecs, min: ...

    Names with blanks or special characters are quoted, with ``\x20`` for what YAML would misread.
    The kernel escapes byte by byte: one byte of a UTF-8 letter may be escaped and another not.

    Source: lustre/obdclass/lprocfs_jobstats.c, 2.10 to 2.17.

    Parameters
    ----------
    text
        Decoded with ``surrogateescape``: otherwise names that differ only in non-UTF-8 bytes would
        be merged. Names are returned in the same form.
    """
    jobs: dict[str, JobCounters] = {}
    job: JobCounters | None = None
    for line in text.split("\n"):
        if match := _JOB.fullmatch(line.rstrip()):
            name, job = _name(match[1]), JobCounters()
            if len(jobs) < _JOBS_MAXIMUM:
                jobs.setdefault(name, job)
        elif (
            job is not None
            and line.rstrip().endswith("}")
            and (match := _JOB_COUNTER.fullmatch(line))
        ):
            job.samples.setdefault(match[1], int(match[2]))
            if match[3] is not None:
                job.sums.setdefault(match[1], int(match[3]))
    return {name: job for name, job in jobs.items() if job.samples}


def _name(printed: str) -> str:
    if not (printed.startswith('"') and printed.endswith('"') and len(printed) > 1):
        return printed
    escaped = printed[1:-1].encode("utf-8", "surrogateescape")
    name = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), escaped)
    return name.decode("utf-8", "surrogateescape")
