"""Alerts about incidents: one for each phase, whatever the record does in between."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.watch.alert.views import CAUSE, DAY, HOUR, NOON, Ledger, caused_by, incident

from trimtab.base.alert import Alert, Phase
from trimtab.base.finding import Severity
from trimtab.base.incident import SAME_INCIDENT
from trimtab.watch.alert.incident_alert import FEWEST_RUNS, MISSING_FOR, NEWS, WORSE


def sent(alerts: list[Alert]) -> list[Phase]:
    return [alert.phase for alert in alerts if alert.phase is not Phase.NOTED]


def test_an_incident_is_told_once_for_each_phase() -> None:
    ledger = Ledger()
    phases = []
    story = [
        incident(),
        incident(),
        incident(effect=0.65),
        incident(effect=0.65, **CAUSE),
        incident(effect=0.65, **CAUSE),
        incident(effect=0.65, **CAUSE, state="ended"),
        incident(effect=0.65, **CAUSE, state="ended"),
    ]
    for day, view in enumerate(story):
        phases.append(sent(ledger.incidents(NOON + HOUR + day * DAY, view)))
    assert phases == [
        [Phase.OPENED], [], [Phase.WORSENED], [Phase.EXPLAINED], [], [Phase.CLOSED], [],
    ]  # fmt: skip
    assert len({alert.id for alert in ledger.alerts}) == len(ledger.alerts)


def test_the_first_line_answers_what_since_when_why_and_what_to_do() -> None:
    (alert,) = Ledger().incidents(NOON + HOUR, incident(**CAUSE))
    assert alert.title == (
        "since 2026-11-16 12:00 UTC: hourly write_bandwidth 20 % lower; likely cause: no trim "
        "(93 %); next: trimtab explain scratch --at 2026-11-16T12:00Z"
    )
    assert alert.lines[-1] == "Deciding measurement: trim one target"
    (alert,) = Ledger().incidents(NOON + HOUR, incident())
    assert "cause not found yet" in alert.title


def test_an_incident_that_is_placed_anew_is_the_same_one() -> None:
    ledger = Ledger()
    ledger.incidents(NOON + HOUR, incident("a"))
    moved = incident("b", at=NOON - SAME_INCIDENT / 2)
    assert sent(ledger.incidents(NOON + DAY, moved)) == []
    # By more than a day in all, and in two steps.
    again = incident("c", at=NOON - SAME_INCIDENT * 1.4)
    assert sent(ledger.incidents(NOON + 2 * DAY, again)) == []
    assert sent(ledger.incidents(NOON + 3 * DAY, incident("d", at=NOON + 2 * DAY), again)) == [
        Phase.OPENED
    ]


def test_small_steps_add_up_while_the_id_changes() -> None:
    """What people were told counts, not what was found the day before."""
    ledger = Ledger()
    ledger.incidents(NOON + HOUR, incident("a", effect=0.90))
    phases = [
        sent(ledger.incidents(NOON + step * DAY, incident(f"a{step}", effect=0.90 - 0.04 * step)))
        for step in range(1, 4)
    ]
    assert WORSE == 0.10
    assert phases == [[], [], [Phase.WORSENED]]


def test_what_is_no_longer_found_is_closed_after_some_days_and_not_before() -> None:
    ledger = Ledger()
    ledger.incidents(NOON + HOUR, incident())
    assert sent(ledger.incidents(NOON + DAY)) == []
    assert sent(ledger.incidents(NOON + DAY + MISSING_FOR / 2)) == []
    assert sent(ledger.incidents(NOON + DAY + MISSING_FOR)) == [Phase.CLOSED]
    assert sent(ledger.incidents(NOON + 2 * DAY + MISSING_FOR)) == []


def test_what_is_found_again_after_that_is_no_news_unless_it_is_worse() -> None:
    ledger = Ledger()
    ledger.incidents(NOON + HOUR, incident())
    ledger.incidents(NOON + DAY)
    assert sent(ledger.incidents(NOON + DAY + MISSING_FOR)) == [Phase.CLOSED]
    story = [
        (incident(), []),
        (incident("placed-anew", at=NOON - SAME_INCIDENT / 2), []),
        (incident("placed-anew", at=NOON - SAME_INCIDENT / 2, state="ended"), []),
        (incident(), []),
        (incident(effect=0.65), [Phase.WORSENED]),
        (incident(effect=0.65), []),
        (incident(effect=0.65, state="ended"), [Phase.CLOSED]),
    ]
    for day, (view, phases) in enumerate(story, 2):
        assert sent(ledger.incidents(NOON + day * DAY + MISSING_FOR, view)) == phases, day


def test_what_is_found_again_before_that_was_never_gone() -> None:
    ledger = Ledger()
    ledger.incidents(NOON + HOUR, incident())
    ledger.incidents(NOON + DAY)
    assert sent(ledger.incidents(NOON + 2 * DAY, incident())) == []
    ledger.incidents(NOON + 3 * DAY)
    assert sent(ledger.incidents(NOON + 3 * DAY + MISSING_FOR / 2)) == []


def test_an_incident_that_comes_and_goes_within_a_day_is_not_told_again() -> None:
    ledger = Ledger()
    ledger.incidents(NOON + HOUR, incident())
    assert sent(ledger.incidents(NOON + DAY, incident(state="ended"))) == [Phase.CLOSED]
    assert sent(ledger.incidents(NOON + DAY + HOUR, incident())) == []
    (again,) = ledger.incidents(NOON + 2 * DAY + HOUR, incident())
    assert again.phase is Phase.REOPENED
    assert again.title.startswith("not over: ")
    assert sent(ledger.incidents(NOON + 3 * DAY, incident())) == []
    assert sent(ledger.incidents(NOON + 4 * DAY, incident(state="ended"))) == [Phase.CLOSED]


@pytest.mark.parametrize(
    "changes",
    [
        {"certainty": "suspect"},
        {"document": {"runs": FEWEST_RUNS - 1}},
        {"state": "ended"},
        {"state": "lasting"},
        {"at": NOON - NEWS - DAY},
    ],
)
def test_suspicions_and_what_is_old_are_no_news(changes: dict[str, Any]) -> None:
    ledger = Ledger()
    assert sent(ledger.incidents(NOON + HOUR, incident(**changes))) == []
    assert sent(ledger.incidents(NOON + DAY, incident(**{**changes, "state": "ended"}))) == []


def test_each_cause_is_told_once_however_often_they_change_places() -> None:
    ledger = Ledger()
    ledger.incidents(NOON + HOUR, incident())
    other = caused_by("failover")
    phases = [
        phase
        for day, cause in enumerate((CAUSE, other, CAUSE, other, CAUSE), 1)
        for phase in sent(ledger.incidents(NOON + day * DAY, incident(**cause)))
    ]
    assert phases == [Phase.EXPLAINED, Phase.EXPLAINED]


def test_half_of_the_level_lost_is_critical_and_data_at_risk_is_always() -> None:
    (slower,) = Ledger().incidents(NOON + HOUR, incident(effect=0.51))
    (halved,) = Ledger().incidents(NOON + HOUR, incident(effect=0.5))
    integrity: dict[str, Any] = {"shape": "integrity", "effect": None, "certainty": "suspect"}
    (at_risk,) = Ledger().incidents(NOON + HOUR, incident(**integrity))
    assert slower.severity is Severity.WARNING
    assert halved.severity is at_risk.severity is Severity.CRITICAL
    assert at_risk.name == "integrity"


def test_nothing_is_closed_while_nobody_looks() -> None:
    ledger = Ledger()
    judged = NOON + HOUR
    ledger.incidents(judged, incident())
    from trimtab.watch.alert.alert_decision import decide
    from trimtab.watch.alert.alert_table import AlertView

    before = AlertView("scratch", judged_at=judged - timedelta(minutes=1))
    assert decide(before, ledger.alerts, NOON + 9 * DAY) == []
    assert decide(AlertView("scratch"), ledger.alerts, NOON + 9 * DAY) == []
