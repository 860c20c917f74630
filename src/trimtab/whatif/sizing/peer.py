"""Compares the requested drive with the same flash and another spare, at equal bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trimtab.twin.scenario.model import DriveModel
from trimtab.whatif.sizing.amplifying import Amplified, Case

_LITTLE: Final = (0.127, "1 DWPD")
_MUCH: Final = (0.272, "3 DWPD")
_BETWEEN: Final = 0.2
_FULLEST: Final = 0.97


@dataclass(frozen=True, slots=True)
class Peer:
    """The other drive.

    Attributes
    ----------
    fullness
        Fullness with the same bytes.
    """

    name: str
    spare: float
    capacity_bytes: float
    fullness: float

    @property
    def is_possible(self) -> bool:
        """Whether the bytes fit, with space for writes."""
        return self.fullness <= _FULLEST


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both drives, never trimmed and trimmed as requested."""

    peer: Peer
    own_never: Amplified
    own_trimmed: Amplified
    peer_never: Amplified | None
    peer_trimmed: Amplified | None


def peer_of(drive: DriveModel, fullness: float) -> Peer:
    """Return the same flash with the other spare.

    Notes
    -----
    15.36 TB with 12.7 % spare is 17.6 TB of flash; with 27.2 % spare it is sold as 12.8 TB. Data
    that fills 75 % of the former fills 90 % of the latter.
    """
    spare, name = _MUCH if drive.spare < _BETWEEN else _LITTLE
    capacity = drive.capacity_bytes / (1 - drive.spare) * (1 - spare)
    return Peer(name, spare, capacity, fullness * drive.capacity_bytes / capacity)


def cases_of(peer: Peer, trimmed: Case) -> tuple[Case, Case] | None:
    """Return the other drive's cases, never trimmed and trimmed; ``None`` if it is too small."""
    if not peer.is_possible:
        return None
    alike = replace(trimmed, spare=peer.spare, fullness=peer.fullness)
    return replace(alike, trim_every=None, discard=False), alike
