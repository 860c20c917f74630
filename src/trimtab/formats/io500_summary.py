"""Parses IO500's result lines, one for each phase and the score, and its ``result.txt``.

The result lines are in the summary and in the output of ``io500``::

    IO500 version io500-isc26 (standard)
    [RESULT]       ior-easy-write        1.335881 GiB/s : time 0.095 seconds [INVALID]
    [      ]            timestamp        0.000000 kIOPS : time 0.000 seconds
    [SCORE ] Bandwidth 2.384001 GiB/s : IOPS 190.904255 kiops : TOTAL 21.333448 [INVALID]

In 2020 the program wrote ``[RESULT-invalid]``. Until then GB/s means GiB/s: the score is the mean
of phases in GiB/s, and earlier scripts divided MiB/s by 1024 (``io500_fixed.sh``)::

    [RESULT] BW   phase 1            ior_easy_write              126.223 GB/s : time 928.42 seconds

``result.txt`` has sections of keys and values, with errors as comments::

    procs           = 2
    ; START 2026-11-21 00:26:26

    [ior-easy-write]
    t_start         = 2026-11-21 00:26:26
    exe             = ./ior -t 1m -b 64m -F -w ...
    ; ERROR INVALID Runtime is smaller than expected minimum runtime
    score           = 1.335881
    t_delta         = 0.0952
    t_end           = 2026-11-21 00:26:26

    [SCORE]
    MD              = 190.904255
    BW              = 2.384001
    SCORE           = 21.333448 [INVALID]
    ; END 2026-11-21 00:26:35
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trimtab.base import plain
from trimtab.base.plain import PrintedNumber, time_of, whole_lines

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
    figure: PrintedNumber | None
    bandwidth: bool
    runtime_s: float | None
    invalid: bool
    output: int = 0


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """The score line of a run."""

    line: int
    bandwidth: PrintedNumber | None
    operations: PrintedNumber | None
    total: PrintedNumber | None
    invalid: bool
    output: int = 0


@dataclass(slots=True)
class Io500Run:
    """One run of IO500."""

    version: str | None = None
    mode: str | None = None
    phases: list[PhaseLine] = field(default_factory=list)
    score: ScoreLine | None = None
    complaints: list[str] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)


def runs_of(text: str) -> list[Io500Run]:
    """Return every run in a text."""
    runs: list[Io500Run] = []
    early: list[str] = []
    for number, line in whole_lines(text):
        if len(runs) < _RUNS and (version := _VERSION.match(line)):
            runs.append(Io500Run(version[1], version[2], complaints=early))
            early = []
        elif line.startswith(_MARKS) and len(line) <= _LINE_LIMIT:
            _bracketed(number, line, runs)
        elif line.startswith("ERROR INVALID") and (invalid := _INVALID.match(line)):
            complaints = early if not runs or runs[-1].score is not None else runs[-1].complaints
            if len(complaints) < _KEPT:
                complaints.append(invalid[1].strip())
    return runs


def _bracketed(number: int, line: str, runs: list[Io500Run]) -> None:
    phase = _phase(number, line)
    score = _score(number, line) if phase is None else None
    if phase is None and score is None:
        known = not line.startswith(("[      ]", "[SCOREX]"))
        if runs and known and len(runs[-1].unreadable) < _KEPT:
            runs[-1].unreadable.append(number)
        return
    if not runs:
        runs.append(Io500Run())
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


def figure_of(word: str) -> PrintedNumber | None:
    """Parse a number with its rounding; ``None`` for anything else."""
    return plain.figure_of(word) if _FIGURE.fullmatch(word) else None


_TIME: Final = "%Y-%m-%d %H:%M:%S"
_PAIR: Final = re.compile(r"([A-Za-z_-]{1,40}) {0,40}= (.{0,2000})\Z")
_SECTION: Final = re.compile(r"\[([A-Za-z0-9-]{1,40})\]\s*\Z")
_MOMENT: Final = re.compile(r"; (START|END) ([0-9-]{10} [0-9:]{8})\s*\Z")
_COMMENTED_INVALID: Final = re.compile(r"; ?ERROR INVALID (.{0,200})")


@dataclass(slots=True)
class Io500Section:
    """One phase: its keys with their lines, and IO500's errors about it."""

    values: dict[str, tuple[int, str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def text(self, key: str) -> str | None:
        """Return the value of a key; ``None`` if missing."""
        entry = self.values.get(key)
        return entry[1].strip() if entry is not None else None

    def moment(self, key: str) -> datetime | None:
        """Return a time, without a zone, as printed."""
        return time_of(self.text(key) or "", _TIME)


@dataclass(slots=True)
class Details:
    """The whole file; empty without one."""

    output: int
    top: Io500Section = field(default_factory=Io500Section)
    sections: dict[str, Io500Section] = field(default_factory=dict)
    repeated: str | None = None
    began: datetime | None = None
    ended: datetime | None = None

    @property
    def version(self) -> str | None:
        """IO500's version."""
        return self.top.text("version")

    @property
    def mode(self) -> str | None:
        """``standard`` or ``extended``."""
        return self.top.text("mode")

    @property
    def tasks(self) -> int | None:
        """Number of MPI tasks; missing before 2021."""
        text = self.top.text("procs") or ""
        return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None

    def phases(self) -> list[PhaseLine]:
        """Return its phases in the form of a summary, in case there is none."""
        lines: list[PhaseLine] = []
        for name, section in self.sections.items():
            if name in ("SCORE", "SCOREX", "run") or "score" not in section.values:
                continue
            line, text = section.values["score"]
            runtime = figure_of(section.text("t_delta") or "")
            phase = PhaseLine(
                name=name,
                line=line,
                figure=figure_of(text.strip()),
                bandwidth=name.startswith("ior-"),
                runtime_s=runtime.value if runtime is not None else None,
                invalid=bool(section.complaints),
                output=self.output,
            )
            lines.append(phase)
        return lines

    @property
    def score(self) -> ScoreLine | None:
        """The score, in the form of a summary."""
        section = self.sections.get("SCORE")
        if section is None or "SCORE" not in section.values:
            return None
        line, text = section.values["SCORE"]
        return ScoreLine(
            line=line,
            bandwidth=figure_of(section.text("BW") or ""),
            operations=figure_of(section.text("MD") or ""),
            total=figure_of(text.split()[0]) if text.split() else None,
            invalid="invalid" in text.lower(),
            output=self.output,
        )


def details_of(text: str, *, output: int) -> Details:
    """Parse a ``result.txt``; ``output`` is its ordinal among the run's outputs."""
    details = Details(output)
    section, again = details.top, Io500Section()
    for number, line in whole_lines(text):
        if line.startswith("[") and (match := _SECTION.match(line)):
            name = match[1]
            if name in details.sections:
                details.repeated = details.repeated or name
                section = again
            else:
                section = details.top if name == "run" else Io500Section()
                details.sections[name] = section
        elif line.startswith(";"):
            _comment(line, details, section)
        elif pair := _PAIR.match(line):
            section.values.setdefault(pair[1], (number, pair[2]))
    return details


def _comment(line: str, details: Details, section: Io500Section) -> None:
    if match := _MOMENT.match(line):
        attribute = "began" if match[1] == "START" else "ended"
        setattr(details, attribute, time_of(match[2], _TIME))
    elif (invalid := _COMMENTED_INVALID.match(line)) and len(section.complaints) < _KEPT:
        section.complaints.append(invalid[1].strip())
