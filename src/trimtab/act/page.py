"""Plans of policies, their outcomes, and the ledger of a site. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from trimtab.answers.page import troubles_table
from trimtab.base.action import Action, ActionKind, Instruction, Outcome, Plan, Untouched
from trimtab.base.error import visible
from trimtab.base.name_set import NODE_NAME, fold_names, fold_nodes
from trimtab.base.run import grouped
from trimtab.base.text import change_text, local_times, metric_text
from trimtab.base.units import enumerated, format_bytes, plural
from trimtab.show.document import ROWS, Document, Section, Table, row, table
from trimtab.store.page import telling_length

if TYPE_CHECKING:
    from trimtab.base.finding import Finding
    from trimtab.judge.comparison_result import Effect, PlanEffect

Entry = TypeVar("Entry")
_EFFECTS: Final = 5
_SAID_BY_THE_CHANGE: Final = {"not-as-desired", "reverted"}
"""Codes of reasons that repeat both values of a setting."""


def plan_document(
    plan: Plan,
    actions: Sequence[Action] = (),
    *,
    settled: Sequence[Action] = (),
    troubles: Sequence[Finding] = (),
    dangers: Iterable[str] = (),
    apart: bool = False,
    where: str = "",
    command: str = "",
) -> Document:
    """Return the page of a plan and its outcome.

    Parameters
    ----------
    actions
        Completed actions; empty if the plan was only shown.
    settled
        Actions of killed processes whose outcome was determined later.
    troubles
        Troubles of the site: a policy that changes nothing leaves them as they are.
    dangers
        What the operator must know before applying it.
    apart
        Whether identical instructions get a row each.
    where
        The site as the next command takes it.
    command
        Command that applies the plan, if it is only shown.
    """
    offered = bool(command and plan.instructions and not plan.held)
    more = (f"trimtab actions {where} lists the changes made",) if actions and where else ()
    if offered:
        more = ("Nothing was changed. Apply this plan, and no other, with:",)
    ends = tuple(
        f"settled: {_in_words(action.instruction)}: {action.detail or ''}" for action in settled
    )
    left = () if plan.instructions else troubles
    return Document(
        plan_answer(plan, actions, troubles),
        (
            Section(lines=tuple(f"{danger}." for danger in dangers), tone="warning"),
            Section(lines=ends, tables=(_actions_table(actions, apart),)),
            plan_section(plan, planned=not actions, apart=apart),
            Section(tables=(troubles_table(left),)),
        ),
        more=more,
        command=command if offered else "",
    )


def plan_section(plan: Plan, *, planned: bool = True, apart: bool = False) -> Section:
    """Return the instructions of a plan that was not begun, and the targets it leaves alone."""
    held = tuple(f"also held: {reason}" for reason in plan.held[1:])
    instructions = _instructions_table(plan.instructions, apart) if planned else None
    tables = instructions, _untouched_table(plan.untouched, apart)
    return Section(lines=held, tables=tables, tone="warning")


def ledger_document(
    site: str,
    actions: Sequence[Action],
    effects: Sequence[PlanEffect],
    *,
    short: bool = True,
    where: str = "",
) -> Document:
    """Return the ledger, newest action first, and the performance after each plan.

    Parameters
    ----------
    short
        Whether to print only the last part of a setting's name.
    where
        The site as the next command takes it.
    """
    length = telling_length([action.id for action in actions])
    several = len({action.who for action in actions}) > 1
    all_done = all(action.outcome is Outcome.DONE for action in actions)
    rows = (
        row(
            action.id[:length],
            at,
            action.who if several else "",
            _in_words(action.instruction, short=short),
            _reason(action.instruction),
            "" if all_done else outcome_text(action),
        )
        for action, at in zip(
            reversed(actions), local_times([each.at for each in reversed(actions)]), strict=True
        )
    )
    begun = local_times([effect.at for effect in reversed(effects)])
    after = (
        row(effect.plan, at, _effects(effect))
        for effect, at in zip(reversed(effects), begun, strict=True)
    )
    columns = ("id", "at", "who??", "what", "reason??", "outcome")
    return Document(
        actions_answer(site, actions),
        (
            Section(tables=(table(columns, rows, first=ROWS),)),
            Section(
                "performance after each plan, compared with the window before it",
                tables=(table(("plan", "at", "effect"), after, first=_EFFECTS),),
            ),
        ),
        more=(f"trimtab revert {where} ID shows how to revert one",) if actions else (),
    )


def _effects(plan: PlanEffect) -> str:
    """Return the effects of a plan on every series as text, or why there are none."""
    if plan.effect is None:
        return f"not known yet: {plan.reason}"
    return "; ".join(
        f"{series.probe} {_effect(effect)}"
        for series in plan.effect.series
        for effect in series.effects
    )


def _effect(effect: Effect) -> str:
    ratio = "" if effect.ratio is None else f" ({change_text(effect.ratio)})"
    change = effect.change.value.replace("_", " ")
    return f"{metric_text(effect.metric or 'value')}: {change}{ratio}"


def _instructions_table(instructions: Sequence[Instruction], apart: bool) -> Table | None:
    staged = len({instruction.stage for instruction in instructions}) > 1
    alike = _alike(
        instructions, lambda each: (each.stage, _change(each), _reason(each)), apart=apart
    )
    return table(
        ("stage>", "target", "server??", "change", "reason"),
        (
            row(
                str(stage) if staged else "",
                fold_names(entry.target for entry in entries),
                _servers(entry.server for entry in entries),
                change,
                reason,
            )
            for (stage, change, reason), entries in alike
        ),
        first=ROWS,
    )


def _untouched_table(untouched: Sequence[Untouched], apart: bool) -> Table | None:
    return table(
        ("left alone", "setting", "reason"),
        (
            row(
                fold_names(entry.target for entry in entries),
                ", ".join(dict.fromkeys(entry.setting for entry in entries if entry.setting)),
                reason,
            )
            for (reason,), entries in _alike(
                untouched, lambda each: (str(each.reason),), apart=apart
            )
        ),
    )


def _actions_table(actions: Sequence[Action], apart: bool) -> Table | None:
    failed_first = sorted(actions, key=lambda action: action.outcome is Outcome.DONE)
    alike = _alike(
        failed_first,
        lambda each: (
            _change(each.instruction, short=True), outcome_text(each), _result(each),
            each.detail or "",
        ),
        apart=apart,
    )  # fmt: skip
    return table(
        ("target", "change", "outcome", "found", "detail"),
        (
            row(fold_names(entry.instruction.target for entry in entries), *result)
            for result, entries in alike
        ),
        first=ROWS,
    )


def _alike(
    entries: Sequence[Entry], key: Callable[[Entry], tuple], *, apart: bool
) -> list[tuple[tuple, list[Entry]]]:
    """Group entries by key, in order; each by itself if ``apart``."""
    if apart:
        return [(key(entry), [entry]) for entry in entries]
    return list(grouped(entries, key).items())


def _servers(names: Iterable[str | None]) -> str:
    known = sorted({name for name in names if name})
    whole = all(NODE_NAME.fullmatch(name) for name in known)
    return fold_nodes(known) if known and whole else ", ".join(known)


def _result(action: Action) -> str:
    if action.instruction.kind is ActionKind.TRIM and (action.found or "").isdecimal():
        return f"{format_bytes(int(action.found or 0))} trimmed"
    repeated = action.outcome is Outcome.DONE and action.found == action.instruction.value
    return "" if repeated else action.found or ""


def _reason(instruction: Instruction) -> str:
    """Return the reason, unless the change itself shows it."""
    both = instruction.setting is not None and instruction.reason.code in _SAID_BY_THE_CHANGE
    return "" if both else str(instruction.reason)


def _change(instruction: Instruction, *, short: bool = False) -> str:
    if instruction.kind is ActionKind.SET:
        setting = instruction.setting or ""
        setting = setting.rpartition("/")[2] if short else setting
        return f"{setting} {instruction.before} -> {instruction.value}"
    change = instruction.kind.value.replace("-", " ")
    if instruction.kind is ActionKind.MIGRATE:
        return f"{change} {instruction.value}"
    if instruction.kind in {ActionKind.REGISTER, ActionKind.DEREGISTER} and not short:
        return instruction.value or change
    return change


def _in_words(instruction: Instruction, *, short: bool = False) -> str:
    return f"{instruction.target} {_change(instruction, short=short)}"


_NAMED: Final = 3


_WORDS: Final = {
    ActionKind.SET: ("set", "set", "{changed} of {targets}"),
    ActionKind.TRIM: ("trim", "trimmed", "{targets}"),
    ActionKind.CLOSE: ("close", "closed", "{targets} to new files"),
    ActionKind.OPEN: ("open", "opened", "{targets} to new files"),
    ActionKind.RESET_ALLOCATOR: ("reset", "reset", "the allocator of {targets}"),
    ActionKind.MIGRATE: ("move", "moved", "{changed} off {targets}"),
    ActionKind.REGISTER: ("register", "registered", "a changelog user on {targets}"),
    ActionKind.DEREGISTER: ("remove", "removed", "the changelog user of {targets}"),
}
"""For each kind of change: verb, past tense, and object."""


_FOLDED_MOST: Final = 40
"""Maximum characters of a set of targets in an answer; a longer one is counted."""


def plan_answer(
    plan: Plan, actions: Sequence[Action] = (), troubles: Sequence[Finding] = ()
) -> str:
    """Return what a plan would change or, once applied, what it changed and what failed.

    Parameters
    ----------
    actions
        Completed actions; empty if the plan was only shown.
    troubles
        Troubles of the site, worst first: a policy that changes nothing leaves them as they are.
    """
    site = visible(plan.site)
    left = f"{plural(len(plan.untouched), 'difference', ',')} left alone" if plan.untouched else ""
    if actions:
        return f"{site}: {_applied(plan, actions)}{f'; {left}' if left else ''}."
    if plan.held:
        wish = f"; it {_kinds(plan.instructions)}" if plan.instructions else ""
        return f"{site}: nothing may be changed now: {visible(str(plan.held[0]))}{wish}."
    if not plan.instructions and troubles:
        rest = f", and {plural(len(troubles) - 1, 'more trouble')}" if troubles[1:] else ""
        return (
            f"{site}: no change by {plan.policy}; still in trouble: "
            f"{visible(troubles[0].title)}{rest}{f'; {left}' if left else ''}."
        )
    if not plan.instructions:
        return f"{site}: nothing to change{f', {left}' if left else ''}."
    return f"{site}: {_kinds(plan.instructions)}{f'; {left}' if left else ''}."


def _applied(plan: Plan, actions: Sequence[Action]) -> str:
    done = [action.instruction for action in actions if action.outcome is Outcome.DONE]
    failed = [action for action in actions if action.outcome is not Outcome.DONE]
    parts = [_kinds(done, are_done=True)] if done else []
    if failed:
        first = failed[0]
        word = outcome_text(first)
        why = f" ({visible(first.detail)})" if first.detail else ""
        parts.append(
            f"{len(failed):,} of {plural(len(actions), 'change', ',')} not done, the first: "
            f"{visible(first.instruction.target)} {word}{why}"
        )
    if (rest := len(plan.instructions) - len(actions)) > 0:
        parts.append(f"{rest:,} not begun")
    return "; ".join(parts)


def _kinds(instructions: Sequence[Instruction], *, are_done: bool = False) -> str:
    """Return what instructions would do, or did, grouped by kind."""
    texts = []
    for kind, entries in grouped(instructions, attrgetter("kind")).items():
        planned, done, objects = _WORDS[kind]
        targets = _target_names([entry.target for entry in entries])
        verb = done if are_done else f"would {planned}"
        texts.append(f"{verb} {objects.format(changed=_changed(entries), targets=targets)}")
    return "; ".join(texts)


def _changed(entries: Sequence[Instruction]) -> str:
    """Return the settings of instructions, a few by their short names, or the number of files."""
    settings = dict.fromkeys(
        (entry.setting or "").rpartition("/")[2] for entry in entries if entry.setting
    )
    if not settings:
        return plural(len(entries), "file", ",")
    return visible(enumerated(settings, _NAMED))


def _target_names(names: Sequence[str]) -> str:
    """Return a few targets by name, more of them folded, and very many as a number."""
    folded = visible(fold_names(names))
    count = len(dict.fromkeys(names))
    return folded if len(folded) <= _FOLDED_MOST else plural(count, "target", ",")


def actions_answer(site: str, actions: Sequence[Action]) -> str:
    """Return the number of changes to a site, the number that failed, and the last one.

    Parameters
    ----------
    actions
        Oldest first.
    """
    if not actions:
        return f"{visible(site)}: nothing has been changed."
    outcomes = Counter(map(outcome_text, actions))
    each = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
    last = actions[-1]
    if last.outcome is Outcome.DONE:
        words = _kinds([last.instruction], are_done=True)
    else:
        kind = last.instruction.kind.value.replace("-", " ")
        words = f"{kind} of {visible(last.instruction.target)} {outcome_text(last)}"
    count = plural(len(actions), "change", ",")
    at = f"{last.at.astimezone():%Y-%m-%d %H:%M}"
    return f"{visible(site)}: {count}, {each}; the last on {at}: {words}."


def outcome_text(action: Action) -> str:
    """Return the outcome of an action as text."""
    return "begun" if action.outcome is None else action.outcome.value.replace("-", " ")
