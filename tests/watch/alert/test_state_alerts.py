"""Alerts about states of targets: grouped, confirmed by a second snapshot, closed once."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.watch.alert.views import DAY, HOUR, NOON, Ledger, snapshot

from trimtab.base.alert import Alert, Phase
from trimtab.base.finding import Severity
from trimtab.watch.alert.alert_table import SnapshotView

QUARTER = timedelta(minutes=15)


def sent(alerts: list[Alert]) -> list[tuple[str, Phase]]:
    return [(alert.name, alert.phase) for alert in alerts if alert.phase is not Phase.NOTED]


def test_a_server_that_fails_is_one_alert_and_its_return_another() -> None:
    ledger = Ledger()
    both = ("OST0000", "OST0001")
    assert sent(ledger.look(snapshot(NOON, {"lost": both}))) == []
    told = ledger.look(snapshot(NOON + QUARTER, {"lost": both}))
    assert sent(told) == [("target-lost", Phase.OPENED)]
    assert told[0].severity is Severity.CRITICAL
    assert told[0].title.startswith("2 targets lost: OST0000, OST0001 (as it is), seen at 2026-11")
    assert sent(ledger.look(snapshot(NOON + 2 * QUARTER, {"lost": both}))) == []
    assert sent(ledger.look(snapshot(NOON + 3 * QUARTER, {}))) == []
    assert sent(ledger.look(snapshot(NOON + 4 * QUARTER, {}))) == [("target-lost", Phase.CLOSED)]
    assert sent(ledger.look(snapshot(NOON + 5 * QUARTER, {}))) == []


def test_one_snapshot_is_no_state_but_data_at_risk_does_not_wait() -> None:
    ledger = Ledger()
    assert sent(ledger.look(snapshot(NOON, {"degraded": ["OST0000"]}))) == []
    assert sent(ledger.look(snapshot(NOON + QUARTER, {}))) == []
    one = {"read-only": ["OST0001"]}
    told = sent(ledger.look(snapshot(NOON + 2 * QUARTER, one)))
    assert told == [("target-read-only", Phase.OPENED)]


def test_a_loss_that_a_second_source_shows_does_not_wait_for_another_snapshot() -> None:
    ledger = Ledger()
    lost = {"lost": ["OST0001"]}
    told = sent(ledger.look(snapshot(NOON, lost, confirmed=lost)))
    assert told == [("target-lost", Phase.OPENED)]
    assert sent(ledger.look(snapshot(NOON + QUARTER, lost, confirmed=lost))) == []
    more = {"lost": ["OST0001", "OST0002"]}
    assert sent(ledger.look(snapshot(NOON + HOUR + QUARTER, more, confirmed=lost))) == []
    told = sent(ledger.look(snapshot(NOON + HOUR + 2 * QUARTER, more, confirmed=lost)))
    assert told == [("target-lost", Phase.WORSENED)]


def test_targets_that_fill_up_one_by_one_are_one_alert_a_day() -> None:
    ledger = Ledger()
    names = [f"OST{number:04x}" for number in range(48)]
    told = []
    for number in range(len(names)):
        view = snapshot(NOON + number * HOUR, {"over-limit": names[: number + 1]}, names=names)
        told += [alert for alert in ledger.look(view) if alert.phase is not Phase.NOTED]
    assert [alert.phase for alert in told] == [Phase.OPENED, Phase.WORSENED]
    assert told[1].at - told[0].at == DAY
    assert told[1].title.startswith("24 more over the fullness limit, 25 in all")


def test_a_target_around_the_limit_is_not_over_until_it_is_below_the_mark_to_reopen() -> None:
    ledger = Ledger()
    over = {"over-limit": ["OST0000"]}
    ledger.look(snapshot(NOON, over, fullness=0.76))
    ledger.look(snapshot(NOON + HOUR, over, fullness=0.76))
    for hour in range(2, 40):
        around = over if hour % 4 == 0 else {}
        view = snapshot(NOON + hour * HOUR, around, fullness=0.76 if around else 0.74)
        assert sent(ledger.look(view)) == []
    ledger.look(snapshot(NOON + 40 * HOUR, {}, fullness=0.69))
    (closed,) = ledger.look(snapshot(NOON + 41 * HOUR, {}, fullness=0.69)) or ledger.alerts[-1:]
    assert closed.phase is Phase.CLOSED


def test_what_cannot_be_seen_is_not_over() -> None:
    """A server that does not answer takes its readings with it, and the problems they showed."""
    ledger = Ledger()
    for quarter in range(2):
        ledger.look(snapshot(NOON + quarter * QUARTER, {"degraded": ["OST0000"]}))
    blind = {"lost": ["OST0000"]}
    for quarter in range(2, 6):
        told = sent(ledger.look(snapshot(NOON + quarter * QUARTER, blind, complete=False)))
        assert ("target-degraded", Phase.CLOSED) not in told
    ledger.look(snapshot(NOON + 6 * QUARTER, {}))
    told = sent(ledger.look(snapshot(NOON + 7 * QUARTER, {})))
    assert ("target-degraded", Phase.CLOSED) in told + sent(ledger.alerts)


def test_a_target_that_comes_back_and_is_lost_again_is_told_again() -> None:
    ledger = Ledger()
    two, one = {"lost": ["OST0000", "OST0001"]}, {"lost": ["OST0000"]}
    looks = [two, two, one, one, two, two, two, two, two]
    told = [
        phase
        for number, troubles in enumerate(looks)
        for _, phase in sent(ledger.look(snapshot(NOON + number * QUARTER, troubles)))
    ]
    assert told == [Phase.OPENED, Phase.WORSENED]


def test_a_state_that_flaps_is_told_once_a_day() -> None:
    ledger = Ledger()
    told = []
    for number in range(4 * 24 * 3):
        troubles = {"degraded": ["OST0000"]} if number % 8 < 4 else {}
        told += sent(ledger.look(snapshot(NOON + number * QUARTER, troubles)))
    assert [phase for _, phase in told].count(Phase.OPENED) <= 3


def test_states_that_somebody_wanted_wake_nobody() -> None:
    ledger = Ledger()
    for number in range(4):
        view = snapshot(NOON + number * HOUR, {"closed": ["OST0000"], "throttled": ["OST0001"]})
        assert ledger.look(view) == []


def checksums(at: datetime, count: float, other: float = 1e9) -> SnapshotView:
    """Return a snapshot in which one target has counted so many bad transfers."""
    return snapshot(at, {}, bad_checksums={"OST0000": count, "OST0001": other})


def test_only_bad_checksums_that_are_added_are_news() -> None:
    ledger = Ledger()
    assert ledger.look(checksums(NOON, 5)) == []
    assert ledger.look(checksums(NOON + QUARTER, 5)) == []
    (told,) = ledger.look(checksums(NOON + 2 * QUARTER, 8))
    assert (told.name, told.phase, told.severity) == ("integrity", Phase.OPENED, Severity.CRITICAL)
    assert told.title.startswith("3 transfers with a bad checksum at OST0000, the last seen at")
    assert sent(ledger.look(checksums(NOON + 3 * QUARTER, 8))) == []


def test_bad_checksums_within_an_hour_are_collected_and_none_is_forgotten() -> None:
    ledger = Ledger()
    told = []
    counts = [0, 1, 3, 3, 3, 3, 3, 3]
    for number, count in enumerate(counts):
        told += sent(ledger.look(checksums(NOON + number * QUARTER, count)))
    assert told == [("integrity", Phase.OPENED), ("integrity", Phase.WORSENED)]
    assert ledger.alerts[-1].title.startswith("3 transfers")


def test_bad_checksums_are_over_after_a_day_without_another() -> None:
    ledger = Ledger()
    ledger.look(checksums(NOON - HOUR, 0))
    ledger.look(checksums(NOON, 1))
    assert sent(ledger.look(checksums(NOON + 23 * HOUR, 1))) == []
    assert sent(ledger.look(checksums(NOON + 24 * HOUR, 1))) == [("integrity", Phase.CLOSED)]
    assert sent(ledger.look(checksums(NOON + 25 * HOUR, 2))) == [("integrity", Phase.OPENED)]


def test_a_count_that_began_anew_is_new_from_nothing() -> None:
    ledger = Ledger()
    ledger.look(checksums(NOON - HOUR, 0))
    ledger.look(checksums(NOON, 9))
    (told,) = ledger.look(checksums(NOON + HOUR, 2))
    assert told.title.startswith("11 transfers with a bad checksum")
