"""What each controller still changes where a part of the file system is not seen.

The table of ``docs/act-safety.md`` says the same in words.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.act.world import (
    CREATE,
    NOW,
    UNREADABLE,
    WBT,
    action,
    codes,
    held_by,
    ost,
    seen,
    site,
    snapshot,
)
from tests.support.each import for_each

from trimtab.act.decide import allocator_reset, balance, migration, reverting, trimming, tunables
from trimtab.act.decide.site_observed import SiteObserved
from trimtab.base.action import ActionKind, Plan
from trimtab.base.site_policy import AllocatorPolicy, BalancePolicy, TunablesPolicy
from trimtab.base.snapshot import HostSnapshot, not_available

POINTER = "ldiskfs/dm-0/mb_last_group"
OSTS = [f"OST{number:04}" for number in range(16)]
MDTS = ["MDT0000", "MDT0001"]
POOLS = {"first": frozenset(OSTS[:8]), "second": frozenset(OSTS[8:])}
OVER = {0: 0.9, 8: 0.8}
"""One of each pool is over the limit."""
LOST = {
    ("server", None): None, ("import_state", None): "DISCONN", ("create_enabled", None): None,
    ("used_bytes", None): None, ("available_bytes", None): None,
}  # fmt: skip
CLOSED = 15
"""Closed to new files by Trimtab, and full."""
WHERE = site(
    tunables=TunablesPolicy(settings={"wbt_lat_usec": "0"}),
    allocator=AllocatorPolicy(useless_loops=None),
    balance=BalancePolicy(most_closed=0.5),
)


def file_system(
    *, lost: tuple[str, ...] = (), silent: str | None = None, drives: bool = True, **changes: Any
) -> SiteObserved:
    """Return 16 OSTs on eight servers and two MDTs, of which some are not seen."""
    rows = []
    for number in range(16):
        labelled: dict[Any, Any] = dict(LOST) if OSTS[number] in lost else {}
        if "MDT0001" in lost:
            labelled["create_enabled", "MDT0001"] = None
        if not drives:
            labelled |= {("drive_percentage_used", None): None, ("degraded", None): None}
        settings = {
            WBT: "2000" if drives else UNREADABLE,
            CREATE: "0" if number == CLOSED else "20000",
            POINTER: "7",
        }
        if number == CLOSED:
            labelled.setdefault(("create_enabled", None), False)
        rows.append(
            ost(number, OVER.get(number, 0.8 if number == CLOSED else 0.5), labelled=labelled,
                settings={} if OSTS[number] in lost else settings)
        )  # fmt: skip
    for number in range(2):
        gone = MDTS[number] in lost
        rows.append(
            ost(number, 0.1, kind="mdt", server=f"mds{number}",
                labelled=dict(LOST) if gone else None)
        )  # fmt: skip
    hosts = tuple(
        HostSnapshot(name, "server", name != silent, "no route" if name == silent else None)
        for name in (*(f"oss{number}" for number in range(8)), "mds0", "mds1")
    )
    taken = snapshot(rows, complete=not lost, hosts=hosts)
    return seen(rows, WHERE, **{"snapshot": taken, "pools": POOLS, **changes})


WELL = file_system()
FAULTS = {
    "nothing": WELL,
    "OST lost": file_system(lost=("OST0014",)),
    "server not answering": file_system(lost=("OST0012", "OST0013"), silent="oss6"),
    "MDT lost": file_system(lost=("MDT0001",), silent="mds1"),
    "drive readings missing": file_system(drives=False),
    "pool list missing": file_system(pools=not_available("tool-failed", "lfs: timed out")),
}
GONE = {
    "OST lost": {"OST0014"},
    "server not answering": {"OST0012", "OST0013"},
    "MDT lost": {"MDT0001"},
}
FILE = migration.MovableFile(
    "[0x1:0x2:0x0]", "/a", "1 2 3", 2**40, NOW - timedelta(days=30), (OSTS[CLOSED],)
)
SET = action(
    ActionKind.SET, "OST0001", 7200, setting=WBT, before="75000", value="2000", found="2000"
)
CLOSE = action(
    ActionKind.CLOSE, OSTS[CLOSED], 7200, setting=CREATE, before="20000", value="0",
    policy="balance",
)  # fmt: skip


def trim(observed: SiteObserved) -> Plan:
    return trimming.decide(observed, NOW)


def tune(observed: SiteObserved) -> Plan:
    return tunables.decide(observed, NOW)


def reset(observed: SiteObserved) -> Plan:
    return allocator_reset.decide(observed, NOW)


def close(observed: SiteObserved) -> Plan:
    return balance.decide(replace(observed, actions=(CLOSE,)), NOW)


def move(observed: SiteObserved) -> Plan:
    return migration.decide(observed, migration.MovableFiles(NOW, [FILE]), NOW)


def revert(observed: SiteObserved) -> Plan:
    return reverting.decide(replace(observed, actions=(SET, CLOSE)), None, NOW)


@for_each(
    "fault", ["nothing", "OST lost", "server not answering", "MDT lost", "drive readings missing",
              "pool list missing"],
)  # fmt: skip
def test_a_trim_and_a_reset_need_their_own_target_alone(fault):
    observed, gone = FAULTS[fault], GONE.get(fault, set())
    plan = trim(observed)
    assert {row.target for row in plan.instructions} == {*OSTS, *MDTS} - gone
    assert {target for target, _ in codes(plan)} == gone
    plan = reset(observed)
    assert {row.target for row in plan.instructions} == set(OSTS) - gone
    assert plan.held == ()


@for_each(
    "fault, changed",
    [
        ("nothing", {"OST0001"}),
        ("OST lost", {"OST0001"}),
        ("server not answering", {"OST0001"}),
        ("MDT lost", {"OST0001"}),
        ("drive readings missing", set()),
        ("pool list missing", {"OST0001"}),
    ],
)
def test_a_setting_needs_its_own_target_alone(fault, changed):
    """The first target of a rollout is the least full, or of as full ones the first."""
    plan = tune(FAULTS[fault])
    assert {row.target for row in plan.instructions} == changed
    assert plan.held == ()


def test_a_rollout_goes_on_without_the_lost_target_and_waits_for_a_lost_first():
    rows = tuple(
        replace(row, instruction=replace(row.instruction, stage=stage))
        for stage, number in ((0, 2), (1, 3), (2, 4))
        for row in [
            action(ActionKind.SET, OSTS[number], 9000 - stage, setting=WBT, before="2000",
                   value="0", found="0")
        ]
    )  # fmt: skip
    lost = FAULTS["OST lost"]
    plan = tune(replace(lost, actions=rows))
    assert len(plan.instructions) > 10
    assert "OST0014" not in {row.target for row in plan.instructions}
    first = replace(rows[0], instruction=replace(rows[0].instruction, target="OST0014"))
    plan = tune(replace(lost, actions=(first,)))
    assert plan.instructions == ()
    assert {code for (target, _), code in codes(plan).items() if target != "OST0014"} == {
        "canary-unhealthy"
    }


@for_each(
    "fault, closed, why",
    [
        ("nothing", {"OST0000", "OST0008"}, {}),
        ("OST lost", {"OST0000"}, {"OST0008": "member-unseen"}),
        # Of 16 twelve must take files: two are lost, one is closed, and one more is the last.
        ("server not answering", {"OST0000"}, {"OST0008": "cap-reached"}),
        ("MDT lost", set(), None),
        ("drive readings missing", {"OST0000", "OST0008"}, {}),
        ("pool list missing", set(), {"OST0000": "pools-unknown", "OST0008": "pools-unknown"}),
    ],
)
def test_a_closing_needs_its_pools_and_every_mdt(fault, closed, why):
    plan = close(FAULTS[fault])
    assert {row.target for row in plan.instructions} == closed
    if why is None:
        assert held_by(plan) == ["snapshot-incomplete"]
    else:
        assert {target: code for (target, _), code in codes(plan).items()} == why


def test_a_target_is_not_closed_while_an_mdt_may_have_closed_it_already():
    both = file_system(lost=("MDT0001", "OST0014"), silent="mds1")
    plan = close(both)
    assert plan.instructions == ()
    assert {code for (target, _), code in codes(plan).items()} == {"creation-unknown"}


def test_lost_targets_of_no_pool_count_against_the_caps():
    """Of 16 twelve must take files: two closed, two lost, none more."""
    lost = ("OST0005", "OST0006", "OST0007")
    assert close(file_system(lost=lost[1:], pools={})).instructions[0].target == "OST0000"
    plan = close(file_system(lost=lost, pools={}))
    assert plan.instructions == ()
    assert codes(plan)["OST0000", None] == "cap-reached"
    # A row that is missing altogether is a lost target too, if anybody has known of it.
    whole = file_system(lost=lost, pools={})
    assert whole.snapshot is not None
    kept = tuple(row for row in whole.snapshot.targets if row.target.name not in lost)
    without = replace(whole, snapshot=replace(whole.snapshot, targets=kept), baseline=WELL.snapshot)
    assert codes(close(without))["OST0000", None] == "cap-reached"
    # What is missing is not known: nothing is closed.
    unnamed = close(replace(without, baseline=None))
    assert unnamed.instructions == ()
    assert held_by(unnamed) == ["snapshot-incomplete"]


def test_a_server_that_answered_in_part_is_left_alone():
    assert WELL.snapshot is not None
    hosts = tuple(
        replace(host, problem="its answer was cut") if host.name == "oss0" else host
        for host in WELL.snapshot.hosts
    )
    partly = replace(WELL, snapshot=replace(WELL.snapshot, complete=False, hosts=hosts))
    plan = trim(partly)
    assert {row.target for row in plan.instructions} == {*OSTS[2:], *MDTS}
    assert codes(plan)["OST0000", None] == "server-partial"


@for_each(
    "fault, moves",
    [
        ("nothing", True),
        ("OST lost", False),
        ("server not answering", False),
        ("MDT lost", False),
        ("drive readings missing", True),
        ("pool list missing", True),
    ],
)
def test_a_migration_needs_all_of_the_snapshot(fault, moves):
    plan = move(FAULTS[fault])
    assert bool(plan.instructions) is moves
    assert held_by(plan) == ([] if moves else ["snapshot-incomplete"])


@for_each("fault", [*FAULTS])
def test_what_is_given_back_needs_its_own_target_alone(fault):
    """The setting cannot be reverted where it cannot be read; the target is opened all the same."""
    targets = {row.target for row in revert(FAULTS[fault]).instructions}
    unreadable = fault == "drive readings missing"
    assert targets == ({OSTS[CLOSED]} if unreadable else {"OST0001", OSTS[CLOSED]})
