"""A report of MLPerf Storage beside its runs, whatever submitters call their directories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.formats.recorded import FIXTURES

from trimtab.probe.imports.import_reading import mains, read_file

RUN = FIXTURES / "mlperf-storage" / "dlio-2.0.0" / "success"
FIGURES = {
    "model": "unet3d",
    "train_num_accelerators": "2",
    "train_throughput_samples_per_second": 10.0,
    "train_throughput_MB_per_second": 1000.0,
}
OVERALL = {
    "train_throughput_mean_samples_per_second": 10.0,
    "train_throughput_mean_MB_per_second": 1000.0,
}


def report(place: Path) -> Path:
    """Return the file of a report that names one run."""
    path = place / "mlperf_storage_report.json"
    path.write_text(json.dumps({"overall": OVERALL, "runs": {"run-1": FIGURES}}))
    return path


@pytest.mark.parametrize("name", ["run-1", "run_1", "run1", "runs/run1", "runs/run-1"])
def test_the_run_counts_and_not_its_report(name: str, tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / name)
    path, summary = report(tmp_path), tmp_path / name / "summary.json"
    reading = read_file(str(path))
    assert reading.source is not None
    assert reading.source.name == str(summary)
    assert [one.name for one in reading.measurements] == [None]
    # Where the run itself is read too, the report adds nothing.
    assert str(summary) in mains(str(path))
    assert read_file(str(path), others={str(summary)}).measurements == ()


@pytest.mark.parametrize("name", ["run-2", "rerun1", "run1/more"])
def test_a_report_without_its_first_run_is_read_itself(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir(parents=True)
    shutil.copy(RUN / "summary.json", tmp_path / name)
    reading = read_file(str(report(tmp_path)))
    assert [one.name for one in reading.measurements] == ["run-1", "overall"]


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\0" * 100, b'{"metric": 1}'])
def test_rubbish_in_the_place_of_a_run_does_not_hide_the_report(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "summary.json").write_bytes(content)
    reading = read_file(str(report(tmp_path)))
    assert [one.name for one in reading.measurements] == ["run-1", "overall"]
