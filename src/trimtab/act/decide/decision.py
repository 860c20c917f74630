"""The plan that one policy makes from what was observed, and the plan that reverts earlier changes.

A plan is limited to the targets asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from trimtab.act.decide import balance, trimming, tunables
from trimtab.act.decide.balance import in_force, opening
from trimtab.act.decide.site_observed import (
    ABSENT,
    Answer,
    SiteObserved,
    closed_in_part,
    held,
    is_same,
    server_of,
    unfolded,
)
from trimtab.base.action import (
    CREATED,
    CREATION,
    Action,
    ActionKind,
    Instruction,
    Key,
    Ledger,
    Outcome,
    Plan,
    Untouched,
    closed_by_us,
    ended_at,
    may_have_written,
)
from trimtab.base.error import Message, UsageError, visible
from trimtab.base.name_set import unfold_targets
from trimtab.base.snapshot import NotAvailable, TargetSnapshot


def decide_reverts(
    observed: SiteObserved, action: str | None, now: datetime, *, reopening: bool = False
) -> Plan:
    """Return the reverting of one action, or of all in force, newest first.

    Actions on one setting are reverted together, to the value before the first. Values that others
    changed since stay. A target that Trimtab closed is opened. Trims, allocator resets and openings
    cannot be reverted; an opening only undid Trimtab's own closing.

    Parameters
    ----------
    action
        Id of the action; ``None`` for all.
    reopening
        Only the targets that Trimtab closed.

    Notes
    -----
    The caller must refuse an unknown id: the plan has nothing for it.
    """
    snapshot = observed.snapshot
    reasons = held(observed, "revert", now, giving_back=True)
    if snapshot is None or reasons:
        return observed.plan("revert", now, held=reasons)
    ledger = Ledger(observed.actions)
    targets = {seen.target.name: seen for seen in snapshot.targets}
    answers: list[Answer] = []
    for key, rows in _chains(ledger, action):
        if reopening and (key[1] != CREATED or closed_by_us(ledger, key[0]) is None):
            continue
        seen = targets.get(key[0])
        answer = ABSENT if seen is None else _back(ledger, key, rows, seen)
        if not isinstance(answer, Instruction):
            answer = Untouched(key[0], answer, rows[-1].instruction.setting)
        answers.append(answer)
    return observed.plan("revert", now, answers)


def _chains(ledger: Ledger, action: str | None) -> list[tuple[Key, list[Action]]]:
    """Return the actions to revert by subject, oldest first; the newest subject first."""
    chains = []
    for key, actions in ledger.by_key.items():
        rows = [
            row
            for row in actions
            if may_have_written(row)
            and row.id not in ledger.reverted
            and not row.instruction.reverts
            and action in {None, row.id}
        ]
        if rows:
            chains.append((key, rows))
    return sorted(chains, key=lambda chain: (ended_at(chain[1][-1]), chain[0]), reverse=True)


def _back(
    ledger: Ledger, key: Key, rows: list[Action], seen: TargetSnapshot
) -> Instruction | Message:
    kind = rows[-1].instruction.kind
    if kind in CREATION:
        return _opened(ledger, rows, seen)
    if kind in {ActionKind.REGISTER, ActionKind.DEREGISTER}:
        text = "changelog users are removed with: trimtab purge follow SITE --deregister"
        return Message("not-revertible", text)
    if kind is not ActionKind.SET:
        return Message("not-revertible", f"a {kind} cannot be reverted")
    newest = ledger.last_done(*key)
    if newest is not None and newest.id not in ledger.reverted and newest.at > rows[-1].at:
        text = f"a later action set {key[1]} to {newest.instruction.value}: revert that first"
        return Message("changed-later", text)
    return _restored(key[1], rows, _tries(ledger, key, rows), seen)


def _tries(ledger: Ledger, key: Key, rows: list[Action]) -> list[Action]:
    """Return attempts to revert the same actions that left another value than intended."""
    return [
        row
        for row in ledger.of(*key)
        if row.instruction.reverts and row.at > rows[-1].at and may_have_written(row)
    ]


def _opened(ledger: Ledger, rows: list[Action], seen: TargetSnapshot) -> Instruction | Message:
    """Return the opening of a target that Trimtab closed."""
    closing = closed_by_us(ledger, seen.target.name)
    if closing is None or all(row.instruction.kind is ActionKind.OPEN for row in rows):
        return Message("not-in-force", "Trimtab no longer keeps it closed")
    if seen.value("create_enabled") is True and closed_in_part(seen) is None:
        return Message("not-in-force", "it is already open")
    reason = Message("reverted", "Trimtab closed it")
    instruction = opening(seen, closing, reason)
    if not in_force(seen, closing):
        text = f"{instruction.setting} is {instruction.before}: something else closes it"
        return Message("changed-by-others", text)
    return _with_reverts(instruction, rows)


def _restored(
    setting: str, rows: list[Action], tries: list[Action], seen: TargetSnapshot
) -> Instruction | Message:
    """Return the write of the oldest previous value, if the setting still has our newest."""
    first, last = rows[0].instruction, rows[-1].instruction
    current = seen.settings.get(setting)
    if current is None or isinstance(current, NotAvailable):
        why = "the snapshot lacks it" if current is None else current.reason
        return Message("setting-unreadable", f"{setting} cannot be read: {why}")
    if not (first.before or "").strip():
        return Message("before-unknown", f"previous value of {setting} unknown")
    original, *others = unfolded(first.before or "")
    if unfolded(current.value) == (original, *others):
        return Message("not-in-force", f"{setting} is already {current.value}")
    if not _is_ours(setting, current.value, [*rows, *tries]):
        text = f"{setting} is {current.value}, neither {last.value} nor {first.before}"
        return Message("changed-by-others", f"{text}: others changed it")
    if others:
        return Message("before-mixed", f"{setting} had several values before: {first.before}")
    instruction = Instruction(
        ActionKind.SET, seen.target.name,
        Message("reverted", f"{setting} was {original} before"), server_of(seen),
        setting, current.value, original, permanent=any(r.instruction.permanent for r in rows),
    )  # fmt: skip
    return _with_reverts(instruction, rows)


def _is_ours(setting: str, current: str, rows: list[Action]) -> bool:
    """Return whether a value is what the newest action wrote.

    After an action of unknown outcome, any mixture of its previous and new values is ours too; if
    only previous values remain, they are ours if the action before it left them.
    """
    last = rows[-1]
    value, parts = last.instruction.value or "", unfolded(current)
    if is_same(setting, current, value) or (last.found is not None and current == last.found):
        return True
    if last.outcome is Outcome.DONE or (last.outcome is Outcome.NOT_STORED and last.found):
        return False
    others = [part for part in parts if not is_same(setting, part, value)]
    before = unfolded(last.instruction.before or "")
    if not all(any(is_same(setting, part, known) for known in before) for part in others):
        return False
    return len(others) < len(parts) or (len(rows) > 1 and _is_ours(setting, current, rows[:-1]))


def _with_reverts(instruction: Instruction, rows: list[Action]) -> Instruction:
    return replace(instruction, reverts=tuple(row.id for row in reversed(rows)))


CONTROLLERS: Final[dict[str, Callable[[SiteObserved, datetime], Plan]]] = {
    "tunables": tunables.decide_tunables,
    "allocator": tunables.decide_resets,
    "trim": trimming.decide_trims,
    "balance": balance.decide_balance,
}
"""Policy to the function that plans it."""


def decided(observed: SiteObserved, policy: str, now: datetime) -> Plan:
    """Return the plan of one of `CONTROLLERS`."""
    return CONTROLLERS[policy](observed, now)


def planned_by(
    observed: SiteObserved,
    policy: str,
    now: datetime,
    action: str | None,
    index: Callable[[], balance.MovableFiles] | None,
) -> Plan:
    """Return the plan that a policy makes from the observations."""
    if policy in CONTROLLERS:
        plan = decided(observed, policy, now)
    elif policy == "migrate":
        if index is None:
            raise UsageError(
                "the files on a target are listed by an index",
                code="index-missing",
                hint="make one: trimtab purge scan ROOT --index DIR; then name it with --index DIR",
            )
        plan = balance.decide_moves(observed, index(), now)
    elif policy == "again":
        plan = tunables.decide_tunables(observed, now, again=True)
    else:
        named = _named(observed, action)
        plan = decide_reverts(observed, named, now, reopening=policy == "reopen")
    return plan


def narrowed(plan: Plan, observed: SiteObserved, targets: str) -> Plan:
    """Return the part of a plan for the named targets."""
    names = _known(observed, unfold_targets(targets))
    return replace(
        plan,
        instructions=tuple(each for each in plan.instructions if each.target in names),
        untouched=tuple(each for each in plan.untouched if each.target in names),
    )


def _named(observed: SiteObserved, prefix: str | None) -> str | None:
    """Return the id of the only action whose id begins with a prefix.

    Raises
    ------
    UsageError
        There is no such action, or there are several.
    """
    if prefix is None:
        return None
    named = [each.id for each in observed.actions if each.id.startswith(prefix)]
    if len(named) == 1:
        return named[0]
    problem = f"{len(named)} actions have" if named else "no action that may be in force has"
    raise UsageError(
        f"{problem} an id that begins with {visible(prefix[:40])!r}",
        code="action-ambiguous" if named else "action-unknown",
        hint=f"list them: trimtab actions {observed.site.name}",
    )


def _known(observed: SiteObserved, names: tuple[str, ...]) -> frozenset[str]:
    snapshot = observed.snapshot
    known = set() if snapshot is None else {target.target.name for target in snapshot.targets}
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no target {visible(name[:80])!r}",
                code="target-unknown",
                hint=f"known: {', '.join(sorted(known)[:12])}",
            )
    return frozenset(names)
