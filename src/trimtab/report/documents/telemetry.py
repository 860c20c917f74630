"""Readings and settings of targets and machines, as every document has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.model.telemetry import NotAvailable, Reading, Setting
from trimtab.report.documents.base import Document, fields


class ReadingDocument(Document):
    """One telemetry value with its source, or the reason why there is none."""

    name: str
    label: str | None
    value: float | int | str | bool | None
    unit: str | None
    source: str | None
    reason: str | None


class SettingDocument(Document):
    """One named setting, or why it cannot be read."""

    name: str
    value: str | None
    source: str | None
    reason: str | None


def reading_documents(readings: Iterable[Reading]) -> tuple[ReadingDocument, ...]:
    """Return readings as they stand in a document."""
    return tuple(ReadingDocument.model_validate(fields(one, ReadingDocument)) for one in readings)


def setting_documents(
    settings: Mapping[str, Setting | NotAvailable],
) -> tuple[SettingDocument, ...]:
    """Return settings as they stand in a document."""
    return tuple(
        SettingDocument(name=name, value=one.value, source=one.source, reason=None)
        if isinstance(one, Setting)
        else SettingDocument(name=name, value=None, source=None, reason=one.reason)
        for name, one in settings.items()
    )
