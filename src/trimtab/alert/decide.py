"""Decide which alerts a site's record asks for: one for each phase of a problem, and no more.

Decisions depend only on the record and the ledger, which has every alert decided before and what
people know since. Called again with the same record and ledger, `decide` returns the same alerts
with the same ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from trimtab.alert.incidents import incident_alerts
from trimtab.alert.ledger import NOTHING, OPEN, Draft, subjects_of
from trimtab.alert.observed import ActionView, Observed
from trimtab.alert.states import state_alerts
from trimtab.alert.table import (
    ACTION_FAILED,
    APPROVAL_FORGED,
    PURGE_FAILED,
    WATCH_GONE,
)
from trimtab.model.alert import Alert, Phase
from trimtab.model.finding import Severity
from trimtab.units import plural

_ACTION_PREFIX: Final = "action:"
_PURGE: Final = "purge"
_APPROVAL_PREFIX: Final = "approval:"


def decide(observed: Observed, sent: Sequence[Alert], now: datetime) -> list[Alert]:
    """Return the alerts to send or note now, most severe first.

    Parameters
    ----------
    sent
        The site's ledger, oldest row first.
    now
        Current time by the site's clock, with a time zone.
    """
    draft = Draft(observed.site, now, subjects_of(sent))
    alerts = [
        *state_alerts(observed, draft),
        *incident_alerts(observed, draft),
        *_actions(observed, draft),
        *_purges(observed, draft),
        *_forged(observed, draft),
        *_watched_again(draft),
    ]
    return sorted(alerts, key=lambda alert: alert.severity.rank)


def watch_gone(
    site: str, sent: Sequence[Alert], now: datetime, *, slot: str, due_at: datetime
) -> Alert | None:
    """Return the alert that no process watches a site; ``None`` if already sent.

    Parameters
    ----------
    sent
        The site's ledger, oldest row first.
    slot
        Name of the scheduled item that did not start.
    """
    draft = Draft(site, now, subjects_of(sent))
    subject = draft.subject(WATCH_GONE)
    if subject.belief == OPEN:
        return None
    return draft.alert(
        subject,
        WATCH_GONE,
        Phase.OPENED,
        Severity.CRITICAL,
        title=f"no process watches {site}: the {slot} of {due_at:%Y-%m-%d %H:%M} UTC was not "
        f"started; next: systemctl status trimtab-watch@{site}",
        facts={},
        since=due_at,
    )


def _watched_again(draft: Draft) -> Iterator[Alert]:
    """Close the alert that no process watches the site, because this one does."""
    subject = draft.subject(WATCH_GONE)
    if subject.belief == OPEN:
        title = f"{draft.site} is watched again"
        yield draft.alert(
            subject, WATCH_GONE, Phase.CLOSED, Severity.CRITICAL, title=title, facts={}
        )


def _actions(observed: Observed, draft: Draft) -> Iterator[Alert]:
    """Yield an alert for each policy whose actions fail, at most once a day."""
    for view in observed.actions:
        subject = draft.subject(_ACTION_PREFIX + view.policy)
        told_of = subject.facts.get("until", "")
        if view.at.isoformat() <= told_of or not draft.may_be_sent(subject, Severity.WARNING):
            continue
        yield draft.alert(
            subject,
            ACTION_FAILED,
            Phase.WORSENED if subject.belief == OPEN else Phase.OPENED,
            Severity.WARNING,
            title=_action_title(observed.site, view),
            facts={"until": view.at.isoformat()},
            since=view.at,
            lines=() if view.detail is None else (f"Last answer: {view.detail}",),
        )


def _purges(observed: Observed, draft: Draft) -> Iterator[Alert]:
    """Yield an alert when the scheduled purge fails, and when it works again."""
    subject = draft.subject(_PURGE)
    is_open, severity = subject.belief == OPEN, Severity.WARNING
    if observed.purging:
        first, *others = observed.purging
        reported = [f"{trouble.id} {trouble.at.isoformat()}" for trouble in observed.purging]
        if is_open and (
            reported == subject.facts.get("purging")
            or not draft.may_be_sent(subject, Severity.WARNING)
        ):
            return
        since = f"{first.at:%Y-%m-%d}"
        yield draft.alert(
            subject,
            PURGE_FAILED,
            Phase.WORSENED if is_open else Phase.OPENED,
            severity,
            title=f"{first.text}; next: trimtab event list {observed.site} --since {since}",
            facts={"purging": reported},
            since=first.at,
            lines=tuple(trouble.text for trouble in others),
        )
    elif is_open:
        title = f"the scheduled purge of {observed.site} works again"
        yield draft.alert(subject, PURGE_FAILED, Phase.CLOSED, severity, title=title, facts={})


def _forged(observed: Observed, draft: Draft) -> Iterator[Alert]:
    """Yield one alert for each approval without a valid signature."""
    for entry in observed.forged:
        subject = draft.subject(_APPROVAL_PREFIX + entry.id)
        if subject.belief == NOTHING:
            yield draft.alert(
                subject,
                APPROVAL_FORGED,
                Phase.OPENED,
                Severity.CRITICAL,
                title=f"the log book of {observed.site} has an approval of a purge plan without a "
                f"valid signature ({entry.source}), which is ignored; next: find out who can "
                "write the store",
                facts={},
                since=entry.at,
            )


def _action_title(site: str, view: ActionView) -> str:
    number = sum(view.outcomes.values())
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(view.outcomes.items()))
    return (
        f"{plural(number, 'action')} of the policy {view.policy} failed ({outcomes}), last at "
        f"{view.at:%Y-%m-%d %H:%M} UTC; next: trimtab actions {site}"
    )
