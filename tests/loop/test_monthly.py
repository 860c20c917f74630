"""Months in the time zone of a site, formats by the file's name, and paper by a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.browser import USER, has_sandbox, ordinary
from tests.support.codes import raises

from trimtab.errors import RefusedError, ToolError, UsageError
from trimtab.launch.process import ProcessResult, execute
from trimtab.loop import monthly
from trimtab.loop.monthly import check_out, month_of, printed

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
    with raises(UsageError, "format-unknown"):
        check_out(tmp_path / "report.docx")
    with raises(UsageError, "directory-missing"):
        check_out(tmp_path / "missing" / "report.md")


@pytest.mark.system
def test_without_a_browser_a_pdf_is_refused_before_anything_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(monthly, "BROWSERS", ("no-such-browser",))
    with raises(ToolError, "browser-missing"):
        check_out(tmp_path / "report.pdf")


@pytest.mark.system
def test_root_runs_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(monthly, "execute", lambda *_, **__: pytest.fail("it was run"))
    with raises(RefusedError, "browser-as-root"):
        check_out(tmp_path / "report.pdf")
    with raises(RefusedError, "browser-as-root"):
        printed("<!DOCTYPE html>")


@pytest.mark.system
def test_a_browser_prints_the_page_in_its_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an ordinary user; where chromium can have no sandbox, it prints nothing."""
    words, sandbox = ordinary(), has_sandbox()

    def as_ordinary(argv: Sequence[str], *, timeout_s: float, directory: str) -> ProcessResult:
        assert "--no-sandbox" not in argv
        for path in (Path(directory), *Path(directory).iterdir()) if words else ():
            shutil.chown(path, USER)
        return execute(
            (*words, *argv), timeout_s=timeout_s, directory=directory,
            environment={"HOME": directory},
        )  # fmt: skip

    monkeypatch.setattr(monthly, "execute", as_ordinary)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if sandbox:
        assert printed("<!DOCTYPE html><p>one sheet")[:5] == b"%PDF-"
    else:
        with raises(ToolError, "pdf-not-written"):
            printed("<!DOCTYPE html><p>one sheet")
