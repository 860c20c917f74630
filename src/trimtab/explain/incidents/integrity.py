"""Transfers with a bad checksum: data was at risk, whatever the speed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from trimtab.explain.incidents.spell import Spell, grouped
from trimtab.model.incident import Shape
from trimtab.model.series import ChangeStatus
from trimtab.units import plural

_TOGETHER: Final = timedelta(hours=24)
"""Errors of one day are one incident: they all call for checking the same path."""


@dataclass(frozen=True, slots=True)
class BadChecksums:
    """Transfers with a bad checksum that one machine or target had counted by a time.

    Attributes
    ----------
    at
        The first snapshot that shows them.
    where
        Machine or target that counted them.
    count
        Increase since the previous snapshot.
    """

    at: datetime
    where: str
    count: int


def integrity(counts: Iterable[BadChecksums], now: datetime) -> list[Spell]:
    """Return the stretches in which transfers had bad checksums."""
    bad = sorted(
        (machine for machine in counts if machine.count > 0),
        key=lambda machine: (machine.at, machine.where),
    )
    return [_spell(group, now) for group in grouped(bad, attrgetter("at"), _TOGETHER)]


def _spell(group: list[BadChecksums], now: datetime) -> Spell:
    where = sorted({machine.where for machine in group})
    last = group[-1].at
    count = sum(machine.count for machine in group)
    return Spell(
        shape=Shape.INTEGRITY,
        key=None,
        name="checksums",
        at=group[0].at,
        until=None if now - last <= _TOGETHER else last,
        last=last,
        detected_at=group[0].at,
        certainty=ChangeStatus.CONFIRMED,
        depth=1000.0,
        what=f"{plural(count, 'transfer')} with a bad checksum, on {', '.join(where)}",
        targets=tuple(machine for machine in where if machine.startswith(("OST", "MDT"))),
    )
