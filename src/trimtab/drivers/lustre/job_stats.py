r"""Parses ``job_stats`` of a target: bytes and operations of each job. Pure.

::

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

_JOB: Final = re.compile(r"- job_id:\s{1,16}(\S.{0,199})")
_COUNTER: Final = re.compile(
    r"\s{1,8}([a-z_]{1,40}):\s{1,16}\{ samples:\s{0,20}([0-9]{1,20})"
    r"(?:, unit:\s{1,8}[a-z]{1,8})?(?:.{0,120}?, sum:\s{0,24}([0-9]{1,24}))?[ ,}].*"
)
_ESCAPE: Final = re.compile(rb"\\x([0-9a-fA-F]{2})")
_JOBS_MAXIMUM: Final = 1_000_000


@dataclass(slots=True)
class Job:
    """Counters of one job on one target, since it was first seen there.

    Attributes
    ----------
    samples, sums
        By counter: number of events, and the sum of the counted quantity.
    """

    samples: dict[str, int] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)


def parse_job_stats(text: str) -> Mapping[str, Job]:
    """Return job id to counters; for a repeated id, the first entry.

    A counter whose line was cut is omitted, and so is a job without any other counter.

    Parameters
    ----------
    text
        Decoded with ``surrogateescape``: otherwise names that differ only in non-UTF-8 bytes would
        be merged. Names are returned in the same form.
    """
    jobs: dict[str, Job] = {}
    job: Job | None = None
    for line in text.split("\n"):
        if match := _JOB.fullmatch(line.rstrip()):
            name, job = _name(match[1]), Job()
            if len(jobs) < _JOBS_MAXIMUM:
                jobs.setdefault(name, job)
        elif (
            job is not None and line.rstrip().endswith("}") and (match := _COUNTER.fullmatch(line))
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
