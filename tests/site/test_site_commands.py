"""init, site, targets, snapshot and watch, run as a user runs them, on every kind of site."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fake_lustre.install import Installed, install
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support import loopback
from tests.support.codes import raises
from tests.support.command import TRIMTAB, Ended, trimtab
from tests.support.narrow import present

from trimtab.base.error import RefusedError
from trimtab.base.event import utc_now
from trimtab.probe.probe import RunContext
from trimtab.probe.site_probe import SiteProbeRunner
from trimtab.reach.local_driver import LocalDriver
from trimtab.site.site_file import load_site

pytestmark = pytest.mark.system

SHORT = {"duration": '"1s"', "block_size": '"16MiB"', "tasks_per_node": "2", "jitter": '"0s"'}


@dataclass
class Place:
    """A site of a test: where it is mounted, and what commands need to know of it."""

    path: Path
    store: Path
    file: Path
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    fake: Installed | None = None

    def changing(self) -> AbstractContextManager[FakeLustre]:
        """Have the state of the stand-in for Lustre changed inside the block."""
        return present(self.fake).changing()

    def run(self, *arguments: object) -> Ended:
        return trimtab(*arguments, store=self.store, timeout_s=120.0, **self.environment)

    def be_found_by_name(self) -> None:
        """Put the file where site files are looked for by their name."""
        sites = self.file.parent / "sites"
        sites.mkdir()
        shutil.copy(self.file, sites / "here.toml")
        self.environment["TRIMTAB_SITES"] = str(sites)

    def make(self) -> Ended:
        """Write the site file as a user does, then make its probe short."""
        ended = self.run("init", self.path, "--out", self.file, "--name", "here", *self.options)
        if self.file.exists():
            text = self.file.read_text()
            for key, value in SHORT.items():
                text = re.sub(rf"(?m)^(# )?{key} = .*$", f"{key} = {value}", text, count=1)
            text = re.sub(r"(?m)^benchmark = .*$", 'benchmark = "builtin"', text, count=1)
            text = re.sub(r"(?m)^launcher = .*$", 'launcher = "local"', text, count=1)
            self.file.write_text(text)
        return ended


@pytest.fixture
def fake(tmp_path: Path) -> Place:
    mount = tmp_path / "scratch"
    mount.mkdir()
    state = FakeLustre.small(mount=str(mount))
    installed = install(state, tmp_path / "fake")
    ssh = ("--ssh", " ".join(installed.ssh), "--servers", state.servers[0].name)
    options, environment = ("--driver", "lustre", *ssh), {"PATH": installed.path}
    files = tmp_path / "t.db", tmp_path / "here.toml"
    return Place(mount, *files, options=options, environment=environment, fake=installed)


@pytest.fixture(params=["lustre", "ext4", "xfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "lustre":
        yield request.getfixturevalue("fake")
        return
    if reason := loopback.why_no_loop_devices(request.param):
        pytest.skip(reason)
    with loopback.mounted(tmp_path, fs=request.param) as mounted:
        yield Place(mounted.mount_point, tmp_path / "t.db", tmp_path / "here.toml")


def test_check_names_what_targets_names(fake: Place) -> None:
    assert fake.make().code == 0
    with fake.changing() as lustre:
        lustre.target("OST0001").up = False
        lustre.target("OST0000").degraded = True

    listed = fake.run("targets", fake.file, "--json").document["targets"]
    troubles = {(one["name"], trouble["id"]) for one in listed for trouble in one["troubles"]}
    assert {("OST0001", "lost"), ("OST0000", "degraded")} <= troubles

    checked = fake.run("check", fake.file, "--no-probe", "--json")
    assert checked.code == 0, checked.stderr
    findings = {(one["target"], one["id"]) for one in checked.document["findings"]}
    assert {("OST0001", "lost"), ("OST0000", "degraded")} <= findings

    shown = fake.run("check", fake.file, "--no-probe").stdout
    assert "OST0001: lost" in shown
    assert "No misconfiguration" not in shown


def test_a_site_from_its_discovery_to_its_watch(place: Place) -> None:
    made = place.make()
    assert made.code == 0, made.stderr
    assert "here" in made.stdout

    held = place.run("site", place.file, "--validate", "--json")
    assert held.code == 0, held.stdout
    assert all(one["ok"] is not False for one in held.document["checked"])

    seen = place.run("targets", place.file, "--json")
    assert seen.code == 0, seen.stderr
    assert seen.document["complete"] is True
    kinds = {target["kind"] for target in seen.document["targets"]}
    assert kinds == ({"ost", "mdt"} if place.fake else {"file-system"})
    assert all(target["fullness"] is not None for target in seen.document["targets"])

    kept = place.run("snapshot", place.file, "--json")
    assert kept.code == 0, kept.stderr
    at = kept.document["snapshot"]["at"]
    recalled = place.run("targets", place.file, "--at", at, "--json")
    assert recalled.code == 0, recalled.stderr
    assert recalled.document["kept"] is True
    assert recalled.document["targets"] == kept.document["snapshot"]["targets"]
    assert recalled.document["hosts"] == kept.document["snapshot"]["hosts"]

    watched = place.run("watch", place.file, "--once", "--json")
    assert watched.code == 0, watched.stderr
    slots = {slot["item"]: slot for slot in watched.document["slots"]}
    assert set(slots) == {"snapshot", "probe:hourly"}
    assert {slot["state"] for slot in slots.values()} == {"done"}
    probe = slots["probe:hourly"]
    assert probe["before"]
    assert probe["after"]
    assert {verdict["status"] for verdict in probe["verdicts"]} == {"cannot_tell"}
    shown = place.run("show", probe["run"], "--json")
    assert shown.document["run"]["status"] == "ok", shown.stdout
    assert shown.document["run"]["site"] == "here"
    assert [path.name for path in place.path.iterdir() if path.name.startswith(".trimtab")] == []

    again = place.run("watch", place.file, "--once", "--json")
    assert [slot["item"] for slot in again.document["slots"]] == ["snapshot"]
    runs = place.run("runs", "--json").document["runs"]
    assert [run["id"] for run in runs] == [probe["run"]]


def test_tables_are_for_people(place: Place) -> None:
    place.make()
    table = place.run("targets", place.file)
    assert table.code == 0
    assert "TARGET" in table.stdout
    name = place.run("targets", place.file, "--json").document["targets"][0]["name"]
    detail = place.run("targets", place.file, name, "--all")
    assert "Telemetry" in detail.stdout
    assert "Settings" in detail.stdout
    unknown = place.run("targets", place.file, "OST9999")
    assert unknown.code == 2
    assert name in unknown.stderr


def test_a_failing_target_and_a_dead_server_are_told_and_kept(fake: Place) -> None:
    fake.make()
    with fake.changing() as state:
        state.target("OST0001").up = False
    seen = fake.run("targets", fake.file, "--json").document
    worst = seen["targets"][0]
    assert worst["name"] == "OST0001"
    assert worst["troubles"][0]["id"] == "lost"
    with fake.changing() as state:
        state.kill_server(state.servers[0].name)
    kept = fake.run("snapshot", fake.file, "--json")
    assert kept.code == 0, kept.stderr
    snapshot = kept.document["snapshot"]
    assert snapshot["complete"] is False
    (server,) = [host for host in snapshot["hosts"] if host["role"] == "server"]
    assert server["answered"] is False
    assert server["problem"]
    held = fake.run("site", fake.file, "--validate")
    assert held.code == 3
    assert "did not answer" in held.stdout or "no answer" in held.stdout


def test_lfs_that_hangs_costs_its_deadline_and_no_more(fake: Place) -> None:
    fake.make()
    fake.file.write_text(re.sub(r'# timeout = "20s"', 'timeout = "4s"', fake.file.read_text()))
    with fake.changing() as state:
        state.faults.append(Fault("hang", command="lfs", seconds=60))
    ended = fake.run("targets", fake.file, "--json")
    assert ended.code == 0, ended.stderr
    client = next(host for host in ended.document["hosts"] if host["role"] == "client")
    assert "did not answer in" in client["problem"]
    # The server's own count stands in, and says so.
    readings = [each for target in ended.document["targets"] for each in target["readings"]]
    used = [each["source"] for each in readings if each["name"] == "used_bytes"]
    assert all("server's own count" in source for source in used)


def test_init_refuses_to_write_over_a_file(fake: Place) -> None:
    fake.make()
    before = fake.file.read_text()
    again = fake.run("init", fake.path, "--out", fake.file, *fake.options)
    assert again.code == 4
    assert fake.file.read_text() == before


def test_init_writes_no_file_without_a_server_that_does_not_answer(fake: Place) -> None:
    silent = ("--driver", "lustre", "--servers", "nowhere")
    ended = fake.run("init", fake.path, "--out", fake.file, *silent)
    assert ended.code == 3, ended.stderr
    assert "nowhere did not answer" in ended.stderr
    assert not fake.file.exists()


@pytest.mark.parametrize(
    ("words", "shows"),
    [(("init", "--driver", "lustre"), "lfs"), (("watch",), "nothing is scheduled")],
    ids=["what is no Lustre", "a watch of nothing"],
)
def test_wrong_use_of_a_directory(words: tuple[str, ...], shows: str, tmp_path: Path) -> None:
    ended = trimtab(*words, tmp_path, store=tmp_path / "t.db")
    assert ended.code == 2
    assert shows in ended.stderr


def test_a_site_is_found_by_its_name(fake: Place) -> None:
    fake.make()
    fake.be_found_by_name()
    assert fake.run("targets", "here", "--json").document["site"] == "here"
    unknown = fake.run("targets", "there")
    assert unknown.code == 2
    assert "here" in unknown.stderr


def test_a_second_watch_of_a_site_is_refused(fake: Place) -> None:
    fake.make()
    environment = {**os.environ, **fake.environment, "TRIMTAB_STORE": str(fake.store)}
    argv = [str(TRIMTAB), "watch", str(fake.file)]
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) as first:
        try:
            present(first.stderr).readline()
            time.sleep(0.2)
            second = fake.run("watch", fake.file, "--once")
            assert second.code == 4, second.stderr
        finally:
            first.terminate()
        assert first.wait(60) == 130


def test_a_name_that_is_a_directory_too_is_the_site(
    fake: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.make()
    fake.be_found_by_name()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    assert fake.run("targets", "here", "--json").document["driver"] == "lustre"
    assert fake.run("targets", "./here", "--json").document["driver"] == "local"
    watched = fake.run("watch", "here", "--once", "--json")
    assert watched.code == 0, watched.stderr
    assert watched.document["site"] == "here"


def test_what_is_not_lustre_now_is_not_probed_as_lustre(fake: Place) -> None:
    fake.make()
    with fake.changing() as state:
        state.mount = "/elsewhere"  # lfs no longer knows the site's path: the client is unmounted
    ended = fake.run("watch", fake.file, "--once")
    assert ended.code == 3
    assert "which is not Lustre" in ended.stderr
    assert fake.run("site", fake.file, "--validate").code == 3
    assert fake.run("check", fake.file, "--no-probe").code == 3
    assert fake.run("runs", "--json").document["runs"] == []


def test_a_probe_on_another_file_system_than_the_sites_is_refused(tmp_path: Path) -> None:
    if reason := loopback.why_no_loop_devices("ext4"):
        pytest.skip(reason)
    with loopback.mounted(tmp_path, fs="ext4") as mounted:
        place = Place(mounted.mount_point, tmp_path / "t.db", tmp_path / "here.toml")
        place.make()
        site = load_site(place.file).site
        identity = LocalDriver(site.path).description.identity
        assert place.run("watch", place.file, "--once").code == 0
    # Unmounted: the directory is still there, on the disk above.
    mounted.mount_point.mkdir(exist_ok=True)
    runner = SiteProbeRunner(site, utc_now, identity)
    context = RunContext("01a1fac2-4c80-7638-9044-92581e291b40", utc_now(), lambda *_: None)
    with raises(RefusedError, "other-file-system"):
        runner(site.probes[0], context)
    ended = place.run("watch", place.file, "--once")
    assert ended.code == 3
    assert "is stored as" in ended.stderr
    assert place.run("site", place.file, "--validate").code == 3


def test_a_table_of_nothing_is_no_success(fake: Place) -> None:
    fake.make()
    with fake.changing() as state:
        state.kill_server(state.servers[0].name)
        state.faults += [Fault("empty", command="lfs"), Fault("empty", command="lctl")]
    ended = fake.run("targets", fake.file, "--json")
    assert ended.code == 3
    assert ended.document["complete"] is False
    assert fake.run("snapshot", fake.file).code == 3
