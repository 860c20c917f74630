"""Decide which targets to trim, in which order, and which to leave.

A target is due after a given amount written or a given time since its last trim. The one with the
greatest need comes first. One target at a time is trimmed per server, or per group of servers that
share an enclosure: the stage of an instruction is its turn. A target is trimmed on the server that
currently serves it, only if nothing else trims it, and not during a rebuild or recovery.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.act.decide.site_observed import (
    ABSENT,
    TOO_MANY,
    SiteObserved,
    allowance,
    held,
    server_of,
    up_before_s,
    why_left_alone,
)
from trimtab.base.action import (
    CLOCK_S,
    Action,
    ActionKind,
    Instruction,
    Ledger,
    Outcome,
    Plan,
    Untouched,
    ended_at,
    last_trim,
    number_of,
)
from trimtab.base.error import Message
from trimtab.base.snapshot import NotAvailable, TargetSnapshot
from trimtab.base.units import format_bytes, format_duration, format_percent

RETRY: Final = timedelta(hours=6)
"""A failed trim is not retried within this time."""


@dataclass(frozen=True, slots=True)
class _Due:
    """A target that is due; ``need`` is 1 when it has just become due."""

    seen: TargetSnapshot
    need: float
    reason: Message


def decide_trims(observed: SiteObserved, now: datetime) -> Plan:
    """Return the trims that are due, by stage and then by need."""
    snapshot = observed.snapshot
    reasons = held(observed, "trim", now)
    if snapshot is None or reasons:
        return observed.plan("trim", now, held=reasons)
    ledger = Ledger(observed.actions)
    due = [
        row for seen in snapshot.targets if (row := _due(observed, ledger, seen, now)) is not None
    ]
    ready: list[_Due] = []
    left = allowance(observed, now)
    untouched = list(_absent(observed))
    for row in sorted(due, key=lambda row: (-row.need, row.seen.target.name)):
        name = row.seen.target.name
        reason = (
            _trimmed_otherwise(observed, row.seen)
            or why_left_alone(observed, row.seen)
            or _failed(ledger.last_tried(name, str(ActionKind.TRIM)), now)
            or _outside(observed, now)
        )
        if reason is None and len(ready) >= left:
            reason = TOO_MANY
        if reason is None:
            ready.append(row)
        else:
            untouched.append(Untouched(name, reason))
    return observed.plan("trim", now, [*_in_turns(observed, ready), *untouched])


def _due(
    observed: SiteObserved, ledger: Ledger, seen: TargetSnapshot, now: datetime
) -> _Due | None:
    """Return the target if it is due, by bytes written or by time."""
    policy = observed.site.policies.trim
    tried = ledger.last_tried(seen.target.name, str(ActionKind.TRIM))
    if tried is not None and tried.outcome is not Outcome.DONE and tried.is_interrupted:
        text = "its last trim was interrupted: the rest remains"
        return _Due(seen, math.inf, Message("trim-interrupted", text))
    last = ledger.last_done(seen.target.name, str(ActionKind.TRIM))
    trimmed_at = last_trim(seen, [] if last is None else [ended_at(last)], now)
    if trimmed_at is None:
        text = "no trim on record"
        return _Due(seen, math.inf, Message("never-trimmed", text))
    age_s = (now - trimmed_at).total_seconds()
    by_time = age_s / policy.every_s
    written, capacity = (
        written_since(observed, seen, last, trimmed_at),
        seen.number("capacity_bytes"),
    )
    share = written.amount_bytes / capacity if written is not None and capacity else 0.0
    by_writes = share / policy.written
    if max(by_time, by_writes) < 1.0:
        return None
    text = f"trimmed {format_duration(age_s)} ago"
    if by_writes >= 1.0 and written is not None:
        amount = f"{format_bytes(written.amount_bytes)}, {format_percent(share)} of its capacity,"
        amount = f"at least {amount}" if written.at_least else amount
        reason = Message("writes-since-trim", f"{amount} were written to it; {text}")
    else:
        reason = Message("time-since-trim", text)
    return _Due(seen, max(by_time, by_writes), reason)


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes written to a target; a lower bound if a counter was reset."""

    amount_bytes: float
    at_least: bool


def written_since(
    observed: SiteObserved, seen: TargetSnapshot, last: Action | None, trimmed_at: datetime
) -> Written | None:
    """Return the bytes written since the last trim; ``None`` if unknown.

    They are taken from the counter recorded with the trim, or else from the rate since the
    baseline.

    Notes
    -----
    ``bytes_written_total`` belongs to one server's device and starts at 0 when that server boots;
    after a failover the other server's counter is separate. ``session_bytes_written_total`` starts
    with the mount. A counter that started after the trim gives a lower bound.
    """
    if observed.snapshot is None:
        return None
    now, baseline = observed.snapshot.at, observed.baseline
    earlier = None if baseline is None else baseline.of(seen.target.name)
    before = None if earlier is None else earlier.number("bytes_written_total")
    since_baseline = (
        None
        if earlier is None or baseline is None or before is None
        else _counted(seen, now, before, server_of(earlier), baseline.at)
    )
    # The system's own time of the same trim differs by moments.
    if last is not None and trimmed_at <= ended_at(last) + timedelta(seconds=CLOCK_S):
        noted = number_of(last, "bytes_written_total")
        if noted is not None:
            known = _counted(seen, now, noted, last.instruction.server, ended_at(last))
            if baseline is None or baseline.at < trimmed_at:
                return known
            return _more(known, since_baseline)
    if baseline is None or since_baseline is None:
        return None
    span_s = (now - baseline.at).total_seconds()
    since_s = (now - trimmed_at).total_seconds()
    if min(span_s, since_s) <= 0:
        return None
    return replace(since_baseline, amount_bytes=since_baseline.amount_bytes * since_s / span_s)


def _counted(
    seen: TargetSnapshot, now: datetime, before: float, server: str | None, then: datetime
) -> Written | None:
    """Return the bytes written since a server's counter was at ``before``."""
    counter, up_then_s = seen.number("bytes_written_total"), up_before_s(seen, now, then)
    if server is None or server == server_of(seen):
        if counter is None:
            return None
        rebooted = counter < before or (up_then_s is not None and up_then_s < -CLOCK_S)
        known = up_then_s is not None and up_then_s > CLOCK_S
        return Written(counter if rebooted else counter - before, rebooted or not known)
    session = seen.number("session_bytes_written_total")
    if counter is not None and up_then_s is not None and up_then_s < -CLOCK_S:
        session = max(counter, session or 0.0)
    return None if session is None else Written(session, at_least=True)


def _more(first: Written | None, second: Written | None) -> Written | None:
    """Return the exact value if there is one, else the larger lower bound."""
    if first is None or second is None or not first.at_least:
        return first or second
    return max(first, second, key=lambda written: written.amount_bytes)


def _trimmed_otherwise(observed: SiteObserved, seen: TargetSnapshot) -> Message | None:
    """Return a reason if something else trims a target, may do so, or it does not support trims."""
    practice = observed.practices.get(seen.target.name)
    if isinstance(practice, NotAvailable):
        return Message(
            "practice-unknown", f"unknown whether the system trims it: {practice.reason}"
        )
    option = _mount_option(seen) if practice is None else practice.mount_option
    if option is not None:
        return Message("trimmed-by-mount", f"the mount option {option} trims it")
    if practice is not None and practice.has_mechanism:
        also = ", ".join(("fstrim.timer",) * bool(practice.timer_active) + practice.scheduled)
        return Message("trimmed-by-schedule", f"{also} trims it")
    if seen.value("discard_granularity_bytes") == 0:
        return Message("no-discard", "its device does not support discard")
    return None


def _mount_option(seen: TargetSnapshot) -> str | None:
    words = (seen.shown("mount/options") or "").split(",")
    return next((w for w in words if w.partition("=")[0] in {"discard", "fstrim"}), None)


def _failed(last: Action | None, now: datetime) -> Message | None:
    if last is None or last.outcome is Outcome.DONE or now - ended_at(last) >= RETRY:
        return None
    if last.is_interrupted:
        return None
    detail = f": {last.detail}" if last.detail else ""
    return Message("trim-failed", f"the last trim ended as {last.outcome or 'unknown'}{detail}")


def _outside(observed: SiteObserved, now: datetime) -> Message | None:
    window, zone = observed.site.policies.trim.window, observed.site.timezone
    if window is None or window.holds_at(now, zone):
        return None
    return Message("outside-window", f"trims begin only within {window} ({zone})")


def _absent(observed: SiteObserved) -> Iterator[Untouched]:
    """Yield the targets that the site file lists but the snapshot lacks."""
    assert observed.snapshot is not None
    present = {seen.target.name for seen in observed.snapshot.targets}
    for name in sorted(set(observed.site.servers.home) - present):
        yield Untouched(name, ABSENT)


def _in_turns(observed: SiteObserved, ready: list[_Due]) -> list[Instruction]:
    """Return the instructions with their turns, one per server or enclosure in each."""
    enclosures = {
        server: f"enclosure {number}"
        for number, servers in enumerate(observed.site.policies.trim.enclosures)
        for server in servers
    }
    turns: dict[str, int] = {}
    instructions = []
    for row in ready:
        server = server_of(row.seen) or ""
        group = enclosures.get(server, f"server {server}")
        turn = turns.get(group, 0)
        turns[group] = turn + 1
        instructions.append(
            Instruction(
                ActionKind.TRIM, row.seen.target.name, row.reason, server or None, stage=turn
            )
        )
    return sorted(instructions, key=lambda instruction: instruction.stage)
