"""fio on whole devices: what comes back of each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support import loopback

from trimtab.base.run import RunStatus
from trimtab.formats.fio import read
from trimtab.formats.source import OutputFile

MIB = 2**20
COMMAND = (
    *("fio", "--output-format=json+", "--eta=never", "--readonly", "--name=global", "--rw=read"),
    *("--bs=1m", "--direct=1", "--ioengine=libaio", "--iodepth=2", "--numjobs=2"),
    *("--group_reporting=1", "--time_based=1", "--runtime=300ms", "--ramp_time=100ms"),
    "--allow_file_create=0",
)


@pytest.mark.system
@loopback.needs_loop_devices()
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not on PATH")
def test_real_devices(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with (
        loopback.loop_device(16 * MIB, first) as one,
        loopback.loop_device(16 * MIB, second) as other,
    ):
        devices = (str(one.path), str(other.path))
        sections = (
            (f"--name={number}", "--new_group=1", f"--filename={device}")
            for number, device in enumerate(devices)
        )
        argv = (*COMMAND, *(word for section in sections for word in section))
        ran = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    (measurement,) = read(OutputFile("drives.json", ran.stdout))
    assert (measurement.status, ran.returncode) == (RunStatus.OK, 0), ran.stderr
    assert (measurement.reported["tasks"], measurement.requested["transfer_size_bytes"]) == (4, MIB)
    shares = {
        sample.target: sample.value or 0.0
        for sample in measurement.samples
        if sample.metric == "read_bandwidth"
    }
    assert set(shares) == {None, *devices}
    assert shares[None] == pytest.approx(sum(shares[device] for device in devices), rel=0.1)
