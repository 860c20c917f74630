"""Whether reads extend life: declared, and tried with a canary on real mounts."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from tests.support import loopback

from trimtab.base.site import Servers, Site
from trimtab.purge.site_facts import _moved, read_recording
from trimtab.reach.local.local_driver import LocalDriver

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("ext4")]


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory):
    with loopback.mounted(tmp_path_factory.mktemp("reads")) as found:
        yield found.mount_point


def _remount(path: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(path)], check=True)


def _site(path: Path, **others) -> Site:
    return Site("scratch", "local", str(path), **others)


def test_nothing_is_tried_where_nothing_is_declared(mount: Path) -> None:
    before = list(mount.iterdir())
    result = read_recording(_site(mount), LocalDriver(str(mount)), now_s=time.time())
    assert not result.counts
    assert "does not declare" in result.reason
    assert list(mount.iterdir()) == before


@pytest.mark.parametrize("option", ["relatime", "strictatime"])
def test_a_mount_that_records_reads_counts(mount: Path, option: str) -> None:
    _remount(mount, option)
    site = _site(mount, reads_recorded=True)
    assert read_recording(site, LocalDriver(str(mount)), now_s=time.time()).counts
    assert not list(mount.glob(".trimtab-*"))


def test_a_declaration_is_not_believed_on_a_mount_without_atime(mount: Path) -> None:
    _remount(mount, "noatime")
    site = _site(mount, reads_recorded=True)
    result = read_recording(site, LocalDriver(str(mount)), now_s=time.time())
    assert not result.counts
    assert result.unrecorded == ("this host",)
    assert not list(mount.glob(".trimtab-*"))


def test_a_class_that_cannot_be_asked_is_named(mount: Path) -> None:
    _remount(mount, "strictatime")
    site = _site(mount, reads_recorded=True, servers=Servers(clients=("login1",)))
    result = read_recording(site, LocalDriver(str(mount)), now_s=time.time())
    assert not result.counts
    assert result.unchecked == ("login1",)


def test_a_path_that_is_not_there_is_not_checked() -> None:
    site = _site(Path("/nowhere/at/all"), reads_recorded=True)
    result = read_recording(site, LocalDriver("/"), now_s=time.time())
    assert result.unchecked == ("this host",)


def test_an_answer_that_is_no_number_is_none() -> None:
    assert _moved(None, "/x", lambda client, argv: "words", 5) is None
    assert _moved(None, "/x", lambda client, argv: "6\n", 5) is True
    assert _moved(None, "/x", lambda client, argv: "5\n", 5) is False
