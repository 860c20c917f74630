"""The plan that a policy makes from what was observed, limited to the targets asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from trimtab.act.decide import allocator_reset, balance, migration, reverting, trimming, tunables
from trimtab.act.decide.site_observed import SiteObserved
from trimtab.base.action import Plan
from trimtab.base.error import UsageError
from trimtab.base.name_set import unfold_targets
from trimtab.base.visible import visible

CONTROLLERS: Final[dict[str, Callable[[SiteObserved, datetime], Plan]]] = {
    "tunables": tunables.decide,
    "allocator": allocator_reset.decide,
    "trim": trimming.decide,
    "balance": balance.decide,
}
"""Policy to the function that plans it."""


def decided(observed: SiteObserved, policy: str, now: datetime) -> Plan:
    """Return the plan of one of `CONTROLLERS`."""
    return CONTROLLERS[policy](observed, now)


def planned_by(
    observed: SiteObserved,
    policy: str,
    now: datetime,
    action: str | None,
    index: Callable[[], migration.MovableFiles] | None,
) -> Plan:
    """Return what a policy makes of what was observed."""
    if policy in CONTROLLERS:
        plan = decided(observed, policy, now)
    elif policy == "migrate":
        if index is None:
            raise UsageError(
                "which files lie on a target is told by an index",
                code="index-missing",
                hint="make one: trimtab purge scan ROOT --index DIR; then name it with --index DIR",
            )
        plan = migration.decide(observed, index(), now)
    elif policy == "again":
        plan = tunables.decide(observed, now, again=True)
    else:
        named = _named(observed, action)
        plan = reverting.decide(observed, named, now, reopening=policy == "reopen")
    return plan


def narrowed(plan: Plan, observed: SiteObserved, targets: str) -> Plan:
    """Return what a plan has for the targets that were named."""
    names = _known(observed, unfold_targets(targets))
    return replace(
        plan,
        instructions=tuple(each for each in plan.instructions if each.target in names),
        untouched=tuple(each for each in plan.untouched if each.target in names),
    )


def _named(observed: SiteObserved, prefix: str | None) -> str | None:
    """Return the id of the one action that begins so.

    Raises
    ------
    UsageError
        There is none, or there are several.
    """
    if prefix is None:
        return None
    named = [each.id for each in observed.actions if each.id.startswith(prefix)]
    if len(named) == 1:
        return named[0]
    problem = f"{len(named)} actions have" if named else "no action that may be in force has"
    raise UsageError(
        f"{problem} an id that begins with {visible(prefix[:40])!r}",
        code="action-ambiguous" if named else "action-unknown",
        hint=f"list them: trimtab actions {observed.site.name}",
    )


def _known(observed: SiteObserved, names: tuple[str, ...]) -> frozenset[str]:
    snapshot = observed.snapshot
    known = set() if snapshot is None else {target.target.name for target in snapshot.targets}
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no target {visible(name[:80])!r}",
                code="target-unknown",
                hint=f"known: {', '.join(sorted(known)[:12])}",
            )
    return frozenset(names)
