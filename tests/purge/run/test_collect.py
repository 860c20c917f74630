"""The facts of this machine, on real files; what is wrong with them is a fact too."""

import os
import signal
import stat
import subprocess
import time

import pytest
from tests.support import loopback
from tests.support.children import begun, code_of_child
from tests.support.narrow import present

from trimtab.base.error import Interrupted, code_of
from trimtab.base.filesystem import parse_mountinfo
from trimtab.base.interruption import interruptible
from trimtab.purge import root_facts as collect
from trimtab.purge.root_facts import (
    allow_list,
    atime_settings,
    canary,
    journal_trouble,
    kill_switch,
    root_facts,
    usage,
)
from trimtab.purge.run.situation import SWITCH_UNREADABLE, SWITCH_WITHOUT_DIRECTORY, AllowList

OWNER = os.geteuid()


def mount_line(point="/scratch", options="rw,relatime", kind="ext4", source="/dev/md0"):
    return f"36 35 8:1 / {point} {options} shared:1 - {kind} {source} rw,errors=remount-ro\n"


def test_the_allow_list_has_one_root_a_line(tmp_path):
    path = tmp_path / "roots"
    path.write_bytes(b"# may be purged\n/scratch\n  /pscratch \n\n/a b\xff\n")
    path.chmod(0o644)
    roots = frozenset({b"/scratch", b"/pscratch", b"/a b\xff"})
    assert allow_list(path, owner=OWNER) == AllowList(None, roots)


def test_an_allow_list_that_others_can_change_allows_nothing(tmp_path):
    path, link, pipe = (tmp_path / name for name in ("roots", "link", "pipe"))

    def trouble(path, owner=OWNER):
        found = allow_list(path, owner=owner)
        assert not found.roots
        return present(found.trouble)

    assert "cannot be read" in trouble(path)
    path.write_text("/scratch\n")
    path.chmod(0o646)
    assert "only user" in trouble(path)
    path.chmod(0o644)
    assert trouble(path, owner=OWNER + 1)
    link.symlink_to(path)
    assert trouble(link)
    os.mkfifo(pipe)
    assert "is not a file" in trouble(pipe)
    tmp_path.chmod(0o777)
    assert trouble(path)


def test_an_allow_list_of_many_megabytes_is_none(tmp_path):
    path = tmp_path / "roots"
    path.write_bytes(b"/x\n" * 10**6)
    assert "too large" in (allow_list(path, owner=OWNER).trouble or "")


def test_the_kill_switch_is_a_file_that_is_there(tmp_path):
    path = tmp_path / "stop"
    assert kill_switch(path) is None
    path.touch()
    assert "is pulled" in (kill_switch(path) or "")
    path.unlink()
    path.symlink_to("/nowhere")
    assert "is pulled" in (kill_switch(path) or "")
    # Nobody could pull it there, or see it: that stops a run too.
    missing = kill_switch(tmp_path / "none" / "stop")
    assert code_of(missing) == SWITCH_WITHOUT_DIRECTORY
    assert f"{tmp_path}/none is missing" in str(missing)
    (tmp_path / "file").touch()
    assert code_of(kill_switch(tmp_path / "file" / "stop")) == SWITCH_UNREADABLE


def test_a_root_is_what_is_mounted_at_a_path_without_links(tmp_path):
    result = root_facts(str(tmp_path))
    assert (result.trouble, result.read_only) == (None, False)
    state, system = tmp_path.stat(), present(result.file_system)
    assert (system.device, system.root_inode) == (state.st_dev, state.st_ino)
    assert system.is_same(system)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    for path in (tmp_path / "link", tmp_path / "file", tmp_path / "none", "relative", ""):
        assert root_facts(str(path)).trouble is not None
    assert "no mount" in (root_facts(str(tmp_path), mountinfo="rubbish\n").trouble or "")


def test_a_lustre_is_named_without_its_servers_and_beneath_which_directory(tmp_path):
    for source in ("mgs1@tcp:mgs2@tcp:/scratch", "mgs@o2ib:/scratch/sub"):
        text = mount_line("/", kind="lustre", source=source)
        system = present(root_facts(str(tmp_path), mountinfo=text).file_system)
        assert (system.kind, system.name) == ("lustre", "scratch")


def test_a_mount_that_takes_no_writes_is_told(tmp_path):
    result = root_facts(str(tmp_path), mountinfo=mount_line("/", "ro,noatime"))
    assert (result.read_only, result.atime_settings) == (True, {"mount options": "noatime"})


def test_how_reads_are_recorded():
    def settings(options):
        (mount,) = parse_mountinfo(mount_line(options=options))
        return atime_settings(mount)["mount options"]

    assert settings("rw") == "strictatime"
    assert settings("rw,relatime") == "relatime"
    assert settings("rw,lazytime,noatime") == "noatime lazytime"


def test_use_is_that_of_df(tmp_path):
    result = usage(str(tmp_path))
    system = os.statvfs(tmp_path)
    assert result.used_bytes + result.available_bytes <= system.f_blocks * system.f_frsize
    assert 0 < result.fullness < 1


def test_a_journal_beneath_the_root_would_purge_itself(tmp_path):
    (tmp_path / "top" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "top" / "deep")
    root = str(tmp_path / "top")
    for path in ("top", "top/deep", "top/none/yet", "link", "link/none", "other/../top/deep"):
        assert "beneath the purged root" in (journal_trouble(tmp_path / path, root) or ""), path
    assert journal_trouble(tmp_path / "journals", root) is None
    assert journal_trouble(tmp_path / "journals", str(tmp_path / "none")) is not None


def test_a_journal_needs_room(tmp_path, monkeypatch):
    (tmp_path / "root").mkdir()
    monkeypatch.setattr(collect, "_JOURNAL_FREE_MIN_BYTES", 1 << 62)
    assert "no space" in (journal_trouble(tmp_path, str(tmp_path / "root")) or "")


def test_a_canary_is_another_users_file_and_leaves_nothing(tmp_path):
    before_s = time.time()
    result = canary(str(tmp_path))
    assert result.trouble is None
    # A kernel stamps files by a clock that lags up to some ms behind the one that it shows.
    assert before_s - 0.1 <= present(result.file_system_at_s) <= time.time()
    assert result.before_s <= result.after_s
    assert list(tmp_path.iterdir()) == []


def test_a_canary_that_cannot_be_given_away_says_so(tmp_path, monkeypatch):
    def denied(*_arguments):
        raise PermissionError(1, "Operation not permitted")

    for fchown, trouble in (
        (lambda *_arguments: None, "root is squashed"),
        (denied, "Operation not permitted"),
    ):
        monkeypatch.setattr(os, "fchown", fchown)
        assert trouble in (canary(str(tmp_path)).trouble or "")
        assert list(tmp_path.iterdir()) == []
    assert "failed" in (canary(str(tmp_path / "none")).trouble or "")


@pytest.mark.parametrize("at", ["mkdir", "open", "fchown", "utime", "unlink", "rmdir", "listdir"])
def test_a_signal_during_a_canary_ends_the_run_and_leaves_nothing(tmp_path, monkeypatch, at):
    """Raised on the way it left the directory behind, and was told as a right that root lacks."""
    call = getattr(os, at)

    def signalled(*arguments, **named):
        os.kill(os.getpid(), signal.SIGTERM)
        return call(*arguments, **named)

    monkeypatch.setattr(os, at, signalled)
    with pytest.raises(Interrupted, match="SIGTERM"), interruptible():
        canary(str(tmp_path))
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_a_canary_whose_process_was_killed_goes_with_the_next(tmp_path):

    def killed():
        os.unlink = lambda *_arguments, **_named: os._exit(9)  # killed before it is removed
        canary(str(tmp_path))

    assert code_of_child(begun(killed)) == 9
    (left,) = tmp_path.iterdir()
    assert canary(str(tmp_path)).trouble is None
    assert list(tmp_path.iterdir()) == [left], "it may be another run's, of this moment"
    os.utime(left, (1e9, 1e9))
    # What is not as a canary leaves it is somebody's: each of these stays.
    others = [tmp_path / f".trimtab-canary-{number:016x}" for number in range(5)]
    others.append(tmp_path / ".trimtab-canary-here")
    for other in others:
        other.mkdir()
    (others[0] / "canary").write_text("somebody's")
    (others[1] / "other").touch()
    (others[2] / "canary").mkdir()
    os.chown(others[3], 1234, 1234)
    (others[4] / "canary").touch()
    (others[4] / "other").touch()
    for other in others:
        os.utime(other, (1e9, 1e9))
    assert canary(str(tmp_path)).trouble is None
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_an_overlay_frees_nothing(tmp_path):
    for kind, keeps in (("overlay", True), ("ext4", False)):
        facts = root_facts(str(tmp_path), mountinfo=mount_line("/", kind=kind))
        assert (collect.keeps_deleted(facts) is not None) is keeps


@pytest.mark.system
def test_a_canary_of_a_process_without_roots_rights_fails_and_leaves_nothing(tmp_path):
    tmp_path.chmod(0o777)

    def as_another():
        os.chdir(tmp_path)  # the directories above are root's alone
        os.setgid(12345)
        os.setuid(12345)
        os._exit(0 if canary(".").trouble is None else 7)

    assert code_of_child(begun(as_another)) == 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
@loopback.needs_loop_devices()
def test_of_a_real_mount_all_is_told(tmp_path):
    with loopback.mounted(tmp_path, fs="ext4") as scratch:
        root = str(scratch.mount_point)
        system = present(root_facts(root).file_system)
        assert (system.kind, system.fsid) == ("ext4", os.statvfs(root).f_fsid)
        assert not system.is_same(present(root_facts(str(tmp_path)).file_system))
        assert canary(root).trouble is None
        mode = os.stat(root).st_mode  # noqa: PTH116 (as text it was given)
        assert stat.S_ISDIR(mode)
        assert usage(root).fullness < 0.5


@pytest.mark.system
@loopback.needs_loop_devices("xfs")
def test_two_xfs_on_one_device_in_turn_are_two(tmp_path):
    # The device's number is all that f_fsid says of XFS.
    with loopback.mounted(tmp_path, fs="xfs", size_bytes=loopback.XFS_MINIMUM_BYTES) as scratch:
        root, device = str(scratch.mount_point), str(scratch.device.path)
        first = present(root_facts(root).file_system)
        assert (first.uuid is not None, first.fsid) == (True, None)
        for made_anew in (False, True):
            subprocess.run(["umount", root], check=True)
            if made_anew:
                subprocess.run(["mkfs.xfs", "-q", "-f", "-K", device], check=True)
            subprocess.run(["mount", device, root], check=True)
            second = present(root_facts(root).file_system)
            assert first.is_same(second) is not made_anew
            assert second.mount != first.mount


@pytest.mark.system
@loopback.needs_loop_devices()
def test_what_has_no_identity_is_another_once_it_is_mounted_anew(tmp_path):
    point = tmp_path / "point"
    point.mkdir()
    facts = []
    for _ in range(2):
        subprocess.run(["mount", "-t", "ramfs", "scratch", point], check=True)
        try:
            first, again = (present(root_facts(str(point)).file_system) for _ in range(2))
            assert first.is_same(again)
            facts.append(first)
        finally:
            subprocess.run(["umount", point], check=True)
    one, other = facts
    assert (one.name, one.is_same(other), one.may_be_same(other)) == (other.name, False, True)


@pytest.mark.system
@loopback.needs_loop_devices()
def test_what_is_done_beneath_a_root_is_done_where_it_was_looked_at(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "planned").touch()
    held: list[int] = []
    assert root_facts(str(root), keep=held.append).trouble is None
    subprocess.run(["mount", "-t", "tmpfs", "other", root], check=True)
    try:
        assert root_facts(str(root)).file_system != root_facts(str(tmp_path)).file_system
        with os.scandir(held[0]) as names:
            assert [entry.name for entry in names] == ["planned"]
        assert canary(held[0]).trouble is None
        assert usage(held[0]).available_bytes != usage(str(root)).available_bytes
        assert list(root.iterdir()) == []
    finally:
        subprocess.run(["umount", root], check=True)
        os.close(held[0])
    assert root_facts(str(tmp_path / "none"), keep=held.append).trouble is not None
    assert len(held) == 1
