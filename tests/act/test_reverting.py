"""The way back: the value of before, unless somebody else has changed it since."""

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
    codes,
    held_by,
    ost,
    seen,
    site,
    snapshot,
    writes,
)
from tests.support.each import for_each

from trimtab.act.decide.reverting import decide
from trimtab.base.action import ActionKind, Instruction, Outcome, Plan
from trimtab.base.error import Message

SET, CLOSE, OPEN = ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN
QOS = "lod/qos_threshold_rr"


def wrote(age_s, before: str | None = "2000", value="0", target="OST0000", **changes):
    keys: dict[str, Any] = {"setting": WBT, "before": before, "value": value}
    return action(SET, target, age_s, **(keys | changes))


def closing(age_s, target="OST0000", **changes):
    keys: dict[str, Any] = {
        "setting": CREATE, "before": "20000", "value": "0", "policy": "balance",
    }  # fmt: skip
    return action(CLOSE, target, age_s, **(keys | changes))


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
    (row,) = decide(observed, which, NOW).instructions
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
    plan = decide(observed, which, NOW)
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
    plan = decide(observed, which, NOW)
    assert (writes(plan), plan.untouched) == ([], ())


def test_a_percentage_that_reads_rounded_is_still_ours():
    row = action(SET, "MDT0000", 99, setting=QOS, before="90%", value="17")
    target = ost(0, kind="mdt", settings={QOS: "18%"})
    assert writes(decide(seen([target], actions=(row,)), None, NOW)) == [("set", "MDT0000", "90%")]


def test_what_a_failed_way_back_left_is_taken_back_again():
    tried = wrote(
        600, "0", "2000", outcome=Outcome.NOT_STORED, found="1000", reverts=("a",), policy="revert"
    )
    (again,) = decide(reading("1000", A, tried), None, NOW).instructions
    assert (again.before, again.value, again.reverts) == ("1000", "2000", ("a",))
    by_others = decide(reading("500", A, tried), None, NOW)
    assert list(codes(by_others).values()) == ["changed-by-others"]


def test_what_was_permanent_is_taken_back_for_every_mount_to_come():
    row = replace(A, instruction=replace(A.instruction, permanent=True))
    (instruction,) = decide(reading("0", row), None, NOW).instructions
    assert instruction.permanent


SHUT: dict[str, Any] = {"settings": {CREATE: "0"}, "create_enabled": False}


def test_what_was_closed_is_opened():
    (row,) = decide(seen([ost(0, 0.9, **SHUT)], actions=(closing(9, identifier="x"),)), None, NOW
                    ).instructions  # fmt: skip
    assert (row.kind, row.setting, row.before, row.value) == (OPEN, CREATE, "0", "20000")
    assert row.reverts == ("x",)
    twice = (closing(9000, before="4096"), closing(9, before="0 (1), 20000 (2)"))
    plan = decide(seen([ost(0, 0.9, **SHUT)], actions=twice), None, NOW)
    assert writes(plan) == [("open", "OST0000", "4096")]


def test_reopening_tells_of_closed_targets_alone():
    targets = [ost(0, 0.9, **SHUT), ost(1, settings={WBT: "500"}), ost(2, settings={WBT: "0"})]
    actions = (
        closing(9),
        closing(99, "OST0001"), action(OPEN, "OST0001", 50, setting=CREATE, policy="balance"),
        wrote(9, target="OST0001"), wrote(9, target="OST0002"),
        action(ActionKind.TRIM, "OST0002", 9, policy="trim"),
    )  # fmt: skip
    plan = decide(seen(targets, actions=actions), None, NOW, reopening=True)
    assert writes(plan) == [("open", "OST0000", "20000")]
    assert plan.untouched == ()
    # One that is closed by others by now is told: it stays closed.
    others = [ost(0, settings={CREATE: "20000"}, create_enabled=False)]
    plan = decide(seen(others, actions=actions[:1]), None, NOW, reopening=True)
    assert codes(plan) == {("OST0000", CREATE): "changed-by-others"}


@for_each(
    "target, actions, code",
    [
        (ost(0, settings={CREATE: "20000"}), (closing(9),), "not-in-force"),
        (ost(0, **SHUT), (closing(99), action(OPEN, "OST0000", 9)), "not-in-force"),
        (ost(0, settings={CREATE: "20000"}, create_enabled=False), (closing(9),),
         "changed-by-others"),
    ],
)  # fmt: skip
def test_a_closing_that_is_not_in_force_is_left(target, actions, code):
    plan = decide(seen([target], actions=actions), None, NOW)
    assert writes(plan) == []
    assert set(codes(plan).values()) == {code}


@for_each(
    "kind", [ActionKind.TRIM, ActionKind.RESET_ALLOCATOR, ActionKind.MIGRATE, ActionKind.OPEN]
)
def test_what_cannot_be_taken_back(kind):
    rows = tuple(action(kind, "OST0000", age_s) for age_s in (9, 99))
    plan = decide(seen([ost(0)], actions=rows), None, NOW)
    assert writes(plan) == []
    assert len(plan.untouched) == 1
    assert plan.untouched[0].reason.code in {"not-revertible", "not-in-force"}


def test_the_newest_first():
    targets = [ost(number, settings={WBT: "0"}) for number in range(3)]
    rows = tuple(wrote(age_s, target=f"OST000{n}") for n, age_s in enumerate((500, 900, 100)))
    plan = decide(seen(targets, actions=rows), None, NOW)
    assert [row.target for row in plan.instructions] == ["OST0002", "OST0000", "OST0001"]
    assert plan == decide(seen(targets[::-1], actions=rows[::-1]), None, NOW)


def test_an_incomplete_snapshot_and_a_full_hour_hold_no_revert():
    half = snapshot([ost(0, settings={WBT: "0"})], complete=False)
    observed = seen([], site(most_per_hour=1), snapshot=half, actions=(A, closing(9)))
    assert writes(decide(observed, "a", NOW)) == [("set", "OST0000", "2000")]


def test_held_means_no_instruction():
    observed = reading("0", A, integrity=(Message("wrong-data", "a file is wrong"),))
    plan = decide(observed, None, NOW)
    assert (writes(plan), held_by(plan)) == ([], ["integrity-open"])
    assert held_by(decide(replace(observed, snapshot=None), None, NOW)) == [
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
        return carried_out(observed, decide(observed, None, at), at)
    if word == "close" and current.value("create_enabled") is True:
        row = Instruction(CLOSE, target, test, None, CREATE, create, "0")
    elif word == "open" and current.value("create_enabled") is False:
        row = Instruction(OPEN, target, test, None, CREATE, create, "20000")
    elif word.isdigit() and word != wbt:
        row = Instruction(SET, target, test, None, WBT, wbt, word)
    else:
        return replace(observed, snapshot=replace(observed.snapshot, at=at))
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
    assert observed.snapshot is not None
    observed = replace(observed, snapshot=replace(observed.snapshot, at=at))
    observed = carried_out(observed, decide(observed, None, at), at)
    assert observed.snapshot is not None
    for target in observed.snapshot.targets:
        first = START[target.target.name]
        assert target.value("create_enabled") is True
        for name in (WBT, CREATE):
            assert _text(target, name) == _text(first, name)
    assert writes(decide(observed, None, at)) == []
