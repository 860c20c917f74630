"""fio on whole devices: what is asked of it, what is refused, and what comes back."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.measure.recorded import FIXTURES
from tests.support import loopback

from trimtab.errors import RefusedError, UsageError
from trimtab.measure.fio import DeviceTest, device_command, device_job_file, read
from trimtab.measure.source import Source
from trimtab.model.run import RunStatus

MIB = 2**20
TWO = DeviceTest(("/dev/nvme0n1", "/dev/nvme1n1"))


def test_the_measurement_of_the_e2000_paper() -> None:
    """Source S5, appendix A, but for how flags are spelt and a group for each drive."""
    test = replace(TWO, engine="posixaio", offset_bytes=2 * 2**40)
    job = configparser.ConfigParser()
    job.read_string(device_job_file(test, "read"))
    given = dict(job["global"])
    assert (given["rw"], given["bs"], given["direct"]) == ("read", str(4 * MIB), "1")
    assert (given["ioengine"], given["iodepth"], given["numjobs"]) == ("posixaio", "64", "16")
    assert (given["group_reporting"], given["time_based"]) == ("1", "1")
    assert (given["runtime"], given["ramp_time"]) == ("60000ms", "5000ms")
    assert given["offset"] == str(2 * 2**40)
    assert [section for section in job.sections() if section != "global"] == ["nvme0n1", "nvme1n1"]
    assert dict(job["nvme1n1"]) == {"new_group": "1", "filename": "/dev/nvme1n1"}


def test_the_command_says_what_the_job_file_says() -> None:
    test = replace(TWO, random=True, transfer_size_bytes=4096, region_bytes=2**30)
    argv = device_command(test, "read", program="/usr/bin/fio")
    assert argv[0] == "/usr/bin/fio"
    assert {"--readonly", "--output-format=json+", "--rw=randread", "--norandommap=1"} <= set(argv)
    of_file = [
        f"--name={line[1:-1]}" if line.startswith("[") else f"--{line}"
        for line in device_job_file(test, "read").splitlines()
        if line
    ]
    assert list(argv[argv.index("--name=global") :]) == of_file
    assert argv.count("--allow_file_create=0") == 1


def test_a_fixture_is_of_this_very_command() -> None:
    test = replace(
        TWO,
        transfer_size_bytes=MIB,
        queue_depth=4,
        tasks_per_device=2,
        duration_s=1.0,
        ramp_s=0.5,
    )
    recorded = (FIXTURES / "fio" / "3.33" / "drives.cmd").read_text().split()
    assert list(device_command(test, "read", program="fio")) == recorded


def test_writing_must_be_asked_for_by_name() -> None:
    for make in (
        lambda **more: device_command(TWO, "write", program="fio", **more),
        lambda **more: device_job_file(TWO, "write", **more),
    ):
        with pytest.raises(RefusedError, match="/dev/nvme0n1, /dev/nvme1n1") as caught:
            make()
        assert caught.value.code == "device-write-refused"
        assert make(destroy=True)
    argv = device_command(TWO, "write", program="fio", destroy=True)
    assert "--readonly" not in argv
    assert "--rw=write" in argv


def test_reading_never_opens_for_writing() -> None:
    for random in (False, True):
        argv = device_command(replace(TWO, random=random), "read", program="fio", destroy=True)
        assert "--readonly" in argv
        assert not any("write" in word for word in argv)


@pytest.mark.parametrize(
    "devices",
    [
        (),
        ("nvme0n1",),
        ("/tmp/x",),
        ("/dev/../etc/passwd",),
        ("/dev/a:/dev/b",),
        ("/dev/nvme0n1\nfilename=/dev/sda",),
        ("/dev/$HOME",),
        ("/dev/nvme0n1 --rw=write",),
        ("/dev/nvme0n1,",),
        ("/dev/nvme0n1", "/dev/nvme0n1"),
    ],
)
def test_names_that_are_no_devices(devices: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        device_command(DeviceTest(devices), "read", program="fio")


@pytest.mark.parametrize(
    "change",
    [
        {"transfer_size_bytes": 0},
        {"transfer_size_bytes": 1000},
        {"queue_depth": 0},
        {"tasks_per_device": -1},
        {"duration_s": 0.0},
        {"ramp_s": -1.0},
        {"offset_bytes": 100},
        {"offset_bytes": -512},
        {"region_bytes": 100},
        {"engine": "mmap"},
    ],
)
def test_sizes_that_do_not_fit(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        device_command(replace(TWO, **change), "read", program="fio")  # type: ignore[arg-type]


@given(st.text(max_size=30))
def test_no_name_becomes_an_option(name: str) -> None:
    try:
        argv = device_command(DeviceTest((f"/dev/{name}",)), "read", program="fio")
    except UsageError:
        return
    assert argv[-1] == f"--filename=/dev/{name}"
    assert not set(" \n:$") & set(name)


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
        test = DeviceTest(
            (str(one.path), str(other.path)),
            transfer_size_bytes=MIB,
            queue_depth=2,
            tasks_per_device=2,
            duration_s=0.3,
            ramp_s=0.1,
        )
        ran = subprocess.run(
            device_command(test, "read", program=shutil.which("fio") or "fio"),
            capture_output=True,
            timeout=60,
            check=False,
        )
    (measurement,) = read(Source("drives.json", ran.stdout))
    assert (measurement.status, ran.returncode) == (RunStatus.OK, 0), ran.stderr
    assert measurement.reported["tasks"] == 4
    assert measurement.requested["transfer_size_bytes"] == MIB
    shares = {
        sample.target: sample.value or 0.0
        for sample in measurement.samples
        if sample.metric == "read_bandwidth"
    }
    assert set(shares) == {None, *test.devices}
    assert shares[None] == pytest.approx(sum(shares[device] for device in test.devices), rel=0.1)
