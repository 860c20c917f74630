"""Questions about paths: every answer, every refusal, and the file system that never answers."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.support import loopback
from tests.support.codes import raises
from tests.support.narrow import present
from tests.support.silent_fuse import silent_mount

from trimtab.base.error import NoAnswer, RefusedError, ToolError, UsageError
from trimtab.reach import bounded, child_main, process, touch
from trimtab.reach.bounded import ask_child, error_of
from trimtab.reach.touch import PathFailure, Removal

pytestmark = pytest.mark.system

NAME = ".trimtab-test"
needs_user = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Make the directory of a probe."""
    return Path(bounded.make_directory(str(tmp_path), NAME))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Make a directory that is not the probe's, with a file that must stay."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").write_text("x")
    return tmp_path / "outside"


@contextmanager
def mounted_on(place: Path, *source: str) -> Iterator[None]:
    """Mount something on a directory, a tmpfs by default; skip where that is not possible."""
    argv = ["mount", *(source or ("-t", "tmpfs", "none")), str(place)]
    if subprocess.run(argv, check=False).returncode != 0:
        pytest.skip("mounting is not possible here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_directory(tmp_path: Path) -> None:
    state = bounded.describe(str(tmp_path))
    info, file_system = tmp_path.stat(), os.statvfs(tmp_path)
    assert (state.exists, state.kind, state.symlink, state.dangling) == (
        True,
        "directory",
        False,
        False,
    )
    assert state.real_path == str(tmp_path.resolve())
    assert state.device == f"{os.major(info.st_dev)}:{os.minor(info.st_dev)}"
    assert state.writable
    assert state.failure is None
    assert state.space is not None
    assert state.space.capacity_bytes == file_system.f_blocks * file_system.f_frsize
    assert state.space.read_only is False


def test_space_is_counted_as_df_counts_it(tmp_path: Path) -> None:
    argv = ["df", "--block-size=1", "--output=size,used,avail", str(tmp_path)]
    printed = subprocess.run(argv, capture_output=True, check=True).stdout.split()[-3:]
    space = bounded.free_space(str(tmp_path))
    size, used, available = (int(word) for word in printed)
    assert space.capacity_bytes == size
    # Others write on this disk meanwhile.
    assert abs(space.used_bytes - used) < 2**30
    assert abs(space.available_bytes - available) < 2**30


def test_links_and_what_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name, leads_to in (("link", "real"), ("dangling", "none"), ("loop", "loop")):
        (tmp_path / name).symlink_to(leads_to)
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    link = bounded.describe(str(tmp_path / "link"))
    assert (link.exists, link.symlink, link.kind) == (True, True, "directory")
    assert link.real_path == str((tmp_path / "real").resolve())
    dangling = bounded.describe(str(tmp_path / "dangling"))
    assert (dangling.exists, dangling.dangling, dangling.kind) == (False, True, "symlink")
    missing = bounded.describe(str(tmp_path / "none"))
    assert not missing.exists
    assert not missing.dangling
    assert missing.kind is missing.space is None
    failure = present(missing.failure)
    assert (failure.name, failure.operation) == ("ENOENT", "lstat")
    for path, error in (
        *(("dangling", "ENOENT"), ("loop", "ELOOP"), ("file/x", "ENOTDIR")),
        ("x" * 300, "ENAMETOOLONG"),
    ):
        assert present(bounded.describe(str(tmp_path / path)).failure).name == error
    kinds = {"file": "file", "fifo": "fifo", "/dev/null": "character-device"}
    for path, kind in kinds.items():
        assert bounded.describe(str(tmp_path / path)).kind == kind


def test_names_are_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff caf\xc3\xa9 \n\"'\\")
    (tmp_path / name).mkdir()
    (tmp_path / name / name).write_bytes(b"12345")
    state = bounded.describe(str(tmp_path / name))
    assert state.exists
    assert state.real_path == os.path.realpath(tmp_path / name)
    assert bounded.file_sizes(str(tmp_path / name)) == {name: 5}
    assert bounded.list_names(str(tmp_path), os.fsdecode(b"\xff")) == (name,)


def test_names_are_bytes_in_every_locale(tmp_path: Path) -> None:
    """The child has to decode names as whoever asks."""
    name = b"caf\xc3\xa9 \xff"
    (tmp_path / os.fsdecode(name)).mkdir()
    code = (
        "import os, sys; from trimtab.reach import bounded\n"
        "(name,) = bounded.list_names(sys.argv[1])\n"
        "assert bounded.describe(sys.argv[1] + '/' + name).exists\n"
        "print(sys.getfilesystemencoding(), os.fsencode(name))"
    )
    for variables, encoding in (
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "ascii"),
        ({"LC_ALL": "C"}, "utf-8"),
        ({"LC_ALL": "C.UTF-8"}, "utf-8"),
    ):
        argv = [sys.executable, "-c", code, str(tmp_path)]
        environment = {**os.environ, **variables}
        printed = subprocess.run(argv, env=environment, capture_output=True, check=True).stdout
        assert printed.decode().split(maxsplit=1) == [encoding, f"{name!r}\n"]


def test_relative_path_starts_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert bounded.describe("here").path == f"{tmp_path}/here"
    assert bounded.describe("here").exists
    (tmp_path / "here").rmdir()


@pytest.mark.unit
@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path(path: str) -> None:
    with raises(UsageError, "path-invalid"):
        bounded.describe(path)


@pytest.mark.unit
def test_directory_of_ours_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with raises(UsageError, "current-directory-gone"):
        bounded.describe("x")


def test_directory_is_made_with_its_mode_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        made = bounded.make_directory(str(tmp_path), NAME)
    finally:
        os.umask(before)
    assert made == f"{tmp_path}/{NAME}"
    assert Path(made).stat().st_mode & 0o777 == 0o700


def test_existing_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to("/etc")
    with raises(RefusedError, "name-taken"):
        bounded.make_directory(str(tmp_path), NAME)
    assert (tmp_path / NAME).is_symlink()


@pytest.mark.parametrize(
    "name", ["x", "", ".", "..", ".trimtab-a/b", "../.trimtab-x", ".trimtab-\0"]
)
def test_other_names_are_neither_made_nor_removed(tmp_path: Path, name: str) -> None:
    with pytest.raises(RefusedError):
        bounded.make_directory(str(tmp_path), name)
    with pytest.raises(RefusedError):
        bounded.remove_probe_directory(str(tmp_path), name)
    # The child insists too, whoever asks it.
    with pytest.raises(ValueError, match="not the name of a probe directory"):
        bounded.ask(touch.make_directory, 10, str(tmp_path), name)


def test_removal(tmp_path: Path, made: Path) -> None:
    (made / "data.0").write_bytes(b"x" * 10)
    (made / os.fsdecode(b"\xff")).write_bytes(b"x" * 5)
    removal = bounded.remove_probe_directory(str(tmp_path), NAME)
    assert removal == Removal(existed=True, removed=True, kept=())
    assert list(tmp_path.iterdir()) == []
    again = bounded.remove_probe_directory(str(tmp_path), NAME)
    assert again == Removal(existed=False, removed=False, kept=())


def test_removal_touches_regular_files_only(tmp_path: Path, made: Path, outside: Path) -> None:
    (made / "data.0").write_text("x")
    (made / "link").symlink_to(outside / "precious")
    (made / "link-to-directory").symlink_to(outside)
    (made / "inner").mkdir()
    (made / "inner" / "precious").write_text("x")
    os.mkfifo(made / "fifo")
    removal = bounded.remove_probe_directory(str(tmp_path), NAME)
    assert (removal.existed, removal.removed) == (True, False)
    reasons = dict(removal.kept)
    assert reasons["inner"] == "is a directory, not a regular file"
    assert reasons["link"] == "is a symlink, not a regular file"
    assert set(reasons) == {"inner", "link", "link-to-directory", "fifo", NAME}
    assert "not empty" in reasons[NAME]
    assert (outside / "precious").exists()
    assert (made / "inner" / "precious").exists()


@pytest.mark.parametrize(
    "remove", [bounded.remove_probe_directory, bounded.remove_probe_tree], ids=["files", "tree"]
)
def test_removal_does_not_follow_a_link_in_place_of_the_directory(
    tmp_path: Path, outside: Path, remove: Callable[[str, str], Removal]
) -> None:
    (tmp_path / NAME).symlink_to(outside)
    with pytest.raises(UsageError):
        remove(str(tmp_path), NAME)
    with pytest.raises(RefusedError):
        remove(str(tmp_path), "outside")
    assert (outside / "precious").exists()


@loopback.needs_loop_devices()
def test_removal_stops_at_a_mount(tmp_path: Path, made: Path) -> None:
    with mounted_on(made):
        (made / "precious").write_text("x")
        removal = bounded.remove_probe_directory(str(tmp_path), NAME)
        assert removal.kept == ((NAME, "another file system is mounted on it"),)
        assert (made / "precious").exists()


def deep(directory: Path, levels: int) -> None:
    """Make directories within one another, deeper than a path can be."""
    descriptor = os.open(directory, os.O_RDONLY)
    for level in range(levels):
        os.mkdir(b"d", dir_fd=descriptor)
        inner = os.open(b"d", os.O_RDONLY, dir_fd=descriptor)
        if level % 100 == 0:
            os.close(os.open(b"file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_a_tree_is_removed_whatever_is_in_it(tmp_path: Path, made: Path, outside: Path) -> None:
    (made / "link").symlink_to(outside)
    (made / "dangling").symlink_to("nowhere")
    (made / "inner").mkdir(mode=0o500)
    (made / "inner" / "more").mkdir()
    (made / "inner" / "more" / "link").symlink_to(outside / "precious")
    os.link(outside / "precious", made / "inner" / "hard link")
    os.mkfifo(made / "inner" / "fifo")
    (made / os.fsdecode(b"\xff\n")).write_bytes(b"12345")
    removal = bounded.remove_probe_tree(str(tmp_path), NAME)
    assert removal == Removal(existed=True, removed=True, kept=())
    assert sorted(tmp_path.iterdir()) == [outside]
    assert (outside / "precious").read_text() == "x"
    assert not bounded.remove_probe_tree(str(tmp_path), NAME).existed
    assert not bounded.remove_probe_tree(str(tmp_path / "none"), NAME).existed


def test_a_tree_of_any_depth_is_removed(tmp_path: Path, made: Path) -> None:
    deep(made, 10_000)
    removal = bounded.remove_probe_tree(str(tmp_path), NAME)
    assert (removal.removed, removal.kept) == (True, ())
    assert list(tmp_path.iterdir()) == []


def test_a_wide_tree_is_removed(tmp_path: Path, made: Path) -> None:
    for index in range(20_100):  # more than is read of a directory at a time
        os.close(os.open(made / f"{index:06}", os.O_CREAT | os.O_WRONLY))
    for index in range(1_200):  # more than a process may have open
        (made / f"d{index}").mkdir()
    removal = bounded.remove_probe_tree(str(tmp_path), NAME)
    assert removal.removed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("work_s", [0.0, 1e-9])
def test_a_tree_that_takes_too_long_is_named(tmp_path: Path, made: Path, work_s: float) -> None:
    (made / "data").write_text("x")
    removal = bounded.remove_probe_tree(str(tmp_path), NAME, limit_s=work_s)
    assert (removal.existed, removal.removed) == (True, False)
    assert removal.kept[0][0] == NAME
    assert "not everything in it" in removal.kept[0][1]
    assert bounded.remove_probe_tree(str(tmp_path), NAME).removed


@loopback.needs_loop_devices()
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_what_is_mounted_in_a_tree_stays(
    tmp_path: Path, made: Path, outside: Path, kind: str
) -> None:
    """Also where the same file system is mounted: its device number does not tell."""
    place = made / "a" / "mounted"
    place.mkdir(parents=True)
    (made / "b").write_text("x")
    with mounted_on(place, *(("--bind", str(outside)) if kind == "bind" else ())):
        (place / "more").write_text("x")
        removal = bounded.remove_probe_tree(str(tmp_path), NAME)
        assert not removal.removed
        assert not (made / "b").exists()
        assert removal.kept == (
            ("a/mounted", "another file system is mounted on it"),
            (NAME, "Directory not empty"),
        )
        assert (place / "more").exists()
    assert (outside / "precious").exists()


@needs_user
def test_what_the_system_keeps_is_named(tmp_path: Path, made: Path) -> None:
    (made / "a").mkdir()
    (made / "a" / "fixed").write_text("x")
    (made / "b").write_text("x")
    if subprocess.run(["chattr", "+i", str(made / "a" / "fixed")], check=False).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        removal = bounded.remove_probe_tree(str(tmp_path), NAME)
    finally:
        subprocess.run(["chattr", "-i", str(made / "a" / "fixed")], check=True)
    assert not removal.removed
    assert not (made / "b").exists()
    assert removal.kept == (
        ("a/fixed", "Operation not permitted"),
        (NAME, "Directory not empty"),
    )


def test_a_tree_that_others_remove_too_is_gone(tmp_path: Path, made: Path) -> None:
    for index in range(300):
        (made / f"{index}" / "x").mkdir(parents=True)
        (made / f"{index}" / "x" / "file").write_text("x")
    other = subprocess.Popen(
        [sys.executable, "-c", f"import shutil; shutil.rmtree({str(made)!r}, True)"]
    )
    removal = bounded.remove_probe_tree(str(tmp_path), NAME)
    other.wait()
    assert removal.removed or not removal.kept or not made.exists()
    assert bounded.remove_probe_tree(str(tmp_path), NAME).kept == ()
    assert not made.exists()


def test_files_are_found_by_a_pattern(tmp_path: Path, made: Path) -> None:
    for path in ("summary.json", "a/summary.json", "a/b/summary.json", "a/b/other", "c/x.log"):
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text("x")
    (made / "link").symlink_to("a")
    (made / "c" / "summary.json").symlink_to("../summary.json")

    def found(pattern: str) -> list[str]:
        return [path for path, kind in bounded.find_files(str(tmp_path), NAME, pattern)]

    assert found("summary.json") == ["summary.json"]
    assert found("*/summary.json") == ["a/summary.json", "c/summary.json"]
    everywhere = ["a/b/summary.json", "a/summary.json", "c/summary.json", "summary.json"]
    assert found("**/summary.json") == found("**/**/s*.json") == everywhere
    assert found("a/**") == ["a/b/other", "a/b/summary.json", "a/summary.json"]
    assert found("a/**/b/[no]*") == ["a/b/other"]
    assert found("link/summary.json") == found("none") == found("a") == []
    kinds = dict(bounded.find_files(str(tmp_path), NAME, "c/*"))
    assert kinds == {"c/x.log": "file", "c/summary.json": "symlink"}
    with raises(ToolError, "too-many-files"):
        bounded.find_files(str(tmp_path), NAME, "**", limit=2)


def test_files_are_read_and_links_are_not(tmp_path: Path, made: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (made / "a").mkdir()
    (made / "a" / "data").write_bytes(bytes(range(256)) * 40)
    (made / "link").symlink_to("../secret")
    (made / "up").symlink_to("..")
    os.mkfifo(made / "pipe")
    paths = ("a/data", "a/none", "none/data", "link", "up/secret", "pipe", "a")
    read = bounded.read_files(str(tmp_path), NAME, paths, limit_bytes=10_240)
    assert read == {"a/data": bytes(range(256)) * 40}
    with pytest.raises(ToolError, match=r"a/data and the files read with it exceed"):
        bounded.read_files(str(tmp_path), NAME, paths, limit_bytes=10_239)


def test_sizes_and_names_are_bounded(tmp_path: Path) -> None:
    for index in range(5):
        (tmp_path / f"data.{index}").write_bytes(b"x" * index)
    (tmp_path / "other").mkdir()
    assert bounded.file_sizes(str(tmp_path)) == {f"data.{index}": index for index in range(5)}
    with raises(ToolError, "too-many-files"):
        bounded.file_sizes(str(tmp_path), limit=4)
    names = bounded.list_names(str(tmp_path), "data.")
    assert names == tuple(f"data.{index}" for index in range(5))
    assert len(bounded.list_names(str(tmp_path), "data.", limit=2)) == 2


@pytest.mark.unit
def test_every_refusal_has_its_error() -> None:
    for kind, names in (
        (UsageError, "ENOENT ENOTDIR EACCES EROFS ELOOP ENAMETOOLONG"),
        (RefusedError, "EEXIST"),
        (ToolError, "ENOSPC EDQUOT EIO ESTALE ENOTCONN EXDEV"),
    ):
        for name in names.split():
            words = os.strerror(getattr(errno, name))
            error = error_of(PathFailure("statvfs", name, words), "/scratch\n")
            assert type(error) is kind
            assert "/scratch\\n" in error.message
            assert name in error.message


def test_errors_of_real_paths(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for call, path, code in (
        (bounded.free_space, "none", "path-missing"),
        (bounded.file_sizes, "file", "not-a-directory"),
        (lambda path: bounded.make_directory(path, NAME), "none", "path-missing"),
    ):
        with pytest.raises(UsageError, check=lambda error, code=code: error.code == code):
            call(str(tmp_path / path))


AS_NOBODY = """
import json, os, sys
from trimtab.reach import bounded
from trimtab.base.error import TrimtabError
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.executable, bounded._ROOT, path = sys.argv[1:]
state = bounded.describe(path)
inner = bounded.describe(path + "/closed/x")
try:
    bounded.make_directory(path, ".trimtab-x")
    error = None
except TrimtabError as caught:
    error = caught.message
print(json.dumps([state.writable, inner.failure.name, error]))
"""
SYSTEM_PYTHON = "/usr/bin/python3"


@needs_user
@pytest.mark.skipif(
    not os.access(SYSTEM_PYTHON, os.X_OK), reason="no Python that another user may run"
)
def test_permissions_are_those_of_whoever_asks() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # above tmp_path others may not pass
        place = Path(name)
        place.chmod(0o755)
        (place / "closed").mkdir(mode=0o700)
        package = place / "trimtab" / "reach"
        package.mkdir(parents=True)
        for module in (touch, child_main):
            shutil.copy(present(module.__file__), package)
        argv = [sys.executable, "-c", AS_NOBODY, SYSTEM_PYTHON, name, name]
        result = subprocess.run(argv, capture_output=True, check=False)
        assert result.returncode == 0, result.stderr.decode()
        *access, error = json.loads(result.stdout)
    assert access == [False, "EACCES"]
    assert "no permission" in error


@loopback.needs_loop_devices()
def test_read_only_and_full_file_systems(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, fs="ext4") as scratch:
        point = str(scratch.mount_point)
        made = bounded.make_directory(point, NAME)
        subprocess.run(["mount", "-o", "remount,ro", point], check=True)
        state = bounded.describe(point)
        assert (present(state.space).read_only, state.writable) == (True, False)
        with raises(UsageError, "read-only-file-system"):
            bounded.make_directory(point, f"{NAME}-2")
        removal = bounded.remove_probe_directory(point, NAME)
        assert not removal.removed
        assert "Read-only" in dict(removal.kept)[NAME]
        assert Path(made).exists()
        subprocess.run(["mount", "-o", "remount,rw", point], check=True)


@pytest.mark.parametrize("mute", [False, True])
def test_silent_file_system_costs_the_deadline_and_no_more(tmp_path: Path, mute: bool) -> None:
    with silent_mount(tmp_path, mute=mute) as point:
        began_s = time.monotonic()
        with pytest.raises(NoAnswer, match=r"did not answer in 0\.5 s") as caught:
            bounded.describe(str(point / "x"), deadline_s=0.5)
        with pytest.raises(NoAnswer):
            bounded.remove_probe_directory(str(point), NAME, deadline_s=0.5)
        # Not a measure of speed: without the deadline this would never end.
        assert time.monotonic() - began_s < 60
        assert caught.value.exit_code == 3
        waiting = list(process._pids)
        assert waiting or not mute
    # Released by the end of the mount, they are collected by whoever comes next.
    for _ in range(200):
        process.reap()
        if not set(waiting) & set(process._pids):
            break
        time.sleep(0.01)
    assert not set(waiting) & set(process._pids)


def test_child_kills_itself_when_nobody_waits_any_more(tmp_path: Path) -> None:
    """The process that asked may have been killed: the child must not stay in a dead mount."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    argv = [sys.executable, "-I", "-S", "-c", bounded._MAIN, bounded._ROOT]
    question = pickle.dumps((partial(os.open, str(fifo), os.O_RDONLY), -0.8))
    result = subprocess.run(argv, input=question, capture_output=True, timeout=60, check=False)
    assert result.returncode == -14  # SIGALRM


def test_a_child_that_is_killed_says_too_much_or_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = partial(os.kill, 0, signal.SIGKILL)  # its group: it leads a session of its own
    with pytest.raises(ToolError, match=r"access to /scratch failed \(-9\)"):
        ask_child(question, "/scratch", deadline_s=10)
    monkeypatch.setattr(bounded, "_LIMIT_BYTES", 1000)
    with raises(ToolError, "output-limit"):
        ask_child(partial(bytes, 2000), "/scratch", deadline_s=10)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with raises(ToolError, "program-not-started"):
        bounded.describe(str(tmp_path))
