"""The page of telemetry that moves with performance. Pure."""

from __future__ import annotations

from typing import Final

from trimtab.model.correlation import Correlated, CorrelatedSeries, Correlation
from trimtab.report.kit import Cell, Row, row, table
from trimtab.report.sections import Document, Section
from trimtab.report.text import key_label, minute_text
from trimtab.units import plural

_LEGEND: Final = (
    "rho: rank correlation, -1 to 1; q: expected share of false positives among those of this q or "
    "less; effective: number of independent runs; beside: rho that remains after allowing for the "
    "telemetry named"
)


def correlated_document(correlated: Correlated) -> Document:
    """Return the telemetry that moves with each series, strongest first."""
    pairs = [
        (series, correlation)
        for series in correlated.series
        for correlation in series.correlations
        if correlation.moves_with
    ]
    pairs.sort(key=lambda pair: -abs(pair[1].rho or 0.0))
    moved = len({id(series) for series, _ in pairs})
    answer = f"{moved} of {len(correlated.series)} series of {correlated.site} move with telemetry"
    if pairs:
        series, strongest = pairs[0]
        label, rho = key_label(series.key), strongest.rho or 0.0
        answer += f"; strongest: {strongest.name} with {label} ({rho:+.2f})"
    columns = ("series", "rho>", "telemetry", "q>", "runs>", "beside")
    strongest_first = table(columns, (_row(*pair) for pair in pairs), _LEGEND)
    snapshots = plural(correlated.snapshots, "snapshot", ",")
    return Document(
        kind="correlate",
        heading=correlated.site,
        subtitle=f"{snapshots}. Correlation is not cause: the same load may move both.",
        tone="info",
        answer=f"{answer}.",
        sections=(
            Section("Telemetry that moves with them", tables=(strongest_first,)),
            Section("Series", notes=tuple(map(_tested, correlated.series))),
        ),
    )


def _row(series: CorrelatedSeries, correlation: Correlation) -> Row:
    beside = ""
    if correlation.beside is not None and correlation.rho_beside is not None:
        beside = f"{correlation.rho_beside:+.2f} after {correlation.beside}"
    alike = f"the same as {', '.join(correlation.alike)}" if correlation.alike else ""
    effective = correlation.n_effective
    return row(
        key_label(series.key),
        "-" if correlation.rho is None else f"{correlation.rho:+.2f}",
        Cell(correlation.name, alike),
        "-" if correlation.q_value is None else f"{correlation.q_value:.2g}",
        Cell(f"{correlation.n:,}", "" if effective is None else f"{effective:,.0f} effective"),
        beside,
    )


def _tested(series: CorrelatedSeries) -> str:
    tested = plural(len(series.correlations), "reading")
    stretch = f"{minute_text(series.from_)} to {minute_text(series.to)}"
    return f"{key_label(series.key)}: {series.runs:,} runs, {stretch}, against {tested}"
