"""What holds every change, and what holds even opening and reverting."""

from dataclasses import replace
from typing import Any

from tests.act.world import CREATE, NOW, WBT, action, ago, ost, seen, site, snapshot
from tests.support.each import for_each

from trimtab.act.decide.holding import allowance, held, undone
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.error import Message
from trimtab.base.snapshot import HostSnapshot

SET, CLOSE, OPEN, TRIM = ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN, ActionKind.TRIM
RESET = ActionKind.RESET_ALLOCATOR


def wbt(age_s, target="OST0000", **changes):
    return action(SET, target, age_s, setting=WBT, before="2000", value="0", **changes)


def closed(age_s, target="OST0000", **changes):
    keys: dict[str, Any] = {"setting": CREATE, "before": "20000", "value": "0", "policy": "balance"}
    return action(CLOSE, target, age_s, **(keys | changes))


def throttled(count=4, value="2000", age_s=30.0, uptime_s=1e6, **changes):
    targets = [
        ost(number, settings={WBT: value}, server_uptime_s=uptime_s) for number in range(count)
    ]
    return replace(seen(targets, **changes), snapshot=snapshot(targets, age_s=age_s))


def codes(observed, policy="tunables", **options):
    return [reason.code for reason in held(observed, policy, NOW, **options)]


def test_nothing_holds_a_site_that_is_well():
    assert codes(seen([ost(0)])) == []


SILENT = HostSnapshot("oss7", "server", answered=False, problem="no route")
ALWAYS = [
    ("no-snapshot", seen([], snapshot=None)),
    ("snapshot-stale", seen([ost(0)], snapshot=snapshot([ost(0)], age_s=601))),
    ("snapshot-in-future", seen([ost(0)], snapshot=snapshot([ost(0)], age_s=-61))),
    ("clock-jump", seen([ost(0)], clock_jump_s=61.0)),
    ("clock-jump", seen([ost(0)], clock_jump_s=-61.0)),
    ("clock-jump", seen([ost(0)], actions=(wbt(-61),))),
    ("clock-jump", seen([ost(0)], actions=(replace(wbt(-120), until=ago(1)),))),
    ("integrity-open", seen([ost(0)], integrity=(Message("wrong-data", "a file is wrong"),))),
]
NOT_TO_GIVE_BACK = [
    (
        "too-many-actions",
        seen([ost(0)], site(most_per_hour=2), actions=(wbt(3500), wbt(10, "OST0001"))),
    ),
    ("action-open", seen([ost(0)], actions=(wbt(149, outcome=Outcome.UNKNOWN),))),
    ("action-open", seen([ost(0)], actions=(wbt(140, outcome=None),))),
    ("action-open", seen([ost(0)], actions=(action(TRIM, "OST0000", 5 * 3600, outcome=None),))),
    ("no-effect", throttled(actions=(wbt(500),))),
    ("no-effect", throttled(actions=(wbt(500),), uptime_s=480.0)),
    ("no-effect", throttled(value="0", actions=(wbt(80_000, effect="none"),))),
    (
        "undone-repeatedly",
        throttled(actions=tuple(wbt(h * 3600, f"OST000{n}") for n in range(3) for h in (9, 6, 3))),
    ),
]


@for_each("code, observed", ALWAYS)
def test_what_holds_everything(code, observed):
    assert codes(observed) == [code]
    assert codes(observed, giving_back=True) == [code]


@for_each("code, observed", NOT_TO_GIVE_BACK)
def test_what_holds_new_changes_and_gives_back(code, observed):
    assert codes(observed) == [code]
    assert codes(observed, giving_back=True) == []


@for_each(
    "observed",
    [
        seen([ost(0)], snapshot=snapshot([ost(0)], age_s=600)),
        seen([ost(0)], snapshot=snapshot([ost(0)], age_s=-60)),
        seen([ost(0)], clock_jump_s=60.0, actions=(wbt(-60),)),
        seen([ost(0)], site(most_per_hour=2), actions=(wbt(3700), wbt(10))),
        # What wrote nothing, and resets, which repeat by themselves, use up no hour.
        seen([ost(0)], site(most_per_hour=1), actions=(wbt(9, outcome=Outcome.SKIPPED),)),
        seen([ost(0)], site(most_per_hour=1), actions=(action(RESET, "OST0000", 9),)),
        # Read again since.
        seen([ost(0)], actions=(wbt(151, outcome=Outcome.UNKNOWN), wbt(151, outcome=None))),
        # Actions of another policy that went wrong are that policy's.
        seen([ost(0)], actions=(wbt(100, outcome=None, policy="balance"),)),
        throttled(actions=(wbt(500, policy="balance"),)),
        # Too early for the effect to show, and so late that something else may have changed it.
        throttled(actions=(wbt(85),)),
        throttled(actions=(wbt(931),)),
        # Its server has started since, and what it had been set to is lost.
        throttled(actions=(wbt(500),), uptime_s=400.0),
        # In effect, and reverted: that it is no longer in effect is meant.
        throttled(value="0", actions=(wbt(500),)),
        throttled(
            actions=(
                wbt(600, identifier="x"),
                action(SET, "OST0000", 500, setting=WBT, value="2000", policy="revert",
                       reverts=("x",)),
            )
        ),
        # Three times a day, of fewer than three targets: these alone are left.
        throttled(actions=tuple(wbt(h * 3600, f"OST000{n}") for n in (0, 1) for h in (9, 6, 3))),
    ],
)  # fmt: skip
def test_what_does_not_hold(observed):
    assert codes(observed) == []


def test_an_incomplete_snapshot_names_who_did_not_answer():
    observed = seen([ost(0)], snapshot=snapshot([ost(0)], complete=False, hosts=(SILENT,)))
    assert "oss7" in held(observed, "migrate", NOW)[0]
    assert codes(observed, "migrate", giving_back=True) == []
    observed = seen([], snapshot=snapshot([ost(0), ost(1, None)], complete=False))
    assert "OST0001" in held(observed, "migrate", NOW)[0]


def test_what_others_undo_is_stopped_where_it_happens():
    rows = tuple(wbt(hours * 3600) for hours in (20, 10, 2))
    key = ("OST0000", WBT)
    assert undone(throttled(actions=rows), NOW)[key].code == "undone-repeatedly"
    assert undone(throttled(actions=rows[1:]), NOW) == {}
    assert undone(throttled(actions=(wbt(25 * 3600), *rows[1:])), NOW) == {}
    assert undone(throttled(value="0", actions=rows), NOW) == {}
    assert undone(throttled(actions=(*rows, wbt(60, found="2000"))), NOW) == {}


def test_a_closing_that_an_opening_follows_was_not_undone():
    target = ost(0, 0.8, create_enabled=True)
    rows = tuple(closed(hours * 3600) for hours in (9, 6, 3))
    assert ("OST0000", "creation") in undone(seen([target], actions=rows), NOW)
    opened = action(OPEN, "OST0000", 5 * 3600, setting=CREATE, value="20000", policy="balance")
    assert undone(seen([target], actions=(*rows, opened)), NOW) == {}
    assert undone(seen([ost(0, 0.8, create_enabled=False)], actions=rows), NOW) == {}


def test_the_hour_counts_what_may_have_been_written():
    rows = (wbt(10), wbt(20, outcome=Outcome.REFUSED), wbt(30, outcome=None), wbt(3599 + 3600))
    assert allowance(seen([ost(0)], site(most_per_hour=10), actions=rows), NOW) == 8
    assert ago(0) == NOW
