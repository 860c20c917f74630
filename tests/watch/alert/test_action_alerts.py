"""Alerts about actions, the scheduled purge and forged approvals, each told as often as is due."""

from __future__ import annotations

from datetime import datetime

from tests.watch.alert.views import DAY, HOUR, NOON

from trimtab.base.alert import Alert, Phase
from trimtab.base.event import Event, EventKind
from trimtab.explain.status import PurgeTrouble
from trimtab.watch.alert.alert_decision import decide
from trimtab.watch.alert.alert_table import ActionView, AlertView


def test_a_policy_that_fails_is_told_once_a_day_and_an_old_failure_never_again() -> None:
    ledger: list[Alert] = []

    def look(now: datetime, failed_at: datetime) -> list[Phase]:
        view = ActionView("trim", failed_at, {"failed": 2, "refused": 1}, "no such device")
        alerts = decide(AlertView("scratch", actions=(view,)), ledger, now)
        ledger.extend(alerts)
        return [alert.phase for alert in alerts]

    assert look(NOON, NOON - HOUR) == [Phase.OPENED]
    assert look(NOON + HOUR, NOON - HOUR) == []
    assert look(NOON + 2 * HOUR, NOON + HOUR) == []
    assert look(NOON + DAY, NOON + HOUR) == [Phase.WORSENED]
    assert look(NOON + 3 * DAY, NOON + HOUR) == []
    first = ledger[0]
    assert (first.name, first.subject) == ("action-failed", "action:trim")
    assert first.title.startswith("3 actions of the policy trim failed (2 failed, 1 refu")
    assert first.lines == ("Last answer: no such device",)


def test_a_purge_that_fails_is_told_once_a_day_at_most_and_when_it_works_again() -> None:
    ledger: list[Alert] = []

    def look(now: datetime, *failed_at: datetime) -> list[Phase]:
        troubles = tuple(PurgeTrouble("purge-failed", at, "it failed") for at in failed_at)
        alerts = decide(AlertView("scratch", purging=troubles), ledger, now)
        ledger.extend(alerts)
        return [alert.phase for alert in alerts]

    assert look(NOON) == []
    assert look(NOON, NOON - HOUR) == [Phase.OPENED]
    assert look(NOON + 3 * DAY, NOON - HOUR) == []
    assert look(NOON + 3 * DAY, NOON + 2 * DAY) == [Phase.WORSENED]
    assert look(NOON + 3 * DAY + HOUR, NOON + 3 * DAY) == []
    assert look(NOON + 4 * DAY, NOON + 3 * DAY) == [Phase.WORSENED]
    assert look(NOON + 5 * DAY) == [Phase.CLOSED]
    assert look(NOON + 6 * DAY) == []
    assert look(NOON + 7 * DAY, NOON + 7 * DAY) == [Phase.OPENED]
    first = ledger[0]
    assert (first.name, first.subject) == ("purge-failed", "purge")
    since = f"{NOON - HOUR:%Y-%m-%d}"
    assert first.title == f"it failed; next: trimtab event list scratch --since {since}"


def test_a_forged_approval_is_told_once() -> None:
    forged = Event(
        "0199", "scratch", EventKind.NOTE, NOON - HOUR, "plan", "dashboard approval: bob"
    )
    seen = AlertView("scratch", forged=(forged,))
    (alert,) = decide(seen, (), NOON)
    assert (alert.name, alert.subject, alert.phase) == (
        "approval-forged",
        "approval:0199",
        Phase.OPENED,
    )
    assert "dashboard approval: bob" in alert.title
    assert decide(seen, (alert,), NOON + DAY) == []
