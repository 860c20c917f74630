"""Changelog records and users: what a Lustre wrote, whatever names hold; the rest is refused."""

from __future__ import annotations

import contextlib
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fake_lustre.namespace import encoded
from tests.fake_lustre.state import FakeLustre
from tests.reach.hosts import recorded
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import present

from trimtab.base.error import DataError, ToolError
from trimtab.base.site import Servers
from trimtab.reach.lustre import changelog
from trimtab.reach.lustre.changelog import (
    NEEDED,
    ChangelogUser,
    ChangelogUsers,
    Record,
    RecordType,
    parse_records,
    parse_users,
)

_LINE = re.compile(
    r"(?P<index>\d+) (?P<type>\d\d)[A-Z]+ +\S+ \S+ 0x(?P<flags>[0-9a-f]+) t=\[(?P<t>[^]]+)\]"
    r".*? nid=\S+(?: m=\S+)?(?: p=\[(?P<p>[^]]+)\])?(?: (?P<name>[^ ]+))?"
    r"(?: s=\[(?P<s>[^]]+)\] sp=\[(?P<sp>[^]]+)\] (?P<old>[^ ]+))?"
)


def fid(text: str | None) -> bytes | None:
    parts = None if text is None else [int(part, 16) for part in text.split(":")]
    return None if parts is None or not parts[0] else struct.pack(">QII", *parts)


def records_of(name: str) -> list[Record]:
    """Return the records that a running Lustre's `lfs changelog` printed."""
    text = recorded(f"changelog/{name}")
    records = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        assert match is not None, line
        target, parent, source, source_parent = (fid(match[key]) for key in ("t", "p", "s", "sp"))
        last, old_name = ((match[key] or "").encode() for key in ("name", "old"))
        index, kind = int(match["index"]), int(match["type"])
        records.append(
            Record(index, kind, 10**18 + 5, target, parent, last, source, source_parent, old_name)
        )
    return records


@for_each("name", ["008_log0", "012_log1_dne", "dump", "dump_mdt1"])
def test_records_of_a_running_lustre_survive_their_binary_form(name: str) -> None:
    records = records_of(name)
    assert [record.index for record in records] == list(range(1, len(records) + 1))
    assert list(parse_records(b"".join(map(encoded, records)))) == records


def test_a_rename_names_what_was_moved_and_nothing_that_was_overwritten() -> None:
    renames = [record for record in records_of("dump_mdt1") if record.type == RecordType.RENAME]
    assert [(record.old_name, record.name) for record in renames] == [(b"a", b"b"), (b"b", b"b")]
    assert all(record.target is None and record.source is not None for record in renames)


_fids = st.none() | st.builds(
    lambda sequence, number: struct.pack(">QII", sequence, number, 0),
    st.integers(0x2_0000_0400, 2**64 - 1) | st.integers(12, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
_names = st.binary(max_size=255).map(lambda name: name.replace(b"\0", b""))


@st.composite
def _records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(list(RecordType)))
    if kind == RecordType.MARK:
        return Record(draw(st.integers(0, 2**64 - 1)), kind, 0, None, None, mark=0x10000)
    more: dict[str, Any] = {}
    if kind in (RecordType.RENAME, RecordType.MIGRATE):
        more = {
            "source": draw(_fids), "source_parent": draw(_fids), "old_name": draw(_names),
        }  # fmt: skip
    return Record(
        draw(st.integers(0, 2**64 - 1)), kind, draw(st.integers(0, 2**62)),
        draw(_fids), draw(_fids), draw(_names), **more,
    )  # fmt: skip


@given(st.lists(_records(), max_size=5), st.integers(0, 2**32))
@example([Record(1, RecordType.CREATE, 0, None, None, b"a\n2 01CREAT t=[0x1:0x2:0x3] ")], 1)
def test_whatever_extensions_a_record_has_it_says_the_same(
    records: list[Record], seed: int
) -> None:
    rng = random.Random(seed)
    data = b"".join(encoded(record, rng=rng) for record in records)
    assert list(parse_records(data)) == records


@given(_records(), st.integers(0, 2**32), st.data())
def test_a_record_that_is_cut_is_an_error(record: Record, seed: int, data: st.DataObject) -> None:
    whole = encoded(record, rng=random.Random(seed))
    length = data.draw(st.integers(1, len(whole) - 1))
    with raises(DataError, "changelog-unreadable"):
        list(parse_records(whole[:length]))
    # So is an extension that is not known.
    strange = bytearray(encoded(Record(1, RecordType.CLOSE, 0, None, None), rng=random.Random(3)))
    strange[2:4], strange[64:] = (0x9000).to_bytes(2, "little"), (0x20).to_bytes(8, "little")
    with raises(DataError, "changelog-unreadable"):
        list(parse_records(bytes(strange)))


@given(st.binary(max_size=400))
def test_rubbish_is_records_or_an_error_and_nothing_else(data: bytes) -> None:
    records = []
    with contextlib.suppress(DataError):
        records = list(parse_records(data))
    assert len(records) * 64 <= len(data)


# Users -------------------------------------------------------------------------------------------


def test_users_of_a_running_lustre() -> None:
    text = recorded("changelog/014_users_after")
    first = text.partition("mdd.lus-MDT0000.changelog_users=\n")[2].partition("mdd.")[0]
    found = parse_users(first, "MARK CREAT ")
    assert found.index == 8
    assert found.users == (ChangelogUser("cl1", 0, 185), ChangelogUser("cl2-trimtab", 0, 184))
    assert [user.number for user in found.users] == [1, 2]
    assert found.mask == {"MARK", "CREAT"}
    assert found.named("cl2-trimtab") is found.users[1]
    assert found.named("cl2") is None
    mask = re.search(r"MDT0001\.changelog_current_mask=(.*)", recorded("changelog/005_users"))
    assert set(present(mask)[1].split()) >= NEEDED
    for broken in ("", "current_index: 3", "current_index: 3\nID index\ncl1 x (3)", "no\nID x\n"):
        with raises(DataError, "changelog-users-unreadable"):
            parse_users(broken, "")


def test_servers_say_who_reads() -> None:
    fake = FakeLustre.small()
    mds = tuple(sorted({one.server for one in fake.mdts}))
    for number, target in enumerate(fake.mdts):
        target.changelog_index, target.changelog_mask = 40 + number, "MARK CREAT "
        target.changelog_users = [("cl1", 3, 7), ("cl2-trimtab", 12, 9)]
    found = changelog.ask_users(Servers(mds=mds), fake.file_system, fan_out=fake.fan_out)
    assert set(found) == {target.name for target in fake.mdts}
    users = (ChangelogUser("cl1", 3, 7), ChangelogUser("cl2-trimtab", 12, 9))
    assert found["MDT0000"] == ChangelogUsers(40, users, frozenset({"MARK", "CREAT"}))
    assert changelog.ask_users(Servers(mds=mds), "other", fan_out=fake.fan_out) == {}


# Devices -----------------------------------------------------------------------------------------


def test_the_mdts_of_a_client_are_its_devices(tmp_path: Path) -> None:
    names = ("scratch-MDT0001", "scratch-MDT000a", "other-MDT0000", "scratch-MDTx")
    for name in (*(f"changelog-{name}" for name in names), "null"):
        (tmp_path / name).touch()
    assert changelog.mdts_of_client("scratch", tmp_path) == ("MDT0001", "MDT000a")


@pytest.mark.system
def test_a_device_is_read_from_a_record_on_and_to_its_end(tmp_path: Path) -> None:
    """A plain file stands for the device: it counts in bytes where that counts in records."""
    data = bytes(range(256)) * 5000
    (tmp_path / "changelog-scratch-MDT0000").write_bytes(data)
    read = changelog.read_records
    assert read("scratch", "MDT0000", 99, devices=tmp_path) == (data[100:], True)
    part, ended = read("scratch", "MDT0000", 99, devices=tmp_path, limit_bytes=10)
    assert not ended
    assert data[100:].startswith(part)
    assert len(part) >= 10
    with raises(ToolError, "changelog-unreachable", "cannot be read: No such file or directory"):
        read("scratch", "MDT0001", 0, devices=tmp_path)


@pytest.mark.system
def test_clearing_is_one_write(tmp_path: Path) -> None:
    device = tmp_path / "changelog-scratch-MDT0000"
    device.touch()
    changelog.clear_records("scratch", "MDT0000", 2, 4711, devices=tmp_path)
    assert device.read_bytes() == b"clear:cl2:4711\0"
    changelog.clear_records("scratch", "MDT0001", 2, 4711, devices=tmp_path)  # ENOENT: user is gone
    (tmp_path / "changelog-scratch-MDT0002").mkdir()
    with raises(ToolError, "changelog-unreachable", "cannot be cleared: Is a directory"):
        changelog.clear_records("scratch", "MDT0002", 2, 4711, devices=tmp_path)
