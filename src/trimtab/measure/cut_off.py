"""Marks runs that the batch system ended at their time limit as unfinished.

What such a run measured so far means little; that it did not finish in time means most. The batch
system writes a line about it into the job's output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from trimtab.measure.measurement import Measurement, tail
from trimtab.message import Message, code_of
from trimtab.model.run import RunStatus

_TIME_LIMIT: Final = re.compile(
    rb"^(?:slurmstepd[^:\n]*: error: \*\*\* .* CANCELLED AT .* DUE TO TIME LIMIT"  # Slurm: req.c
    rb"|=>> PBS: job killed: walltime \d+ exceeded limit"  # PBS: mom_main.c
    rb"|TERM_RUNLIMIT: job killed after reaching LSF run time limit"  # LSF: bacct(1)
    rb").*$",
    re.MULTILINE,
)
_WORDS: Final = (b"DUE TO TIME LIMIT", b"PBS: job killed", b"TERM_RUNLIMIT")
"""Every such line contains one of these."""
_UNFINISHED: Final = (
    "output-unfinished", "run-unfinished", "ended-early", "repetitions-missing", "phases-missing",
)  # fmt: skip
_MAY_BE: Final = (RunStatus.FAILED, RunStatus.PARTIAL)


def with_time_limit(measurements: Iterable[Measurement], content: bytes) -> tuple[Measurement, ...]:
    """Return the results of an output, with those cut off by a time limit as unfinished.

    Examples
    --------
    >>> cut = Measurement("ior", RunStatus.FAILED, (Message("output-unfinished", "no end"),))
    >>> text = b"slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-02 DUE TO TIME LIMIT ***"
    >>> with_time_limit([cut], text)[0].status
    <RunStatus.UNFINISHED: 'unfinished'>
    """
    every = tuple(measurements)
    if not any(word in content for word in _WORDS):
        return every
    line = _TIME_LIMIT.search(content)
    if line is None:
        return every
    printed = tail(line.group().decode("utf-8", "replace").strip(), 200)
    problem = Message("time-limit", f"it reached its time limit before it finished: {printed}")
    return tuple(
        replace(
            measurement,
            status=RunStatus.UNFINISHED,
            problems=(problem, *measurement.problems),
        )
        if measurement.status in _MAY_BE
        and any(code_of(text) in _UNFINISHED for text in measurement.problems)
        else measurement
        for measurement in every
    )
