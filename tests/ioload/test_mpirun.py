"""Real processes under a real launcher."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="mpirun is missing (Debian: openmpi-bin)"
)


def mpirun(program: str, directory: Path, *arguments: str) -> list[str]:
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    # A stopped mpirun gives its ranks 1 s to clean up before it kills them: too little on a
    # busy machine, where the time would decide the test.
    launch += ["--mca", "odls_base_sigkill_timeout", "5"]
    return [*launch, program, "--dir", str(directory), "--run-id", "test", *arguments]


@pytest.mark.system
def test_two_ranks_make_one_report(program: str, tmp_path: Path) -> None:
    sizes = ["--tasks", "2", "--transfer-size", "64KiB", "--block-size", "1MiB"]
    phases = ["--write", "--read", "--verify", "--reorder", "2", "--fsync"]
    command = mpirun(program, tmp_path, *phases, *sizes)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["ranks"], report["tasks"], report["clock"]) == (2, 4, "monotonic")
    for phase in report["phases"]:
        assert phase["bytes"] == 4 * 1024**2
        assert [task["rank"] for task in phase["per_task"]] == [0, 0, 1, 1]
    verified = {"checked_bytes": 4 * 1024**2, "mismatches": 0, "first_mismatch": None}
    assert report["phases"][1]["verify"] == verified
    # With a shift of one rank's tasks each rank reads what the other wrote.
    assert report["phases"][1]["per_task"][0]["path"] == str(tmp_path / "ioload.00000002")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_without_a_run_id_the_message_says_what_is_missing(program: str, tmp_path: Path) -> None:
    words = mpirun(program, tmp_path, "--write")
    command = [word for word in words if word not in {"--run-id", "test"}]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert "--run-id is needed" in done.stderr


@pytest.mark.system
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_mpirun_leaves_no_file(
    program: str, tmp_path: Path, ending: signal.Signals
) -> None:
    duration = ["--deadline", "60", "--minimum-duration", "60", "--block-size", "1MiB"]
    command = mpirun(program, tmp_path, "--write", "--keep", *duration)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (tmp_path / "ioload.00000001").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(ending)
        assert process.wait(60) != 0
    # mpirun may be gone a moment before its children.
    for _ in range(500):
        if not list(tmp_path.iterdir()):
            break
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []
