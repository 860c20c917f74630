"""The watch, as text: the slots that were done, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.acting import print_plan
from trimtab.cli.render.screen import print_wrapped
from trimtab.cli.render.text import console, moment, print_table, table
from trimtab.record.slots import SlotState
from trimtab.units import enumerated, format_value, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab.model.action import Plan
    from trimtab.model.run import Run
    from trimtab.record.slots import ItemState, Slot, WatchState

_STYLES = {SlotState.DONE: "green", SlotState.MISSED: "yellow", SlotState.FAILED: "red"}


def print_state(state: WatchState, plans: Sequence[Plan] | None) -> None:
    """Print who watches a site, what ran last and what comes next.

    Parameters
    ----------
    plans
        What the armed policies would change now; ``None``: not asked.
    """
    from rich.text import Text

    out = console()
    if state.lease is None:
        out.print(f"{visible(state.site)}: not watched. Start it: trimtab watch {state.site}")
    else:
        since = moment(state.lease.taken_at)
        failed = [item for item in state.items if item.last and item.last.state is SlotState.FAILED]
        holder = visible(state.lease.holder)
        print_wrapped(
            out,
            f"{visible(state.site)}: watched by {holder} since {since}; "
            + (
                f"{plural(len(failed), 'item')} of {len(state.items)} failed last: "
                f"{enumerated(visible(item.item) for item in failed)}"
                if failed
                else f"none of {plural(len(state.items), 'item')} failed last"
            ),
        )
    if not state.items:
        out.print("  nothing is scheduled")
    else:
        rows = table("next!", "item!", "last!", "outcome!", "detail")
        for item in state.items:
            last = item.last
            rows.add_row(
                "running" if item.running else moment(item.next_at),
                visible(item.item),
                "-" if last is None else moment(last.due_at),
                "-" if last is None else Text(last.state.value, style=_STYLES[last.state]),
                visible(_outcome_of(item)),
            )
        print_table(out, rows)
    if plans is None:
        return
    if not plans:
        out.print("\nNo policy is armed.")
    for plan in plans:
        out.print()
        print_plan(plan)


def _outcome_of(item: ItemState) -> str:
    last = item.last
    if last is None:
        return ""
    verdicts = (f"{verdict.metric} {verdict.status.value}" for verdict in last.verdicts)
    return last.detail or ", ".join(dict.fromkeys(verdicts))


def print_slots(site: str, store: str, slots: Sequence[Slot], runs: Mapping[str, Run]) -> None:
    """Print each slot with its run and verdicts."""
    out = console()
    out.print(visible(site), style="bold")
    for slot in slots:
        out.print(f"  {visible(slot.item)}, due {moment(slot.due_at)}: {slot.state.value}")
        if slot.detail:
            out.print(f"    {visible(slot.detail)}", style="dim", soft_wrap=True)
        run = None if slot.run is None else runs.get(slot.run)
        if run is not None:
            problem = "" if run.problem is None else f": {run.problem}"
            out.print(f"    run {run.id}: {run.status.value}{visible(problem)}", soft_wrap=True)
        for verdict in slot.verdicts:
            mean = "-" if verdict.mean is None else format_value(verdict.mean, verdict.unit)
            out.print(
                f"    {verdict.metric} ({verdict.scope.value}) {mean}: "
                f"{verdict.status.value.replace('_', ' ')} ({visible(verdict.reason)})",
                soft_wrap=True,
            )
    if not slots:
        out.print("  nothing was due")
    out.print(f"  stored in {visible(store)}", style="dim", soft_wrap=True)
