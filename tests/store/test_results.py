"""Results of commands, actions with the right to act, and alerts come back as they were kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.show.pages import TIB, USAGE, horizon_answer_of, swept_policies
from tests.store.values import a_run
from tests.support.codes import raises
from tests.watch.alert.parcels_of import NOON, alert

from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message, RefusedError, UsageError
from trimtab.base.event import new_identifier
from trimtab.base.finding import Alert, Delivery, DeliveryState, Phase, Severity
from trimtab.purge.fullness import Freed, Usage
from trimtab.purge.horizon.group_horizon import GroupHorizon, GroupHorizons, OstGroup
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.horizon.horizon_answer import HorizonAnswer, HorizonResult
from trimtab.store.kept import KeptResult, add_result, results_of
from trimtab.store.slot import Slot, SlotState
from trimtab.store.store import Store
from trimtab.twin.whatif.page import whatif_document
from trimtab.twin.whatif.whatif_sweep import WhatIfResult, whatif_result
from trimtab.watch.alert_table import AlertDraft, subjects_of

# Results of commands come out of the store as they went in, the newest first.

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
SITE = "scratch"


def kept_horizon(answer: HorizonAnswer, root: str = "/scratch") -> HorizonResult:
    """Return a horizon as it is kept."""
    total = Freed(21_000_000, 26_500 * TIB)
    words = ("Files younger than 14 d stay.",)
    return HorizonResult(root, "i", answer, USAGE, words, total, ("6 h old",))


def kept_whatif() -> WhatIfResult:
    """Return a sweep as it is kept."""
    return whatif_result(*swept_policies())


def with_groups(answer: HorizonAnswer) -> HorizonAnswer:
    """Return the answer with what each OST needs, and each pool."""

    def horizons(*groups: OstGroup) -> GroupHorizons:
        rows = tuple(
            GroupHorizon(
                group, Usage(9 * TIB, TIB), HorizonStatus.REACHED, TIB, 400_000,
                None, Freed(5, TIB), Usage(8 * TIB, 2 * TIB),
            )
            for group in groups
        )  # fmt: skip
        needed, hour = answer.needed, (answer.as_of_s // 3600 - 14 * 24)
        return GroupHorizons(hour, needed.cut_off_hour, needed.target, needed.freed, rows)

    osts = horizons(OstGroup("OST", "OST0000", (0,), 0.75), OstGroup("OST", "OST001f", (31,), 0.75))
    return replace(answer, osts=osts, pools=horizons(OstGroup("pool", "flash", (0, 31), 0.8)))


@pytest.fixture
def site_store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "t.db") as opened:
        opened.ensure_site(SITE, driver="lustre", path="/scratch")
        opened.ensure_site("other")
        yield opened


@pytest.mark.parametrize("target", [0.2, 0.7, 0.9])
def test_a_horizon_comes_out_as_it_went_in(site_store, target):
    kept = kept_horizon(with_groups(horizon_answer_of(target)))
    add_result(site_store, SITE, kept, NOW)
    (held,) = results_of(site_store, SITE, HorizonResult).held
    assert (held.value, held.at) == (kept, NOW)


def test_a_what_if_comes_out_as_it_went_in_without_its_runs(site_store):
    scenario, swept = swept_policies()
    why = Message("varied-idle", "no figure depends on it")
    kept = whatif_result(scenario, replace(swept, without_effect={"trim": why}))
    add_result(site_store, SITE, kept, NOW)
    (held,) = results_of(site_store, SITE, WhatIfResult).held
    assert held.value == kept
    assert held.value.swept.without_effect["trim"].code == "varied-idle"
    pages = [whatif_document(scenario.name, each) for each in (held.value.swept, kept.swept)]
    again, page = (replace(page, sections=()) for page in pages)
    assert again == page
    again, page = ([section.tables for section in page.sections] for page in pages)
    assert again == page


def test_the_newest_of_a_site_and_kind_comes_first(site_store):
    for days in (1, 3, 2):
        add_result(site_store, SITE, kept_whatif(), NOW - timedelta(days=days))
    add_result(site_store, SITE, kept_horizon(horizon_answer_of(0.7)), NOW)
    add_result(site_store, "other", kept_whatif(), NOW)
    results = results_of(site_store, SITE, WhatIfResult)
    assert [(NOW - held.at).days for held in results.held] == [1, 2, 3]
    assert results.chosen("") is results.held[0]
    assert results.chosen(results.held[2].id) is results.held[2]
    with raises(UsageError, "page-unknown"):
        results.chosen("none")


def test_what_another_version_kept_is_counted_and_left_out(site_store):
    assert results_of(site_store, SITE, HorizonResult).problems == ()
    document: dict[str, object] = {"root": "/scratch", "index": "i"}
    site_store.add_result(KeptResult("1", SITE, "horizon", NOW, document))
    add_result(site_store, SITE, kept_horizon(horizon_answer_of(0.7)), NOW)
    results = results_of(site_store, SITE, HorizonResult)
    assert len(results.held) == 1
    (problem,) = results.problems
    assert problem.code == "results-unread"
    assert problem.startswith("1 result")


def test_a_kept_result_changes_the_sums_of_its_site(site_store):
    before = site_store.sums(SITE)
    add_result(site_store, SITE, kept_whatif(), NOW)
    assert site_store.sums(SITE) != before
    assert site_store.check(contents=True).problems == ()


# The ledger of actions, and the right to act.

BEGUN = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
LATER = BEGUN + timedelta(minutes=30)


@pytest.fixture
def one_store(tmp_path: Path):
    with Store.open(tmp_path / "t.db") as opened:
        yield opened


def action(at: datetime = BEGUN, **changes: Any) -> Action:
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


def test_an_action_is_kept_before_and_after(one_store: Store) -> None:
    begun = action(facts={"range": "0"})
    one_store.put_action(begun)
    assert one_store.actions("s") == (begun,)
    assert one_store.actions("s")[0].instruction.reason.code == "setting-differs"
    ended = replace(begun, until=LATER, outcome=Outcome.NOT_STORED, found="2000", detail="\udcff")
    one_store.put_action(ended)
    assert one_store.actions("s") == (ended,)
    assert one_store.action("s", begun.id[:30]) == ended


def test_actions_are_listed_by_time_and_site(one_store: Store) -> None:
    first, second = action(), action(LATER)
    for each in (second, first, replace(action(), site="other")):
        one_store.put_action(each)
    assert one_store.actions("s") == (first, second)
    assert one_store.actions("s", since=LATER) == (second,)
    assert one_store.actions("s", limit=1) == (second,)
    assert one_store.actions("s", limit=9) == (first, second)
    assert one_store.actions("unknown") == ()
    kind = first.instruction.kind
    assert one_store.actions("s", kinds=(kind,)) == (first, second)
    assert (
        one_store.actions("s", kinds=tuple(each for each in ActionKind if each is not kind)) == ()
    )
    with raises(UsageError, "action-unknown"):
        one_store.action("s", "f")
    with raises(UsageError, "action-ambiguous"):
        one_store.action("s", "0")


def test_one_process_at_a_time_has_the_right_to_act(one_store: Store) -> None:
    def take(holder: str, now: datetime = BEGUN, gone: bool = False) -> int:
        return one_store.take_right(
            "s", holder, now=now, until=now + timedelta(hours=1), gone=lambda _: gone
        )

    first = take("a")
    with raises(RefusedError, "site-acted-on-elsewhere"):
        take("b")
    assert one_store.renew_right("s", first, LATER)
    second = take("b", gone=True)
    assert second > first
    assert not one_store.renew_right("s", first, LATER)
    one_store.release_right("s", first)
    with raises(RefusedError, "site-acted-on-elsewhere"):
        take("c")
    assert take("c", BEGUN + timedelta(hours=2)) > second
    assert not one_store.renew_right("s", second, LATER)


def test_a_token_never_comes_again(one_store: Store) -> None:
    tokens = []
    for holder in ("a", "b", "a"):
        tokens.append(
            one_store.take_right("s", holder, now=BEGUN, until=LATER, gone=lambda _: False)
        )
        one_store.release_right("s", tokens[-1])
        assert not one_store.renew_right("s", tokens[-1], LATER)
    assert tokens == sorted(set(tokens))


# The ledger of alerts, on each database.

WAITING = Delivery("mail", DeliveryState.WAITING, NOON)
TAKEN = Delivery("mail", DeliveryState.DELIVERED, NOON + timedelta(minutes=1), "and one refused")


def test_an_alert_comes_back_as_it_was_kept(store: Store) -> None:
    whole = alert(
        1,
        title="OST\udcff \u202e",
        lines=("one", "two\udcfe"),
        facts={"told": "open", "places": {"OST0000": 3.0}},
        since=None,
        phase=Phase.WORSENED,
        deliveries=(WAITING,),
    )
    assert store.add_alert(whole)
    assert store.alerts("scratch") == (whole,)
    assert store.alerts("other") == ()


def test_an_alert_is_kept_once_and_the_ledger_has_the_order_of_decisions(store: Store) -> None:
    later, earlier = alert(1, at=NOON + timedelta(hours=1)), alert(2)
    assert store.add_alert(later)
    assert store.add_alert(earlier)
    assert not store.add_alert(alert(1, title="another"))
    assert store.alerts("scratch") == (later, earlier)
    assert store.alerts("scratch", since=NOON + timedelta(minutes=1)) == (later,)


def test_a_delivery_takes_the_place_of_that_receivers_alone(store: Store) -> None:
    chat = Delivery("chat", DeliveryState.WAITING, NOON)
    store.add_alert(alert(1, deliveries=(WAITING, chat)))
    store.put_delivery(alert(1).id, TAKEN)
    assert set(store.alerts("scratch")[0].deliveries) == {TAKEN, chat}
    store.put_delivery(alert(9).id, TAKEN)
    assert len(store.alerts("scratch")) == 1


def test_runs_and_slots_are_counted_for_each_site(store: Store) -> None:
    run = a_run()
    for number in range(3):
        at = NOON + timedelta(hours=number)
        store.add_run(replace(run, id=new_identifier(at), site="scratch", probe="hourly", at=at))
        slot = Slot("scratch", "snapshot", at, SlotState.DONE if number else SlotState.MISSED)
        assert store.finish_slot(slot)
    assert store.run_counts("scratch") == {("hourly", run.status.value): 3}
    assert store.slot_counts("scratch") == {("snapshot", "done"): 2, ("snapshot", "missed"): 1}
    assert store.run_counts("other") == store.action_counts("scratch") == {}


# Alerts that have outlived their retention: the last about each subject stays for a year.

NOON_OF_ALERTS, DAY = datetime(2026, 11, 16, 12, tzinfo=UTC), timedelta(days=1)
PHASES = {
    "target-lost": (Phase.OPENED, Phase.CLOSED, Phase.OPENED, Phase.NOTED),
    "incident:a": (Phase.OPENED, Phase.CLOSED),
}


def alert_of(subject: str, phase: Phase, day: int, ledger: tuple[Alert, ...]) -> Alert:
    """Return the next alert about a subject."""
    draft = AlertDraft("scratch", NOON_OF_ALERTS + day * DAY, subjects_of(ledger))
    return draft.alert(draft.subject(subject), subject, phase, Severity.WARNING, facts={})


def test_what_decisions_rest_on_stays_and_no_id_comes_twice(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:

        def days() -> list[tuple[str, int]]:
            return [
                (row.subject, (row.at - NOON_OF_ALERTS).days) for row in store.alerts("scratch")
            ]

        def prune(before: int, now: int) -> int:
            return store.prune(
                "scratch", NOON_OF_ALERTS + before * DAY, now=NOON_OF_ALERTS + now * DAY
            ).alerts

        for subject, phases in PHASES.items():
            for day, phase in enumerate(phases):
                alert = alert_of(subject, phase, day, store.alerts("scratch"))
                assert store.add_alert(alert)
        identifiers = {row.id for row in store.alerts("scratch")}
        assert prune(before=20, now=25) == 0
        assert prune(before=60, now=60) == 3
        assert days() == [("target-lost", 2), ("target-lost", 3), ("incident:a", 1)]
        for day in range(60, 64):
            phase = Phase.CLOSED if day % 2 else Phase.OPENED
            alert = alert_of("target-lost", phase, day, store.alerts("scratch"))
            assert alert.id not in identifiers
            identifiers.add(alert.id)
            assert store.add_alert(alert)
        assert prune(before=450, now=450) == 6
        assert days() == [("target-lost", 63)]
