"""Schedules as pure functions of the clock: text to slots, in real or simulated time.

A slot is an instant at which something is due. It depends only on the text and the time zone, so
that a restarted watch finds the same slots::

    every 1h           counted from 1970-01-01 00:00 UTC, the same in every time zone
    every 1h at :20    as above, 20 minutes later
    daily at 20:00     the site's local time
    weekly on sunday at 03:00
    30 2 * * mon-fri   a cron expression, the site's local time

When clocks change, each local time occurs once. A skipped one occurs at the moment of the change; a
repeated one occurs only the first time.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trimtab.base.error import UsageError, visible
from trimtab.base.units import parse_duration

_TEXT_MAX = 200
"""In characters: a cron expression that lists every minute has a field of 169."""
_PERIOD_MAX_S = 366 * 86400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_SEARCH_DAYS = 366 * 9
"""A 29 February occurs at least every eight years (1896 to 1904)."""
_WEEKDAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun",
                  "jul", "aug", "sep", "oct", "nov", "dec")  # fmt: skip

_EVERY = re.compile(r"every\s+([0-9.]+\s*[a-z]+)(?:\s+at\s+:([0-5][0-9]))?", re.IGNORECASE)
_TIME = r"([01]?[0-9]|2[0-3]):([0-5][0-9])"
_DAILY = re.compile(rf"daily\s+at\s+{_TIME}", re.IGNORECASE)
_WEEKLY = re.compile(rf"weekly\s+on\s+([a-z]+)\s+at\s+{_TIME}", re.IGNORECASE)
_CRON_VALUE = r"(?:[0-9]{1,2}|[a-z]{3})"
_CRON_ITEM = rf"(?:\*(?:/[0-9]{{1,2}})?|{_CRON_VALUE}(?:-{_CRON_VALUE}(?:/[0-9]{{1,2}})?)?)"
# Features of every cron: no random values, L, W or #.
_CRON_FIELD = re.compile(rf"{_CRON_ITEM}(?:,{_CRON_ITEM})*", re.IGNORECASE | re.ASCII)
_HINT = (
    'write "every 1h", "every 1h at :20", "daily at 20:00", "weekly on sunday at 03:00" '
    'or five cron fields: "30 2 * * mon-fri"'
)


class _Rule(Protocol):
    def next_after(self, at: datetime, zone: tzinfo) -> datetime: ...

    def last_until(self, at: datetime, zone: tzinfo) -> datetime: ...

    def period_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule.

    Attributes
    ----------
    text
        The original text.
    period_s
        The shortest distance between two slots; in local time, on days without a clock change.
    """

    text: str
    period_s: float
    _rule: _Rule

    def __str__(self) -> str:
        """Return the original text."""
        return self.text

    def next_after(self, at: datetime, timezone: str | tzinfo = UTC) -> datetime:
        """Return the first slot after ``at``, in UTC; a slot at ``at`` itself is not after it.

        Parameters
        ----------
        at
            Aware.
        timezone
            Zone of local times; an IANA name or a ``tzinfo``.

        Raises
        ------
        UsageError
            The time zone is unknown.
        """
        return self._rule.next_after(_aware(at), find_zone(timezone))

    def last_until(self, at: datetime, timezone: str | tzinfo = UTC) -> datetime:
        """Return the last slot that is not after ``at``, in UTC; see `next_after`."""
        return self._rule.last_until(_aware(at), find_zone(timezone))


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule.

    Raises
    ------
    UsageError
        It is not a schedule, never occurs, or has different meanings in different cron programs.

    Examples
    --------
    >>> schedule = parse_schedule("daily at 20:00")
    >>> str(schedule.next_after(datetime(2026, 3, 28, 19, 0, tzinfo=UTC), "Europe/Berlin"))
    '2026-03-29 18:00:00+00:00'
    """
    words = text.strip()
    if len(text) > _TEXT_MAX:
        raise UsageError(
            f"{visible(text[:40])}... is too long for a schedule",
            code="schedule-invalid",
            hint=_HINT,
        )
    rule = _parse(words, text)
    return Schedule(words, rule.period_s(), rule)


def find_zone(timezone: str | tzinfo) -> tzinfo:
    """Return the time zone of an IANA name such as ``Europe/Berlin``.

    Raises
    ------
    UsageError
        This host's time zone database does not have it.
    """
    if isinstance(timezone, tzinfo):
        return timezone
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: "Europe", a directory
        raise UsageError(
            f"unknown time zone {visible(timezone)!r}",
            code="timezone-unknown",
            hint="use an IANA name, such as UTC, Europe/Berlin or America/Los_Angeles",
        ) from error


def jitter_s(site: str, item: str, longest_s: float) -> float:
    """Return the delay of an item after each of its slots: 0 to ``longest_s``, in seconds.

    It is the same for every slot and restart but differs between sites and items, so that items due
    at the full hour on many sites do not start simultaneously.

    Examples
    --------
    >>> 0 <= jitter_s("scratch", "probe:hourly", 60.0) < 60
    True
    """
    digest = hashlib.sha256(f"{site}\0{item}".encode("utf-8", "surrogatepass")).digest()
    return longest_s * (int.from_bytes(digest[:6], "big") / 2**48)


@dataclass(frozen=True, slots=True)
class _Every:
    """Slots at ``offset_s`` + n x ``every_s`` after the epoch.

    The epoch is midnight UTC and UTC days have 86,400 s, so an interval that divides a day has its
    slots at the same times every day.
    """

    every_s: int
    offset_s: int

    def next_after(self, at: datetime, zone: tzinfo) -> datetime:
        return self._slot(self._count(at) + 1)

    def last_until(self, at: datetime, zone: tzinfo) -> datetime:
        return self._slot(self._count(at))

    def period_s(self) -> float:
        return float(self.every_s)

    def _count(self, at: datetime) -> int:
        # In whole microseconds: float seconds cannot distinguish a slot from just before it.
        return ((at - _EPOCH) // _MICROSECOND - self.offset_s * 10**6) // (self.every_s * 10**6)

    def _slot(self, count: int) -> datetime:
        return _EPOCH + timedelta(seconds=self.offset_s + count * self.every_s)


@dataclass(frozen=True, slots=True)
class _Calendar:
    """Slots at times of day on matching days, in local time.

    Let u(n) be the instant of the local time n by the rule at the top of this file. It never falls
    as n grows, and u(n) <= t for the local time n of any instant t. So the slots after t are among
    the local times after n, and the first whose instant is after t is the next.

    Attributes
    ----------
    times
        Minutes since midnight, ascending.
    days, weekdays
        Day of the month and day of the week (0 is Sunday); ``None`` is any. If both are set, either
        is sufficient (crontab(5)).
    """

    times: tuple[int, ...]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None

    def next_after(self, at: datetime, zone: tzinfo) -> datetime:
        local = at.astimezone(zone).replace(tzinfo=None)
        while True:
            local = self._beside(local, _DAY)
            slot = _instant(local, zone)
            if slot > at:
                return slot

    def last_until(self, at: datetime, zone: tzinfo) -> datetime:
        here = at.astimezone(zone)
        # In a repeated hour all its slots have passed: start after its end.
        local = (here + _repeated(here, zone)).replace(tzinfo=None, fold=0)
        while True:
            local = self._beside(local, -_DAY)
            slot = _instant(local, zone)
            if slot <= at:
                return slot
            local -= timedelta(minutes=1)

    def period_s(self) -> float:
        days = self._days_apart()
        across = days * 1440 - self.times[-1] + self.times[0]
        within = [late - early for early, late in pairwise(self.times)]
        return 60.0 * min(across, *within) if within else 60.0 * across

    def comes(self) -> bool:
        """Return whether any day matches."""
        return self._find_day(date(2000, 1, 1), _DAY) is not None

    def _beside(self, local: datetime, step: timedelta) -> datetime:
        """Return the nearest matching time after a minute, or up to it for a negative step."""
        position = bisect_right(self.times, local.hour * 60 + local.minute)
        onward, today = step > timedelta(), local.date()
        times = self.times[position:] if onward else self.times[:position]
        if not times or not self._matches(today):
            today, times = self._day(today + step, step), self.times
        return _at(today, times[0 if onward else -1])

    def _matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        weekday = self.weekdays is not None and day.isoweekday() % 7 in self.weekdays
        if self.days is None:
            return weekday or self.weekdays is None
        return weekday or day.day in self.days

    def _day(self, day: date, step: timedelta) -> date:
        day_found = self._find_day(day, step)
        assert day_found is not None  # parse_schedule refuses schedules that never occur
        return day_found

    def _find_day(self, day: date, step: timedelta) -> date | None:
        for _ in range(_SEARCH_DAYS):
            if self._matches(day):
                return day
            day += step
        return None

    def _days_apart(self) -> int:
        first = self._day(date(2000, 1, 1), _DAY)
        shortest, last = _SEARCH_DAYS, first
        while shortest > 1 and last.year < 2012:  # three 29 Februaries
            day = self._day(last + _DAY, _DAY)
            shortest, last = min(shortest, (day - last).days), day
        return shortest


def _at(day: date, minutes: int) -> datetime:
    return datetime(day.year, day.month, day.day, minutes // 60, minutes % 60)


def _instant(local: datetime, zone: tzinfo) -> datetime:
    """Return the instant of a local time in UTC; see the top of this file."""
    # Use UTC: differences of times within a zone ignore its clock changes (datetime's manual).
    slot = local.replace(tzinfo=zone).astimezone(UTC)
    if slot.astimezone(zone).replace(tzinfo=None) == local:
        return slot
    # Skipped. fold=0 takes the offset before the change and so lands after it, fold=1 before it
    # (PEP 495); the change is a whole second in between.
    early = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    before = early.astimezone(zone).utcoffset()
    low, high = 0, int((slot - early).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (early + timedelta(seconds=middle)).astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return early + timedelta(seconds=high)


def _repeated(here: datetime, zone: tzinfo) -> timedelta:
    """Return how far clocks went back if ``here`` is a repeated local time."""
    first = here.replace(fold=0).astimezone(UTC)
    return max(here.astimezone(UTC) - first, timedelta())


def _aware(at: datetime) -> datetime:
    if at.utcoffset() is None:
        raise ValueError(f"{at} has no time zone")
    return at


def _parse(words: str, text: str) -> _Rule:
    if match := _EVERY.fullmatch(words):
        return _every(match, text)
    if match := _DAILY.fullmatch(words):
        return _Calendar((_minutes(*match.groups()),), None, frozenset(range(1, 13)), None)
    if match := _WEEKLY.fullmatch(words):
        weekday = frozenset((_weekday(match[1], text),))
        minutes = _minutes(*match.groups()[1:])
        return _Calendar((minutes,), None, frozenset(range(1, 13)), weekday)
    fields = words.split()
    if len(fields) == 5 and all(_CRON_FIELD.fullmatch(field) for field in fields):
        return _cron(fields, text)
    if len(fields) in {6, 7} and all(_CRON_FIELD.fullmatch(field) for field in fields):
        raise UsageError(
            f"{text!r} has {len(fields)} fields",
            code="schedule-invalid",
            hint="use five: minute, hour, day of month, month, day of week; no seconds or years",
        )
    raise UsageError(f"{visible(text)!r} is not a schedule", code="schedule-invalid", hint=_HINT)


def _every(match: re.Match[str], text: str) -> _Every:
    every_s = parse_duration(match[1])
    if not every_s.is_integer() or not 1 <= every_s <= _PERIOD_MAX_S:
        raise UsageError(
            f"{text!r} is not a schedule: the interval must be whole seconds, from 1 s to 366 d",
            code="schedule-interval-invalid",
        )
    offset_s = int(match[2] or 0) * 60
    if offset_s >= every_s:
        raise UsageError(
            f"{text!r} is not a schedule: :{match[2]} is not within {match[1]}",
            code="schedule-offset-invalid",
            hint='"every 15m at :05" is 00:05, 00:20, 00:35 and so on',
        )
    return _Every(int(every_s), offset_s)


def _minutes(hour: str, minute: str) -> int:
    return int(hour) * 60 + int(minute)


def _weekday(name: str, text: str) -> int:
    for number, weekday in enumerate(_WEEKDAYS):
        if name.lower() in {weekday, weekday[:3]}:
            return number
    raise UsageError(
        f"{text!r}: {name!r} is not a day of the week",
        code="schedule-day-invalid",
        hint=", ".join(_WEEKDAYS),
    )


def _cron(fields: list[str], text: str) -> _Calendar:
    minutes = _cron_values(fields[0], 0, 59, text)
    hours = _cron_values(fields[1], 0, 23, text)
    days = _cron_values(fields[2], 1, 31, text)
    months = _cron_values(fields[3], 1, 12, text, {name: at for at, name in enumerate(_MONTHS, 1)})
    names = {name[:3]: at for at, name in enumerate(_WEEKDAYS)}
    # Sunday is 0 at the start of a range and 7 at its end.
    weekdays = _cron_values(fields[4].replace("7-", "0-"), 0, 7, text, names)
    if fields[2] != "*" and fields[4] != "*" and "*" in fields[2] + fields[4]:
        raise UsageError(
            f"{text!r}: cron programs differ on this combination of day of month and day of week",
            code="schedule-ambiguous",
            hint='use "*" for one of them, or lists without "*" for both',
        )
    calendar = _Calendar(
        tuple(hour * 60 + minute for hour in sorted(hours) for minute in sorted(minutes)),
        None if "*" in fields[2].split(",") else days,
        months,
        None if "*" in fields[4].split(",") else frozenset(day % 7 for day in weekdays),
    )
    if not calendar.comes():
        raise UsageError(f"{text!r} is never due: there is no such day", code="schedule-never-due")
    return calendar


def _cron_values(
    field: str, low: int, high: int, text: str, names: Mapping[str, int] = MappingProxyType({})
) -> frozenset[int]:
    """Return the values of one field of a cron expression, from `low` to `high`.

    A reversed range wraps around: ``22-2`` means the hours 22, 23, 0, 1 and 2.
    """
    values: set[int] = set()
    for item in field.lower().split(","):
        span, _, every = item.partition("/")
        begin, _, end = (f"{low}-{high}" if span == "*" else span).partition("-")
        try:
            first, last = (int(names.get(word, word)) for word in (begin, end or begin))
            step = int(every or 1)
        except ValueError:  # a name of another field
            first = last = step = 0
        if not (step and low <= first <= high and low <= last <= high):
            raise UsageError(
                f"{text!r} is not a cron expression: {item!r} is not from {low} to {high}",
                code="schedule-invalid",
                hint=_HINT,
            )
        if end and (first == last or (first > last and every)):
            raise UsageError(
                f"{text!r}: cron programs differ on {item!r}",
                code="schedule-ambiguous",
                hint="list its values: 5, or 22,0,2",
            )
        if first <= last:
            values.update(range(first, last + 1, step))
        else:
            values.update(range(first, high + 1), range(low, last + 1))
    return frozenset(values)


# Names of what comes due by a schedule: the items of slots

SNAPSHOT: Final = "snapshot"
PROBE_PREFIX: Final = "probe:"
POLICIES: Final = "policies"
"""The slot in which armed policies are kept."""
PURGE_PLAN: Final = "purge-plan"
"""The slot whose process makes a purge plan."""
