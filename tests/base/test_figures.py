"""Figures as they are printed: their value, and what their rounding leaves open."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each

from trimtab.base.error import UsageError
from trimtab.base.site_hardware import Hardware, Parity, parse_figure, parse_parity
from trimtab.base.units import parse_unit
from trimtab.site.site_file import parse_site

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
    [("1600", 1550, 1650), ("29", 28.5, 29.5), ("120", 115, 125), ("0", -0.5, 0.5)],
)
def test_zeros_that_only_fill(text: str, least: float, most: float) -> None:
    assert parse_figure(text).possible(zeros_are_filling=True) == (least, most)


def test_a_zero_behind_the_point_is_a_digit() -> None:
    assert parse_figure("97.0 %").possible(zeros_are_filling=True) == pytest.approx(
        (0.9695, 0.9705)
    )


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
    assert parse_site(SITE + text, "x").site.hardware == Hardware(
        drive="PM1733",
        drives=24,
        osts=2,
        parity=Parity(8, 2),
        network=parse_figure("50 GB/s"),
    )


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
