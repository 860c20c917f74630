"""What a run does next: a pure function of what it is and of what just happened.

::

    begin ─▶ Measure ─▶ Look ─▶ Delete ─▶ Wait? ─▶ Look ─▶ ...
                ▲  │      │        │
                │  │      │        └─ as much freed as was needed: Measure
                │  │      └─ a guard objects, a cap is reached, the time is over: Stop
                │  └─ at or under the target: Stop
                └─ Wait, while objects are still being destroyed

The file system says late how much a deletion freed: Lustre destroys objects minutes after their
file is gone. Use that is measured before that has ended is too high, and a run that believed it
would delete twice what was needed. So a measurement on the way may only lower what is still needed;
the first, and every one that raises it, is taken once nothing is being destroyed any more. Where
nobody says whether that is so, what the run has freed is taken to become free, seen or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from trimtab.errors import UsageError
from trimtab.purge.horizon.usage import Usage
from trimtab.purge.run.choose import choose
from trimtab.purge.run.messages import (
    Delete,
    Ended,
    Event,
    Instruction,
    Look,
    Looked,
    Measure,
    Measured,
    Stop,
    StopReason,
    Wait,
    Waited,
)
from trimtab.purge.run.pace import Pace, PaceLimits, first_pace, next_pace
from trimtab.purge.run.shared import Shared
from trimtab.purge.run.state import (
    CAPPED,
    CAPS_WINDOW_S,
    NOT_BEGUN,
    TROUBLES,
    Allowance,
    Outcome,
    Rows,
    Spent,
    joined,
    without,
)
from trimtab.units import (
    format_bytes,
    format_duration,
    format_exact_percent,
    format_percent,
    plural,
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run is to come to, and within which limits.

    Attributes
    ----------
    apply
        Whether it deletes; without, everything else happens.
    target_fullness
        It ends when the file system is at or under it. ``None``: with the end of the plan, which
        only a dry run may.
    settle_s_min, settle_s_max, settle_s_step
        How long it waits at least, and at most, until use is believed, and how long between two
        looks. ``lfs df`` changed 10 to 12 s after a removal, and the count of objects that are
        being destroyed fell to 0 some seconds later.
    frees_late
        The space of a deleted file may become free later than ``settle_s_min``.
    measure_every_s
        Use is looked at so often on the way, lest others' deletions made the run's needless.
    ends_at_s
        No batch begins after it, in seconds since 1970.
    freed_seen_min
        At least this part of what was freed has to be seen in the file system's use; less means
        that deleting frees nothing (snapshots, a trash can, shared extents), or that
        users write about as fast.
    troubles_part_max, troubles_rows_min
        So large a part of the rows may come to a trouble, once there were so many troubles.
    """

    apply: bool
    target_fullness: float | None
    allowance: Allowance = field(default_factory=Allowance)
    pace: PaceLimits = field(default_factory=PaceLimits)
    settle_s_min: float = 15.0
    settle_s_max: float = 1800.0
    settle_s_step: float = 5.0
    frees_late: bool = False
    measure_every_s: float = 60.0
    ends_at_s: float | None = None
    freed_seen_min: float = 0.5
    troubles_part_max: float = 0.1
    troubles_rows_min: int = 100

    def __post_init__(self) -> None:
        if self.apply and self.target_fullness is None:
            raise UsageError("a run that deletes needs a target to stop at", code="target-missing")
        if self.target_fullness is not None and not 0 < self.target_fullness < 1:
            raise UsageError(
                f"{self.target_fullness} is no target: a part of the whole is",
                code="value-out-of-range",
            )


@dataclass(frozen=True, slots=True)
class State:
    """How far a run is; changed by `handle` alone.

    Attributes
    ----------
    todo
        The rows that are not dealt with yet, in order.
    spent
        What counts against the caps: of this run, and of runs shortly before it.
    stopped_users
        Users whose cap is met.
    needed_bytes
        What has still to go, as measured last, less what was freed since; ``None``: not known, or
        there is no target.
    needed_first_bytes, used_first_bytes
        What had to go, and what was used, when the run began.
    freed_bytes
        By this run.
    rows_done, troubles
        Rows that this run asked something of, and those that came to a trouble.
    settling_since_s
        Since when it waits until nothing is being destroyed any more; ``None``: it does not.
    """

    terms: Terms
    todo: tuple[Rows, ...]
    pace: Pace
    spent: Spent = field(default_factory=Spent)
    stopped_users: frozenset[int] = frozenset()
    needed_bytes: int | None = None
    needed_first_bytes: int | None = None
    used_first_bytes: int = 0
    freed_bytes: int = 0
    rows_done: int = 0
    troubles: int = 0
    measured_at_s: float = -math.inf
    settling_since_s: float | None = None


Step = tuple[State, Instruction]


def begin(terms: Terms, todo: tuple[Rows, ...], *, spent: Spent | None = None) -> State:
    """Return the state of a run before its first event.

    Parameters
    ----------
    todo
        Rows of the plan that no run has dealt with.
    spent
        What runs shortly before this one deleted.
    """
    return State(terms, joined(todo), first_pace(terms.pace), spent=spent or Spent())


def adopted(state: State, shared: Shared, *, spent: Spent) -> State:
    """Return the state with what all hosts together have done.

    Parameters
    ----------
    spent
        By runs of other plans.
    """
    # Where nobody else deletes, what earlier runs freed is in the first measurement already, and
    # what they needed says nothing.
    is_first = not shared.lease_s and state.measured_at_s == -math.inf
    return replace(
        state,
        todo=shared.todo,
        spent=spent + shared.spent + shared.reserved,
        needed_bytes=None if is_first else shared.needed_bytes,
        needed_first_bytes=shared.needed_first_bytes,
        used_first_bytes=shared.used_first_bytes,
        freed_bytes=0 if is_first else shared.freed_bytes,
    )


def accompanied(state: State, at_s: float) -> State:
    """Return the state of a run that deletes while others do.

    What it measures may only lower what is still needed: objects of files that the others deleted
    are being destroyed all the time.
    """
    return replace(state, measured_at_s=max(state.measured_at_s, at_s), settling_since_s=None)


def settling(state: State, at_s: float) -> Step:
    """Measure once what was deleted before has had its time to show; a dry run deletes nothing."""
    return replace(state, settling_since_s=at_s if state.terms.apply else None), Measure()


def looking(state: State) -> Look:
    """Return the look at the rows that come next."""
    first = next(iter(state.todo), Rows(0, 0))
    return Look(Rows(first.first, min(first.count, state.pace.rows)))


def handle(state: State, event: Event) -> Step:
    """Return the state after an event, and what to do now."""
    match event:
        case Measured():
            return _measured(state, event)
        case Looked():
            return _looked(state, event)
        case Ended():
            return _ended(state, event)
        case Waited():
            return state, Measure() if state.settling_since_s is not None else looking(state)


def _looked(state: State, event: Looked) -> Step:
    terms = state.terms
    if event.objections:
        reasons = "; ".join(objection.reason for objection in event.objections)
        return state, Stop(StopReason.OBJECTION, reasons, event.objections)
    if terms.ends_at_s is not None and event.at_s >= terms.ends_at_s:
        return state, Stop(StopReason.OUT_OF_TIME, "the time of the run is over")
    choice = choose(
        event.listed,
        spent=state.spent,
        allowance=terms.allowance,
        stopped_users=state.stopped_users,
        needed_bytes=state.needed_bytes,
    )
    if choice.batch is None:
        return state, _capped(state, choice.capped)
    return replace(state, stopped_users=choice.stopped_users), Delete(choice.batch)


def _capped(state: State, capped: StopReason | None) -> Stop:
    allowance, spent = state.terms.allowance, state.spent
    window = format_duration(CAPS_WINDOW_S)
    if capped is StopReason.FILES_CAP:
        files = plural(spent.files, "file", ",")
        return Stop(capped, f"{files} of at most {allowance.files or 0:,} in {window} are deleted")
    size, most = format_bytes(spent.bytes), format_bytes(allowance.bytes or 0)
    text = f"{size} of at most {most} in {window} are deleted, and the next file is too much"
    return Stop(StopReason.BYTES_CAP, text)


def _measured(state: State, event: Measured) -> Step:
    settling = state.settling_since_s
    if settling is not None:
        waited_s = event.at_s - settling
        if event.in_flight and waited_s >= state.terms.settle_s_max:
            return state, _not_settled(event.in_flight, waited_s)
        if event.in_flight or waited_s < state.terms.settle_s_min:
            rest_s = max(state.terms.settle_s_step, 0.1)
            if not event.in_flight:
                rest_s = min(rest_s, state.terms.settle_s_min - waited_s)
            return state, Wait(rest_s, "objects of deleted files are being destroyed")
    return _weighed(state, event)


def _not_settled(in_flight: int, waited_s: float) -> Stop:
    return Stop(
        StopReason.NOT_SETTLED,
        f"{plural(in_flight, 'object', ',')} are still being destroyed after "
        f"{format_duration(waited_s)}: how much space there is cannot be told",
    )


def _weighed(state: State, event: Measured) -> Step:
    """Go on or stop, by a measurement."""
    terms, usage = state.terms, event.usage
    first = state.measured_at_s == -math.inf
    settled = first or state.settling_since_s is not None
    excess = None if terms.target_fullness is None else usage.excess_bytes(terms.target_fullness)
    needed = excess
    if not settled and excess is not None and state.needed_bytes is not None:
        needed = min(excess, state.needed_bytes)
    if needed and settled and event.in_flight is None and terms.frees_late:
        unseen = _unseen_bytes(state, usage)
        needed = max(0, needed - unseen)
        if needed == 0:
            return state, _not_told(unseen)
    state = replace(state, needed_bytes=needed, measured_at_s=event.at_s, settling_since_s=None)
    if first:
        state = replace(state, needed_first_bytes=excess, used_first_bytes=usage.used_bytes)
    if needed == 0:
        return state, _target_reached(state, usage)
    if not state.todo:
        return state, _exhausted(needed)
    if settled and _is_unseen(state, usage):
        return state, _not_freed(state, usage)
    return state, looking(state)


def _unseen_bytes(state: State, usage: Usage) -> int:
    """Return what was freed and is not to be seen in the use: it is late, or others wrote."""
    return max(0, state.freed_bytes - max(0, state.used_first_bytes - usage.used_bytes))


def _not_told(unseen_bytes: int) -> Stop:
    return Stop(
        StopReason.NOT_SETTLED,
        f"as much was freed as is needed; {format_bytes(unseen_bytes)} of it are not to be seen in "
        "the use yet, and nobody says whether they are still being destroyed",
    )


def _target_reached(state: State, usage: Usage) -> Stop:
    shown = format_percent(usage.fullness)
    was = "is" if state.freed_bytes else "was already"
    return Stop(
        StopReason.TARGET,
        f"the file system {was} {shown} full, at or under its target of "
        f"{format_exact_percent(state.terms.target_fullness or 0.0)}",
    )


def _exhausted(needed_bytes: int | None) -> Stop:
    short = "" if not needed_bytes else f"; {format_bytes(needed_bytes)} more would have to go"
    return Stop(StopReason.EXHAUSTED, f"every file of the plan was dealt with{short}")


def _is_unseen(state: State, usage: Usage) -> bool:
    """Whether what was needed at first was freed, and most of it is not to be seen in the use."""
    if not state.terms.apply or state.freed_bytes < (state.needed_first_bytes or math.inf):
        return False
    seen = state.used_first_bytes - usage.used_bytes
    return seen < state.terms.freed_seen_min * state.freed_bytes


def _not_freed(state: State, usage: Usage) -> Stop:
    seen = max(0, state.used_first_bytes - usage.used_bytes)
    return Stop(
        StopReason.NOT_FREED,
        f"{format_bytes(state.freed_bytes)} were deleted and use fell by {format_bytes(seen)}: "
        "users write as fast, or snapshots, a trash can or shared extents hold the space",
    )


def _ended(state: State, event: Ended) -> Step:
    outcome = event.outcome
    state = _accounted(state, outcome)
    if (part := _troubled_part(state)) is not None:
        return state, Stop(
            StopReason.TROUBLES,
            f"{format_percent(part)} of the rows could not be dealt with: something else is wrong",
        )
    if not state.terms.apply:
        return state, _dry_end(state) or _next(state)
    since_s = event.at_s - state.measured_at_s
    if not state.todo or state.needed_bytes == 0:
        return settling(state, event.at_s)
    return state, Measure() if since_s >= state.terms.measure_every_s else _next(state)


def _accounted(state: State, outcome: Outcome) -> State:
    """Return the state with what a batch came to."""
    left = outcome.count(CAPPED, NOT_BEGUN)
    needed = state.needed_bytes
    return replace(
        state,
        todo=joined((*without(state.todo, outcome.batch.rows), *outcome.not_begun())),
        pace=next_pace(state.pace, state.terms.pace, outcome),
        spent=state.spent + outcome.spent,
        needed_bytes=None if needed is None else max(0, needed - outcome.lessens_bytes),
        freed_bytes=state.freed_bytes + outcome.freed_bytes,
        rows_done=state.rows_done + outcome.batch.rows.count - left,
        troubles=state.troubles + outcome.count(*TROUBLES),
    )


def _troubled_part(state: State) -> float | None:
    """Return which part of the rows came to a trouble, where it is too large."""
    if state.troubles < state.terms.troubles_rows_min:
        return None
    part = state.troubles / state.rows_done
    return part if part > state.terms.troubles_part_max else None


def _dry_end(state: State) -> Stop | None:
    if state.needed_bytes == 0:
        return Stop(
            StopReason.TARGET,
            f"the target would be reached: {format_bytes(state.freed_bytes)} would be freed",
        )
    return None if state.todo else _exhausted(state.needed_bytes)


def _next(state: State) -> Instruction:
    if state.pace.pause_s:
        return Wait(state.pace.pause_s, "the file system answers late")
    return looking(state)
