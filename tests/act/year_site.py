"""The site of the year: what is wanted of it, and its OSTs as they truly are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trimtab.base.action import Action
from trimtab.base.site import Site
from trimtab.base.site_policy import AllocatorPolicy, BalancePolicy, Policies, TrimPolicy
from trimtab.base.site_policy import TunablesPolicy as Tunables

START: Final = datetime(2027, 1, 1, tzinfo=UTC)
WBT: Final = "drives/queue/wbt_lat_usec"
C2: Final = "ldiskfs/md0/mb_c2_threshold"
POINTER: Final = "ldiskfs/md0/mb_last_group"
CREATE: Final = "osp/max_create_count"
DEFAULTS: Final = {WBT: "2000", C2: "15", CREATE: "20000", POINTER: "0"}
OURS: Final = {WBT: "0", C2: "25"}
OF_ADMINS: Final = {WBT: ("75000", "500"), C2: ("35", "10")}
CAPACITY: Final = 100 * 2**40
OSTS: Final = 8
SOURCE: Final = "the year"
MINUTE: Final = timedelta(minutes=1)
POLICIES: Final = Policies(
    tunables=Tunables(settings=OURS),
    allocator=AllocatorPolicy(useless_loops=None),
    trim=TrimPolicy(range_bytes=CAPACITY // 2, enclosures=(("oss0", "oss1"),)),
    balance=BalancePolicy(most_closed=0.25, widest_stripe=5),
    most_per_hour=12,
)
SITE: Final = Site(name="year", driver="lustre", path="/year", policies=POLICIES)
MOST_CLOSED: Final = 2
"""A quarter of eight."""
NEEDED: Final = 6
"""Usable targets that layouts need: all but a quarter, and five for the widest stripe."""


class KilledError(BaseException):
    """The process that acts is killed here."""


@dataclass(slots=True)
class Ost:
    """An OST as it truly is.

    Attributes
    ----------
    closed_by_us
        When Trimtab closed it, while that closing is in force.
    under_since
        Since when it is under the mark for opening, without a break.
    writes
        Of each setting: who wrote it, ``us`` or others, and what, oldest first.
    admin_at
        When an admin last set each.
    visits
        Of a setting and who sets it: during which visit it last was.
    taken_for_ours
        Settings and values of others, set in a visit after we wrote them.
    """

    name: str
    home: str
    full: float
    server: str = ""
    degraded: bool = False
    written: float = 0.0
    trimmed_at: datetime | None = None
    closed_by_us: datetime | None = None
    changed_at: datetime | None = None
    under_since: datetime | None = None
    settings: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    writes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    admin_at: dict[str, datetime] = field(default_factory=dict)
    visits: dict[tuple[str, str], int] = field(default_factory=dict)
    taken_for_ours: set[tuple[str, str]] = field(default_factory=set)

    def put(self, setting: str, value: str, who: str) -> None:
        """Let somebody set something."""
        self.settings[setting] = value
        self.writes.setdefault(setting, [("default", DEFAULTS[setting])]).append((who, value))
        if setting == CREATE and value != "0":
            self.closed_by_us = None

    @property
    def is_open(self) -> bool:
        """Whether its MDS would place new files on it."""
        return self.settings[CREATE] != "0"

    @property
    def takes_files(self) -> bool:
        """Whether it is open and not full."""
        return self.is_open and self.full < 0.96


def with_facts(store: Any, site: str, actions: Sequence[Action], **_: object) -> tuple[Action, ...]:
    """Return actions of which a few made their target slower, the same ones each time."""
    return tuple(
        replace(action, facts={**action.facts, "slower": "0.2"})
        if random.Random(f"{action.at} {action.instruction.target}").random() < 0.01
        else action
        for action in actions
    )
