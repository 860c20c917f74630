"""The way back; and what each controller still changes where a part of the site is not seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.act.world import (
    CREATE,
    NOW,
    UNREADABLE,
    WBT,
    action,
    carried_out,
    closing,
    codes,
    held_by,
    ost,
    retaken,
    seen,
    site,
    snapshot,
    targets_in,
    writes,
)
from tests.support.each import for_each

from trimtab.act.decide import balance, decision, trimming, tunables
from trimtab.act.decide.decision import decide_reverts
from trimtab.act.decide.site_observed import SiteObserved
from trimtab.base.action import ActionKind, Instruction, Outcome, Plan
from trimtab.base.error import Message
from trimtab.base.site_policy import AllocatorPolicy, BalancePolicy, TunablesPolicy
from trimtab.base.snapshot import HostSnapshot, not_available

# The way back: the value of before, unless somebody else has changed it since.

SET, CLOSE, OPEN = ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN
QOS = "lod/qos_threshold_rr"


def wrote(age_s, before: str | None = "2000", value="0", target="OST0000", **changes):
    keys: dict[str, Any] = {"setting": WBT, "before": before, "value": value}
    return action(SET, target, age_s, **(keys | changes))


def reading(value, *actions, **changes):
    return seen([ost(0, settings={WBT: value})], actions=actions, **changes)


A, B = wrote(7200, identifier="a"), wrote(3600, "0", "75", identifier="b")


@for_each(
    "observed, which, written, reverts",
    [
        (reading("0", A), "a", "2000", ("a",)),
        (reading("0 (12)", A), "a", "2000", ("a",)),
        (reading("75", A, B), "b", "0", ("b",)),
        # Together they collapse to the oldest value of before.
        (reading("75", A, B), None, "2000", ("b", "a")),
        (reading("0", A), None, "2000", ("a",)),
        # What was written reads back otherwise, and still does.
        (reading("2000", wrote(9, "0", "-1", identifier="a", found="2000")), "a", "0", ("a",)),
        # Its outcome is not known: part of the drives have it.
        (reading("0 (3), 2000 (9)", wrote(999, identifier="a", outcome=Outcome.UNKNOWN)), "a",
         "2000", ("a",)),
        (reading("0", wrote(999, identifier="a", outcome=Outcome.NOT_STORED, found="5")), "a",
         "2000", ("a",)),
        (reading("5", wrote(999, identifier="a", outcome=Outcome.NOT_STORED, found="5")), "a",
         "2000", ("a",)),
        # As before one whose outcome is not known: what the action before it left.
        (reading("0", A, wrote(99, "0", "75", identifier="b", outcome=Outcome.UNKNOWN)), None,
         "2000", ("b", "a")),
        # Reverted once, and set again since.
        (reading("75", A, wrote(5000, "0", "2000", reverts=("a",), policy="revert"),
                 wrote(600, "2000", "75", identifier="c")), None, "2000", ("c",)),
    ],
)  # fmt: skip
def test_the_value_of_before_is_written(observed, which, written, reverts):
    (row,) = decide_reverts(observed, which, NOW).instructions
    assert (row.kind, row.setting, row.value, row.reverts) == (SET, WBT, written, reverts)
    assert row.before == observed.snapshot.of("OST0000").settings[WBT].value
    assert row.server == "oss0"


@for_each(
    "observed, which, code",
    [
        (reading("500", A), "a", "changed-by-others"),
        (reading("0 (11), 500 (nvme3n1)", A), "a", "changed-by-others"),
        (reading("0 (11), 2000 (nvme3n1)", A), "a", "changed-by-others"),
        (reading("2000", A), "a", "not-in-force"),
        (reading("75", A, B), "a", "changed-later"),
        (reading("2000", A, B), None, "not-in-force"),
        (reading("0", A, B), None, "changed-by-others"),
        # A failover brought the default, and what was written then did not come about.
        (reading("1", A, wrote(99, "1", outcome=Outcome.UNKNOWN)), None, "changed-by-others"),
        (
            reading("1", A, wrote(99, "1", outcome=Outcome.NOT_STORED, found="5")),
            None,
            "changed-by-others",
        ),
        (reading(UNREADABLE, A), "a", "setting-unreadable"),
        (seen([ost(0)], actions=(A,)), "a", "setting-unreadable"),
        (seen([ost(1)], actions=(A,)), "a", "target-absent"),
        (reading("0", wrote(99, "0 (11), 2000 (nvme3n1)", identifier="a")), "a", "before-mixed"),
        (reading("0", wrote(99, "", identifier="a")), "a", "before-unknown"),
        (reading("0", wrote(99, None, identifier="a")), "a", "before-unknown"),
    ],
)
def test_it_is_left_with_the_reason(observed, which, code):
    plan = decide_reverts(observed, which, NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", WBT): code})


@for_each(
    "observed, which",
    [
        (reading("0"), None),
        (reading("0", A), "z"),
        (reading("0", wrote(9, outcome=Outcome.REFUSED)), None),
        (reading("0", wrote(9, outcome=Outcome.SKIPPED)), None),
        (reading("2000", A, wrote(99, "0", "2000", reverts=("a",), policy="revert")), None),
        (reading("2000", A, wrote(99, "0", "2000", reverts=("a",), policy="revert")), "a"),
    ],
)
def test_nothing_is_taken_back_that_was_not_done_or_was_taken_back(observed, which):
    plan = decide_reverts(observed, which, NOW)
    assert (writes(plan), plan.untouched) == ([], ())


def test_a_percentage_that_reads_rounded_is_still_ours():
    row = action(SET, "MDT0000", 99, setting=QOS, before="90%", value="17")
    target = ost(0, kind="mdt", settings={QOS: "18%"})
    assert writes(decide_reverts(seen([target], actions=(row,)), None, NOW)) == [
        ("set", "MDT0000", "90%")
    ]


def test_what_a_failed_way_back_left_is_taken_back_again():
    tried = wrote(
        600, "0", "2000", outcome=Outcome.NOT_STORED, found="1000", reverts=("a",), policy="revert"
    )
    (again,) = decide_reverts(reading("1000", A, tried), None, NOW).instructions
    assert (again.before, again.value, again.reverts) == ("1000", "2000", ("a",))
    by_others = decide_reverts(reading("500", A, tried), None, NOW)
    assert list(codes(by_others).values()) == ["changed-by-others"]


def test_what_was_permanent_is_taken_back_for_every_mount_to_come():
    row = replace(A, instruction=replace(A.instruction, permanent=True))
    (instruction,) = decide_reverts(reading("0", row), None, NOW).instructions
    assert instruction.permanent


SHUT: dict[str, Any] = {"settings": {CREATE: "0"}, "create_enabled": False}


def test_what_was_closed_is_opened():
    observed = seen([ost(0, 0.9, **SHUT)], actions=(closing(age_s=9, identifier="x"),))
    (row,) = decide_reverts(observed, None, NOW).instructions
    assert (row.kind, row.setting, row.before, row.value) == (OPEN, CREATE, "0", "20000")
    assert row.reverts == ("x",)
    twice = (closing(age_s=9000, before="4096"), closing(age_s=9, before="0 (1), 20000 (2)"))
    plan = decide_reverts(seen([ost(0, 0.9, **SHUT)], actions=twice), None, NOW)
    assert writes(plan) == [("open", "OST0000", "4096")]


def test_reopening_tells_of_closed_targets_alone():
    targets = [ost(0, 0.9, **SHUT), ost(1, settings={WBT: "500"}), ost(2, settings={WBT: "0"})]
    actions = (
        closing(age_s=9),
        closing("OST0001", 99), action(OPEN, "OST0001", 50, setting=CREATE, policy="balance"),
        wrote(9, target="OST0001"), wrote(9, target="OST0002"),
        action(ActionKind.TRIM, "OST0002", 9, policy="trim"),
    )  # fmt: skip
    plan = decide_reverts(seen(targets, actions=actions), None, NOW, reopening=True)
    assert writes(plan) == [("open", "OST0000", "20000")]
    assert plan.untouched == ()
    # One that is closed by others by now is told: it stays closed.
    others = [ost(0, settings={CREATE: "20000"}, create_enabled=False)]
    plan = decide_reverts(seen(others, actions=actions[:1]), None, NOW, reopening=True)
    assert codes(plan) == {("OST0000", CREATE): "changed-by-others"}


@for_each(
    "target, actions, code",
    [
        (ost(0, settings={CREATE: "20000"}), (closing(age_s=9),), "not-in-force"),
        (ost(0, **SHUT), (closing(age_s=99), action(OPEN, "OST0000", 9)), "not-in-force"),
        (ost(0, settings={CREATE: "20000"}, create_enabled=False), (closing(age_s=9),),
         "changed-by-others"),
    ],
)  # fmt: skip
def test_a_closing_that_is_not_in_force_is_left(target, actions, code):
    plan = decide_reverts(seen([target], actions=actions), None, NOW)
    assert writes(plan) == []
    assert set(codes(plan).values()) == {code}


@for_each(
    "kind", [ActionKind.TRIM, ActionKind.RESET_ALLOCATOR, ActionKind.MIGRATE, ActionKind.OPEN]
)
def test_what_cannot_be_taken_back(kind):
    rows = tuple(action(kind, "OST0000", age_s) for age_s in (9, 99))
    plan = decide_reverts(seen([ost(0)], actions=rows), None, NOW)
    assert writes(plan) == []
    assert len(plan.untouched) == 1
    assert plan.untouched[0].reason.code in {"not-revertible", "not-in-force"}


def test_the_newest_first():
    targets = [ost(number, settings={WBT: "0"}) for number in range(3)]
    rows = tuple(wrote(age_s, target=f"OST000{n}") for n, age_s in enumerate((500, 900, 100)))
    plan = decide_reverts(seen(targets, actions=rows), None, NOW)
    assert [row.target for row in plan.instructions] == ["OST0002", "OST0000", "OST0001"]
    assert plan == decide_reverts(seen(targets[::-1], actions=rows[::-1]), None, NOW)


def test_an_incomplete_snapshot_and_a_full_hour_hold_no_revert():
    half = snapshot([ost(0, settings={WBT: "0"})], complete=False)
    observed = seen([], site(most_per_hour=1), snapshot=half, actions=(A, closing(age_s=9)))
    assert writes(decide_reverts(observed, "a", NOW)) == [("set", "OST0000", "2000")]


def test_held_means_no_instruction():
    observed = reading("0", A, integrity=(Message("wrong-data", "a file is wrong"),))
    plan = decide_reverts(observed, None, NOW)
    assert (writes(plan), held_by(plan)) == ([], ["integrity-open"])
    assert held_by(decide_reverts(replace(observed, snapshot=None), None, NOW)) == [
        "no-snapshot", "integrity-open",
    ]  # fmt: skip


STEP = st.tuples(
    st.integers(0, 2), st.sampled_from(["0", "75", "2000", "close", "open", "failover", "revert"])
)


def _text(row, name):
    return row.settings[name].value


def _step(observed, target, word, at):
    """Return the site after one of the things that happen to a target."""
    current = observed.snapshot.of(target)
    wbt, create = _text(current, WBT), _text(current, CREATE)
    test = Message("test", "a test")
    if word == "failover":
        fresh = [START[row.target.name] if row.target.name == target else row
                 for row in observed.snapshot.targets]  # fmt: skip
        return replace(observed, snapshot=snapshot(fresh, at=at))
    if word == "revert":
        return carried_out(observed, decide_reverts(observed, None, at), at)
    if word == "close" and current.value("create_enabled") is True:
        row = Instruction(CLOSE, target, test, None, CREATE, create, "0")
    elif word == "open" and current.value("create_enabled") is False:
        row = Instruction(OPEN, target, test, None, CREATE, create, "20000")
    elif word.isdigit() and word != wbt:
        row = Instruction(SET, target, test, None, WBT, wbt, word)
    else:
        return retaken(observed, at=at)
    return carried_out(observed, Plan("small", "tunables", at, at, (row,)), at)


START = {
    f"OST000{n}": ost(n, settings={WBT: ("2000", "75", "9")[n], CREATE: "20000"}) for n in range(3)
}


@given(st.lists(STEP, max_size=14))
def test_reverting_all_restores_the_first_values_after_anything(steps):
    observed = seen(START.values())
    at = NOW
    for number, word in steps:
        at += timedelta(minutes=7)
        observed = _step(observed, f"OST000{number}", word, at)
    at += timedelta(minutes=7)
    observed = retaken(observed, at=at)
    observed = carried_out(observed, decide_reverts(observed, None, at), at)
    for target in targets_in(observed):
        first = START[target.target.name]
        assert target.value("create_enabled") is True
        for name in (WBT, CREATE):
            assert _text(target, name) == _text(first, name)
    assert writes(decide_reverts(observed, None, at)) == []


# What each controller still changes where a part of the file system is not seen.  The table of
# ``docs/act-safety.md`` says the same in words.

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
FILE = balance.MovableFile(
    "[0x1:0x2:0x0]", "/a", "1 2 3", 2**40, NOW - timedelta(days=30), (OSTS[CLOSED],)
)
WAS_SET = action(
    ActionKind.SET, "OST0001", 7200, setting=WBT, before="75000", value="2000", found="2000"
)
WAS_CLOSED = action(
    ActionKind.CLOSE, OSTS[CLOSED], 7200, setting=CREATE, before="20000", value="0",
    policy="balance",
)  # fmt: skip


def trim(observed: SiteObserved) -> Plan:
    return trimming.decide_trims(observed, NOW)


def tune(observed: SiteObserved) -> Plan:
    return tunables.decide_tunables(observed, NOW)


def reset(observed: SiteObserved) -> Plan:
    return tunables.decide_resets(observed, NOW)


def close(observed: SiteObserved) -> Plan:
    return balance.decide_balance(replace(observed, actions=(WAS_CLOSED,)), NOW)


def move(observed: SiteObserved) -> Plan:
    return balance.decide_moves(observed, balance.MovableFiles(NOW, [FILE]), NOW)


def revert(observed: SiteObserved) -> Plan:
    return decision.decide_reverts(replace(observed, actions=(WAS_SET, WAS_CLOSED)), None, NOW)


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
    kept = tuple(row for row in targets_in(whole) if row.target.name not in lost)
    without = replace(retaken(whole, targets=kept), baseline=WELL.snapshot)
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
    partly = retaken(WELL, complete=False, hosts=hosts)
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
