"""Explain an incident: assess, rank and describe every cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

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
from trimtab.model.incident import NAMED, Assessment, Evidence, Explanation, Incident, Shape
from trimtab.units import enumerated
from trimtab.visible import shell_text, site_word

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
        Conditions known to be older than the record, from `standing_conditions`.

    Returns
    -------
    Explanation
        The likely causes, those excluded and not assessed, and the decisive measurement.

    Notes
    -----
    Every cause collects all its evidence. Weights are added to the prior odds, and pieces of
    evidence of one route are shrunk; the best cause lowers the odds of the others slightly; the sum
    is converted to a confidence calibrated on simulated incidents (docs/explaining.md).
    """
    explanation = conclude(
        context.incident,
        gather(context, table),
        standing=standing,
        has_site_file=context.has_site_file,
        has_servers=bool(context.home),
    )
    return replace(explanation, instruments=instruments(context))


def gather(context: Context, table: Sequence[Cause] = TABLE) -> tuple[Gathered, ...]:
    """Return every cause with all its evidence."""
    return tuple((cause, cause.assess(context)) for cause in table)


def conclude(
    incident: Incident,
    gathered: Sequence[Gathered],
    *,
    standing: Sequence[Assessment] = (),
    has_site_file: bool = True,
    has_servers: bool = True,
) -> Explanation:
    """Return the explanation that follows from the evidence of all causes.

    Parameters
    ----------
    has_site_file, has_servers
        What the site can still answer: nothing for an archive, servers only if they are known.
    """
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
        deciding=deciding(
            incident, shown, rest, has_site_file=has_site_file, has_servers=has_servers
        ),
    )
    return with_standing(explanation, standing)


def ranked_for(incident: Incident, gathered: Sequence[Gathered]) -> tuple[Weighed, ...]:
    """Return the causes weighed for this incident, likeliest first.

    Most incidents of a single run have no cause that lasts long enough to find, and a spread
    has no bad hours of its own. What slows OSTs does not slow metadata operations.
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
    """Return an explanation with the conditions of the whole record listed before its own."""
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


def deciding(
    incident: Incident,
    shown: Sequence[Weighed],
    rest: Sequence[Weighed],
    *,
    has_site_file: bool,
    has_servers: bool,
) -> Message:
    """Return the measurement that separates the two likeliest causes, or the next thing to check.

    If no cause is likely, that is the slow target itself, else how to assess the likeliest cause
    that could not be assessed. Suggests nothing that the site cannot do.
    """
    if len(shown) >= 2 and shown[0].because_of != shown[1].cause.id:
        first, second = shown[0].cause, shown[1].cause
        text = f"{first.title}, or {second.title}? {_measurement(shown[0], incident)}"
        return Message("decide-between-two", text)
    if shown:
        text = f"{shown[0].cause.title}? {_measurement(shown[0], incident)}"
        return Message("decide-on-first", text)
    if incident.targets:
        return _look_at(incident, has_site_file=has_site_file, has_servers=has_servers)
    blind = [candidate for candidate in rest if not candidate.could_be_assessed]
    if not blind:
        advice = "" if incident.shape is Shape.MOMENT else f"; {_log_it(incident)}"
        return Message("no-evidence", f"no supporting evidence found{advice}")
    names = enumerated((candidate.cause.title for candidate in blind), _NAMES_SHOWN)
    reason = next((piece.reason for piece in blind[0].evidence if piece.reason is not None), None)
    if reason is None or reason.code not in _NO_SNAPSHOTS:
        advice = _measurement(blind[0], incident)
    elif has_site_file and incident.until is None:
        advice = f"take one while it lasts: trimtab snapshot {site_word(incident.site)}"
    else:
        advice = _log_it(incident)
    why = "" if reason is None else f" ({reason})"
    return Message("not-assessed", f"not assessed: {names}{why}; {advice}")


_NO_SNAPSHOTS: Final = frozenset({"no-snapshots", "no-bad-snapshots"})
_SITE: Final = re.compile(r"\bSITE\b")
"""Marks a measurement that names a command."""


def _measurement(candidate: Weighed, incident: Incident) -> str:
    return _SITE.sub(lambda _: site_word(incident.site), candidate.deciding)


def _log_it(incident: Incident) -> str:
    """Return how to add what snapshots cannot show: knowledge of people and other systems."""
    event = shell_text(["trimtab", "event", "add", incident.site, "--kind", "config-change"])
    return (
        f"log what changed then ({event} --at {incident.at:%Y-%m-%dT%H:%MZ} WORDS), or import what "
        "was recorded then (trimtab import FILE)"
    )


def _look_at(incident: Incident, *, has_site_file: bool, has_servers: bool) -> Message:
    """Return checks of the targets that are slow by themselves, if no cause is likely."""
    names = enumerated(incident.targets, _NAMES_SHOWN)
    if not has_site_file:
        text = (
            f"look at {names}: server, drives (smartctl), rebuild (mdstat), and a raw test "
            "(obdfilter-survey); trimtab import FILE stores the output"
        )
        return Message("look-at-target", text)
    site, targets = site_word(incident.site), incident.targets[:_NAMES_SHOWN]
    survey = "".join(f" --target {shell_text([target])}" for target in targets)
    raw = " --server" if has_servers else ""
    text = (
        f"look at {names}: server, drives, SMART, rebuild (trimtab targets {site} "
        f"{shell_text(targets)}), and a raw test (trimtab survey {site}{raw}{survey})"
    )
    return Message("look-at-target", text)
