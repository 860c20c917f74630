"""What a cause is made of: an id, a name, how common it is, and a pure function from a context."""

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
        For people: "targets over the fullness limit".
    prior
        Odds, before anything was looked at, that an incident has this cause.
    assess
        Every piece of evidence that was looked for, found or not. Pure; raises nothing.
    signs
        Codes of the evidence that is of this mechanism itself. Where none of it speaks for the
        cause, circumstances (the shape, the season, which metric) do not make it one.
    measurement
        What would decide whether this is the cause, in one sentence: the one-target experiment.
    slows_metadata
        Whether it can slow operations on names, which touch no OST.
    measurement_where
        Code of evidence to the sentence in its place where that evidence was found: what is in
        force already is not advised.
    brings_about
        Ids of causes that this one may bring about: full brings gated about.
    mitigation
        Whether somebody did it on purpose, against something else: where it is as good as certain
        it comes first, for it can be undone at once.
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
        """Return the measurement that would decide, beside what was found."""
        codes = {piece.what.code for piece in evidence if piece.found is not Found.NOT_AVAILABLE}
        other = (sentence for code, sentence in self.measurement_where if code in codes)
        return next(other, self.measurement)
