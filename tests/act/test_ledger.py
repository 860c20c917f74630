"""What the ledger tells: what still counts, whether a target got slower, how performance went."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.act.world import CREATE, NOW, WBT, MemoryStore, action, ost, seen, site
from tests.act.year_site import SITE as YEAR_SITE
from tests.support.small_site import SITE, SmallSite, hour

from trimtab.act import observing
from trimtab.act.decide import balance, decision, tunables
from trimtab.act.first_target import with_verdicts
from trimtab.answers.action_ledger import ledger as ledger_with_effects
from trimtab.base.action import (
    Action,
    ActionKind,
    Instruction,
    Outcome,
    Plan,
    closed_targets,
    still_counting,
)
from trimtab.base.error import Message, code_of
from trimtab.base.event import new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.site import Site
from trimtab.base.site_policy import TunablesPolicy
from trimtab.site.place import Place
from trimtab.store.store import Store

# What of the ledger still counts: decisions are the same without the rest.

DAY_S = 86400.0
KINDS = (ActionKind.SET, ActionKind.CLOSE, ActionKind.OPEN)
OUTCOMES = (Outcome.DONE, Outcome.DONE, Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN)
NOT_OURS = "Trimtab no longer keeps it closed"
VALUES = ("0", "2000", "75000")
Row = tuple[ActionKind, str, Outcome, str, str, int | None]


def rows() -> st.SearchStrategy[list[Row]]:
    """Return histories of two targets, in which much is done again and again."""
    row = st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(("OST0000", "OST0001")),
        st.sampled_from(OUTCOMES),
        st.sampled_from(VALUES),
        st.sampled_from(VALUES[:2]),
        st.none() | st.integers(0, 30),
    )
    repeated = st.tuples(row, st.integers(1, 5)).map(lambda pair: [pair[0]] * pair[1])
    return st.lists(repeated, max_size=12).map(lambda groups: [row for g in groups for row in g])


def history(drawn: list[Row]) -> list[Action]:
    """Return them as actions of long ago, a day apart; a number is the row that is taken back."""
    actions: list[Action] = []
    for place, (kind, target, outcome, before, value, taken_back) in enumerate(drawn):
        is_set = kind is ActionKind.SET  # what takes back is of the kind of what it takes back
        known = actions[taken_back : (taken_back or 0) + 1] if taken_back is not None else []
        actions.append(
            action(
                kind, target, (100 - place) * DAY_S, outcome=outcome, value=value, before=before,
                policy="tunables" if is_set else "balance",
                setting=WBT if is_set else CREATE,
                reverts=tuple(
                    each.id
                    for each in known
                    if kind is not ActionKind.CLOSE  # nothing is taken back by closing
                    and each.instruction.target == target
                    and is_set == (each.instruction.kind is ActionKind.SET)
                ),
            )
        )  # fmt: skip
    return actions


def decisions(plan: Plan) -> list[object]:
    """Return what a plan does and leaves; which rows are taken back is shorter by the others."""
    return [
        *(replace(instruction, reverts=()) for instruction in plan.instructions),
        *plan.untouched,
        *plan.held,
    ]


def restored(plan: Plan) -> list[object]:
    """Return what is taken back, and what is not though it is in force."""
    return [row for row in decisions(plan) if getattr(row, "reason", None) != NOT_OURS]


@given(rows(), st.sampled_from(VALUES), st.sampled_from((0.5, 0.8)), st.booleans())
def test_decisions_are_the_same_on_what_still_counts(
    drawn: list[Row], shown: str, full: float, is_open: bool
) -> None:
    actions = history(drawn)
    policy = TunablesPolicy(settings={"wbt_lat_usec": "0"})
    targets = [
        ost(number, full, settings={WBT: shown, CREATE: shown}, create_enabled=is_open)
        for number in range(2)
    ]
    whole = seen(targets, site(tunables=policy), actions=tuple(actions))
    short = replace(whole, actions=tuple(still_counting(actions)))
    for decide in (tunables.decide_tunables, balance.decide_balance):
        assert decisions(decide(short, NOW)) == decisions(decide(whole, NOW))
    back = [decision.decide_reverts(each, None, NOW) for each in (short, whole)]
    assert restored(back[0]) == restored(back[1])


def test_what_is_done_day_after_day_is_kept_twice() -> None:
    tries = [
        action(ActionKind.SET, "OST0000", day * DAY_S, setting=WBT) for day in range(300, 0, -1)
    ]
    closed = [
        action(kind, "OST0000", day * DAY_S - hour)
        for day in range(300, 0, -1)
        for hour, kind in ((0, ActionKind.CLOSE), (3600, ActionKind.OPEN))
    ]
    counting = still_counting([*tries, *closed])
    assert [each.id for each in counting] == [tries[0].id, tries[-1].id, closed[-1].id]


def test_closed_targets_are_those_that_no_opening_followed() -> None:
    rows = [
        action(ActionKind.CLOSE, "OST0000", 400 * DAY_S),
        action(ActionKind.CLOSE, "OST0001", 3600),
        action(ActionKind.OPEN, "OST0001", 1800),
        action(ActionKind.CLOSE, "OST0002", 3600),
        action(ActionKind.OPEN, "OST0002", 1800, outcome=Outcome.FAILED),
        action(ActionKind.CLOSE, "OST0003", 3600, outcome=Outcome.UNKNOWN),
        action(ActionKind.CLOSE, "OST0004", 3600, outcome=None),
        action(ActionKind.CLOSE, "OST0005", 3600, outcome=Outcome.REFUSED),
        action(ActionKind.SET, "OST0006", 3600, setting=WBT),
    ]
    closed = closed_targets(rows)
    assert list(closed) == ["OST0000", "OST0002", "OST0003", "OST0004"]
    assert closed["OST0000"] is rows[0]


# Which part of the ledger decisions rest on.


def test_what_may_be_in_force_is_known_however_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        observing, "with_verdicts", lambda store, site, actions, **_: tuple(actions)
    )
    store: Any = MemoryStore(tmp_path / "t.db")
    ages = {
        ActionKind.SET: (400 * DAY_S, 60.0),
        ActionKind.CLOSE: (31 * DAY_S,),
        ActionKind.OPEN: (40 * DAY_S,),
        ActionKind.TRIM: (3 * DAY_S, 1 * DAY_S),
        ActionKind.RESET_ALLOCATOR: (3 * 3600.0, 1800.0),
    }
    for kind, seconds in ages.items():
        for age_s in seconds:
            store.put_action(action(kind, "OST0000", age_s, identifier=f"{kind.value} {age_s:.0f}"))
    known = observing.ledger(store, YEAR_SITE, NOW)
    assert [each.id for each in known] == [
        f"set {400 * DAY_S:.0f}",
        f"open {40 * DAY_S:.0f}",
        f"close {31 * DAY_S:.0f}",
        f"trim {DAY_S:.0f}",
        "reset-allocator 1800",
        "set 60",
    ]


def test_each_action_of_long_ago_is_read_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = MemoryStore(tmp_path / "t.db")
    for day in range(90):
        for kind in (ActionKind.CLOSE, ActionKind.OPEN):
            store.put_action(action(kind, "OST0000", day * DAY_S, identifier=f"{kind} {day:02}"))
    read: list[int] = []
    actions = store.actions

    def counting(*arguments: Any, **more: Any) -> Any:
        answer = actions(*arguments, **more)
        read.append(len(answer))
        return answer

    monkeypatch.setattr(store, "actions", counting)
    long_ago = observing.LongAgo()
    hours = [NOW + timedelta(hours=hour) for hour in range(23)]
    known = [long_ago.before(store, YEAR_SITE.name, now - observing.LEDGER) for now in hours]
    assert len(known[-1]) == 1
    assert read[0] > 100
    assert sum(read[1:]) <= 2
    assert known[-1] == observing.LongAgo().before(
        store, YEAR_SITE.name, hours[-1] - observing.LEDGER
    )
    # A clock that went back, and a new day: all of it is read again.
    for now in (NOW - timedelta(hours=1), NOW + timedelta(days=2)):
        long_ago.before(store, YEAR_SITE.name, now - observing.LEDGER)
        assert read[-1] > 100


# Whether a target got slower after a change, from its surveys beside those of the others.

CHANGED_AT = datetime(2026, 11, 22, tzinfo=UTC)
TARGETS = ("OST0000", "OST0001", "OST0002", "OST0003")


def keep_survey(store: Store, day: int, rates: dict[str, float]) -> None:
    at = CHANGED_AT + timedelta(days=day)
    samples = tuple(
        Sample(metric, scale * rate, target=target)
        for target, rate in rates.items()
        for metric, scale in (("write_bandwidth", 1e9), ("read_bandwidth", 2e9))
    )
    store.add_run(
        Run(new_identifier(at), "s", "survey", "survey", RunStatus.OK, at=at, samples=samples)
    )


def keep_run(store: Store, day: int, rate: float) -> None:
    at = CHANGED_AT + timedelta(days=day)
    samples = (Sample("write_bandwidth", rate), Sample("write_time", 1.0 / rate))
    store.add_run(
        Run(new_identifier(at), "s", "hourly", "fio", RunStatus.OK, at=at, samples=samples)
    )


def done_change(stage: int = 0) -> Action:
    instruction = Instruction(
        ActionKind.SET, "OST0000", Message("a", "b"), setting="x", value="0", stage=stage
    )
    return Action(
        new_identifier(CHANGED_AT), "s", "tunables", "p", "me", CHANGED_AT, instruction,
        until=CHANGED_AT + timedelta(minutes=1), outcome=Outcome.DONE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("after", "load", "slower"),
    [(10.0, 1.0, 0.0), (8.0, 1.0, 0.2), (8.0, 0.8, 0.0), (11.0, 1.0, -0.1)],
)
def test_a_target_is_compared_with_itself_beside_the_others(
    tmp_path: Path, after: float, load: float, slower: float
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        for day in (-3, -2, -1):
            keep_survey(store, day, dict.fromkeys(TARGETS, 10.0))
        for day in (1, 2):
            others = dict.fromkeys(TARGETS[1:], 10.0 * load)
            keep_survey(store, day, {"OST0000": after, **others})
        (action,) = with_verdicts(store, "s", [done_change()])
    assert float(action.facts["slower"]) == pytest.approx(slower, abs=1e-3)


def test_without_a_survey_after_it_nothing_is_told(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        (action,) = with_verdicts(store, "s", [done_change()])
        assert action.facts == {}
        keep_survey(store, -1, dict.fromkeys(TARGETS, 10.0))
        (action,) = with_verdicts(store, "s", [done_change()])
        assert "slower" not in action.facts
        keep_survey(store, 1, dict.fromkeys(TARGETS[1:], 10.0))
        (action,) = with_verdicts(store, "s", [done_change()])
        assert "slower" not in action.facts


def test_a_verdict_is_pending_only_where_a_survey_after_the_change_can_tell(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        # Surveyed for nothing, again and again, if it had no survey before.
        (action,) = with_verdicts(store, "s", [done_change()], surveyed=True)
        assert action.facts == {}
        keep_survey(store, -1, dict.fromkeys(TARGETS, 10.0))
        (action,) = with_verdicts(store, "s", [done_change()], surveyed=True)
        assert action.facts == {"verdict": "pending"}
        keep_survey(store, 1, dict.fromkeys(TARGETS, 10.0))
        (action,) = with_verdicts(store, "s", [done_change()], surveyed=True)
        assert list(action.facts) == ["slower"]


@pytest.mark.parametrize(
    ("after", "stage", "facts"),
    [
        (8.0, 0, {"slower": "0.2000"}),
        (10.0, 1, {"slower": "0.0000"}),
        (8.0, 2, {}),  # others have changed by then
        (None, 0, {"verdict": "pending"}),
        (None, 1, {}),
    ],
)
def test_a_first_change_is_compared_with_the_runs_of_the_named_probe(
    tmp_path: Path, after: float | None, stage: int, facts: dict[str, str]
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        for day in (-3, -2, -1):
            keep_run(store, day, 10.0)
        if after is not None:
            keep_run(store, 1, after)
        (action,) = with_verdicts(store, "s", [done_change(stage)], probe="hourly")
        assert action.facts == facts
        assert with_verdicts(store, "s", [done_change(stage)])[0].facts == {}


def test_a_survey_and_a_probe_tell_the_worse_of_the_two(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db") as store:
        for day, rate in ((-1, 10.0), (1, 9.0)):
            keep_survey(store, day, {**dict.fromkeys(TARGETS, 10.0), "OST0000": rate})
        keep_run(store, -1, 10.0)
        (action,) = with_verdicts(store, "s", [done_change()], surveyed=True, probe="hourly")
        assert action.facts == {"slower": "0.1000", "verdict": "pending"}
        keep_run(store, 1, 7.0)
        (action,) = with_verdicts(store, "s", [done_change()], surveyed=True, probe="hourly")
        assert action.facts == {"slower": "0.3000"}


# The ledger of a site with how performance went after each plan, from the store that is open.

BEGAN = hour(120.5)


@pytest.fixture
def store(tmp_path: Path):
    values = 1e9 * (1 + 0.02 * np.random.default_rng(4).standard_normal(240))
    values[121:] *= 1.3
    with Store.open(SmallSite({"write_bandwidth": values}).keep(tmp_path / "t.db")) as store:
        done = action(ActionKind.SET, "OST0000", 0.0, outcome=Outcome.DONE)
        for number, outcome in enumerate((Outcome.DONE, Outcome.REFUSED)):
            at = BEGAN + timedelta(seconds=number)
            row = {"id": f"{number}", "plan": f"plan-{number}", "outcome": outcome}
            store.put_action(replace(done, **row, site=SITE, at=at, until=at))
        yield store


def test_what_a_plan_changed_is_compared_before_and_after(store):
    place = Place(SITE, Site(SITE, "lustre", f"/{SITE}"))
    actions, (effect,) = ledger_with_effects(store, place, hour(240))
    assert [each.plan for each in actions] == ["plan-0", "plan-1"]
    assert (effect.plan, effect.at) == ("plan-0", BEGAN)
    assert effect.effect is not None
    assert effect.effect.series[0].effects[0].ratio == pytest.approx(1.3, rel=0.05)
    _, (too_early,) = ledger_with_effects(store, place, BEGAN)
    assert (too_early.effect, code_of(too_early.reason)) == (None, "too-recent")


def test_without_a_site_file_or_a_change_there_is_no_effect(store):
    assert ledger_with_effects(store, Place(SITE, None), hour(240))[1] == ()
    place = Place(SITE, Site(SITE, "lustre", f"/{SITE}"))
    assert ledger_with_effects(store, place, hour(240), since=BEGAN + timedelta(seconds=1))[1] == ()
