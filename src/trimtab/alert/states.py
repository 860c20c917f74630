"""Alerts about states of targets and machines: lost, read-only, degraded, too full ...

One subject a state, not a target: a server that fails takes eight targets with it, and is one
alert. A state counts once two snapshots in a row show it, and is over once two in a row do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trimtab.alert.ledger import OPEN, Draft, Subject
from trimtab.alert.observed import Observed, PlaceView, SnapshotView
from trimtab.alert.table import AGAIN, INTEGRITY, REACH, STATES, StateAlert
from trimtab.model.alert import Alert, Phase
from trimtab.units import plural

_NAMED: Final = 4
_LISTED: Final = 20


def state_alerts(
    observed: Observed, subjects: Mapping[str, Subject], draft: Draft
) -> Iterator[Alert]:
    """Yield the alerts about states; nothing where no snapshot is kept."""
    if not observed.snapshots:
        return
    for state in STATES:
        subject = subjects.get(state.name, Subject(state.name, {}))
        if (alert := _of_state(observed, state, subject, draft)) is not None:
            yield alert


def _of_state(
    observed: Observed, state: StateAlert, subject: Subject, draft: Draft
) -> Alert | None:
    newest, *earlier = observed.snapshots
    seen = _with_trouble(newest, state.trouble)
    seen_earlier = _with_trouble(earlier[0], state.trouble) if earlier else {}
    confirmed = dict(seen) if state.at_once else {at: seen[at] for at in seen if at in seen_earlier}
    known: dict[str, str] = dict(subject.facts.get("places", {})) if subject.belief == OPEN else {}
    over = {
        place
        for place in known
        if place not in seen and place not in seen_earlier and _is_over(observed, state, place)
    }
    going_on = {place: text for place, text in known.items() if place not in over}
    new = [place for place in confirmed if place not in known]
    grown = state.grows and any(
        confirmed[place] != known[place] for place in confirmed if place in known
    )
    quiet_for = None if subject.sent_at is None else draft.now - subject.sent_at
    places = {**going_on, **confirmed}
    since = subject.facts.get("since") if known else None
    facts = {"places": places, "since": since or newest.at.isoformat()}
    if (new or grown) and (quiet_for is None or quiet_for >= AGAIN[state.severity]):
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
        names = _names(list(known)) or "none is left"
        title = f"no longer {state.words}: {names}; seen at {_time(newest)}"
        if state.name == INTEGRITY:  # the count starts anew: what was written stays as it is
            title += "; the data written meanwhile remains suspect"
        facts = {"places": {}, "since": newest.at.isoformat()}
        phase = Phase.CLOSED
        return draft.alert(
            subject, state.name, phase, state.severity, title=title, facts=facts, since=newest.at
        )
    if over:
        facts |= {"places": going_on}
        return draft.alert(subject, state.name, Phase.NOTED, state.severity, facts=facts)
    return None


def _with_trouble(snapshot: SnapshotView, trouble: str) -> dict[str, str]:
    """Return place to text of those that have a trouble."""
    return {
        name: problem.text
        for name, place in snapshot.places.items()
        for problem in place.troubles
        if problem.id == trouble
    }


def _is_over(observed: Observed, state: StateAlert, place: str) -> bool:
    """Whether a state that is no longer seen is over, and not only out of sight."""
    newest = observed.snapshots[0]
    view = newest.places.get(place)
    if state.trouble in REACH:
        return view is not None
    if view is None or not (newest.complete or _is_readable(view)):
        return False
    if state.trouble == "over-limit":
        return view.fullness is not None and view.fullness < observed.reopen
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
    number = plural(len(places), "place" if state.name == INTEGRITY else _noun(state))
    head = f"{number} {state.words}"
    if new:
        head = f"{len(new)} more {state.words}, {len(places)} in all"
    names = _names(list(new or places))
    return (
        f"{head}: {names} ({places[first]}), seen at {_time(newest)}; next: trimtab targets {site}"
    )


def _noun(state: StateAlert) -> str:
    return "machine" if state.name.startswith("server-") else "target"


def _lines(places: Mapping[str, str]) -> tuple[str, ...]:
    more = len(places) - _LISTED
    lines = [f"{place}: {text}" for place, text in list(places.items())[:_LISTED]]
    return (*lines, f"and {more} more") if more > 0 else tuple(lines)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _time(snapshot: SnapshotView) -> str:
    return f"{snapshot.at:%Y-%m-%d %H:%M} UTC"
