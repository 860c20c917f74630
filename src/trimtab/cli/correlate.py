"""``trimtab correlate``: which telemetry moves with performance."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.options import extent
from trimtab.cli.output import show
from trimtab.cli.render.screen import ROWS, Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import moment
from trimtab.report.text import key_label
from trimtab.units import plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from trimtab.model.correlation import Correlated, CorrelatedSeries, Correlation

_SERIES: Final = 5


@click.command("correlate")
@click.argument("where", metavar="SITE")
@options.since("Start of the analysis. Default: 90 days before the last run.")
@options.until
@options.series
@options.extent_options
@options.as_json
@options.store
def command(where: str, store_url: str | None, **limits: str | None) -> None:
    """Correlate telemetry with performance, with significance. Correlation is not cause.

    The significance allows for autocorrelation in both series and for multiple testing.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.correlating import correlate_site

    with opened(where, store_url) as record, progress_bar() as progress:
        result = correlate_site(record.store, record.place, progress=progress, **limits)
    show(
        lambda: result,
        lambda: print_correlated(result),
    )


def print_correlated(correlated: Correlated) -> None:
    """Print the telemetry that moves with each series, the strongest first."""
    pairs = [
        (series, correlation)
        for series in correlated.series
        for correlation in series.correlations
        if correlation.moves_with
    ]
    pairs.sort(key=lambda pair: -abs(pair[1].rho or 0.0))
    site, snapshots = visible(correlated.site), plural(correlated.snapshots, "snapshot", ",")
    moved = len({id(series) for series, _ in pairs})
    count = f"{moved} of {len(correlated.series)} series of {site} move with telemetry"
    if pairs:
        series, correlation = pairs[0]
        count += (
            f"; strongest: {visible(correlation.name)} with {_name(series)} "
            f"({correlation.rho or 0.0:+.2f})"
        )
    print_screen(f"{count}.", partial(_print_pairs, correlated, pairs, snapshots))


_COLUMNS: Final = (
    Column("series", wraps=True),
    Column("rho", right=True),
    Column("telemetry", wraps=True),
    Column("q", right=True, drop=1),
    Column("runs", right=True, drop=3),
    Column("effective", right=True, drop=3),
    Column("beside", wraps=True, drop=2),
)
_LEGEND: Final = (
    "rho: rank correlation, -1 to 1; q: share of false finds among those of this q or less; "
    "effective: independent runs that the autocorrelated ones count as; beside: rho that is left "
    "after the telemetry named"
)


def _print_pairs(
    correlated: Correlated,
    pairs: Sequence[tuple[CorrelatedSeries, Correlation]],
    snapshots: str,
    out: Console,
) -> None:
    rows = extent().rows(ROWS)
    print_rows(out, _COLUMNS, [_row(series, correlation) for series, correlation in pairs[:rows]])
    if len(pairs) > rows:
        out.print(f"... {len(pairs) - rows:,} more: --all", style="dim")
    if pairs:
        print_wrapped(out, _LEGEND, "dim")
    for series in correlated.series if extent().everything else correlated.series[:_SERIES]:
        tested = plural(len(series.correlations), "reading")
        stretch = f"{moment(series.from_)} to {moment(series.to)}"
        print_wrapped(
            out, f"{_name(series)}: {series.runs:,} runs, {stretch}, against {tested}", "dim"
        )
    print_wrapped(
        out, f"{snapshots}. Correlation is not cause: the same load may move both.", "dim"
    )


def _row(series: CorrelatedSeries, correlation: Correlation) -> tuple[str, ...]:
    beside = ""
    if correlation.beside is not None and correlation.rho_beside is not None:
        beside = f"{correlation.rho_beside:+.2f} after {correlation.beside}"
    alike = f" (the same as {', '.join(correlation.alike)})" if correlation.alike else ""
    effective = correlation.n_effective
    return (
        _name(series),
        "-" if correlation.rho is None else f"{correlation.rho:+.2f}",
        visible(f"{correlation.name}{alike}"),
        "-" if correlation.q_value is None else f"{correlation.q_value:.2g}",
        f"{correlation.n:,}",
        "-" if effective is None else f"{effective:,.0f}",
        visible(beside),
    )


def _name(series: CorrelatedSeries) -> str:
    return key_label(series.key)
