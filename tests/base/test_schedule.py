"""Schedules: exact slots, both changes of clocks, and a slow, obvious scan to compare with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.slots import between

from trimtab.base.error import UsageError
from trimtab.base.schedule import find_zone, jitter_s, parse_schedule

ZONES = ("UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Pacific/Apia")
TEXTS = (
    "every 1h",
    "every 15m",
    "every 1h at :20",
    "every 7h",
    "every 90s",
    "daily at 20:00",
    "daily at 02:30",
    "weekly on sunday at 03:00",
    "*/15 * * * *",
    "30 2 * * *",
    "0,30 1-3 * * mon-fri",
    "5 0 1,15 * sun",
    "59 23 28-31 2,12 *",
    "0 0 29 2 *",
)
MINUTE = timedelta(minutes=1)
instants = st.datetimes(
    datetime(1975, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC), allow_imaginary=False
)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def slots(text: str, start: str, end: str, zone: str = "UTC") -> list[str]:
    found = between(parse_schedule(text), utc(start), utc(end), zone)
    return [slot.strftime("%m-%d %H:%M") for slot in found]


@pytest.mark.parametrize(
    ("text", "period_s"),
    [
        ("every 1h", 3600),
        ("every 90s", 90),
        ("every 2s", 2),
        ("daily at 20:00", 86400),
        ("weekly on Sunday at 3:00", 7 * 86400),
        ("*/15 * * * *", 900),
        ("0 8,20 * * *", 12 * 3600),
        ("0 8,22 * * *", 10 * 3600),
        ("0 23 * * mon,thu", 3 * 86400),
        ("0 0,23 * * mon,tue", 3600),
        ("0 0 1 * *", 28 * 86400),
        ("0 0 29 2 *", 1461 * 86400),
        ("0 0 1 1 *", 365 * 86400),
    ],
)
def test_the_period_is_the_shortest_distance(text: str, period_s: float) -> None:
    assert parse_schedule(text).period_s == period_s


def test_slots_of_every_hour_do_not_depend_on_when_the_watch_started() -> None:
    assert slots("every 1h at :20", "2026-11-20T08:20", "2026-11-20T10:20") == [
        "11-20 09:20",
        "11-20 10:20",
    ]
    assert slots("every 6h", "2026-11-20T00:00", "2026-11-21T00:00", "Asia/Tokyo") == [
        "11-20 06:00",
        "11-20 12:00",
        "11-20 18:00",
        "11-21 00:00",
    ]


def test_a_slot_is_strictly_after() -> None:
    schedule = parse_schedule("daily at 20:00")
    slot = utc("2026-11-20T20:00")
    assert schedule.next_after(slot) == slot + timedelta(days=1)
    assert schedule.next_after(slot - timedelta(microseconds=1)) == slot
    assert schedule.last_until(slot) == slot
    assert schedule.last_until(slot - timedelta(microseconds=1)) == slot - timedelta(days=1)


def test_daily_keeps_its_local_time_when_clocks_change() -> None:
    # Berlin: +1 until 2026-03-29 01:00 UTC, +2 until 2026-10-25 01:00 UTC.
    assert slots("daily at 20:00", "2026-03-28T00:00", "2026-03-30T00:00", "Europe/Berlin") == [
        "03-28 19:00",
        "03-29 18:00",
    ]


def test_a_local_time_that_is_skipped_comes_at_the_change() -> None:
    for text in ("daily at 02:30", "0 2 * * *", "59 2 * * *"):
        found = slots(text, "2026-03-28T12:00", "2026-03-29T12:00", "Europe/Berlin")
        assert found == ["03-29 01:00"], text
    # All that falls into the hour that is skipped comes once, and together with 03:00.
    found = slots("*/30 * * * *", "2026-03-29T00:00", "2026-03-29T02:00", "Europe/Berlin")
    assert found == ["03-29 00:30", "03-29 01:00", "03-29 01:30", "03-29 02:00"]


def test_a_local_time_that_is_repeated_comes_the_first_time() -> None:
    found = slots("daily at 02:30", "2026-10-24T12:00", "2026-10-25T12:00", "Europe/Berlin")
    assert found == ["10-25 00:30"]
    found = slots("0 * * * *", "2026-10-24T23:00", "2026-10-25T03:00", "Europe/Berlin")
    assert found == ["10-25 00:00", "10-25 02:00", "10-25 03:00"]
    # every 1h is the one for a steady distance
    assert len(slots("every 1h", "2026-10-24T23:00", "2026-10-25T03:00", "Europe/Berlin")) == 4


def test_changes_of_half_an_hour() -> None:
    # Lord Howe: +10:30 becomes +11 at 2026-10-03 15:30 UTC (local 02:00), back on 2026-04-04 15:00.
    zone = "Australia/Lord_Howe"
    assert slots("daily at 02:15", "2026-10-03T00:00", "2026-10-04T00:00", zone) == ["10-03 15:30"]
    assert slots("daily at 01:45", "2026-04-04T00:00", "2026-04-05T00:00", zone) == ["04-04 14:45"]


def test_a_day_that_is_skipped_altogether() -> None:
    # Samoa had no 30 December 2011: from the 29th, 24:00 (10:00 UTC), to the 31st, 00:00.
    found = slots("daily at 12:00", "2011-12-29T00:00", "2011-12-31T00:00", "Pacific/Apia")
    assert found == ["12-29 22:00", "12-30 10:00", "12-30 22:00"]


@pytest.mark.system
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", TEXTS)
@given(at=instants)
@settings(max_examples=25)
def test_slots_follow_one_another(text: str, zone: str, at: datetime) -> None:
    schedule = parse_schedule(text)
    following = schedule.next_after(at, zone)
    last = schedule.last_until(at, zone)
    assert last <= at < following
    assert schedule.next_after(last, zone) == following
    assert schedule.last_until(following, zone) == following
    assert schedule.last_until(following - timedelta(microseconds=1), zone) == last


CHANGING = ("Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe")


@pytest.mark.calibration
@pytest.mark.parametrize("zone", CHANGING)
def test_two_years_equal_a_scan_of_every_minute(zone: str) -> None:
    assert_equal_to_a_scan("*/20 1-3 * * *", zone, "2026-01-01T00:00", "2028-01-01T00:00")


@pytest.mark.calibration
@for_each("zone", CHANGING)
@for_each("text", ["30 2 * * *", "15,45 2 28-31 3,10 *", "0 * * * sun", "* 0-3 * * *"])
@for_each("month", ["2026-03", "2026-04", "2026-10", "2026-11"])
def test_months_of_changes_equal_a_scan_of_every_minute(text: str, zone: str, month: str) -> None:
    assert_equal_to_a_scan(text, zone, f"{month}-01T00:00", f"{month}-09T00:00")
    assert_equal_to_a_scan(text, zone, f"{month}-24T12:00", f"{month}-30T12:00")


def assert_equal_to_a_scan(text: str, zone: str, first: str, last: str) -> None:
    start, end = utc(first), utc(last)
    found = list(between(parse_schedule(text), start, end, zone))
    assert all(early < late for early, late in pairwise(found))
    assert found == scan(text, start, end, ZoneInfo(zone))


def scan(text: str, start: datetime, end: datetime, zone: ZoneInfo) -> list[datetime]:
    """Watch the clock on the wall minute by minute; what it has not shown before is new."""
    due = fields_of(text)
    found, shown, at = [], start.astimezone(zone).replace(tzinfo=None), start
    while at < end:
        at += MINUTE
        wall = at.astimezone(zone).replace(tzinfo=None)
        hit = False
        while shown < wall:  # one step, or all that the clock skips
            shown += MINUTE
            hit = hit or due(shown)
        if hit:
            found.append(at)
    return found


BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
NAMES = {
    3: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    4: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}


def values_of(field: str, place: int) -> set[int]:
    """Return the values of a field of a cron expression, walking round the clock from each."""
    low, high = BOUNDS[place]
    around = [*range(low, high + 1)] * 2
    for number, name in enumerate(NAMES.get(place, ()), low):
        field = field.lower().replace(name, str(number))
    values: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        if span == "*":
            values.update(range(low, high + 1, int(step or 1)))
            continue
        ends = [int(word) % 7 if place == 4 else int(word) for word in span.split("-")]
        walk = around[ends[0] - low :]
        walk = walk[:1] if len(ends) == 1 else walk[: walk.index(ends[1], 1) + 1]
        values.update(walk[:: int(step or 1)])
    return values


def fields_of(text: str):
    fields = text.split()
    values = [values_of(field, place) for place, field in enumerate(fields)]

    def due(local: datetime) -> bool:
        shown = (local.minute, local.hour, local.day, local.month, local.isoweekday() % 7)
        minute, hour, day, month, weekday = (
            one in those for one, those in zip(shown, values, strict=True)
        )
        either = fields[2] != "*" and fields[4] != "*"
        return minute and hour and month and (day or weekday if either else day and weekday)

    return due


@st.composite
def cron_fields(draw: st.DrawFn, place: int) -> str:
    """Return a field as crontab(5) has it, names and lists among them."""
    low, high = BOUNDS[place]
    top = 7 if place == 4 else high
    items = []
    for _ in range(draw(st.integers(1, 3))):
        first, last = draw(st.integers(low, high)), draw(st.integers(low, top))
        words = [str(first), str(last)]
        if draw(st.booleans()) and place in NAMES:
            words = [NAMES[place][(each - low) % (high - low + 1)] for each in (first, last)]
        step = draw(st.sampled_from(["", "", "/1", "/2", "/7", "/40"]))
        kind = draw(st.sampled_from(["*", "value", "range"]))
        if kind == "*":
            items.append("*" + step)
        elif kind == "value" or first == (last % 7 if place == 4 else last):
            items.append(words[0])
        else:
            items.append("-".join(words) + (step if first < last and words[0].isdigit() else ""))
    return ",".join(items)


crons = st.tuples(*(st.just("*") | cron_fields(place) for place in range(5))).map(" ".join)


@given(text=crons, days=st.integers(0, 4000), minute=st.integers(0, 1439))
@settings(max_examples=50)
def test_a_slot_is_a_minute_that_every_field_names(text: str, days: int, minute: int) -> None:
    at = utc("2020-01-01T00:00") + timedelta(days=days, minutes=minute)
    try:
        schedule = parse_schedule(text)
    except UsageError as error:
        if error.code in ("schedule-never-due", "schedule-ambiguous"):
            reject()
        raise
    minutes, hours, days_of_month, months, weekdays = map(values_of, text.split(), range(5))
    rule: Any = schedule._rule
    assert set(rule.times) == {60 * hour + minute for hour in hours for minute in minutes}
    assert rule.months == months
    assert (rule.days or set(range(1, 32))) == days_of_month
    assert (rule.weekdays or set(range(7))) == weekdays
    slot = schedule.last_until(at)
    due = fields_of(text)
    assert due(slot.replace(tzinfo=None))
    assert (slot == at) == due(at.replace(tzinfo=None))


@for_each(
    "text",
    [
        "",
        "hourly",
        "every",
        "every 0s",
        "every 500ms",
        "every 1.5s",
        "every 9999d",
        "every 1h at 20",
        "every 1h at :60",
        "every 15m at :15",
        "every -1h",
        "every 1fortnight",
        "daily at 24:00",
        "daily at 20",
        "daily at 20:60",
        "weekly on sundy at 03:00",
        "weekly at 03:00",
        "@daily",
        "* * * *",
        "0 * * * * *",
        "0 0 * * * * 2027",
        "60 * * * *",
        "0 24 * * *",
        "*/0 * * * *",
        "5-5 * * * *",
        "0 22-2/2 * * *",
        "0 0 * * 7-0",
        "0 0 31-0 * *",
        "0 0 * * 8",
        "0 0 * jan-tue *",
        "1-2-3 * * * *",
        "5/15 * * * *",
        "r * * * *",
        "h h * * *",
        "0 0 l * *",
        "0 0 15w * *",
        "0 0 * * mon#1",
        "0 0 * foo *",
        "0 0 30 2 *",
        "0 0 */2 * mon",
        "0 0 ٣ * *",
        "\x1b[2J",
        "0 " * 1000,
    ],
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_schedule(text)
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 300


def test_an_instant_without_a_time_zone_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_schedule("every 1h").next_after(datetime(2026, 1, 1))


@pytest.mark.parametrize("name", ["", "Europe", "Europe/Berlino", "../../etc/passwd", "a\0b", "/x"])
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    with raises(UsageError, "timezone-unknown"):
        find_zone(name)


def test_jitter_is_fixed_and_spread() -> None:
    values = [jitter_s("scratch", f"probe:{number}", 600.0) for number in range(1000)]
    assert values == [jitter_s("scratch", f"probe:{number}", 600.0) for number in range(1000)]
    assert all(0 <= value < 600 for value in values)
    assert 270 < sum(values) / len(values) < 330
    assert jitter_s("other", "probe:0", 600.0) != values[0]
    assert jitter_s("ab", "c", 600.0) != jitter_s("a", "bc", 600.0)
    assert jitter_s("scratch", "probe:0", 0.0) == 0.0
