"""What alerts are decided on incidents, states and actions, and what of them is sent now."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from tests.watch.alert.parcels_of import NOON, alert
from tests.watch.alert.views import CAUSE, DAY, HOUR, Ledger, caused_by, incident, snapshot

from trimtab.base.event import Event, EventKind
from trimtab.base.finding import Alert, Phase, Severity
from trimtab.base.incident import SAME_INCIDENT
from trimtab.base.maintenance_window import AfterMaintenance
from trimtab.base.site_policy import Window
from trimtab.base.verdict import Change, Interval
from trimtab.explain.status import PurgeTrouble
from trimtab.watch.alert_table import ActionView
from trimtab.watch.incident_alert import FEWEST_RUNS, MISSING_FOR, NEWS, WORSE
from trimtab.watch.payload import DIGEST_FROM, parcels


def sent(alerts: list[Alert]) -> list[Phase]:
    return [alert.phase for alert in alerts if alert.phase is not Phase.NOTED]


def test_an_incident_is_told_once_for_each_phase() -> None:
    ledger = Ledger()
    worse, explained = incident(effect=0.65), incident(effect=0.65, **CAUSE)
    over = replace(explained, state="ended")
    story = [incident(), incident(), worse, explained, explained, over, over]
    phases = [
        sent(ledger.incidents(NOON + HOUR + day * DAY, view)) for day, view in enumerate(story)
    ]
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
    other = incident("d", at=NOON + 2 * DAY)
    assert sent(ledger.incidents(NOON + 3 * DAY, other, again)) == [Phase.OPENED]


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
    integrity: dict[str, Any] = {"shape": "integrity", "effect": None, "certainty": "suspect"}
    slower, halved, at_risk = (
        Ledger().incidents(NOON + HOUR, found)[0]
        for found in (incident(effect=0.51), incident(effect=0.5), incident(**integrity))
    )
    assert slower.severity is Severity.WARNING
    assert halved.severity is at_risk.severity is Severity.CRITICAL
    assert at_risk.name == "integrity"


def test_nothing_is_closed_while_nobody_looks() -> None:
    ledger = Ledger()
    ledger.incidents(NOON + HOUR, incident())
    for judged_at in (NOON + HOUR - timedelta(minutes=1), None):
        assert ledger.decided(NOON + 9 * DAY, judged_at=judged_at) == []


# States of targets: grouped, confirmed by a second snapshot, closed once.

QUARTER = timedelta(minutes=15)
OPENED, WORSENED, CLOSED = Phase.OPENED, Phase.WORSENED, Phase.CLOSED


def told_of(alerts: list[Alert]) -> list[tuple[str, Phase]]:
    return [(alert.name, alert.phase) for alert in alerts if alert.phase is not Phase.NOTED]


def looked(
    ledger: Ledger, *troubles: dict[str, list[str]], since: datetime = NOON, **how: Any
) -> list[list[tuple[str, Phase]]]:
    """Return what is told after each of some snapshots, a quarter of an hour apart."""
    views = (snapshot(since + n * QUARTER, each, **how) for n, each in enumerate(troubles))
    return [told_of(ledger.look(view)) for view in views]


def test_a_server_that_fails_is_one_alert_and_its_return_another() -> None:
    ledger, both = Ledger(), {"lost": ["OST0000", "OST0001"]}
    assert looked(ledger, both, both, both, {}, {}, {}) == [
        [], [("target-lost", OPENED)], [], [], [("target-lost", CLOSED)], [],
    ]  # fmt: skip
    opened, _ = (alert for alert in ledger.alerts if alert.phase is not Phase.NOTED)
    assert opened.severity is Severity.CRITICAL
    assert opened.title.startswith("2 targets lost: OST0000, OST0001 (as it is), seen at 2026-11")


def test_one_snapshot_is_no_state_but_data_at_risk_does_not_wait() -> None:
    assert looked(Ledger(), {"degraded": ["OST0000"]}, {}, {"read-only": ["OST0001"]}) == [
        [], [], [("target-read-only", OPENED)],
    ]  # fmt: skip


def test_a_loss_that_a_second_source_shows_does_not_wait_for_another_snapshot() -> None:
    ledger, lost = Ledger(), {"lost": ["OST0001"]}
    assert looked(ledger, lost, lost, confirmed=lost) == [[("target-lost", OPENED)], []]
    more, later = {"lost": ["OST0001", "OST0002"]}, NOON + HOUR + QUARTER
    assert looked(ledger, more, more, since=later, confirmed=lost) == [
        [], [("target-lost", WORSENED)],
    ]  # fmt: skip


def test_targets_that_fill_up_one_by_one_are_one_alert_a_day() -> None:
    ledger = Ledger()
    names = [f"OST{number:04x}" for number in range(48)]
    told = []
    for number in range(len(names)):
        view = snapshot(NOON + number * HOUR, {"over-limit": names[: number + 1]}, names=names)
        told += [alert for alert in ledger.look(view) if alert.phase is not Phase.NOTED]
    assert [alert.phase for alert in told] == [OPENED, WORSENED]
    assert told[1].at - told[0].at == DAY
    assert told[1].title.startswith("24 more over the fullness limit, 25 in all")


def test_a_target_around_the_limit_is_not_over_until_it_is_below_the_mark_to_reopen() -> None:
    ledger, over = Ledger(), {"over-limit": ["OST0000"]}
    for hour in range(2):
        ledger.look(snapshot(NOON + hour * HOUR, over, fullness=0.76))
    for hour in range(2, 40):
        around = over if hour % 4 == 0 else {}
        view = snapshot(NOON + hour * HOUR, around, fullness=0.76 if around else 0.74)
        assert told_of(ledger.look(view)) == []
    for hour in (40, 41):
        ledger.look(snapshot(NOON + hour * HOUR, {}, fullness=0.69))
    assert ledger.alerts[-1].phase is CLOSED


def test_what_cannot_be_seen_is_not_over() -> None:
    """A server that does not answer takes its readings with it, and the problems they showed."""
    ledger, degraded, blind = Ledger(), {"degraded": ["OST0000"]}, {"lost": ["OST0000"]}
    looked(ledger, degraded, degraded)
    for told in looked(ledger, *[blind] * 4, since=NOON + 2 * QUARTER, complete=False):
        assert ("target-degraded", CLOSED) not in told
    looked(ledger, {}, {}, since=NOON + 6 * QUARTER)
    assert ("target-degraded", CLOSED) in told_of(ledger.alerts)


def test_a_target_that_comes_back_and_is_lost_again_is_told_again() -> None:
    two, one = {"lost": ["OST0000", "OST0001"]}, {"lost": ["OST0000"]}
    told = chain(*looked(Ledger(), two, two, one, one, *[two] * 5))
    assert list(told) == [("target-lost", OPENED), ("target-lost", WORSENED)]


def test_a_state_that_flaps_is_told_once_a_day() -> None:
    degraded = {"degraded": ["OST0000"]}
    told = looked(Ledger(), *(degraded if number % 8 < 4 else {} for number in range(4 * 24 * 3)))
    assert [phase for _, phase in chain(*told)].count(OPENED) <= 3


def test_states_that_somebody_wanted_wake_nobody() -> None:
    ledger = Ledger()
    for number in range(4):
        view = snapshot(NOON + number * HOUR, {"closed": ["OST0000"], "throttled": ["OST0001"]})
        assert ledger.look(view) == []


def counted(ledger: Ledger, counts: dict[datetime, float]) -> list[list[Alert]]:
    """Return the alerts after each of some snapshots, in which a target counted bad transfers."""
    views = (
        snapshot(at, {}, bad_checksums={"OST0000": count, "OST0001": 1e9})
        for at, count in counts.items()
    )
    return [ledger.look(view) for view in views]


def test_only_bad_checksums_that_are_added_are_news() -> None:
    times = [NOON + number * QUARTER for number in range(4)]
    first, second, (told,), last = counted(Ledger(), dict(zip(times, (5, 5, 8, 8), strict=True)))
    assert (first, second, told_of(last)) == ([], [], [])
    assert (told.name, told.phase, told.severity) == ("integrity", OPENED, Severity.CRITICAL)
    assert told.title.startswith("3 transfers with a bad checksum at OST0000, the last seen at")


def test_bad_checksums_within_an_hour_are_collected_and_none_is_forgotten() -> None:
    ledger, counts = Ledger(), [0, 1, 3, 3, 3, 3, 3, 3]
    told = counted(ledger, {NOON + number * QUARTER: count for number, count in enumerate(counts)})
    assert told_of(list(chain(*told))) == [("integrity", OPENED), ("integrity", WORSENED)]
    assert ledger.alerts[-1].title.startswith("3 transfers")


def test_bad_checksums_are_over_after_a_day_without_another() -> None:
    counts = {-1: 0, 0: 1, 23: 1, 24: 1, 25: 2}
    told = counted(Ledger(), {NOON + hour * HOUR: count for hour, count in counts.items()})
    assert list(map(told_of, told[2:])) == [[], [("integrity", CLOSED)], [("integrity", OPENED)]]


def test_a_count_that_began_anew_is_new_from_nothing() -> None:
    *_, (told,) = counted(Ledger(), {NOON - HOUR: 0, NOON: 9, NOON + HOUR: 2})
    assert told.title.startswith("11 transfers with a bad checksum")


# Actions, the scheduled purge and forged approvals, each told as often as is due.


def test_a_policy_that_fails_is_told_once_a_day_and_an_old_failure_never_again() -> None:
    ledger = Ledger()

    def look(now: datetime, failed_at: datetime) -> list[Phase]:
        view = ActionView("trim", failed_at, {"failed": 2, "refused": 1}, "no such device")
        return [alert.phase for alert in ledger.decided(now, actions=(view,))]

    assert look(NOON, NOON - HOUR) == [OPENED]
    assert look(NOON + HOUR, NOON - HOUR) == []
    assert look(NOON + 2 * HOUR, NOON + HOUR) == []
    assert look(NOON + DAY, NOON + HOUR) == [WORSENED]
    assert look(NOON + 3 * DAY, NOON + HOUR) == []
    first = ledger.alerts[0]
    assert (first.name, first.subject) == ("action-failed", "action:trim")
    assert first.title.startswith("3 actions of the policy trim failed (2 failed, 1 refu")
    assert first.lines == ("Last answer: no such device",)


def test_a_purge_that_fails_is_told_once_a_day_at_most_and_when_it_works_again() -> None:
    ledger = Ledger()

    def look(now: datetime, *failed_at: datetime) -> list[Phase]:
        troubles = tuple(PurgeTrouble("purge-failed", at, "it failed") for at in failed_at)
        return [alert.phase for alert in ledger.decided(now, purging=troubles)]

    assert look(NOON) == []
    assert look(NOON, NOON - HOUR) == [OPENED]
    assert look(NOON + 3 * DAY, NOON - HOUR) == []
    assert look(NOON + 3 * DAY, NOON + 2 * DAY) == [WORSENED]
    assert look(NOON + 3 * DAY + HOUR, NOON + 3 * DAY) == []
    assert look(NOON + 4 * DAY, NOON + 3 * DAY) == [WORSENED]
    assert look(NOON + 5 * DAY) == [CLOSED]
    assert look(NOON + 6 * DAY) == []
    assert look(NOON + 7 * DAY, NOON + 7 * DAY) == [OPENED]
    first = ledger.alerts[0]
    assert (first.name, first.subject) == ("purge-failed", "purge")
    since = f"{NOON - HOUR:%Y-%m-%d}"
    assert first.title == f"it failed; next: trimtab event list scratch --since {since}"


def test_a_forged_approval_is_told_once() -> None:
    ledger, said = Ledger(), "dashboard approval: bob"
    forged = (Event("0199", "scratch", EventKind.NOTE, NOON - HOUR, "plan", said),)
    (alert,) = ledger.decided(NOON, forged=forged)
    assert (alert.name, alert.subject) == ("approval-forged", "approval:0199")
    assert alert.phase is OPENED
    assert said in alert.title
    assert ledger.decided(NOON + DAY, forged=forged) == []


def test_what_is_slower_since_a_maintenance_is_told_once_and_closed_when_it_is_not() -> None:
    slower = AfterMaintenance(
        "w", NOON - DAY, "fw", "hourly write bandwidth", Change.WORSE, 0.9, Interval(0.8, 0.95), 12
    )
    faster = replace(slower, window="v", change=Change.BETTER)
    ledger = Ledger()
    assert ledger.decided(NOON, after=(faster,)) == []
    (alert,) = ledger.decided(NOON, after=(slower, faster))
    assert (alert.name, alert.severity, alert.phase) == (
        "maintenance-over",
        Severity.WARNING,
        OPENED,
    )
    assert "since the maintenance of 15 November (fw): hourly write bandwidth -10 %" in alert.title
    assert ledger.decided(NOON + DAY, after=(slower,)) == []
    assert [each.phase for each in ledger.decided(NOON + DAY)] == [Phase.CLOSED]
    assert ledger.decided(NOON + 2 * DAY, after=(slower,)) == []


NIGHT = Window(20 * 60, 7 * 60)
EVENING = NOON + timedelta(hours=10)
MORNING = NOON + timedelta(hours=19, minutes=1)


def sizes(
    alerts: list[Alert], now: datetime, sent: int = 0, quiet: Window | None = None
) -> list[int]:
    made = parcels(alerts, [now] * sent, now, per_hour=10, quiet=quiet)
    return [len(parcel.alerts) for parcel in made]


def test_a_few_alerts_are_messages_of_their_own_and_many_are_one() -> None:
    few = [alert(number) for number in range(DIGEST_FROM - 1)]
    assert sizes(few, NOON) == [1] * (DIGEST_FROM - 1)
    assert sizes([*few, alert(9)], NOON) == [DIGEST_FROM]


def test_quiet_hours_hold_back_all_but_critical_ones_which_follow_as_a_digest() -> None:
    warnings = [alert(number, at=EVENING) for number in range(2)]
    critical = alert(7, at=EVENING, severity=Severity.CRITICAL)
    assert sizes(warnings, EVENING, quiet=NIGHT) == []
    assert sizes([*warnings, critical], EVENING, quiet=NIGHT) == [1]
    assert sizes(warnings, MORNING, quiet=NIGHT) == [2]


def test_quiet_hours_are_of_the_local_clock() -> None:
    at = NOON + timedelta(hours=7, minutes=30)  # 19:30 in London, 20:30 in Berlin
    known = {"per_hour": 10, "quiet": NIGHT}
    assert parcels([alert()], [], at, timezone="Europe/London", **known)
    assert not parcels([alert()], [], at, timezone="Europe/Berlin", **known)


def test_the_rate_holds_back_all_but_critical_ones() -> None:
    critical = alert(7, severity=Severity.CRITICAL)
    assert sizes([alert()], NOON, sent=9) == [1]
    assert sizes([alert()], NOON, sent=10) == []
    assert sizes([alert(), critical], NOON, sent=10) == [1]
    assert sizes([alert(1), alert(2)], NOON, sent=9) == [2]
    an_hour_ago = [NOON - timedelta(hours=1)] * 10
    assert parcels([alert()], an_hour_ago, NOON, per_hour=10)


def test_the_same_alerts_are_the_same_message() -> None:
    many = [alert(number) for number in range(9)]
    (first,), (again,) = (parcels(many, [], NOON, per_hour=10) for _ in range(2))
    (other,) = parcels(many[1:], [], NOON, per_hour=10)
    assert first.key == again.key != other.key
    assert parcels(many[:1], [], NOON, per_hour=10)[0].key == many[0].id
