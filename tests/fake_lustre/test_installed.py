"""The programs on disk answer as the fake in this process does; real processes, real hangs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fake_lustre.install import Installed
from tests.fake_lustre.machine import UNNAMED
from tests.fake_lustre.state import FakeLustre, Fault

from trimtab.base.action import Outcome
from trimtab.base.site import Servers, Ssh
from trimtab.reach import fleet
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import program
from trimtab.reach.lustre.server_write import ServerWriter
from trimtab.reach.process import execute

pytestmark = pytest.mark.system

REQUEST = {
    **server_request(deadline_s=20, sudo=None),
    "links": ["/sys/class/block/*/device"],
    "directories": ["/dev", "/proc/fs/ldiskfs", "/nowhere"],
}
REQUEST["files"] = [*REQUEST["files"], "/proc/fs/ldiskfs/*/mb_groups", "/etc/passwd"]
PROGRAM = program(REQUEST)


def ssh(
    installed: Installed, host: str, command: Sequence[str], *, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Return how a command ended on a server."""
    argv = [*installed.ssh, "-oBatchMode=yes", "-o", "ConnectTimeout=5", "-T", f"root@{host}"]
    return subprocess.run([*argv, *command], input=stdin, capture_output=True, check=False)


def of_any_machine(line: bytes) -> dict[str, Any]:
    """Return an answer without what differs between this process and another."""
    answer = json.loads(line)
    for name in ("host", "started", "elapsed_s", "euid"):
        del answer[name]
    for command in answer["commands"]:
        del command["elapsed_s"]
    table = answer["files"]["/proc/self/mountinfo"]  # whose lines a kernel numbers as it likes
    answer["files"]["/proc/self/mountinfo"] = re.sub("^[0-9]+", "N", table, flags=re.MULTILINE)
    devices = answer["directories"]["/dev"]
    answer["directories"]["/dev"] = [name for name in devices if name not in UNNAMED]
    return answer


@pytest.mark.parametrize("make", ["small", "pair"])
def test_the_collector_says_the_same_of_the_trees_on_disk(make: str, tmp_path: Path) -> None:
    """The real fan-out reaches every server through the stand-in for ssh."""
    state: FakeLustre = getattr(FakeLustre, make)()
    if make == "pair":
        state.kill_server("oss3")
    installed = state.install(tmp_path)
    nodes, argv = [server.name for server in state.servers], ["python3", "-I", "-S", "-"]
    there = fleet.fan_out(nodes, argv, ssh=Ssh(installed.ssh), timeout_s=60, stdin=PROGRAM)
    here = state.fan_out(nodes, argv, ssh=Ssh(), timeout_s=60, stdin=PROGRAM)
    for node in nodes:
        assert there[node].exit_code == here[node].exit_code == (255 if node == "oss3" else 0)
        assert there[node].stderr == here[node].stderr
        if node != "oss3":
            found = of_any_machine(there[node].stdout)
            assert of_any_machine(here[node].stdout) == found
            assert len(found["files"]) > 90
            assert [why for path, why in found["skipped"] if "mb_groups" in path]


@pytest.mark.parametrize("version", ["2.15.4", "2.17.57"])
def test_the_writing_program_meets_mounts_devices_files_and_a_log(
    version: str, tmp_path: Path
) -> None:
    installed = FakeLustre.pair(lustre_version=version).install(tmp_path)
    servers = Servers(oss=("oss1",), ssh=Ssh(installed.ssh), timeout_s=60)
    place = {"service": "scratch-OST0000"}
    with installed.changing() as state:
        device = state.target("OST0000").device
    write = {"do": "set", "row": "queue/nr_requests", "fields": {"device": device}, "place": place}
    write |= {"before": "256", "value": "64"}
    elsewhere = {**write, "place": {"service": "scratch-OST0002"}}
    asked = [write, {"do": "trim", "place": place}, elsewhere]
    writer = ServerWriter(servers, "scratch", 7, "root@test")
    told = [(one.outcome, one.detail.code) for one in writer.act("oss1", asked, go_on=True)]
    assert told == [*[(Outcome.DONE, "done")] * 2, (Outcome.SKIPPED, "target-not-here")]
    with installed.changing() as state:
        (server,) = (one for one in state.servers if one.name == "oss1")
        steps = [line.split(": ")[1].split()[0] for line in server.log]
        assert steps == ["begun", "done", "begun", "done"]
        assert list(server.kept.items()) == [("scratch.token", "7\n")]
        assert state.target("OST0000").untrimmed_bytes == 0
        (path,) = server.files
        assert (path.endswith("/queue/nr_requests"), server.files[path]) == (True, "64\n")


def test_what_is_set_by_one_program_is_seen_by_the_next(tmp_path: Path) -> None:
    installed = FakeLustre.pair().install(tmp_path)
    name = "osp.scratch-OST0003-osc-MDT0001.max_create_count"
    set_it = ssh(installed, "mds2", ["lctl", "set_param", f"{name}=0"])
    assert set_it.stdout == f"{name}=0\n".encode()
    assert ssh(installed, "mds2", ["lctl", "get_param", "-n", name]).stdout == b"0\n"
    missing = ssh(installed, "mds1", ["lctl", "get_param", name])
    assert (missing.returncode, missing.stdout) == (2, b"")
    with installed.changing() as state:
        state.fail_over("OST0003")
    files = tmp_path / "servers"
    for host, there in (("oss2", False), ("oss1", True)):
        device = ssh(installed, host, ["lctl", "dl"]).stdout
        assert (b"obdfilter scratch-OST0003 " in device) == there
        assert (files / host / "sys/class/block/md4").exists() == there


def test_programs_at_the_same_time_lose_nothing_of_one_another(tmp_path: Path) -> None:
    installed = FakeLustre.pair().install(tmp_path)
    names = [f"obdfilter.scratch-OST000{n}.degraded" for n in range(8)]
    running = [
        subprocess.Popen(
            [*installed.ssh, f"oss{n // 2 + 1}", "lctl", "set_param", f"{name}=1"],
            stdout=subprocess.DEVNULL,
        )
        for n, name in enumerate(names)
    ]
    assert [one.wait(timeout=60) for one in running] == [0] * 8
    with installed.changing() as state:
        assert [one.degraded for one in state.osts] == [True] * 8


def test_ssh_fails_as_ssh_does(tmp_path: Path) -> None:
    faults = [Fault("die", command="ssh", host="oss2", bytes=7)]
    state = FakeLustre.pair(faults=faults)
    state.kill_server("oss1")
    installed = state.install(tmp_path)
    dead, unknown = ssh(installed, "oss1", ["lctl", "dl"]), ssh(installed, "oss9", ["lctl", "dl"])
    assert (dead.returncode, unknown.returncode) == (255, 255)
    assert b"No route to host" in dead.stderr
    assert b"Could not resolve hostname" in unknown.stderr
    assert b"obdfilter" in ssh(installed, "10.1.1.4", ["lctl", "dl"]).stdout
    dying = ssh(installed, "oss2", ["lctl", "dl"])
    assert (dying.returncode, len(dying.stdout)) == (255, 7)
    assert b"No route to host" in ssh(installed, "oss2", ["lctl", "dl"]).stderr


def test_a_hang_is_a_hang_that_takes_no_notice_of_sigterm(tmp_path: Path) -> None:
    state = FakeLustre.small(faults=[Fault("hang", command="lfs", lines=2)])
    installed = state.install(tmp_path)
    run = execute([str(installed.bin / "lfs"), "osts"], timeout_s=1.5, grace_s=0.2)
    assert (run.timed_out, run.signal) == (True, 9)
    assert run.stdout == b"OBDS:\n0: scratch-OST0000_UUID ACTIVE\n"


def test_programs_start_without_site_packages(tmp_path: Path) -> None:
    installed = FakeLustre.small().install(tmp_path)
    assert (installed.bin / "lfs").read_text().startswith(f"#!{sys.executable} -IS\n")
    environment = {"PATH": installed.path}
    run = subprocess.run(["lfs", "df"], env=environment, capture_output=True, check=True)
    assert run.stdout.decode() == FakeLustre.small().lfs(["df"]).stdout
