"""The explanation of an incident: every cause is assessed, ranked and described."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trimtab.explain.causes import TABLE
from trimtab.explain.causes.cause import Cause
from trimtab.explain.context import Context
from trimtab.explain.instruments import instruments
from trimtab.explain.ranking import (
    FAINT,
    NOT_OF_NAMES,
    SHOWN,
    Weighed,
    assessment,
    confidence,
    rank,
    weigh,
)
from trimtab.message import Message
from trimtab.model.incident import NAMED, Assessment, Evidence, Explanation, Found, Incident, Shape
from trimtab.units import enumerated

Gathered = tuple[Cause, tuple[Evidence, ...]]

_NAMES_SHOWN = 3
_ON_NAMES = ("file_", "directory_", "metadata_")


def explain(
    context: Context, *, table: Sequence[Cause] = TABLE, standing: Sequence[Assessment] = ()
) -> Explanation:
    """Explain an incident.

    Parameters
    ----------
    context
        The incident with all data that may explain it.
    table
        Causes to assess.
    standing
        Conditions that are known to be older than the record, from `standing_conditions`.

    Returns
    -------
    Explanation
        The likely causes, those excluded and not assessed, and the measurement that would decide.

    Notes ----- Every cause collects all its evidence. Weights are added to the prior odds, and
    pieces of evidence of one route are shrunk; the best cause reduces the odds of the others
    slightly; the sum is converted to a confidence that was calibrated on simulated incidents
    (docs/explaining.md).
    """
    explanation = conclude(context.incident, gather(context, table), standing=standing)
    return replace(explanation, instruments=instruments(context))


def gather(context: Context, table: Sequence[Cause] = TABLE) -> tuple[Gathered, ...]:
    """Return every cause with all its evidence."""
    return tuple((cause, cause.assess(context)) for cause in table)


def conclude(
    incident: Incident, gathered: Sequence[Gathered], *, standing: Sequence[Assessment] = ()
) -> Explanation:
    """Return the explanation that follows from the evidence of all causes."""
    ranked = ranked_for(incident, gathered)
    shown = [candidate for candidate in ranked if _is_shown(candidate)]
    rest = [candidate for candidate in ranked if not _is_shown(candidate)]
    stood = tuple(
        assessment(candidate, standing=True) for candidate in rest if candidate.throughout
    )
    explanation = Explanation(
        incident=incident,
        causes=tuple(assessment(candidate) for candidate in shown),
        cleared=tuple(assessment(candidate) for candidate in rest if candidate.could_be_assessed),
        not_assessed=tuple(
            assessment(candidate) for candidate in rest if not candidate.could_be_assessed
        ),
        standing=stood,
        unexplained=not shown or confidence(shown[0].log_odds) < NAMED,
        deciding=deciding(shown, rest),
    )
    return with_standing(explanation, standing)


def ranked_for(incident: Incident, gathered: Sequence[Gathered]) -> tuple[Weighed, ...]:
    """Return the causes with what their evidence comes to for this incident, the likeliest first.

    Of what a single run shows most has no cause that lasts long enough to be found, and a spread
    has no bad hours of its own. What makes OSTs slow does not slow operations on names.
    """
    has_beginning = incident.shape is not Shape.STANDING
    alone = not incident.targets and incident.until in (None, incident.at)
    lone = incident.shape is Shape.DIP and incident.runs <= 1 and alone
    faint = FAINT if lone or incident.shape is Shape.UNSTEADY else 0.0
    of_names = incident.key is not None and incident.key.metric.startswith(_ON_NAMES)
    of_names = of_names and not any("bandwidth" in series for series in incident.moved_with)
    return rank(
        [
            weigh(
                cause,
                evidence,
                has_beginning=has_beginning,
                shift=faint + (NOT_OF_NAMES if of_names and not cause.slows_metadata else 0.0),
            )
            for cause, evidence in gathered
        ]
    )


def with_standing(explanation: Explanation, standing: Sequence[Assessment]) -> Explanation:
    """Return an explanation with the conditions of the whole record before its own."""
    known = {condition.cause for condition in standing}
    new_conditions = (
        condition for condition in explanation.standing if condition.cause not in known
    )
    return replace(explanation, standing=(*standing, *new_conditions))


def _is_shown(candidate: Weighed) -> bool:
    return (
        candidate.has_evidence_for
        and confidence(candidate.log_odds) >= SHOWN
        and not candidate.throughout
    )


def deciding(shown: Sequence[Weighed], rest: Sequence[Weighed]) -> Message:
    """Return the measurement that would decide between the two likeliest, or what to look at next.

    Where no cause is likely it is the likeliest of those that could not be assessed.
    """
    if len(shown) >= 2 and shown[0].because_of != shown[1].cause.id:
        first, second = shown[0].cause, shown[1].cause
        text = f"{first.title}, or {second.title}? {shown[0].deciding}"
        return Message("decide-between-two", text)
    if shown:
        return Message("decide-on-first", f"{shown[0].cause.title}? {shown[0].deciding}")
    blind = [candidate for candidate in rest if not candidate.could_be_assessed]
    if not blind:
        return Message("no-evidence", "no supporting evidence found")
    names = enumerated((candidate.cause.title for candidate in blind), _NAMES_SHOWN)
    missing = next(
        (
            p.reason
            for candidate in blind
            for p in candidate.evidence
            if p.found is Found.NOT_AVAILABLE
        ),
        None,
    )
    why = "" if missing is None else f" ({missing})"
    return Message("not-assessed", f"not assessed: {names}{why}; {blind[0].deciding}")
