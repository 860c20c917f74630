"""The report of a check never takes the place of a better one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.show.conftest import run, samples

from trimtab.reach.report_file import report_of

REPORT = Path("/reports/scratch-0123.html")


def test_a_check_that_measured_nothing_keeps_the_report_of_one_that_did() -> None:
    measured = replace(run(), samples=samples())
    doubted = replace(
        measured, samples=tuple(replace(sample, reason="too short") for sample in samples())
    )
    assert report_of(REPORT, measured) == REPORT
    assert report_of(REPORT, None, named=True) == REPORT  # there is none to lose
    for other in (None, doubted, replace(measured, samples=())):
        assert report_of(REPORT, other) == REPORT.with_name("scratch-0123-inspection.html")


def test_a_report_that_a_person_named_is_not_lost_either(tmp_path: Path) -> None:
    report = tmp_path / "mine.html"
    report.write_text("of a check that measured")
    assert report_of(report, None, named=True) == report.with_name("mine-inspection.html")
    assert report_of(report, replace(run(), samples=samples()), named=True) == report
