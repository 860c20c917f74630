"""A site at one glance on the dashboard: its page, and the documents of overview and status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from trimtab.base.error import Message, TrimtabError
from trimtab.base.event import EventKind
from trimtab.base.finding import Tone
from trimtab.base.text import key_label, minute_text
from trimtab.base.units import format_duration, format_percent, format_value, value_or_dash
from trimtab.purge.page_web_purge import runs_of
from trimtab.web.api import PREFIX, document
from trimtab.web.desk import Desk, DeskOf
from trimtab.web.page_dashboard_chart import KEYS
from trimtab.web.template import MARKED, figures, link, page, part

if TYPE_CHECKING:
    from trimtab.answers.site_overview import (
        Glance,
        Overview,
        Present,
        PurgeOverview,
        TargetOverview,
    )
    from trimtab.explain.status import StatusDocument
    from trimtab.probe.page_maintenance import MaintenanceDocument
    from trimtab.watch.silence import SilencesDocument

router = APIRouter(include_in_schema=False)
api_router = APIRouter(prefix=PREFIX)
_TROUBLES: Final = 12
_PANELS: Final = 4
_SPARK: Final = (100.0, 28.0)
_SPARK_DAYS: Final = 90


@dataclass(frozen=True, slots=True)
class OverviewParts:
    """Contents of the overview, and the times whose ages it shows.

    Attributes
    ----------
    record
        The middle of the page, as text.
    searched
        Time of the last search for incidents, as text.
    osts, trimmed
        Number of targets that are trimmed, and of those with a recorded trim.
    median, oldest
        Median and oldest time of the recorded trims, the latter with its target.
    """

    answer: str
    tone: Tone
    record: str
    last_run_at: datetime | None
    snapshot_at: datetime | None
    searched: str
    osts: int
    trimmed: int
    median: datetime | None
    oldest: tuple[datetime, str] | None


@router.get("/s/{site:path}/overview")
def overview_page(request: Request, desk: DeskOf, site: str) -> Response:
    """Show a site at one glance; htmx asks for it again every minute."""
    of_record = desk.remembered(
        site, "overview", OverviewParts, lambda: _overview_parts(desk, site)
    )
    present = present_now(desk, site)
    return page(
        request,
        site,
        "overview",
        "overview.html.j2",
        present=present,
        held=_held(desk, site),
        answer=of_record.answer,
        tone=of_record.tone,
        ages=_ages(of_record, present),
        record=Markup(of_record.record),
        trims=_trim_ages(of_record, present.at),
    )


def _held(desk: Desk, site: str) -> list[tuple[str, str]]:
    """Return what holds alerts and judgement back now: windows and silences, with their ends."""
    from trimtab.watch.silence import held_since

    now = desk.now(site)
    held = held_since(desk.store, site, now)
    named = [
        (f"in maintenance until {minute_text(window.end)}",
         f"{window.why} ({', '.join(window.targets) or 'all'}; {window.source})")
        for window in held.windows
        if window.holds(now)
    ]  # fmt: skip
    return named + [
        (f"{silence.alert} silenced until {minute_text(silence.until)}",
         f"{silence.why} ({', '.join(silence.targets) or 'all'}; {silence.who})")
        for silence in held.silent_at(now)
    ]  # fmt: skip


def present_now(desk: Desk, site: str) -> Present:
    """Return the current activity at a site, with recently read journals."""
    from trimtab.answers.site_overview import present_of, purge_overview
    from trimtab.watch.watch_state import watch_state

    place, now = desk.place(site), desk.now(site)
    last = desk.store.events(site=site, kinds=[EventKind.PURGE])[-1:]

    def purge() -> PurgeOverview:
        plans, reason = (), None
        try:
            plans = runs_of(desk, site).plans
        except TrimtabError as error:
            reason = Message("journals-unreadable", error.message)
        return purge_overview(place, last, now, desk.purges, plans=plans, reason=reason)

    known = desk.recent("purge", site, purge, last)
    watch = None if place.site is None else watch_state(place.site, desk.store, now)
    return present_of(desk.store, place, now, watch, known)


def glance_at(desk: Desk, site: str) -> Glance:
    """Return what the record of a site shows at one glance."""
    from trimtab.answers.site_overview import Glance, glance_of
    from trimtab.probe.site_standing import standing_of, with_series

    place = desk.place(site)

    def make() -> Glance:
        status, judged = desk.status(site), desk.judged(site)
        if judged is None:
            standing = with_series(standing_of(desk.store, place), status)
        else:
            standing = standing_of(desk.store, place, judgement=judged.judgement)
        return glance_of(desk.store, place, status, standing)

    return desk.remembered(site, "glance", Glance, make)


def _overview_parts(desk: Desk, site: str) -> OverviewParts:
    from trimtab.answers.page import series_table, troubles_table
    from trimtab.answers.series_chart import PANEL_KEYS

    glance = glance_at(desk, site)
    ids = {entry.id for entry in desk.listed(site)}
    table = series_table(
        glance.series, lambda entry: link(site, "series", name=entry.id) if entry.id in ids else ""
    )
    record = part(
        "overview_record.html.j2",
        site=site,
        glance=glance,
        troubles=troubles_table(glance.troubles[:_TROUBLES]),
        series=table,
        slow=glance.slow,
        panels=Markup(desk.remembered(site, "panels", str, lambda: _panels(desk, site), *MARKED)),
        panel_keys=(*PANEL_KEYS, *KEYS),
        currents=_currents(desk, site, glance),
        cells=[
            (target, _fullness_step(target), _target_title(target)) for target in glance.targets
        ],
    )
    judged = glance.judged[0] if glance.judged else None
    searched = "not yet" if judged is None else minute_text(judged.at)
    if judged is not None and judged.newer_runs:
        searched += f", {judged.newer_runs:,} runs since"
    osts = [target for target in glance.targets if target.kind != "mdt"]
    # By age: the newest first, of one time by name.
    trims = [(each.trimmed_at, each.name) for each in osts if each.trimmed_at is not None]
    trims = sorted(trims, key=lambda trim: (-trim[0].timestamp(), trim[1]))
    return OverviewParts(
        answer=str(glance.answer),
        tone=glance.tone,
        record=record,
        last_run_at=glance.last_run_at,
        snapshot_at=glance.snapshot_at,
        searched=searched,
        osts=len(osts),
        trimmed=len(trims),
        median=trims[len(trims) // 2][0] if trims else None,
        oldest=trims[-1] if trims else None,
    )


def _panels(desk: Desk, site: str) -> str:
    """Return small drawings of the first series of a site."""
    from trimtab.answers.series_chart import panel_chart

    judged = desk.judged(site)
    series = () if judged is None else judged.judgement.series[:_PANELS]
    panels = (panel_chart(entry, f"panel{number}") for number, entry in enumerate(series))
    return figures(desk, site, "panels", panels, with_keys=False)


@dataclass(frozen=True, slots=True)
class Current:
    """The last value of a series, and the means of its last days as points of a line."""

    name: str
    address: str
    value: str
    at: str
    mean: str
    points: str


def _currents(desk: Desk, site: str, glance: Glance) -> list[Current]:
    """Return the last values of the first series of a site."""
    judged, entries = desk.judged(site), {entry.id: entry for entry in glance.series}
    return [
        Current(
            key_label(series.key),
            link(site, "series", name=entry.id),
            format_value(entry.last_value, series.key.unit),
            minute_text(entry.last_at),
            value_or_dash(entry.verdict.mean, series.key.unit),
            spark_points([day.mean for day in series.days if day.mean is not None][-_SPARK_DAYS:]),
        )
        for series in (() if judged is None else judged.judgement.series)
        if (entry := entries.get(series.key.id)) is not None
    ][:_PANELS]


def spark_points(values: Sequence[float]) -> str:
    """Return values as points of a line in a box of 100 by 28, 0 at its lower edge.

    Examples
    --------
    >>> spark_points([2.0, 1.0, 4.0])
    '0,14 50,21 100,0'
    """
    width, height = _SPARK
    top, step = max(values, default=0.0) or 1.0, width / max(1, len(values) - 1)
    return " ".join(
        f"{number * step:.4g},{height * (1 - value / top):.4g}"
        for number, value in enumerate(values)
    )


def _ages(of_record: OverviewParts, present: Present) -> list[tuple[str, str]]:
    def age(at: datetime | None) -> str:
        if at is None:
            return "none"
        age_s = (present.at - at).total_seconds()
        words = "less than a minute" if age_s < 60.0 else format_duration(age_s)
        return f"{words} old ({minute_text(at)})"

    return [
        ("last run", age(of_record.last_run_at)),
        ("last snapshot", age(of_record.snapshot_at)),
        ("incidents searched", of_record.searched),
        ("watched by", present.watched_by or "no process"),
    ]


def _fullness_step(target: TargetOverview) -> int:
    return 0 if target.fullness is None else min(10, max(0, int(target.fullness * 10)))


def _target_title(target: TargetOverview) -> str:
    full = (
        "fullness not known"
        if target.fullness is None
        else f"{format_percent(target.fullness)} full"
    )
    return "; ".join([f"{target.name}: {full}", *target.troubles])


def _trim_ages(of_record: OverviewParts, now: datetime) -> list[tuple[str, str]]:
    def age(at: datetime) -> str:
        return format_duration((now - at).total_seconds())

    osts, trimmed = of_record.osts, of_record.trimmed
    if not osts:
        return []
    pairs = [("targets with a recorded trim", f"{trimmed:,} of {osts:,}")]
    if of_record.median is not None and of_record.oldest is not None:
        at, name = of_record.oldest
        pairs += [("median age", age(of_record.median)), ("oldest", f"{age(at)} ({name})")]
    if osts > trimmed:
        pairs.append(("no trim recorded", f"{osts - trimmed:,}"))
    return pairs


@document(api_router, "overview")
def overview(desk: DeskOf, site: str) -> Overview:
    """Return a site at one glance."""
    from trimtab.answers.site_overview import overview as at_one_glance

    return at_one_glance(glance_at(desk, site), present_now(desk, site))


@document(api_router, "maintenance")
def maintenance(desk: DeskOf, site: str) -> MaintenanceDocument:
    """Return what `trimtab maintenance SITE --json` prints."""
    from trimtab.probe.page_maintenance import maintenance_of

    return maintenance_of(desk.store, desk.place(site))


@document(api_router, "silences")
def silences(desk: DeskOf, site: str) -> SilencesDocument:
    """Return what `trimtab silence SITE --json` prints."""
    from trimtab.watch.silence import SilencesDocument, held_since

    now = desk.now(site)
    holding = held_since(desk.store, site, now).silent_at(now)
    return SilencesDocument(str(desk.store.location), site, holding)


@document(api_router, "status", is_kept=True)
def status(desk: DeskOf, site: str) -> StatusDocument:
    """Return what `trimtab status SITE --json` prints."""
    from trimtab.explain.headline import site_troubles
    from trimtab.explain.status import StatusDocument
    from trimtab.probe.site_standing import standings_of

    status = desk.status(site)
    standings = standings_of(desk.store, status, desk.place(site).site)
    return StatusDocument(status, {each.site: site_troubles(each) for each in standings})
