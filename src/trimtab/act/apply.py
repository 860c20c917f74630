"""Carries out a plan: one instruction after another, each journalled before and read back after."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final

from trimtab.act.action_journal import (
    ActionEnd,
    ActionJournal,
    ApplyLine,
    RangeLine,
    begin_line,
    ended,
)
from trimtab.act.safeguard import DeadMan, Pacing
from trimtab.base.action import (
    GAVE_WAY,
    INTERRUPTED,
    Action,
    ActionKind,
    Instruction,
    Outcome,
    Plan,
)
from trimtab.base.code_version import __version__
from trimtab.base.error import Message, RefusedError, ToolError, TrimtabError
from trimtab.base.event import new_identifier
from trimtab.base.snapshot import NotAvailable, Setting, Snapshot
from trimtab.base.units import format_bytes
from trimtab.reach.driver_protocol import outcome_of

if TYPE_CHECKING:
    from trimtab.reach.driver_protocol import Clock, Driver
    from trimtab.store.store import Store

LEASE: Final = timedelta(minutes=10)
"""Duration of the right to act, which is renewed before each instruction."""
RIGHT_LOST: Final = "right-lost"
GivesWay = Callable[[float], bool]
"""Whether work of higher precedence is due within a number of seconds."""
COUNTED_AFTER_S: Final = (0.5, 2.0, 5.0, 10.0)
"""Pauses before the counters of discards are read again. On loop devices those of XFS moved at
once, and had all of a trim 0.2 s later."""
PERMANENT_BEFORE: Final = "permanent_before"


def never(seconds: float) -> bool:
    """Return ``False``: give way to nothing."""
    return False


@dataclass(frozen=True, slots=True)
class ActingSurroundings:
    """Dependencies and limits for carrying out a plan.

    Attributes
    ----------
    token
        Token of the right to act (`Store.take_right`); it must still be the newest at each
        instruction.
    range_bytes
        Size of one step of a trim.
    resume
        Target to the byte at which its last trim was interrupted.
    gives_way
        If it returns true no instruction is begun, and a trim ends after its current range, to be
        resumed.
    together
        Number of servers that change at the same time; one change at a time on each.
    seen
        Snapshot of the site at the beginning of a stage of trims.
    lock
        Held while the journal or the store is written, since changes on several servers write them.
    stopping
        If set, no further instruction is begun, and every trim ends after its current range.
    """

    driver: Driver
    store: Store
    journal: ActionJournal
    clock: Clock
    token: int
    who: str
    range_bytes: int
    deadman: DeadMan
    resume: dict[str, int]
    pacing: Pacing
    migrate_bytes_per_s: float = 100e6
    gives_way: GivesWay = never
    together: int = 1
    seen: Snapshot | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    stopping: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class _End:
    outcome: Outcome
    found: str | None = None
    detail: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


def apply(
    plan: Plan,
    surroundings: ActingSurroundings,
    progress: Callable[[Action], None] = lambda action: None,
) -> tuple[Action, ...]:
    """Carry out a plan and return the outcome of each instruction that was begun.

    A stage begins only when every instruction of the previous stage was done. Whatever happens, the
    journal records what was begun.

    Raises
    ------
    RefusedError
        The plan is held, or the right to act has gone to another process.
    UnreadableError
        The journal or the store cannot be written.
    """
    if plan.held:
        raise RefusedError(
            f"nothing is changed: {plan.held[0]}", code="plan-held", hint="see the plan: --json"
        )
    begun = surroundings.clock()
    surroundings.journal.write(
        ApplyLine(
            begun,
            plan.site,
            plan.policy,
            plan.id,
            surroundings.who,
            surroundings.token,
            __version__,
        )
    )
    actions: list[Action] = []
    for _, stage in groupby(plan.instructions, key=lambda instruction: instruction.stage):
        of_stage = _stage(plan, tuple(stage), surroundings, progress)
        actions += of_stage
        if surroundings.gives_way(0.0):
            break
        if any(action.outcome is not Outcome.DONE for action in of_stage):
            break
    return tuple(actions)


def _stage(
    plan: Plan,
    instructions: tuple[Instruction, ...],
    surroundings: ActingSurroundings,
    progress: Callable[[Action], None],
) -> list[Action]:
    """Carry out a stage, several servers at once where it may be, and read its values again."""
    if any(each.kind is ActionKind.TRIM for each in instructions):
        seen = surroundings.driver.snapshot(surroundings.clock())
        surroundings = replace(surroundings, seen=seen)
    lanes: dict[str | None, list[Instruction]] = {}
    for instruction in instructions:
        alone = surroundings.together > 1 and _of_one_server(instruction)
        lanes.setdefault(instruction.server if alone else None, []).append(instruction)
    if None in lanes or len(lanes) == 1:
        actions = _in_order(plan, instructions, surroundings, progress)
    else:
        actions = _at_once(plan, list(lanes.values()), surroundings, progress)
    return _with_effects(_read_stage_again(actions, surroundings), surroundings)


def _of_one_server(instruction: Instruction) -> bool:
    """Return whether an instruction reaches its server alone: not every MDS, nor the MGS."""
    kind = instruction.kind
    return kind is ActionKind.TRIM or (kind is ActionKind.SET and not instruction.permanent)


def _in_order(
    plan: Plan,
    instructions: Iterable[Instruction],
    surroundings: ActingSurroundings,
    progress: Callable[[Action], None],
) -> list[Action]:
    """Carry out instructions in order, until other work has precedence or a result forbids more."""
    actions: list[Action] = []
    for instruction in instructions:
        if surroundings.stopping.is_set() or surroundings.gives_way(0.0):
            break
        actions.append(_carried_out(plan, instruction, surroundings))
        with surroundings.lock:
            progress(actions[-1])
        if _is_alarming(actions[-1]):
            break
    return actions


def _at_once(
    plan: Plan,
    lanes: Sequence[Sequence[Instruction]],
    surroundings: ActingSurroundings,
    progress: Callable[[Action], None],
) -> list[Action]:
    """Carry out each server's instructions at once; where one breaks off, the others end soon."""
    with ThreadPoolExecutor(min(surroundings.together, len(lanes))) as pool:
        futures = [pool.submit(_in_order, plan, lane, surroundings, progress) for lane in lanes]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            surroundings.stopping.set()
            raise
    results = (action for future in futures for action in future.result())
    return sorted(results, key=lambda action: action.id)


def _with_effects(actions: list[Action], surroundings: ActingSurroundings) -> list[Action]:
    """Return trims with the evidence of the discard counters, and store it.

    XFS completes discards after fstrim has ended (since Linux 6.7), and a device counts completed
    ones: a counter that has not moved yet is read again.
    """
    waiting = {action.id: action for action in actions if _has_trimmed(action)}
    effects: dict[str, str] = {}
    for pause_s in (0.0, *COUNTED_AFTER_S):
        if not waiting:
            break
        if pause_s and (surroundings.stopping.is_set() or surroundings.gives_way(pause_s)):
            effects |= dict.fromkeys(waiting, "unconfirmed")
            break
        surroundings.pacing.rest(pause_s)
        after = surroundings.driver.snapshot(surroundings.clock())
        looks = {id_: _effect(action, after, surroundings) for id_, action in waiting.items()}
        effects |= {id_: effect for id_, effect in looks.items() if effect is not None}
        waiting = {id_: action for id_, action in waiting.items() if looks[id_] == "none"}
    return [
        action
        if (effect := effects.get(action.id)) is None
        else _ended(
            action,
            _End(Outcome.DONE, action.found, action.detail, {"effect": effect}),
            surroundings,
        )
        for action in actions
    ]


def _has_trimmed(action: Action) -> bool:
    is_trim = action.instruction.kind is ActionKind.TRIM and action.outcome is Outcome.DONE
    return is_trim and int(action.found or 0) > 0


def _effect(action: Action, after: Snapshot, surroundings: ActingSurroundings) -> str | None:
    """Return whether the counter of a trim's device has moved; ``None``: it never does."""
    name, target = "bytes_discarded_total", action.instruction.target
    seen = None if surroundings.seen is None else surroundings.seen.of(target)
    before = None if seen is None else seen.number(name)
    current = after.of(target)
    counted = None if current is None else current.number(name)
    if counted is None or before is None or counted < before:
        return None
    if counted == before == 0:
        return None  # some devices never count: md's own device does not count its drives' discards
    return "seen" if counted > before else "none"


def _is_alarming(action: Action) -> bool:
    """Return whether the outcome of an action forbids even independent instructions."""
    return action.instruction.kind is ActionKind.MIGRATE and action.outcome is Outcome.FAILED


def _carried_out(plan: Plan, instruction: Instruction, surroundings: ActingSurroundings) -> Action:
    _keep_right(plan.site, surroundings)
    at = surroundings.clock()
    action = Action(
        id=new_identifier(at),
        site=plan.site,
        policy=plan.policy,
        plan=plan.id,
        who=surroundings.who,
        at=at,
        instruction=instruction,
    )
    with surroundings.lock:
        surroundings.journal.write(begin_line(action))
        surroundings.store.put_action(action)
    return _ended(action, _done(action, surroundings), surroundings)


def _keep_right(site: str, surroundings: ActingSurroundings) -> None:
    with surroundings.lock:
        until = surroundings.clock() + LEASE
        renewed = surroundings.store.renew_right(site, surroundings.token, until)
    if not renewed:
        raise RefusedError(
            "another process has taken over the right to act on the site",
            code=RIGHT_LOST,
            hint=f"see what it does: trimtab actions {site}",
        )


def _read_stage_again(actions: list[Action], surroundings: ActingSurroundings) -> list[Action]:
    """Return the actions of a stage with their values at its end."""
    written = [
        a for a in actions if a.instruction.kind is ActionKind.SET and a.outcome is Outcome.DONE
    ]
    if len(written) > 1:
        surroundings.driver.snapshot(surroundings.clock())  # it may know settings from there
    return [_read_again(action, surroundings) for action in actions]


def _read_again(action: Action, surroundings: ActingSurroundings) -> Action:
    """Return an action as its value is after the whole stage.

    Settings depend on one another: a change of the scheduler sets ``nr_requests`` anew.
    """
    instruction = action.instruction
    if action.outcome is not Outcome.DONE or instruction.kind is not ActionKind.SET:
        return action
    assert instruction.setting is not None
    current = surroundings.driver.settings(instruction.target).get(instruction.setting)
    if not isinstance(current, Setting) or current.value == action.found:
        return action
    detail = f"it was {action.found}, and is {current.value} after the changes that followed"
    return _ended(action, _End(Outcome.NOT_STORED, current.value, detail), surroundings)


def _ended(action: Action, end: _End, surroundings: ActingSurroundings) -> Action:
    with surroundings.lock:
        at, facts = surroundings.clock(), {**action.facts, **end.facts}
        line = ActionEnd(at, action.id, end.outcome.value, end.found, end.detail, facts)
        surroundings.journal.write(line)
        action = ended(action, line)
        surroundings.store.put_action(action)
    return action


def _done(action: Action, surroundings: ActingSurroundings) -> _End:
    instruction, driver = action.instruction, surroundings.driver
    try:
        match instruction.kind:
            case ActionKind.SET:
                return _set(action, surroundings)
            case ActionKind.TRIM:
                return _trim(action, surroundings)
            case ActionKind.CLOSE | ActionKind.OPEN:
                enabled = instruction.kind is ActionKind.OPEN
                end = _end_of(driver.set_creation(instruction.target, enabled))
                return _confirmed(end, driver)
            case ActionKind.RESET_ALLOCATOR:
                return _end_of(driver.reset_allocator(instruction.target))
            case ActionKind.MIGRATE:
                return _migrate(action, surroundings)
            case ActionKind.REGISTER | ActionKind.DEREGISTER:
                return _change_changelog_user(instruction, driver)
    except TrimtabError as error:
        if error.code == RIGHT_LOST:
            raise  # what became of it is for the next run to find out
        end = _end_of(error)
        if end.outcome is Outcome.NOT_STORED:
            end = replace(end, found=_value_now(instruction, driver))
        return end


def _value_now(instruction: Instruction, driver: Driver) -> str | None:
    """Return the value that a setting was left at, by which a later revert recognises it."""
    if instruction.setting is None:
        return None
    try:
        setting = driver.settings(instruction.target).get(instruction.setting)
    except TrimtabError:
        return None
    return setting.value if isinstance(setting, Setting) else None


def _end_of(answer: object, read_back: str | None = None) -> _End:
    """Return the outcome of a change from a driver's answer or error."""
    outcome, reason = outcome_of(answer)
    return _End(outcome, read_back, str(reason) or None)


def _set(action: Action, surroundings: ActingSurroundings) -> _End:
    """Write a setting where it still has the value that the plan saw; read it back."""
    instruction = action.instruction
    assert instruction.setting is not None
    assert instruction.value is not None
    driver, target = surroundings.driver, instruction.target
    current = driver.settings(target).get(instruction.setting)
    if not isinstance(current, Setting):
        reason = "the setting is not there" if current is None else current.reason
        return _End(Outcome.SKIPPED, detail=reason)
    if current.value != instruction.before:
        detail = f"it was {instruction.before} in the plan and is {current.value} now"
        return _End(Outcome.CHANGED, current.value, detail)
    if instruction.permanent and "permanent" not in driver.capabilities:
        detail = "nothing can be set permanently on this file system from here"
        return _End(Outcome.SKIPPED, detail=detail)
    with surroundings.deadman.armed(instruction):
        stored = driver.set(target, instruction.setting, instruction.value)
    if isinstance(stored, NotAvailable):
        return _end_of(stored)
    end = _End(Outcome.DONE, stored.value)
    if instruction.permanent:
        end = _set_permanently(action, end, surroundings)
    return _confirmed(end, driver)


def _set_permanently(action: Action, done: _End, surroundings: ActingSurroundings) -> _End:
    """Set the new value for all future mounts too; if that fails, restore the old value."""
    driver, instruction = surroundings.driver, action.instruction
    target = instruction.target
    assert instruction.setting is not None
    assert instruction.before is not None
    value = _permanent_value(action, surroundings)
    try:
        answer = driver.set_permanent(target, instruction.setting, value)
    except TrimtabError as error:
        answer = error
    if isinstance(answer, str):
        return replace(done, facts={PERMANENT_BEFORE: answer})
    end = _end_of(answer)
    try:
        back = driver.set(target, instruction.setting, instruction.before)
        _confirmed(done, driver)
    except TrimtabError as error:
        back = NotAvailable(error.message)
    if isinstance(back, NotAvailable):
        detail = f"{end.detail}; not put back: {back.reason}"
        return _End(Outcome.UNKNOWN, done.found, detail)
    return replace(end, found=back.value, detail=f"not set permanently, and put back: {end.detail}")


def _permanent_value(action: Action, surroundings: ActingSurroundings) -> str | None:
    """Return the permanent value to set: of a revert the previous one, ``None`` if it had none."""
    instruction = action.instruction
    if not instruction.reverts:
        return instruction.value
    oldest = instruction.reverts[-1]
    actions = surroundings.store.actions(action.site)
    facts = next((row.facts for row in actions if row.id == oldest), {})
    return facts.get(PERMANENT_BEFORE, instruction.value) or None


def _confirmed(end: _End, driver: Driver) -> _End:
    """Confirm a change that was read back, since the servers would revert it otherwise.

    Raises
    ------
    ToolError
        The servers are going to revert it.
    """
    if end.outcome is Outcome.DONE:
        why_not = driver.confirm()
        if why_not is not None and not isinstance(driver.dead_man_s, NotAvailable):
            raise ToolError(f"it is going to be put back: {why_not.reason}", code="not-confirmed")
    return end


def _trim(action: Action, surroundings: ActingSurroundings) -> _End:
    """Trim a target, and record the counter from which the next due time follows."""
    target = action.instruction.target
    seen = None if surroundings.seen is None else surroundings.seen.of(target)
    capacity = None if seen is None else seen.number("capacity_bytes")
    if seen is None or capacity is None:
        raise ToolError(f"the size of {target} is not known", code="capacity-unknown")
    end = _trim_ranges(action, surroundings, int(capacity))
    written = seen.number("bytes_written_total")
    facts = {} if written is None else {"bytes_written_total": str(int(written))}
    return replace(end, facts={**facts, **end.facts})


def _trim_ranges(action: Action, surroundings: ActingSurroundings, capacity_bytes: int) -> _End:
    """Trim a target range after range, from where an interrupted trim of it ended."""
    driver, target = surroundings.driver, action.instruction.target
    trimmed_bytes, longest_s = 0, 0.0
    begin_bytes = surroundings.resume.get(target, 0)
    surroundings.pacing.begin(target)
    for start, length in ranges(capacity_bytes, surroundings.range_bytes, begin_bytes):
        stopping = surroundings.stopping.is_set() or surroundings.gives_way(longest_s)
        if start > begin_bytes and stopping:
            detail = f"it gave way at {format_bytes(start)}; the next trim resumes there"
            return _End(Outcome.FAILED, str(trimmed_bytes), detail, {INTERRUPTED: GAVE_WAY})
        begun = surroundings.clock()
        result = driver.trim(target, start, length)
        if isinstance(result, NotAvailable):
            return _end_of(result, str(trimmed_bytes))
        trimmed_bytes += result
        with surroundings.lock:
            line = RangeLine(surroundings.clock(), action.id, start, length, result)
            surroundings.journal.write(line)
        surroundings.pacing.wait(target)
        longest_s = max(longest_s, (surroundings.clock() - begun).total_seconds())
        _keep_right(action.site, surroundings)
    return _End(Outcome.DONE, str(trimmed_bytes))


def _migrate(action: Action, surroundings: ActingSurroundings) -> _End:
    from trimtab.act.safeguard import migrate

    outcome, place, detail = migrate(
        action.instruction,
        surroundings.driver,
        surroundings.migrate_bytes_per_s,
        lambda: _keep_right(action.site, surroundings),
    )
    return _End(outcome, place, detail)


def _change_changelog_user(instruction: Instruction, driver: Driver) -> _End:
    """Register the changelog user of an MDT or remove it; found is the one that it then has."""
    changelogs = driver.changelogs
    if isinstance(changelogs, NotAvailable):
        return _end_of(changelogs)
    if instruction.server is None:
        return _End(Outcome.SKIPPED, detail="the plan names no server of its MDT")
    registered = instruction.kind is ActionKind.REGISTER
    before = instruction.before or ""
    answer = changelogs.change(
        instruction.server, instruction.target, before, registered=registered
    )
    return _End(Outcome.DONE, answer) if isinstance(answer, str) else _end_of(answer)


def ranges(
    capacity_bytes: int, range_bytes: int, begin_bytes: int = 0
) -> Iterator[tuple[int, int | None]]:
    """Yield start and length of each step over a target; the last one has no length.

    The size that a file system reports lacks its own metadata; the space after it is trimmed too.
    """
    starts = range(begin_bytes, max(begin_bytes + 1, capacity_bytes), range_bytes)
    for start in starts:
        yield start, None if start == starts[-1] else range_bytes


def reason_of(action: Action) -> Message | None:
    """Return in words why an action did not end as intended; ``None``: it did."""
    if action.outcome is Outcome.DONE:
        return None
    outcome = "begun" if action.outcome is None else action.outcome.value
    return Message(f"action-{outcome}", action.detail or f"{outcome}, without a reason")
