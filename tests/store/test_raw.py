"""Raw outputs: whole or not there, kept once, checked whenever they are read."""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import UnreadableError
from trimtab.store.raw_output import EMPTY_SHA256, RawDirectory, make_directories


@pytest.fixture
def raw(tmp_path: Path) -> RawDirectory:
    """Return a directory that does not exist yet, nor its parent."""
    return RawDirectory(tmp_path / "store" / "raw")


def test_content_lies_under_its_hash(raw: RawDirectory) -> None:
    content = b"write: IOPS=1,bw=2\n" * 1000
    sha256 = raw.put(content)
    assert sha256 == hashlib.sha256(content).hexdigest()
    file = raw.path / sha256[:2] / f"{sha256}.z"
    assert zlib.decompress(file.read_bytes()) == content
    assert file.stat().st_size < len(content) / 10
    assert raw.get(sha256, len(content)) == content


def test_equal_content_is_kept_once_and_written_once(raw: RawDirectory) -> None:
    file = raw.file(raw.put(b"same"))
    before = file.stat().st_ino
    raw.put(b"same")
    assert file.stat().st_ino == before
    assert len(list(raw.path.rglob("*.z"))) == 1


def test_nothing_is_written_for_nothing(raw: RawDirectory) -> None:
    assert raw.put(b"") == EMPTY_SHA256
    assert raw.get(EMPTY_SHA256, 0) == b""
    assert not raw.path.exists()


def test_no_other_file_is_left(raw: RawDirectory) -> None:
    sha256 = raw.put(b"x")
    assert [one for one in raw.path.rglob("*") if one.is_file()] == [raw.file(sha256)]


def _cut(data: bytes) -> bytes:
    return data[:-1]


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _other(data: bytes) -> bytes:
    return zlib.compress(b"y" * 1000)


def _bomb(data: bytes) -> bytes:
    return zlib.compress(b"\0" * 50_000_000)


def _more(data: bytes) -> bytes:
    return zlib.compress(b"x" * 1001)


@pytest.mark.parametrize("damage", [_cut, _flip, _other, _bomb, _more, lambda data: b""])
def test_a_damaged_file_is_named(raw: RawDirectory, damage) -> None:
    content = b"x" * 1000
    file = raw.file(raw.put(content))
    file.write_bytes(damage(file.read_bytes()))
    with raises(UnreadableError, "raw-output-damaged") as caught:
        raw.get(file.stem, len(content))
    assert str(file) in caught.value.message
    assert caught.value.hint
    # Whoever keeps the same content again mends it.
    raw.put(content)
    assert raw.get(file.stem, len(content)) == content


def test_a_missing_file_is_named(raw: RawDirectory) -> None:
    file = raw.file(raw.put(b"x"))
    file.unlink()
    with raises(UnreadableError, "raw-output-missing") as caught:
        raw.get(file.stem, 1)
    assert str(file) in caught.value.message


def test_a_directory_in_place_of_the_file_is_named(raw: RawDirectory) -> None:
    file = raw.file(raw.put(b"x"))
    file.unlink()
    file.mkdir()
    with raises(UnreadableError, "raw-output-inaccessible") as caught:
        raw.get(file.stem, 1)
    assert str(file) in caught.value.message


def test_what_cannot_be_written_is_said_and_leaves_nothing(
    raw: RawDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", fail)
    make = raw.path / hashlib.sha256(b"x").hexdigest()[:2]
    make.mkdir(parents=True)
    with raises(UnreadableError, "raw-output-inaccessible", "No space left") as caught:
        raw.put(b"x")
    assert "free space" in (caught.value.hint or "")
    assert list(make.iterdir()) == []


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("")
    with raises(UnreadableError, "raw-output-inaccessible"):
        RawDirectory(tmp_path / "raw").put(b"x")


def test_directories_are_for_their_owner(tmp_path: Path) -> None:
    make_directories(tmp_path / "a" / "b")
    make_directories(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o007 == 0


@given(content=st.binary(max_size=2000))
def test_any_content_comes_back(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    raw = RawDirectory(tmp_path_factory.getbasetemp() / "raw-of-any-content")
    assert raw.get(raw.put(content), len(content)) == content


def test_many_are_put_as_each_one_is(raw: RawDirectory) -> None:
    contents = [b"", b"one", b"two" * 1000, b"one"]
    by_hash = {hashlib.sha256(content).hexdigest(): content for content in contents}
    make_directories(raw.path)
    raw.put_many(by_hash)
    for sha256, content in by_hash.items():
        assert raw.get(sha256, len(content)) == content
    before = {path: path.stat().st_ino for path in raw.path.rglob("*.z")}
    raw.put_many(by_hash)
    assert {path: path.stat().st_ino for path in raw.path.rglob("*.z")} == before
    assert len(before) == 2
    assert list(raw.path.rglob("*.part")) == []


def test_many_put_where_nothing_is_yet(raw: RawDirectory) -> None:
    raw.put_many({hashlib.sha256(b"x").hexdigest(): b"x"})
    assert raw.get(hashlib.sha256(b"x").hexdigest(), 1) == b"x"


def test_a_damaged_one_among_many_is_written_anew(raw: RawDirectory) -> None:
    sha256 = raw.put(b"content")
    raw.file(sha256).write_bytes(b"damaged")
    raw.put_many({sha256: b"content"})
    assert raw.get(sha256, 7) == b"content"


def test_of_many_that_do_not_fit_nothing_half_is_left(raw: RawDirectory) -> None:
    sha256 = hashlib.sha256(b"x").hexdigest()
    make_directories(raw.path)
    (raw.path / sha256[:2]).write_bytes(b"a file in the way")
    with raises(UnreadableError, "raw-output-inaccessible"):
        raw.put_many({sha256: b"x"})
    assert list(raw.path.rglob("*.part")) == []
