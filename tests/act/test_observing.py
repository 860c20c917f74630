"""Which part of the ledger decisions rest on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.act.world import NOW, MemoryStore, action
from tests.act.year_site import SITE

from trimtab.act import observing
from trimtab.base.action import ActionKind

DAY_S = 86400.0


def test_what_may_be_in_force_is_known_however_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        observing, "with_verdicts", lambda store, site, actions, **_: tuple(actions)
    )
    store: Any = MemoryStore(tmp_path / "t.db")
    ages = {
        ActionKind.SET: (400 * DAY_S, 60.0),
        ActionKind.CLOSE: (31 * DAY_S,),
        ActionKind.OPEN: (40 * DAY_S,),
        ActionKind.TRIM: (3 * DAY_S, 1 * DAY_S),
        ActionKind.RESET_ALLOCATOR: (3 * 3600.0, 1800.0),
    }
    for kind, seconds in ages.items():
        for age_s in seconds:
            store.put_action(action(kind, "OST0000", age_s, identifier=f"{kind.value} {age_s:.0f}"))
    known = observing.ledger(store, SITE, NOW)
    assert [each.id for each in known] == [
        f"set {400 * DAY_S:.0f}",
        f"open {40 * DAY_S:.0f}",
        f"close {31 * DAY_S:.0f}",
        f"trim {DAY_S:.0f}",
        "reset-allocator 1800",
        "set 60",
    ]


def test_each_action_of_long_ago_is_read_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = MemoryStore(tmp_path / "t.db")
    for day in range(90):
        for kind in (ActionKind.CLOSE, ActionKind.OPEN):
            store.put_action(action(kind, "OST0000", day * DAY_S, identifier=f"{kind} {day:02}"))
    read: list[int] = []
    actions = store.actions

    def counting(*arguments: Any, **more: Any) -> Any:
        answer = actions(*arguments, **more)
        read.append(len(answer))
        return answer

    monkeypatch.setattr(store, "actions", counting)
    long_ago = observing.LongAgo()
    hours = [NOW + timedelta(hours=hour) for hour in range(23)]
    known = [long_ago.before(store, SITE.name, now - observing.LEDGER) for now in hours]
    assert len(known[-1]) == 1
    assert read[0] > 100
    assert sum(read[1:]) <= 2
    assert known[-1] == observing.LongAgo().before(store, SITE.name, hours[-1] - observing.LEDGER)
    # A clock that went back, and a new day: all of it is read again.
    for now in (NOW - timedelta(hours=1), NOW + timedelta(days=2)):
        long_ago.before(store, SITE.name, now - observing.LEDGER)
        assert read[-1] > 100
