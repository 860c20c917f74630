r"""Parses Lustre's counters, job statistics included, in the formats of 2.10 to 2.17. Pure.

Every function takes the complete value of a parameter, from `Parameters.get`. Lines of unknown
format are skipped: what they would have had is missing, never 0.

``job_stats`` of a target has the bytes and operations of each job::

    job_stats:
    - job_id:          dd.0
      snapshot_time:   1795190762.815500726 secs.nsecs
      read_bytes:      { samples:           5, unit: bytes, min:  1048576, max:  4194304, sum: ...
      open:            { samples:           2, unit: usecs, min: ...

Names with blanks or special characters are quoted, with ``\x20`` for what YAML would misread. The
kernel escapes byte by byte: one byte of a UTF-8 letter may be escaped and another not.

Source: lustre/obdclass/lprocfs_jobstats.c, 2.10 to 2.17.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

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
    for line in _lines(text):
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
    for line in _lines(text):
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
    rows = map(_NID.fullmatch, _lines(text))
    return tuple(dict.fromkeys(row[1] for row in rows if row is not None))


def _lines(text: str) -> list[str]:
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
    """Return job id to counters; for a repeated id, the first entry.

    A counter whose line was cut is omitted, and so is a job without any other counter.

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
