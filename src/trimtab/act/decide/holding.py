"""Hold all changes while telemetry is unreliable or earlier actions went wrong.

Every controller calls `held` first. *Giving back* (opening a target that Trimtab closed, reverting)
is held for fewer reasons: a used-up hourly limit or an action that others undid forbid new changes,
but not undoing old ones. A missing, stale or future snapshot, a clock jump and wrong data hold
everything. An incomplete snapshot holds only policies that need all of it: an unseen target is left
alone (`trimtab.act.decide.site_observed`) and counts against the caps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from trimtab.act.decide.setting_value import is_same
from trimtab.act.decide.site_observed import SiteObserved, up_before_s
from trimtab.base.action import (
    CLOCK_S,
    CREATION,
    Action,
    ActionKind,
    Key,
    Ledger,
    Outcome,
    ended_at,
    key_of,
    may_have_written,
)
from trimtab.base.error import Message
from trimtab.base.snapshot import Snapshot
from trimtab.base.units import enumerated, format_duration, plural

REREAD_S: Final = 120.0
"""After this time an unanswered write has ended or hangs; later readings show its result."""
TRIM_S: Final = 6 * 3600.0
"""A trim without an outcome may still be running for this long."""
EFFECT_S: Final = (60.0, 900.0)
"""Telemetry this long after an action shows its effect: an MDT sees ``no_create`` after 5 s."""
LASTING: Final = 3
"""An instruction done this often in a day and not in effect is being undone by others."""
TOO_MANY: Final = Message("too-many-actions", "hourly limit of changes reached")
_DAY: Final = timedelta(days=1)
_WHOLE: Final = frozenset({"migrate"})
"""Policies that need a complete snapshot: a file may have objects on any target."""


def held(
    observed: SiteObserved, policy: str, now: datetime, *, giving_back: bool = False
) -> tuple[Message, ...]:
    """Return why nothing may be changed now, one sentence per reason; empty if changes may go on.

    Parameters
    ----------
    policy
        ``tunables``, ``trim``, ``balance``, ``allocator``, ``migrate`` or ``revert``. Failed
        actions hold only their own policy.
    giving_back
        Only the reasons that hold openings and reverts too.
    """
    reasons = [*_telemetry(observed, now), *_clocks(observed, now), *_integrity(observed)]
    if not giving_back:
        reasons += [*_hour(observed, now), *_actions(observed, policy, now)]
        if policy in _WHOLE:
            reasons += incomplete(observed)
    return tuple(reasons)


def allowance(observed: SiteObserved, now: datetime) -> int:
    """Return how many more changes are allowed in this hour.

    Allocator resets do not count: they repeat at their own interval and change no setting.
    """
    since = now - timedelta(hours=1)
    made = sum(
        action.at > since
        and may_have_written(action)
        and action.instruction.kind is not ActionKind.RESET_ALLOCATOR
        for action in observed.actions
    )
    return max(0, observed.site.policies.most_per_hour - made)


def undone(observed: SiteObserved, now: datetime) -> dict[Key, Message]:
    """Return the changes that others keep undoing, each with the reason to stop.

    These are instructions done three times within a day, identical each time, and not in effect in
    the snapshot. Trims and resets repeat by nature and do not count.
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


def _telemetry(observed: SiteObserved, now: datetime) -> Iterator[Message]:
    if observed.snapshot is None:
        yield Message("no-snapshot", "no snapshot: state of the targets unknown")
        return
    age_s = (now - observed.snapshot.at).total_seconds()
    most_s = observed.site.policies.stale_s
    if age_s < -CLOCK_S:
        text = f"the snapshot is dated {format_duration(-age_s)} in the future: a clock is wrong"
        yield Message("snapshot-in-future", text)
    elif age_s > most_s:
        yield Message(
            "snapshot-stale",
            f"the snapshot is {format_duration(age_s)} old; at most {format_duration(most_s)} is "
            "allowed",
        )


def _clocks(observed: SiteObserved, now: datetime) -> Iterator[Message]:
    # An action settled after a kill may have ended, by its clock, before it began.
    times = (max(action.at, ended_at(action)) for action in observed.actions)
    ahead_s = max(((at - now).total_seconds() for at in times), default=0.0)
    if abs(observed.clock_jump_s) > CLOCK_S:
        text = f"clocks differ by {format_duration(abs(observed.clock_jump_s))}"
        yield Message("clock-jump", text)
    elif ahead_s > CLOCK_S:
        text = f"an action in the ledger is dated {format_duration(ahead_s)} in the future"
        yield Message("clock-jump", f"{text}: a clock is wrong")


def _integrity(observed: SiteObserved) -> Iterator[Message]:
    if observed.integrity:
        more = len(observed.integrity) - 1
        also = f", and {more} more" if more else ""
        yield Message("integrity-open", f"data may be wrong: {observed.integrity[0]}{also}")


def incomplete(observed: SiteObserved) -> Iterator[Message]:
    """Yield a reason if part of the snapshot is missing, and names who did not answer."""
    snapshot = observed.snapshot
    if snapshot is None or snapshot.complete:
        return
    hosts = [
        host.name for host in snapshot.hosts if host.role == "server" and not host.answered
    ] or [seen.target.name for seen in snapshot.targets if seen.value("used_bytes") is None]
    missing = f"no answer from {enumerated(hosts)}" if hosts else "a part did not answer"
    yield Message("snapshot-incomplete", f"the snapshot is incomplete: {missing}")


def _hour(observed: SiteObserved, now: datetime) -> Iterator[Message]:
    if allowance(observed, now) == 0:
        most = observed.site.policies.most_per_hour
        text = f"{plural(most, 'change', ',')} made in the last hour, the most allowed"
        yield Message("too-many-actions", text)


def _actions(observed: SiteObserved, policy: str, now: datetime) -> Iterator[Message]:
    snapshot = observed.snapshot
    if snapshot is None:
        return
    unread = [a for a in observed.actions if a.policy == policy and _unread(a, snapshot)]
    if unread:
        also = f" and of {len(unread) - 1} more" if len(unread) > 1 else ""
        text = f"outcome of {_named(unread[-1])}{also} unknown"
        yield Message("action-open", f"{text}: waiting for a newer snapshot")
    last = _last(observed.actions, policy)
    ineffective = {key[0] for key, row in last.items() if _without_effect(row, snapshot, now)}
    if ineffective:
        text = f"changes on {enumerated(sorted(ineffective))} had no effect"
        yield Message("no-effect", text)
    stopped = {key[0] for key in undone(observed, now) if key in last}
    if len(stopped) >= LASTING:
        text = f"others keep undoing changes on {enumerated(sorted(stopped))}"
        yield Message("undone-repeatedly", text)


def _unread(action: Action, snapshot: Snapshot) -> bool:
    """Return whether an action has no outcome yet and no reading after it."""
    if action.outcome not in {None, Outcome.UNKNOWN}:
        return False
    wait_s = TRIM_S if action.instruction.kind is ActionKind.TRIM else REREAD_S
    return (snapshot.at - ended_at(action)).total_seconds() < wait_s


def _last(actions: Iterable[Action], policy: str) -> dict[Key, Action]:
    """Return the newest action on each subject, if that policy took it."""
    rows = {key_of(a.instruction): a for a in sorted(actions, key=ended_at) if may_have_written(a)}
    return {key: row for key, row in rows.items() if row.policy == policy}


def _without_effect(action: Action, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether an action had no effect, as recorded or as telemetry soon after shows."""
    if action.outcome is not Outcome.DONE:
        return False
    if "effect" in action.facts:
        return action.facts["effect"] == "none" and ended_at(action) > now - _DAY
    first_s, last_s = EFFECT_S
    seen_after_s = (snapshot.at - ended_at(action)).total_seconds()
    seen = snapshot.of(action.instruction.target)
    up_then_s = None if seen is None else up_before_s(seen, snapshot.at, ended_at(action))
    if up_then_s is not None and up_then_s < -CLOCK_S:
        return False  # its server restarted since: the value was lost, and is set again
    return first_s <= seen_after_s <= last_s and _in_effect(snapshot, action) is False


def _in_effect(snapshot: Snapshot, action: Action) -> bool | None:
    """Return whether a snapshot shows an action's effect; ``None`` if it cannot show it."""
    instruction, seen = action.instruction, snapshot.of(action.instruction.target)
    if seen is None:
        return None
    if instruction.kind in CREATION:
        enabled = seen.value("create_enabled")
        # An opened target may stay closed because of others or for lack of space: not a missing
        # effect.
        return None if enabled is None or instruction.kind is ActionKind.OPEN else enabled is False
    if instruction.kind is not ActionKind.SET or instruction.setting is None:
        return None
    shown = seen.shown(instruction.setting)
    if shown is None or instruction.value is None:
        return None
    return is_same(instruction.setting, shown, instruction.value) or shown == action.found


def _repeated(actions: list[Action], now: datetime) -> list[Action]:
    """Return the day's last run of identical actions."""
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
