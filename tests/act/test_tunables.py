"""Which settings are written, in which stage, and which are left, with the reason."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.act.world import (
    NOW,
    UNREADABLE,
    WBT,
    action,
    ago,
    carried_out,
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

from trimtab.act.decide.tunables import decide_tunables, matches
from trimtab.base.action import ActionKind, Outcome
from trimtab.base.error import Message
from trimtab.base.site_policy import TunablesPolicy

HOUR_S = 3600.0
OFF = TunablesPolicy(settings={"wbt_lat_usec": "0"})
C1 = "ldiskfs/md0/mb_c1_threshold"
QOS = "lod/qos_threshold_rr"


def wbt(target, age_s, stage=0, **changes):
    keys: dict[str, Any] = {"setting": WBT, "before": "2000", "value": "0", "found": "0"}
    return action(ActionKind.SET, target, age_s, stage=stage, **(keys | changes))


def fleet(values, policy=OFF, fullness=None, **changes):
    """Return OSTs, two on each server, with these values of writeback throttling."""
    targets = [
        ost(number, 0.5 if fullness is None else fullness[number], settings={WBT: value})
        for number, value in enumerate(values)
    ]
    return seen(targets, site(tunables=policy), **changes)


def alone(settings, wishes, kind="ost", **changes):
    policy = TunablesPolicy(settings=wishes)
    return seen([ost(0, settings=settings, kind=kind, **changes)], site(tunables=policy))


def staged(plan):
    return [(row.stage, row.target) for row in plan.instructions]


@for_each(
    "name, setting, same",
    [
        ("wbt_lat_usec", WBT, True),
        ("queue/wbt_lat_usec", WBT, True),
        (WBT, WBT, True),
        ("wbt_lat_usec", "block/nvme0n1/queue/wbt_lat_usec", True),
        ("lat_usec", WBT, False),
        ("ueue/wbt_lat_usec", WBT, False),
        ("ldiskfs/*/mb_c1_threshold", C1, True),
        ("mb_c*_threshold", C1, True),
        ("ldiskfs/*_threshold", C1, False),
        ("qos_threshold_rr", "lod/mdt_qos_threshold_rr", False),
        ("mb.c1.threshold", C1, False),
    ],
)
def test_names(name, setting, same):
    assert matches(name, setting) is same


@for_each(
    "settings, wishes, written",
    [
        ({WBT: "2000"}, {"wbt_lat_usec": "0"}, [(WBT, "2000", "0")]),
        ({WBT: "0 (11), 2000 (nvme3n1)"}, {"wbt_lat_usec": "0"},
         [(WBT, "0 (11), 2000 (nvme3n1)", "0")]),
        ({WBT: "0"}, {"wbt_lat_usec": "0"}, []),
        ({QOS: "18%"}, {"qos_threshold_rr": "17"}, []),
        ({QOS: "17%"}, {"qos_threshold_rr": "5"}, [(QOS, "17%", "5")]),
        ({WBT: "2000"}, {}, []),
        # Of two names the longer one says.
        ({WBT: "2000"}, {"wbt_lat_usec": "0", "queue/wbt_lat_usec": "2000"}, []),
        ({"block/a/queue/wbt_lat_usec": "2000", "block/b/queue/wbt_lat_usec": "0"},
         {"wbt_lat_usec": "0"}, [("block/a/queue/wbt_lat_usec", "2000", "0")]),
    ],
)  # fmt: skip
def test_what_differs_is_written(settings, wishes, written):
    plan = decide_tunables(alone(settings, wishes), NOW)
    assert [(row.setting, row.before, row.value) for row in plan.instructions] == written
    assert plan.untouched == ()
    assert all(row.server == "oss0" and row.stage == 0 for row in plan.instructions)


@for_each(
    "settings, wishes, reasons",
    [
        ({WBT: UNREADABLE}, {"wbt_lat_usec": "0"}, {("OST0000", WBT): "setting-unreadable"}),
        ({WBT: "0"}, {"mb_c1_threshold": "51"}, {("", "mb_c1_threshold"): "setting-absent"}),
        ({}, {"wbt_lat_usec": "0"}, {("", None): "settings-unknown"}),
        ({"drives/queue/discard_max_bytes": "9"}, {"discard_max_bytes": "0"},
         {("OST0000", "drives/queue/discard_max_bytes"): "value-harmful"}),
        ({"osp/max_create_count": "20000"}, {"max_create_count": "0"},
         {("OST0000", "osp/max_create_count"): "setting-forbidden"}),
    ],
)  # fmt: skip
def test_what_is_never_written(settings, wishes, reasons):
    plan = decide_tunables(alone(settings, wishes), NOW)
    assert (writes(plan), codes(plan)) == ([], reasons)


@for_each(
    "changes, code",
    [
        ({"degraded": True}, "target-degraded"),
        ({"read_only": True}, "target-read-only"),
        ({"import_state": "REPLAY_WAIT"}, "target-disconnected"),
        ({"labelled": {("server", None): None}}, "server-unknown"),
    ],
)
def test_a_target_that_is_not_well_is_left(changes, code):
    plan = decide_tunables(alone({WBT: "2000"}, {"wbt_lat_usec": "0"}, **changes), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", WBT): code})


def test_a_setting_that_others_of_the_kind_have_is_reported_where_it_is_absent():
    targets = [
        ost(0, settings={C1: "25"}),
        ost(1, settings={WBT: "0"}),
        ost(2, settings={WBT: "0"}, labelled={("server", None): None}),
        ost(0, settings={WBT: "0"}, kind="mdt"),
    ]
    plan = decide_tunables(
        seen(targets, site(tunables=TunablesPolicy(settings={"mb_c1_threshold": "51"}))), NOW
    )
    assert staged(plan) == [(0, "OST0000")]
    assert codes(plan) == {
        ("OST0001", "mb_c1_threshold"): "setting-absent",
        ("OST0002", "mb_c1_threshold"): "server-unknown",
    }


# Stages


def test_first_one_target_then_its_server_then_all():
    plan = decide_tunables(fleet(["2000"] * 6, fullness=[0.5, 0.4, 0.5, 0.3, 0.2, 0.3]), NOW)
    assert staged(plan) == [(0, "OST0004")]
    assert set(codes(plan).values()) == {"waits-for-canary"}
    assert len(plan.untouched) == 5
    settled = (wbt("OST0004", HOUR_S),)
    now = fleet(["2000"] * 4 + ["0", "2000"], actions=settled)
    plan = decide_tunables(now, NOW)
    assert staged(plan) == [(1, "OST0005")]
    assert set(codes(plan).values()) == {"waits-for-server"}
    both = (wbt("OST0004", 3 * HOUR_S), wbt("OST0005", HOUR_S, 1))
    plan = decide_tunables(fleet(["2000"] * 4 + ["0", "0"], actions=both), NOW)
    assert staged(plan) == [(2, f"OST000{number}") for number in range(4)]
    assert plan.untouched == ()
    done = (*both, wbt("OST0000", 60, 2))
    plan = decide_tunables(fleet(["0"] + ["2000"] * 3 + ["0", "0"], actions=done), NOW)
    assert staged(plan) == [(2, f"OST000{number}") for number in range(1, 4)]


@for_each(
    "measured, fullness, canary",
    [
        ({}, [0.5, 0.5, 0.5, 0.5], "OST0000"),
        ({}, [0.5, 0.5, 0.4, 0.5], "OST0002"),
        ({"OST0003": 86400}, [0.1, 0.5, 0.4, 0.5], "OST0003"),
        ({"OST0003": 8 * 86400}, [0.5, 0.5, 0.4, 0.5], "OST0002"),
        ({"OST0003": 86400, "OST0001": 60}, [0.1, 0.5, 0.4, 0.4], "OST0003"),
        ({}, [None, 0.5, 0.5, 0.5], "OST0001"),
    ],
)
def test_the_first_is_one_that_was_measured_lately_and_the_least_full(measured, fullness, canary):
    times = {name: ago(age_s) for name, age_s in measured.items()}
    plan = decide_tunables(fleet(["2000"] * 4, fullness=fullness, measured=times), NOW)
    assert staged(plan) == [(0, canary)]


def test_a_target_that_is_not_well_is_not_the_first():
    targets = [
        ost(0, 0.1, settings={WBT: "2000"}, degraded=True),
        ost(1, 0.2, settings={WBT: "2000"}),
        ost(2, 0.3, settings={WBT: "2000"}),
    ]
    plan = decide_tunables(
        seen(targets, site(tunables=OFF), busy={"OST0001": Message("survey", "a survey")}), NOW
    )
    assert staged(plan) == [(0, "OST0002")]
    assert codes(plan) == {("OST0000", WBT): "target-degraded", ("OST0001", WBT): "survey"}


@for_each(
    "row, code",
    [
        (wbt("OST0000", HOUR_S - 1), "canary-settling"),
        (wbt("OST0000", 2 * HOUR_S, slower="0.051"), "canary-worse"),
        (wbt("OST0000", 2 * HOUR_S, verdict="pending"), "canary-pending"),
        (wbt("OST0000", 2 * HOUR_S, slower="0.05"), "waits-for-server"),
        (wbt("OST0000", 2 * HOUR_S, slower="-0.3", verdict="better"), "waits-for-server"),
        (wbt("OST0000", 2 * HOUR_S, slower="nan"), "waits-for-server"),
    ],
)
def test_a_rollout_goes_on_only_if_the_first_settled_and_is_not_worse(row, code):
    plan = decide_tunables(fleet(["0", "2000", "2000", "2000"], actions=(row,)), NOW)
    assert codes(plan)["OST0003", WBT] == code
    assert bool(plan.instructions) is (code == "waits-for-server")


def test_a_target_of_the_second_stage_ends_it_too():
    rows = (wbt("OST0000", 9 * HOUR_S), wbt("OST0001", 2 * HOUR_S, 1, slower="0.2"))
    plan = decide_tunables(fleet(["0", "0", "2000", "2000"], actions=rows), NOW)
    assert (writes(plan), codes(plan)["OST0002", WBT]) == ([], "canary-worse")
    rows = (wbt("OST0000", 9 * HOUR_S), wbt("OST0001", HOUR_S / 2, 1))
    plan = decide_tunables(fleet(["0", "0", "2000", "2000"], actions=rows), NOW)
    assert (writes(plan), codes(plan)["OST0002", WBT]) == ([], "canary-settling")


@for_each("lost", [{"degraded": True}, {"read_only": True}, {"import_state": "DISCONN"}, None])
def test_a_first_target_that_is_lost_or_ill_ends_it(lost):
    others = [ost(number, settings={WBT: "2000"}) for number in (1, 2)]
    first = [] if lost is None else [ost(0, settings={WBT: "0"}, **lost)]
    rows = (wbt("OST0000", 2 * HOUR_S),)
    plan = decide_tunables(seen([*first, *others], site(tunables=OFF), actions=rows), NOW)
    assert (writes(plan), set(codes(plan).values())) == ([], {"canary-unhealthy"})


def test_a_first_target_that_lost_the_value_gets_it_again_first():
    rows = (wbt("OST0000", 2 * HOUR_S),)
    plan = decide_tunables(fleet(["2000"] * 4, actions=rows), NOW)
    assert staged(plan) == [(0, "OST0000")]
    assert plan.instructions[0].reason.code == "drift"
    worse = (wbt("OST0000", 2 * HOUR_S, slower="0.2"),)
    assert writes(decide_tunables(fleet(["2000"] * 4, actions=worse), NOW)) == []


def test_one_target_alone_is_no_rollout_even_if_no_other_lacks_the_value():
    """The other has the value by itself: what the first got slower by still counts."""
    settled = (wbt("OST0000", 2 * HOUR_S),)
    assert staged(decide_tunables(fleet(["2000", "0"], actions=settled), NOW)) == [(0, "OST0000")]
    worse = (wbt("OST0000", 2 * HOUR_S, slower="0.2"),)
    plan = decide_tunables(fleet(["2000", "0"], actions=worse), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", WBT): "canary-worse"})


def test_what_is_lost_after_a_rollout_is_set_again_everywhere_at_once():
    rows = tuple(wbt(f"OST000{n}", 20 * HOUR_S - n, min(n, 2)) for n in range(6))
    plan = decide_tunables(fleet(["2000", "0", "2000", "0", "2000", "0"], actions=rows), NOW)
    assert [row.target for row in plan.instructions] == ["OST0000", "OST0002", "OST0004"]
    assert {row.reason.code for row in plan.instructions} == {"drift"}
    # A new target gets at once what all others have had.
    plan = decide_tunables(fleet(["0"] * 6 + ["2000"], actions=rows), NOW)
    assert [(row.target, row.reason.code) for row in plan.instructions] == [
        ("OST0006", "not-as-desired")
    ]


def test_a_rollout_is_not_over_while_others_wait_for_something():
    """Both of the first server lost the value; the rest never had it, and is busy now."""
    rows = (wbt("OST0000", 9 * HOUR_S), wbt("OST0001", 5 * HOUR_S, 1))
    busy = {f"OST000{n}": Message("survey", "a survey") for n in (2, 3)}
    assert staged(decide_tunables(fleet(["2000"] * 4, actions=rows, busy=busy), NOW)) == [
        (0, "OST0000")
    ]


def test_each_kind_of_target_has_its_own_first():
    targets = [ost(n, settings={WBT: "2000"}) for n in range(2)]
    targets += [ost(n, settings={WBT: "2000"}, kind="mdt", server="mds0") for n in range(2)]
    plan = decide_tunables(seen(targets, site(tunables=OFF)), NOW)
    assert staged(plan) == [(0, "MDT0000"), (0, "OST0000")]


def test_a_rollout_on_one_kind_says_nothing_about_another():
    done = tuple(wbt(f"MDT000{n}", 20 * HOUR_S, 2) for n in range(2))
    others = [ost(n, settings={WBT: "0"}, kind="mdt", server="mds0") for n in range(2)]
    targets = [*others, *(ost(n, settings={WBT: "2000"}) for n in range(2))]
    assert staged(decide_tunables(seen(targets, site(tunables=OFF), actions=done), NOW)) == [
        (0, "OST0000")
    ]


# What the ledger knows


@for_each(
    "row, shown, code",
    [
        (wbt("OST0000", 9 * HOUR_S, outcome=Outcome.REFUSED), "2000", "value-refused"),
        (wbt("OST0000", 23 * HOUR_S, outcome=Outcome.FAILED), "2000", "value-refused"),
        (wbt("OST0000", 25 * HOUR_S, outcome=Outcome.REFUSED), "2000", None),
        (wbt("OST0000", 9 * HOUR_S, outcome=Outcome.NOT_STORED, found="75"), "75",
         "value-not-stored"),
        (wbt("OST0000", 99 * HOUR_S, outcome=Outcome.NOT_STORED, found="75"), "75",
         "value-not-stored"),
        (wbt("OST0000", 99 * HOUR_S, outcome=Outcome.NOT_STORED, found="75"), "2000", None),
        (wbt("OST0000", 9 * HOUR_S, outcome=Outcome.SKIPPED), "2000", None),
        (wbt("OST0000", HOUR_S, outcome=Outcome.UNKNOWN), "2000", None),
        (wbt("OST0000", HOUR_S - 1, outcome=Outcome.UNKNOWN), "2000", "outcome-unknown"),
        (wbt("OST0000", HOUR_S - 2, outcome=None), "2000", "outcome-unknown"),
        (wbt("OST0000", 9 * HOUR_S, value="75", found="75", before="0"), "2000", None),
    ],
)  # fmt: skip
def test_what_the_system_did_not_take_is_not_tried_again(row, shown, code):
    plan = decide_tunables(fleet([shown], actions=(row,)), NOW)
    assert codes(plan) == ({("OST0000", WBT): code} if code else {})
    assert bool(plan.instructions) is (code is None)


def test_what_one_target_refused_is_not_tried_on_the_next():
    rows = (wbt("OST0000", HOUR_S, outcome=Outcome.REFUSED),)
    plan = decide_tunables(fleet(["2000", "2000"], actions=rows), NOW)
    assert (writes(plan), set(codes(plan).values())) == ([], {"value-refused"})


def test_another_value_that_one_target_refused_holds_this_one_nowhere():
    rows = (wbt("OST0001", HOUR_S, outcome=Outcome.REFUSED, value="-1"),)
    assert staged(decide_tunables(fleet(["2000", "2000"], actions=rows), NOW)) == [(0, "OST0000")]


@for_each("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_what_a_target_did_not_take_is_not_tried_in_every_plan_after_a_rollout(outcome):
    done = tuple(wbt(f"OST000{number}", 20 * HOUR_S, 2) for number in range(2))
    tried = wbt("OST0002", HOUR_S, 2, outcome=outcome, found=None)
    plan = decide_tunables(fleet(["0", "0", "2000"], actions=(*done, tried)), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0002", WBT): "value-refused"})


@for_each("outcome", [None, Outcome.UNKNOWN])
def test_a_write_without_an_answer_that_is_in_effect_was_the_first(outcome):
    rows = (wbt("OST0001", HOUR_S - 2, outcome=outcome, found=None),)
    plan = decide_tunables(fleet(["2000", "0", "2000"], actions=rows), NOW)
    assert (writes(plan), set(codes(plan).values())) == ([], {"canary-settling"})
    rows = (wbt("OST0001", 2 * HOUR_S, outcome=outcome, found=None),)
    assert staged(decide_tunables(fleet(["2000", "0", "2000"], actions=rows), NOW)) == [
        (1, "OST0000")
    ]


def test_a_value_that_reads_back_otherwise_is_not_written_again():
    """-1 brings the default back and never reads as itself."""
    policy = TunablesPolicy(settings={"wbt_lat_usec": "-1"})
    row = wbt("OST0000", HOUR_S, before="0", value="-1", found="2000")
    assert decide_tunables(fleet(["2000"], policy, actions=(row,)), NOW).instructions == ()
    assert len(decide_tunables(fleet(["0"], policy, actions=(row,)), NOW).instructions) == 1


def test_a_value_of_others_is_overwritten_once():
    first = wbt("OST0000", 50 * HOUR_S)
    assert writes(decide_tunables(fleet(["500"], actions=(first,)), NOW)) == [
        ("set", "OST0000", "0")
    ]
    again = wbt("OST0000", 30 * HOUR_S, before="500")
    plan = decide_tunables(fleet(["500"], actions=(first, again)), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", WBT): "changed-by-others"})
    plan = decide_tunables(fleet(["0 (11), 500 (nvme3n1)"], actions=(first, again)), NOW)
    assert codes(plan) == {("OST0000", WBT): "changed-by-others"}
    # The default of before is no other's, nor is a value that was not overwritten yet.
    assert len(decide_tunables(fleet(["2000"], actions=(first, again)), NOW).instructions) == 1
    assert len(decide_tunables(fleet(["501"], actions=(first, again)), NOW).instructions) == 1


def test_a_value_that_failovers_lost_twice_is_nobody_elses():
    rows = (wbt("OST0000", 50 * HOUR_S), wbt("OST0000", 30 * HOUR_S))
    assert writes(decide_tunables(fleet(["2000"], actions=rows), NOW)) == [("set", "OST0000", "0")]


def test_the_own_values_of_other_policies_are_no_others():
    rows = (
        wbt("OST0000", 90 * HOUR_S), wbt("OST0000", 80 * HOUR_S, before="0", value="75"),
        wbt("OST0000", 70 * HOUR_S, before="75"),
        wbt("OST0000", 60 * HOUR_S, before="0", value="75"),
    )  # fmt: skip
    assert len(decide_tunables(fleet(["75"], actions=rows), NOW).instructions) == 1


def test_what_is_undone_again_and_again_is_left():
    rows = tuple(wbt("OST0000", hours * HOUR_S) for hours in (20, 10, 2))
    plan = decide_tunables(fleet(["2000"], actions=rows), NOW)
    assert (writes(plan), codes(plan)) == ([], {("OST0000", WBT): "undone-repeatedly"})


def test_what_a_person_reverted_stays_until_a_person_asks_again():
    rows = (
        wbt("OST0000", 9 * HOUR_S, identifier="x"),
        wbt("OST0000", 8 * HOUR_S, before="0", value="2000", found="2000", policy="revert",
            reverts=("x",)),
    )  # fmt: skip
    observed = fleet(["2000"] * 4, actions=rows)
    plan = decide_tunables(observed, NOW)
    assert writes(plan) == []
    assert codes(plan)["OST0000", WBT] == "reverted"
    assert codes(plan)["OST0003", WBT] == "canary-reverted"
    assert staged(decide_tunables(observed, NOW, again=True)) == [(0, "OST0000")]


def test_permanent_is_what_the_policy_names_and_lctl_can_keep():
    policy = TunablesPolicy(
        settings={"qos_threshold_rr": "5", "wbt_lat_usec": "0", "qos_prio_free": "80"},
        permanent=("qos_threshold_rr", "wbt_lat_usec"),
    )
    settings = {QOS: "17%", WBT: "2000", "lod/qos_prio_free": "90%"}
    plan = decide_tunables(
        seen([ost(0, settings=settings, kind="mdt")], site(tunables=policy)), NOW
    )
    assert {row.setting: row.permanent for row in plan.instructions} == {
        QOS: True, WBT: False, "lod/qos_prio_free": False,
    }  # fmt: skip


def test_the_hour_bounds_a_stage():
    rows = tuple(wbt(f"OST000{n}", 20 * HOUR_S - n, 2) for n in range(4))
    observed = fleet(["2000"] * 4, actions=rows)
    plan = decide_tunables(replace(observed, site=site(tunables=OFF, most_per_hour=3)), NOW)
    assert [row.target for row in plan.instructions] == ["OST0000", "OST0001", "OST0002"]
    assert codes(plan) == {("OST0003", WBT): "too-many-actions"}


def test_held_means_no_instruction():
    plan = decide_tunables(retaken(fleet(["2000"]), at=ago(601)), NOW)
    assert (writes(plan), held_by(plan), plan.untouched) == ([], ["snapshot-stale"], ())


VALUES = st.lists(
    st.sampled_from(["0", "2000", "0 (11), 2000 (a)", "500", "0 (12)"]), min_size=1, max_size=12
)


@given(VALUES, st.randoms())
def test_plan_by_plan_every_target_gets_the_value_and_then_nothing_is_written(values, random):
    observed, widths = fleet(values, replace(OFF, settle_s=60.0)), []
    for step in range(5):
        at = NOW.replace(minute=10 * step)
        targets = list(targets_in(observed))
        random.shuffle(targets)
        now = retaken(observed, at=at)
        shuffled = replace(now, snapshot=snapshot(targets, at=at))
        plan = decide_tunables(now, at)
        assert decide_tunables(shuffled, at) == plan
        widths.append(len(plan.instructions))
        observed = carried_out(now, plan, at)
        # Right after a plan nothing more is written of what it wrote.
        written = {row.target for row in plan.instructions}
        assert not written & {row.target for row in decide_tunables(observed, at).instructions}
    shown = [row.settings[WBT] for row in targets_in(observed)]
    assert all(getattr(setting, "value", "") in {"0", "0 (12)"} for setting in shown)
    assert widths[0] <= 1
    assert widths[-1] == 0
    assert sum(widths) == sum(value not in {"0", "0 (12)"} for value in values)


def test_a_scheduler_comes_before_the_other_settings_of_its_queue():
    scheduler, requests = "drives/queue/scheduler", "drives/queue/nr_requests"
    shown = {scheduler: "none", requests: "1023", WBT: "0", C1: "25"}
    policy = {"scheduler": "mq-deadline", "nr_requests": "256", "mb_c1_threshold": "50"}
    observed = alone(shown, policy)
    first = decide_tunables(observed, NOW)
    assert [row.setting for row in first.instructions] == [scheduler, C1]
    assert codes(first) == {("OST0000", requests): "waits-for-scheduler"}
    # The kernel has set it anew with the scheduler: no drift, and nobody else's change.
    later = replace(
        carried_out(observed, first, NOW),
        snapshot=snapshot([ost(0, settings=shown | {scheduler: "mq-deadline", requests: "64"})]),
    )
    then = [row for row in decide_tunables(later, NOW).instructions if row.setting != C1]
    assert [(row.setting, row.before, row.value) for row in then] == [(requests, "64", "256")]
    # A scheduler that is left alone keeps nothing waiting.
    taken = action(
        ActionKind.SET, "OST0000", 60.0, outcome=Outcome.REFUSED, setting=scheduler,
        before="none", value="mq-deadline",
    )  # fmt: skip
    refused = replace(observed, actions=(taken,))
    assert requests in [row.setting for row in decide_tunables(refused, NOW).instructions]
