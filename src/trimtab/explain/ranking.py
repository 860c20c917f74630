"""Combine evidence into one ranked list: odds, chains, explaining away, confidence. Pure.

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

from trimtab.base.incident import NAMED, Assessment, Evidence, Found, Route
from trimtab.explain.context import Cause

SHOWN: Final = 0.2
"""Confidence from which a cause with supporting evidence is listed."""

_NEXT_PIECE: Final = 0.5
"""Weight of each further piece of one route relative to the one before it.

Pieces of one route rely on the same hours, or the same targets: if one misleads, so do the
others. 1 would treat them as independent, 0 would count only the heaviest.
"""
_ROUTE_MOST: Final = 2.5
"""Maximum total weight of one route."""
_CHAIN_LEAST: Final = 0.3
"""Own weight from which an earlier link of a chain counts as having triggered a later one."""
_SEEN_LATE: Final = timedelta(hours=3)
"""Snapshots are hours apart: of two conditions that began together, either may be seen first."""
_EXPLAINED_AWAY: Final = 0.5
"""log10 penalty for a cause next to another, outside its chain, that is almost certain.

An incident usually has one cause; two at once do occur, so it is small.
"""

FAINT: Final = -0.7
"""For a dip of one run and for spread: of 400 such in records of healthy sites none had a cause."""
NOT_OF_NAMES: Final = -1.5
"""For a cause that slows OSTs if metadata operations are slow."""

CALIBRATION: Final = (0.5, 1.0)
"""Intercept and slope of confidence = logistic(a + b x natural log odds).

``scripts/score_worlds.py --fit`` gave (0.63, 1.00) on 80 records of sites in which a third of the
faults have no cause (`tests.worlds`, seeds under 10,000), and (0.50, 0.92) to (0.67, 0.97) without
an eighth of them, with one exception; it is rounded to the cautious side. An isotonic curve, and
one with the shape, the routes and the number of causes assessed, were no better on records left
out. Tested on other seeds in ``benchmarks/results/worlds.json``.
"""


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


def rank(weighed: Sequence[Weighed]) -> tuple[Weighed, ...]:
    """Return the causes, likeliest first, chained and explained away by better ones.

    Within a chain the proximate cause comes first and names its trigger. A mitigation likely enough
    to be listed comes before all.
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
    """Return the calibrated probability for log10 odds.

    Examples
    --------
    >>> confidence(-9) < 0.01 < 0.99 < confidence(9)
    True
    """
    intercept, slope = CALIBRATION
    exponent = intercept + slope * log_odds * math.log(10)
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, exponent))))


def assessment(candidate: Weighed, *, standing: bool = False) -> Assessment:
    """Return a cause in its reported form."""
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
    """Link causes to those that triggered them, if both have evidence."""
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
    """Return whether a cause can precede another, as far as their times are known."""
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
    """Return the log odds of a cause, lowered by the best other outside its chain."""
    family = _family(candidate, links)
    rivals = [
        other.log_odds
        for other in everyone
        if other.cause.id not in family and other.log_odds > candidate.log_odds
    ]
    best = max(rivals, default=-math.inf)
    share = 0.0 if best == -math.inf else 1 / (1 + 10**-best)
    lowered = candidate.log_odds - _EXPLAINED_AWAY * share
    # A triggered cause is closer to the slow runs: it ranks before its trigger.
    brought = [
        other.log_odds
        for other in everyone
        if other.because_of == candidate.cause.id and other.log_odds > 0
    ]
    return min([lowered, *(log_odds - 0.01 for log_odds in brought)])


def _family(candidate: Weighed, links: Mapping[str, Weighed]) -> set[str]:
    """Return the ids of a cause's chain, including its own."""
    family = {candidate.cause.id}
    current: Weighed | None = candidate
    while current is not None and current.because_of is not None:
        if current.because_of in family:
            break
        family.add(current.because_of)
        current = links.get(current.because_of)
    family |= {other for other, link in links.items() if link.because_of in family}
    return family
