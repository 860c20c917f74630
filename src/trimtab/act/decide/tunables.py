"""Decide which settings to write on which targets, and which block allocators to reset.

A value is rolled out in stages, per setting of the policy and kind of target: one target first,
then the rest of its server, then all others::

    nothing done ─▶ canary ─▶ settled, not worse ─▶ its server ─▶ settled ─▶ all ─▶ over
                      │                                                              │
                      └─ worse, reverted, lost: nothing further         drift: all at once

A plan has the stages that may be done now; if it begins with stage 1, stage 0 is in the ledger.
Progress is read from the ledger, never kept in memory. A value lost after the rollout, to a
failover, a reboot or udev, is set again on all targets at once. A foreign value, neither the
policy's nor the previous one, is overwritten once. If it comes back, it is taken as intended and
left: two controllers that fight are worse than either value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Final

from trimtab.act.decide.site_observed import (
    TOO_MANY,
    Answer,
    SiteObserved,
    allowance,
    differing,
    disconnected,
    harm_of,
    held,
    is_same,
    leaf_of,
    server_of,
    undone,
    unfit,
    unfolded,
    why_left_alone,
)
from trimtab.base.action import (
    Action,
    ActionKind,
    Instruction,
    Key,
    Ledger,
    Outcome,
    Plan,
    Untouched,
    ended_at,
    number_of,
)
from trimtab.base.error import Message
from trimtab.base.snapshot import NotAvailable, Setting, Snapshot, TargetSnapshot
from trimtab.base.units import format_duration, format_percent

CANARY: Final = 0
SERVER: Final = 1
ALL: Final = 2
RECENT: Final = timedelta(days=7)
"""A canary measured within this time can be compared with its earlier performance."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """Progress of one value among the targets of one kind.

    Attributes
    ----------
    pending
        Targets that lack the value and may be changed.
    lacking
        Names of all targets that lack it, including those that must be left alone.
    done, failed
        Actions that wrote it, including on targets now gone, and failed attempts of the last day;
        oldest first.
    reverted
        Ids of reverted actions.
    """

    pending: Sequence[TargetSnapshot]
    lacking: frozenset[str]
    done: Sequence[Action]
    failed: Sequence[Action]
    reverted: frozenset[str]

    @property
    def is_over(self) -> bool:
        """Whether all targets that lack the value had it once, or the last stage has begun."""
        rolled = {action.instruction.target for action in self.done}
        is_last = any(action.instruction.stage == ALL for action in self.done)
        return is_last or (len(rolled) > 1 and self.lacking <= rolled)


@dataclass(frozen=True, slots=True)
class RolloutTurn:
    """The targets whose turn it is, and their stage: `CANARY`, `SERVER` or `ALL`.

    ``waiting`` is why the others must wait; ``None`` if there are no others.
    """

    targets: frozenset[str]
    stage: int
    waiting: Message | None = None


def turn(observed: SiteObserved, progress: Rollout, now: datetime) -> RolloutTurn:
    """Return which targets that lack a value may get it now."""
    names = frozenset(seen.target.name for seen in progress.pending)
    if not progress.done:
        return _first(observed, progress, now)
    if progress.is_over:
        return RolloutTurn(names, ALL)
    reason = _harm(observed, progress)
    canary = progress.done[0].instruction.target
    if reason is None and canary in names:
        text = f"{canary} lost the value and gets it again first"
        return RolloutTurn(frozenset({canary}), CANARY, Message("waits-for-canary", text))
    reason = reason or _wait(observed, progress, now)
    if reason is not None:
        return RolloutTurn(frozenset(), CANARY, reason)
    of_server = _of_server(observed, canary, progress.pending)
    if of_server:
        text = f"the rest of {canary}'s server is next, then observed for {_settle(observed)}"
        return RolloutTurn(of_server, SERVER, Message("waits-for-server", text))
    return RolloutTurn(names, ALL)


def _first(observed: SiteObserved, progress: Rollout, now: datetime) -> RolloutTurn:
    """Return the canary; no target if the system recently refused the value elsewhere."""
    if progress.failed:
        last = progress.failed[-1]
        detail = f": {last.detail}" if last.detail else ""
        text = f"{last.instruction.target} refused it within the last day{detail}"
        return RolloutTurn(frozenset(), CANARY, Message("value-refused", text))
    canary = _choose(observed, progress.pending, now)
    text = f"{canary} is first, then observed for {_settle(observed)}"
    return RolloutTurn(frozenset({canary}), CANARY, Message("waits-for-canary", text))


def _choose(observed: SiteObserved, pending: Sequence[TargetSnapshot], now: datetime) -> str:
    """Return the canary: the least full of the recently measured targets, if any."""

    def rank(seen: TargetSnapshot) -> tuple[bool, float, str]:
        measured_at = observed.measured.get(seen.target.name)
        recent = measured_at is not None and now - measured_at <= RECENT
        fullness = seen.fullness()
        return not recent, 1.0 if fullness is None else fullness, seen.target.name

    return min(pending, key=rank).target.name


def _harm(observed: SiteObserved, progress: Rollout) -> Message | None:
    """Return why a rollout ends: a target got slower, or a person reverted a change."""
    worse = observed.site.policies.tunables.worse
    for action in progress.done:
        name, slower = action.instruction.target, number_of(action, "slower")
        if action.id in progress.reverted:
            return Message("canary-reverted", f"the change of {name} was reverted")
        if slower is not None and slower > worse:
            text = f"{name} got {format_percent(slower)} slower with it"
            return Message("canary-worse", f"{text}; {format_percent(worse)} is allowed")
    return None


def _wait(observed: SiteObserved, progress: Rollout, now: datetime) -> Message | None:
    """Return why a rollout must wait."""
    canary = progress.done[0].instruction.target
    seen = observed.snapshot.of(canary) if observed.snapshot is not None else None
    ill = Message("target-absent", "gone") if seen is None else unfit(seen) or disconnected(seen)
    if ill is not None:
        return Message("canary-unhealthy", f"{canary}, the canary, is unhealthy: {ill}")
    last = max(progress.done, key=ended_at)
    if last.facts.get("verdict") == "pending":
        text = f"not yet measured whether {last.instruction.target} got slower"
        return Message("canary-pending", text)
    if now - ended_at(last) < timedelta(seconds=observed.site.policies.tunables.settle_s):
        text = f"{last.instruction.target} is observed for {_settle(observed)} first"
        return Message("canary-settling", text)
    return None


def _of_server(
    observed: SiteObserved, canary: str, pending: Sequence[TargetSnapshot]
) -> frozenset[str]:
    seen = observed.snapshot.of(canary) if observed.snapshot is not None else None
    server = None if seen is None else server_of(seen)
    return frozenset(other.target.name for other in pending if server_of(other) == server)


def _settle(observed: SiteObserved) -> str:
    return format_duration(observed.site.policies.tunables.settle_s)


_RETRY: Final = timedelta(days=1)
"""A refused value is not retried within this time."""
_SETTLED: Final = timedelta(hours=1)
"""A value is not retried within this time if an unanswered write did not set it."""
_PARAMETERS: Final = frozenset({"lod", "lov", "lmv", "mdd", "mdt", "obdfilter", "osp", "osc"})
"""Settings that ``lctl set_param -P`` accepts; it rejects those of ldiskfs and drives."""
_SCHEDULER: Final = "scheduler"


@dataclass(frozen=True, slots=True)
class _Case:
    """The observations and their ledger, with the ids of actions that a person reverted.

    Actions in ``forgotten`` no longer count, because a person requests the value again.
    """

    observed: SiteObserved
    now: datetime
    targets: Mapping[str, TargetSnapshot]
    ledger: Ledger
    reverted: frozenset[str]
    forgotten: frozenset[str]

    def wrote(self, action: Action, value: str) -> bool:
        """Return whether an action set a value for the policy."""
        instruction = action.instruction
        return (
            (action.outcome is Outcome.DONE or self._turned_out(action))
            and instruction.kind is ActionKind.SET
            and instruction.value == value
            and not instruction.reverts
            and action.id not in self.forgotten
        )

    def _turned_out(self, action: Action) -> bool:
        """Return whether a later reading shows that an action without an outcome is in effect."""
        seen = self.targets.get(action.instruction.target)
        setting, value = action.instruction.setting, action.instruction.value
        if action.outcome not in {None, Outcome.UNKNOWN} or seen is None or setting is None:
            return False
        shown = seen.shown(setting)
        return shown is not None and is_same(setting, shown, value or "")


def decide_tunables(observed: SiteObserved, now: datetime, *, again: bool = False) -> Plan:
    """Return which settings to write now.

    Parameters
    ----------
    again
        Write reverted values too, from the first stage on, because a person requests them again.
    """
    snapshot = observed.snapshot
    reasons = held(observed, "tunables", now)
    if snapshot is None or reasons:
        return observed.plan("tunables", now, held=reasons)
    ledger, nothing = Ledger(observed.actions), frozenset[str]()
    taken_back = (nothing, ledger.reverted) if again else (ledger.reverted, nothing)
    targets = {seen.target.name: seen for seen in snapshot.targets}
    case = _Case(observed, now, targets, ledger, *taken_back)
    wishes, untouched = desired(observed, snapshot)
    lacking = [wish for wish in wishes if not _as_desired(ledger, wish)]
    stopped = undone(observed, now)
    pending: list[Wish] = []
    for wish in lacking:
        reason = (
            harm_of(wish.setting, wish.value)
            or why_left_alone(observed, wish.seen)
            or stopped.get(wish.key)
            or _answered_before(case, wish)
            or _not_again(case, wish)
        )
        if reason is None:
            pending.append(wish)
        else:
            untouched.append(Untouched(wish.seen.target.name, reason, wish.setting))
    pending, behind = _schedulers_first(pending)
    instructions, waiting = _rolled_out(case, lacking, pending)
    return _planned(observed, instructions, [*untouched, *behind, *waiting], now)


def _schedulers_first(pending: list[Wish]) -> tuple[list[Wish], list[Untouched]]:
    """Return the wishes that need not wait, and the queue settings whose scheduler changes first.

    Linux resets ``nr_requests`` and ``wbt_lat_usec`` of a queue when its scheduler changes: values
    written before that would be lost, and those that the plan saw no longer hold.
    """
    first = {
        (wish.seen.target.name, wish.setting.rpartition("/")[0])
        for wish in pending
        if leaf_of(wish.setting) == _SCHEDULER
    }
    ready: list[Wish] = []
    behind: list[Untouched] = []
    for wish in pending:
        name, (queue, _, leaf) = wish.seen.target.name, wish.setting.rpartition("/")
        if leaf == _SCHEDULER or (name, queue) not in first:
            ready.append(wish)
            continue
        text = f"{queue}/{_SCHEDULER} is set first: it changes other settings of its queue"
        behind.append(Untouched(name, Message("waits-for-scheduler", text), wish.setting))
    return ready, behind


def _planned(
    observed: SiteObserved,
    instructions: list[Instruction],
    untouched: list[Untouched],
    now: datetime,
) -> Plan:
    """Return the plan, earliest stages first, with no more than the hourly limit allows."""
    ordered = sorted(instructions, key=lambda i: (i.stage, i.target, i.setting or ""))
    left = allowance(observed, now)
    untouched += [Untouched(i.target, TOO_MANY, i.setting) for i in ordered[left:]]
    untouched.sort(key=lambda u: (u.target, u.setting or "", u.reason))
    return observed.plan("tunables", now, [*ordered[:left], *untouched])


def _as_desired(ledger: Ledger, wish: Wish) -> bool:
    """Return whether a setting has its value, or reads as it did right after the write."""
    if is_same(wish.setting, wish.shown, wish.value):
        return True
    last = ledger.last_done(*wish.key)
    return last is not None and last.instruction.value == wish.value and last.found == wish.shown


def _answered_before(case: _Case, wish: Wish) -> Message | None:
    """Return a reason if the system did not accept this value at the last write."""
    last = case.ledger.last_tried(*wish.key)
    if last is None or last.instruction.value != wish.value:
        return None
    if last.outcome is Outcome.NOT_STORED and last.found == wish.shown:
        text = f"{wish.value} was written before, but {wish.shown} is read back"
        return Message("value-not-stored", text)
    if last.outcome in {Outcome.REFUSED, Outcome.FAILED} and case.now - ended_at(last) < _RETRY:
        detail = f": {last.detail}" if last.detail else ""
        return Message("value-refused", f"{wish.value} was refused within the last day{detail}")
    if last.outcome in {None, Outcome.UNKNOWN} and case.now - ended_at(last) < _SETTLED:
        return Message(
            "outcome-unknown", f"{wish.value} was written within the last hour, possibly in part"
        )
    return None


def _not_again(case: _Case, wish: Wish) -> Message | None:
    """Return a reason if a person reverted this value, or others insist on theirs."""
    actions = case.ledger.of(*wish.key)
    rows = [row for row in actions if case.wrote(row, wish.value)]
    if rows and rows[-1].id in case.reverted:
        return Message("reverted", f"{wish.value} was reverted, but is still in the policy")
    others = [row.at for row in actions if row.outcome is Outcome.DONE and row not in rows]
    rows = [row for row in rows if not others or row.at > max(others)]
    if not rows:
        return None
    original = unfolded(rows[0].instruction.before or "")
    foreign = set(differing(wish.setting, wish.shown, wish.value)).difference(original)
    overwritten = {v for row in rows[1:] for v in unfolded(row.instruction.before or "")}
    if foreign & overwritten:
        text = f"it is {wish.shown} again after {wish.value} was restored"
        return Message("changed-by-others", f"{text}: others set it on purpose")
    return None


def _rolled_out(
    case: _Case, lacking: list[Wish], pending: list[Wish]
) -> tuple[list[Instruction], list[Untouched]]:
    """Return the instructions for targets whose turn it is, and the waiting ones."""
    instructions: list[Instruction] = []
    waiting: list[Untouched] = []
    for group, members in groupby(sorted(pending, key=_group), key=_group):
        wishes = list(members)
        progress = _progress(case, group, wishes, [w for w in lacking if _group(w) == group])
        now_due = turn(case.observed, progress, case.now)
        for wish in wishes:
            name = wish.seen.target.name
            if name in now_due.targets:
                instructions.append(_instruction(case, wish, now_due.stage, progress))
            elif now_due.waiting is not None:
                waiting.append(Untouched(name, now_due.waiting, wish.setting))
    return instructions, waiting


def _group(wish: Wish) -> tuple[str, str]:
    return wish.name, wish.seen.target.kind


def _progress(
    case: _Case, group: tuple[str, str], wishes: list[Wish], lacking: list[Wish]
) -> Rollout:
    """Return the progress of a value; for targets now gone, the name shows the kind."""
    (name, kind), value = group, wishes[0].value
    kinds = {target: seen.target.kind for target, seen in case.targets.items()}
    rows = sorted(
        (
            row
            for (target, subject), actions in case.ledger.by_key.items()
            if kinds.get(target, target[:3].lower()) == kind and matches(name, subject)
            for row in actions
            if row.instruction.value == value and not row.instruction.reverts
        ),
        key=ended_at,
    )
    refused = {Outcome.REFUSED, Outcome.FAILED, Outcome.NOT_STORED}
    pending = {wish.seen.target.name: wish.seen for wish in wishes}
    return Rollout(
        list(pending.values()),
        frozenset(wish.seen.target.name for wish in lacking),
        [row for row in rows if case.wrote(row, value)],
        [row for row in rows if row.outcome in refused and case.now - ended_at(row) < _RETRY],
        case.reverted,
    )


def _instruction(case: _Case, wish: Wish, stage: int, progress: Rollout) -> Instruction:
    policy = case.observed.site.policies.tunables
    text = f"it is {wish.shown}, desired {wish.value}"
    if any(row.instruction.target == wish.seen.target.name for row in progress.done):
        reason = Message("drift", f"{text}: set before, drifted since")
    else:
        reason = Message("not-as-desired", text)
    permanent = wish.setting.partition("/")[0] in _PARAMETERS and wish.name in policy.permanent
    return Instruction(
        ActionKind.SET, wish.seen.target.name, reason, server_of(wish.seen), wish.setting,
        wish.shown, wish.value, stage, permanent,
    )  # fmt: skip


_THRESHOLD: Final = re.compile(r"mb_c[123]_threshold")


@dataclass(frozen=True, slots=True)
class Wish:
    """A setting of a target and its value in the policy; ``name`` is the policy's name for it."""

    seen: TargetSnapshot
    setting: str
    shown: str
    name: str
    value: str

    @property
    def key(self) -> Key:
        """The target and the setting."""
        return self.seen.target.name, self.setting


def matches(name: str, setting: str) -> bool:
    """Return whether a policy's name matches a setting: its full name or its last parts.

    Examples
    --------
    >>> matches("queue/wbt_lat_usec", "drives/queue/wbt_lat_usec"), matches("usec", "lat_usec")
    (True, False)
    """
    return _pattern(name).fullmatch(setting) is not None


@lru_cache(maxsize=1024)
def _pattern(name: str) -> re.Pattern[str]:
    parts = "[^/]*".join(map(re.escape, name.split("*")))
    return re.compile(f"(?:.*/)?{parts}")


def desired(observed: SiteObserved, snapshot: Snapshot) -> tuple[list[Wish], list[Untouched]]:
    """Return the policy's wishes by target and setting; unreadable settings are untouched."""
    settings = observed.site.policies.tunables.settings
    targets = sorted(snapshot.targets, key=lambda seen: seen.target.name)
    if settings and not any(seen.settings for seen in targets):
        reason = Message("settings-unknown", "the snapshot has no settings")
        return [], [Untouched("", reason)]
    wishes: list[Wish] = []
    untouched: list[Untouched] = []
    having: dict[str, set[str]] = {name: set() for name in settings}
    lacking: list[tuple[str, TargetSnapshot]] = []
    for seen in targets:
        for setting, name in _names(seen, settings).items():
            shown = seen.settings[setting]
            if isinstance(shown, NotAvailable):
                reason = Message("setting-unreadable", f"it cannot be read: {shown.reason}")
                untouched.append(Untouched(seen.target.name, reason, setting))
            else:
                wishes.append(Wish(seen, setting, shown.value, name, settings[name]))
        for name in settings:
            if any(matches(name, setting) for setting in seen.settings):
                having[name].add(seen.target.kind)
            else:
                lacking.append((name, seen))
    untouched += [Untouched("", _absent(name), name) for name in settings if not having[name]]
    untouched += [
        Untouched(seen.target.name, why_left_alone(observed, seen) or _absent(name), name)
        for name, seen in lacking
        if seen.target.kind in having[name]
    ]
    return wishes, untouched


def _names(seen: TargetSnapshot, settings: Mapping[str, str]) -> dict[str, str]:
    """Return setting to the policy's name for it, the longest if several match."""
    ranked = sorted(settings, key=lambda name: (len(name), name), reverse=True)
    pairs = (
        (setting, next((n for n in ranked if matches(n, setting)), None))
        for setting in seen.settings
    )
    return {setting: name for setting, name in pairs if name is not None}


def _absent(name: str) -> Message:
    why = ""
    if _THRESHOLD.fullmatch(leaf_of(name)):
        why = ": ldiskfs of RHEL 9, SLES 15 SP4, Ubuntu 22 and later lacks it"
    return Message("setting-absent", f"no setting named {name}{why}")


_POINTERS: Final = frozenset({"mb_last_group", "mb_last_groups"})
"""Linux 6.17 renamed it: one line ``N# GROUP`` per pointer, and one write sets all of them."""


def decide_resets(observed: SiteObserved, now: datetime) -> Plan:
    """Return which targets' pointers to reset now.

    A target is due if its pointer is not at the first group, the share of requests that looped
    without finding space since the baseline reaches the policy's limit, and the interval since its
    last reset has passed.

    ldiskfs starts its search where it last placed a stream. Where a target is full, it loops over
    groups without a result; from the first group it finds space freed since. Sites reset the
    pointer every 15 minutes.
    """
    reasons = held(observed, "allocator", now)
    snapshot = observed.snapshot
    if snapshot is None or reasons:
        return observed.plan("allocator", now, held=reasons)
    ledger = Ledger(observed.actions)
    targets = sorted(snapshot.targets, key=lambda seen: seen.target.name)
    answers = (_target(observed, ledger, seen, now) for seen in targets)
    return observed.plan("allocator", now, tuple(filter(None, answers)))


def _target(
    observed: SiteObserved, ledger: Ledger, seen: TargetSnapshot, now: datetime
) -> Answer | None:
    name, setting = seen.target.name, _pointer(seen)
    if setting is None:
        return None
    if isinstance(setting, NotAvailable):
        return Untouched(name, Message("setting-unreadable", setting.reason))
    policy = observed.site.policies.allocator
    last = ledger.last_tried(name, setting.name)
    if _at_start(setting.value):
        return None
    if last is not None and now - ended_at(last) < timedelta(seconds=policy.every_s):
        return None
    share = _useless_share(observed, seen)
    if policy.useless_loops is not None:
        if share is None:
            text = "number of useless loops unknown: no earlier snapshot has the counters"
            return Untouched(name, Message("loops-unknown", text), setting.name)
        if share < policy.useless_loops:
            return None
    if (reason := why_left_alone(observed, seen)) is not None:
        return Untouched(name, reason, setting.name)
    return Instruction(
        ActionKind.RESET_ALLOCATOR, name, _reason(share, policy.every_s), server_of(seen),
        setting.name, setting.value, "0",
    )  # fmt: skip


def _reason(share: float | None, every_s: float) -> Message:
    if share is None:
        return Message("reset-due", f"not reset for {format_duration(every_s)}")
    loops = f"{format_percent(share)} of its requests looped without finding space"
    return Message("loops-useless", f"{loops}, and it was not reset for {format_duration(every_s)}")


def _pointer(seen: TargetSnapshot) -> Setting | NotAvailable | None:
    names = sorted(name for name in seen.settings if leaf_of(name) in _POINTERS)
    return seen.settings[names[0]] if names else None


def _at_start(value: str) -> bool:
    words = [word for word in value.split() if not word.endswith("#")]
    return bool(words) and all(word == "0" for word in words)


def _useless_share(observed: SiteObserved, seen: TargetSnapshot) -> float | None:
    """Return useless loops per request since the baseline; ``None`` if unknown.

    Counters that went backwards belong to another mount; without requests the share is 0.
    """
    before = None if observed.baseline is None else observed.baseline.of(seen.target.name)
    requests = seen.number("allocator_requests_total")
    loops = seen.labelled("allocator_useless_loops_total")
    if before is None or requests is None or not loops:
        return None
    requests_before = before.number("allocator_requests_total")
    loops_before = before.labelled("allocator_useless_loops_total")
    if requests_before is None or loops_before.keys() != loops.keys():
        return None
    deltas = [loops[label] - loops_before[label] for label in loops]
    if requests < requests_before or min(deltas) < 0:
        return None
    return sum(deltas) / (requests - requests_before) if requests > requests_before else 0.0
