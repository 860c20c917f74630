"""The watch, as text: the slots that were done, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from trimtab.cli.render.acting import print_plan
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import console, moment
from trimtab.model.run import RunStatus
from trimtab.model.verdict import VerdictStatus
from trimtab.record.slots import SlotState, process_text
from trimtab.report.headline import headline
from trimtab.units import enumerated, plural, value_or_dash
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.model.action import Plan
    from trimtab.model.run import Run
    from trimtab.model.standing import SiteStanding
    from trimtab.record.slots import ItemState, Slot, WatchState

_STYLES = {SlotState.DONE: "green", SlotState.MISSED: "yellow", SlotState.FAILED: "red"}


def print_state(state: WatchState, plans: Sequence[Plan] | None, standing: SiteStanding) -> None:
    """Print how a site stands, who watches it, what ran last and what comes next.

    Parameters
    ----------
    plans
        What the armed policies would change now; ``None``: not asked.
    """
    print_screen(headline(standing), partial(_print_items, state, plans))


def _watched(state: WatchState) -> str:
    site = visible(state.site)
    failed = [item for item in state.items if item.last and item.last.state is SlotState.FAILED]
    if failed:
        outcome = f"{plural(len(failed), 'item')} of {len(state.items)} failed last: "
        outcome += enumerated(visible(item.item) for item in failed)
    elif state.items:
        outcome = f"none of {plural(len(state.items), 'item')} failed last"
    else:
        outcome = "no item is scheduled"
    if state.lease is None:
        return f"{site}: not watched; {outcome}. Start it: trimtab watch {site}"
    holder, since = visible(process_text(state.lease.holder)), moment(state.lease.taken_at)
    return f"{site}: watched by {holder} since {since}; {outcome}."


_COLUMNS = (
    Column("next"),
    Column("item"),
    Column("last", drop=1),
    Column("outcome"),
    Column("detail", wraps=True, least=16),
)


def _print_items(state: WatchState, plans: Sequence[Plan] | None, out: Console) -> None:
    from rich.text import Text

    print_wrapped(out, _watched(state), "bold")
    rows = []
    for item in state.items:
        last = item.last
        rows.append(
            (
                "running" if item.running else moment(item.next_at),
                visible(item.item),
                "-" if last is None else moment(last.due_at),
                "-" if last is None else Text(last.state.value, style=_STYLES[last.state]),
                visible(_outcome_of(item)),
            )
        )
    print_rows(out, _COLUMNS, rows)
    if plans is None:
        return
    if not plans:
        out.print("\nNo policy is armed.")
    for plan in plans:
        out.print()
        print_plan(out, plan)


def _outcome_of(item: ItemState) -> str:
    last = item.last
    if last is None:
        return ""
    verdicts = (f"{verdict.metric} {verdict.status.value}" for verdict in last.verdicts)
    return last.detail or ", ".join(dict.fromkeys(verdicts))


def _went_wrong(slot: Slot, runs: Mapping[str, Run]) -> bool:
    run = None if slot.run is None else runs.get(slot.run)
    return slot.state is not SlotState.DONE if run is None else run.status is not RunStatus.OK


def print_slots(
    store: str, slots: Sequence[Slot], runs: Mapping[str, Run], standing: SiteStanding
) -> None:
    """Print how a site stands after some slots, and each of them with its run and verdicts."""
    out, site = console(), standing.site
    print_wrapped(out, headline(standing), "bold")
    failed = [slot for slot in slots if _went_wrong(slot, runs)]
    missed = [
        f"{slot.item} {verdict.metric}"
        for slot in slots
        for verdict in slot.verdicts
        if verdict.status is VerdictStatus.MISSED
    ]
    answer = f"{site}: {plural(len(slots), 'slot')} done" if slots else f"{site}: no slot was due"
    if slots and not failed:
        answer += ", none failed"
    elif failed:
        answer = f"{site}: {len(failed)} of {plural(len(slots), 'slot')} went wrong: "
        answer += enumerated(dict.fromkeys(slot.item for slot in failed))
    if missed:
        answer += f"; goal missed: {enumerated(dict.fromkeys(missed), 3)}"
    print_wrapped(out, f"{answer}.", "bold")
    for slot in slots:
        out.print(f"  {visible(slot.item)}, due {moment(slot.due_at)}: {slot.state.value}")
        if slot.detail:
            out.print(f"    {visible(slot.detail)}", style="dim", soft_wrap=True)
        run = None if slot.run is None else runs.get(slot.run)
        if run is not None:
            problem = "" if run.problem is None else f": {run.problem}"
            out.print(f"    run {run.id}: {run.status.value}{visible(problem)}", soft_wrap=True)
        for verdict in slot.verdicts:
            mean = value_or_dash(verdict.mean, verdict.unit)
            out.print(
                f"    {verdict.metric} ({verdict.scope.value}) {mean}: "
                f"{verdict.status.value.replace('_', ' ')} ({visible(verdict.reason)})",
                soft_wrap=True,
            )
    out.print(f"  stored in {visible(store)}", style="dim", soft_wrap=True)
