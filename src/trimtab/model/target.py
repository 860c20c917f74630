"""Targets with their problems, a site's targets sorted by severity, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.model.finding import Severity
from trimtab.model.telemetry import HostSnapshot, Snapshot, TargetSnapshot
from trimtab.report.documents.encode import shape


@dataclass(frozen=True, slots=True)
class Trouble:
    """One problem of a target or a machine.

    Attributes
    ----------
    id
        A stable word: ``lost``, ``read-only``, ``closed`` ...
    text
        What is wrong, in a few words, with its figure.
    source
        The parameter, file or command that reports it.
    """

    id: str
    severity: Severity
    text: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class TargetState:
    """One target with its readings and its problems, worst first."""

    seen: TargetSnapshot
    troubles: tuple[Trouble, ...] = ()

    @property
    def name(self) -> str:
        """The target's name."""
        return self.seen.target.name

    @property
    def rank(self) -> tuple[int, int, int, float]:
        """Sort key: worst severity, then exposed data, then more problems, then higher fullness.

        A degraded target that still accepts new files ranks before a closed one: closing it adds a
        problem and removes a risk.
        """
        worst = min((trouble.severity.rank for trouble in self.troubles), default=len(Severity))
        degraded = any(trouble.id == "degraded" for trouble in self.troubles)
        open_ = self.seen.value("create_enabled") is not False
        exposed = 0 if degraded and open_ else 1
        return worst, exposed, -len(self.troubles), -(self.seen.fullness() or 0.0)


@dataclass(frozen=True, slots=True)
class HostState:
    """One machine with its problems, worst first."""

    name: str
    role: str
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteState:
    """All targets of a site at one time, sorted by severity.

    Attributes
    ----------
    hosts
        Machines with a problem of their own.
    kept
        Whether the snapshot comes from the store.
    """

    site: str
    snapshot: Snapshot
    targets: tuple[TargetState, ...]
    hosts: tuple[HostState, ...] = ()
    kept: bool = False

    def without_readings(self) -> SiteState:
        """Return the targets and machines with their troubles alone."""
        snapshot = replace(self.snapshot, targets=(), hosts=())
        targets = tuple(
            replace(each, seen=TargetSnapshot(each.seen.target, ())) for each in self.targets
        )
        return replace(self, snapshot=snapshot, targets=targets)


@dataclass(frozen=True, slots=True)
class HostRow:
    """One machine of the site."""

    host: HostSnapshot
    troubles: tuple[Trouble, ...]


def _host_rows(state: SiteState) -> tuple[HostRow, ...]:
    troubles = {host.name: host.troubles for host in state.hosts}
    return tuple(HostRow(host, troubles.get(host.name, ())) for host in state.snapshot.hosts)


shape(HostRow, inline={"host": ()})
shape(TargetState, inline={"seen": ()})
shape(
    SiteState,
    inline={"snapshot": ("at", "driver", "complete")},
    derive={"hosts": (tuple[HostRow, ...], _host_rows)},
)
