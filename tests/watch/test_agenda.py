"""What is due, missed and why, to the second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.slots import between

from trimtab.base.schedule import parse_schedule
from trimtab.watch.agenda import (
    HELD_UP,
    NOT_RUNNING,
    Begin,
    Item,
    Miss,
    MissMany,
    WatchAgenda,
    advanced,
    decide,
    next_item,
    occupied,
    position,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def an_item(
    text: str = "every 1h", name: str = "probe:hourly", *, jitter_s: float = 0, zone: str = "UTC"
) -> Item:
    """Return an item with a schedule."""
    return Item(name, parse_schedule(text), zone, timedelta(seconds=jitter_s))


def an_agenda(*items: Item, until: datetime = NOON) -> WatchAgenda:
    """Return an agenda on which everything up to a time is decided, of a watch as old as that."""
    return WatchAgenda(until, tuple(position(one, until) for one in items))


def test_nothing_is_due_before_its_start() -> None:
    agenda = an_agenda(an_item(jitter_s=90))
    assert decide(agenda, NOON + HOUR + 89 * MINUTE / 60) == []
    assert next_item(agenda) == (NOON + HOUR + timedelta(seconds=90), "probe:hourly")
    begin = Begin("probe:hourly", NOON + HOUR)
    assert decide(agenda, NOON + HOUR + timedelta(seconds=90)) == [begin]


def test_a_slot_is_begun_within_its_grace_and_missed_after_it() -> None:
    agenda = an_agenda(an_item(jitter_s=60))
    latest = NOON + HOUR + 31 * MINUTE
    assert decide(agenda, latest) == [Begin("probe:hourly", NOON + HOUR)]
    late = latest + timedelta(microseconds=1)
    assert decide(agenda, late) == [Miss("probe:hourly", NOON + HOUR, HELD_UP)]


@pytest.mark.parametrize(
    ("text", "minutes"), [("every 10m", 5), ("every 1h", 30), ("daily at 20:00", 30)]
)
def test_the_grace_is_half_the_period_and_at_most_half_an_hour(text: str, minutes: int) -> None:
    assert an_item(text).grace == minutes * MINUTE


def test_what_a_watch_that_was_away_has_missed_and_what_it_can_still_do() -> None:
    agenda = WatchAgenda(NOON + 3 * HOUR + 10 * MINUTE, an_agenda(an_item()).positions)
    assert decide(agenda, agenda.alive_since) == [
        Miss("probe:hourly", NOON + HOUR, NOT_RUNNING),
        Miss("probe:hourly", NOON + 2 * HOUR, NOT_RUNNING),
        Begin("probe:hourly", NOON + 3 * HOUR),
    ]


def test_a_slot_that_another_probe_outlasted_says_which() -> None:
    agenda = an_agenda(an_item("every 10m", "probe:short"), an_item())
    agenda = occupied(
        agenda, "the probe hourly of 12:00 was still running", NOON, NOON + 26 * MINUTE
    )
    reason = "the probe hourly of 12:00 was still running"
    assert decide(agenda, NOON + 26 * MINUTE) == [
        Miss("probe:short", NOON + 10 * MINUTE, reason),
        Miss("probe:short", NOON + 20 * MINUTE, reason),
    ]


def test_one_at_a_time_the_earliest_start_first_and_snapshots_before_probes() -> None:
    agenda = an_agenda(
        an_item("every 1h", "probe:a"),
        an_item("every 1h", "snapshot"),
        an_item("every 30m", "probe:b", jitter_s=60),
    )
    at = NOON + HOUR + MINUTE
    order = []
    while work := decide(agenda, at):
        order += work
        for one in work:
            agenda = advanced(agenda, one)
    assert order == [
        Miss("probe:b", NOON + 30 * MINUTE, HELD_UP),
        Begin("snapshot", NOON + HOUR),
        Begin("probe:a", NOON + HOUR),
        Begin("probe:b", NOON + HOUR),
    ]


def test_a_thousand_are_missed_one_by_one_and_more_as_a_stretch() -> None:
    item = an_item("every 1m", "probe:m")
    start = an_agenda(item).positions
    after = WatchAgenda(NOON + 1000 * MINUTE + 31 * timedelta(seconds=1), start)
    work = decide(after, after.alive_since)
    assert len(work) == 1000
    assert {type(one) for one in work} == {Miss}
    later = WatchAgenda(after.alive_since + MINUTE, start)
    assert decide(later, later.alive_since) == [
        MissMany("probe:m", NOON + MINUTE, NOON + 1001 * MINUTE, NOT_RUNNING)
    ]


def test_a_year_away_is_decided_at_once() -> None:
    item = an_item("every 1m", "probe:m")
    agenda = WatchAgenda(NOON + 365 * 24 * HOUR, an_agenda(item).positions)
    work = decide(agenda, agenda.alive_since)
    assert [type(one) for one in work] == [MissMany, Begin]


def test_a_clock_that_is_behind_what_was_decided_makes_nothing_due() -> None:
    assert decide(an_agenda(an_item(), until=NOON), NOON - 5 * HOUR) == []


@pytest.mark.parametrize("text", ["every 1h", "daily at 02:30", "30 2 * * *", "every 7h"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe"])
def test_every_slot_of_a_year_is_begun_once_across_the_changes_of_clocks(
    text: str, zone: str
) -> None:
    item = an_item(text, zone=zone)
    agenda, now, end = an_agenda(item), NOON, NOON + 366 * 24 * HOUR
    begun = []
    while (upcoming := next_item(agenda)) is not None and upcoming[0] <= end:
        now = upcoming[0]
        (work,) = decide(agenda, now)
        assert isinstance(work, Begin)
        begun.append(work.due_at)
        agenda = advanced(agenda, work)
    assert begun == list(between(item.schedule, NOON, end, zone))


minutes = st.integers(0, 300)


@given(
    steps=st.lists(st.tuples(minutes, minutes), max_size=30),
    jitters=st.tuples(st.integers(0, 1800), st.integers(0, 1800)),
)
def test_every_slot_is_decided_once_and_in_order_however_time_passes(
    steps: list[tuple[int, int]], jitters: tuple[int, int]
) -> None:
    """Time passes between looks, and while what was begun is done."""
    items = (
        an_item("every 1h", "probe:a", jitter_s=jitters[0]),
        an_item("every 25m", "probe:b", jitter_s=jitters[1]),
    )
    agenda, now = an_agenda(*items), NOON
    decided: dict[str, list[datetime]] = {one.name: [] for one in items}
    for wait, takes in steps:
        now += wait * MINUTE
        while work := decide(agenda, now):
            for one in work:
                assert not isinstance(one, MissMany)
                decided[one.item].append(one.due_at)
                agenda = advanced(agenda, one)
            if isinstance(work[-1], Begin):
                since, now = now, now + takes * MINUTE
                takes = 0  # noqa: PLW2901 (only the first takes long, or there were no end)
                agenda = occupied(agenda, "a probe was still running", since, now)
    for item in items:
        until = now - item.jitter
        assert decided[item.name] == list(between(item.schedule, NOON, until))
