"""Parses IO500's result lines: one for each phase, and the score.

::

    IO500 version io500-isc26 (standard)
    [RESULT]       ior-easy-write        1.335881 GiB/s : time 0.095 seconds [INVALID]
    [      ]            timestamp        0.000000 kIOPS : time 0.000 seconds
    [SCORE ] Bandwidth 2.384001 GiB/s : IOPS 190.904255 kiops : TOTAL 21.333448 [INVALID]

In 2020 the program wrote ``[RESULT-invalid]``. Until then GB/s means GiB/s: the score is the mean
of phases in GiB/s, and earlier scripts divided MiB/s by 1024 (``io500_fixed.sh``):

::

    [RESULT] BW   phase 1            ior_easy_write              126.223 GB/s : time 928.42 seconds
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from trimtab.measure import plain
from trimtab.measure.plain import Figure, whole_lines

KIND: Final = "io500"
_VERSION: Final = re.compile(r"IO500 version(?: (?!\()(\S{1,80}))?(?: +\(([a-z]{1,20})\))?\s*\Z")
_RESULT: Final = re.compile(
    r"\[(RESULT|      )(-invalid)?\] +(?:(?:BW|IOPS) +phase +[0-9]+ +)?([A-Za-z0-9_-]{1,40}) +"
    r"(\S{1,40}) (GiB/s|GB/s|kIOPS|kiops) +: time +(\S{1,40}) seconds(.{0,40})\Z"
)
_SCORE: Final = re.compile(
    r"\[SCORE *(-invalid)?\] Bandwidth (\S{1,40}) (GiB/s|GB/s) : "
    r"IOPS (\S{1,40}) kiops : TOTAL (\S{1,40})(.{0,40})\Z"
)
_FIGURE: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_INVALID: Final = re.compile(r"ERROR INVALID ?(?:\([^)]{1,80}\))? ?(.{0,200})")
_MARKS: Final = ("[RESULT", "[      ]", "[SCORE")
_LINE_LIMIT: Final = 2000
_KEPT: Final = 100
_RUNS: Final = 1000
"""Limit in one output; later lines are added to the last run."""


@dataclass(frozen=True, slots=True)
class PhaseLine:
    """One phase: ``figure`` is ``None`` without a number; ``invalid`` according to IO500."""

    name: str
    line: int
    figure: Figure | None
    bandwidth: bool
    runtime_s: float | None
    invalid: bool
    output: int = 0


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """The score line of a run."""

    line: int
    bandwidth: Figure | None
    operations: Figure | None
    total: Figure | None
    invalid: bool
    output: int = 0


@dataclass(slots=True)
class Run:
    """One run of IO500."""

    version: str | None = None
    mode: str | None = None
    phases: list[PhaseLine] = field(default_factory=list)
    score: ScoreLine | None = None
    complaints: list[str] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)


def runs_of(text: str) -> list[Run]:
    """Return every run in a text."""
    runs: list[Run] = []
    early: list[str] = []
    for number, line in whole_lines(text):
        if len(runs) < _RUNS and (version := _VERSION.match(line)):
            runs.append(Run(version[1], version[2], complaints=early))
            early = []
        elif line.startswith(_MARKS) and len(line) <= _LINE_LIMIT:
            _bracketed(number, line, runs)
        elif line.startswith("ERROR INVALID") and (invalid := _INVALID.match(line)):
            complaints = early if not runs or runs[-1].score is not None else runs[-1].complaints
            if len(complaints) < _KEPT:
                complaints.append(invalid[1].strip())
    return runs


def _bracketed(number: int, line: str, runs: list[Run]) -> None:
    phase = _phase(number, line)
    score = _score(number, line) if phase is None else None
    if phase is None and score is None:
        known = not line.startswith(("[      ]", "[SCOREX]"))
        if runs and known and len(runs[-1].unreadable) < _KEPT:
            runs[-1].unreadable.append(number)
        return
    if not runs:
        runs.append(Run())
    if phase is not None:
        runs[-1].phases.append(phase)
    elif score is not None and runs[-1].score is None:
        runs[-1].score = score


def _phase(number: int, line: str) -> PhaseLine | None:
    match = _RESULT.match(line)
    if match is None:
        return None
    runtime = figure_of(match[6])
    name = match[3].replace("_", "-")
    return PhaseLine(
        name=name,
        line=number,
        figure=figure_of(match[4]),
        bandwidth=match[5].endswith("B/s"),
        runtime_s=runtime.value if runtime is not None else None,
        invalid=match[2] is not None or "invalid" in match[7].lower(),
    )


def _score(number: int, line: str) -> ScoreLine | None:
    match = _SCORE.match(line)
    if match is None:
        return None
    return ScoreLine(
        line=number,
        bandwidth=figure_of(match[2]),
        operations=figure_of(match[4]),
        total=figure_of(match[5]),
        invalid=match[1] is not None or "invalid" in match[6].lower(),
    )


def figure_of(word: str) -> Figure | None:
    """Parse a number with its rounding; ``None`` for anything else."""
    return plain.figure_of(word) if _FIGURE.fullmatch(word) else None
