"""What acting needs of a store, in memory: tests of the store itself are in ``tests/store``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trimtab.base.action import Action, ActionKind
from trimtab.base.error import RefusedError
from trimtab.base.event import Event, EventKind
from trimtab.base.snapshot import Snapshot
from trimtab.store.kept import Sums
from trimtab.store.slot import Slot


class MemoryStore:
    """A store that many processes open, one after another; what was written stays."""

    def __init__(self, path: Path) -> None:
        self.location = SimpleNamespace(path=path)
        self._events: list[Event] = []
        self._actions: dict[str, Action] = {}
        self._snapshots: list[Snapshot] = []
        self._right: tuple[int, str | None, datetime | None] = (0, None, None)

    def __enter__(self) -> MemoryStore:
        """Open it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""

    def incidents(self, site: str) -> tuple[()]:
        """Return no incident: none was ever searched for."""
        return ()

    def sums(self, site: str) -> Sums:
        """Return no sum: so short a record is judged anew."""
        return Sums()

    def series(self, site: str) -> tuple[()]:
        """Return no series: no run is kept."""
        return ()

    def judged(self, site: str) -> None:
        """Return when incidents were searched for: never."""

    def take_right(
        self, site: str, holder: str, *, now: datetime, until: datetime, gone: Callable[[str], bool]
    ) -> int:
        """Take the right to act."""
        token, other, end = self._right
        taken = other is not None and end is not None and end > now
        if taken and other != holder and not gone(str(other)):
            raise RefusedError("another process has it", code="site-acted-on-elsewhere")
        self._right = (token + 1, holder, until)
        return token + 1

    def renew_right(self, site: str, token: int, until: datetime) -> bool:
        """Put off its end, where the token is the newest."""
        newest, holder, _ = self._right
        if newest == token and holder is not None:
            self._right = (token, holder, until)
            return True
        return False

    def release_right(self, site: str, token: int) -> None:
        """Give it back."""
        if self._right[0] == token:
            self._right = (token, None, None)

    def put_action(self, action: Action) -> None:
        """Keep an action in place of what has its id."""
        self._actions[action.id] = action

    def actions(
        self,
        site: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Collection[ActionKind] | None = None,
    ) -> tuple[Action, ...]:
        """Return actions by the time at which they began."""
        chosen = (
            action
            for action in self._actions.values()
            if (since is None or action.at >= since)
            and (until is None or action.at <= until)
            and (kinds is None or action.instruction.kind in kinds)
        )
        return tuple(sorted(chosen, key=lambda action: action.at))

    def add_event(self, event: Event) -> None:
        """Keep an event."""
        self._events.append(event)

    def events(
        self,
        *,
        site: str,
        since: datetime | None = None,
        until: datetime | None = None,
        kinds: Collection[EventKind] = (),
    ) -> tuple[Event, ...]:
        """Return events that began within a stretch, of all kinds or of some."""
        return tuple(
            event
            for event in self._events
            if (since is None or event.at >= since)
            and (until is None or event.at <= until)
            and (not kinds or event.kind in kinds)
        )

    def slots(self, site: str, **_which: object) -> tuple[Slot, ...]:
        """Return no slot: nothing is scheduled here."""
        return ()

    def add_snapshot(self, site: str, snapshot: Snapshot) -> None:
        """Keep a snapshot."""
        self._snapshots.append(snapshot)

    def latest_snapshot(self, site: str, at: datetime | None = None) -> Snapshot | None:
        """Return the newest, up to a time."""
        until = (kept for kept in self._snapshots if at is None or kept.at <= at)
        return max(until, key=lambda kept: kept.at, default=None)

    def ensure_site(self, name: str, **facts: Any) -> None:
        """Know a site already."""

    def open_slots(self, site: str) -> tuple[Any, ...]:
        """Return that no probe runs."""
        return ()

    def last_survey(self, site: str) -> tuple[Any, ...]:
        """Return that there was none."""
        return ()
