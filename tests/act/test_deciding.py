"""What holds a change; resets of the allocator; migrations; values as the system prints them."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.act.world import (
    CREATE,
    NOW,
    UNREADABLE,
    WBT,
    action,
    ago,
    closing,
    codes,
    held_by,
    ost,
    seen,
    site,
    snapshot,
    writes,
)
from tests.support.each import for_each

from trimtab.act.decide.balance import FEWEST_BYTES, MovableFile, MovableFiles, decide_moves
from trimtab.act.decide.site_observed import (
    allowance,
    differing,
    harm_of,
    held,
    is_same,
    undone,
    unfolded,
)
from trimtab.act.decide.tunables import decide_resets as decide_reset
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.error import Message
from trimtab.base.site_policy import AllocatorPolicy, Policies
from trimtab.base.snapshot import HostSnapshot, Snapshot, TargetSnapshot
from trimtab.reach.lustre.lustre_setting import folded

# What holds every change, and what holds even opening and reverting.

SET, CLOSE, OPEN, TRIM = ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN, ActionKind.TRIM
RESET = ActionKind.RESET_ALLOCATOR


def wbt(age_s, target="OST0000", **changes):
    return action(SET, target, age_s, setting=WBT, before="2000", value="0", **changes)


def throttled(count=4, value="2000", age_s=30.0, uptime_s=1e6, **changes):
    targets = [
        ost(number, settings={WBT: value}, server_uptime_s=uptime_s) for number in range(count)
    ]
    return replace(seen(targets, **changes), snapshot=snapshot(targets, age_s=age_s))


def held_codes(observed, policy="tunables", **options):
    return [reason.code for reason in held(observed, policy, NOW, **options)]


def test_nothing_holds_a_site_that_is_well():
    assert held_codes(seen([ost(0)])) == []


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
    assert held_codes(observed) == [code]
    assert held_codes(observed, giving_back=True) == [code]


@for_each("code, observed", NOT_TO_GIVE_BACK)
def test_what_holds_new_changes_and_gives_back(code, observed):
    assert held_codes(observed) == [code]
    assert held_codes(observed, giving_back=True) == []


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
    assert held_codes(observed) == []


def test_an_incomplete_snapshot_names_who_did_not_answer():
    observed = seen([ost(0)], snapshot=snapshot([ost(0)], complete=False, hosts=(SILENT,)))
    assert "oss7" in held(observed, "migrate", NOW)[0]
    assert held_codes(observed, "migrate", giving_back=True) == []
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
    rows = tuple(closing(age_s=hours * 3600) for hours in (9, 6, 3))
    assert ("OST0000", "creation") in undone(seen([target], actions=rows), NOW)
    opened = action(OPEN, "OST0000", 5 * 3600, setting=CREATE, value="20000", policy="balance")
    assert undone(seen([target], actions=(*rows, opened)), NOW) == {}
    assert undone(seen([ost(0, 0.8, create_enabled=False)], actions=rows), NOW) == {}


def test_the_hour_counts_what_may_have_been_written():
    rows = (wbt(10), wbt(20, outcome=Outcome.REFUSED), wbt(30, outcome=None), wbt(3599 + 3600))
    assert allowance(seen([ost(0)], site(most_per_hour=10), actions=rows), NOW) == 8
    assert ago(0) == NOW


# When the allocator's pointer is set back, and when not.

POINTER = "ldiskfs/md12/mb_last_group"
POINTERS = "ldiskfs/md12/mb_last_groups"
REQUESTS, LOOPS = "allocator_requests_total", "allocator_useless_loops_total"


def counting(
    requests: int | None = 2000, loops=(300, 0), pointer: Any = "4711", name=POINTER, **changes
):
    labelled: dict[Any, Any] = {(LOOPS, f"cr{n}"): count for n, count in enumerate(loops)}
    if requests is not None:
        labelled[REQUESTS, None] = requests
    settings: dict[str, Any] = {} if pointer is None else {name: pointer}
    return ost(0, settings=settings, labelled=labelled, **changes)


BEFORE = snapshot([counting(1000, (100, 0))], age_s=3600)


def a_reset(age_s, outcome=Outcome.DONE):
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
        (counting(2000, (200, 0)), True),  # 100 of 1000 requests
        (counting(2000, (199, 0)), False),
        (counting(2000, (150, 50)), True),  # the criteria together
        (counting(2000, (900, 800)), True),
        (counting(1000, (100, 0)), False),  # no request at all
        (counting(pointer="0"), False),
        (counting(pointer=None), False),
        (counting(pointer="0# 5 1# 0", name=POINTERS), True),
        (counting(pointer="0# 0 1# 0", name=POINTERS), False),
    ],
)
def test_due(row, written):
    plan = decide_reset(observe(row), NOW)
    assert writes(plan) == ([("reset-allocator", "OST0000", "0")] if written else [])
    assert plan.untouched == ()


def test_the_instruction():
    (row,) = decide_reset(observe(counting()), NOW).instructions
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
    plan = decide_reset(observe(counting(), actions=(a_reset(age_s, outcome),)), NOW)
    assert bool(plan.instructions) is due


@for_each(
    "row, baseline, code",
    [
        (counting(), None, "loops-unknown"),
        (counting(), snapshot([], age_s=3600), "loops-unknown"),
        (counting(900, (300, 0)), BEFORE, "loops-unknown"),  # mounted anew
        (counting(2000, (99, 900)), BEFORE, "loops-unknown"),
        (counting(None), BEFORE, "loops-unknown"),
        (counting(loops=()), BEFORE, "loops-unknown"),
        (counting(loops=(300, 0, 0)), BEFORE, "loops-unknown"),
        (counting(read_only=True), BEFORE, "target-read-only"),
        (counting(degraded=True), BEFORE, "target-degraded"),
        (counting(import_state="DISCONN"), BEFORE, "target-disconnected"),
    ],
)
def test_left_with_the_reason(row, baseline, code):
    plan = decide_reset(observe(row, baseline), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", POINTER): code})


def test_what_cannot_be_read_is_not_written():
    plan = decide_reset(observe(counting(pointer=UNREADABLE)), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", None): "setting-unreadable"})


def test_without_a_share_it_is_reset_whatever_the_loops():
    policy = AllocatorPolicy(useless_loops=None)
    assert len(decide_reset(observe(counting(), None, policy), NOW).instructions) == 1
    assert (
        decide_reset(observe(counting(), BEFORE, policy, (a_reset(899),)), NOW).instructions == ()
    )


def test_held_means_no_instruction():
    observed = replace(observe(counting()), snapshot=snapshot([counting()], age_s=601))
    plan = decide_reset(observed, NOW)
    assert (writes(plan), held_by(plan)) == ([], ["snapshot-stale"])
    assert held_by(decide_reset(replace(observed, snapshot=None), NOW)) == ["no-snapshot"]


# Which files are moved off which targets, and which stay, with the reason.

DAY_S = 86400.0
GIB = 2**30


def full_target(number: int, fullness: float = 0.9, **changes: Any) -> TargetSnapshot:
    """Return a closed target of 1,000 GiB."""
    readings: dict[str, Any] = {"create_enabled": False} | changes
    used = {("used_bytes", None): round(fullness * 1000 * GIB)}
    free = {("available_bytes", None): round((1 - fullness) * 1000 * GIB)}
    return ost(number, fullness, labelled=used | free, **readings)


def file(number: int, gib: float, *targets: int, age_s: float = 30 * DAY_S) -> MovableFile:
    names = tuple(f"OST{target:04}" for target in targets or (0,))
    identity = f"[0x200000402:{number:#x}:0x0]"
    return MovableFile(identity, f"/small/{number}", "1 2 3", round(gib * GIB), ago(age_s), names)


def index(*files: MovableFile, age_s: float = DAY_S) -> MovableFiles:
    return MovableFiles(ago(age_s), files)


def moved(plan) -> list[str]:
    return [row.value for row in plan.instructions]


def test_the_largest_go_first_and_no_more_than_the_mark_needs():
    # 900 GiB of 1,000 are used, and 700 are the mark.
    files = [file(1, 50), file(2, 120), file(3, 90), file(4, 60)]
    plan = decide_moves(seen([full_target(0)]), index(*files), NOW)
    assert moved(plan) == ["/small/2", "/small/3"]
    row = plan.instructions[0]
    assert (row.kind, row.setting, row.before) == (ActionKind.MIGRATE, files[1].identity, "1 2 3")


@for_each(
    "target, files, code",
    [
        (full_target(0, create_enabled=True), [file(1, 300)], "target-open"),
        (full_target(0, degraded=True), [file(1, 300)], "target-degraded"),
        (full_target(0, import_state="DISCONN"), [file(1, 300)], "target-disconnected"),
        (full_target(0), [file(1, FEWEST_BYTES / GIB / 2)], "no-candidates"),
        (full_target(0), [file(1, 300, age_s=3600.0)], "no-candidates"),
        (full_target(0), [file(1, 300, 1)], "no-candidates"),
    ],
)
def test_what_stays_and_why(target, files, code):
    plan = decide_moves(seen([target]), index(*files), NOW)
    assert (moved(plan), codes(plan)) == ([], {("OST0000", None): code})


def test_a_target_under_the_limit_is_left_alone():
    plan = decide_moves(seen([full_target(0, 0.74)]), index(file(1, 300)), NOW)
    assert (plan.instructions, plan.untouched) == ((), ())


@for_each(
    "outcome, since_index, again",
    [
        (Outcome.DONE, True, False),
        (Outcome.SKIPPED, True, False),
        (Outcome.UNKNOWN, True, False),
        (Outcome.REFUSED, True, True),
        (Outcome.DONE, False, True),
    ],
)
def test_a_file_is_tried_once_for_an_index_unless_it_was_open(outcome, since_index, again):
    row = action(
        ActionKind.MIGRATE, "OST0000", 0.5 * DAY_S if since_index else 2 * DAY_S,
        policy="migrate", setting=file(1, 0).identity, outcome=outcome,
    )  # fmt: skip
    observed = replace(seen([full_target(0)]), actions=(row,))
    assert moved(decide_moves(observed, index(file(1, 300)), NOW)) == (
        ["/small/1"] if again else []
    )


def test_an_old_index_or_stale_telemetry_moves_nothing():
    assert held_by(
        decide_moves(seen([full_target(0)]), index(file(1, 300), age_s=8 * DAY_S), NOW)
    ) == ["index-stale"]
    stale = replace(seen([full_target(0)]), snapshot=snapshot([full_target(0)], age_s=3600.0))
    assert held_by(decide_moves(stale, index(file(1, 300)), NOW)) == ["snapshot-stale"]


def test_no_more_than_an_hour_allows():
    where = replace(site(), policies=Policies(most_per_hour=1))
    plan = decide_moves(seen([full_target(0)], where), index(file(1, 90), file(2, 80)), NOW)
    assert moved(plan) == ["/small/1"]
    assert codes(plan) == {("OST0000", None): "too-many-actions"}


# Values as the system prints them: the same whatever the spaces, signs and rounding.

QOS, QUEUE_WBT = "lod/qos_threshold_rr", "drives/queue/wbt_lat_usec"
TABLE = "ldiskfs/md0/prealloc_table"


@for_each(
    "setting, shown, requested, same",
    [
        (QOS, "17%", "17", True),
        (QOS, "17", "17%", True),
        (QOS, "18%", "17%", True),
        (QOS, "16%", "17%", True),
        (QOS, "19%", "17%", False),
        (QOS, "100%", "99", False),
        (QOS, "99%", "100", False),
        (QOS, "1%", "0", False),
        (QOS, "0%", "1", False),
        ("ldiskfs/md0/mb_c1_threshold", "51", "50", True),
        ("ldiskfs/md0/mb_c1_threshold", "25", "50", False),
        (QUEUE_WBT, "18", "17", False),
        (QUEUE_WBT, "0", "0", True),
        (QUEUE_WBT, "0 (12)", "0", True),
        (QUEUE_WBT, "0 (11), 2000 (nvme3n1)", "0", False),
        (QUEUE_WBT, "", "0", False),
        (TABLE, "4 8 16 ", "4 8 16", True),
        (TABLE, "4 8 16 32", "4 8 16", False),
        ("drives/queue/scheduler", "none (11), mq-deadline (sda)", "none", False),
        ("drives/queue/scheduler", "[none] mq-deadline", "none", True),
        ("drives/queue/scheduler", "none [mq-deadline]", "none", False),
    ],
)
def test_same(setting, shown, requested, same):
    assert is_same(setting, shown, requested) is same


def test_what_differs_is_named():
    assert differing(QUEUE_WBT, "0 (9), 2000 (a, b), 75000 (c)", "0") == ("2000", "75000")
    assert differing("drives/queue/scheduler", "none (2), bfq (sda)", "none") == ("bfq",)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["0", "2000", "4 8"])))
def test_what_the_driver_folds_is_unfolded(values):
    if values:
        assert set(unfolded(folded(values))) == set(values.values())


@given(st.integers(0, 100), st.booleans(), st.booleans())
def test_a_percentage_that_was_written_is_never_written_again(percent, up, read_up):
    """Stored as n/256 and read back, each rounded down or up."""
    stored = -(-percent * 256 // 100) if up else percent * 256 // 100
    shown = -(-stored * 100 // 256) if read_up else stored * 100 // 256
    # 0 and 100 switch something off: a neighbour may be read as one of them, and is not the same.
    assert is_same(QOS, f"{shown}%", str(percent)) or shown in {0, 100}


@for_each(
    "setting, value, code",
    [
        ("drives/queue/discard_max_bytes", "0", "value-harmful"),
        ("block/sda/queue/discard_max_bytes", "00", "value-harmful"),
        ("drives/queue/discard_max_bytes", "0x0", "value-harmful"),
        ("drives/queue/discard_max_bytes", "2147483648", None),
        ("osc/checksums", "0", "value-harmful"),
        ("osc/checksums", "1", None),
        ("osc/checksum_type", "NONE", "value-harmful"),
        ("obdfilter/checksum_t10pi_enforce", "0", "value-harmful"),
        ("osc/checksum_type", "crc32c", None),
        (TABLE, "4 8 16", None),
        (TABLE, "0", "value-harmful"),
        (TABLE, "4 abc 16", "value-harmful"),
        (TABLE, "none", "value-harmful"),
        (TABLE, "16 8", "value-harmful"),
        (TABLE, "8 8", "value-harmful"),
        ("osp/max_create_count", "0", "setting-forbidden"),
        ("obdfilter/degraded", "1", "setting-forbidden"),
        ("osp/active", "0", "setting-forbidden"),
        ("ldiskfs/md0/mb_last_group", "0", "setting-forbidden"),
        ("ldiskfs/md0/discard_stats", "0", "setting-forbidden"),
        ("ldiskfs/md0/trigger_fs_error", "1", "setting-forbidden"),
        (QUEUE_WBT, "0", None),
    ],
)
def test_harm(setting, value, code):
    reason = harm_of(setting, value)
    assert (reason and reason.code) == code
