"""Which OSTs to close to new files, which to open again, and which files to move off full ones.

A target above ``limits.fullness`` is closed, one below ``limits.reopen`` is opened; between the two
marks, and within the dwell time after its last change, it stays as it is. Caps bound closing
(`ClosingCaps`): enough OSTs, overall and in every pool, stay usable for the layouts in use. When a
cap binds, the fullest targets are closed and the rest reported. A closed target is not swapped for
a fuller one: both are above the limit, and each swap costs two changes and moves the load again.

Every OST that takes no new files counts towards the caps, whoever closed it: full (``-28``),
degraded, read-only, disconnected or unknown. No more targets are closed in a pool with an unseen
member, and none anywhere if the pools are unknown. Lustre refuses a file with a default layout when
more than a quarter of the requested OSTs are missing, and one with an explicit stripe count when
any is (lod_stripe_count_min in lustre/lod/lod_qos.c).

No cap limits opening. Targets that others closed are never opened here. If those closings or
failures leave fewer usable targets than layouts need, targets that Trimtab closed are opened
regardless of dwell time, emptiest first: new files on a full target are the smaller evil. Moving
files is the last resort (`decide_moves`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.act.decide.site_observed import (
    ABSENT,
    TOO_MANY,
    Answer,
    SiteObserved,
    allowance,
    closed_in_part,
    disconnected,
    held,
    incomplete,
    is_same,
    server_of,
    undone,
    unfit,
    unfolded,
    unreached,
    why_left_alone,
)
from trimtab.base.action import (
    Action,
    ActionKind,
    Instruction,
    Ledger,
    Outcome,
    Plan,
    Untouched,
    closed_by_us,
    ended_at,
)
from trimtab.base.error import Message
from trimtab.base.snapshot import NotAvailable, TargetSnapshot
from trimtab.base.units import format_bytes, format_duration, format_percent

ALL: Final = ""
"""Key of the group of all OSTs among the names of pools."""


def usable(seen: TargetSnapshot) -> bool:
    """Return whether a target is known to take new files."""
    return seen.value("create_enabled") is True and is_fit(seen)


def is_fit(seen: TargetSnapshot) -> bool:
    """Return whether a target can take new files while open."""
    return unfit(seen) is None and disconnected(seen) is None


@dataclass(slots=True)
class _CapGroup:
    """A pool or all OSTs.

    Attributes
    ----------
    unusable
        Members not known to take new files.
    lost
        Members known not to take new files, less those that the plan opens.
    unseen
        Why no more may be closed: the first unseen member.
    """

    title: str
    size: int
    unusable: int
    lost: int
    most_closed: int
    least_usable: int
    unseen: Message | None

    @property
    def most_unusable(self) -> int:
        """The most members that may take no new files, counting the next closing."""
        return min(self.most_closed, self.size - self.least_usable)


class ClosingCaps:
    """The groups while a plan is made; each closing and opening counts at once.

    Attributes
    ----------
    unseen
        OSTs of unknown state, each with the reason.
    """

    def __init__(self, observed: SiteObserved, targets: Sequence[TargetSnapshot]) -> None:
        """Count the usable targets before the plan."""
        self._usable = {seen.target.name: usable(seen) for seen in targets}
        self._fit = {seen.target.name for seen in targets if is_fit(seen)}
        self._unknown = {s.target.name for s in targets if s.value("create_enabled") is None}
        self.unseen = _unseen(observed, targets)
        names = frozenset(self._usable)
        known: Mapping[str, frozenset[str]] = {}
        self._why_no_pools: Message | None = None
        if isinstance(observed.pools, NotAvailable):
            text = f"members of pools unknown: {observed.pools.reason}"
            self._why_no_pools = Message("pools-unknown", text)
        else:
            known = observed.pools
        pools = {ALL: names | self.unseen.keys(), **known}
        self._of: dict[str, list[_CapGroup]] = {name: [] for name in names}
        for pool, members in sorted(pools.items()):
            group = self._group(observed, pool, members)
            for name in members & names:
                self._of[name].append(group)

    def binding(self, name: str) -> Message | None:
        """Return why a target may not be closed now; ``None`` if it may."""
        if self._why_no_pools is not None:
            return self._why_no_pools
        for group in self._of[name]:
            if group.unseen is not None:
                return group.unseen
            if group.unusable + 1 > group.most_unusable:
                text = (
                    f"{group.unusable} of {group.size} take no new files, and at most "
                    f"{max(0, group.most_unusable)} may"
                )
                return Message("cap-reached", f"{group.title}: {text}")
        return None

    def short(self, name: str) -> str | None:
        """Return one of the target's groups with fewer usable members than layouts need, if any."""
        for group in self._of[name]:
            if group.size - group.lost < group.least_usable:
                return group.title
        return None

    def close(self, name: str) -> None:
        """Count a target as closed."""
        for group in self._of[name]:
            group.unusable += 1
            group.lost += 1

    def open(self, name: str) -> None:
        """Count a target as open for layouts, if it is not degraded, read-only or disconnected.

        It makes no room for closings until it reads back as open, which may never happen.
        """
        for group in self._of[name] if name in self._fit else ():
            group.lost -= 1

    def _group(self, observed: SiteObserved, pool: str, members: frozenset[str]) -> _CapGroup:
        policy, size = observed.site.policies.balance, len(members)
        unusable = sum(not self._usable.get(name, False) for name in members)
        unknown = sum(name not in self._usable or name in self._unknown for name in members)
        title = "all OSTs" if pool == ALL else f"pool {pool}"
        return _CapGroup(
            title,
            size,
            unusable,
            unusable - unknown,
            math.floor(policy.most_closed * size + 1e-9),
            min(size, max(policy.least_open, policy.widest_stripe, size - size // 4)),
            None if pool == ALL else self._why_unseen(title, members),
        )

    def _why_unseen(self, title: str, members: frozenset[str]) -> Message | None:
        missing = sorted(
            name for name in members if name in self.unseen or name not in self._usable
        )
        if not missing:
            return None
        more = f", and {len(missing) - 1} more" if missing[1:] else ""
        why = self.unseen.get(missing[0], ABSENT)
        return Message("member-unseen", f"{title}: no current state of {missing[0]}{more}: {why}")


def _unseen(observed: SiteObserved, targets: Sequence[TargetSnapshot]) -> dict[str, Message]:
    """Return the OSTs of unknown state, each with the reason.

    If the snapshot is incomplete, these include OSTs known before that it lacks.
    """
    reasons: dict[str, Message] = {}
    for seen in targets:
        reason = unreached(observed, seen) or _space_unknown(seen)
        if reason is not None:
            reasons[seen.target.name] = reason
    if observed.snapshot is None or observed.snapshot.complete:
        return reasons
    before = () if observed.baseline is None else observed.baseline.targets
    known = {each.target.name for each in before}
    known |= {action.instruction.target for action in observed.actions}
    known |= observed.site.servers.home.keys()
    absent = known - {seen.target.name for seen in targets}
    return reasons | {name: ABSENT for name in sorted(absent) if name.startswith("OST")}


def _space_unknown(seen: TargetSnapshot) -> Message | None:
    if seen.fullness() is not None:
        return None
    reading = seen.reading("used_bytes")
    why = "no reading" if reading is None else reading.reason or reading.value
    return Message("space-unknown", f"fullness unknown: {why}")


MECHANISMS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "max_create_count": (("osp/max_create_count", "0", "20000"),),
    "no_create": (("obdfilter/no_create", "1", "0"), ("obdfilter/no_precreate", "1", "0")),
}
"""Setting, closing value, and opening value for when the previous value is lost."""
_FULL: Final = 0.95
"""Opening a fuller target does not help layouts: it soon has no space left."""


@dataclass(frozen=True, slots=True)
class Gate:
    """An OST and whether it takes new files, as the decision sees it.

    Attributes
    ----------
    open_
        ``create_enabled``; ``None`` if unknown.
    by_us
        Trimtab's first closing since its last opening.
    changed_at
        Time of Trimtab's last attempt to close or open it.
    """

    seen: TargetSnapshot
    fullness: float | None
    open_: bool | None
    by_us: Action | None
    changed_at: datetime | None

    @property
    def name(self) -> str:
        """The target's name."""
        return self.seen.target.name


def decide_balance(observed: SiteObserved, now: datetime) -> Plan:
    """Return which targets to open and, after them, which to close, the fullest first."""
    snapshot = observed.snapshot
    reasons = held(observed, "balance", now, giving_back=True)
    if snapshot is None or reasons:
        return observed.plan("balance", now, held=reasons)
    gates = _gates(observed)
    caps = ClosingCaps(observed, [gate.seen for gate in gates])
    answers = _openings(observed, gates, caps, now)
    cautions = held(observed, "balance", now) or _unexplained(observed, caps)
    left = () if any(isinstance(answer, Instruction) for answer in answers) else cautions
    if cautions:
        over = [gate for gate in gates if _is_over(observed, gate) and gate.open_]
        answers += [Untouched(gate.name, cautions[0]) for gate in over]
    else:
        answers += _closings(observed, gates, caps, now)
    return observed.plan("balance", now, answers, left)


def _unexplained(observed: SiteObserved, caps: ClosingCaps) -> tuple[Message, ...]:
    """Return a caution if the incomplete snapshot may lack an OST that no other source lists."""
    snapshot = observed.snapshot
    clients = () if snapshot is None else (host for host in snapshot.hosts if host.role == "client")
    if caps.unseen or any(client.problem is not None for client in clients):
        return ()
    return tuple(incomplete(observed))


def _gates(observed: SiteObserved) -> list[Gate]:
    """Return the OSTs, the fullest first."""
    ledger = Ledger(observed.actions)
    gates = []
    for seen in observed.snapshot.targets if observed.snapshot else ():
        if seen.target.kind != "ost":
            continue
        enabled = seen.value("create_enabled")
        last = ledger.last_tried(seen.target.name, "creation")
        gates.append(
            Gate(
                seen,
                seen.fullness(),
                enabled if isinstance(enabled, bool) else None,
                closed_by_us(ledger, seen.target.name),
                ended_at(last) if last else None,
            )
        )
    return sorted(gates, key=lambda gate: (-(gate.fullness or 0.0), gate.name))


def opening(seen: TargetSnapshot, closing: Action, reason: Message) -> Instruction:
    """Return the instruction that opens a target: its closing's setting, at the previous value."""
    setting = closing.instruction.setting
    return Instruction(
        ActionKind.OPEN, seen.target.name, reason, server_of(seen), setting, seen.shown(setting),
        _value_of_before(closing.instruction),
    )  # fmt: skip


def _value_of_before(instruction: Instruction) -> str | None:
    """Return the previous value; if parts were closed already, that of the parts still open."""
    rows = {name: row for group in MECHANISMS.values() for name, *row in group}
    if instruction.setting is None or instruction.setting not in rows:
        return instruction.before
    closes, opens = rows[instruction.setting]
    values = [value for value in unfolded(instruction.before or opens) if value != closes]
    return values[0] if values else opens


def _openings(
    observed: SiteObserved, gates: list[Gate], caps: ClosingCaps, now: datetime
) -> list[Answer]:
    """Return openings of targets below the mark, then of those that layouts need, and the rest."""
    mark = observed.site.limits.reopen
    answers: list[Answer] = []
    closed: list[tuple[Gate, Action]] = []
    for gate in reversed(gates):
        if gate.open_ is not False or gate.fullness is None:
            continue
        under = gate.fullness < mark
        if gate.by_us is None or not in_force(gate.seen, gate.by_us):
            if under:
                text = f"closed by others: {gate.seen.source('create_enabled')}"
                answers.append(Untouched(gate.name, Message("closed-by-others", text)))
            continue
        rest = _dwelling(observed, gate, now)
        if under and rest is None:
            text = f"{format_percent(gate.fullness)} full, under {format_percent(mark)}"
            answers.append(opening(gate.seen, gate.by_us, Message("under-limit", text)))
            caps.open(gate.name)
            continue
        closed.append((gate, gate.by_us))
    for gate, closing in closed:
        group = caps.short(gate.name)
        helps = (gate.fullness or 1.0) < _FULL and is_fit(gate.seen)
        if group is not None and helps:
            text = f"{group}: fewer usable targets than layouts need"
            answers.append(opening(gate.seen, closing, Message("too-few-open", text)))
            caps.open(gate.name)
        elif (gate.fullness or 1.0) < mark and (rest := _dwelling(observed, gate, now)):
            answers.append(Untouched(gate.name, rest))
    return answers


def in_force(seen: TargetSnapshot, closing: Action) -> bool:
    """Return whether the setting with which Trimtab closed a target still closes it.

    If not, a failover lost the setting, and others closed the target since.
    """
    name = closing.instruction.setting
    shown = seen.shown(name)
    if name is None or shown is None:
        return True
    return any(is_same(name, value, closing.instruction.value or "") for value in unfolded(shown))


def _closings(
    observed: SiteObserved, gates: Sequence[Gate], caps: ClosingCaps, now: datetime
) -> list[Answer]:
    """Return the targets to close, fullest first, and why others above the limit stay open."""
    answers: list[Answer] = []
    stopped, left = undone(observed, now), allowance(observed, now)
    for gate in gates:
        if not _is_over(observed, gate) or gate.open_ is False:
            continue
        reason = (
            why_left_alone(observed, gate.seen)
            or stopped.get((gate.name, "creation"))
            or _partly(gate)
            or _dwelling(observed, gate, now)
            or _unknown(gate)
            or caps.binding(gate.name)
        )
        if reason is None and not left:
            reason = TOO_MANY
        answer = reason or _closing(observed, gate)
        if isinstance(answer, Instruction):
            left -= 1
            caps.close(gate.name)
        else:
            answer = Untouched(gate.name, answer)
        answers.append(answer)
    return answers


def _closing(observed: SiteObserved, gate: Gate) -> Instruction | Message:
    """Return the closing, by the policy's mechanism or, for ``auto``, one that the target has."""
    limit = format_percent(observed.site.limits.fullness)
    again = ", and open again" if gate.by_us is not None else ""
    text = f"{format_percent(gate.fullness or 0.0)} full, limit {limit}{again}"
    reason, server = Message("over-limit", text), server_of(gate.seen)
    mechanism = observed.site.policies.balance.mechanism
    groups = MECHANISMS.values() if mechanism == "auto" else (MECHANISMS[mechanism],)
    rows = [row for group in groups for row in group]
    for name, closes, _ in rows:
        if (shown := gate.seen.shown(name)) is not None:
            return Instruction(ActionKind.CLOSE, gate.name, reason, server, name, shown, closes)
    for name, *_ in rows:
        setting = gate.seen.settings.get(name)
        if isinstance(setting, NotAvailable):
            return Message("setting-unreadable", f"{name}: {setting.reason}")
    if mechanism != "auto" and gate.seen.settings:
        return Message("setting-absent", f"it has no {mechanism}")
    # A driver without such settings closes targets in its own way.
    return Instruction(ActionKind.CLOSE, gate.name, reason, server)


def _is_over(observed: SiteObserved, gate: Gate) -> bool:
    limits = observed.site.limits
    return gate.fullness is not None and gate.fullness > max(limits.fullness, limits.reopen)


def _dwelling(observed: SiteObserved, gate: Gate, now: datetime) -> Message | None:
    dwell_s = observed.site.policies.balance.dwell_s
    if gate.changed_at is None or now - gate.changed_at >= timedelta(seconds=dwell_s):
        return None
    text = f"changed less than {format_duration(dwell_s)} ago"
    return Message("dwell", text)


def _partly(gate: Gate) -> Message | None:
    """Return a reason if others closed the target on some MDTs; opening it would undo that."""
    reading = None if gate.by_us is not None else closed_in_part(gate.seen)
    if reading is None:
        return None
    text = f"{reading.label} creates no files on it, not because of Trimtab: {reading.source}"
    return Message("closed-by-others", text)


def _unknown(gate: Gate) -> Message | None:
    """Return a reason if the target may be closed already, on one MDT or all."""
    for reading in gate.seen.readings:
        if reading.name == "create_enabled" and reading.value is None and reading.label:
            text = f"unknown whether {reading.label} creates files on it: {reading.reason}"
            return Message("creation-unknown", text)
    if usable(gate.seen):
        return None
    reading = gate.seen.reading("create_enabled")
    why = reading.reason if reading else "no reading"
    return Message("creation-unknown", f"unknown whether it is open: {why}")


FEWEST_BYTES: Final = 2**30
"""Moving a smaller file costs more than the space it frees."""
QUIET: Final = timedelta(days=7)
"""Minimum time since a file was last written or renamed."""
STALE_INDEX: Final = timedelta(days=7)
"""No file is moved on the basis of an older index."""
_AGAIN: Final = frozenset({Outcome.REFUSED, Outcome.UNREACHABLE})
"""Outcomes after which a file is retried: it was open, or its server did not answer."""


@dataclass(frozen=True, slots=True)
class MovableFile:
    """A file of an index.

    Attributes
    ----------
    identity
        Its FID or inode number, as text.
    path
        Absolute and percent-encoded, because names are bytes.
    state
        Length and times recorded by the index; they must not have changed.
    allocated_bytes
        Mean per target.
    """

    identity: str
    path: str
    state: str
    allocated_bytes: int
    changed_at: datetime
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MovableFiles:
    """Files of an index, and when its scan ended."""

    ended_at: datetime
    files: Sequence[MovableFile]


def decide_moves(observed: SiteObserved, index: MovableFiles, now: datetime) -> Plan:
    """Return which files to move off which targets, the fullest target first.

    Files move off a target above ``limits.fullness`` that is closed to new files, until it would be
    at ``limits.reopen``; on an open target new files would take the space at once. The files with
    the most bytes on the target go first. Files written or renamed recently stay: they are likely
    to change again. A file that was moved or changed after the index was made is not retried from
    that index.
    """
    snapshot = observed.snapshot
    reasons = held(observed, "migrate", now)
    if now - index.ended_at > STALE_INDEX:
        age = format_duration((now - index.ended_at).total_seconds())
        reasons = (*reasons, Message("index-stale", f"the index is {age} old"))
    if snapshot is None or reasons:
        return observed.plan("migrate", now, held=reasons)
    tried = _tried(observed.actions, index)
    left = allowance(observed, now)
    answers: list[Answer] = []
    for seen in _over(observed, snapshot.targets):
        reason = why_left_alone(observed, seen) or _open(seen)
        rows = [] if reason is not None else list(_moved(observed, seen, index, tried, now))
        fitting = rows[:left]
        left -= len(fitting)
        answers += fitting
        if reason is None and not rows:
            text = f"the index has no quiet file of {format_bytes(FEWEST_BYTES)} or more on it"
            reason = Message("no-candidates", text)
        elif reason is None and len(fitting) < len(rows):
            reason = TOO_MANY
        if reason is not None:
            answers.append(Untouched(seen.target.name, reason))
    return observed.plan("migrate", now, answers)


def _over(observed: SiteObserved, targets: Iterable[TargetSnapshot]) -> list[TargetSnapshot]:
    limit = observed.site.limits.fullness
    full = [
        seen for seen in targets if seen.target.kind == "ost" and (seen.fullness() or 0.0) > limit
    ]
    return sorted(full, key=lambda seen: (-(seen.fullness() or 0.0), seen.target.name))


def _open(seen: TargetSnapshot) -> Message | None:
    if seen.value("create_enabled") is False:
        return None
    text = "it takes new files: close it first, or they use up the freed space"
    return Message("target-open", text)


def _tried(actions: Iterable[Action], index: MovableFiles) -> frozenset[str]:
    """Return the files moved or found changed since the index was made; they are not retried."""
    rows = (row for row in actions if row.instruction.kind is ActionKind.MIGRATE)
    return frozenset(
        row.instruction.setting or ""
        for row in rows
        if row.at > index.ended_at and row.outcome not in _AGAIN and not row.is_interrupted
    )


def _moved(
    observed: SiteObserved,
    seen: TargetSnapshot,
    index: MovableFiles,
    tried: frozenset[str],
    now: datetime,
) -> Iterable[Instruction]:
    """Yield moves that bring a target below the mark, the file with the most bytes on it first."""
    name, fullness = seen.target.name, seen.fullness() or 0.0
    used, available = seen.number("used_bytes"), seen.number("available_bytes")
    if used is None or available is None:
        return
    excess = used - observed.site.limits.reopen * (used + available)
    rows = [
        file
        for file in index.files
        if name in file.targets
        and file.identity not in tried
        and file.allocated_bytes >= FEWEST_BYTES
        and now - file.changed_at >= QUIET
    ]
    for file in sorted(rows, key=lambda file: (-file.allocated_bytes, file.identity)):
        if excess <= 0:
            return
        excess -= file.allocated_bytes
        age = format_duration((now - file.changed_at).total_seconds())
        text = f"{name} is {format_percent(fullness)} full; {format_bytes(file.allocated_bytes)}"
        yield Instruction(
            ActionKind.MIGRATE, name, Message("target-full", f"{text}, unchanged for {age}"),
            server_of(seen), file.identity, file.state, file.path,
        )  # fmt: skip
