"""Figures and units as they are written, and data sheets of drives: what is read, what refused."""

from __future__ import annotations

import contextlib
import itertools
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab.base.data_sheet import PARTS, ROWS, DataSheet, data_sheet
from trimtab.base.error import UsageError
from trimtab.base.run import METRIC_UNITS, Sample
from trimtab.base.site_hardware import Hardware, Parity, parse_figure, parse_parity
from trimtab.base.snapshot import NotAvailable
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
    parse_unit,
)
from trimtab.reach.path_description import pcie_bytes_per_s
from trimtab.site.site_file import parse_site


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


@for_each(
    "parse, text",
    [
        *itertools.product([parse_bytes, parse_duration], ["", "x", "-1", "inf", "nan", "9" * 400]),
        *itertools.product([parse_bytes], ["1 parsec", "1e6", "0x10", "1.0001", "1..2"]),
        *itertools.product([parse_duration], ["-5s", "5 fortnights"]),
        *itertools.product([parse_fraction], ["", "101%", "1.01", "-1%", "nan", "much"]),
    ],
)
def test_what_is_no_quantity(parse, text):
    with pytest.raises(UsageError):
        parse(text)


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
    kind = Sample("score", 797.04, 0).unit
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


SITE = '[site]\nname = "scratch"\ndriver = "local"\npath = "/scratch"\n[hardware]\n'


@pytest.mark.parametrize(
    ("text", "value", "unit", "least", "most"),
    [
        ("3.2 GB/s", 3.2e9, "B/s", 3.15e9, 3.25e9),
        ("38 GB/s", 38e9, "B/s", 37.5e9, 38.5e9),
        ("148855 MiB/s", 148855 * 2**20, "B/s", 148854.5 * 2**20, 148855.5 * 2**20),
        ("99034 MB/s", 99034e6, "B/s", 99033.5e6, 99034.5e6),
        ("200 Gb/s", 25e9, "B/s", 24.9375e9, 25.0625e9),
        ("9600 kIOPS", 9.6e6, "1/s", 9.5995e6, 9.6005e6),
        ("88.4 %", 0.884, "1", 0.8835, 0.8845),
        ("12", 12, "1", 11.5, 12.5),
        ("2900 s", 2900, "s", 2899.5, 2900.5),
        ("10 to 12 GB/s", 10e9, "B/s", 9.5e9, 12.5e9),
    ],
)
def test_what_is_printed(text: str, value: float, unit: str, least: float, most: float) -> None:
    figure = parse_figure(text)
    assert (figure.value, figure.unit, figure.text) == (value, unit, text)
    assert figure.possible() == pytest.approx((least, most), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("1600", 1550, 1650),
        ("29", 28.5, 29.5),
        ("120", 115, 125),
        ("0", -0.5, 0.5),
        ("97.0 %", 0.9695, 0.9705),  # behind the point it is a digit
    ],
)
def test_zeros_that_only_fill(text: str, least: float, most: float) -> None:
    possible = parse_figure(text).possible(zeros_are_filling=True)
    assert possible == pytest.approx((least, most), rel=1e-12)


def test_a_mebibyte_is_no_megabyte() -> None:
    ratio = parse_figure("1000 MiB/s").value / parse_figure("1000 MB/s").value
    assert ratio == 1.048576
    assert parse_figure("8 Gb/s").value == parse_figure("1 GB/s").value


@pytest.mark.parametrize("text", ["50 +- 5 %", "50+-5%", "50 ± 5 %"])
def test_said_to_be_rounded_more_coarsely(text: str) -> None:
    for filling in (False, True):
        low, high = parse_figure(text).possible(zeros_are_filling=filling)
        assert (low, high) == pytest.approx((0.45, 0.55))


@for_each(
    "text",
    ["", "GB/s", "3,2 GB/s", "9,600", "1.600,5", "-3 GB/s", "3 gb/s", "3 MIB/s", "3 miB/s", "nan",
     "inf", "1e9 B/s", "0x10", "3 GB", "3 GB/s/s", "3 iB/s",
     "12 to 10 GB/s", "3 GB/s to 4 GB/s", "3 to 4 +- 1 GB/s", "3 - 1 GB/s", "3 +- GB/s",
     "1" * 16, "3 GB/s" + " " * 100, "٣ GB/s", "3 kiB/s"],
)  # fmt: skip
def test_what_is_no_figure(text: str) -> None:
    with pytest.raises(UsageError):
        parse_figure(text)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_figure, parse_parity, parse_unit):
        with contextlib.suppress(UsageError):
            parse(text)


@given(st.integers(0, 10**9), st.integers(0, 4))
def test_the_value_lies_where_it_can_be(number: int, decimals: int) -> None:
    figure = parse_figure(f"{number / 10**decimals:.{decimals}f} MB/s")
    for filling in (False, True):
        least, most = figure.possible(zeros_are_filling=filling)
        assert least < figure.value < most


def test_parity() -> None:
    assert parse_parity("8+2") == Parity(8, 2)
    assert parse_parity("8+2+1").written_per_byte == 1.25
    assert parse_parity("1+1").written_per_byte == 2
    assert str(parse_parity("8+2+1")) == "8+2+1"
    for text in ("8", "8-2", "0+2", "8+", "+2", "8+2+1+1", "8 + 2"):
        with pytest.raises(UsageError):
            parse_parity(text)


def test_the_hardware_of_a_site() -> None:
    text = 'drive = "PM1733"\ndrives = 24\nosts = 2\nparity = "8+2"\nnetwork = "50 GB/s"\n'
    parity, network = Parity(8, 2), parse_figure("50 GB/s")
    expected = Hardware(drive="PM1733", drives=24, osts=2, parity=parity, network=network)
    assert parse_site(SITE + text, "x").site.hardware == expected


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('drive_write = "3,2 GB/s"', "malformed-value"),
        ('network = "50"', "malformed-value"),
        ('drive_read_iops = "3 GB/s"', "malformed-value"),
        ('network = "0 GB/s"', "out-of-range"),
        ('network = "10 to 12 GB/s"', "out-of-range"),
        ("drives = 0", "out-of-range"),
        ('parity = "0+2"', "malformed-value"),
        ("drives = 12\nosts = 2\ndrives_per_ost = 12", "counts-contradict"),
        ('drvie = "x"', "unknown-key"),
    ],
)
def test_hardware_that_cannot_be(line: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_site(SITE + line, "x.toml")
    assert caught.value.code == code
    assert "[hardware]" in caught.value.message


MB, TB = 1e6, 10**12


def sheet(model: str, capacity_bytes: int | None = None) -> DataSheet:
    found = data_sheet(model, capacity_bytes)
    assert isinstance(found, DataSheet), found
    return found


@pytest.mark.parametrize(
    ("model", "figures"),
    [
        ("PM1733a", (7500 * MB, 4100 * MB, 1_550_000, 135_000)),
        ("PM1743", (14000 * MB, 6000 * MB, 2_500_000, 300_000)),
    ],
)
def test_the_drives_of_the_sources(model: str, figures: tuple[float, ...]) -> None:
    """Source S5, table 1."""
    found = sheet(model)
    rates = (found.read_bytes_per_s, found.write_bytes_per_s)
    assert (*rates, found.read_iops, found.write_iops) == figures
    assert "source S5" in found.sources[0]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("PM1733a", "PM1733a"),
        ("pm1733A", "PM1733a"),
        ("Samsung 1733a", "PM1733a"),
        ("SAMSUNG MZWLR3T8HBLS-00007", "PM1733"),
        ("SAMSUNG MZWLR15THBLA-00AD3", "PM1733a"),
        ("MZWLO3T8HCLS", "PM1743"),
        ("Samsung SSD PM1743 15.36 TB", "PM1743"),
        ("Micron_9550 MAX 12.8TB", "9550 MAX"),
        ("micron 7450-pro", "7450 PRO"),
        ("Solidigm D7-PS1030", "D7-PS1030"),
        ("PS1030", "D7-PS1030"),
        ("KIOXIA KCM6XRUL15T3", "CM6-R"),
        ("WD Ultrastar DC SN861 7.68TB", "SN861"),
    ],
)
def test_names_as_people_and_tools_write_them(name: str, model: str) -> None:
    assert sheet(name).model == model


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        *(
            (name, "")
            for name in ("", "PM", "PM17", "1733b", "SN840", "x" * 10_000, "MZWLR9T9HXYZ")
        ),
        ("Micron 9550", "9550 MAX and 9550 PRO"),
        ("9550 MAX 1.6TB", "3.2, 6.4, 12.8, 25.6 TB"),
    ],
)
def test_what_is_not_known_is_no_guess(name: str, shows: str) -> None:
    found = data_sheet(name)
    assert isinstance(found, NotAvailable)
    assert len(found.reason) < 250
    assert shows in found.reason


def test_capacity_decides_where_figures_depend_on_it() -> None:
    assert sheet("9550 MAX 3.2TB").write_iops == 540_000
    assert sheet("9550 MAX", 12_801_000_000_000).write_iops == 820_000
    assert sheet("SAMSUNG MZQL23T8HCLS-00A07").write_iops == 180_000
    unsaid, series = sheet("9550 MAX"), sheet("PM9A3 960GB")
    assert (unsaid.read_bytes_per_s, unsaid.write_iops) == (14000 * MB, None)
    assert "depends on the capacity" in (unsaid.note or "")
    assert series.read_bytes_per_s == 6900 * MB  # stands in for a capacity, and says so
    assert "0.96 TB are unknown" in (series.note or "")


@for_each("row", ROWS, ids=lambda row: f"{row.model}{row.capacities_tb}")
def test_rows_are_sourced_and_possible(row) -> None:  # type: ignore[no-untyped-def]
    assert row.sources
    assert all(len(source) > 10 for source in row.sources)
    link = pcie_bytes_per_s(f"{2**row.generation}.0 GT/s PCIe", 4)
    assert link is not None
    for rate in (row.read_mb_per_s, row.write_mb_per_s):
        assert rate is None or 500 < rate <= link / MB
    for rate in (row.read_kiops, row.write_kiops):
        assert rate is None or 10 < rate <= link / 4096 / 1e3
    assert row.writes_per_day is None or 0.1 < row.writes_per_day <= 60


def test_every_part_number_is_of_a_known_model() -> None:
    assert {model for model, _ in PARTS.values()} <= {row.model for row in ROWS}
    assert all(0.1 < capacity < 100 for _, capacity in PARTS.values())
    for part, (model, capacity_tb) in PARTS.items():
        found = data_sheet(f"ANY {part}-00007")
        if isinstance(found, NotAvailable):
            assert f"{capacity_tb:g} TB" in found.reason
        else:
            assert found.model == model


def test_the_page_lists_every_model() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "bring-up.md").read_text()
    listed = "".join(line for line in page.splitlines() if line.startswith("| "))
    assert [row.model for row in ROWS if row.model not in listed] == []
