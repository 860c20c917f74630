"""A cause: its id, title, prior odds, and a pure function from context to evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trimtab.explain.context import Context
from trimtab.model.incident import Evidence, Found

Assess = Callable[[Context], tuple[Evidence, ...]]


@dataclass(frozen=True, slots=True)
class Cause:
    """One mechanism that makes a file system slow or unsteady.

    Attributes
    ----------
    id
        ``targets-over-limit``, ``trim-overdue`` ...
    title
        Display name: "targets over the fullness limit".
    prior
        Odds, before looking at any evidence, that an incident has this cause.
    assess
        Every piece of evidence that was looked for, found or not. Pure; raises nothing.
    signs
        Codes of the evidence specific to this mechanism. If none of it supports the cause,
        circumstances (shape, season, metric) alone do not make it a candidate.
    measurement
        The experiment that would decide whether this is the cause, in one sentence, on one target.
    slows_metadata
        Whether it can slow metadata operations, which touch no OST.
    measurement_where
        Code of evidence to the sentence that replaces ``measurement`` if that evidence was found:
        never advise what is already in force.
    brings_about
        Ids of causes that this one may trigger: a full target gets closed.
    mitigation
        Whether it is a deliberate measure against something else: if nearly certain, it ranks
        first, because it can be undone at once.
    """

    id: str
    title: str
    prior: float
    assess: Assess
    measurement: str
    brings_about: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    mitigation: bool = False
    slows_metadata: bool = True
    measurement_where: tuple[tuple[str, str], ...] = ()

    def deciding(self, evidence: Iterable[Evidence]) -> str:
        """Return the decisive measurement, given the evidence found."""
        codes = {piece.what.code for piece in evidence if piece.found is not Found.NOT_AVAILABLE}
        other = (sentence for code, sentence in self.measurement_where if code in codes)
        return next(other, self.measurement)
