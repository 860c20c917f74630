"""Months in the time zone of a site, and formats by the file's name."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.codes import raises

from trimtab.answers.month import month_of
from trimtab.answers.page_month import check_out
from trimtab.base.error import UsageError

NOW = datetime(2026, 11, 1, 0, 30, tzinfo=UTC)


def test_a_month_begins_and_ends_in_the_zone_of_its_site() -> None:
    span = month_of("2026-10", "Europe/Zurich", NOW)
    assert (span.first, span.last) == (date(2026, 10, 1), date(2026, 10, 31))
    assert span.since == datetime(2026, 9, 30, 22, tzinfo=UTC)  # summer time
    assert span.until == datetime(2026, 10, 31, 23, tzinfo=UTC) - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("timezone", "first"),
    [("UTC", date(2026, 10, 1)), ("America/New_York", date(2026, 9, 1))],
)
def test_without_a_name_it_is_the_last_one_that_is_over(timezone: str, first: date) -> None:
    assert month_of(None, timezone, NOW).first == first


@pytest.mark.parametrize("name", ["2026-13", "2026-1", "October", "2026-10-01", "0000-10", ""])
def test_what_is_no_month_is_refused(name: str) -> None:
    with raises(UsageError, "month-malformed"):
        month_of(name, "UTC", NOW)


def test_a_month_to_come_is_refused() -> None:
    with raises(UsageError, "month-in-future"):
        month_of("2026-12", "UTC", NOW)


@pytest.mark.system
def test_the_name_decides_the_format(tmp_path: Path) -> None:
    for suffix in (".html", ".md"):
        check_out(tmp_path / f"report{suffix}")
    for name in ("report.docx", "report.pdf"):
        with raises(UsageError, "format-unknown", name):
            check_out(tmp_path / name)
    with raises(UsageError, "directory-missing"):
        check_out(tmp_path / "missing" / "report.md")
