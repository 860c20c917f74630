"""Decide which alerts a site's record asks for: one for each phase of a problem, and no more.

Decisions depend only on the record and the ledger, which has every earlier alert and what the
recipients know. Called again with the same record and ledger, `decide` returns the same alerts with
the same ids.

Alerts about states of targets and machines (lost, read-only, degraded, too full) have one subject
per state, not per target: a failed server takes eight targets with it but is one alert. A state is
confirmed once two consecutive snapshots, or two sources of one snapshot, show it, and is over once
two consecutive snapshots do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from trimtab.base.finding import Alert, Phase, Severity
from trimtab.base.run import grouped
from trimtab.base.units import enumerated, plural
from trimtab.base.verdict import Change
from trimtab.explain.space_forecast import SOON, is_near
from trimtab.watch.alert_table import (
    ACTION_FAILED,
    APPROVAL_FORGED,
    INTEGRITY,
    MAINTENANCE_OVER,
    NOTHING,
    OPEN,
    PURGE_FAILED,
    REACH,
    STATES,
    WATCH_GONE,
    ActionView,
    AlertDraft,
    AlertView,
    PlaceView,
    SnapshotView,
    StateAlert,
    Subject,
    subjects_of,
)
from trimtab.watch.incident_alert import incident_alerts

CALM: Final = timedelta(days=1)
"""Time without further bad checksums after which their alert closes."""
_RECEDED: Final = timedelta(days=2)
"""Time by which a forecast must be further than a week away for its alert to close."""
_LISTED: Final = 20


def state_alerts(observed: AlertView, draft: AlertDraft) -> Iterator[Alert]:
    """Yield the alerts about states; none without a snapshot."""
    if not observed.snapshots:
        return
    alerts = [_integrity(observed, draft.subject(INTEGRITY), draft)]
    alerts += [_of_state(observed, state, draft.subject(state.name), draft) for state in STATES]
    yield from filter(None, alerts)


def _of_state(
    observed: AlertView, state: StateAlert, subject: Subject, draft: AlertDraft
) -> Alert | None:
    newest, *earlier = observed.snapshots
    seen = _with_trouble(newest, state.trouble)
    seen_earlier = _with_trouble(earlier[0], state.trouble) if earlier else {}
    confirmed = {
        place: text
        for place, text in seen.items()
        if state.at_once or place in seen_earlier or state.trouble in newest.places[place].confirmed
    }
    known: dict[str, str] = dict(subject.facts.get("places", {})) if subject.belief == OPEN else {}
    over = {
        place
        for place in known
        if place not in seen and place not in seen_earlier and _is_over(observed, state, place)
    }
    going_on = {place: text for place, text in known.items() if place not in over}
    new = [place for place in confirmed if place not in known]
    places = {**going_on, **confirmed}
    since = subject.facts.get("since") if known else None
    facts = {"places": places, "since": since or newest.at.isoformat()}
    if new and draft.may_be_sent(subject, state.severity):
        phase = Phase.WORSENED if known else Phase.OPENED
        title = _title(observed.site, state, places, new if known else (), newest)
        return draft.alert(
            subject,
            state.name,
            phase,
            state.severity,
            title=title,
            facts=facts,
            since=newest.at,
            lines=_lines(places),
        )
    if subject.belief == OPEN and not going_on and not confirmed:
        names = enumerated(known) or "none left"
        title = f"no longer {state.words}: {names}; seen at {_time(newest)}"
        facts = {"places": {}, "since": newest.at.isoformat()}
        phase = Phase.CLOSED
        return draft.alert(
            subject, state.name, phase, state.severity, title=title, facts=facts, since=newest.at
        )
    if over:
        facts |= {"places": going_on}
        return draft.alert(subject, state.name, Phase.NOTED, state.severity, facts=facts)
    return None


def _integrity(observed: AlertView, subject: Subject, draft: AlertDraft) -> Alert | None:
    """Return the alert about transfers with a bad checksum since the previous snapshot.

    Only increases count, because a machine may have counted old ones. Increases within an hour of
    an alert go into the next one.
    """
    added = _added(observed.snapshots)
    is_open = subject.belief == OPEN
    known: dict[str, float] = dict(subject.facts.get("places", {})) if is_open else {}
    places = known | {name: known.get(name, 0) + count for name, count in added.items()}
    newest = observed.snapshots[0]
    waiting = bool(added) or (is_open and bool(subject.facts.get("pending")))
    added_at = newest.at.isoformat() if added else subject.facts.get("added_at")
    facts = {"places": places, "added_at": added_at, "pending": False}
    severity = Severity.CRITICAL
    if waiting and draft.may_be_sent(subject, severity):
        total = plural(sum(places.values()), "transfer", ".0f")
        names = enumerated(places)
        title = (
            f"{total} with a bad checksum at {names}, the last seen at {_time(newest)}: data may "
            f"be at risk; next: trimtab targets {observed.site}"
        )
        lines = _lines({name: f"{count:.0f} more" for name, count in places.items()})
        phase = Phase.WORSENED if known else Phase.OPENED
        return draft.alert(
            subject, INTEGRITY, phase, severity, title=title, facts=facts, since=newest.at,
            lines=lines,
        )  # fmt: skip
    if added:
        facts["pending"] = True
        return draft.alert(subject, INTEGRITY, Phase.NOTED, severity, facts=facts)
    if is_open and added_at and newest.at - datetime.fromisoformat(str(added_at)) >= CALM:
        title = (
            f"no more transfers with a bad checksum for a day: {enumerated(known)}; data written "
            "in that time remains suspect"
        )
        return draft.alert(
            subject, INTEGRITY, Phase.CLOSED, severity, title=title, facts={}, since=newest.at
        )
    return None


def _added(snapshots: Sequence[SnapshotView]) -> dict[str, float]:
    """Return place to the increase in transfers with a bad checksum in the newest snapshot."""
    if len(snapshots) < 2:
        return {}
    newest, earlier = (snapshot.places for snapshot in snapshots[:2])
    added = {}
    for name, place in newest.items():
        count_before = earlier[name].bad_checksums if name in earlier else None
        if place.bad_checksums is None or count_before is None:
            continue
        # A lower count restarted with its machine: all of it is new.
        more = place.bad_checksums - count_before
        if (more := place.bad_checksums if more < 0 else more) > 0:
            added[name] = more
    return added


def _with_trouble(snapshot: SnapshotView, trouble: str) -> dict[str, str]:
    """Return place to text for all places with a trouble."""
    return {
        name: problem.text
        for name, place in snapshot.places.items()
        for problem in place.troubles
        if problem.id == trouble
    }


def _is_over(observed: AlertView, state: StateAlert, place: str) -> bool:
    """Whether a state no longer seen is over, rather than just not visible."""
    newest = observed.snapshots[0]
    view = newest.places.get(place)
    if state.trouble in REACH:
        return view is not None
    if view is None or not (newest.complete or _is_readable(view)):
        return False
    if state.trouble == "over-limit":
        return view.fullness is not None and view.fullness < observed.reopen
    if state.trouble == "full-soon":
        return not is_near(view.full_when, newest.at, SOON + _RECEDED)
    return True


def _is_readable(view: PlaceView) -> bool:
    return not any(trouble.id in REACH or trouble.id == "not-seen" for trouble in view.troubles)


def _title(
    site: str,
    state: StateAlert,
    places: Mapping[str, str],
    new: Sequence[str],
    newest: SnapshotView,
) -> str:
    first = new[0] if new else next(iter(places))
    head = f"{plural(len(places), _noun(state))} {state.words}"
    if new:
        head = f"{len(new)} more {state.words}, {len(places)} in all"
    names = enumerated(new or places)
    return (
        f"{head}: {names} ({places[first]}), seen at {_time(newest)}; next: trimtab targets {site}"
    )


def _noun(state: StateAlert) -> str:
    return "machine" if state.name.startswith("server-") else "target"


def _lines(places: Mapping[str, str]) -> tuple[str, ...]:
    more = len(places) - _LISTED
    lines = [f"{place}: {text}" for place, text in list(places.items())[:_LISTED]]
    return (*lines, f"and {more} more") if more > 0 else tuple(lines)


def _time(snapshot: SnapshotView) -> str:
    return f"{snapshot.at:%Y-%m-%d %H:%M} UTC"


_ACTION_PREFIX: Final = "action:"
_PURGE: Final = "purge"
_APPROVAL_PREFIX: Final = "approval:"
_MAINTENANCE_PREFIX: Final = "maintenance:"


def decide(observed: AlertView, sent: Sequence[Alert], now: datetime) -> list[Alert]:
    """Return the alerts to send or note now, most severe first.

    Parameters
    ----------
    sent
        The site's ledger, oldest row first.
    now
        Current time by the site's clock, with a time zone.
    """
    draft = AlertDraft(observed.site, now, subjects_of(sent))
    alerts = [
        *state_alerts(observed, draft),
        *incident_alerts(observed, draft),
        *_actions(observed, draft),
        *_purges(observed, draft),
        *_forged(observed, draft),
        *_after_maintenance(observed, draft),
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
    draft = AlertDraft(site, now, subjects_of(sent))
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


def _watched_again(draft: AlertDraft) -> Iterator[Alert]:
    """Close the alert that no process watches the site, because this one does."""
    subject = draft.subject(WATCH_GONE)
    if subject.belief == OPEN:
        title = f"{draft.site} is watched again"
        yield draft.alert(
            subject, WATCH_GONE, Phase.CLOSED, Severity.CRITICAL, title=title, facts={}
        )


def _actions(observed: AlertView, draft: AlertDraft) -> Iterator[Alert]:
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


def _purges(observed: AlertView, draft: AlertDraft) -> Iterator[Alert]:
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


def _forged(observed: AlertView, draft: AlertDraft) -> Iterator[Alert]:
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


def _after_maintenance(observed: AlertView, draft: AlertDraft) -> Iterator[Alert]:
    """Yield an alert for each maintenance since which something is slower."""
    slower = [each for each in observed.after if each.change is Change.WORSE]
    by_window = grouped(slower, lambda each: _MAINTENANCE_PREFIX + each.window)
    for name, (worst, *others) in by_window.items():
        subject = draft.subject(name)
        if subject.belief == NOTHING:
            yield draft.alert(
                subject,
                MAINTENANCE_OVER,
                Phase.OPENED,
                Severity.WARNING,
                title=f"since the maintenance of {worst.until:%-d %B} ({worst.why}): {worst}; "
                f"next: trimtab maintenance {observed.site}",
                facts={},
                since=worst.until,
                lines=tuple(map(str, others)),
            )
    for name, subject in draft.subjects.items():
        if (
            name.startswith(_MAINTENANCE_PREFIX)
            and subject.belief == OPEN
            and name not in by_window
        ):
            title = "what was slower since a maintenance is not, or a month has passed"
            yield draft.alert(
                subject, MAINTENANCE_OVER, Phase.CLOSED, Severity.WARNING, title=title, facts={}
            )


def _action_title(site: str, view: ActionView) -> str:
    number = sum(view.outcomes.values())
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(view.outcomes.items()))
    return (
        f"{plural(number, 'action')} of the policy {view.policy} failed ({outcomes}), last at "
        f"{view.at:%Y-%m-%d %H:%M} UTC; next: trimtab actions {site}"
    )
