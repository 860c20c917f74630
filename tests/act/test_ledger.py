"""What of the ledger still counts: decisions are the same without the rest."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.act.world import CREATE, NOW, WBT, action, ost, seen, site

from trimtab.act.decide import balance, reverting, tunables
from trimtab.base.action import Action, ActionKind, Outcome, Plan, closed_targets, still_counting
from trimtab.base.site_policy import TunablesPolicy

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
    for decide in (tunables.decide, balance.decide):
        assert decisions(decide(short, NOW)) == decisions(decide(whole, NOW))
    back = [reverting.decide(each, None, NOW) for each in (short, whole)]
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
