"""``trimtab correlate``: which telemetry moves with performance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.opened import opened
from trimtab.cli.output import show
from trimtab.cli.render.text import console, moment
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.correlation import Correlated, Correlation


@click.command("correlate")
@click.argument("where", metavar="SITE")
@options.since("Start of the analysis. Default: 90 days before the last run.")
@options.until
@options.series
@options.as_json
@options.store
def command(where: str, store_url: str | None, **limits: str | None) -> None:
    """Correlate telemetry with performance, with significance. Correlation is not cause.

    The significance allows for autocorrelation in both series and for multiple testing.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.correlating import correlate_site
    from trimtab.report import documents

    with opened(where, store_url) as record, progress_bar() as progress:
        result = correlate_site(record.store, record.place, progress=progress, **limits)
    show(
        lambda: documents.judged.CorrelateDocument(result),
        lambda: print_correlated(result),
    )


_SHOWN = 10


def print_correlated(correlated: Correlated) -> None:
    """Print the telemetry that moves with each series, the surest first."""
    out = console()
    out.print(f"{visible(correlated.site)}, {correlated.snapshots:,} snapshots", style="bold")
    for series in correlated.series:
        key = series.key
        out.print()
        out.print(
            f"{key.metric} of {visible(key.probe)} ({visible(key.kind)}), {series.runs:,} runs, "
            f"{moment(series.from_)} to {moment(series.to)}",
            style="bold",
        )
        moving = [correlation for correlation in series.correlations if correlation.moves_with]
        for correlation in moving[:_SHOWN]:
            out.print(f"  {_line(correlation)}", soft_wrap=True)
        if not moving:
            out.print("  nothing moves with it beyond what chance makes of so many")
        rest = len(series.correlations) - min(len(moving), _SHOWN)
        more = " more" if moving else ""
        out.print(f"  {rest}{more} were held against it: --json", style="dim")
    out.print()
    out.print("What moves together need not be cause and effect: the same load may make both.")


def _line(correlation: Correlation) -> str:
    rho = "" if correlation.rho is None else f"{correlation.rho:+.2f}"
    facts = [] if correlation.q_value is None else [f"q {correlation.q_value:.2g}"]
    few = correlation.n_effective is not None and correlation.n_effective < 0.8 * correlation.n
    facts.append(
        f"{correlation.n} runs" + (f" that count as {correlation.n_effective:.0f}" if few else "")
    )
    if correlation.beside is not None and correlation.rho_beside is not None:
        facts.append(f"{correlation.rho_beside:+.2f} beside {correlation.beside}")
    if correlation.alike:
        facts.append(f"the same as {', '.join(correlation.alike)}")
    return f"{rho:>6}  {visible(correlation.name)}: {visible(', '.join(facts))}"
