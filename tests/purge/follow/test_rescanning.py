"""Records are lost, or servers do not tell of them: the index is right after a look, or says so."""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import polars as pl
import pytest
from click.testing import CliRunner
from tests.fake_lustre.followed import Follower, in_order, scan
from tests.fake_lustre.namespace import ROOT, FakeNamespace, Log, inode_of
from tests.purge.follow.test_following import assert_equal, site_of
from tests.support.codes import raises

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.base.site import Servers
from trimtab.purge import lustre_changes, rescanning
from trimtab.purge.command import purge_command
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.reach.lustre.changelog import list_directories, mdts_of_fids

HOUR_NS = 3600 * 10**9


@pytest.fixture
def lustre() -> FakeNamespace:
    """Ten directories of ten files, one after the other on either of two MDTs."""
    fake = FakeNamespace(2)
    for number in range(10):
        directory = fake.create(ROOT, b"d%d" % number, kind="d", mdt=number % 2)
        for name in range(10):
            fake.create(directory, b"f%d" % name)
    fake.register()
    fake.now_ns += 3 * HOUR_NS
    return fake


def directory_of(lustre: FakeNamespace, number: int) -> bytes:
    return lustre.nodes[ROOT].children[b"d%d" % number]


def lose(lustre: FakeNamespace, follower: Follower, act: Callable[[], object]) -> None:
    """Let something happen while nobody reads the records of MDT0001."""
    lustre.drop(1)
    act()
    lustre.register(mdt=1)
    assert follower.round().manifest.obstacles


def test_files_of_other_mdts_in_untouched_directories_are_not_looked_at(
    lustre: FakeNamespace, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, over = directory_of(lustre, 0), directory_of(lustre, 1)
    lose(lustre, follower, lambda: lustre.rename(to, b"f3", over, b"f3"))
    look = Mock(wraps=lustre.look)
    monkeypatch.setattr(lustre, "look", look)
    assert follower.rescan().obstacles == ()
    looked = {file for call in look.call_args_list for file in call.args[0]}
    files = [set(lustre.nodes[directory_of(lustre, n)].children.values()) for n in range(10)]
    assert files[0] <= looked, "a file was moved out of this one"
    assert all(files[number] <= looked for number in (1, 3, 5, 7, 9))
    assert not any(files[number] & looked for number in (2, 4, 6, 8))
    assert_equal(follower)


def test_a_migration_that_touches_no_directory_is_found_by_listing(follower: Follower) -> None:
    lustre = follower.lustre
    directory = directory_of(lustre, 2)
    file = lustre.nodes[directory].children[b"f5"]
    lose(lustre, follower, lambda: lustre.migrate(file, 1))
    follower.rescan()
    assert file not in follower.rows()["id"].to_list()
    assert follower.rows().equals(in_order(lustre.listing()))


@pytest.mark.parametrize("renamed", [False, True])
def test_a_file_that_was_migrated_and_left_its_directory_is_not_there_any_more(
    lustre: FakeNamespace, follower: Follower, *, renamed: bool
) -> None:
    """Its identifier of before is on an MDT that lost nothing, and no name leads to it."""
    directory, other = directory_of(lustre, 2), directory_of(lustre, 1)
    file = lustre.nodes[directory].children[b"f5"]

    def leave() -> None:
        lustre.migrate(file, 1)
        if renamed:
            lustre.rename(directory, b"f5", other, b"new")
        else:
            lustre.unlink(directory, b"f5")

    lose(lustre, follower, leave)
    assert follower.rescan().obstacles == ()
    assert_equal(follower)


def test_what_lies_in_a_new_directory_that_cannot_be_looked_at_is_not_forgotten(
    lustre: FakeNamespace, follower: Follower
) -> None:
    def create() -> None:
        new = lustre.create(directory_of(lustre, 1), b"new", kind="d")
        lustre.create(new, b"file")
        lustre.broken[new] = errno.EIO

    lose(lustre, follower, create)
    follower.rescan()
    lustre.broken.clear()
    assert_equal(follower)


def test_a_rescan_does_not_say_that_other_mdts_were_read(follower: Follower) -> None:
    lustre = follower.lustre
    lose(lustre, follower, lambda: None)
    before = load_manifest(follower.directory).ended_ns
    change(lustre, 0)
    lustre.now_ns += HOUR_NS
    assert follower.rescan().ended_ns == before
    assert follower.round().manifest.ended_ns > before


def linked(lustre: FakeNamespace, follower: Follower) -> bytes:
    """Return a directory in which a file of another MDT has a second name, ``linked``."""
    here, there = directory_of(lustre, 1), directory_of(lustre, 2)
    lustre.link(lustre.nodes[there].children[b"f1"], here, b"linked")
    follower.catch_up()
    return here


def test_a_name_that_was_removed_changes_the_others(
    lustre: FakeNamespace, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever MDT records it: that of the file, or that of the directory."""
    here = linked(lustre, follower)

    def unlink() -> None:
        with monkeypatch.context() as context:
            context.setattr(lustre, "_log", lambda *_, **__: None)
            lustre.unlink(here, b"linked")

    lose(lustre, follower, unlink)
    follower.rescan()
    assert follower.rows().equals(in_order(lustre.listing()))


def test_renames_to_and_fro_leave_their_time(lustre: FakeNamespace, follower: Follower) -> None:
    """Every name is where it was, and only the time of change of a file is another."""
    here = linked(lustre, follower)

    def to_and_fro() -> None:
        lustre.rename(here, b"linked", here, b"other")
        lustre.rename(here, b"other", here, b"linked")

    lose(lustre, follower, to_and_fro)
    follower.rescan()
    assert follower.rows().equals(in_order(lustre.listing()))


def test_a_file_whose_record_is_there_already_is_recorded_again(follower: Follower) -> None:
    """Else a change between the look and the next clearing would leave no record."""
    lustre = follower.lustre
    file = lustre.nodes[directory_of(lustre, 1)].children[b"f1"]
    lose(lustre, follower, lambda: None)
    lustre.touch(file)
    follower.rescan()
    lustre.touch(file)
    assert_equal(follower)


def test_a_scan_again_stays_asked_for_where_it_cannot_be_done(
    lustre: FakeNamespace, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert follower.rescan().obstacles == (), "nothing was lost, and nothing is done"
    lustre.drop(1)
    follower.round()
    with raises(RefusedError, "changelog-user-missing"):
        follower.rescan()
    lustre.register(mdt=1)
    lustre.silent.add("MDT0001")
    with raises(ToolError, "rescan-incomplete"):
        follower.rescan()
    lustre.silent.clear()
    with monkeypatch.context() as context:
        context.setattr(lustre, "children", lambda files: (set(), {files[0]: 5}))
        with raises(ToolError, "rescan-incomplete"):
            follower.rescan()
    assert load_manifest(follower.directory).obstacles
    assert follower.rescan().obstacles == ()


@pytest.mark.cli
def test_the_command_puts_an_index_right(
    lustre: FakeNamespace, follower: Follower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(lustre, follower, lambda: lustre.create(directory_of(lustre, 1), b"new"))
    words = [
        "follow",
        site_of(lustre, tmp_path, monkeypatch),
        "--index",
        str(tmp_path),
        "--rescan",
        "--json",
    ]
    done = CliRunner().invoke(purge_command, words)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["obstacles"] == []
    assert load_manifest(tmp_path).rows == lustre.listing().height
    words[3] = str(tmp_path / "unfollowed")
    Path(words[3]).mkdir()
    scan(lustre, Path(words[3]))
    done = CliRunner().invoke(purge_command, words)
    assert isinstance(done.exception, UsageError)
    assert done.exception.code == "index-not-followed"


def test_inode_numbers_are_worked_out_alike(lustre: FakeNamespace) -> None:
    ids = [struct.pack(">QII", sequence, number, 0) for sequence, number in (
        (0x2_0000_0402, 7), (0x2_4000_0402, 0x1FFFF), (0x3_0012_3456, 2**24 - 1),
        (0x2_0000_0007, 1), (77, 0), (2**32 - 1, 5), (2**40 - 1, 9),
    )]  # fmt: skip
    frame = pl.DataFrame({"id": ids}, schema={"id": pl.Binary})
    assert frame.select(rescanning._inode()).to_series().to_list() == list(map(inode_of, ids))


@pytest.mark.system
def test_directories_of_this_host_are_listed_by_their_identifier(tmp_path: Path) -> None:
    fid = bytes.fromhex("00000002000004020000000100000000")
    gone, broken = fid[:8] + b"\0\0\0\2\0\0\0\0", fid[:8] + b"\0\0\0\3\0\0\0\0"
    place = tmp_path / ".lustre" / "fid" / "[0x200000402:0x1:0x0]"
    place.mkdir(parents=True)
    names = [b"a\nb", b"\xff", b"c d"]
    for name in names:
        Path(os.fsdecode(os.fsencode(place) + b"/" + name)).touch()
    (place.parent / "[0x200000402:0x3:0x0]").symlink_to("[0x200000402:0x3:0x0]")
    listed = {file: (held, number) for file, held, number in
              list_directories(str(tmp_path), [fid, gone, broken])}  # fmt: skip
    inodes = {os.fsencode(entry.name): entry.inode() for entry in os.scandir(place)}
    assert {name: inode for inode, name in listed[fid][0]} == inodes
    assert set(inodes) == set(names)
    assert listed[gone] == ([], 0)
    live = lustre_changes.LiveChangelogs(
        str(tmp_path), "scratch", Servers(), scan(FakeNamespace(), tmp_path)
    )
    frame, failed = live.list([fid, gone, broken])
    assert dict(frame.select("name", "inode").iter_rows()) == inodes
    assert frame["directory"].unique().to_list() == [fid]
    assert failed.keys() == {broken}
    assert listed[broken][1] != 0
    assert mdts_of_fids(str(tmp_path), [fid, gone]) == {fid: None, gone: None}, "this is no Lustre"
    with raises(ToolError, "listing-failed", "cannot be listed: No such file or directory"):
        list(list_directories(str(tmp_path / "nowhere"), [fid]))


def change(lustre: FakeNamespace, mdt: int) -> None:
    lustre.chown(directory_of(lustre, mdt), 77)


@pytest.mark.parametrize("more", [0, 9])
def test_a_changelog_that_was_begun_anew_is_noticed(
    lustre: FakeNamespace, follower: Follower, more: int
) -> None:
    """Its first user has the name of the one of before."""
    for _ in range(5):
        change(lustre, 1)
    follower.catch_up()
    lustre.logs[1] = Log()
    change(lustre, 1)
    lustre.register(mdt=1)
    change(lustre, 1)
    assert "recreated" in follower.round().manifest.obstacles[0]
    for _ in range(more):
        change(lustre, 1)
    manifest = follower.catch_up()
    assert manifest.obstacles
    assert manifest.followed is not None
    assert lustre.logs[1].index == manifest.followed.mdts[1].mark
    assert lustre.refused == 0
    assert follower.rescan().obstacles == ()


def test_an_mdt_that_only_servers_know_is_one_that_is_not_followed(
    lustre: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(lustre, tmp_path)
    follower = Follower(lustre, tmp_path)
    users = lustre.users()
    with monkeypatch.context() as context:
        context.setattr(lustre, "mdts", lambda: ["MDT0000"])
        context.setattr(lustre, "users", lambda: users)
        with raises(RefusedError, "changelog-missing"):
            follower.begin()
    follower.begin()
    assert follower.round().manifest.obstacles == ()
    added = {**lustre.users(), "MDT0002": users["MDT0001"]}
    monkeypatch.setattr(lustre, "users", lambda: added)
    assert "added after the scan" in follower.round().manifest.obstacles[0]


def test_an_index_is_as_old_as_what_was_not_read(lustre: FakeNamespace, follower: Follower) -> None:
    before = follower.round().manifest.ended_ns
    for _ in range(4):
        change(lustre, 1)
    lustre.now_ns += HOUR_NS
    lustre.silent.add("MDT0001")
    assert follower.round().manifest.ended_ns == before
    lustre.silent.clear()
    lustre.read_maximum = 2
    assert follower.round().manifest.ended_ns == before
    assert follower.round().manifest.ended_ns > before


def test_that_a_user_is_gone_is_noticed_where_nothing_can_be_read(
    lustre: FakeNamespace, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ToolError("the changelog cannot be read", code="changelog-unreachable")
    monkeypatch.setattr(lustre, "read", Mock(side_effect=error))
    with raises(ToolError, "changelog-unreachable"):
        follower.round()
    lustre.drop(0)
    lustre.drop(1)
    assert len(follower.round().manifest.obstacles) == 2
