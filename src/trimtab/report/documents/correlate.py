"""``trimtab correlate --json``: which telemetry moves with performance."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic import Field

from trimtab.model.correlation import Correlation
from trimtab.model.series import SeriesKey
from trimtab.report.documents.base import Document, fields


class CorrelationDocument(Document):
    """One telemetry beside one series; ``q_value`` after Benjamini-Hochberg. Never a cause."""

    name: str
    n: int
    n_effective: float | None
    rho: float | None
    rho_without_rhythm: float | None
    p_value: float | None
    q_value: float | None
    moves_with: bool
    beside: str | None
    rho_beside: float | None
    apart_s: float | None
    reason: str


class CorrelatedSeriesDocument(Document):
    """One series with all telemetry that was held against it, the surest first."""

    probe: str
    kind: str
    metric: str
    unit: str
    runs: int
    from_: datetime = Field(alias="from")
    to: datetime
    correlations: tuple[CorrelationDocument, ...]


class CorrelateDocument(Document):
    """``trimtab correlate --json``."""

    store: str
    site: str
    snapshots: int
    series: tuple[CorrelatedSeriesDocument, ...]


def correlated_document(
    key: SeriesKey,
    correlations: Iterable[Correlation],
    *,
    runs: int,
    from_: datetime,
    to: datetime,
) -> CorrelatedSeriesDocument:
    """Return what moves with one series as its JSON document."""
    return CorrelatedSeriesDocument.model_validate(
        {
            **fields(key, CorrelatedSeriesDocument),
            "runs": runs,
            "from_": from_,
            "to": to,
            "correlations": [fields(one, CorrelationDocument) for one in correlations],
        }
    )
