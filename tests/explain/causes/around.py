"""What tests of the causes around storage share: a quiet site, evidence found by its words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

import pytest
from tests.explain.causes.contexts import (
    MDTS,
    SERVERS,
    START,
    Row,
    context,
    counter,
    event,
    gauge,
    runs,
    setting,
    survey,
)

from trimtab.base.event import Event, EventKind
from trimtab.base.incident import Evidence, Found
from trimtab.explain.context import Cause, Context

WELL: Final = 600e9
LOST: Final = 420e9
TRIM: Final = event(EventKind.TRIM, START - timedelta(days=5), "weekly trim")
"""So that the log book is one that somebody writes."""


def quiet_readings(*, but: Iterable[str] = ()) -> list[Row]:
    """Return telemetry in which nothing ever changes, without some names."""
    left_out = set(but)
    rows = [
        *counter("client_bytes_written_total", 1e9),
        *counter("client_bytes_read_total", 1e9),
        *counter("metadata_operations_total", 1e4, targets=MDTS),
        *gauge("concurrent_jobs", 200.0),
        *gauge("server_cpu_fraction", 0.3, targets=SERVERS),
        *gauge("checksum_errors_total", 0.0, targets=SERVERS),
        *gauge("import_state", "FULL"),
    ]
    return [row for row in rows if row["name"] not in left_out]


def quiet(**other: Any) -> Context:
    """Return a step of writes with nothing to show why; ``other`` replaces parts of it."""
    parts: dict[str, Any] = {
        "readings": quiet_readings(),
        "settings": setting("lustre_version", "2.15.3", targets=SERVERS),
        "surveys": survey(15e9),
        "runs": runs(WELL, LOST),
        "events": [TRIM],
    }
    return context(**(parts | other))


def shows(
    cause: Cause,
    of: Context,
    code: str,
    outcome: Found | None = None,
    *,
    value: Any = None,
    reference: Any = None,
    weight: Any = None,
    targets: Iterable[str] | None = None,
    throughout: bool | None = None,
    reason: str | None = None,
) -> Evidence:
    """Return the one piece of evidence with this code; its figures must be those given."""
    pieces = [piece for piece in cause.assess(of) if piece.what.code == code]
    assert len(pieces) == 1, [(piece.what.code, piece.what) for piece in cause.assess(of)]
    (piece,) = pieces
    assert outcome in (None, piece.found), piece
    assert throughout in (None, piece.throughout), piece
    figures = ((piece.value, value), (piece.reference, reference), (piece.weight, weight))
    for figure, expected in figures:
        near = pytest.approx(expected, abs=1e-6) if isinstance(expected, int | float) else expected
        assert expected is None or figure == near, piece
    assert targets is None or piece.targets == tuple(targets)
    assert reason is None or (piece.reason is not None and piece.reason.code == reason), piece
    return piece


def weight_of(cause: Cause, of: Context) -> float:
    """Return the plain sum of all weights: what all evidence leans to."""
    return sum(piece.weight for piece in cause.assess(of))


def outcomes(cause: Cause, of: Context) -> list[Found]:
    """Return what came of each thing that was looked for."""
    return [piece.found for piece in cause.assess(of)]


def with_log(*events: Event) -> list[Event]:
    """Return a log book with these entries beside what it always holds."""
    return [TRIM, *events]
