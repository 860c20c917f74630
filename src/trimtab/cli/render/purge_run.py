"""A run as text: what was or would be deleted, what stayed and why, what held it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.purge_tables import fullness
from trimtab.cli.render.text import console, print_facts, print_sentences, print_table, table
from trimtab.purge.plan.load import LoadedPlan
from trimtab.purge.run.messages import Objection
from trimtab.purge.run.runner import RunResult
from trimtab.purge.run.state import DELETED, WOULD_DELETE
from trimtab.units import format_bytes, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = 20


def print_run(result: RunResult, loaded: LoadedPlan, notes: Sequence[str] = ()) -> None:
    """Print what a run came to."""
    out = console()
    kind = "run" if result.apply else "dry run"
    root = visible(loaded.plan.file_system.root)
    out.print(f"{kind} of plan {loaded.plan.id}, {root}", style="bold")
    print_facts(out, _facts(result, loaded))
    print_sentences(out, [f"it ended: {result.text}"])
    if result.objections:
        title = "what held it back" if result.apply else "what would hold a run back"
        out.print(f"\n{title}", style="bold yellow")
        print_table(out, _objections(result.objections))
    if result.trim_due:
        print_sentences(
            out,
            ["the drives do not know yet what became free: trim them (fstrim) when it is quiet"],
            "dim",
        )
    print_sentences(out, (*notes, *_unexplained(result)), "yellow")
    out.print(f"journal: {visible(str(result.journal))}", style="dim", soft_wrap=True)


def _objections(objections: Sequence[Objection]) -> Table:
    made = table("guard", "says", "what to do")
    for one in objections:
        made.add_row(one.guard, visible(one.reason), visible(one.hint or ""))
    return made


def _unexplained(result: RunResult) -> Iterator[str]:
    for path in result.unexplained[:_SHOWN]:
        shown = visible(path.decode("utf-8", "surrogateescape"))
        yield (
            f"{shown}, which an interrupted run moved aside, fits no row of the plan and is left "
            "there: see whose it is, and move it back"
        )
    if len(result.unexplained) > _SHOWN:
        yield f"{len(result.unexplained) - _SHOWN:,} more lie beside it"


def _facts(result: RunResult, loaded: LoadedPlan) -> Iterator[tuple[str, str]]:
    word = "deleted" if result.apply else "would delete"
    yield word, f"{plural(result.files, 'file', ',')}, {format_bytes(result.bytes)}"
    if result.apply:
        yield "freed", format_bytes(result.freed_bytes)
    kept = [
        f"{outcome.replace('_', ' ')} {count:,}"
        for outcome, count in sorted(result.outcomes.items(), key=lambda one: (-one[1], one[0]))
        if outcome not in (DELETED, WOULD_DELETE)
    ]
    if kept:
        yield "kept", ", ".join(kept)
    rows = loaded.plan.candidates.files
    yield "plan", f"{result.rows_left:,} of {plural(rows, 'row', ',')} not dealt with"
    if result.recovered_rows:
        yield "recovered", f"{plural(result.recovered_rows, 'row', ',')} of an interrupted batch"
    if result.torn_bytes:
        yield "journal", f"{plural(result.torn_bytes, 'byte', ',')} of an unfinished line"
    if result.before is not None:
        after = f", then {fullness(result.after)}" if result.apply else ""
        yield "full", f"{fullness(result.before)}{after}"
