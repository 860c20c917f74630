"""From probes to the ladder, with real programs: fio on a device, Open MPI, Slurm.

The rates are those of this machine and mean nothing: what is held is that each layer is measured by
what it names, kept, and found again by the ladder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support import loopback
from tests.support.command import trimtab
from tests.support.slurm import Cluster

SITE = """\
[site]
name = "layers"
driver = "local"
path = "{path}"

[hardware]
drives = 1
drive_read = "1000 MB/s"
osts = 1
oss = 1
parity = "none"

[probe.on-this-host]
benchmark = "builtin"
launcher = "mpi"
tasks_per_node = 2
block_size = "32MiB"
duration = "5s"

[probe.as-a-job]
benchmark = "builtin"
launcher = "queue"
nodes = 2
tasks_per_node = 2
block_size = "32MiB"
duration = "5s"
drop_caches = true

[launcher.queue]
kind = "slurm"
options = {{ partition = "main" }}
"""


@pytest.fixture
def mount(tmp_path: Path):
    with loopback.mounted(tmp_path, fs="ext4", size_bytes=2**30, direct_io=True) as mounted:
        yield mounted


@pytest.fixture
def site(tmp_path: Path, mount: loopback.Mounted) -> Path:
    path = tmp_path / "layers.toml"
    path.write_text(SITE.format(path=mount.mount_point))
    return path


def run_of(document: dict[str, Any]) -> dict[str, Any]:
    (run,) = document["runs"]
    return run


def typed(store: Path, *words: object) -> dict[str, Any]:
    """Return the document of a command that succeeded."""
    ended = trimtab(*words, "--json", store=store)
    assert ended.code == 0, ended.stderr
    return ended.document


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_from_drive_to_job(
    tmp_path: Path, site: Path, mount: loopback.Mounted, slurm: Cluster
) -> None:
    for program in ("fio", "mpirun"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on PATH")
    store, output = tmp_path / "t.db", tmp_path / "drive.json"

    # The drive, by fio on the block device beneath: reading destroys nothing.
    argv = (
        *("fio", "--output-format=json+", "--eta=never", "--readonly", "--name=drive", "--rw=read"),
        *("--bs=4m", "--direct=1", "--ioengine=libaio", "--iodepth=4", "--allow_file_create=0"),
        *("--time_based=1", "--runtime=5s", "--size=256m", f"--filename={mount.device.path}"),
    )
    output.write_bytes(subprocess.run(argv, check=True, capture_output=True, timeout=120).stdout)
    (file,) = typed(store, "import", output, "--site", site, "--layer", "drive")["files"]
    assert (file["kind"], file["status"]) == ("fio", "ok")

    # The client, by an MPI job on this host, and by a job of two nodes.
    local = run_of(typed(store, "probe", "on-this-host", "--site", site))["parameters"]
    assert local["job"]["launcher"] == "mpi"
    job = run_of(typed(store, "probe", "as-a-job", "--site", site))["parameters"]
    assert (job["job"]["launcher"], job["job"]["nodes"]) == ("slurm", ["n1", "n2"])
    assert job["job"]["started_at"] >= job["job"]["submitted_at"]
    assert [phase["tasks"] for phase in job["phases"]] == [4, 4]
    assert job["spec"]["nodes"] == 2
    written = job["cost"]["bytes_written"]
    assert written == job["phases"][0]["moved_bytes"] > 0
    assert job["cost"]["node_hours"] > 0
    assert {path.name for path in mount.mount_point.iterdir()} <= {"lost+found"}

    # The ladder finds them, and says what is missing.
    ladder = typed(store, "ladder", site)
    rungs = [(track["metric"], step) for track in ladder["tracks"] for step in track["rungs"]]
    steps = {(metric, step["layer"]): step for metric, step in rungs}
    drive, client = steps["read_bandwidth", "drive"], steps["read_bandwidth", "client"]
    for figure in (drive["rate"], client["rate"], drive["of_data_sheet"]):
        assert figure["value"] > 0, json.dumps(ladder)
    missing = [one for one in ladder["absent"] if one["layer"] == "drive"]
    assert "write_bandwidth" in missing[0]["metrics"]
    assert missing[0]["hint"]

    (cost,) = typed(store, "status", site)["costs"]
    assert cost["runs"] == 2
    assert cost["bytes_written"] > written
    assert cost["drive_writes_per_day"] > 0


@pytest.mark.system
@loopback.needs_loop_devices("ext4")
def test_a_job_that_never_starts_is_missing(tmp_path: Path, site: Path, slurm: Cluster) -> None:
    text = site.read_text().replace("nodes = 2\n", 'nodes = 40\npending = "3s"\n')
    site.write_text(text.replace("32MiB", "1MiB"))
    ended = trimtab(*("probe", "as-a-job", "--site", site, "--json"), store=tmp_path / "t.db")
    assert ended.code == 3, ended.stderr
    run = run_of(ended.document)
    assert (run["status"], run["samples"]) == ("not_started", [])
    assert slurm.queue() == []
