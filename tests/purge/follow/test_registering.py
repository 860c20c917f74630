"""Only a changelog user that the ledger may have registered is removed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import Message
from trimtab.purge.follow.registration import decide
from trimtab.reach.lustre.changelog import ChangelogUser, ChangelogUsers

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def registration(mdt: str, outcome: Outcome | None, found: str | None) -> Action:
    instruction = Instruction(ActionKind.REGISTER, mdt, Message("reason", "why"), "mds1")
    return Action(
        "1", "site", "changelogs", "plan", "root@host", NOW, instruction, NOW, outcome, found
    )


@pytest.mark.parametrize(
    ("action", "removed"),
    [
        (registration("MDT0000", Outcome.DONE, "cl4-trimtab"), True),
        (registration("MDT0000", Outcome.NOT_STORED, "cl4-trimtab"), True),
        (registration("MDT0000", Outcome.UNKNOWN, None), True),
        (registration("MDT0000", None, None), True),
        (registration("MDT0000", Outcome.REFUSED, None), False),
        (registration("MDT0000", Outcome.DONE, "cl2-trimtab"), False),
        (registration("MDT0001", Outcome.DONE, "cl4-trimtab"), False),
    ],
)
def test_a_user_is_removed_only_if_the_ledger_may_have_registered_it(
    action: Action, removed: bool
) -> None:
    users = (ChangelogUser("cl1", 3, 1), ChangelogUser("cl4-trimtab", 3, 1))
    servers = {"mds1": {"MDT0000": ChangelogUsers(9, users, frozenset())}}
    plan = decide("site", "scratch", servers, (), NOW, registered=False, ledger=[action])
    assert [each.before for each in plan.instructions] == ["cl4-trimtab"] * removed
    codes = [] if removed else ["changelog-user-foreign"]
    assert [each.reason.code for each in plan.untouched] == codes
