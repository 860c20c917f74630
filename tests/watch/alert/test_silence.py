"""Silences and maintenance: what is held back waits, and nothing is lost that is not over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.command import trimtab
from tests.support.watched import Moving, a_log, a_site
from tests.watch.alert.parcels_of import NOON, alert

from trimtab.base.error import RefusedError, UsageError
from trimtab.base.event import identifier_of
from trimtab.base.finding import Alert, DeliveryState, Phase, Severity
from trimtab.base.maintenance_window import MaintenanceWindow, ending_of, event_of
from trimtab.base.site_policy import Alerts, Webhook, parse_window
from trimtab.store.store import Store
from trimtab.watch.alert_table import NAMES, subjects_of
from trimtab.watch.alerting import KEPT, Alerting
from trimtab.watch.payload import Parcel, parcels
from trimtab.watch.receiver import AlertmanagerReceiver, Receiver
from trimtab.watch.silence import (
    NEVER_SILENT,
    Held,
    ended,
    new_silence,
    over_unheard,
    row_of,
    silences_of,
)

HOUR = timedelta(hours=1)
WINDOW = MaintenanceWindow("w", "scratch", NOON, NOON + 4 * HOUR, "firmware", "person")


def of(number: int, hours: float, phase: Phase = Phase.OPENED, **changes: Any) -> Alert:
    """Return an alert about the subject with a number."""
    at = NOON + hours * HOUR
    id_ = int(hours * 60) + 100_000 * number + 10**8
    return alert(id_, subject=f"incident:{number}", at=at, phase=phase, **changes)


# What is decided, without a store


DRAWN = st.tuples(
    st.integers(0, 4),
    st.floats(-3, 9),
    st.sampled_from([Phase.OPENED, Phase.WORSENED, Phase.CLOSED]),
    st.sampled_from([Severity.CRITICAL, Severity.WARNING]),
)


@given(
    st.lists(DRAWN, max_size=12),
    st.lists(st.sampled_from(NAMES), min_size=5, max_size=5),
    st.booleans(),
)
def test_every_alert_is_sent_or_was_over_before_it_was_heard(drawn, names, silenced):
    """Whatever is decided when: each is sent once, or its problem came and went while held."""
    end = NOON + 4 * HOUR
    silences = [
        new_silence("scratch", name, now=NOON, until=end, who="ann", why="x")
        for name in {*names} - NEVER_SILENT
    ]
    held = Held([], silences) if silenced else Held([WINDOW])
    decided = [
        replace(of(subject, hours, phase, name=names[subject], severity=severity), id=str(number))
        for number, (subject, hours, phase, severity) in enumerate(sorted(drawn, key=itemgetter(1)))
    ]
    waiting: list[Alert] = []
    sent: list[str] = []
    over: list[str] = []
    for minutes in range(-180, 600, 20):
        now = NOON + timedelta(minutes=minutes)
        waiting += [each for each in decided if now - timedelta(minutes=20) < each.at <= now]
        unheard = over_unheard(waiting, held)
        over += unheard
        free = [each for each in waiting if each.id not in unheard and held.why(each, now) is None]
        late = {each.id for each in free if held.why(each, each.at)}
        made = [
            each
            for parcel in parcels(free, [], now, per_hour=100, late=late)
            for each in parcel.alerts
        ]
        sent += [each.id for each in made]
        for each in made:
            assert not NOON <= now < WINDOW.end or each.name in NEVER_SILENT
        waiting = [each for each in waiting if each not in made and each.id not in unheard]
    assert sorted(sent + over) == sorted(each.id for each in decided)
    closed = {each.subject for each in decided if each.phase is Phase.CLOSED}
    assert {each.subject for each in decided if each.id in over} <= closed


def test_of_a_window_of_some_targets_only_their_alerts_wait():
    part = MaintenanceWindow("w", "scratch", NOON, NOON + HOUR, "disk", "person", ("OST0001",))
    held, lost = Held([part]), {"name": "target-lost"}
    assert held.why(of(1, 0, facts={"places": {"OST0001": "x"}}, **lost), NOON)
    for places in ({}, {"OST0002": "x"}, {"OST0001": "x", "OST0002": "y"}):
        assert held.why(of(1, 0, facts={"places": places}, **lost), NOON) is None
    assert held.why(of(1, 0), NOON) is None


def test_what_is_still_open_goes_out_as_one_message_and_at_once_if_one_is_critical():
    critical = of(1, 1, severity=Severity.CRITICAL)
    waiting = [critical, of(2, 2), of(3, 5)]
    late = {critical.id, waiting[1].id}
    quiet = parse_window("12:00-23:00")
    made = parcels(waiting, [], NOON + 5 * HOUR, per_hour=9, quiet=quiet, late=late)
    assert [[each.id for each in parcel.alerts] for parcel in made] == [[*sorted(late)]]
    made = parcels(waiting[1:], [], NOON + 5 * HOUR, per_hour=9, late={waiting[1].id})
    assert [len(parcel.alerts) for parcel in made] == [2]


@pytest.mark.parametrize("name", sorted(NEVER_SILENT))
def test_wrong_data_and_forged_approvals_are_never_silent(name):
    with pytest.raises(RefusedError):
        new_silence("scratch", name, now=NOON, until=NOON + HOUR, who="x", why="x")
    assert Held([WINDOW]).why(of(1, 1, name=name), NOON + HOUR) is None


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"alert": "target-lots"}, "there is no alert"),
        ({"why": " "}, "reason"),
        ({"until": NOON}, "ends within"),
        ({"until": NOON + 1000 * HOUR}, "ends within"),
    ],
)
def test_a_silence_that_says_nothing_is_refused(changes, match):
    terms: dict[str, Any] = {"alert": "target-lost", "until": NOON + HOUR, "why": "x", **changes}
    with pytest.raises(UsageError, match=match):
        new_silence("scratch", now=NOON, who="x", **terms)


def test_the_last_row_of_a_silence_holds_and_is_no_subject():
    first = new_silence("s", "incident", now=NOON, until=NOON + HOUR, who="ann", why="x")
    longer = new_silence(
        "s", "incident", now=NOON + HOUR / 2, until=NOON + 9 * HOUR, who="bob", why="y"
    )
    over = ended([longer], "incident", (), now=NOON + HOUR)
    rows = [row_of(each) for each in (first, longer, over)]
    assert len({row.id for row in rows}) == 3
    assert silences_of(rows[:2]) == (longer,)
    assert silences_of(rows) == (over,)
    assert not over.holds(of(1, 2), NOON + 2 * HOUR)
    assert subjects_of(rows) == {}
    with pytest.raises(UsageError, match="is not silenced"):
        ended([over], "incident", (), now=NOON + 2 * HOUR)


# With a store, and killed in between


class Chat(Receiver):
    def __init__(self) -> None:
        self.name, self.parcels = "chat", []

    def deliver(self, parcel: Parcel, now: object) -> str | None:
        self.parcels.append(parcel)
        return None


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Store, Moving, Chat, Any]]:
    with ExitStack() as stack:
        store = stack.enter_context(Store.open(tmp_path / "t.db"))
        clock, chat, site = Moving(NOON), Chat(), a_site(alerts=Alerts())

        def alerting() -> Alerting:
            return Alerting(
                site, store, log=a_log()[0], clock=clock, receivers=[chat], threads=False
            )

        yield store, clock, chat, alerting


@pytest.mark.system
def test_held_alerts_survive_a_kill_and_are_sent_once_at_the_end(place, monkeypatch):
    from trimtab.watch import alerting as module

    store, clock, chat, alerting = place
    id_ = identifier_of(NOON, "w")
    window = MaintenanceWindow(id_, "scratch", NOON, NOON + 20 * KEPT / 10, "firmware", "person")
    store.add_event(event_of(window))
    coming = [of(1, 1), of(2, 1, severity=Severity.CRITICAL), of(3, 1), of(3, 2, Phase.CLOSED)]

    def decide(_observed: object, known: list[Alert], now: Any) -> list[Alert]:
        ids = {each.id for each in known}
        return [each for each in coming if each.at <= now and each.id not in ids]

    monkeypatch.setattr(module, "decide", decide)
    for hours in (1, 2, 30, 24 * 10):  # longer than alerts are kept that cannot be delivered
        clock.at = NOON + hours * HOUR
        alerting().after_slot()
        assert chat.parcels == []
    store.add_event(ending_of(window, clock.at + HOUR, "person"))
    clock.at += 2 * HOUR
    for _ in range(2):
        alerting().after_slot()
    assert [[each.id for each in parcel.alerts] for parcel in chat.parcels] == [
        [coming[0].id, coming[1].id]
    ]
    last = {each.id: [entry.state for entry in each.deliveries] for each in store.alerts("scratch")}
    assert last[coming[3].id] == last[coming[2].id] == [DeliveryState.DROPPED]


@pytest.mark.system
def test_alertmanager_gets_the_alerts_of_a_window_with_a_label_and_without_after_it(monkeypatch):
    posted: list[dict[str, Any]] = []
    settings = Webhook(name="am", url="http://127.0.0.1:1", kind="alertmanager-api")
    receiver = AlertmanagerReceiver(settings, None)
    monkeypatch.setattr(receiver, "_post", lambda entries, *_: posted.extend(entries))
    receiver.in_maintenance = lambda each, now: Held([WINDOW]).in_maintenance(each, now)
    receiver.deliver(Parcel("k", (of(1, 1),)), NOON + HOUR)
    receiver.repeat(NOON + 2 * HOUR)
    receiver.repeat(NOON + 5 * HOUR)
    assert [entry["labels"].get("maintenance") for entry in posted] == ["true", "true", None]


@pytest.mark.cli
def test_the_command_silences_lists_and_ends(tmp_path):
    with Store.open(tmp_path / "t.db") as store:
        store.ensure_site("scratch", driver="lustre")
        place = store.location.path
    assert place is not None
    words = ("--until", "2099-01-01", "--why", "disk ordered\x1b[31m")
    far = trimtab("silence", "scratch", "target-degraded", *words, store=place)
    assert far.code == 2
    from trimtab.base.event import utc_now

    until = (utc_now() + 5 * HOUR).isoformat()
    words = ("--until", until, "--why", "disk ordered\x1b[31m", "--targets", "OST[0001-0002]")
    said = trimtab("silence", "scratch", "target-degraded", *words, store=place)
    assert said.code == 0, said.stderr
    assert "\x1b" not in said.stdout
    listed = trimtab("silence", "scratch", "--json", store=place).document["silences"]
    assert [(each["alert"], each["targets"]) for each in listed] == [
        ("target-degraded", ["OST0001", "OST0002"])
    ]
    refused = trimtab("silence", "scratch", "integrity", *words, store=place)
    assert refused.code == 4
    over = trimtab(
        "silence", "scratch", "target-degraded", "--targets", "OST[0001-0002]", "--end", "--json",
        store=place,
    )  # fmt: skip
    assert over.document["silences"] == []
