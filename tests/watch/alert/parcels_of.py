"""Alerts to send, for tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from trimtab.base.finding import Alert, Phase, Severity
from trimtab.watch.payload import Parcel

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
TITLE = (
    "since 2026-11-16 12:00 UTC: hourly write_bandwidth 20 % lower; next: trimtab explain scratch"
)


def alert(number: int = 0, **changes: Any) -> Alert:
    """Return an alert; its id follows from the number."""
    opened = Alert(
        f"{number:032x}", "scratch", f"incident:{number}", "incident", Phase.OPENED,
        Severity.WARNING, NOON, NOON, TITLE, ("Since: 2026-11-16 13:00 CET",),
    )  # fmt: skip
    return replace(opened, **changes)


def parcel(*alerts: Alert) -> Parcel:
    """Return alerts as one message."""
    alerts = alerts or (alert(),)
    return Parcel(alerts[0].id if len(alerts) == 1 else "d" * 32, alerts)
