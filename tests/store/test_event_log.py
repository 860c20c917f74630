"""The log book: what a person writes is kept, listed, and refused where it says nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.command import trimtab

from trimtab.base.error import UsageError
from trimtab.base.event import MADE, Event, EventKind, new_identifier
from trimtab.base.server_message import KERNEL_LOG, MessageFamily, ServerMessage
from trimtab.base.snapshot import Snapshot, Target, TargetSnapshot
from trimtab.site.place import add_event
from trimtab.store.store import Store

pytestmark = pytest.mark.system

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "t.db")
    store.ensure_site("scratch", driver="lustre")
    return store


def test_an_event_is_kept_as_it_was_written(store: Store) -> None:
    event = add_event(
        store, "scratch", kind="config-change", detail="  checksums on ", now=NOW,
        at="2026-11-14T02:40", until="2026-11-14T03:00", targets="OST[0009-000b]",
    )  # fmt: skip
    assert store.events(site="scratch") == (event,)
    assert event == Event(
        event.id, "scratch", EventKind.CONFIG_CHANGE, datetime(2026, 11, 14, 2, 40, tzinfo=UTC),
        "checksums on", "person", datetime(2026, 11, 14, 3, tzinfo=UTC),
        ("OST0009", "OST000a", "OST000b"),
    )  # fmt: skip


def test_dates_of_an_event_are_whole_days(store: Store) -> None:
    days = {"at": "2026-11-14", "until": "2026-11-15"}
    event = add_event(store, "scratch", kind="config-change", detail="x", now=NOW, **days)
    assert event.at == datetime(2026, 11, 14, tzinfo=UTC)
    assert event.until == datetime(2026, 11, 15, 23, 59, 59, 999999, tzinfo=UTC)


def test_without_a_time_it_is_now(store: Store) -> None:
    assert add_event(store, "scratch", kind="note", detail="x", now=NOW).at == NOW


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"detail": "  "}, "a description"),
        ({"detail": "x" * 3000}, "characters"),
        ({"at": "2026-12-24"}, "future"),
        ({"at": "yesterday"}, "not a time"),
        ({"at": "2026-11-02", "until": "2026-11-01"}, "before it begins"),
        ({"targets": "OST12"}, "OST12"),
    ],
)
def test_what_says_nothing_is_refused_and_not_kept(
    store: Store, said: dict[str, str], wrong: str
) -> None:
    with pytest.raises(UsageError, match=wrong):
        add_event(store, "scratch", kind="note", now=NOW, **({"detail": "words"} | said))
    assert store.events() == ()


def test_an_unknown_site_is_told_with_those_there_are(store: Store) -> None:
    with pytest.raises(UsageError) as told:
        add_event(store, "nowhere", kind="note", detail="x", now=NOW)
    assert "scratch" in (told.value.hint or "")


@pytest.mark.parametrize("kind", sorted(MADE))
def test_what_has_its_own_command_is_no_entry_of_people(store: Store, kind: EventKind) -> None:
    made = Event(new_identifier(NOW), "scratch", kind, NOW, "x", "kernel-log")
    store.add_event(made)
    note = add_event(store, "scratch", kind="note", detail="x", now=NOW)
    assert store.events(site="scratch") == (note,)
    assert store.events(site="scratch", made=True) == (made, note)
    assert store.events(site="scratch", kinds=[kind]) == (made,)


@pytest.mark.cli
def test_the_command_keeps_and_lists(store: Store) -> None:
    place = store.location.path
    assert place is not None
    words = "kernel 5.14\x1b[31m on all OSSs"
    added = trimtab("event", "add", "scratch", words, "--kind", "note", "--json", store=place)
    assert added.code == 0, added.stderr
    listed = trimtab("event", "list", "scratch", "--json", store=place)
    assert listed.document["events"] == added.document["events"]
    text = trimtab("event", "list", "scratch", store=place)
    assert "kernel 5.14" in text.stdout
    assert "\x1b" not in text.stdout
    none = trimtab("event", "list", "scratch", "--since", "2090-01-01", store=place)
    assert "The log book is empty" in none.stdout
    wrong = trimtab("event", "add", "scratch", "x", "--kind", "nonsense", store=place)
    assert wrong.code == 2
    made = trimtab("event", "add", "scratch", "x", "--kind", "maintenance", store=place)
    assert made.code == 2, "a text field would silence alerts"


def test_messages_of_a_snapshot_are_kept_with_it_once_and_apart_from_the_log_book(
    store: Store,
) -> None:
    written = add_event(store, "scratch", kind="note", detail="quiet", now=NOW)
    message = ServerMessage(
        NOW - timedelta(minutes=9), "oss1", MessageFamily.UNHEARD, 3, None, (), ("boot", 7)
    )
    seen = TargetSnapshot(Target("OST0003", "ost", "oss1"), ())
    for minutes in (0, 5):
        at = NOW + timedelta(minutes=minutes)
        # The clock of the server stepped meanwhile; the ring is the same.
        stepped = replace(message, at=message.at + timedelta(seconds=minutes))
        store.add_snapshot("scratch", Snapshot(at, "lustre", True, (seen,), (), (stepped,)))
    assert store.events(site="scratch") == (written,)
    kept, _ = store.events(site="scratch", made=True)
    assert store.events(kinds=[EventKind.SERVER_MESSAGE]) == (kept,)
    assert (kept.at, kept.targets, kept.source) == (message.at, ("OST0003",), KERNEL_LOG)
    assert kept.detail == "3 x silent client evicted, kernel log of oss1"
