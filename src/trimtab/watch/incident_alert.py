"""Alerts about an incident: when it opens, gets worse, has its cause found, and closes.

An incident's id changes when more runs locate its start better. A subject is therefore matched with
the incident last found for it: the same id, or else the nearest start within `SAME_INCIDENT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from trimtab.base.finding import Alert, Phase, Severity
from trimtab.base.incident import GOING_ON, SAME_INCIDENT, Explanation, IncidentState, Shape
from trimtab.base.plain import as_number, as_text
from trimtab.base.series import ChangeStatus
from trimtab.base.units import format_percent
from trimtab.store.kept import KeptIncident
from trimtab.watch.alert_table import (
    CLOSED,
    INCIDENT,
    INTEGRITY,
    OPEN,
    AlertDraft,
    AlertView,
    Subject,
)

Key = TypeVar("Key")
NEWS: Final = timedelta(days=7)
"""An incident that started, and was detectable, longer ago is noted but not sent."""
WORSE: Final = 0.10
"""Extra loss over the one reported, as a fraction of the good level, that counts as worse."""
SEVERE: Final = 0.50
"""Loss, as a fraction of the good level, from which an incident is critical."""
FEWEST_RUNS: Final = 3
"""Bad runs from which an incident is reported; one or two may fail by chance."""
MISSING_FOR: Final = timedelta(days=3)
"""Time after which an incident no longer found is closed; a later analysis may find it again."""
_LOST: Final = "no_longer_found"
"""Fact of a subject closed as no longer found: if found again, it is the same incident."""
_PREFIX: Final = "incident:"


def incident_alerts(observed: AlertView, draft: AlertDraft) -> Iterator[Alert]:
    """Yield the alerts about incidents; none before the first analysis."""
    if observed.judged_at is None:
        return
    known = {name: subject for name, subject in draft.subjects.items() if name.startswith(_PREFIX)}
    matches = _matches(observed.incidents, known)
    integrity = draft.subject(INTEGRITY)
    for incident in observed.incidents:
        subject = matches.get(incident.id)
        if subject is None:
            if not _is_told_elsewhere(incident, integrity):
                yield from _first(observed, incident, draft.subject(_PREFIX + incident.id), draft)
        else:
            yield from _again(observed, incident, subject, draft)
    matched = {subject.name for subject in matches.values()}
    for name, subject in known.items():
        if name not in matched:
            yield from _missing(observed, subject, draft)


def _matches(
    incidents: tuple[KeptIncident, ...], known: Mapping[str, Subject]
) -> dict[str, Subject]:
    """Return incident to its subject."""
    left = dict(known)
    matches: dict[str, Subject] = {}
    for incident in incidents:
        for name, subject in left.items():
            if subject.facts.get("incident") == incident.id:
                matches[incident.id] = left.pop(name)
                break
    for incident in incidents:
        if incident.id in matches:
            continue
        is_integrity = incident.shape == Shape.INTEGRITY
        began = [
            (name, _began(subject))
            for name, subject in sorted(left.items())
            if (subject.facts.get("shape") == Shape.INTEGRITY) == is_integrity
        ]
        if (name := _same(incident.at, began)) is not None:
            matches[incident.id] = left.pop(name)
    return matches


def _same(at: datetime, known: Iterable[tuple[Key, datetime]]) -> Key | None:
    """Return the known incident that began nearest to a time; ``None`` if none is the same."""
    near = [(abs(began - at), key) for key, began in known if abs(began - at) <= SAME_INCIDENT]
    return min(near, key=itemgetter(0))[1] if near else None


def new_among(
    explanations: Sequence[Explanation], stored: Sequence[KeptIncident]
) -> Iterator[Explanation]:
    """Yield open incidents that were not known; each known one accounts for one.

    With more runs the start of an incident is estimated better, and another series may lead it: it
    is then the same incident under another id.
    """
    ids = {explanation.incident.id for explanation in explanations}
    known = {explanation.id for explanation in stored}
    placed_anew = [known for known in stored if known.id not in ids and known.state in GOING_ON]
    for explanation in explanations:
        incident = explanation.incident
        if incident.id in known or incident.state is IncidentState.ENDED:
            continue
        is_integrity = incident.shape is Shape.INTEGRITY
        same = _same(
            incident.at,
            (
                (earlier, earlier.at)
                for earlier in placed_anew
                if (earlier.shape == Shape.INTEGRITY.value) == is_integrity
            ),
        )
        if same is not None:
            placed_anew.remove(same)
        else:
            yield explanation


def _began(subject: Subject) -> datetime:
    return datetime.fromisoformat(str(subject.facts["at"]))


def _is_told_elsewhere(incident: KeptIncident, integrity: Subject) -> bool:
    """Whether the alert about bad checksums already reported an integrity incident."""
    if incident.shape != Shape.INTEGRITY or integrity.sent_at is None:
        return False
    return abs(integrity.sent_at - incident.at) <= SAME_INCIDENT or integrity.belief == OPEN


def _first(
    observed: AlertView, incident: KeptIncident, subject: Subject, draft: AlertDraft
) -> Iterator[Alert]:
    """Yield the first alert about an incident, or a note if it is too old to send."""
    if incident.state == IncidentState.ENDED or not _is_certain(incident):
        return
    is_news = incident.state == IncidentState.OPEN and draft.now - incident.at <= NEWS
    phase = Phase.OPENED if is_news else Phase.NOTED
    yield _alert(observed, incident, subject, phase, draft)


def _is_certain(incident: KeptIncident) -> bool:
    """Whether an incident is confirmed; data at risk is reported without waiting for that."""
    if incident.shape == Shape.INTEGRITY:
        return True
    runs = as_number(incident.document.get("runs"))
    enough = runs is None or runs >= FEWEST_RUNS
    return enough and incident.certainty == ChangeStatus.CONFIRMED


def _again(
    observed: AlertView, incident: KeptIncident, subject: Subject, draft: AlertDraft
) -> Iterator[Alert]:
    """Yield the news about a known incident."""
    facts = subject.facts
    if subject.belief == CLOSED and facts.get(_LOST):
        yield from _found_again(observed, incident, subject, draft)
        return
    if subject.belief != OPEN:
        reopened = subject.belief == CLOSED and incident.state == IncidentState.OPEN
        waited = subject.sent_at is not None and draft.now - subject.sent_at >= SAME_INCIDENT
        if reopened and waited and _is_certain(incident):
            yield _alert(observed, incident, subject, Phase.REOPENED, draft)
        return
    if incident.state == IncidentState.ENDED:
        yield _alert(observed, incident, subject, Phase.CLOSED, draft)
    elif _loss(incident.effect) >= _loss(facts.get("effect")) + WORSE:
        yield _alert(observed, incident, subject, Phase.WORSENED, draft)
    elif (cause := _cause_id(incident)) is not None and cause not in facts.get("causes", ()):
        yield _alert(observed, incident, subject, Phase.EXPLAINED, draft)
    elif facts.get("incident") != incident.id or facts.get("missing_since"):
        # Note the new id, but keep the reported loss: small steps must add up.
        more = {"effect": facts.get("effect"), "causes": facts.get("causes", [])}
        yield _alert(observed, incident, subject, Phase.NOTED, draft, **more)


def _found_again(
    observed: AlertView, incident: KeptIncident, subject: Subject, draft: AlertDraft
) -> Iterator[Alert]:
    """Yield an alert if an incident closed as no longer found is back and worse."""
    goes_on = incident.state == IncidentState.OPEN and _is_certain(incident)
    if goes_on and _loss(incident.effect) >= _loss(subject.facts.get("effect")) + WORSE:
        yield _alert(observed, incident, subject, Phase.WORSENED, draft)
    elif subject.facts.get("incident") != incident.id:
        more = {"effect": subject.facts.get("effect"), _LOST: True}
        yield _alert(observed, incident, subject, Phase.NOTED, draft, **more)


def _missing(observed: AlertView, subject: Subject, draft: AlertDraft) -> Iterator[Alert]:
    """Close an incident that is no longer found."""
    if subject.belief != OPEN or observed.judged_at is None:
        return
    if subject.at is not None and observed.judged_at < subject.at:
        return  # no analysis since
    since = subject.facts.get("missing_since")
    severity = Severity(subject.facts.get("severity", Severity.WARNING))
    if since is None:
        facts = {**subject.facts, "missing_since": observed.judged_at.isoformat()}
        yield draft.alert(subject, INCIDENT, Phase.NOTED, severity, facts=facts)
    elif observed.judged_at - datetime.fromisoformat(str(since)) >= MISSING_FOR:
        title = (
            f"no longer found since {since[:16].replace('T', ' ')} UTC: "
            f"{subject.facts.get('summary', 'an incident')}; next: trimtab incidents "
            f"{observed.site}"
        )
        facts = {**subject.facts, _LOST: True}
        yield draft.alert(subject, INCIDENT, Phase.CLOSED, severity, title=title, facts=facts)


def _loss(effect: Any) -> float:
    """Return the lost fraction of the good level; of durations, the fraction of their rise."""
    return 0.0 if effect is None else abs(1.0 - float(effect))


def _alert(
    observed: AlertView,
    incident: KeptIncident,
    subject: Subject,
    phase: Phase,
    draft: AlertDraft,
    **more: Any,
) -> Alert:
    critical = incident.shape == Shape.INTEGRITY or _loss(incident.effect) >= SEVERE
    severity = Severity.CRITICAL if critical else Severity.WARNING
    causes = list(subject.facts.get("causes", ()))
    if (cause := _cause_id(incident)) is not None and cause not in causes:
        causes.append(cause)
    facts = {
        "incident": incident.id,
        "at": incident.at.isoformat(),
        "shape": str(incident.shape),
        "effect": incident.effect,
        "causes": causes,
        "severity": severity.value,
        "summary": incident.summary,
        **more,
    }
    name = INTEGRITY if incident.shape == Shape.INTEGRITY else INCIDENT
    return draft.alert(
        subject,
        name,
        phase,
        severity,
        title=_title(observed, incident, phase),
        facts=facts,
        since=incident.at,
        lines=_lines(observed, incident),
    )


def _title(observed: AlertView, incident: KeptIncident, phase: Phase) -> str:
    head = {
        Phase.WORSENED: "worse: ",
        Phase.EXPLAINED: "cause found: ",
        Phase.CLOSED: "over: ",
        Phase.REOPENED: "not over: ",
    }.get(phase, "")
    moment = f"{incident.at:%Y-%m-%dT%H:%MZ}"
    command = f"trimtab explain {observed.site} --at {moment}"
    return f"{head}{incident.summary}; {_cause(incident)}; next: {command}"


def _cause(incident: KeptIncident) -> str:
    title = incident.chain_text
    confidence = as_number(incident.likeliest.get("confidence"))
    if title is None:
        return "cause not found yet"
    likely = "" if confidence is None else f" ({format_percent(confidence, 0)})"
    return f"likely cause: {title}{likely}"


def _cause_id(incident: KeptIncident) -> str | None:
    return as_text(incident.likeliest.get("id"))


def _lines(observed: AlertView, incident: KeptIncident) -> tuple[str, ...]:
    local = incident.at.astimezone(ZoneInfo(observed.timezone))
    lines = [f"Since: {local:%Y-%m-%d %H:%M %Z}"]
    if incident.effect is not None:
        lines.append(f"Level: {format_percent(incident.effect, 0)} of the good level")
    if deciding := as_text(incident.document.get("deciding")):
        lines.append(f"Deciding measurement: {deciding}")
    return tuple(lines)
