"""A target with what is wrong with it, and a site's targets sorted by trouble."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.finding import Severity
from trimtab.model.telemetry import Snapshot, TargetSnapshot


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that keeps a target or a machine from being whole.

    Attributes
    ----------
    id
        A stable word: ``lost``, ``read-only``, ``closed`` ...
    text
        What is wrong, in a few words, with its figure.
    source
        The parameter, file or command that says so.
    """

    id: str
    severity: Severity
    text: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class TargetState:
    """One target as it was seen, with its troubles, worst first."""

    seen: TargetSnapshot
    troubles: tuple[Trouble, ...] = ()

    @property
    def name(self) -> str:
        """The target's name."""
        return self.seen.target.name

    @property
    def rank(self) -> tuple[int, int, int, float]:
        """Sorts targets by trouble: worst severity, data at risk, more troubles, fuller.

        A degraded target that still takes new files comes before one that was closed: closing it
        is a trouble more and a risk less.
        """
        worst = min((trouble.severity.rank for trouble in self.troubles), default=len(Severity))
        degraded = any(trouble.id == "degraded" for trouble in self.troubles)
        open_ = self.seen.value("create_enabled") is not False
        exposed = 0 if degraded and open_ else 1
        return worst, exposed, -len(self.troubles), -(self.seen.fullness() or 0.0)


@dataclass(frozen=True, slots=True)
class HostState:
    """One machine with its troubles, worst first."""

    name: str
    role: str
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteState:
    """All targets of a site at one time, sorted by trouble.

    Attributes
    ----------
    hosts
        Machines with a trouble of their own.
    kept
        Whether the snapshot comes from the store.
    """

    site: str
    snapshot: Snapshot
    targets: tuple[TargetState, ...]
    hosts: tuple[HostState, ...] = ()
    kept: bool = False
