"""A site of a few targets at one time, its ledger and its store, as controllers see them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trimtab.act.decide.site_observed import SiteObserved
from trimtab.base.action import Action, ActionKind, Instruction, Outcome, Plan
from trimtab.base.error import Message, RefusedError
from trimtab.base.event import Event, EventKind
from trimtab.base.maintenance_window import MaintenanceWindow, windows_of
from trimtab.base.site import Servers, Site, SiteLimits
from trimtab.base.site_policy import Policies
from trimtab.base.snapshot import (
    NotAvailable,
    Reading,
    Setting,
    Snapshot,
    Target,
    TargetSnapshot,
    not_available,
)
from trimtab.store.kept_period import Sums
from trimtab.store.slot import Slot

# A site of a few targets at one time, and its ledger, as controllers see them.

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
TIB = 2**40
WBT = "drives/queue/wbt_lat_usec"
CREATE = "osp/max_create_count"
UNREADABLE = not_available("permission-denied", "permission denied")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def ost(
    number: int,
    full: float | None = 0.5,
    *,
    server: str | None = None,
    settings: Mapping[str, str | NotAvailable] | None = None,
    kind: str = "ost",
    labelled: Mapping[Any, Any] | None = None,
    **readings: Any,
) -> TargetSnapshot:
    """Return a target: two of them on a server, open and healthy unless readings say otherwise."""
    name = f"{kind.upper()}{number:04}"
    values: dict[tuple[str, str | None], Any] = {
        ("capacity_bytes", None): 100 * TIB,
        ("used_bytes", None): None if full is None else round(full * 1e6),
        ("available_bytes", None): None if full is None else round((1 - full) * 1e6),
        ("server", None): server or f"oss{number // 2}",
        ("create_enabled", None): True,
        ("degraded", None): False,
        ("read_only", None): False,
        ("import_state", None): "FULL",
        **{(key, None): value for key, value in readings.items()},
    }
    values |= labelled or {}
    rows = tuple(
        Reading(key, value, f"{name} of a test", "not known" if value is None else None, label)
        for (key, label), value in values.items()
    )
    texts = {} if settings is None else settings
    return TargetSnapshot(
        Target(name, kind, str(values["server", None])),
        rows,
        {
            key: text if isinstance(text, NotAvailable) else Setting(key, text, "a test")
            for key, text in texts.items()
        },
    )


def site(limits: SiteLimits | None = None, home: Mapping[str, str] | None = None, **policies: Any):
    return Site(
        name="small",
        driver="lustre",
        path="/small",
        limits=limits or SiteLimits(),
        servers=Servers(home=home or {}),
        policies=Policies(**policies),
    )


def snapshot(targets: Iterable[TargetSnapshot], age_s: float = 30.0, **changes: Any) -> Snapshot:
    return replace(Snapshot(ago(age_s), "lustre", True, tuple(targets)), **changes)


def seen(
    targets: Iterable[TargetSnapshot], where: Site | None = None, **changes: Any
) -> SiteObserved:
    return replace(SiteObserved(where or site(), snapshot(targets)), **changes)


_NUMBERS = iter(range(10**9))


def action(
    kind: ActionKind,
    target: str,
    age_s: float,
    *,
    outcome: Outcome | None = Outcome.DONE,
    policy: str = "tunables",
    setting: str | None = None,
    before: str | None = None,
    value: str | None = None,
    stage: int = 0,
    reverts: tuple[str, ...] = (),
    found: str | None = None,
    identifier: str | None = None,
    **facts: str,
) -> Action:
    """Return a row of the ledger that ended so many seconds ago."""
    return Action(
        id=identifier or f"a{next(_NUMBERS):06}",
        site="small",
        policy=policy,
        plan="0" * 16,
        who="root@adm",
        at=ago(age_s + 1),
        instruction=Instruction(
            kind, target, Message("test", "a test"), None, setting, before, value, stage,
            reverts=reverts,
        ),
        until=None if outcome is None else ago(age_s),
        outcome=outcome,
        found=found,
        facts=facts,
    )  # fmt: skip


def closing(target: str = "OST0000", age_s: float = 86400.0, **changes: Any) -> Action:
    """Return the closing of a target by balance; a day ago, unless said otherwise."""
    keys: dict[str, Any] = {"setting": CREATE, "before": "20000", "value": "0", "policy": "balance"}
    return action(ActionKind.CLOSE, target, age_s, **(keys | changes))


def codes(plan: Plan) -> dict[tuple[str, str | None], str]:
    """Return the code of each reason to leave something as it is."""
    return {(row.target, row.setting): row.reason.code for row in plan.untouched}


def held_by(plan: Plan) -> list[str]:
    return [reason.code for reason in plan.held]


def writes(plan: Plan) -> list[tuple[str, str, str | None]]:
    return [(row.kind.value, row.target, row.value) for row in plan.instructions]


def targets_in(observed: SiteObserved) -> tuple[TargetSnapshot, ...]:
    """Return the targets of the snapshot that there is."""
    assert observed.snapshot is not None
    return observed.snapshot.targets


def retaken(observed: SiteObserved, **changes: Any) -> SiteObserved:
    """Return a site whose snapshot differs so."""
    assert observed.snapshot is not None
    return replace(observed, snapshot=replace(observed.snapshot, **changes))


def carried_out(observed: SiteObserved, plan: Plan, at: datetime) -> SiteObserved:
    """Return the site after every instruction of a plan was done, and read at that time."""
    targets = {row.target.name: row for row in targets_in(observed)}
    rows = list(observed.actions)
    for instruction in plan.instructions:
        targets[instruction.target] = _changed(targets[instruction.target], instruction)
        rows.append(
            Action(
                f"b{next(_NUMBERS):06}", "small", plan.policy, plan.id, "root@adm", at, instruction,
                at, Outcome.DONE, instruction.value,
            )
        )  # fmt: skip
    read = retaken(observed, at=at, targets=tuple(targets.values()))
    return replace(read, actions=tuple(rows))


def _changed(row: TargetSnapshot, instruction: Instruction) -> TargetSnapshot:
    settings = dict(row.settings)
    if instruction.setting is not None and instruction.value is not None:
        setting = Setting(instruction.setting, instruction.value, "a test")
        settings[instruction.setting] = setting
    readings = row.readings
    if instruction.kind in {ActionKind.CLOSE, ActionKind.OPEN}:
        is_open = instruction.kind is ActionKind.OPEN
        readings = tuple(
            replace(reading, value=is_open, reason=None)
            if reading.name == "create_enabled"
            else reading
            for reading in readings
        )
    return replace(row, readings=readings, settings=settings)


# What acting needs of a store, in memory: tests of the store itself are in ``tests/store``.


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

    def windows(self, site: str, *, since: datetime | None = None) -> tuple[MaintenanceWindow, ...]:
        """Return the maintenance windows among the events."""
        return windows_of(self._events)

    def results(self, site: str, kind: str, **_which: object) -> tuple[()]:
        """It never has results of commands."""
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

    def snapshot_times(self, site: str, **_which: object) -> tuple[()]:
        """Return none: a forecast of fullness is no part of what is decided."""
        return ()

    def ensure_site(self, name: str, **facts: Any) -> None:
        """Know a site already."""

    def open_slots(self, site: str) -> tuple[Any, ...]:
        """Return that no probe runs."""
        return ()

    def last_survey(self, site: str) -> tuple[Any, ...]:
        """Return that there was none."""
        return ()
