"""Why nothing may be changed now: telemetry that cannot be relied on, or actions gone wrong.

Every controller asks `held` first. To *give back* (to open a target that Trimtab closed, to revert)
is held by less: a used-up hour or an action undone by others are reasons to change nothing more,
and none to keep what was changed. A snapshot that is missing, old or of the future, a clock that
jumped and wrong data hold everything. An incomplete snapshot holds only what needs all of it: a
target that is not seen is left alone (`trimtab.act.targets`) and counts against the caps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from trimtab.act.ledger import CREATION, Key, Ledger, ended_at, key_of, may_have_written
from trimtab.act.observed import Observed
from trimtab.act.targets import up_before_s
from trimtab.act.values import is_same
from trimtab.message import Message
from trimtab.model.action import Action, ActionKind, Outcome
from trimtab.model.telemetry import Snapshot
from trimtab.units import enumerated, format_duration, plural

CLOCK_S: Final = 60.0
"""Clocks apart by more cannot date telemetry; a purge allows as much."""
REREAD_S: Final = 120.0
"""A write whose answer is missing has ended by then or hangs; what is read later is its result."""
TRIM_S: Final = 6 * 3600.0
"""So long a trim without an outcome may still run."""
EFFECT_S: Final = (60.0, 900.0)
"""Telemetry of this age after an action shows its effect: an MDT sees ``no_create`` after 5 s."""
LASTING: Final = 3
"""An instruction that was done so often in a day, and is not in effect, is undone by others."""
TOO_MANY: Final = Message("too-many-actions", "as many changes are made as an hour allows")
_DAY: Final = timedelta(days=1)
_WHOLE: Final = frozenset({"migrate"})
"""Policies that need all of a snapshot: a file may have objects on any target."""


def held(
    observed: Observed, policy: str, now: datetime, *, giving_back: bool = False
) -> tuple[Message, ...]:
    """Return why nothing may be changed now, one sentence each; empty: it may.

    Parameters
    ----------
    policy
        ``tunables``, ``trim``, ``balance``, ``allocator``, ``migrate`` or ``revert``: actions that
        went wrong hold their own policy.
    giving_back
        Only what holds even openings and reverts.
    """
    reasons = [*_telemetry(observed, now), *_clocks(observed, now), *_integrity(observed)]
    if not giving_back:
        reasons += [*_hour(observed, now), *_actions(observed, policy, now)]
        if policy in _WHOLE:
            reasons += incomplete(observed)
    return tuple(reasons)


def allowance(observed: Observed, now: datetime) -> int:
    """Return how many more changes may be made in this hour.

    Resets of the allocator do not count: they repeat by their own interval and change no setting.
    """
    since = now - timedelta(hours=1)
    made = sum(
        action.at > since
        and may_have_written(action)
        and action.instruction.kind is not ActionKind.RESET_ALLOCATOR
        for action in observed.actions
    )
    return max(0, observed.site.policies.most_per_hour - made)


def undone(observed: Observed, now: datetime) -> dict[Key, Message]:
    """Return what somebody or something undoes again and again, with the reason to stop.

    An instruction that was done three times within a day, each time the same, and is not in effect
    in the snapshot. Trims and resets repeat by nature and are none.
    """
    if observed.snapshot is None:
        return {}
    stopped = {}
    for key, actions in Ledger(observed.actions).by_key.items():
        row = _repeated(actions, now)
        if len(row) >= LASTING and _in_effect(observed.snapshot, row[-1]) is False:
            text = f"done {plural(len(row), 'time')} in a day and undone by others each time"
            stopped[key] = Message("undone-repeatedly", f"{_named(row[-1])} was {text}")
    return stopped


def _telemetry(observed: Observed, now: datetime) -> Iterator[Message]:
    if observed.snapshot is None:
        yield Message("no-snapshot", "there is no snapshot: the state of the targets is not known")
        return
    age_s = (now - observed.snapshot.at).total_seconds()
    most_s = observed.site.policies.stale_s
    if age_s < -CLOCK_S:
        text = f"the snapshot is from {format_duration(-age_s)} in the future, by some clock"
        yield Message("snapshot-in-future", text)
    elif age_s > most_s:
        yield Message(
            "snapshot-stale",
            f"the snapshot is {format_duration(age_s)} old; at most {format_duration(most_s)} are "
            "allowed",
        )


def _clocks(observed: Observed, now: datetime) -> Iterator[Message]:
    # One that was settled after a kill may have ended, by its clock, before it began.
    times = (max(action.at, ended_at(action)) for action in observed.actions)
    ahead_s = max(((at - now).total_seconds() for at in times), default=0.0)
    if abs(observed.clock_jump_s) > CLOCK_S:
        text = f"clocks contradict each other by {format_duration(abs(observed.clock_jump_s))}"
        yield Message("clock-jump", text)
    elif ahead_s > CLOCK_S:
        text = f"an action of the ledger is from {format_duration(ahead_s)} in the future"
        yield Message("clock-jump", f"{text}, by some clock")


def _integrity(observed: Observed) -> Iterator[Message]:
    if observed.integrity:
        more = len(observed.integrity) - 1
        also = f", and {more} more" if more else ""
        yield Message("integrity-open", f"data may be wrong: {observed.integrity[0]}{also}")


def incomplete(observed: Observed) -> Iterator[Message]:
    """Yield that a part of the snapshot is missing, and whose."""
    snapshot = observed.snapshot
    if snapshot is None or snapshot.complete:
        return
    hosts = [
        host.name for host in snapshot.hosts if host.role == "server" and not host.answered
    ] or [seen.target.name for seen in snapshot.targets if seen.value("used_bytes") is None]
    missing = f"no answer of {enumerated(hosts)}" if hosts else "a part did not answer"
    yield Message("snapshot-incomplete", f"the snapshot is incomplete: {missing}")


def _hour(observed: Observed, now: datetime) -> Iterator[Message]:
    if allowance(observed, now) == 0:
        most = observed.site.policies.most_per_hour
        text = f"{plural(most, 'change', ',')} were made in the last hour, as many as are allowed"
        yield Message("too-many-actions", text)


def _actions(observed: Observed, policy: str, now: datetime) -> Iterator[Message]:
    snapshot = observed.snapshot
    if snapshot is None:
        return
    unread = [a for a in observed.actions if a.policy == policy and _unread(a, snapshot)]
    if unread:
        also = f", nor that of {len(unread) - 1} more" if len(unread) > 1 else ""
        text = f"the outcome of {_named(unread[-1])} is not known{also}"
        yield Message("action-open", f"{text}: telemetry of after it is awaited")
    last = _last(observed.actions, policy)
    ineffective = {key[0] for key, row in last.items() if _without_effect(row, snapshot, now)}
    if ineffective:
        text = f"what was done on {enumerated(sorted(ineffective))} shows no effect"
        yield Message("no-effect", text)
    stopped = {key[0] for key in undone(observed, now) if key in last}
    if len(stopped) >= LASTING:
        text = f"changes of {enumerated(sorted(stopped))} do not last: others undo them"
        yield Message("undone-repeatedly", text)


def _unread(action: Action, snapshot: Snapshot) -> bool:
    """Return whether an action's outcome is missing and nothing was read after it."""
    if action.outcome not in {None, Outcome.UNKNOWN}:
        return False
    wait_s = TRIM_S if action.instruction.kind is ActionKind.TRIM else REREAD_S
    return (snapshot.at - ended_at(action)).total_seconds() < wait_s


def _last(actions: Iterable[Action], policy: str) -> dict[Key, Action]:
    """Return the newest action on each subject, where it is one of that policy."""
    rows = {key_of(a.instruction): a for a in sorted(actions, key=ended_at) if may_have_written(a)}
    return {key: row for key, row in rows.items() if row.policy == policy}


def _without_effect(action: Action, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether an action is said to have none, or the telemetry soon after shows none."""
    if action.outcome is not Outcome.DONE:
        return False
    if "effect" in action.facts:
        return action.facts["effect"] == "none" and ended_at(action) > now - _DAY
    first_s, last_s = EFFECT_S
    seen_after_s = (snapshot.at - ended_at(action)).total_seconds()
    seen = snapshot.of(action.instruction.target)
    up_then_s = None if seen is None else up_before_s(seen, snapshot.at, ended_at(action))
    if up_then_s is not None and up_then_s < -CLOCK_S:
        return False  # its server has started since: what it had is lost, and is set anew
    return first_s <= seen_after_s <= last_s and _in_effect(snapshot, action) is False


def _in_effect(snapshot: Snapshot, action: Action) -> bool | None:
    """Return whether a snapshot shows what an action brought about; ``None``: it cannot tell."""
    instruction, seen = action.instruction, snapshot.of(action.instruction.target)
    if seen is None:
        return None
    if instruction.kind in CREATION:
        enabled = seen.value("create_enabled")
        # Others may keep a target closed that was opened, or it is full: that is no missing effect.
        return None if enabled is None or instruction.kind is ActionKind.OPEN else enabled is False
    if instruction.kind is not ActionKind.SET or instruction.setting is None:
        return None
    shown = seen.shown(instruction.setting)
    if shown is None or instruction.value is None:
        return None
    return is_same(instruction.setting, shown, instruction.value) or shown == action.found


def _repeated(actions: list[Action], now: datetime) -> list[Action]:
    """Return the last actions of a day that did the same, without another between them."""
    row: list[Action] = []
    for action in actions:
        if action.outcome is not Outcome.DONE or action.at <= now - _DAY:
            continue
        instruction = action.instruction
        if instruction.kind not in {ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN}:
            continue
        if row and _content(row[-1]) != _content(action):
            row = []
        row.append(action)
    return row


def _content(action: Action) -> tuple[ActionKind, str | None]:
    kind = action.instruction.kind
    return kind, action.instruction.value if kind is ActionKind.SET else None


def _named(action: Action) -> str:
    instruction = action.instruction
    of = f" {instruction.setting} of" if instruction.setting else ""
    return f"{instruction.kind}{of} {instruction.target}"
