"""A context with hours 0 to 48 good and 49 to 84 bad, for tests of what all causes share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from trimtab.base.incident import Incident, IncidentState, Shape
from trimtab.base.series import ChangeStatus
from trimtab.explain.context import Context, Period, Telemetry

T0 = datetime(2026, 3, 2, tzinfo=UTC)


def hours(number: float) -> datetime:
    """Return a time so many hours after the start."""
    return T0 + timedelta(hours=number)


def plain_incident(**changes: Any) -> Incident:
    """Return an incident from hour 49 to 84."""
    values: dict[str, Any] = {
        "id": "one", "site": "s", "key": None, "shape": Shape.DIP, "state": IncidentState.ENDED,
        "certainty": ChangeStatus.SUSPECT, "at": hours(49), "until": hours(84),
        "detected_at": hours(49), "effect": None, "effect_interval": None, "runs": 3,
        "unfinished": 0, "summary": "",
    }  # fmt: skip
    return Incident(**(values | changes))


def plain_context(**changes: Any) -> Context:
    """Return a context without telemetry, runs and surveys."""
    values: dict[str, Any] = {
        "incident": plain_incident(),
        "bad": (Period(hours(49), hours(84)),),
        "good": (Period(hours(0), hours(48)),),
        "record_from": hours(0),
        "now": hours(84),
        "telemetry": Telemetry(pl.DataFrame(), pl.DataFrame()),
        "surveys": pl.DataFrame(),
    }
    return Context(**(values | changes))
