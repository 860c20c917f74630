"""One month of a site, from store and journals: series, incidents, space, purges, actions."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from trimtab.base.action import Action
from trimtab.base.error import TrimtabError, UsageError, visible
from trimtab.base.incident import Explanation
from trimtab.base.series import SiteJudgement
from trimtab.explain.status import ProbeCost, SiteStanding
from trimtab.probe.incident_search import incidents_of
from trimtab.probe.site_judgement import JudgeTerms, judge_site
from trimtab.probe.site_standing import standing_of
from trimtab.probe.site_status import cost_of
from trimtab.purge.run.purge_report import PurgeReport
from trimtab.purge.run.purge_report import report as purge_report
from trimtab.purge.run.run_journal import journals, read
from trimtab.site.lookup import is_beneath
from trimtab.site.place import Place
from trimtab.store.location import purge_place
from trimtab.store.snapshot_record import SpaceAt, space_at

if TYPE_CHECKING:
    from trimtab.store.store import Store


@dataclass(frozen=True, slots=True)
class Month:
    """Everything known about one month of a site.

    Attributes
    ----------
    first, last
        Its days, in ``timezone``.
    complete
        Whether the month was over when the report was made.
    space
        One time per day, oldest first.
    standing
        State of the site at its end.
    purges
        ``None`` if the journals could not be read; ``purge_reason`` says why.
    """

    site: str
    first: date
    last: date
    timezone: str
    complete: bool
    judgement: SiteJudgement
    standing: SiteStanding
    incidents: tuple[Explanation, ...]
    space: tuple[SpaceAt, ...]
    purges: PurgeReport | None
    purge_reason: str
    cost: ProbeCost | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class MonthDocument:
    """``trimtab report SITE --json``: location and beginning of a month's report.

    Attributes
    ----------
    month
        As ``2026-10``.
    report
        The file that was written.
    answer, details
        The sentences at the beginning of the report.
    """

    store: str
    site: str
    month: str
    report: str
    answer: str
    details: tuple[str, ...]


Progress = Callable[[str, float], None]
_MONTH: Final = re.compile(r"(\d{4})-(\d{2})\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """A month in a time zone: its days, and its first and last second in UTC."""

    first: date
    last: date
    since: datetime
    until: datetime


def month_of(name: str | None, timezone: str, now: datetime) -> Span:
    """Return the month of a name such as ``2026-10``; ``None``: the last one that is over.

    Raises
    ------
    UsageError
        It is not a month, or has not begun.
    """
    zone = ZoneInfo(timezone)
    here = now.astimezone(zone).date()
    if name is None:
        here = here.replace(day=1) - timedelta(days=1)
        name = f"{here:%Y-%m}"
    match = _MONTH.match(name.strip())
    if match is None or not 1 <= int(match[2]) <= 12 or int(match[1]) < 1970:
        raise UsageError(
            f"{visible(name[:40])!r} is not a month", code="month-malformed", hint="write 2026-10"
        )
    year, month = int(match[1]), int(match[2])
    first = date(year, month, 1)
    last = date(year, month, calendar.monthrange(year, month)[1])
    since, end = (
        datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        for day in (first, last + timedelta(days=1))
    )
    if since > now:
        raise UsageError(
            f"{name} has not begun", code="month-in-future", hint="give an earlier one"
        )
    return Span(first, last, since, end - timedelta(seconds=1))


def month_of_site(
    store: Store,
    place: Place,
    span: Span,
    *,
    now: datetime,
    purges: Path | None = None,
    progress: Progress = lambda text, fraction: None,
) -> Month:
    """Return everything known about a month.

    Parameters
    ----------
    now
        Aware; a month that is not over is reported up to it.
    purges
        Directory of the journals of purges; ``None``: this host's own.
    """
    since, until = span.since.isoformat(), span.until.isoformat()
    judgement, incidents = SiteJudgement(place.name, None, None, ()), ()
    with _without_series():
        judgement = judge_site(
            store, place, JudgeTerms(since=since, until=until), progress=_part(progress, 0.0, 0.4)
        ).judgement
    with _without_series():
        explained = incidents_of(
            store, place, now=now, since=since, until=until, progress=_part(progress, 0.4, 0.9)
        )
        incidents = tuple(each for each in explained.explanations if each.incident.at <= span.until)
    standing = standing_of(
        store, place, judgement=judgement, explanations=incidents, until=min(span.until, now)
    )
    runs, why = _purges(purges, span, place)
    cost = cost_of(store, place.name, min(span.until, now), since=span.since)
    month = Month(
        site=place.name,
        first=span.first,
        last=span.last,
        timezone=place.timezone,
        complete=now > span.until,
        judgement=judgement,
        standing=standing,
        incidents=incidents,
        space=_space(store, place.name, span),
        purges=runs,
        purge_reason=why,
        cost=cost,
        actions=store.actions(place.name, since=span.since, until=span.until),
    )
    progress("written", 1.0)
    return month


@contextmanager
def _without_series() -> Iterator[None]:
    """Continue without a series to judge: a month without runs has a report too."""
    try:
        yield
    except UsageError as error:
        if error.code != "no-series":
            raise


def _part(progress: Progress, low: float, high: float) -> Progress:
    return lambda text, fraction: progress(text, low + (high - low) * fraction)


def _space(store: Store, site: str, span: Span) -> tuple[SpaceAt, ...]:
    """Return how full a site was, one snapshot a day and the last."""
    times = store.snapshot_times(site, since=span.since, until=span.until)
    by_day = {at.date(): at for at in reversed(times)}
    return space_at(store, site, sorted({*by_day.values(), *times[-1:]}))


def _purges(where: Path | None, span: Span, place: Place) -> tuple[PurgeReport | None, str]:
    """Return what runs of this host deleted of a site, or why that is not known."""
    directory = purge_place(where)
    try:
        chronicles = [read(path) for path in journals(directory.journals)]
    except (TrimtabError, OSError) as error:
        return None, str(error)
    if place.site is not None:
        chronicles = [
            each
            for each in chronicles
            if each.plan is not None and is_beneath(place.site, each.plan.root)
        ]
    zone = ZoneInfo(place.timezone)
    return purge_report(chronicles, first=span.first, last=span.last, timezone=zone), ""
