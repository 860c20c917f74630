"""The pages of records about a site: actions, the log book and its form, settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from trimtab.base.error import UsageError
from trimtab.base.event import WRITTEN
from trimtab.purge.page_web_purge import plans_of
from trimtab.web.access import Operator
from trimtab.web.api import recorded
from trimtab.web.desk import DeskOf
from trimtab.web.request_guard import form_field
from trimtab.web.template import ROWS, Offset, link, page

if TYPE_CHECKING:
    from trimtab.base.site import Site
    from trimtab.base.toml_schema import Entry

router = APIRouter(include_in_schema=False)


@router.post("/s/{site:path}/log")
async def log_form(request: Request, desk: DeskOf, operator: Operator, site: str) -> Response:
    """Add an entry to the log book, and show it."""
    names = ("kind", "detail", "at", "targets")
    values = {name: await form_field(request, name) for name in names}
    if values["kind"] not in {kind.value for kind in WRITTEN}:
        raise UsageError("no such kind of event", code="event-kind-unknown")
    await run_in_threadpool(lambda: recorded(desk, site, operator, **values))
    return Response(status_code=303, headers={"location": link(site, "actions")})


@router.get("/s/{site:path}/actions")
def actions_page(request: Request, desk: DeskOf, site: str, *, offset: Offset = 0) -> Response:
    """Show past and waiting actions, and the log book."""
    from trimtab.purge.plan.site_plan import plans_waiting
    from trimtab.watch.watch_state import watch_state

    place, now = desk.place(site), desk.now(site)
    watch = None if place.site is None else watch_state(place.site, desk.store, now)
    plans, plan_problems = plans_of(desk, site)
    events = desk.events(site)[::-1]
    return page(
        request,
        site,
        "actions",
        "actions.html.j2",
        armed=() if place.site is None else place.site.policies.armed,
        upcoming=() if watch is None else watch.items,
        plans=plans,
        now=now,
        plan_problems=plan_problems,
        waiting=plans_waiting(place, plans, plan_problems, now),
        ledger=desk.store.actions(site, limit=ROWS)[::-1],
        ledger_total=sum(desk.store.action_counts(site).values()),
        events=events[offset : offset + ROWS],
        total=len(events),
        offset=offset,
        rows_each=ROWS,
        kinds=[kind.value for kind in WRITTEN],
    )


@router.get("/s/{site:path}/settings")
def settings_page(request: Request, desk: DeskOf, site: str) -> Response:
    """Show the site file, read-only, and what is armed."""
    of_file = desk.place(site).site
    rows = [] if of_file is None else list(_settings(of_file))
    return page(
        request,
        site,
        "settings",
        "settings.html.j2",
        tables=rows,
        armed=() if of_file is None else of_file.policies.armed,
        store=str(desk.store.location),
    )


_HIDDEN: Final = frozenset({"alerts", "webhook", "store", "metrics"})
"""Tables that may reveal a receiver of alerts or a database."""


def _settings(site: Site) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the tables of a site file as it would have them, without default values."""
    from trimtab.site.site_file import SCHEMA

    tables: dict[str, list[tuple[str, str]]] = {}
    for entry in SCHEMA.every_key():
        _add(tables, ".".join(entry.location[:-1]), entry, site)
    for name in ("probe", "launcher"):
        group = SCHEMA.group(name)
        for item in getattr(site, group.path[-1]):
            for entry in group.item.every_key():
                _add(tables, f"{name}.{item.name}", entry, item)
    return ((name, rows) for name, rows in tables.items() if name.split(".")[0] not in _HIDDEN)


def _add(tables: dict[str, list[tuple[str, str]]], name: str, entry: Entry, holder: Any) -> None:
    value = attrgetter(".".join(entry.path))(holder)
    if value in (entry.default, None):
        return
    text = f"{len(value):,} entries" if isinstance(value, Mapping) else entry.kind.write(value)
    if text is not None:
        tables.setdefault(name, []).append((entry.name, text))
