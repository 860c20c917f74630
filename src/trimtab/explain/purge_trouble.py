"""What is wrong with a site's scheduled purge, from the log book and the plan slots. Pure.

::

    a run of `trimtab purge run`  ──▶ purge, purge-failed ─┐
    a slot of [policy.purge]      ──▶ done, failed, missed ┴▶ purge_troubles

The schedule (cron or a timer) is not configured here. The next due time follows from past runs: a
weekly purge that stopped is detected by its silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from trimtab.base.event import JOURNAL, Event, EventKind
from trimtab.base.units import format_duration
from trimtab.explain.status import PlanSlot, PurgeTrouble

REMEMBERED: Final = timedelta(days=400)
"""Ignore anything longer ago: a site that stopped purging is left in peace."""
_ONE_OCCASION: Final = timedelta(hours=12)
"""Runs that start this soon after one another are one: resumed, or on several hosts."""
_GAPS_LEAST: Final = 3
_GAPS_MOST: Final = 8
_LATE: Final = 1.5
"""Multiple of the longest gap between past runs: a weekly run is overdue after ten days or so."""


def purge_troubles(
    events: Sequence[Event], plans: Sequence[PlanSlot], now: datetime | None
) -> tuple[PurgeTrouble, ...]:
    """Return why a site's scheduled purge does not do its work.

    Parameters
    ----------
    events
        Log book events of kinds ``purge`` and ``purge-failed``, oldest first.
    plans
        Slots of its purge plans, oldest first.
    now
        Current time; ``None``: unknown, so nothing is overdue.
    """
    return (*_plan_failed(plans), *(_failed(events) or _overdue(events, plans, now)))


def _plan_failed(plans: Sequence[PlanSlot]) -> Iterator[PurgeTrouble]:
    last = plans[-1] if plans else None
    if last is not None and last.state != "done":
        why = "" if last.detail is None else f": {last.detail}"
        text = f"the purge plan of {last.at:%Y-%m-%d} was not made{why}"
        yield PurgeTrouble("purge-plan-failed", last.at, text)


def _failed(events: Sequence[Event]) -> tuple[PurgeTrouble, ...]:
    """Return that the last runs failed; a run that freed some space may still have failed."""
    ends = {event.id: event.end for event in events}
    good = [ends[event.id] for event in events if event.kind is EventKind.PURGE]
    failed = [
        event
        for event in events
        if event.kind is EventKind.PURGE_FAILED and ends[event.id] >= max(good, default=event.at)
    ]
    if not failed:
        return ()
    last = failed[-1]
    text = f"the purge run of {last.at:%Y-%m-%d} failed: {last.detail}"
    if failed[1:]:
        first = f"{failed[0].at:%Y-%m-%d}"
        text = f"all {len(failed)} purge runs since {first} failed, the last: {last.detail}"
    return (PurgeTrouble("purge-failed", last.at, text),)


def _overdue(
    events: Sequence[Event], plans: Sequence[PlanSlot], now: datetime | None
) -> tuple[PurgeTrouble, ...]:
    begun = [event.at for event in events if event.source == JOURNAL]
    occasions = begun[:1]
    for at in begun[1:]:
        if at - occasions[-1] >= _ONE_OCCASION:
            occasions.append(at)
    gaps = [later - at for at, later in pairwise(occasions)][-_GAPS_MOST:]
    if now is None or len(gaps) < _GAPS_LEAST:
        return ()
    last = max(event.end for event in events)
    not_needed = [slot.at for slot in plans if slot.state == "done" and slot.detail is not None]
    if now - max([last, *not_needed]) <= _LATE * max(gaps):
        return ()
    usual = format_duration(sorted(gaps)[len(gaps) // 2].total_seconds())
    text = f"no purge has run since {last:%Y-%m-%d}; before that, one ran every {usual}"
    return (PurgeTrouble("purge-overdue", last, text),)
