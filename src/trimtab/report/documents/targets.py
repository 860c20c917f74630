"""How the state of a site is written: its targets and machines, each with its troubles."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.model.target import SiteState, TargetState, Trouble
from trimtab.model.telemetry import HostSnapshot
from trimtab.report.documents import values  # noqa: F401 (declares readings)
from trimtab.report.documents.encode import shape


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
