"""A site at one glance, as the dashboard's first page shows it.

It comes from the store and this host's purge journals: no file system or server is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trimtab.base.action import Action, ActionKind, last_trims
from trimtab.base.error import Message
from trimtab.base.event import Event, EventKind
from trimtab.base.finding import Finding, Tone
from trimtab.explain.status import IncidentStatus, JudgedStatus, SeriesStatus
from trimtab.site.place import Place
from trimtab.store.kept import value_of
from trimtab.store.location import PurgePlace
from trimtab.store.slot import process_text

if TYPE_CHECKING:
    from trimtab.explain.status import SiteStanding, SiteState, Status
    from trimtab.purge.run.purge_report import PlanStanding
    from trimtab.store.slot import WatchState
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class TargetOverview:
    """One target of the last stored snapshot.

    Attributes
    ----------
    fullness
        Used / (used + available); ``None`` if it was not read.
    severity
        Severity of its worst trouble: ``critical``, ``warning`` or ``info``; ``None`` without any.
    troubles
        Its troubles as text, worst first.
    trimmed_at
        Last recorded trim; ``None``: none was recorded.
    """

    name: str
    kind: str
    server: str | None
    fullness: float | None
    severity: str | None
    troubles: tuple[str, ...]
    trimmed_at: datetime | None


@dataclass(frozen=True, slots=True)
class UpcomingOverview:
    """Next work of the watch."""

    item: str
    next_at: datetime


@dataclass(frozen=True, slots=True)
class PurgeOverview:
    """The state of purges of one site.

    Attributes
    ----------
    last_at, last
        Last purge in the event log, and its text; ``None`` if there is none.
    plans
        Plans in this host's journals.
    rows_waiting
        Files in those plans that no run has reached.
    plans_waiting
        Plans published and neither armed nor over; ``None`` if that is unknown.
    reason
        Why the journals were not read.
    """

    last_at: datetime | None
    last: str | None
    plans: int
    rows_waiting: int
    plans_waiting: int | None
    reason: Message | None


@dataclass(frozen=True, slots=True)
class Overview:
    """A site at one glance.

    Attributes
    ----------
    at
        Time of the overview, by the site's clock.
    answer
        The headline: the worst current problem.
    troubles
        All current problems, worst first, each with its repair.
    last_run_at, snapshot_at
        The newest data; ``None`` if there is none.
    watched_by
        The process that watches the site; ``None``: none does.
    armed
        Policies that the watch applies by itself.
    done
        The last actions, newest first.
    """

    site: str
    at: datetime
    answer: str
    last_run_at: datetime | None
    snapshot_at: datetime | None
    watched_by: str | None
    series: tuple[SeriesStatus, ...]
    incidents: tuple[IncidentStatus, ...]
    judged: tuple[JudgedStatus, ...]
    targets: tuple[TargetOverview, ...]
    armed: tuple[str, ...]
    done: tuple[Action, ...]
    upcoming: tuple[UpcomingOverview, ...]
    purge: PurgeOverview
    troubles: tuple[Finding, ...] = ()


ACTIONS_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Glance:
    """The part of an overview that follows from the record alone, and what a page adds to it.

    Attributes
    ----------
    tone
        Colour of the answer.
    slow
        Targets that surveys show to be slow, each in words.
    """

    site: str
    answer: str
    tone: Tone
    last_run_at: datetime | None
    snapshot_at: datetime | None
    series: tuple[SeriesStatus, ...]
    incidents: tuple[IncidentStatus, ...]
    judged: tuple[JudgedStatus, ...]
    targets: tuple[TargetOverview, ...]
    troubles: tuple[Finding, ...]
    slow: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Present:
    """The part of an overview that depends on the clock, the watch and this host's journals."""

    at: datetime
    watched_by: str | None
    armed: tuple[str, ...]
    done: tuple[Action, ...]
    upcoming: tuple[UpcomingOverview, ...]
    purge: PurgeOverview


def glance_of(store: Store, place: Place, status: Status, standing: SiteStanding) -> Glance:
    """Return the overview of a site's record.

    Parameters
    ----------
    status
        Status of this site alone.
    standing
        Standing of this site, with its series judged where possible.
    """
    from trimtab.explain.headline import headline, site_troubles, tone_of
    from trimtab.explain.trouble import slow_trouble

    name, state = place.name, standing.state
    events = store.events(site=name, kinds=[EventKind.TRIM])
    return Glance(
        site=name,
        answer=headline(standing),
        tone=tone_of(standing),
        last_run_at=max((series.last_at for series in status.series), default=None),
        snapshot_at=None if state is None else state.snapshot.at,
        series=status.series,
        incidents=status.incidents,
        judged=status.judged,
        targets=() if state is None else target_overviews(store, name, state, events),
        troubles=site_troubles(standing),
        slow=tuple((each.target, str(slow_trouble(each).text)) for each in standing.slow),
    )


def present_of(
    store: Store, place: Place, now: datetime, watch: WatchState | None, purge: PurgeOverview
) -> Present:
    """Return the current activity at a site.

    Parameters
    ----------
    now
        Time by the site's clock.
    watch
        State of the watch; ``None``: the site has no file.
    purge
        See `purge_overview`.
    """
    site = place.site
    lease = None if watch is None else watch.lease
    return Present(
        at=now,
        watched_by=None if lease is None else process_text(lease.holder),
        armed=() if site is None else site.policies.armed,
        done=store.actions(place.name, limit=ACTIONS_SHOWN)[::-1],
        upcoming=()
        if watch is None
        else tuple(UpcomingOverview(item.item, item.next_at) for item in watch.items),
        purge=purge,
    )


def overview(glance: Glance, present: Present) -> Overview:
    """Return a site at one glance."""
    now = {field.name: getattr(present, field.name) for field in fields(present)}
    return value_of(Overview, glance, **now)


def target_overviews(
    store: Store, site: str, state: SiteState, events: Sequence[Event]
) -> tuple[TargetOverview, ...]:
    """Return the targets of a snapshot, those in trouble first, each with its last trim."""
    actions = store.actions(site, kinds=[ActionKind.TRIM])
    trimmed = last_trims(state.snapshot, actions, events)
    return tuple(
        TargetOverview(
            name=target.name,
            kind=target.seen.target.kind,
            server=target.seen.target.server,
            fullness=target.seen.fullness(),
            severity=target.troubles[0].severity.value if target.troubles else None,
            troubles=tuple(str(trouble.text) for trouble in target.troubles),
            trimmed_at=trimmed.get(target.name),
        )
        for target in state.targets
    )


def purge_overview(
    place: Place,
    events: Sequence[Event],
    now: datetime,
    purges: PurgePlace,
    *,
    plans: Sequence[PlanStanding],
    reason: Message | None = None,
) -> PurgeOverview:
    """Return the state of purges: from the event log, and from this host's journals.

    Parameters
    ----------
    plans
        Plans of the site, from the journals.
    reason
        Why the journals could not be read.
    """
    from trimtab.purge.plan.site_plan import plans_waiting, site_plans

    past = [event for event in events if event.kind is EventKind.PURGE]
    last = past[-1] if past else None
    return PurgeOverview(
        last_at=None if last is None else last.at,
        last=None if last is None else last.detail,
        plans=len(plans),
        rows_waiting=sum(plan.waiting_rows for plan in plans),
        plans_waiting=plans_waiting(place, *site_plans(place, purges, (), now), now),
        reason=reason,
    )
