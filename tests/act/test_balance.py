"""Closing over the limit, opening under the mark, and never beyond a cap."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.act.world import (
    CREATE,
    NOW,
    UNREADABLE,
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

from trimtab.act.decide.balance import decide_balance
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.error import Message
from trimtab.base.site import SiteLimits
from trimtab.base.site_policy import BalancePolicy

CLOSE, OPEN = ActionKind.CLOSE, ActionKind.OPEN
HALF = BalancePolicy(most_closed=0.5)
OURS: dict[str, Any] = {"settings": {CREATE: "0"}, "create_enabled": False}
DAY_S = 86400.0


def opening(target, age_s, **changes):
    return action(OPEN, target, age_s, policy="balance", **changes)


def world(*targets, policy=None, count=20, actions=(), **changes):
    """Return targets among so many half full others: 20, of which 4 may be closed."""
    others = [ost(number, settings={CREATE: "20000"}) for number in range(len(targets), count)]
    where = site(balance=policy or BalancePolicy())
    return seen([*targets, *others], where, actions=actions, **changes)


def full(number, fullness, **changes):
    keys: dict[str, Any] = {"settings": {CREATE: "20000"}}
    return ost(number, fullness, **(keys | changes))


@for_each(
    "target, written",
    [
        (full(0, 0.751), [("close", "OST0000", "0")]),
        (full(0, 0.75), []),
        (full(0, 0.999), [("close", "OST0000", "0")]),
        (full(0, None), []),
        (full(0, 0.8, settings={"obdfilter/no_create": "0"}), [("close", "OST0000", "1")]),
        (full(0, 0.8, settings={}), [("close", "OST0000", None)]),
    ],
)
def test_over_the_limit_it_is_closed(target, written):
    assert writes(decide_balance(world(target), NOW)) == written


def test_a_mark_over_the_limit_closes_nothing_that_it_would_open():
    observed = world(full(0, 0.85), full(1, 0.91))
    limits = replace(observed.site, limits=SiteLimits(fullness=0.8, reopen=0.9))
    assert writes(decide_balance(replace(observed, site=limits), NOW)) == [
        ("close", "OST0001", "0")
    ]


def test_a_client_that_does_not_use_a_target_says_nothing_of_it():
    inactive = decide_balance(world(full(0, 0.8, import_state="INACTIVE")), NOW)
    assert writes(inactive) == [("close", "OST0000", "0")]


def test_a_closing_carries_the_value_of_before_and_the_mechanism_that_the_policy_names():
    both = {CREATE: "20000", "obdfilter/no_create": "0"}
    plan = decide_balance(world(full(0, 0.8, settings=both)), NOW)
    (row,) = plan.instructions
    assert (row.setting, row.before, row.value, row.server) == (CREATE, "20000", "0", "oss0")
    assert (row.reason.code, plan.policy, plan.held) == ("over-limit", "balance", ())
    policy = BalancePolicy(mechanism="no_create")
    (row,) = decide_balance(world(full(0, 0.8, settings=both), policy=policy), NOW).instructions
    assert (row.setting, row.before, row.value) == ("obdfilter/no_create", "0", "1")
    plan = decide_balance(world(full(0, 0.8), policy=policy), NOW)
    assert codes(plan) == {("OST0000", None): "setting-absent"}


@for_each(
    "target, actions, code",
    [
        (full(0, 0.8, degraded=True), (), "target-degraded"),
        (full(0, 0.8, read_only=True), (), "target-read-only"),
        (full(0, 0.8, read_only=None, errors_total=2), (), "target-read-only"),
        (full(0, 0.8, import_state="REPLAY"), (), "target-disconnected"),
        (full(0, 0.8, labelled={("server", None): None}), (), "server-unknown"),
        (full(0, 0.8, create_enabled=None), (), "creation-unknown"),
        (full(0, 0.8, settings={CREATE: UNREADABLE}), (), "setting-unreadable"),
        (full(0, 0.8, labelled={("create_enabled", "MDT0001"): False}), (), "closed-by-others"),
        (full(0, 0.8), (opening("OST0000", 3599),), "dwell"),
        (full(0, 0.8), (closing("OST0000", 3000, outcome=Outcome.REFUSED),), "dwell"),
        (
            full(0, 0.8),
            tuple(closing("OST0000", hours * 3600) for hours in (9, 6, 3)),
            "undone-repeatedly",
        ),
    ],
)
def test_over_the_limit_it_stays_open(target, actions, code):
    plan = decide_balance(world(target, actions=actions), NOW)
    assert writes(plan) == []
    assert codes(plan) == {("OST0000", None): code}


@for_each("name", ["", "OST0000"])
def test_a_busy_target_is_not_closed(name):
    plan = decide_balance(world(full(0, 0.8), busy={name: Message("survey", "a survey runs")}), NOW)
    assert codes(plan) == {("OST0000", None): "survey"}
    plan = decide_balance(
        world(full(0, 0.8), busy={"OST0001": Message("survey", "a survey runs")}), NOW
    )
    assert len(plan.instructions) == 1


@for_each(
    "fullness, age_s, written",
    [
        (0.699, 3600, [("open", "OST0000", "20000")]),
        (0.70, 3600, []),
        (0.74, DAY_S, []),
        (0.699, 3599, []),
    ],
)
def test_under_the_mark_and_after_its_dwell_it_is_opened(fullness, age_s, written):
    plan = decide_balance(
        world(ost(0, fullness, **OURS), actions=(closing("OST0000", age_s),)), NOW
    )
    assert writes(plan) == written
    dwells = {("OST0000", None): "dwell"} if fullness < 0.7 and not written else {}
    assert codes(plan) == dwells


@for_each(
    "before, value",
    [("20000", "20000"), ("4096", "4096"), ("20000 (3), 0 (MDT0001)", "20000"), ("0", "20000")],
)
def test_the_value_of_before_is_restored(before, value):
    actions = (closing("OST0000", before=before), closing("OST0000", 7200, before="0 (1), 20 (2)"))
    plan = decide_balance(world(ost(0, 0.5, **OURS), actions=actions), NOW)
    assert writes(plan) == [("open", "OST0000", value)]


@for_each(
    "target, actions",
    [
        (ost(0, 0.5, **OURS), ()),
        (ost(0, 0.5, **OURS), (closing("OST0000", outcome=Outcome.REFUSED),)),
        (ost(0, 0.5, **OURS), (closing("OST0000"), opening("OST0000", 9000))),
        # A failover lost Trimtab's; something else closes it now.
        (ost(0, 0.5, create_enabled=False, settings={CREATE: "20000"}), (closing("OST0000"),)),
    ],
)
def test_what_others_closed_is_never_opened(target, actions):
    plan = decide_balance(world(target, actions=actions), NOW)
    assert writes(plan) == []
    assert codes(plan) == {("OST0000", None): "closed-by-others"}


def test_what_a_failover_opened_is_closed_again():
    plan = decide_balance(world(full(0, 0.8), actions=(closing("OST0000"),)), NOW)
    assert writes(plan) == [("close", "OST0000", "0")]
    half = full(0, 0.8, labelled={("create_enabled", "MDT0001"): False})
    assert len(decide_balance(world(half, actions=(closing("OST0000"),)), NOW).instructions) == 1
    assert writes(decide_balance(world(full(0, 0.72), actions=(closing("OST0000"),)), NOW)) == []


def test_the_fullest_are_closed_and_the_rest_reported():
    targets = [full(number, 0.76 + number / 100) for number in range(6)]
    plan = decide_balance(world(*targets), NOW)
    assert [row.target for row in plan.instructions] == ["OST0005", "OST0004", "OST0003", "OST0002"]
    assert codes(plan) == {("OST0000", None): "cap-reached", ("OST0001", None): "cap-reached"}


@for_each(
    "unusable",
    [
        {"create_enabled": False},
        {"degraded": True},
        {"read_only": True},
        {"import_state": "DISCONN"},
        {"create_enabled": None},
    ],
)
def test_whatever_takes_no_new_files_counts_in_the_cap(unusable):
    three = [ost(number, 0.72, **unusable) for number in range(3)]
    targets = [full(number, 0.8 + number / 100) for number in range(3, 5)]
    plan = decide_balance(world(*three, *targets), NOW)
    assert [row.target for row in plan.instructions] == ["OST0004"]
    assert codes(plan)["OST0003", None] == "cap-reached"


@for_each(
    "policy, pools, closed",
    [
        (HALF, {}, 5),  # of 20 a quarter: layouts refuse more
        (BalancePolicy(most_closed=0.1), {}, 2),
        (BalancePolicy(most_closed=0.0), {}, 0),
        (replace(HALF, widest_stripe=18), {}, 2),
        (replace(HALF, widest_stripe=2000), {}, 0),
        (replace(HALF, least_open=19), {}, 1),
        (HALF, {"flash": frozenset(f"OST{n:04}" for n in range(8))}, 2),
        (HALF, {"flash": frozenset(["OST0000", "OST0001", "OST0002"])}, 5),
        (HALF, {"gone": frozenset(["OST0000", "OST0091", "OST0092", "OST0093"])}, 5),
    ],
)
def test_caps(policy, pools, closed):
    targets = [full(number, 0.9 - number / 1000) for number in range(8)]
    plan = decide_balance(world(*targets, policy=policy, pools=pools), NOW)
    assert len(plan.instructions) == closed
    if "flash" in pools and len(pools["flash"]) == 3:
        # Of three none may be missing: the next fullest are closed in their stead.
        assert plan.instructions[0].target == "OST0003"


def test_a_closed_target_is_not_swapped_for_a_fuller_one():
    four = [ost(number, 0.76, **OURS) for number in range(4)]
    actions = tuple(closing(f"OST{number:04}") for number in range(4))
    plan = decide_balance(world(*four, full(4, 0.95), actions=actions), NOW)
    assert writes(plan) == []
    assert codes(plan) == {("OST0004", None): "cap-reached"}


def test_an_opening_makes_room_only_once_it_is_read_back():
    four = [ost(number, 0.60, **OURS) for number in range(4)]
    actions = tuple(closing(f"OST{number:04}") for number in range(4))
    observed = world(*four, full(4, 0.9), actions=actions)
    plan = decide_balance(observed, NOW)
    assert [row.kind for row in plan.instructions] == [OPEN] * 4
    assert codes(plan) == {("OST0004", None): "cap-reached"}
    plan = decide_balance(carried_out(observed, plan, NOW), NOW)
    assert writes(plan) == [("close", "OST0004", "0")]


def test_a_degraded_target_that_is_opened_does_not_make_up_for_one_that_layouts_lack():
    ours = [
        ost(0, 0.60, degraded=True, **OURS),
        *(ost(number, 0.80 + number / 100, **OURS) for number in (1, 2)),
    ]
    lost = [ost(number, 0.5, import_state="DISCONN", create_enabled=False) for number in (3, 4, 5)]
    actions = tuple(closing(f"OST{number:04}") for number in range(3))
    plan = decide_balance(world(*ours, *lost, actions=actions), NOW)
    reasons = [(row.target, row.reason.code) for row in plan.instructions]
    assert reasons == [("OST0000", "under-limit"), ("OST0001", "too-few-open")]


def test_what_layouts_need_is_opened_whatever_its_dwell():
    ours = [ost(number, 0.80 + number / 100, **OURS) for number in range(3)]
    lost = [ost(number, 0.5, import_state="DISCONN", create_enabled=False) for number in (3, 4, 5)]
    actions = tuple(closing(f"OST{number:04}", 60) for number in range(3))
    observed = world(*ours, *lost, actions=actions)
    plan = decide_balance(observed, NOW)
    assert writes(plan) == [("open", "OST0000", "20000")]  # 14 of 20 are usable, 15 are needed
    assert plan.instructions[0].reason.code == "too-few-open"
    later = NOW + timedelta(hours=2)
    assert writes(decide_balance(carried_out(observed, plan, later), later)) == []


def test_a_target_without_space_is_not_opened_for_layouts():
    ours = [ost(number, 0.96, **OURS) for number in range(3)]
    lost = [ost(number, 0.5, create_enabled=False) for number in (3, 4, 5)]
    actions = tuple(closing(f"OST{number:04}") for number in range(3))
    assert writes(decide_balance(world(*ours, *lost, actions=actions), NOW)) == []


def test_an_incomplete_snapshot_opens_and_does_not_close():
    observed = world(ost(0, 0.6, **OURS), full(1, 0.8), actions=(closing("OST0000"),))
    half = retaken(observed, complete=False)
    plan = decide_balance(half, NOW)
    assert writes(plan) == [("open", "OST0000", "20000")]
    assert codes(plan) == {("OST0001", None): "snapshot-incomplete"}
    assert plan.held == ()
    plan = decide_balance(replace(half, actions=()), NOW)
    assert (writes(plan), held_by(plan)) == ([], ["snapshot-incomplete"])


def test_the_hour_bounds_closings():
    targets = [full(number, 0.8) for number in range(3)]
    where = site(most_per_hour=2)
    plan = decide_balance(replace(world(*targets), site=where), NOW)
    assert [row.target for row in plan.instructions] == ["OST0000", "OST0001"]
    assert codes(plan) == {("OST0002", None): "too-many-actions"}


def test_held_means_no_instruction():
    observed = world(full(0, 0.8), ost(1, 0.5, **OURS), actions=(closing("OST0001"),))
    plan = decide_balance(replace(observed, snapshot=snapshot([], age_s=9999)), NOW)
    assert (writes(plan), held_by(plan)) == ([], ["snapshot-stale"])
    plan = decide_balance(replace(observed, snapshot=None), NOW)
    assert (writes(plan), held_by(plan), plan.snapshot_at) == ([], ["no-snapshot"], None)


def test_mdts_are_not_closed():
    assert writes(decide_balance(world(ost(99, 0.9, kind="mdt")), NOW)) == []


STATE = st.tuples(
    st.one_of(st.none(), st.integers(0, 100)),
    st.sampled_from(["open", "open", "open", "ours", "others", "lost", "degraded", "unknown"]),
    st.integers(0, 20_000),
)


def drawn(rows, policy, pools, limits):
    targets, actions = [], []
    for number, (percent, state, age_s) in enumerate(rows):
        fullness = None if percent is None else percent / 100
        keys: dict[str, Any] = {"settings": {CREATE: "20000"}}
        if state == "ours":
            keys = dict(OURS)
            actions.append(closing(f"OST{number:04}", age_s + 200))
        elif state == "others":
            keys = dict(OURS)
        elif state == "lost":
            keys |= {"import_state": "DISCONN", "create_enabled": False}
        elif state == "degraded":
            keys |= {"degraded": True}
        elif state == "unknown":
            keys |= {"create_enabled": None}
        targets.append(ost(number, fullness, **keys))
    names = [row.target.name for row in targets]
    groups = {f"p{n}": frozenset(names[i] for i in pool if i < len(names))
              for n, pool in enumerate(pools)}  # fmt: skip
    groups = {name: members for name, members in groups.items() if members}
    return seen(targets, site(limits, balance=policy), actions=tuple(actions), pools=groups)


SITES = st.builds(
    drawn,
    st.lists(STATE, min_size=1, max_size=40),
    st.builds(
        BalancePolicy,
        most_closed=st.floats(0, 1),
        least_open=st.integers(1, 30),
        widest_stripe=st.integers(1, 30),
        dwell_s=st.sampled_from([0.0, 3600.0]),
    ),
    st.lists(st.sets(st.integers(0, 39), min_size=1), max_size=3),
    st.builds(SiteLimits, fullness=st.floats(0.3, 0.9), reopen=st.floats(0.3, 0.9)),
)


def unusable(observed, members):
    """Count, in the plainest way, which of some targets are not known to take new files."""
    rows = [row for row in observed.snapshot.targets if row.target.name in members]
    good = [
        row
        for row in rows
        if row.value("create_enabled") is True
        and row.value("degraded") is False
        and row.value("import_state") == "FULL"
    ]
    return len(members) - len(good)


@given(SITES)
def test_never_more_closed_than_any_cap(observed):
    after = carried_out(observed, plan := decide_balance(observed, NOW), NOW)
    policy, names = observed.site.policies.balance, {s.target.name for s in targets_in(after)}
    closed = {row.target for row in plan.instructions if row.kind is CLOSE}
    for members in (names, *observed.pools.values()):
        if not closed & set(members):
            continue
        bad, size = unusable(after, members), len(members)
        assert bad <= math.floor(policy.most_closed * size + 1e-9)
        assert size - bad >= min(size, max(policy.least_open, policy.widest_stripe))
        assert size - bad >= size - size // 4


@given(SITES)
def test_nothing_is_closed_below_the_limit_or_opened_that_is_not_ours(observed):
    ours = {row.instruction.target for row in observed.actions}
    limits = observed.site.limits
    for row in decide_balance(observed, NOW).instructions:
        fullness = observed.snapshot.of(row.target).fullness()
        if row.kind is CLOSE:
            assert fullness > limits.fullness
            assert fullness >= limits.reopen
        else:
            assert row.target in ours
            assert fullness < limits.reopen or row.reason.code == "too-few-open"


@given(SITES)
def test_what_was_done_asks_for_nothing_more_within_the_dwell(observed):
    policy = replace(observed.site.policies.balance, dwell_s=3600.0, most_closed=1.0)
    where = replace(observed.site, policies=replace(observed.site.policies, balance=policy))
    observed = replace(observed, site=where)
    for step in range(3):
        at = NOW + timedelta(minutes=step)
        observed = carried_out(observed, decide_balance(observed, at), at)
    changed = {row.instruction.target for row in observed.actions if row.at >= NOW}
    at = NOW + timedelta(minutes=5)
    assert (
        not {row.target for row in decide_balance(retaken(observed, at=at), at).instructions}
        & changed
    )


@given(SITES, st.randoms())
def test_the_order_of_targets_and_actions_does_not_matter(observed, random):
    targets, actions = list(observed.snapshot.targets), list(observed.actions)
    random.shuffle(targets)
    random.shuffle(actions)
    shuffled = replace(observed.snapshot, targets=tuple(targets))
    again = replace(observed, snapshot=shuffled, actions=tuple(actions))
    assert decide_balance(again, NOW) == decide_balance(observed, NOW)
