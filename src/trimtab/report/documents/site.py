"""``trimtab targets``, ``snapshot``, ``init``, ``site`` and ``watch`` with ``--json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from trimtab.model.site import Checked, Site
from trimtab.model.target import SiteState, TargetState, Trouble
from trimtab.model.telemetry import HostSnapshot
from trimtab.record.slots import Slot
from trimtab.report.documents.base import Document, fields
from trimtab.report.documents.check import VerdictDocument, verdict_document
from trimtab.report.documents.telemetry import (
    ReadingDocument,
    SettingDocument,
    reading_documents,
    setting_documents,
)


class TroubleDocument(Document):
    """One thing that is wrong with a target or a machine."""

    id: str
    severity: str
    text: str
    source: str | None


class SeenTargetDocument(Document):
    """One target with everything that is known of it."""

    name: str
    kind: str
    server: str | None
    fullness: float | None
    troubles: tuple[TroubleDocument, ...]
    readings: tuple[ReadingDocument, ...]
    settings: tuple[SettingDocument, ...]


class HostDocument(Document):
    """One machine of the site."""

    name: str
    role: str
    answered: bool
    problem: str | None
    troubles: tuple[TroubleDocument, ...]
    readings: tuple[ReadingDocument, ...]
    settings: tuple[SettingDocument, ...]


class TargetsDocument(Document):
    """``trimtab targets --json``: the targets of a site at one time, the most troubled first."""

    site: str
    at: datetime
    driver: str
    complete: bool
    kept: bool
    targets: tuple[SeenTargetDocument, ...]
    hosts: tuple[HostDocument, ...]


class SnapshotDocument(Document):
    """``trimtab snapshot --json``: what was kept, under which id, and where."""

    store: str
    id: str
    snapshot: TargetsDocument


class CheckedDocument(Document):
    """One statement of a site file, held against reality."""

    what: str
    ok: bool | None
    detail: str


class SiteDocument(Document):
    """``trimtab site --json``: a site file, its warnings, and what reality says of it."""

    site: str
    file: str | None
    driver: str
    path: str
    warnings: tuple[str, ...]
    checked: tuple[CheckedDocument, ...]


class InitDocument(Document):
    """``trimtab init --json``: the site file that was made, and what was found on the way."""

    site: str
    file: str | None
    text: str
    found: tuple[str, ...]
    not_found: tuple[str, ...]


class SlotDocument(Document):
    """One slot of a schedule and what came of it."""

    item: str
    due_at: datetime
    state: str
    run: str | None
    before: str | None
    after: str | None
    detail: str | None
    verdicts: tuple[VerdictDocument, ...]


class WatchDocument(Document):
    """``trimtab watch --once --json``: what was done."""

    site: str
    store: str
    slots: tuple[SlotDocument, ...]


def targets_document(state: SiteState, names: Sequence[str] = ()) -> TargetsDocument:
    """Return the targets of a site as their JSON document.

    Parameters
    ----------
    names
        Only these; all where empty.
    """
    troubled = {host.name: host.troubles for host in state.hosts}
    return TargetsDocument(
        site=state.site,
        at=state.snapshot.at,
        driver=state.snapshot.driver,
        complete=state.snapshot.complete,
        kept=state.kept,
        targets=tuple(_target(one) for one in state.targets if not names or one.name in names),
        hosts=tuple(_host(one, troubled.get(one.name, ())) for one in state.snapshot.hosts),
    )


def site_document(site: Site, warnings: Sequence[str], checked: Iterable[Checked]) -> SiteDocument:
    """Return a site file with what reality says of it as its JSON document."""
    return SiteDocument(
        site=site.name,
        file=site.source,
        driver=site.driver,
        path=site.path,
        warnings=tuple(warnings),
        checked=tuple(
            CheckedDocument(what=one.what, ok=one.ok, detail=one.detail) for one in checked
        ),
    )


def watch_document(site: str, store: str, slots: Iterable[Slot]) -> WatchDocument:
    """Return what a watch did in one go as its JSON document."""
    return WatchDocument(
        site=site,
        store=store,
        slots=tuple(
            SlotDocument.model_validate(
                {
                    **fields(slot, SlotDocument),
                    "state": slot.state.value,
                    "verdicts": tuple(verdict_document(one) for one in slot.verdicts),
                }
            )
            for slot in slots
        ),
    )


def _target(state: TargetState) -> SeenTargetDocument:
    seen = state.seen
    return SeenTargetDocument(
        name=state.name,
        kind=seen.target.kind,
        server=seen.target.server,
        fullness=seen.fullness(),
        troubles=_troubles(state.troubles),
        readings=reading_documents(seen.readings),
        settings=setting_documents(seen.settings),
    )


def _host(host: HostSnapshot, troubles: Sequence[Trouble]) -> HostDocument:
    return HostDocument(
        name=host.name,
        role=host.role,
        answered=host.answered,
        problem=host.problem,
        troubles=_troubles(troubles),
        readings=reading_documents(host.readings),
        settings=setting_documents(host.settings),
    )


def _troubles(troubles: Sequence[Trouble]) -> tuple[TroubleDocument, ...]:
    return tuple(
        TroubleDocument(id=one.id, severity=one.severity.value, text=one.text, source=one.source)
        for one in troubles
    )
