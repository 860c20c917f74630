"""Where an item of the agenda goes on, by what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.config.schedule import parse_schedule
from trimtab.errors import TrimtabError
from trimtab.loop.watching.agenda import (
    Agenda,
    Begin,
    Item,
    Position,
    Work,
    decide,
    position,
)
from trimtab.loop.watching.store_retry import Patience
from trimtab.record.slots import Slot, SlotState

if TYPE_CHECKING:
    from trimtab.record.store import Store

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Resumption:
    """What it takes to find an item's place.

    Attributes
    ----------
    site
        Its name.
    miss
        Keeps what was missed: a `Miss` or a `MissMany`.
    """

    site: str
    store: Store
    patience: Patience
    miss: Callable[[Work], object]

    def position(self, item: Item, now: datetime) -> Position:
        """Return how far an item has come by what is kept; new items begin now."""
        begun, last = self._begun(item, now), self._last(item, now)
        if begun is not None and last is not None:
            if begun.detail == str(item.schedule):
                return position(item, last.due_at)
            self._settle(item, begun, last, now)
        slot = Slot(self.site, item.name, now, SlotState.BEGUN, detail=str(item.schedule))
        if not self._begin(slot):
            self._begin(replace(slot, due_at=now + _MICROSECOND))
        return position(item, now)

    def settle_before(self, item: Item, now: datetime) -> None:
        """Keep what was missed before the latest slot: a later one hides it from the next watch."""
        if self._begun(item, now) is None:
            return  # nothing watched it, so nothing was missed
        self._keep_missed(self.position(item, now), item.latest(item.until(now)))

    def _settle(self, item: Item, begun: Slot, last: Slot, now: datetime) -> None:
        """Keep what was missed by the schedule that an item had before."""
        try:
            before = replace(item, schedule=parse_schedule(begun.detail or ""))
        except TrimtabError:
            return  # of a program that knew more kinds of schedules
        self._keep_missed(position(before, last.due_at), now)

    def _keep_missed(self, place: Position, then: datetime) -> None:
        for work in decide(Agenda(alive_since=then, positions=(place,)), then):
            if not isinstance(work, Begin):
                self.miss(work)

    def _begun(self, item: Item, now: datetime) -> Slot | None:
        return self.patience.keep(
            "reading slots",
            lambda: self.store.last_slot(self.site, item.name, until=now, state=SlotState.BEGUN),
        )

    def _last(self, item: Item, now: datetime) -> Slot | None:
        return self.patience.keep(
            "reading slots", lambda: self.store.last_slot(self.site, item.name, until=now)
        )

    def _begin(self, slot: Slot) -> bool:
        return self.patience.keep("beginning", lambda: self.store.finish_slot(slot))
