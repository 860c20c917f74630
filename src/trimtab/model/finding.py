"""A finding: a setting or state that is wrong now, without history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst: sorts findings."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Seen:
    """A value that a finding rests on, in base SI, with its unit, and what it is of."""

    value: float | int | str | bool | None
    unit: str | None
    what: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do: prose, and the exact command as an argument list where there is one.

    The command is complete: it needs no shell around it and nothing on its standard input.
    """

    prose: str
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is set up badly, with what to do about it.

    Attributes
    ----------
    id
        A stable word: ``fullness-over-limit`` ...
    title
        One line: what is wrong, with its figure.
    target
        ``None`` is the whole file system.
    seen
        The value that it rests on.
    evidence
        Further values: one row for each device or criterion.
    source
        The file or command where ``seen`` was read.
    why
        Why it matters, with the document or kernel source that says so.
    confidence
        0 to 1: how sure Trimtab is that this matters here.
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
    """Something that Trimtab could not see, and why."""

    what: str
    reason: str
