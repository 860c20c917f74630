"""What is sent now, and what waits: quiet hours, rates, digests."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.watch.alert.parcels_of import NOON, alert

from trimtab.base.alert import Alert
from trimtab.base.finding import Severity
from trimtab.base.site_policy import Window
from trimtab.watch.alert.payload import DIGEST_FROM, parcels

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
