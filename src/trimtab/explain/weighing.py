"""Weigh the evidence of one cause: prior odds, and the pieces of each route together. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.base.incident import Evidence, Found, Route
from trimtab.explain.context import Cause

_NEXT_PIECE: Final = 0.5
"""Weight of each further piece of one route relative to the one before it.

Pieces of one route rely on the same hours, or the same targets: if one misleads, so do the
others. 1 would treat them as independent, 0 would count only the heaviest.
"""
_ROUTE_MOST: Final = 2.5
"""Maximum total weight of one route."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A cause with its evidence and the resulting odds.

    Attributes
    ----------
    evidence_weight
        log10 of the likelihood ratio of all its evidence.
    log_odds
        log10 of the odds after prior, evidence and the other causes.
    throughout
        Its condition was present in good and bad hours alike: `Evidence.throughout`.
    """

    cause: Cause
    evidence: tuple[Evidence, ...]
    evidence_weight: float
    log_odds: float
    throughout: bool
    because_of: str | None = None

    @property
    def deciding(self) -> str:
        """The measurement that would decide whether it is the cause."""
        return self.cause.deciding(self.evidence)

    @property
    def has_evidence_for(self) -> bool:
        """Whether a sign of its mechanism supports it; circumstances alone do not."""
        if self.cause.signs:
            return any(is_sign(self.cause, piece) for piece in self.evidence)
        return any(piece.found is Found.FOR for piece in self.evidence)

    @property
    def is_coincidence(self) -> bool:
        """Whether its signs show only that something changed when the incident began."""
        signs = [piece.what.code for piece in self.evidence if is_sign(self.cause, piece)]
        return bool(signs) and all(code in self.cause.coincidences for code in signs)

    @property
    def could_be_assessed(self) -> bool:
        """Whether any decisive evidence was available."""
        return any(piece.found in (Found.FOR, Found.AGAINST) for piece in self.evidence)


def weigh(
    cause: Cause, evidence: Iterable[Evidence], *, has_beginning: bool = True, shift: float = 0.0
) -> Weighed:
    """Return a cause with the sum of its evidence.

    Parameters
    ----------
    has_beginning
        Whether the incident began within the record. If so, a condition that was present throughout
        cannot be what began: a missed expectation counts nothing here and is reported as a standing
        condition instead.
    shift
        log10 added to the prior odds for this type of incident.
    """
    pieces = tuple(sorted(evidence, key=lambda piece: -abs(piece.weight)))
    throughout = any(piece.throughout for piece in pieces)
    began = any(piece.found is Found.FOR and piece.route is Route.TIME for piece in pieces)
    stood = has_beginning and throughout and not began
    counted = [
        piece
        for piece in pieces
        if not (stood and piece.route in _STANDING_ROUTES and piece.weight > 0)
    ]
    if has_beginning and cause.signs and not any(is_sign(cause, piece) for piece in counted):
        # Circumstances fit many causes: alone they identify none.
        counted = [piece for piece in counted if piece.weight <= 0]
    evidence_weight = sum(_together(counted, route) for route in Route)
    log_odds = math.log10(cause.prior) + shift + evidence_weight
    return Weighed(cause, pieces, evidence_weight, log_odds, stood)


def is_sign(cause: Cause, piece: Evidence) -> bool:
    """Return whether a piece supports the mechanism itself, not its circumstances."""
    return piece.found is Found.FOR and piece.what.code in cause.signs


_STANDING_ROUTES: Final = frozenset({Route.EXPECTED, Route.TARGETS})


def _together(pieces: Sequence[Evidence], route: Route) -> float:
    """Return the combined weight of all pieces of one route."""
    total = 0.0
    for sign in (1, -1):
        weights = sorted(
            (abs(p.weight) for p in pieces if p.route is route and p.weight * sign > 0),
            reverse=True,
        )
        total += sign * sum(weight * _NEXT_PIECE**index for index, weight in enumerate(weights))
    return max(-_ROUTE_MOST, min(_ROUTE_MOST, total))
