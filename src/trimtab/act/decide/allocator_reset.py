"""Decide when to reset the block allocator's pointer to the first group of a target.

ldiskfs starts its search where it last placed a stream. Where a target is full, it loops over
groups without a result; from the first group it finds space freed since. Sites reset the pointer
every 15 minutes.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from trimtab.act.decide.holding import held
from trimtab.act.decide.setting_value import leaf_of
from trimtab.act.decide.site_observed import Answer, SiteObserved, server_of, why_left_alone
from trimtab.base.action import ActionKind, Instruction, Ledger, Plan, Untouched, ended_at
from trimtab.base.error import Message
from trimtab.base.snapshot import NotAvailable, Setting, TargetSnapshot
from trimtab.base.units import format_duration, format_percent

_POINTERS: Final = frozenset({"mb_last_group", "mb_last_groups"})
"""Linux 6.17 renamed it: one line ``N# GROUP`` per pointer, and one write sets all of them."""


def decide(observed: SiteObserved, now: datetime) -> Plan:
    """Return which targets' pointers to reset now.

    A target is due if its pointer is not at the first group, the share of requests that looped
    without finding space since the baseline reaches the policy's limit, and the interval since its
    last reset has passed.
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
