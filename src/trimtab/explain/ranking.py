"""Evidence of many causes brought to one list: odds, chains, explaining away, confidence. Pure.

```
 pieces of one route ─ shrunk ─▶ weight of the cause ─┐
 (they see the same thing)                            ├─▶ log odds ─ others ─▶ confidence
 prior odds ──────────────────────────────────────────┘   explain it away     (calibrated)
```
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from trimtab.explain.causes.cause import Cause
from trimtab.model.incident import NAMED, Assessment, Evidence, Found, Route

SHOWN: Final = 0.2
"""Confidence from which a cause with evidence for it is listed at all."""

_NEXT_PIECE: Final = 0.5
"""What each further piece of one route counts of the one before it.

Pieces of one route rest on the same hours, or the same targets: if one misleads, so do the
others. 1 would take them for independent, 0 would count the weightiest alone.
"""
_ROUTE_MOST: Final = 2.5
"""What all pieces of one route together weigh at most."""
_CHAIN_LEAST: Final = 0.3
"""Weight of its own from which an earlier link of a chain counts as having brought one about."""
_SEEN_LATE: Final = timedelta(hours=3)
"""Snapshots are taken every hour or few: of two things that began together either may be seen
first."""
_EXPLAINED_AWAY: Final = 0.5
"""log10 by which a cause goes down beside another, not of its chain, that is as good as certain.

An incident mostly has one cause; two at once do happen, so it is little.
"""

FAINT: Final = -0.7
"""Of a dip of one run and of a spread: of 400 such in records of sites where nothing was wrong none
had a cause."""
NOT_OF_NAMES: Final = -1.5
"""Of a cause that makes OSTs slow, where operations on names are."""

CALIBRATION: Final = (0.5, 1.0)
"""Intercept and slope of confidence = logistic(a + b x natural log odds).

``scripts/score_worlds.py --fit`` gave (0.63, 1.00) on 80 records of sites of which a third of the
faults have no cause (`tests.worlds`, seeds under 10,000), and (0.50, 0.92) to (0.67, 0.97) without
an eighth of them, but for one; it is rounded to the cautious side. An isotonic curve, and one with
the shape, the routes and the number of causes assessed, were no better on records left out. Tested
on other seeds in ``benchmarks/results/worlds.json``.
"""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A cause with its evidence and what that comes to.

    Attributes
    ----------
    evidence_weight
        log10 of the likelihood ratio of all its evidence.
    log_odds
        log10 of the odds after prior, evidence and the other causes.
    throughout
        Its condition was there in good hours as in bad ones: `Evidence.throughout`.
    """

    cause: Cause
    evidence: tuple[Evidence, ...]
    evidence_weight: float
    log_odds: float
    throughout: bool
    because_of: str | None = None

    @property
    def deciding(self) -> str:
        """What would decide whether it is the cause."""
        return self.cause.deciding(self.evidence)

    @property
    def has_evidence_for(self) -> bool:
        """Whether a sign of its mechanism speaks for it; circumstances alone do not."""
        if self.cause.signs:
            return any(is_sign(self.cause, piece) for piece in self.evidence)
        return any(piece.found is Found.FOR for piece in self.evidence)

    @property
    def could_be_assessed(self) -> bool:
        """Whether any decisive evidence was available."""
        return any(piece.found in (Found.FOR, Found.AGAINST) for piece in self.evidence)


def weigh(
    cause: Cause, evidence: Iterable[Evidence], *, has_beginning: bool = True, shift: float = 0.0
) -> Weighed:
    """Return what the evidence of one cause comes to.

    Parameters
    ----------
    has_beginning
        Whether the incident began within the record. Then a condition that was there throughout
        cannot be what began: an expectation that it misses counts nothing here, and a standing
        condition is made of it.
    shift
        log10 by which the prior odds differ for this sort of incident.
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
        # Circumstances fit many causes: alone they name none.
        counted = [piece for piece in counted if piece.weight <= 0]
    evidence_weight = sum(_together(counted, route) for route in Route)
    log_odds = math.log10(cause.prior) + shift + evidence_weight
    return Weighed(cause, pieces, evidence_weight, log_odds, stood)


def is_sign(cause: Cause, piece: Evidence) -> bool:
    """Return whether a piece speaks for the mechanism itself, not for its circumstances."""
    return piece.found is Found.FOR and piece.what.code in cause.signs


_STANDING_ROUTES: Final = frozenset({Route.EXPECTED, Route.TARGETS})


def _together(pieces: Sequence[Evidence], route: Route) -> float:
    """Return what all pieces of one route weigh together."""
    total = 0.0
    for sign in (1, -1):
        weights = sorted(
            (abs(p.weight) for p in pieces if p.route is route and p.weight * sign > 0),
            reverse=True,
        )
        total += sign * sum(weight * _NEXT_PIECE**index for index, weight in enumerate(weights))
    return max(-_ROUTE_MOST, min(_ROUTE_MOST, total))


def rank(weighed: Sequence[Weighed]) -> tuple[Weighed, ...]:
    """Return the causes, the likeliest first: chained, and explained away where another is better.

    Within a chain the proximate cause comes first and names what brought it about. A mitigation
    that is likely enough to be named comes before all.
    """
    chained = _chained(weighed)
    links = {candidate.cause.id: candidate for candidate in chained}
    adjusted = [
        replace(candidate, log_odds=_lowered(candidate, chained, links)) for candidate in chained
    ]
    return tuple(
        sorted(
            adjusted,
            key=lambda candidate: (
                not (candidate.cause.mitigation and confidence(candidate.log_odds) >= NAMED),
                not candidate.could_be_assessed,
                -candidate.log_odds,
                candidate.cause.id,
            ),
        )
    )


def confidence(log_odds: float) -> float:
    """Return the calibrated probability of log10 odds.

    Examples
    --------
    >>> confidence(-9) < 0.01 < 0.99 < confidence(9)
    True
    """
    intercept, slope = CALIBRATION
    exponent = intercept + slope * log_odds * math.log(10)
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, exponent))))


def assessment(candidate: Weighed, *, standing: bool = False) -> Assessment:
    """Return a cause as it is reported."""
    return Assessment(
        cause=candidate.cause.id,
        title=candidate.cause.title,
        confidence=round(confidence(candidate.log_odds), 4),
        evidence=candidate.evidence,
        because_of=candidate.because_of,
        standing=standing,
        measurement=candidate.deciding,
    )


def _chained(weighed: Sequence[Weighed]) -> list[Weighed]:
    """Return the causes with what brought them about, where both have evidence."""
    named: list[Weighed] = []
    for candidate in weighed:
        before = [
            other
            for other in weighed
            if candidate.cause.id in other.cause.brings_about
            and min(candidate.evidence_weight, other.evidence_weight) >= _CHAIN_LEAST
            and _not_later(other, candidate)
        ]
        first = max(before, key=lambda other: other.evidence_weight, default=None)
        named.append(candidate if first is None else replace(candidate, because_of=first.cause.id))
    return named


def _not_later(earlier: Weighed, later: Weighed) -> bool:
    """Return whether a cause can have come before another, as far as their times are known."""
    begins = [
        [
            piece.at
            for piece in candidate.evidence
            if piece.found is Found.FOR and piece.at is not None
        ]
        for candidate in (earlier, later)
    ]
    return not begins[0] or not begins[1] or min(begins[0]) <= min(begins[1]) + _SEEN_LATE


def _lowered(
    candidate: Weighed, everyone: Sequence[Weighed], links: Mapping[str, Weighed]
) -> float:
    """Return the log odds of a cause, lowered by the best other that is not of its chain."""
    family = _family(candidate, links)
    rivals = [
        other.log_odds
        for other in everyone
        if other.cause.id not in family and other.log_odds > candidate.log_odds
    ]
    best = max(rivals, default=-math.inf)
    share = 0.0 if best == -math.inf else 1 / (1 + 10**-best)
    lowered = candidate.log_odds - _EXPLAINED_AWAY * share
    # What a cause brought about is nearer to the slow runs: it stands before it.
    brought = [
        other.log_odds
        for other in everyone
        if other.because_of == candidate.cause.id and other.log_odds > 0
    ]
    return min([lowered, *(log_odds - 0.01 for log_odds in brought)])


def _family(candidate: Weighed, links: Mapping[str, Weighed]) -> set[str]:
    """Return the ids of the chain that a cause is of, itself included."""
    family = {candidate.cause.id}
    current: Weighed | None = candidate
    while current is not None and current.because_of is not None:
        if current.because_of in family:
            break
        family.add(current.because_of)
        current = links.get(current.because_of)
    family |= {other for other, link in links.items() if link.because_of in family}
    return family
