"""What a watch did in one go, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.cli.render.text import console, moment
from trimtab.model.run import Run
from trimtab.record.slots import Slot
from trimtab.units import format_value
from trimtab.visible import visible


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
    out.print(f"  kept in {visible(store)}", style="dim", soft_wrap=True)
