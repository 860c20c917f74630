"""What alerts are decided on, from a store: incidents, snapshots, actions that failed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.watched import a_site
from tests.watch.alert.parcels_of import NOON
from tests.watch.alert.views import incident

from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.encode import dumps
from trimtab.base.error import Message
from trimtab.base.event import new_identifier
from trimtab.base.incident import Assessment
from trimtab.base.server_message import MessageFamily, ServerMessage
from trimtab.base.snapshot import HostSnapshot, Reading, Snapshot, Target, TargetSnapshot
from trimtab.store.kept import Judged
from trimtab.store.store import Store
from trimtab.watch import alert_table
from trimtab.watch.alert_table import EVICTIONS_MANY, RECENT, SnapshotViews, observe

SITE = a_site()


def cause(identifier: str, title: str, confidence: float) -> dict[str, Any]:
    """Return a cause as an explanation that is kept has it."""
    return json.loads(dumps(Assessment(identifier, title, confidence, ())))


def test_a_snapshot_that_was_looked_at_is_not_looked_at_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, views = Mock(wraps=alert_table.snapshot_view), SnapshotViews()
    monkeypatch.setattr(alert_table, "snapshot_view", made)
    for hours in range(4):
        taken = NOON + timedelta(hours=hours)
        seen = TargetSnapshot(Target(f"OST000{hours}", "ost"), ())
        store.add_snapshot("scratch", Snapshot(taken, "lustre", True, (seen,)))
        observed = observe(SITE, store, taken, views)
        assert observed == observe(SITE, store, taken)
    last = observe(SITE, store, NOON, views)
    assert [list(view.places) for view in last.snapshots] == [["OST0003"], ["OST0002"]]
    # Of each second call both are new; of the first ones the newest alone.
    assert made.call_count == 4 + (1 + 2 + 2 + 2)


def test_incidents_that_go_on_or_ended_of_late_are_looked_at(store: Store) -> None:
    long_ago = NOON - RECENT - timedelta(days=1)
    explained = {"causes": [cause("trim-overdue", "no trim", 0.93)], "unexplained": False}
    unexplained = {"causes": [cause("failover", "failed over", 0.4)], "unexplained": True}
    assert observe(SITE, store, NOON).judged_at is None
    incidents = [
        incident("a", site="scratch", document=explained),
        incident("b", site="scratch", document=unexplained, state="ended"),
        incident("c", site="scratch", at=long_ago, state="lasting"),
        incident("d", site="scratch", at=long_ago, state="ended"),
    ]
    store.keep_incidents("scratch", incidents, since=None, judged=Judged(NOON, NOON))
    observed = observe(SITE, store, NOON)
    views = {view.id: view for view in observed.incidents}
    assert sorted(views) == ["a", "b", "c"]
    assert observed.judged_at == NOON
    assert views["a"].likeliest["id"] == "trim-overdue"
    assert views["b"].likeliest == {}


def test_the_last_two_snapshots_have_their_problems_and_counts(store: Store) -> None:
    for minute, bad in ((0, 0), (15, 0), (30, 7)):
        counted = Reading("checksum_errors_total", bad, source="dmesg")
        degraded = Reading("degraded", True, source="md")
        target = TargetSnapshot(Target("OST0000", "ost"), (degraded,))
        host = HostSnapshot("oss1", "server", readings=(counted,))
        at = NOON + timedelta(minutes=minute)
        store.add_snapshot("scratch", Snapshot(at, "lustre", True, (target,), (host,)))
    newest, earlier = observe(SITE, store, NOON).snapshots
    assert (newest.at - earlier.at).total_seconds() == 900
    assert [trouble.id for trouble in newest.places["OST0000"].troubles] == ["degraded"]
    assert newest.places["OST0000"].bad_checksums is None
    counts = (newest.places["oss1"].bad_checksums, earlier.places["oss1"].bad_checksums)
    assert counts == (7, 0)


def test_a_target_that_evicts_many_clients_within_an_hour_is_a_trouble(store: Store) -> None:
    target = TargetSnapshot(Target("OST0000", "ost", "oss1"), ())
    for minute, count in ((0, EVICTIONS_MANY - 1), (30, 1), (90, 0)):
        at = NOON + timedelta(minutes=minute)
        evicted = ServerMessage(
            at, "oss1", MessageFamily.LOCK_TIMEOUT, count, "OST0000", (), ("boot", minute)
        )
        # Neither a client that came back, nor messages that name no target, are evictions of it.
        back = replace(evicted, family=MessageFamily.RECONNECTING, count=99)
        unnamed = replace(evicted, target=None, count=99)
        rows = (evicted, back, unnamed)
        store.add_snapshot("scratch", Snapshot(at, "lustre", True, (target,), (), rows))
        newest, *_ = observe(SITE, store, NOON).snapshots
        troubles = [trouble.text for trouble in newest.places["OST0000"].troubles]
        assert troubles == ([f"{EVICTIONS_MANY} clients evicted within an hour"] * (minute == 30))


def test_actions_that_failed_within_a_day_are_counted_by_policy(store: Store) -> None:
    reason = Message("time-since-trim", "trimmed long ago")
    instruction = Instruction(ActionKind.TRIM, "OST0000", reason)
    gave_way = {"interrupted": "gave-way"}
    outcomes = ((30, "failed"), (3, "failed"), (2, "done"), (1, "refused"), (0, "failed"))
    for hours, outcome in outcomes:
        at = NOON - timedelta(hours=hours)
        store.put_action(
            Action(
                new_identifier(at), "scratch", "trim", "plan", "me", at, instruction, at,
                Outcome(outcome), detail=f"{hours} h ago",
                facts={} if hours else gave_way,
            )
        )  # fmt: skip
    (view,) = observe(SITE, store, NOON).actions
    counts = store.action_counts("scratch")
    assert (view.policy, dict(view.outcomes)) == ("trim", {"failed": 1, "refused": 1})
    expected = {"failed": 2, "done": 1, "refused": 1, "interrupted": 1}
    assert counts == {("trim", "trim", outcome): count for outcome, count in expected.items()}
    assert (view.at, view.detail) == (NOON - timedelta(hours=1), "1 h ago")
