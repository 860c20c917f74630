"""What lies in files: raw outputs, whole or not there; lines of several processes; any text."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.counts import repetitions, seeded

from trimtab.base.error import DataError, RefusedError, UnreadableError, restored, storable
from trimtab.store.chain import opened_lines, text_of, unlinked
from trimtab.store.raw_output import EMPTY_SHA256, RawDirectory, make_directories

# Raw outputs: whole or not there, kept once, checked whenever they are read.


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


# Lines that several processes append to one directory, whatever kills them.


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "lines"


def opened_here(directory):
    return opened_lines(directory, owner=os.geteuid(), hint="keep it")


def test_who_has_not_read_the_last_line_appends_nothing(directory):
    with opened_here(directory) as one, opened_here(directory) as other:
        assert one.append(b'{"by":"one"}')
        assert not other.append(b'{"by":"other"}')
        assert other.read() == (b'{"by":"one"}',)
        assert other.append(b'{"by":"other"}')
        assert one.read() == (b'{"by":"other"}',)
        assert (one.read(), one.count, other.count) == ((), 2, 2)
    chain = unlinked(text_of(directory), hint="")
    assert chain.lines == (b'{"by":"one"}', b'{"by":"other"}')
    assert sorted(path.name for path in directory.iterdir()) == ["0000000001", "0000000002"]


def test_a_line_whose_answer_was_lost_is_ones_own(directory, monkeypatch):
    real = os.link

    def lost(*arguments, **named):
        real(*arguments, **named)
        raise FileExistsError  # as NFS says where the answer to the first try was lost

    with opened_here(directory) as lines:
        monkeypatch.setattr(os, "link", lost)
        assert lines.append(b'{"n":1}')
        monkeypatch.undo()
        assert lines.append(b'{"n":2}')
    assert len(unlinked(text_of(directory), hint="").lines) == 2


def test_a_line_that_was_changed_or_removed_is_noticed(directory):
    with opened_here(directory) as lines:
        assert all(lines.append(b'{"n":%d}' % number) for number in range(3))
    second = directory / "0000000002"
    whole = second.read_bytes()
    second.write_bytes(whole.replace(b"1}", b"7}"))
    with opened_here(directory) as lines, pytest.raises(DataError, match="does not follow"):
        lines.read()
    for text in (b"", whole[:-1], whole + whole):
        second.write_bytes(text)
        with opened_here(directory) as lines, pytest.raises(DataError):
            lines.read()
    second.unlink()
    with opened_here(directory) as lines:
        lines.read()
        assert lines.count == 1
    with pytest.raises(DataError, match="line 2 is missing"):
        text_of(directory)


def test_a_line_that_cannot_be_written_is_an_error(directory, monkeypatch):
    def full(*_arguments, **_named):
        raise OSError(28, "No space left on device")

    with opened_here(directory) as lines:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UnreadableError, match="No space left"):
            lines.append(b'{"n":1}')
        monkeypatch.undo()
        assert lines.append(b'{"n":1}')


def test_a_directory_of_others_is_refused(directory):
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    with pytest.raises(RefusedError, match="open to others"), opened_here(directory):
        pass


def appender(directory, name, count):
    """Append so many lines, and say of each that it is there."""
    said = os.open(directory.with_name(f"said-{name}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with opened_here(directory) as lines:
        for number in range(count):
            while not lines.append(json.dumps({"by": name, "n": number}).encode()):
                lines.read()
            os.write(said, b"%d\n" % number)


@pytest.mark.system
@pytest.mark.parametrize("kills", repetitions(gate=6, soak=300))
def test_processes_that_are_killed_leave_one_chain_with_every_line_once(directory, kills):
    """The riskiest question of several hosts: do they agree on one order without a lock?"""
    chance = seeded("numbered lines")
    names = []
    for kill in range(kills):
        processes = {}
        for host in range(3):
            name = f"{kill}-{host}"
            process = os.fork()
            if process == 0:
                code = 1
                try:
                    appender(directory, name, 40)
                    code = 0
                finally:
                    os._exit(code)
            processes[process] = name
        names += processes.values()
        time.sleep(chance.uniform(0.0, 0.1))
        killed = chance.choice(list(processes))
        os.kill(killed, signal.SIGKILL)
        for process in processes:
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            assert code == 0 or process == killed
    lines = [json.loads(line) for line in unlinked(text_of(directory), hint="").lines]
    written = [(line["by"], line["n"]) for line in lines]
    assert len(set(written)) == len(written)
    for name in names:
        path = directory.with_name(f"said-{name}")
        said = path.read_text().split() if path.exists() else []
        there = [n for by, n in written if by == name]
        assert there == list(range(len(there)))
        assert len(said) <= len(there) <= len(said) + 1, "at most the line that the kill cut"


# Any text goes into a database and comes back.


@given(text=st.text(st.characters(), max_size=50))
def test_any_text_comes_back_and_is_plain_unicode_without_nul(text: str) -> None:
    stored = storable(text)
    assert restored(stored) == text
    assert b"\0" not in stored.encode("utf-8")


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x10")))
def test_ordinary_text_is_stored_as_it_is(text: str) -> None:
    assert storable(text) == text


@given(name=st.binary(max_size=50))
def test_any_file_name_comes_back(name: bytes) -> None:
    assert os.fsencode(restored(storable(os.fsdecode(name)))) == name


@pytest.mark.parametrize("text", ["\x10", "\x10dce9", "\x1000100000", "\x10\udce9\x10", "\x10xyz"])
def test_what_looks_escaped_is_not_taken_for_it(text: str) -> None:
    assert restored(storable(text)) == text
