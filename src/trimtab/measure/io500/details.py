"""Parses IO500's ``result.txt``: sections of keys and values, with errors as comments.

::

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

from trimtab.measure.io500.summary import PhaseLine, ScoreLine, figure_of
from trimtab.measure.plain import time_of, whole_lines

_TIME: Final = "%Y-%m-%d %H:%M:%S"
_PAIR: Final = re.compile(r"([A-Za-z_-]{1,40}) {0,40}= (.{0,2000})\Z")
_SECTION: Final = re.compile(r"\[([A-Za-z0-9-]{1,40})\]\s*\Z")
_MOMENT: Final = re.compile(r"; (START|END) ([0-9-]{10} [0-9:]{8})\s*\Z")
_INVALID: Final = re.compile(r"; ?ERROR INVALID (.{0,200})")
_KEPT: Final = 100


@dataclass(slots=True)
class Section:
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
    top: Section = field(default_factory=Section)
    sections: dict[str, Section] = field(default_factory=dict)
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
    section, again = details.top, Section()
    for number, line in whole_lines(text):
        if line.startswith("[") and (match := _SECTION.match(line)):
            name = match[1]
            if name in details.sections:
                details.repeated = details.repeated or name
                section = again
            else:
                section = details.top if name == "run" else Section()
                details.sections[name] = section
        elif line.startswith(";"):
            _comment(line, details, section)
        elif pair := _PAIR.match(line):
            section.values.setdefault(pair[1], (number, pair[2]))
    return details


def _comment(line: str, details: Details, section: Section) -> None:
    if match := _MOMENT.match(line):
        attribute = "began" if match[1] == "START" else "ended"
        setattr(details, attribute, time_of(match[2], _TIME))
    elif (invalid := _INVALID.match(line)) and len(section.complaints) < _KEPT:
        section.complaints.append(invalid[1].strip())
