"""A survey as text: what would be done, or every target with the slowest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.cli.render.text import console, moment, table
from trimtab.model.survey import METRICS, SLOW, Standing, Survey, SurveyPlan
from trimtab.units import format_bytes, format_bytes_per_s, format_percent, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

_WAYS = {"client": "from this client", "server": "on its servers"}


def print_plan(plan: SurveyPlan, *, applied: bool) -> None:
    """Print what would be done to which targets; ``applied`` leaves out how to do it."""
    out = console()
    targets = plural(len(plan.targets), "OST")
    out.print(visible(f"survey of {plan.site} {_WAYS[plan.way]}: {targets}"), style="bold")
    for name, value in plan.parameters.items():
        out.print(f"  {name} {_value(name, value)}")
    out.print("\nfor each wave, one after the other:")
    for number, step in enumerate(plan.steps, start=1):
        out.print(f"  {number}. {visible(step)}", soft_wrap=True)
    out.print()
    for number, wave in enumerate(plan.waves, start=1):
        names = ", ".join(
            f"{one.target} on {one.server}" if one.server else one.target for one in wave
        )
        out.print(f"  wave {number}: {visible(names)}", soft_wrap=True)
    for one in plan.refused:
        out.print(f"  left out: {one.target}: {visible(one.refusal or '')}", style="yellow")
    if not applied:
        out.print("\nNothing was done. Do it with --apply.", style="bold")
    else:
        out.print()


def print_survey(survey: Survey, store: str) -> None:
    """Print every target, the slowest first, and how far apart they are."""
    out, run = console(), survey.run
    head = f"{run.site}: survey {_WAYS[survey.plan.way]} ({run.kind}), {run.status.value}"
    out.print(visible(f"{head}, {moment(run.at)}"), style="bold")
    _print_table(out, survey)
    out.print()
    for spread in survey.spreads:
        cov = (
            "" if spread.cov is None else f", coefficient of variation {format_percent(spread.cov)}"
        )
        out.print(
            f"{_title(spread.metric)}: median {format_bytes_per_s(spread.median_bytes_per_s)},"
            f" {format_bytes_per_s(spread.least_bytes_per_s)} to"
            f" {format_bytes_per_s(spread.most_bytes_per_s)} over"
            f" {plural(spread.targets, 'OST')}{cov}"
        )
    slow = [one for one in survey.standings if one.slow]
    names = ", ".join(visible(one.result.target) for one in slow)
    under = format_percent(SLOW)
    if slow:
        out.print(f"under {under} of the median: {names}", style="yellow")
    elif survey.spreads:
        out.print(f"none is under {under} of the median")
    for note in survey.notes:
        out.print(visible(note), style="yellow", soft_wrap=True)
    out.print()
    out.print(f"run       {run.id}   (trimtab show {run.id[:13]})", style="dim")
    out.print(f"store     {visible(store)}", style="dim", soft_wrap=True)


def _print_table(out: Console, survey: Survey) -> None:
    metrics = [one.metric for one in survey.spreads] or list(METRICS[:1])
    rates = [name for metric in metrics for name in (f"{_title(metric).upper()}>!", "OF MEDIAN>!")]
    names = ("TARGET!", "SERVER", *rates, "RESULT")
    made = table(*names, padding=(0, 2, 0, 0), header_style="bold")
    for one in survey.standings:
        made.add_row(*_row(one, metrics), style="yellow" if one.slow else None)
    out.print(made)


def _row(one: Standing, metrics: list[str]) -> list[str]:
    cells = [visible(one.result.target), visible(one.result.server or "?")]
    for metric in metrics:
        rate, ratio = one.rates.get(metric), one.ratios.get(metric)
        cells.append("?" if rate is None else format_bytes_per_s(rate))
        cells.append("?" if ratio is None else format_percent(ratio))
    reason = one.result.reason
    said = one.result.outcome.value + ("" if reason is None else f": {reason}")
    return [*cells, visible(said)]


def _title(metric: str) -> str:
    return metric.removesuffix("_bandwidth")


def _value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if name.endswith("_bytes_per_s") and isinstance(value, (int, float)):
        return format_bytes_per_s(value)
    if name.endswith("_bytes") and isinstance(value, (int, float)):
        return format_bytes(value)
    return f"{value:g} s" if name.endswith("_s") and isinstance(value, float) else str(value)
