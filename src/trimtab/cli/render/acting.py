"""Plans, what became of them, and the ledger, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.text import (
    console,
    moment,
    print_more,
    print_sentences,
    print_table,
    table,
)
from trimtab.model.action import Action, ActionKind, Instruction, Outcome, Plan
from trimtab.units import format_bytes, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.loop.acting.effects import PlanEffect
    from trimtab.loop.acting.session import Visit

ROWS: int = 20
_STYLES = {Outcome.DONE: "green", Outcome.SKIPPED: "yellow", Outcome.CHANGED: "yellow"}


def print_visit(visit: Visit, *, command: str) -> None:
    """Print a plan and what became of it.

    Parameters
    ----------
    command
        That applies the plan.
    """
    out, plan = console(), visit.plan
    out.print(f"{visible(plan.site)} {plan.policy}: {_summary(plan, visit.actions)}")
    for action in visit.settled:
        out.print(f"  settled: {_in_words(action.instruction)}: {visible(action.detail or '')}")
    if visit.actions:
        _print_actions(out, visit.actions)
    _print_rest(out, plan, planned=not visit.actions)
    if plan.instructions and not plan.held and not visit.applied:
        out.print(f"\nNothing was changed. To apply it: {visible(command)}")


def print_plan(plan: Plan) -> None:
    """Print what a policy would change."""
    out = console()
    out.print(f"{visible(plan.site)} {plan.policy}: {_summary(plan, ())}")
    _print_rest(out, plan, planned=True)


def _print_rest(out: Console, plan: Plan, *, planned: bool) -> None:
    """Print the instructions of a plan, where none was begun, and what it leaves alone."""
    if planned and plan.instructions:
        _print_instructions(out, plan.instructions)
    if plan.untouched:
        out.print(f"\n{plural(len(plan.untouched), 'difference')} left alone:")
        rows = table("target", "setting", "reason")
        for each in plan.untouched[:ROWS]:
            rows.add_row(*map(visible, (each.target, each.setting or "", each.reason)))
        print_table(out, rows)
        print_more(out, plan.untouched, ROWS)
    if plan.held:
        out.print("\nNothing may be changed now:", style="bold")
        print_sentences(out, plan.held)


def print_ledger(actions: Sequence[Action], effects: Sequence[PlanEffect]) -> None:
    """Print the ledger, oldest first, and how performance went after each plan."""
    out = console()
    if not actions:
        out.print("Nothing has been done to it.")
        return
    rows = table("id!", "at!", "who", "what", "reason", "outcome!")
    for action in actions:
        rows.add_row(
            action.id[:13],
            moment(action.at),
            visible(action.who),
            _in_words(action.instruction),
            visible(action.instruction.reason),
            _outcome(action),
        )
    out.print(rows)
    if effects:
        out.print("\nPerformance after each plan:")
        plans = table("plan!", "at!", "compared with the window before it")
        for effect in effects:
            plans.add_row(effect.plan, moment(effect.at), visible(effect.in_words))
        print_table(out, plans)


def _summary(plan: Plan, actions: Sequence[Action]) -> str:
    if actions:
        done = sum(action.outcome is Outcome.DONE for action in actions)
        left = len(plan.instructions) - len(actions)
        rest = f", {left} not begun" if left else ""
        return f"{done} of {plural(len(actions), 'change')} done{rest}"
    if plan.instructions:
        return f"{plural(len(plan.instructions), 'change')} planned"
    return "nothing to change"


def _print_instructions(out: Console, instructions: Sequence[Instruction]) -> None:
    staged = len({instruction.stage for instruction in instructions}) > 1
    rows = table(*(["stage>"] if staged else []), "target", "server", "change", "reason")
    for each in instructions[:ROWS]:
        cells = [each.target, each.server or "", _change(each), str(each.reason)]
        rows.add_row(*([str(each.stage)] if staged else []), *map(visible, cells))
    print_table(out, rows)
    print_more(out, instructions, ROWS)


def _print_actions(out: Console, actions: Sequence[Action]) -> None:
    rows = table("target", "change", "outcome!", "found", "detail")
    for action in actions[-ROWS:]:
        cells = (action.instruction.target, _change(action.instruction))
        rows.add_row(
            *map(visible, cells),
            _outcome(action),
            _result(action),
            visible(action.detail or ""),
        )
    print_table(out, rows)
    print_more(out, actions, ROWS)


def _outcome(action: Action) -> str:
    return "begun" if action.outcome is None else action.outcome.value.replace("-", " ")


def _result(action: Action) -> str:
    if action.instruction.kind is ActionKind.TRIM and (action.found or "").isdecimal():
        return f"{format_bytes(int(action.found or 0))} trimmed"
    return visible(action.found or "")


def _change(instruction: Instruction) -> str:
    if instruction.kind is ActionKind.SET:
        return f"{instruction.setting} {instruction.before} -> {instruction.value}"
    words = instruction.kind.value.replace("-", " ")
    return f"{words} {instruction.value}" if instruction.kind is ActionKind.MIGRATE else words


def _in_words(instruction: Instruction) -> str:
    return visible(f"{instruction.target} {_change(instruction)}")
