"""Which OSTs to close to new files, and which to open again.

A target above ``limits.fullness`` is closed, one below ``limits.reopen`` is opened; between the two
marks, and within the dwell time after its last change, it stays as it is. Caps bound closing
(`trimtab.act.caps`): enough OSTs, overall and in every pool, stay usable for the layouts in use.
When a cap binds, the fullest targets are closed and the rest reported. A closed target is not
swapped for a fuller one: both are above the limit, and each swap costs two changes and moves the
load again.

No cap limits opening. Targets that others closed are never opened here, and count towards the caps.
If those closings or failures leave fewer usable targets than layouts need, targets that Trimtab
closed are opened regardless of dwell time, emptiest first: new files on a full target are the
smaller evil.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.act.caps import Caps, is_fit, usable
from trimtab.act.holding import TOO_MANY, allowance, held, incomplete, undone
from trimtab.act.ledger import Ledger, closed_by_us, ended_at
from trimtab.act.observed import Answer, Observed
from trimtab.act.targets import closed_in_part, server_of, why_left_alone
from trimtab.act.values import is_same, unfolded
from trimtab.message import Message
from trimtab.model.action import Action, ActionKind, Instruction, Plan, Untouched
from trimtab.model.telemetry import NotAvailable, TargetSnapshot
from trimtab.units import format_duration, format_percent

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


def decide(observed: Observed, now: datetime) -> Plan:
    """Return which targets to open and, after them, which to close, the fullest first."""
    snapshot = observed.snapshot
    reasons = held(observed, "balance", now, giving_back=True)
    if snapshot is None or reasons:
        return observed.plan("balance", now, held=reasons)
    gates = _gates(observed)
    caps = Caps(observed, [gate.seen for gate in gates])
    answers = _openings(observed, gates, caps, now)
    cautions = held(observed, "balance", now) or _unexplained(observed, caps)
    left = () if any(isinstance(answer, Instruction) for answer in answers) else cautions
    if cautions:
        over = [gate for gate in gates if _is_over(observed, gate) and gate.open_]
        answers += [Untouched(gate.name, cautions[0]) for gate in over]
    else:
        answers += _closings(observed, gates, caps, now)
    return observed.plan("balance", now, answers, left)


def _unexplained(observed: Observed, caps: Caps) -> tuple[Message, ...]:
    """Return a caution if the incomplete snapshot may lack an OST that no other source lists."""
    snapshot = observed.snapshot
    clients = () if snapshot is None else (host for host in snapshot.hosts if host.role == "client")
    if caps.unseen or any(client.problem is not None for client in clients):
        return ()
    return tuple(incomplete(observed))


def _gates(observed: Observed) -> list[Gate]:
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


def _openings(observed: Observed, gates: list[Gate], caps: Caps, now: datetime) -> list[Answer]:
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


def _closings(observed: Observed, gates: Sequence[Gate], caps: Caps, now: datetime) -> list[Answer]:
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


def _closing(observed: Observed, gate: Gate) -> Instruction | Message:
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


def _is_over(observed: Observed, gate: Gate) -> bool:
    limits = observed.site.limits
    return gate.fullness is not None and gate.fullness > max(limits.fullness, limits.reopen)


def _dwelling(observed: Observed, gate: Gate, now: datetime) -> Message | None:
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
