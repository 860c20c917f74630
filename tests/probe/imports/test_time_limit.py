"""A run that its batch system cut off at the time limit did not finish, as in the watch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.formats.recorded import FIXTURES

from trimtab.base.run import RunStatus
from trimtab.probe.imports.import_reading import read_file
from trimtab.probe.imports.import_result import ImportTerms
from trimtab.probe.imports.importer import import_files
from trimtab.store.store import Store

pytestmark = pytest.mark.cli

LIMITS = (
    "slurmstepd: error: *** JOB 812 ON nid001 CANCELLED AT 2026-03-02T10:30:12 DUE TO TIME LIMIT"
    " ***",
    "=>> PBS: job killed: walltime 1843 exceeded limit 1800",
    "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
)
WHOLE = FIXTURES / "ior" / "4.0.0" / "text-shared.out"


def cut(tmp_path: Path, line: str, *, before: str = "read        11063") -> Path:
    text = WHOLE.read_text().replace("Nov 21", "Nov 22")
    path = tmp_path / "job.out"
    path.write_text(f"{text[: text.index(before)]}\n{line}\n")
    return path


@pytest.mark.parametrize("line", LIMITS)
def test_a_run_cut_off_by_its_time_limit_is_unfinished(tmp_path: Path, line: str) -> None:
    (measurement,) = read_file(str(cut(tmp_path, line))).measurements
    assert measurement.status is RunStatus.UNFINISHED
    assert "time limit before it finished" in measurement.problems[0]


def test_it_counts_as_nothing_in_its_series(tmp_path: Path) -> None:
    whole = tmp_path / "whole.out"
    whole.write_bytes(WHOLE.read_bytes())
    with Store.open(tmp_path / "store" / "t.db") as store:
        terms = ImportTerms(site="s", timezone="UTC")
        tuple(import_files([str(whole), str(cut(tmp_path, LIMITS[0]))], terms, store))
        (series,) = store.series("s")
        points = store.history("s", series.comparability, metric="write_bandwidth")
    assert [point.unfinished for point in points] == [False, True]
    assert points[1].value == 0.0


@pytest.mark.parametrize("name", ["text-shared", "odd-sizes", "random"])
def test_it_is_of_the_series_of_those_that_ended(tmp_path: Path, name: str) -> None:
    """Without results nothing but the command line tells the block size exactly."""
    text = WHOLE.with_name(f"{name}.out").read_text()
    whole, ended = tmp_path / "whole.out", tmp_path / "cut.out"
    whole.write_text(text)
    later = text.replace("Nov 21", "Nov 22").replace(" 4 MiB", " 4.00 MiB")
    options = later[: later.index("\nwrite ")]
    ended.write_text(f"{options}\n{LIMITS[0]}\n")
    with Store.open(tmp_path / "store" / "t.db") as store:
        tuple(import_files([str(whole), str(ended)], ImportTerms(site="s", timezone="UTC"), store))
        assert [series.runs for series in store.series("s")] == [2]


def test_what_ended_otherwise_is_not_unfinished(tmp_path: Path) -> None:
    (killed,) = read_file(
        str(cut(tmp_path, "slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2026-03-02 ***"))
    ).measurements
    assert killed.status is not RunStatus.UNFINISHED
    whole = tmp_path / "job.out"
    whole.write_text(f"{WHOLE.read_text()}\n{LIMITS[0]}\n")
    (finished,) = read_file(str(whole)).measurements
    assert finished.status is RunStatus.OK
