"""Where a store lies, and which file systems will not do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.codes import raises

from trimtab.base.error import RefusedError, UsageError
from trimtab.store.location import (
    default_url,
    locate,
    refuse_exchangeable,
    refuse_shared_file_system,
    why_not,
)
from trimtab.store.store import Store

HOME = str(Path("~").expanduser())


@pytest.mark.parametrize(
    ("environment", "root", "url"),
    [
        ({"TRIMTAB_STORE": "postgresql://db/x"}, True, "postgresql://db/x"),
        ({"TRIMTAB_STORE": ""}, True, "sqlite:////var/lib/trimtab/trimtab.db"),
        ({"XDG_DATA_HOME": "/data"}, True, "sqlite:////var/lib/trimtab/trimtab.db"),
        ({"XDG_DATA_HOME": "/data"}, False, "sqlite:////data/trimtab/trimtab.db"),
        ({"XDG_DATA_HOME": "data"}, False, f"sqlite:///{HOME}/.local/share/trimtab/trimtab.db"),
        ({}, False, f"sqlite:///{HOME}/.local/share/trimtab/trimtab.db"),
    ],
)
def test_the_default(environment: dict[str, str], root: bool, url: str) -> None:
    assert default_url(environment, root=root) == url


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/x/t.db", "/x/t.db"),
        (Path("/x/t.db"), "/x/t.db"),
        ("sqlite:////x/t.db", "/x/t.db"),
        ("sqlite+pysqlite:////x/t.db", "/x/t.db"),
        ("sqlite:///t.db", "/here/t.db"),
        ("t.db", "/here/t.db"),
        ("~/t.db", f"{HOME}/t.db"),
        ("odd://name/t.db", None),
        ("dir/a://b", "/here/dir/a:/b"),
    ],
)
def test_what_a_path_or_url_means(
    text: str | Path, path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if path is None:
        with raises(UsageError, "store-url-invalid", "'odd'"):
            locate(text)
        return
    location = locate(text)
    assert str(location.path) == path.replace("/here", str(tmp_path))
    assert location.raw == Path(str(location.path)).parent / "raw"


def test_a_current_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with raises(UsageError, "current-directory-gone"):
        locate("t.db")
    assert locate("/x/t.db").path == Path("/x/t.db")


def test_the_environment_names_the_store() -> None:
    assert str(locate(environment={"TRIMTAB_STORE": "/x/t.db"})) == "/x/t.db"
    assert str(locate("/y/t.db", environment={"TRIMTAB_STORE": "/x/t.db"})) == "/y/t.db"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_never_shows_its_password(scheme: str) -> None:
    url = f"{scheme}://u:secret@db/x"
    location = locate(url, raw="/raw", environment={})
    assert location.kind == "postgresql"
    assert location.url == "postgresql+psycopg://u:secret@db/x"
    assert str(location) == "postgresql+psycopg://u:***@db/x"
    assert location.raw == Path("/raw")
    default = locate(url, environment={"XDG_DATA_HOME": "/data"}).raw
    assert default.name == "raw"
    assert default.parent.name == "trimtab"


@pytest.mark.parametrize(
    "url",
    [
        "", "sqlite://", "sqlite:///", ":memory:", "sqlite:///:memory:", "sqlite://host/t.db",
        "sqlite:////x/t.db?mode=ro", "mysql://u:secret@db/x", "/x/\0", "postgresql+asyncpg://u:secret@d/x",
    ],
)  # fmt: skip
def test_what_is_no_store(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        locate(url, environment={})
    assert "secret" not in caught.value.message
    assert caught.value.hint


MOUNTINFO = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:50 / /home rw,relatime - nfs4 server:/home rw
41 40 0:51 / /home/local rw,relatime master:3 propagate_from:2 - xfs /dev/sdb rw
42 27 0:52 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw
43 27 0:53 / /with\040space rw - fuse.sshfs host:/ rw
44 27 0:54 / /twice rw - nfs server:/x rw
45 44 0:55 / /twice rw - ext4 /dev/sdc rw
46 27 0:56 / /homestead rw - btrfs /dev/sdd rw
rubbish
"""


@pytest.mark.parametrize(
    ("path", "mount_point"),
    [
        ("/", None),
        ("/var/lib/t.db", None),
        ("/home", "/home, which is nfs4"),
        ("/home/someone/t.db", "/home, which is nfs4"),
        ("/home/../var/t.db", None),
        ("/var/../home/t.db", "/home, which is nfs4"),
        ("/home/local/t.db", None),
        ("/homestead/t.db", None),
        ("/homes/t.db", None),
        ("/scratch/t.db", "/scratch, which is lustre"),
        ("/with space/t.db", "/with space, which is fuse.sshfs"),
        ("/twice/t.db", None),
    ],
)
def test_the_mount_of_a_path_decides(path: str, mount_point: str | None) -> None:
    if mount_point is None:
        refuse_shared_file_system(Path(path), MOUNTINFO)
        return
    why = f"would be on {mount_point}"
    with raises(RefusedError, "store-on-shared-file-system", why) as caught:
        refuse_shared_file_system(Path(path), MOUNTINFO)
    assert path in caught.value.message
    assert caught.value.hint


def test_a_table_without_mounts_knows_nothing() -> None:
    refuse_shared_file_system(Path("/x/t.db"), "")


@pytest.mark.parametrize(
    "fs_type",
    [
        "nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "afs", "fuse",
        "fuse.sshfs", "fuse.glusterfs", "virtiofs", "wekafs", "orangefs", "ocfs2", "gfs2",
    ],
)  # fmt: skip
def test_hosts_share_no_memory_on(fs_type: str) -> None:
    assert "share no memory" in (why_not(fs_type) or "")


@pytest.mark.parametrize(
    "fs_type", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "fuseblk", "unknown"]
)
def test_a_disk_of_this_host_will_do(fs_type: str) -> None:
    assert why_not(fs_type) is None


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/scratch")
    with raises(RefusedError, "store-on-shared-file-system", "lustre"):
        refuse_shared_file_system(tmp_path / "link" / "t.db", MOUNTINFO)
    refuse_shared_file_system(tmp_path / "t.db", MOUNTINFO)


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """Return a directory that another user owns, and has made a link in."""
    if os.geteuid() != 0:
        pytest.skip("needs root to give a directory away")
    (tmp_path / "roots").mkdir()
    directory = tmp_path / "others"
    directory.mkdir()
    (directory / "raw").symlink_to(tmp_path / "roots")
    os.chown(directory, 65534, 65534)
    return directory


def test_root_opens_no_store_that_somebody_else_can_exchange(others: Path, tmp_path: Path) -> None:
    new = locate(others / "t.db")
    for location in (new, locate(others / "not/there/t.db")):
        with raises(UsageError, "file-writable-by-others", "belongs to user 65534"):
            refuse_exchangeable(location)
    with raises(UsageError, "file-writable-by-others", "raw outputs"):
        refuse_exchangeable(locate("postgresql://db/x", raw=others / "raw"))
    with raises(UsageError, "file-writable-by-others", "belongs to user 65534"):
        Store.open(others / "t.db")
    assert list((tmp_path / "roots").iterdir()) == []
    # What was left there by that user before the directory became root's.
    os.chown(others, 0, 0)
    os.chown(others / "raw", 65534, 65534, follow_symlinks=False)
    with raises(UsageError, "file-writable-by-others", "raw"):
        refuse_exchangeable(new)
    (others / "raw").unlink()
    refuse_exchangeable(new)
    (others / "t.db").touch()
    os.chown(others / "t.db", 65534, 65534)
    with raises(UsageError, "file-writable-by-others", "t.db belongs to user 65534"):
        refuse_exchangeable(new)


def test_who_called_sudo_is_no_other(others: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(others / "raw", 65534, 65534, follow_symlinks=False)
    for caller, refused in (("65534", False), ("1000", True), ("none", True), ("", True)):
        monkeypatch.setenv("SUDO_UID", caller)
        monkeypatch.setenv("SUDO_GID", caller)
        if refused:
            with raises(UsageError, "file-writable-by-others", "belongs to user 65534"):
                refuse_exchangeable(locate(others / "t.db"))
        else:
            refuse_exchangeable(locate(others / "t.db"))


def test_in_a_sticky_directory_root_opens_its_own_alone(others: Path, tmp_path: Path) -> None:
    others.chmod(0o1777)
    os.chown(others, 0, 0)
    (others / "raw").unlink()
    location = locate(others / "t.db")
    refuse_exchangeable(location)
    (others / "raw").mkdir()
    refuse_exchangeable(location)
    os.chown(others / "raw", 65534, 65534)
    with raises(UsageError, "file-writable-by-others", "raw outputs"):
        refuse_exchangeable(location)


def test_another_user_opens_what_the_system_lets_it(
    others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    refuse_exchangeable(locate(others / "t.db"))


def test_this_hosts_own_table_can_be_read() -> None:
    refuse_shared_file_system(Path("/var/lib/trimtab/t.db"))
    with pytest.raises(RefusedError, match="reached"):
        refuse_shared_file_system(Path("/proc/t.db"), answers=_reached)


def _reached(path: str) -> None:
    raise RefusedError(f"reached {path}")
