"""Plans, what became of them, and the ledger, as text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from trimtab.cli.options import extent, rest_option
from trimtab.cli.render.document import print_trouble
from trimtab.cli.render.screen import ROWS, Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import local_times, site_argument
from trimtab.config.nodes import NODE_NAME, fold_nodes
from trimtab.config.targets import fold_names
from trimtab.loop.acting.session import Visit
from trimtab.model.action import Action, ActionKind, Instruction, Outcome, Plan, Untouched
from trimtab.report.answers import actions_answer, plan_answer
from trimtab.report.headline import site_troubles
from trimtab.report.runs import telling_length
from trimtab.report.text import change_text, metric_text
from trimtab.units import format_bytes
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.loop.purging.registering import Registration
    from trimtab.model.compare import Effect, PlanEffect

Entry = TypeVar("Entry")
_UNTOUCHED_ROWS: Final = 8
_EFFECTS: Final = 5
_SAID_BY_THE_CHANGE: Final = {"not-as-desired", "reverted"}
"""Codes of reasons that repeat both values of a setting."""


def print_visit(visit: Visit, *, command: str) -> None:
    """Print a plan and what became of it.

    Parameters
    ----------
    command
        That applies the plan.
    """
    plan = visit.plan
    offered = bool(plan.instructions) and not plan.held and not visit.applied
    more = (
        [f"trimtab actions {site_argument(plan.site)} lists what was done"] if visit.actions else []
    )
    if offered:
        more = ["Nothing was changed. This plan, and no other, is applied by:"]
    print_screen(
        plan_answer(plan, visit.actions, site_troubles(visit.standing)),
        partial(_print_visit, visit),
        more=more,
        command=command if offered else "",
    )


def print_registration(registration: Registration) -> None:
    """Print which changelog users would be registered or removed, what to know, what was done."""
    plan = registration.plan
    print_screen(
        plan_answer(plan, registration.actions), partial(_print_registration, registration)
    )


def _print_registration(registration: Registration, out: Console) -> None:
    if not registration.applied:
        for danger in registration.dangers:
            print_wrapped(out, f"{danger}.", "yellow")
    _print_visit(registration, out)


def _print_visit(visit: Visit | Registration, out: Console) -> None:
    for action in visit.settled:
        print_wrapped(
            out, f"settled: {_in_words(action.instruction)}: {visible(action.detail or '')}"
        )
    if visit.actions:
        _print_actions(out, visit.actions)
    _print_rest(out, visit.plan, planned=not visit.actions)
    if isinstance(visit, Visit) and not visit.plan.instructions:
        for trouble in site_troubles(visit.standing):
            print_trouble(out, trouble)


def print_plan(out: Console, plan: Plan) -> None:
    """Print what a policy would change, on a page that has its own answer."""
    print_wrapped(out, f"{plan.policy}: {plan_answer(plan).partition(': ')[2]}", "bold")
    _print_rest(out, plan, planned=True)


def _print_rest(out: Console, plan: Plan, *, planned: bool) -> None:
    """Print the instructions of a plan, where none was begun, and what it leaves alone."""
    for reason in plan.held[1:]:
        print_wrapped(out, f"nor may it because {visible(str(reason))}", "yellow")
    if planned and plan.instructions:
        _print_instructions(out, plan.instructions)
    if plan.untouched:
        _print_untouched(out, plan.untouched)


def print_ledger(site: str, actions: Sequence[Action], effects: Sequence[PlanEffect]) -> None:
    """Print the ledger, the newest action first, and how performance went after each plan."""
    more = []
    if actions:
        more = [f"trimtab revert {site_argument(site)} ID shows how one is taken back"]
    print_screen(actions_answer(site, actions), partial(_print_ledger, actions, effects), more=more)


def _print_ledger(actions: Sequence[Action], effects: Sequence[PlanEffect], out: Console) -> None:
    requested = extent()
    newest = actions[::-1]
    shown = newest[: requested.rows(ROWS)]
    length = telling_length([action.id for action in actions])
    by_several = len({action.who for action in actions}) > 1
    all_done = all(action.outcome is Outcome.DONE for action in actions)
    times = local_times([action.at for action in shown])
    rows = [
        (
            action.id[:length],
            at,
            visible(action.who) if by_several else "",
            _in_words(action.instruction, short=not requested.everything),
            _reason(action.instruction),
            "" if all_done else _outcome(action),
        )
        for action, at in zip(shown, times, strict=True)
    ]
    print_rows(out, _LEDGER_COLUMNS, rows)
    if len(newest) > len(shown):
        out.print(f"... {len(newest) - len(shown):,} earlier changes: --all", style="dim")
    if effects:
        newest_effects = list(effects)[::-1][: requested.rows(_EFFECTS)]
        out.print("performance after each plan, against the window before it", style="bold")
        begun = local_times([effect.at for effect in newest_effects])
        rows = [
            (effect.plan, at, visible(_effects(effect)))
            for effect, at in zip(newest_effects, begun, strict=True)
        ]
        print_rows(out, _EFFECT_COLUMNS, rows)


def _effects(plan: PlanEffect) -> str:
    """Return the effects of a plan on every series in words, or why there are none."""
    if plan.effect is None:
        return f"cannot tell yet: {plan.reason}"
    return "; ".join(
        f"{series.probe} {_effect(effect)}"
        for series in plan.effect.series
        for effect in series.effects
    )


def _effect(effect: Effect) -> str:
    ratio = "" if effect.ratio is None else f" ({change_text(effect.ratio)})"
    change = effect.change.value.replace("_", " ")
    return f"{metric_text(effect.metric or 'value')}: {change}{ratio}"


_LEDGER_COLUMNS: Final = (
    Column("id"),
    Column("at"),
    Column("who", drop=2),
    Column("what", wraps=True),
    Column("reason", drop=1, wraps=True),
    Column("outcome"),
)
_EFFECT_COLUMNS: Final = (Column("plan"), Column("at"), Column("effect", wraps=True))
_INSTRUCTION_COLUMNS: Final = (
    Column("stage", right=True),
    Column("target", wraps=True),
    Column("server", drop=1, wraps=True),
    Column("change", wraps=True),
    Column("reason", wraps=True),
)
_UNTOUCHED_COLUMNS: Final = (
    Column("left alone", wraps=True),
    Column("setting", wraps=True),
    Column("reason", wraps=True, least=12),
)
_ACTION_COLUMNS: Final = (
    Column("target", wraps=True),
    Column("change", wraps=True),
    Column("outcome"),
    Column("found", wraps=True, least=8),
    Column("detail", wraps=True, least=8),
)


def _print_instructions(out: Console, instructions: Sequence[Instruction]) -> None:
    staged = len({instruction.stage for instruction in instructions}) > 1
    alike = _alike(
        instructions, lambda each: (each.stage, _change(each), _reason(each)), extent().everything
    )
    rows = []
    for (stage, change, reason), entries in alike:
        servers = _servers(entry.server for entry in entries)
        targets = visible(fold_names(entry.target for entry in entries))
        rows.append((str(stage) if staged else "", targets, visible(servers), change, reason))
    _print_some(out, _INSTRUCTION_COLUMNS, rows[: extent().rows(ROWS)], of=len(rows))


def _print_untouched(out: Console, untouched: Sequence[Untouched]) -> None:
    alike = _alike(untouched, lambda each: (str(each.reason),), extent().everything)
    rows = []
    for (reason,), entries in alike:
        settings = dict.fromkeys(entry.setting for entry in entries if entry.setting)
        targets = fold_names(entry.target for entry in entries)
        rows.append((visible(targets), visible(", ".join(settings)), visible(reason)))
    _print_some(out, _UNTOUCHED_COLUMNS, rows[: extent().rows(_UNTOUCHED_ROWS)], of=len(rows))


def _print_actions(out: Console, actions: Sequence[Action]) -> None:
    failed_first = sorted(actions, key=lambda action: action.outcome is Outcome.DONE)
    alike = _alike(
        failed_first,
        lambda each: (
            _change(each.instruction, short=True), _outcome(each), _result(each),
            visible(each.detail or ""),
        ),
        extent().everything,
    )  # fmt: skip
    rows = []
    for result, entries in alike:
        targets = fold_names(entry.instruction.target for entry in entries)
        rows.append((visible(targets), *result))
    _print_some(out, _ACTION_COLUMNS, rows[: extent().rows(ROWS)], of=len(rows))


def _alike(
    entries: Sequence[Entry], key: Callable[[Entry], tuple], apart: bool
) -> list[tuple[tuple, list[Entry]]]:
    """Return entries of one key together, in their order; each by itself where ``apart``."""
    groups: dict[Hashable, tuple[tuple, list[Entry]]] = {}
    for place, entry in enumerate(entries):
        group = groups.setdefault(place if apart else key(entry), (key(entry), []))
        group[1].append(entry)
    return list(groups.values())


def _print_some(
    out: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]], of: int = 0
) -> None:
    print_rows(out, columns, rows)
    if of > len(rows):
        out.print(f"... {of - len(rows):,} more rows: {rest_option()}", style="dim")


def _servers(names: Iterable[str | None]) -> str:
    known = sorted({name for name in names if name})
    whole = all(NODE_NAME.fullmatch(name) for name in known)
    return fold_nodes(known) if known and whole else ", ".join(known)


def _outcome(action: Action) -> str:
    return "begun" if action.outcome is None else action.outcome.value.replace("-", " ")


def _result(action: Action) -> str:
    if action.instruction.kind is ActionKind.TRIM and (action.found or "").isdecimal():
        return f"{format_bytes(int(action.found or 0))} trimmed"
    repeated = action.outcome is Outcome.DONE and action.found == action.instruction.value
    return "" if repeated else visible(action.found or "")


def _reason(instruction: Instruction) -> str:
    """Return why, where the change does not say it."""
    both = instruction.setting is not None and instruction.reason.code in _SAID_BY_THE_CHANGE
    return "" if both else visible(str(instruction.reason))


def _change(instruction: Instruction, *, short: bool = False) -> str:
    if instruction.kind is ActionKind.SET:
        setting = instruction.setting or ""
        setting = setting.rpartition("/")[2] if short else setting
        change = f"{setting} {instruction.before} -> {instruction.value}"
    else:
        change = instruction.kind.value.replace("-", " ")
        if instruction.kind is ActionKind.MIGRATE:
            change = f"{change} {instruction.value}"
        elif instruction.kind in {ActionKind.REGISTER, ActionKind.DEREGISTER} and not short:
            change = instruction.value or change
    return visible(change)


def _in_words(instruction: Instruction, *, short: bool = False) -> str:
    return f"{visible(instruction.target)} {_change(instruction, short=short)}"
