"""Limit how many OSTs may be closed, overall and in every pool.

Every OST that takes no new files counts, whoever closed it: full (``-28``), degraded, read-only,
disconnected or unknown. No more targets are closed in a pool with an unseen member, and none
anywhere if the pools are unknown. Lustre refuses a file with a default layout when more than a
quarter of the requested OSTs are missing, and one with an explicit stripe count when any is
(lod_stripe_count_min in lustre/lod/lod_qos.c).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.act.observed import Observed
from trimtab.act.targets import ABSENT, disconnected, unfit, unreached
from trimtab.message import Message
from trimtab.model.telemetry import NotAvailable, TargetSnapshot

ALL: Final = ""
"""Key of the group of all OSTs among the names of pools."""


def usable(seen: TargetSnapshot) -> bool:
    """Return whether a target is known to take new files."""
    return seen.value("create_enabled") is True and is_fit(seen)


def is_fit(seen: TargetSnapshot) -> bool:
    """Return whether a target can take new files while open."""
    return unfit(seen) is None and disconnected(seen) is None


@dataclass(slots=True)
class _Group:
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


class Caps:
    """The groups while a plan is made; each closing and opening counts at once.

    Attributes
    ----------
    unseen
        OSTs of unknown state, each with the reason.
    """

    def __init__(self, observed: Observed, targets: Sequence[TargetSnapshot]) -> None:
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
        self._of: dict[str, list[_Group]] = {name: [] for name in names}
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

    def _group(self, observed: Observed, pool: str, members: frozenset[str]) -> _Group:
        policy, size = observed.site.policies.balance, len(members)
        unusable = sum(not self._usable.get(name, False) for name in members)
        unknown = sum(name not in self._usable or name in self._unknown for name in members)
        title = "all OSTs" if pool == ALL else f"pool {pool}"
        return _Group(
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


def _unseen(observed: Observed, targets: Sequence[TargetSnapshot]) -> dict[str, Message]:
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
