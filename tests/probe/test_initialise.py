"""`discover` and ``init``: what a person said wrongly, and what a path is part of, are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fake_lustre.install import install
from tests.fake_lustre.state import FakeLustre
from tests.support import loopback
from tests.support.codes import raises
from tests.support.command import trimtab

from trimtab.base.error import ToolError, UsageError
from trimtab.base.filesystem import find_mount, parse_mountinfo
from trimtab.probe.site_draft import Discovery, DraftRequest, discover

pytestmark = pytest.mark.system


@pytest.mark.unit
@pytest.mark.parametrize("name", ["Bad Name", "", "-a", "a" * 65, "a\n", "../x", "\x1b[1m"])
def test_a_bad_name_is_told_as_the_fault_of_its_option(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"^--name: '.*' is not a name$") as caught:
        discover(DraftRequest(str(tmp_path), name=name))
    assert "lower-case letters, digits and, between them, dashes" in (caught.value.hint or "")
    assert caught.value.message.isprintable()


def test_a_good_name_is_taken(tmp_path: Path) -> None:
    assert discover(DraftRequest(str(tmp_path), name="a-1")).site.name == "a-1"


OF_LUSTRE = [
    {"servers": "oss[1-2]"},
    {"ssh": ("ssh", "-F", "x")},
    {"ssh": ("ssh",)},
    {"sudo": True},
    {"user": "root"},
]


@pytest.mark.parametrize("given", OF_LUSTRE)
@pytest.mark.parametrize("driver", [None, "local"])
def test_options_of_lustre_need_lustre(tmp_path: Path, given: dict, driver: str | None) -> None:
    with raises(UsageError, "not-lustre"):
        discover(DraftRequest(str(tmp_path), driver=driver, **given))


def test_with_driver_lustre_they_stay_allowed(tmp_path: Path) -> None:
    mount = tmp_path / "scratch"
    mount.mkdir()
    state = FakeLustre.small(mount=str(mount))
    fake = install(state, tmp_path / "fake")
    ended = trimtab(
        *("init", mount, "--driver", "lustre", "--servers", state.servers[0].name, "--user", "me"),
        *("--ssh", " ".join(fake.ssh), "--sudo", "--json"),
        store=tmp_path / "t.db",
        PATH=fake.path,
    )
    assert ended.code == 0, ended.stderr
    for words in ("sudo = true", 'user = "me"', fake.ssh[0]):
        assert words in ended.document["text"]
    assert any(" is no mount point: it is part of " in one for one in ended.document["not_found"])


def discovered(state: FakeLustre, mount: Path, late: list[str]) -> tuple[Discovery, list[float]]:
    """Discover a pair of servers of which those that are late answer the first question not."""
    deadlines = []

    def reach(nodes: Sequence[str], argv: Sequence[str], **options: Any) -> Any:
        deadlines.append(options["timeout_s"])
        answers = dict(state.fan_out(nodes, argv, **options))
        nothing = {"stdout": b"", "stderr": b"", "exit_code": None, "timed_out": True}
        for node in [name for name in answers if name in late]:
            late.remove(node)
            answers[node] = replace(answers[node], **nothing)
        return answers

    names = ",".join(server.name for server in state.servers)
    wanted = DraftRequest(str(mount), driver="lustre", servers=names)
    return discover(wanted, execute=state.execute, reach=reach), deadlines


def test_a_server_that_is_late_is_asked_again(tmp_path: Path) -> None:
    state = FakeLustre.pair(mount=str(tmp_path))
    at_once, (usual,) = discovered(state, tmp_path, [])
    discovery, deadlines = discovered(state, tmp_path, ["mds1"])
    assert at_once.site.servers.mds == discovery.site.servers.mds == ("mds1", "mds2")
    assert at_once.site.servers.home == discovery.site.servers.home
    assert deadlines[0] == usual < deadlines[1]
    # A watch has to wait for it, too.
    assert discovery.site.servers.timeout_s > at_once.site.servers.timeout_s


def test_without_the_answer_of_a_server_there_is_no_site_file(tmp_path: Path) -> None:
    state = FakeLustre.pair(mount=str(tmp_path))
    with pytest.raises(ToolError, match=r"^mds1 did not answer: ") as caught:
        discovered(state, tmp_path, ["mds1", "mds1"])
    assert caught.value.code == "server-silent"
    assert "it would lack what mds1 serves" in (caught.value.hint or "")


def test_a_directory_that_is_no_mount_point_is_told(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape"))
    mount = find_mount(mounts, str(inside.resolve()))
    assert mount is not None
    told = f"{inside} is no mount point: it is part of {mount.mount_point} ({mount.source})"
    assert told in discover(DraftRequest(str(inside))).not_found
    # The mount itself is one, and so is a link to it.
    (tmp_path / "link").symlink_to(mount.mount_point)
    for path in (mount.mount_point, str(tmp_path / "link")):
        assert not any("no mount point" in one for one in discover(DraftRequest(path)).not_found)


@loopback.needs_loop_devices("ext4")
def test_a_mount_and_a_directory_of_it(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, fs="ext4") as mounted:
        inside = mounted.mount_point / "inside"
        inside.mkdir()
        of_mount, of_inside = (
            [one for one in discover(DraftRequest(str(path))).not_found if "mount point" in one]
            for path in (mounted.mount_point, inside)
        )
    assert of_mount == []
    (told,) = of_inside
    place = f"{mounted.mount_point} (/dev/loop"
    assert told.startswith(f"{inside} is no mount point: it is part of {place}")


def test_init_tells_people(tmp_path: Path) -> None:
    file, store = tmp_path / "here.toml", tmp_path / "t.db"

    def init(*arguments: str):
        return trimtab("init", tmp_path, "--out", file, *arguments, store=store)

    named = init("--name", "Bad Name")
    assert named.code == 2
    assert "--name: 'Bad Name' is not a name" in named.stderr
    assert ":14" not in named.stderr
    assert init("--sudo").code == 2
    for command in ("ssh '", ""):
        assert (ended := init("--driver", "lustre", "--ssh", command)).code == 2
        assert "--ssh: " in ended.stderr
    assert not file.exists()
    first = init("--name", "here")
    assert first.code == 0, first.stderr
    assert "is no mount point: it is part of" in first.stdout
    again = init("--name", "there")
    assert again.code == 4
    assert "--replace" in again.stderr
    assert 'name = "here"' in file.read_text()
    assert init("--name", "there", "--replace").code == 0
    assert 'name = "there"' in file.read_text()
