import os
from pathlib import Path

import pytest
from tests.support.codes import raises

from trimtab.base.error import RefusedError, UnreadableError, UsageError
from trimtab.purge.plan.plan_signature import SigningKey, create_key, read_key


def test_a_key_is_read_back_and_never_shown(tmp_path: Path) -> None:
    key = create_key(tmp_path / "key")
    assert read_key(tmp_path / "key") == key
    assert len(key.secret) == 32
    assert key.secret.hex() not in repr(key)
    assert repr(key.secret) not in repr(key)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_keys_differ() -> None:
    one, other = SigningKey(bytes(32)), SigningKey(b"\1" * 32)
    assert one.fingerprint != other.fingerprint
    signature = one.sign("purge plan", b"data")
    assert one.signed("purge plan", b"data", signature)
    assert not one.signed("purge plan", b"datA", signature)
    assert not one.signed("purge plan published", b"data", signature)
    assert not other.signed("purge plan", b"data", signature)
    assert not one.signed("purge plan", b"data", "ä")


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    before = (tmp_path / "key").read_bytes()
    with pytest.raises(UsageError):
        create_key(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == before


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with raises(RefusedError, "file-untrusted"):
        read_key(tmp_path / "key")


def test_a_key_of_somebody_else_is_refused(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    os.chown(tmp_path / "key", 12345, -1)
    with raises(RefusedError, "file-untrusted"):
        read_key(tmp_path / "key")


def test_a_key_below_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "etc").mkdir(parents=True)
    create_key(tmp_path / "theirs" / "etc" / "key")
    os.chown(tmp_path / "theirs", 12345, -1)
    with raises(RefusedError, "directory-untrusted"):
        read_key(tmp_path / "theirs" / "etc" / "key")


@pytest.mark.parametrize(
    "content", [b"", b"trimtab-purge-key-1 " + b"00" * 31 + b"\n", b"\xff" * 90, b"x" * 5000]
)
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(RefusedError):
        read_key(tmp_path / "key")


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe"):
        with pytest.raises(RefusedError):
            read_key(tmp_path / name)
    with pytest.raises(UnreadableError):
        read_key(tmp_path / "none")


def test_a_key_that_is_not_there_is_named_by_its_path(tmp_path: Path) -> None:
    with raises(UnreadableError, "path-unreadable", str(tmp_path / "key")):
        read_key(tmp_path / "key")
