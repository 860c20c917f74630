"""A finding: a setting or state that is wrong now, without history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Severity(StrEnum):
    """Severity of a finding, worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst: sorts findings."""
        return list(Severity).index(self)


Tone = Literal["critical", "warning", "info", "unclear", "healthy"]
"""Colour of a badge or an answer; it always accompanies a word."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A value that a finding is based on.

    Attributes
    ----------
    value
        In base SI; ``None`` if not available.
    unit
        Unit of the value; ``None`` for states and names.
    what
        What the value describes.
    source
        File or command from which it was read.
    """

    value: float | int | str | bool | None
    unit: str | None
    what: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy: prose, and the exact command as an argument list if there is one.

    The command is complete: it needs no shell and no standard input.
    """

    prose: str
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One misconfiguration or bad state, with a remedy.

    Attributes
    ----------
    id
        A stable word: ``fullness-over-limit`` ...
    severity
        How urgent it is.
    title
        One line: what is wrong, with its figure.
    target
        Name of the target; ``None``: the whole file system.
    seen
        The value on which the finding is based.
    source
        The file or command from which ``seen`` was read.
    why
        Why it matters, with the document or kernel source.
    fix
        What to do.
    confidence
        Probability, 0 to 1, that this matters here.
    evidence
        Further values: one row per device or criterion.

    Raises
    ------
    ValueError
        The confidence is not between 0 and 1.
    """

    id: str
    severity: Severity
    title: str
    target: str | None
    seen: Seen
    source: str | None
    why: str
    fix: Fix
    confidence: float
    evidence: tuple[Seen, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"{self.id}: confidence {self.confidence} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that could not be read, and the reason."""

    what: str
    reason: str
