"""The ledger of actions, and the right to act."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.codes import raises

from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message, RefusedError, UsageError
from trimtab.base.event import new_identifier
from trimtab.store.store import Store

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=30)


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "t.db") as opened:
        yield opened


def action(at: datetime = NOW, **changes: Any) -> Action:
    instruction = Instruction(
        ActionKind.SET,
        "OST0003",
        Message("setting-differs", "2000 is not 0"),
        server="oss1",
        setting="drives/queue/wbt_lat_usec",
        before="2000",
        value="0",
        stage=1,
    )
    values: dict[str, Any] = {"policy": "tunables", "plan": "0" * 16, "who": "root@login1"}
    return Action(new_identifier(at), "s", at=at, instruction=instruction, **(values | changes))


def test_an_action_is_kept_before_and_after(store: Store) -> None:
    begun = action(facts={"range": "0"})
    store.put_action(begun)
    assert store.actions("s") == (begun,)
    assert store.actions("s")[0].instruction.reason.code == "setting-differs"
    ended = replace(begun, until=LATER, outcome=Outcome.NOT_STORED, found="2000", detail="\udcff")
    store.put_action(ended)
    assert store.actions("s") == (ended,)
    assert store.action("s", begun.id[:30]) == ended


def test_actions_are_listed_by_time_and_site(store: Store) -> None:
    first, second = action(), action(LATER)
    for each in (second, first, replace(action(), site="other")):
        store.put_action(each)
    assert store.actions("s") == (first, second)
    assert store.actions("s", since=LATER) == (second,)
    assert store.actions("s", limit=1) == (second,)
    assert store.actions("s", limit=9) == (first, second)
    assert store.actions("unknown") == ()
    kind = first.instruction.kind
    assert store.actions("s", kinds=(kind,)) == (first, second)
    assert store.actions("s", kinds=tuple(each for each in ActionKind if each is not kind)) == ()
    with raises(UsageError, "action-unknown"):
        store.action("s", "f")
    with raises(UsageError, "action-ambiguous"):
        store.action("s", "0")


def test_one_process_at_a_time_has_the_right_to_act(store: Store) -> None:
    def take(holder: str, now: datetime = NOW, gone: bool = False) -> int:
        return store.take_right(
            "s", holder, now=now, until=now + timedelta(hours=1), gone=lambda _: gone
        )

    first = take("a")
    with raises(RefusedError, "site-acted-on-elsewhere"):
        take("b")
    assert store.renew_right("s", first, LATER)
    second = take("b", gone=True)
    assert second > first
    assert not store.renew_right("s", first, LATER)
    store.release_right("s", first)
    with raises(RefusedError, "site-acted-on-elsewhere"):
        take("c")
    assert take("c", NOW + timedelta(hours=2)) > second
    assert not store.renew_right("s", second, LATER)


def test_a_token_never_comes_again(store: Store) -> None:
    tokens = []
    for holder in ("a", "b", "a"):
        tokens.append(store.take_right("s", holder, now=NOW, until=LATER, gone=lambda _: False))
        store.release_right("s", tokens[-1])
        assert not store.renew_right("s", tokens[-1], LATER)
    assert tokens == sorted(set(tokens))
