"""How well simulated incidents are explained: played once, then scored as often as one likes.

Playing a scenario makes its world, finds its incidents and gathers the evidence of every cause.
Scoring ranks that evidence and holds it against the truth; it costs next to nothing.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.explain.worlds import WorldSource, incidents_of, known_of
from tests.incidents.generate import make_world
from tests.incidents.scenarios import Scenario
from tests.incidents.world import Truth

from trimtab.base.incident import Assessment, Evidence, Explanation, Incident, Shape
from trimtab.explain.causes import TABLE
from trimtab.explain.explanation import conclude, confidence, gather, ranked_for
from trimtab.explain.site_explanation import Known, context_of, standing_of

CONFIDENT = 0.9
"""Of the causes given at this confidence or more, nine in ten have to be right."""
_NEAR = timedelta(hours=3)
_NETWORK = re.compile(r"fabric|switch|network|lnet|link", re.IGNORECASE)
_CAUSES = {cause.id: cause for cause in TABLE}

Gathered = tuple[tuple[Incident, tuple[tuple[str, tuple[Evidence, ...]], ...]], ...]
"""Incidents, each with the evidence of every cause."""


@dataclass(frozen=True)
class Played:
    """One world with what was found in it, ready to be ranked."""

    name: str
    sort: str
    truth: tuple[Truth, ...]
    now: datetime
    gathered: Gathered
    standing: tuple[Assessment, ...]
    tells_of_network: bool
    """LNet selftest ran while the network was slow, or the log book has it. Without either a slow
    network looks like slow clients."""

    def explanations(self) -> tuple[Explanation, ...]:
        """Return what is said of each incident."""
        return tuple(
            conclude(
                incident,
                [(_CAUSES[name], evidence) for name, evidence in causes],
                standing=self.standing,
            )
            for incident, causes in self.gathered
        )


def gathered_of(incidents: Sequence[Incident], known: Known, source: WorldSource) -> Gathered:
    """Return each incident with the evidence of every cause."""
    return tuple(
        (
            incident,
            tuple(
                (cause.id, evidence)
                for cause, evidence in gather(context_of(incident, known, source, others=incidents))
            ),
        )
        for incident in incidents
    )


def play(scenario: Scenario) -> Played:
    """Return a scenario played: its incidents with the evidence of every cause."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the generator's own arithmetic
        world = make_world(scenario.spec)
    known, source = known_of(world), WorldSource(world)
    gathered = gathered_of(incidents_of(world, known), known, source)
    return Played(
        name=scenario.spec.name,
        sort=scenario.sort,
        truth=tuple(world.truth),
        now=known.now,
        gathered=gathered,
        standing=standing_of(known, source),
        tells_of_network=all(
            _tells_of_network(known, truth) for truth in world.truth if truth["cause"] == "network"
        ),
    )


def _tells_of_network(known: Known, truth: Truth) -> bool:
    """Return whether LNet selftest ran while the network was slow, or the log book has it."""
    start, end = truth["at"] - _NEAR, truth["until"] or known.now
    ran = any(run.kind == "lnet-selftest" and start <= run.at <= end for run in known.runs)
    return ran or any(
        start <= event.at <= end and _NETWORK.search(event.detail) for event in known.events
    )


@dataclass(frozen=True)
class Verdict:
    """How one cause that was put into a world came out.

    Attributes
    ----------
    visible
        Some instrument shows it, or it is of integrity.
    available
        Something that tells of it alone is in the record.
    detected
        An incident was found in its hours.
    place
        0 when no wrong cause stands before it; ``None`` when it is not listed.
    first
        The first cause that is listed, and its confidence.
    """

    world: str
    cause: str
    variant: str
    visible: bool
    available: bool
    detected: bool
    place: int | None
    first: str
    confidence: float


def verdicts(played: Played) -> list[Verdict]:
    """Return a verdict on each cause that began within the record and was put there by itself."""
    explanations = played.explanations()
    faults = [
        fault for fault in played.truth if not fault["standing"] and fault["seen_by"] is not None
    ]
    # What they brought about has nothing that saw it.
    roots = [fault for fault in faults if fault["seen_by"] or fault["cause"] == "bad-checksums"]
    return [_verdict(played, root, explanations) for root in roots]


def _verdict(played: Played, root: Truth, explanations: Sequence[Explanation]) -> Verdict:
    cause = root["cause"]
    visible = bool(root["seen_by"]) or cause == "bad-checksums"
    near = [
        explanation
        for explanation in explanations
        if _overlap_s(explanation.incident, root, played.now) > 0
    ]
    true = {fault["cause"] for fault in played.truth}
    # One fault may make several incidents: the one that began with it is looked at.
    main = min(
        near,
        key=lambda fault: (
            round(abs(fault.incident.at - root["at"]) / _NEAR),
            -_overlap_s(fault.incident, root, played.now),
        ),
        default=None,
    )
    listed = [] if main is None else [assessed.cause for assessed in main.causes]
    first = main.causes[0] if main is not None and main.causes else None
    place = None
    if cause in listed:
        place = sum(name not in true for name in listed[: listed.index(cause)])
    return Verdict(
        world=played.name,
        cause=cause,
        variant=root["variant"],
        visible=visible,
        available=cause != "network" or played.tells_of_network,
        detected=main is not None,
        place=place,
        first="no incident" if main is None else "nothing" if first is None else first.cause,
        confidence=0.0 if first is None else first.confidence,
    )


def _overlap_s(incident: Incident, truth: Truth, now: datetime) -> float:
    if (incident.shape is Shape.INTEGRITY) != (truth["cause"] == "bad-checksums"):
        return 0.0
    start = max(incident.at, truth["at"] - _NEAR)
    end = min(incident.until or now, (truth["until"] or now) + _NEAR)
    return (end - start).total_seconds() + 1


@dataclass(frozen=True)
class Listed:
    """One cause with evidence for it, in one incident.

    Attributes
    ----------
    log_odds
        log10, before calibration.
    """

    world: str
    sort: str
    cause: str
    log_odds: float
    confidence: float
    true: bool


def listed_causes(played: Iterable[Played]) -> list[Listed]:
    """Return every cause that has evidence for it in any incident, and whether it is true."""
    rows = []
    for world in played:
        for incident, causes in world.gathered:
            true = {
                truth["cause"] for truth in world.truth if _overlap_any(incident, truth, world.now)
            }
            ranked = ranked_for(incident, [(_CAUSES[name], evidence) for name, evidence in causes])
            rows += [
                Listed(
                    world.name, world.sort, each.cause.id, each.log_odds,
                    confidence(each.log_odds), each.cause.id in true,
                )
                for each in ranked
                if each.has_evidence_for and not each.throughout
            ]  # fmt: skip
    return rows


def _overlap_any(incident: Incident, truth: Truth, now: datetime) -> bool:
    start = max(incident.at, truth["at"] - _NEAR)
    end = min(incident.until or now, (truth["until"] or now) + 4 * _NEAR)
    return end >= start


def confusion(rows: Iterable[Verdict]) -> dict[str, Counter[str]]:
    """Return cause to what was said first instead, or ``right``."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in rows:
        table[verdict.cause]["right" if verdict.place == 0 else verdict.first] += 1
    return dict(table)
