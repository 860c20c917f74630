"""When the allocator's pointer is set back, and when not."""

from dataclasses import replace
from typing import Any

from tests.act.world import (
    NOW,
    UNREADABLE,
    action,
    codes,
    held_by,
    ost,
    seen,
    site,
    snapshot,
    writes,
)
from tests.support.each import for_each

from trimtab.act.decide.allocator_reset import decide
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.site_policy import AllocatorPolicy
from trimtab.base.snapshot import Snapshot

POINTER = "ldiskfs/md12/mb_last_group"
POINTERS = "ldiskfs/md12/mb_last_groups"
REQUESTS, LOOPS = "allocator_requests_total", "allocator_useless_loops_total"


def target(
    requests: int | None = 2000, loops=(300, 0), pointer: Any = "4711", name=POINTER, **changes
):
    labelled: dict[Any, Any] = {(LOOPS, f"cr{n}"): count for n, count in enumerate(loops)}
    if requests is not None:
        labelled[REQUESTS, None] = requests
    settings: dict[str, Any] = {} if pointer is None else {name: pointer}
    return ost(0, settings=settings, labelled=labelled, **changes)


BEFORE = snapshot([target(1000, (100, 0))], age_s=3600)


def reset(age_s, outcome=Outcome.DONE):
    return action(
        ActionKind.RESET_ALLOCATOR, "OST0000", age_s, setting=POINTER, outcome=outcome,
        policy="allocator", value="0",
    )  # fmt: skip


def observe(row, baseline: Snapshot | None = BEFORE, policy=None, actions=()):
    where = site(allocator=policy or AllocatorPolicy())
    return seen([row], where, baseline=baseline, actions=actions)


@for_each(
    "row, written",
    [
        (target(2000, (200, 0)), True),  # 100 of 1000 requests
        (target(2000, (199, 0)), False),
        (target(2000, (150, 50)), True),  # the criteria together
        (target(2000, (900, 800)), True),
        (target(1000, (100, 0)), False),  # no request at all
        (target(pointer="0"), False),
        (target(pointer=None), False),
        (target(pointer="0# 5 1# 0", name=POINTERS), True),
        (target(pointer="0# 0 1# 0", name=POINTERS), False),
    ],
)
def test_due(row, written):
    plan = decide(observe(row), NOW)
    assert writes(plan) == ([("reset-allocator", "OST0000", "0")] if written else [])
    assert plan.untouched == ()


def test_the_instruction():
    (row,) = decide(observe(target()), NOW).instructions
    assert (row.setting, row.before, row.server, row.reason.code) == (
        POINTER, "4711", "oss0", "loops-useless",
    )  # fmt: skip


@for_each(
    "age_s, outcome, due",
    [
        (899, Outcome.DONE, False),
        (900, Outcome.DONE, True),
        (899, Outcome.FAILED, False),
        (899, Outcome.REFUSED, False),
        (500, Outcome.SKIPPED, True),
    ],
)
def test_not_before_its_interval(age_s, outcome, due):
    plan = decide(observe(target(), actions=(reset(age_s, outcome),)), NOW)
    assert bool(plan.instructions) is due


@for_each(
    "row, baseline, code",
    [
        (target(), None, "loops-unknown"),
        (target(), snapshot([], age_s=3600), "loops-unknown"),
        (target(900, (300, 0)), BEFORE, "loops-unknown"),  # mounted anew
        (target(2000, (99, 900)), BEFORE, "loops-unknown"),
        (target(None), BEFORE, "loops-unknown"),
        (target(loops=()), BEFORE, "loops-unknown"),
        (target(loops=(300, 0, 0)), BEFORE, "loops-unknown"),
        (target(read_only=True), BEFORE, "target-read-only"),
        (target(degraded=True), BEFORE, "target-degraded"),
        (target(import_state="DISCONN"), BEFORE, "target-disconnected"),
    ],
)
def test_left_with_the_reason(row, baseline, code):
    plan = decide(observe(row, baseline), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", POINTER): code})


def test_what_cannot_be_read_is_not_written():
    plan = decide(observe(target(pointer=UNREADABLE)), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", None): "setting-unreadable"})


def test_without_a_share_it_is_reset_whatever_the_loops():
    policy = AllocatorPolicy(useless_loops=None)
    assert len(decide(observe(target(), None, policy), NOW).instructions) == 1
    assert decide(observe(target(), BEFORE, policy, (reset(899),)), NOW).instructions == ()


def test_held_means_no_instruction():
    observed = replace(observe(target()), snapshot=snapshot([target()], age_s=601))
    plan = decide(observed, NOW)
    assert (writes(plan), held_by(plan)) == ([], ["snapshot-stale"])
    assert held_by(decide(replace(observed, snapshot=None), NOW)) == ["no-snapshot"]
