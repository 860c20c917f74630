"""What ``trimtab status`` tells of incidents, suspects and slow targets, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trimtab.cli.render.text import moment
from trimtab.model.status import IncidentStatus, JudgedStatus, SeriesStatus, SlowestTargets, Status
from trimtab.units import format_percent, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console


def print_standing(out: Console, status: Status, site: str) -> None:
    """Print what is not well with one site: incidents, suspects, its slowest targets."""
    for one in status.incidents:
        if one.site == site:
            style = "bold red" if one.state == "open" else "yellow"
            out.print(f"  {_incident(one)}", style=style, soft_wrap=True)
    for one in status.series:
        if one.site == site and one.suspect is not None:
            out.print(f"  {_suspect(one)}", style="yellow", soft_wrap=True)
    for line in _slowest(one for one in status.slowest if one.site == site):
        out.print(f"  {line}", soft_wrap=True)
    for one in status.judged:
        if one.site == site:
            out.print(f"  {_judged(one)}", style="dim", soft_wrap=True)


def _incident(one: IncidentStatus) -> str:
    if one.cause is None or one.confidence is None:
        why = "unexplained"
    else:
        why = f"{visible(one.cause)} ({format_percent(one.confidence)})"
    return f"{one.state} incident: {visible(one.summary)}: {why}"


def _suspect(one: SeriesStatus) -> str:
    change = one.suspect
    assert change is not None
    effect = "" if change.effect is None else f" by {100 * (change.effect - 1):+.0f} %"
    return (
        f"suspect: {one.verdict.metric} of {visible(one.probe)} may have changed{effect} since "
        f"{moment(change.at)}; not confirmed yet"
    )


def _slowest(found: Iterator[SlowestTargets]) -> Iterator[str]:
    for one in found:
        named = ", ".join(
            f"{visible(target)} {format_value(value, one.unit)}" for target, value in one.slowest
        )
        yield (
            f"slowest of {one.targets} targets by {one.metric}, {moment(one.at)}: {named} "
            f"(median {format_value(one.median, one.unit)})"
        )


def _judged(one: JudgedStatus) -> str:
    newer = ""
    if one.newer_runs:
        newer = f", {plural(one.newer_runs, 'run')} ago: trimtab incidents looks again"
    return f"incidents as of {moment(one.at)}{newer}"
