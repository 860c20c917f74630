"""Decide what a run does next: a pure function of its state and the last event.

::

    begin ─▶ Measure ─▶ Look ─▶ Delete ─▶ Wait? ─▶ Look ─▶ ...
                ▲  │      │        │
                │  │      │        └─ the needed space is freed: Measure
                │  │      └─ a guard objects, a cap or the end time is reached: Stop
                │  └─ at or under the target: Stop
                └─ Wait, while objects are still being destroyed

The file system reports freed space late: Lustre destroys objects minutes after their file is gone.
Usage measured before then is too high, and a run that relied on it would delete twice what is
needed. A measurement during the run may therefore only lower the need; the first one, and every one
that raises it, waits until no more objects are being destroyed. If that is unknown, all bytes
deleted by the run are assumed to become free, whether visible or not.

The terms of a run follow from its plan and policy (`terms_of`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from trimtab.base.error import UsageError, visible
from trimtab.base.units import (
    format_bytes,
    format_duration,
    format_exact_percent,
    format_percent,
    plural,
)
from trimtab.purge.fullness import Usage
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.deletion_plan import DeletionPlan
from trimtab.purge.purge_policy import Throttle
from trimtab.purge.run.journal_line import PlanLine
from trimtab.purge.run.next_batch import Pace, PaceLimits, choose, first_pace, next_pace
from trimtab.purge.run.plan_progress import Shared
from trimtab.purge.run.rows import (
    CAPPED,
    CAPS_WINDOW_S,
    NOT_BEGUN,
    TROUBLES,
    Allowance,
    BatchOutcome,
    Rows,
    Spent,
    joined,
    without,
)
from trimtab.purge.run.situation import (
    Delete,
    Ended,
    Event,
    Instruction,
    LookAtRows,
    LookedAtRows,
    Measure,
    Situation,
    Stop,
    StopReason,
    UsageMeasured,
    Wait,
    Waited,
)


@dataclass(frozen=True, slots=True)
class RunTerms:
    """Goal and limits of a run.

    Attributes
    ----------
    apply
        Whether it deletes; a dry run does everything else.
    target_fullness
        The run ends when the file system is at or under it. ``None``: at the end of the plan, only
        for dry runs.
    settle_s_min, settle_s_max, settle_s_step
        Minimum and maximum wait until usage is trusted, and the interval between checks. ``lfs df``
        changed 10 to 12 s after a removal, and the count of objects being destroyed fell to 0 some
        seconds later.
    frees_late
        Whether the space of a deleted file may become free later than ``settle_s_min``.
    measure_every_s
        Interval of measurements during the run, because users' own deletions may make the rest
        unnecessary.
    ends_at_s
        No batch begins after this time, in seconds since 1970.
    freed_seen_min
        Minimum fraction of the freed bytes that must show in usage; less means that deleting frees
        nothing (snapshots, a trash can, shared extents), or that users write about as fast.
    troubles_part_max, troubles_rows_min
        Maximum fraction of rows with trouble, applied from this number of troubles on.
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
                f"target {self.target_fullness} is not between 0 and 1",
                code="value-out-of-range",
            )


@dataclass(frozen=True, slots=True)
class RunState:
    """State of a run; changed only by `handle`.

    Attributes
    ----------
    todo
        Rows not yet processed, in order.
    spent
        Deletions that count against the caps: of this run and of recent ones.
    stopped_users
        Users who reached their cap.
    needed_bytes
        Bytes still to free, from the last measurement less bytes freed since; ``None`` if unknown
        or without a target.
    needed_first_bytes, used_first_bytes
        Bytes to free, and bytes used, when the run began.
    freed_bytes
        Bytes freed by this run.
    rows_done, troubles
        Rows processed by this run, and those with trouble.
    settling_since_s
        Since when it waits for objects to be destroyed, in seconds since 1970; ``None`` if it does
        not wait.
    """

    terms: RunTerms
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


Step = tuple[RunState, Instruction]


def begin(terms: RunTerms, todo: tuple[Rows, ...], *, spent: Spent | None = None) -> RunState:
    """Return the state of a run before its first event.

    Parameters
    ----------
    todo
        Rows of the plan not yet processed by any run.
    spent
        Deletions of recent runs.
    """
    return RunState(terms, joined(todo), first_pace(terms.pace), spent=spent or Spent())


def adopted(state: RunState, shared: Shared, *, spent: Spent) -> RunState:
    """Return the state with the progress of all hosts.

    Parameters
    ----------
    spent
        Deletions by runs of other plans.
    """
    # If no other host deletes, the first measurement already includes what earlier runs freed, and
    # their need is irrelevant.
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


def accompanied(state: RunState, at_s: float) -> RunState:
    """Return the state of a run that deletes while others do.

    Its measurements may only lower the need, because objects of files deleted by the others are
    being destroyed all the time.
    """
    return replace(state, measured_at_s=max(state.measured_at_s, at_s), settling_since_s=None)


def settling(state: RunState, at_s: float) -> Step:
    """Measure once earlier deletions have had time to show; a dry run need not wait."""
    return replace(state, settling_since_s=at_s if state.terms.apply else None), Measure()


def looking(state: RunState) -> LookAtRows:
    """Return the look at the next rows."""
    first = next(iter(state.todo), Rows(0, 0))
    return LookAtRows(Rows(first.first, min(first.count, state.pace.rows)))


def handle(state: RunState, event: Event) -> Step:
    """Return the state after an event, and the next instruction."""
    match event:
        case UsageMeasured():
            return _measured(state, event)
        case LookedAtRows():
            return _looked(state, event)
        case Ended():
            return _ended(state, event)
        case Waited():
            return state, Measure() if state.settling_since_s is not None else looking(state)


def _looked(state: RunState, event: LookedAtRows) -> Step:
    terms = state.terms
    if event.objections:
        reasons = "; ".join(objection.reason for objection in event.objections)
        return state, Stop(StopReason.OBJECTION, reasons, event.objections)
    if terms.ends_at_s is not None and event.at_s >= terms.ends_at_s:
        return state, Stop(StopReason.OUT_OF_TIME, "the run's end time is reached")
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


def _capped(state: RunState, capped: StopReason | None) -> Stop:
    allowance, spent = state.terms.allowance, state.spent
    window = format_duration(CAPS_WINDOW_S)
    if capped is StopReason.FILES_CAP:
        files = plural(spent.files, "file", ",")
        return Stop(capped, f"{files} deleted of at most {allowance.files or 0:,} in {window}")
    size, most = format_bytes(spent.bytes), format_bytes(allowance.bytes or 0)
    text = f"{size} deleted of at most {most} in {window}; the next file would exceed it"
    return Stop(StopReason.BYTES_CAP, text)


def _measured(state: RunState, event: UsageMeasured) -> Step:
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
        f"{format_duration(waited_s)}: free space unknown",
    )


def _weighed(state: RunState, event: UsageMeasured) -> Step:
    """Continue or stop, depending on a measurement."""
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


def _unseen_bytes(state: RunState, usage: Usage) -> int:
    """Return freed bytes that do not show in usage: they are late, or others wrote."""
    return max(0, state.freed_bytes - max(0, state.used_first_bytes - usage.used_bytes))


def _not_told(unseen_bytes: int) -> Stop:
    return Stop(
        StopReason.NOT_SETTLED,
        f"enough was deleted, but {format_bytes(unseen_bytes)} of it does not show in usage yet, "
        "and it is unknown whether objects are still being destroyed",
    )


def _target_reached(state: RunState, usage: Usage) -> Stop:
    shown = format_percent(usage.fullness)
    was = "is" if state.freed_bytes else "was already"
    return Stop(
        StopReason.TARGET,
        f"the file system {was} {shown} full, at or under its target of "
        f"{format_exact_percent(state.terms.target_fullness or 0.0)}",
    )


def _exhausted(needed_bytes: int | None) -> Stop:
    text = "all files of the plan are done"
    if needed_bytes:
        text += f"; {format_bytes(needed_bytes)} more must go to reach the target"
    return Stop(StopReason.EXHAUSTED, text)


def _is_unseen(state: RunState, usage: Usage) -> bool:
    """Whether the initial need was freed but most of it does not show in usage."""
    if not state.terms.apply or state.freed_bytes < (state.needed_first_bytes or math.inf):
        return False
    seen = state.used_first_bytes - usage.used_bytes
    return seen < state.terms.freed_seen_min * state.freed_bytes


def _not_freed(state: RunState, usage: Usage) -> Stop:
    seen = max(0, state.used_first_bytes - usage.used_bytes)
    return Stop(
        StopReason.NOT_FREED,
        f"{format_bytes(state.freed_bytes)} deleted, but usage fell by only {format_bytes(seen)}: "
        "users write as fast, or snapshots, a trash can or shared extents hold the space",
    )


def _ended(state: RunState, event: Ended) -> Step:
    outcome = event.outcome
    state = _accounted(state, outcome)
    if (part := _troubled_part(state)) is not None:
        return state, Stop(
            StopReason.TROUBLES,
            f"{format_percent(part)} of the rows failed: something else is wrong",
        )
    if not state.terms.apply:
        return state, _dry_end(state) or _next(state)
    since_s = event.at_s - state.measured_at_s
    if not state.todo or state.needed_bytes == 0:
        return settling(state, event.at_s)
    return state, Measure() if since_s >= state.terms.measure_every_s else _next(state)


def _accounted(state: RunState, outcome: BatchOutcome) -> RunState:
    """Return the state after the outcome of a batch."""
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


def _troubled_part(state: RunState) -> float | None:
    """Return the fraction of rows with trouble if it is too large."""
    if state.troubles < state.terms.troubles_rows_min:
        return None
    part = state.troubles / state.rows_done
    return part if part > state.terms.troubles_part_max else None


def _dry_end(state: RunState) -> Stop | None:
    if state.needed_bytes == 0:
        return Stop(
            StopReason.TARGET,
            f"the target would be reached: {format_bytes(state.freed_bytes)} would be freed",
        )
    return None if state.todo else _exhausted(state.needed_bytes)


def _next(state: RunState) -> Instruction:
    if state.pace.pause_s:
        return Wait(state.pace.pause_s, "the file system responds slowly")
    return looking(state)


_FREE_AT_ONCE = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs"})


def plan_line(plan: DeletionPlan, sha256: str) -> PlanLine:
    """Return the first line of a plan's journal.

    Parameters
    ----------
    sha256
        Hash of ``plan.json``, which has the hash of the candidates.
    """
    system = plan.file_system
    return PlanLine(
        plan=plan.id,
        sha256=sha256,
        rows=plan.candidates.files,
        root=visible(system.root),
        file_system=_file_system(system.identity),
        identity=system.identity,
    )


def root_line(root: str, identity: FileSystemIdentity) -> PlanLine:
    """Return the first line of a journal for a root, to compare others with it."""
    return PlanLine("", "", 0, visible(root), _file_system(identity), identity)


def _file_system(identity: FileSystemIdentity) -> str:
    return visible(f"{identity.kind} {identity.name or identity.fsid}")


def terms_of(
    now: Situation,
    *,
    apply: bool,
    whole_plan: bool = False,
    ends_at_s: float | None = None,
) -> RunTerms:
    """Return the terms of a run from the policy.

    Parameters
    ----------
    whole_plan
        A dry run continues past the target, to show the outcome of every file.
    """
    return RunTerms(
        apply=apply,
        target_fullness=None if whole_plan and not apply else now.target,
        allowance=now.allowance,
        pace=pace_limits(now.policy.throttle),
        settle_s_max=float(now.policy.guards.settle_s),
        settle_s_min=min(15.0, float(now.policy.guards.settle_s)),
        ends_at_s=ends_at_s,
        frees_late=frees_late(now.planned.plan.file_system.kind),
    )


def frees_late(kind: str) -> bool:
    """Return whether a kind of file system may free the space of deleted files only after seconds.

    Lustre destroys objects, Btrfs and ZFS free with a transaction; unknown kinds are assumed to do
    so.
    """
    return kind not in _FREE_AT_ONCE


def pace_limits(throttle: Throttle) -> PaceLimits:
    """Return the limits of a run's pace from the policy."""
    rows = throttle.batch_files
    return PaceLimits(
        rows_min=min(16, rows),
        rows_max=rows,
        rows_step=max(1, rows // 10),
        latency_s_max=throttle.latency_s,
    )
