"""Text to base SI and back."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import UsageError
from trimtab.base.run import METRIC_UNITS, Sample
from trimtab.base.units import (
    format_bytes,
    format_bytes_per_s,
    format_duration,
    format_value,
    is_date,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_moment,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1k", 1024),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("64GiB", 64 * 1024**3),
        ("1.5MiB", 3 * 512 * 1024),
        (" 2 TB ", 2 * 10**12),
    ],
)
def test_sizes(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1 parsec", "1e6", "0x10", "1.0001", "nan", "9" * 400, "1..2"]
)
def test_what_is_no_size(text):
    with pytest.raises(UsageError):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "-5s", "5 fortnights", "inf", "9" * 400])
def test_what_is_no_duration(text):
    with pytest.raises(UsageError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "101%", "1.01", "-1%", "nan", "much"])
def test_what_is_no_fraction(text):
    with pytest.raises(UsageError):
        parse_fraction(text)


@given(st.integers(0, 10**39))
def test_whole_bytes_survive(value):
    assert parse_bytes(str(value)) == value


@given(st.integers(0, 10**15), st.integers(0, 9))
def test_a_size_of_any_unit_is_exact(whole, tenth):
    assert parse_bytes(f"{whole}.{tenth}EB") == (10 * whole + tenth) * 10**17
    assert parse_bytes(f"{whole}KiB") == whole * 1024


@given(st.integers(0, 1000))
def test_a_fraction_is_the_same_as_per_cent_and_as_a_number(tenths):
    assert parse_fraction(f"{tenths / 10}%") == tenths / 1000


@given(st.floats(0, 1e18))
def test_printing_keeps_three_figures(value):
    for formatted, base in ((format_bytes(value), 1024), (format_bytes_per_s(value), 1000)):
        number, unit = formatted.split(" ")
        power = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}[unit[0]]
        exact = value / base**power
        assert abs(float(number) - exact) <= max(0.005 * exact, 0.5)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, "B", "not known"),
        (0, "B/s", "0 B/s"),
        (999.7, "B/s", "1.00 KB/s"),
        (1023.9, "B", "1.00 KiB"),
        (0.079, "1", "7.9 %"),
        (1.837, "B/B", "1.84"),
        (40520.0, "loops", "40,520 loops"),
        (True, None, "yes"),
        ("none", None, "none"),
        (0.0042, "s", "4.20 ms"),
    ],
)
def test_values_as_people_read_them(value, unit, expected):
    assert format_value(value, unit) == expected


def test_durations():
    texts = [format_duration(seconds) for seconds in (0, 2e-6, 1, 90, 120, 3600, 86400, 200000)]
    assert texts == ["0.0 s", "2.00 us", "1.0 s", "90.0 s", "2.0 min", "1.0 h", "1.0 d", "2.3 d"]


def test_a_score_is_no_share_of_anything() -> None:
    (kind,) = {sample.unit for sample in (Sample("score", 797.04, 0),)}
    assert format_value(797.04, kind) == "797.04"
    assert format_value(36850.37, kind) == "36,850.37"
    assert format_value(0.884, METRIC_UNITS["accelerator_utilization"]) == "88.4 %"
    dimensionless = {metric for metric, unit in METRIC_UNITS.items() if unit == "1"}
    assert dimensionless == {"accelerator_utilization"}, "shown as per cent: only shares"


@pytest.mark.parametrize(
    ("text", "zone", "first", "last"),
    [
        ("2026-10-15", "UTC", "2026-10-15T00:00", "2026-10-16T00:00"),
        (" 2026-10-15 ", "Europe/Zurich", "2026-10-14T22:00", "2026-10-15T22:00"),
        ("20261015", "UTC", "2026-10-15T00:00", "2026-10-16T00:00"),
        # 25 and 23 hours: summer time ends, and begins.
        ("2026-10-25", "Europe/Zurich", "2026-10-24T22:00", "2026-10-25T23:00"),
        ("2026-03-29", "Europe/Zurich", "2026-03-28T23:00", "2026-03-29T22:00"),
        ("2026-12-31", "Pacific/Auckland", "2026-12-30T11:00", "2026-12-31T11:00"),
    ],
)
def test_a_date_is_the_whole_day_of_its_zone(text, zone, first, last):
    assert is_date(text)
    assert parse_moment(text, zone) == datetime.fromisoformat(f"{first}+00:00")
    end = parse_moment(text, zone, end=True)
    assert end + timedelta(microseconds=1) == datetime.fromisoformat(f"{last}+00:00")


@pytest.mark.parametrize("text", ["2026-10-15T00:00", "2026-10-15 12:00 +0200", "2026-10-15T03Z"])
def test_a_time_is_a_moment_whichever_end_is_wanted(text):
    assert not is_date(text)
    assert parse_moment(text, "Europe/Zurich") == parse_moment(text, "Europe/Zurich", end=True)


@pytest.mark.parametrize("text", ["9999-12-31", "2026-02-30", "tomorrow", ""])
def test_what_has_no_next_day_or_is_no_day_is_refused(text):
    with raises(UsageError, "time-malformed"):
        parse_moment(text, end=True)
