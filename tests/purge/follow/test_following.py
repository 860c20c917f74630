"""Following a Lustre: each trap of changelogs by itself, what readers see, and the command."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tests.fake_lustre.followed import Follower, Users, in_order, scan
from tests.fake_lustre.namespace import ROOT, FakeNamespace
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab._core import Rules, select, tally
from trimtab.base.error import DataError, RefusedError, UsageError
from trimtab.base.site import Servers
from trimtab.purge import following, lustre_changes
from trimtab.purge.command import purge_command
from trimtab.purge.follow_decision import HEARTBEAT_S, TRIES_MAX, Clear
from trimtab.purge.index import index_view
from trimtab.purge.index.dask_pieces import holdings, pieces
from trimtab.purge.index.index_query import By
from trimtab.purge.index.manifest import (
    FileSystemIdentity,
    IndexSource,
    Lack,
    Manifest,
    shard_paths,
)
from trimtab.purge.index.manifest_file import load_manifest, save_manifest
from trimtab.purge.index.shard import ShardWriter
from trimtab.purge.purge_policy import Policy
from trimtab.purge.rules_in_force import ReadRecording, rules_in_force

OTHER = FileSystemIdentity("lustre", "other")


def directory_of(lustre: FakeNamespace) -> bytes:
    return lustre.nodes[ROOT].children[b"d"]


def file_of(lustre: FakeNamespace, name: bytes = b"a") -> bytes:
    return lustre.nodes[directory_of(lustre)].children[name]


def assert_equal(follower: Follower) -> None:
    assert follower.catch_up().obstacles == ()
    assert follower.rows().equals(in_order(follower.lustre.listing()))


# Traps -------------------------------------------------------------------------------------------


def test_a_change_whose_record_is_suppressed_is_found_after_the_next_clearing(
    lustre: FakeNamespace, follower: Follower
) -> None:
    file = file_of(lustre)
    lustre.touch(file)
    assert follower.round().records == 1
    index = lustre.logs[1].index
    lustre.touch(file)  # between look and clearing
    assert lustre.logs[1].index == index, "no record tells of it"
    assert_equal(follower)


def test_a_user_dropped_by_garbage_collection_is_a_reason_to_scan_again(follower: Follower) -> None:
    lustre = follower.lustre
    lustre.drop(1, "-trimtab")
    lustre.write(file_of(lustre), 77)
    (obstacle,) = obstacles = follower.round().manifest.obstacles
    assert obstacle.startswith("MDT0001 must be scanned again (purge follow --rescan): ")
    assert obstacle.endswith(": its changelog user cl1-trimtab is gone")
    lustre.register()
    assert follower.round().manifest.obstacles == obstacles, "what was missed stays missed"


def test_nothing_is_ever_cleared_backwards(lustre: FakeNamespace, follower: Follower) -> None:
    """Before 2.17.57 that removes the user, and every one registered later."""
    lustre.register("other")
    for size in range(5):
        lustre.write(file_of(lustre), size)
        follower.round()
    follower.catch_up()
    marks = [order.index for order in lustre.cleared if order.mdt == "MDT0001"]
    assert marks == sorted(set(marks))
    assert (lustre.refused, len(lustre.logs[1].users)) == (0, 2)
    lustre.clear(Clear("MDT0001", 1, 1))
    assert lustre.logs[1].users == {}, "the fake does what a server of before did"


def test_a_rename_across_mdts_is_one_record(lustre: FakeNamespace, follower: Follower) -> None:
    lustre.create(ROOT, b"e", kind="d", mdt=0)
    assert_equal(follower)
    indices = [log.index for log in lustre.logs]
    lustre.rename(directory_of(lustre), b"a", lustre.nodes[ROOT].children[b"e"], b"moved")
    assert [log.index for log in lustre.logs] == [indices[0] + 1, indices[1]]
    assert_equal(follower)


def test_a_renamed_directory_takes_what_is_beneath_with_it(follower: Follower) -> None:
    lustre = follower.lustre
    lustre.rename(ROOT, b"d", ROOT, b"d d\n")
    done = follower.round()
    assert (done.records, done.looked) == (1, 2), "the directory and the root alone are looked at"
    assert_equal(follower)


def test_a_migration_gives_a_new_identity_and_keeps_what_is_beneath(follower: Follower) -> None:
    lustre = follower.lustre
    old = directory_of(lustre)
    new = lustre.migrate(old, 0)
    lustre.rename(ROOT, b"d", ROOT, b"elsewhere")
    assert_equal(follower)
    ids = follower.rows()["id"].to_list()
    assert new in ids
    assert old not in ids


def test_reads_leave_no_record_and_the_index_says_so(follower: Follower) -> None:
    lustre = follower.lustre
    lustre.read_file(file_of(lustre))
    manifest = follower.catch_up()
    assert Lack.READS in manifest.lacking
    assert any("record no reads" in note for note in manifest.notes)
    assert not follower.rows().equals(in_order(lustre.listing()))
    lustre.write(file_of(lustre), 3)
    assert_equal(follower)


def test_an_idle_user_is_kept_alive(lustre: FakeNamespace, follower: Follower) -> None:
    lustre.create(ROOT, b"on the other MDT")
    follower.catch_up()
    before = len(lustre.cleared)
    for _ in range(3):
        follower.round()
    assert len(lustre.cleared) == before
    lustre.now_ns += HEARTBEAT_S * 10**9
    follower.round()
    assert len(lustre.cleared) == before + 2


def test_a_silent_mdt_is_waited_for(lustre: FakeNamespace, follower: Follower) -> None:
    lustre.silent.add("MDT0001")
    lustre.write(file_of(lustre), 9)
    done = follower.round()
    assert (done.silent, done.records, done.manifest.obstacles) == (("MDT0001",), 0, ())
    lustre.silent.clear()
    assert_equal(follower)


def test_a_file_that_cannot_be_looked_at_is_tried_again_and_then_told(follower: Follower) -> None:
    lustre = follower.lustre
    file = file_of(lustre)
    lustre.broken[file] = errno.EIO
    lustre.write(file, 9)
    for _ in range(3):
        assert follower.round().unknown == 1
    del lustre.broken[file]
    assert_equal(follower)
    lustre.broken[file] = errno.EIO
    lustre.write(file, 10)
    manifest = _given_up(follower)
    assert manifest.obstacles == (UNREADABLE,)
    assert manifest.followed is not None
    assert manifest.followed.again is None


def moved_while_scanned(lustre: FakeNamespace, place: Path) -> tuple[Follower, bytes]:
    """Return a follower, and a directory that it cannot read but has to walk."""
    moved = directory_of(lustre)
    moves = [lambda: lustre.rename(ROOT, b"d", ROOT, b"moved")]
    scan(lustre, place, during=lambda: moves.pop()() if moves else None)
    follower = Follower(lustre, place)
    follower.begin()
    lustre.unreadable[moved] = errno.EIO
    return follower, moved


def test_a_directory_that_cannot_be_read_is_walked_again_and_only_then_told(
    lustre: FakeNamespace, tmp_path: Path
) -> None:
    """What moved while the scan ran is looked at with everything beneath it."""
    follower, moved = moved_while_scanned(lustre, tmp_path)
    for _ in range(3):
        done = follower.round()
        assert (done.unknown, done.manifest.obstacles) == (1, ())
    lustre.unreadable.clear()
    assert_equal(follower)
    lustre.unreadable[moved] = errno.EIO
    assert follower.round().unknown == 0, "nobody asks for it any more"


def test_what_cannot_be_read_for_long_is_told_with_its_error(
    lustre: FakeNamespace, tmp_path: Path
) -> None:
    follower, _ = moved_while_scanned(lustre, tmp_path)
    assert _given_up(follower).obstacles == (UNREADABLE,)


UNREADABLE = "it must be scanned again: 1 file could not be looked at: Input/output error"


def _given_up(follower: Follower) -> Manifest:
    return [follower.round().manifest for _ in range(TRIES_MAX)][-1]


def test_what_was_to_be_looked_at_again_is_read_as_it_was_written_before(
    lustre: FakeNamespace, follower: Follower
) -> None:
    lustre.write(file_of(lustre), 9)
    followed = follower.round().manifest.followed
    assert followed is not None
    assert followed.again is not None
    file = follower.directory / followed.again.name
    now = index_view.read_again(follower.directory, followed)
    pl.read_parquet(file).drop("beneath").write_parquet(file)
    assert index_view.read_again(follower.directory, followed) == now


def test_a_file_with_more_names_than_lustre_keeps_is_told(
    lustre: FakeNamespace, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, look = file_of(lustre), lustre.look
    lustre.link(file, ROOT, b"another")

    def short(files: list[bytes]) -> lustre_changes.LookedUp:
        answer = look(files)
        rows = answer.rows.filter(pl.col("name") != b"another")
        return lustre_changes.LookedUp(answer.root, rows, answer.gone, {}, frozenset({file}))

    monkeypatch.setattr(lustre, "look", short)
    (obstacle,) = follower.round().manifest.obstacles
    assert obstacle.endswith("Lustre does not keep all names of 1 file")


def test_an_mdt_that_is_added_is_a_reason_to_scan_again(follower: Follower) -> None:
    lustre = follower.lustre
    lustre.logs.append(type(lustre.logs[0])())
    (obstacle,) = follower.round().manifest.obstacles
    assert obstacle.startswith("MDT0002 must be scanned again (purge follow --rescan): ")
    assert obstacle.endswith(": added after the scan")


def test_small_shards_are_merged(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    lustre = follower.lustre
    monkeypatch.setattr(lustre_changes, "DELTAS_MAX", 2)
    for number in range(6):
        lustre.write(file_of(lustre), number)
        manifest = follower.round().manifest
        assert index_view.deltas(manifest) <= 2
    assert_equal(follower)


def test_replaced_files_stay_for_who_reads_them(lustre: FakeNamespace, follower: Follower) -> None:
    def present() -> set[str]:
        return {file.name for file in follower.directory.iterdir()}

    lustre.write(file_of(lustre), 1)
    before = index_view.files_of(follower.round().manifest)
    (follower.directory / "mine.parquet").touch()
    os.utime(follower.directory / "mine.parquet", (0, 0))
    lustre.write(file_of(lustre), 2)
    after = index_view.files_of(follower.round().manifest)
    assert before - after
    assert before <= present()
    lustre.now_ns += index_view.RETIRED_S * 10**9
    last = index_view.files_of(follower.round().manifest)
    assert not (before - after - last) & present()
    assert last | {"mine.parquet"} <= present()


# Beginning ---------------------------------------------------------------------------------------


def _nobody(lustre: FakeNamespace) -> None:
    lustre.drop(1)


def _registered_since(lustre: FakeNamespace) -> None:
    lustre.now_ns += 100 * 10**9
    lustre.drop(1)
    lustre.register()
    lustre.drop(0, "cl2-trimtab")
    lustre.now_ns += 10**9


@for_each(
    "manifest, happens, kind, code",
    [
        ({"source": IndexSource.LFS_FIND}, None, UsageError, "index-unfollowable"),
        ({"filesystem": OTHER}, None, UsageError, "index-unfollowable"),
        ({"complete": False}, None, UsageError, "index-unfollowable"),
        ({}, _nobody, RefusedError, "changelog-user-missing"),
        ({}, _registered_since, RefusedError, "changelog-too-late"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    manifest: dict[str, Any],
    happens: Callable[[FakeNamespace], None] | None,
    kind: type[UsageError],
    code: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("index")
    lustre = FakeNamespace(2)
    lustre.register()
    lustre.create(ROOT, b"a")
    scanned = scan(lustre, directory)
    if happens is not None:
        happens(lustre)
    save_manifest(replace(scanned, **manifest), directory)
    with raises(kind, code):
        Follower(lustre, directory).begin()
    assert load_manifest(directory).followed is None


def test_two_do_not_follow_one_index(tmp_path: Path) -> None:
    with following.alone(tmp_path), raises(UsageError, "index-followed"), following.alone(tmp_path):
        pass


def _rules(manifest: Manifest) -> Rules:
    policy, now_s = Policy("all", "/scratch"), manifest.as_of_s
    return rules_in_force(policy, manifest, ReadRecording(), now_s=now_s).core()


# Readers -----------------------------------------------------------------------------------------


def _changed(lustre: FakeNamespace, follower: Follower) -> Path:
    """Return an index of the same rows without changes beside it, once many have been made."""
    Users(lustre, random.Random(5)).act(60)
    follower.catch_up()
    manifest = load_manifest(follower.directory)
    assert index_view.deltas(manifest)
    assert any(shard.superseded for shard in manifest.shards)
    fresh = follower.directory / "fresh"
    fresh.mkdir()
    writer = ShardWriter(fresh, once=False)
    writer.add(follower.rows())
    save_manifest(replace(manifest, shards=writer.finish(), followed=None), fresh)
    return fresh


def test_base_and_changes_are_read_as_one(lustre: FakeNamespace, follower: Follower) -> None:
    places = (follower.directory, _changed(lustre, follower))
    rules = _rules(load_manifest(follower.directory))
    before_s = load_manifest(follower.directory).as_of_s + 10**6
    found = []
    for place in places:
        manifest = load_manifest(place)
        shards, each = shard_paths(place, manifest), pieces(place, manifest, most_bytes=1)
        assert list(itertools.chain(*each)) == shards
        whole = tally(shards, rules, users=True).to_bytes()
        first, *others = (tally(piece, rules, users=True) for piece in each)
        for part in others:
            first.merge(part)
        assert first.to_bytes() == whole
        out = place / "candidates"
        select(shards, rules, before_s=before_s, out=str(out))
        chosen = pl.read_parquet(out).sort("parent", "name").rows()
        found.append((whole, chosen, holdings(place, By.USER, top=100).frame.rows()))
    assert found[0] == found[1]


def test_rows_that_count_no_more_have_to_be_what_was_written(follower: Follower) -> None:
    lustre = follower.lustre
    _changed(lustre, follower)
    manifest = load_manifest(follower.directory)
    shard = next(shard for shard in manifest.shards if shard.superseded)
    assert shard.superseded is not None
    file, path = (follower.directory / one.name for one in (shard.superseded, shard))
    for content in (b"\1\0\0\0\0\0\0\0", b"\0\0\0", (10**6).to_bytes(4, "little")):
        file.write_bytes(content)
        with pytest.raises(DataError, match="superseded"):
            tally([(str(path), str(file))], _rules(manifest))
    file.write_bytes(b"\0" * (file.stat().st_size + 4))
    with raises(DataError, "shard-changed"):
        load_manifest(follower.directory)


# The command -------------------------------------------------------------------------------------


SITE = """\
[site]
name = "scratch"
path = "/scratch"
driver = "lustre"
file_system = "scratch"

[servers]
mds = "mds1"
"""


def site_of(lustre: FakeNamespace, place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the site file of a fake Lustre, which the command then follows."""
    monkeypatch.setattr(following, "LiveChangelogs", lambda *_, **__: lustre)
    monkeypatch.setattr(following, "require_answer", lambda *_: None)
    (place / "scratch.toml").write_text(SITE)
    return str(place / "scratch.toml")


def _run(*words: object) -> Result:
    done = CliRunner().invoke(purge_command, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.cli
def test_from_the_command_to_a_query(
    lustre: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(lustre, tmp_path)
    lustre.write(file_of(lustre), 123_456)
    lustre.rename(ROOT, b"d", ROOT, b"renamed")
    site = site_of(lustre, tmp_path, monkeypatch)
    at = datetime.fromtimestamp(lustre.now_ns / 10**9 + 60, UTC)
    monkeypatch.setattr(following, "utc_now", lambda: at)
    lustre.now_ns += 60 * 10**9
    done = _run("follow", site, "--index", tmp_path, "--once", "--json")
    document = json.loads(done.stdout)
    assert document["obstacles"] == []
    marks = {mdt["mdt"]: mdt["mark"] for mdt in document["followed"]["mdts"]}
    assert marks == {f"MDT{number:04x}": log.index for number, log in enumerate(lustre.logs)}
    assert "reads since the scan" in document["lacking"]
    assert "records" in done.stderr
    question = "select path, size_bytes from files order by path"
    asked = _run("query", "--index", tmp_path, "--json", question)
    rows = [tuple(row.values()) for row in json.loads(asked.stdout)["rows"]]
    assert rows == [("renamed/a", 123_456), ("renamed/b", 0)]
    assert "followed" in _run("follow", site, "--index", tmp_path, "--compact").stdout
    assert index_view.deltas(load_manifest(tmp_path)) == 0


# Live --------------------------------------------------------------------------------------------


@pytest.mark.system
def test_files_are_looked_at_by_what_lustre_keeps_with_them(
    lustre: FakeNamespace, tmp_path: Path
) -> None:
    """What Lustre keeps in `trusted` attributes any file system keeps for root."""
    root, fids = tmp_path, tmp_path / ".lustre" / "fid"
    fids.mkdir(parents=True)
    lustre.link(file_of(lustre), ROOT, b"second\n")
    lustre.write(file_of(lustre), 5000)
    manifest = scan(lustre, tmp_path)
    try:
        _attributes(root, ROOT, [])
    except OSError as error:
        pytest.skip(f"no trusted attributes here: {error}")
    for fid, node in lustre.nodes.items():
        place = fids / _shown(fid)
        place.mkdir() if node.kind == "d" else place.write_bytes(b"x" * node.size)
        _attributes(place, fid, node.names)
    inside = fids / _shown(directory_of(lustre)) / "b"
    inside.touch()
    _attributes(inside, file_of(lustre, b"b"), [])
    live = lustre_changes.LiveChangelogs(str(root), "scratch", Servers(), manifest)
    missing = bytes.fromhex("00000002000004020000ffff00000000")
    looked = live.look([*lustre.nodes, missing])
    expected = lustre.look(list(lustre.nodes)).rows
    files, key = pl.col("type") == "f", ["parent", "name"]
    for which, same in ((files, [*key, "id", "id_kind", "size_bytes", "type"]), (~files, key)):
        found, known = (rows.filter(which).select(same) for rows in (looked.rows, expected))
        assert found.sort(key).equals(known.sort(key))
    assert (looked.root, looked.gone, looked.failed) == (ROOT, {missing, ROOT}, {})
    assert live.children([directory_of(lustre), missing, file_of(lustre)]) == (
        {file_of(lustre, b"b")}, {},
    )  # fmt: skip


def _shown(fid: bytes) -> str:
    parts = fid[:8], fid[8:12], fid[12:]
    return f"[{':'.join(f'{int.from_bytes(part):#x}' for part in parts)}]"


def _attributes(path: Path, fid: bytes, names: list[tuple[bytes, bytes]]) -> None:
    wire = fid[:8][::-1] + fid[8:12][::-1] + fid[12:][::-1]
    os.setxattr(path, "trusted.lma", bytes(8) + wire)
    entries = b"".join((18 + len(name)).to_bytes(2) + parent + name for parent, name in names)
    head = (0x11EAF1DF).to_bytes(4, "little") + len(names).to_bytes(4, "little")
    head += (24 + len(entries)).to_bytes(8, "little") + bytes(8)
    os.setxattr(path, "trusted.link", head + entries)


# Stripes -----------------------------------------------------------------------------------------


def _at(lustre: FakeNamespace, name: bytes) -> bytes:
    return lustre.nodes[ROOT].children[name]


def test_files_of_striped_directories_are_followed_by_what_their_stripe_belongs_to(
    lustre: FakeNamespace, striped: Follower
) -> None:
    one, other = _at(lustre, b"s"), _at(lustre, b"t")
    lustre.create(one, b"new")
    lustre.write(lustre.nodes[one].children[b"f0"], 7)
    lustre.rename(one, b"f1", one, b"g")
    lustre.rename(one, b"f2", other, b"from s")
    lustre.link(lustre.nodes[one].children[b"f3"], other, b"linked")
    lustre.unlink(other, b"f0")
    assert striped.round().unknown == 0
    assert_equal(striped)


def test_a_renamed_striped_directory_takes_what_is_in_its_stripes_with_it(
    lustre: FakeNamespace, striped: Follower
) -> None:
    lustre.write(lustre.nodes[_at(lustre, b"s")].children[b"f0"], 7)
    lustre.rename(ROOT, b"s", directory_of(lustre), b"deeper")
    assert_equal(striped)
    assert b"d/deeper" in striped.rows()["parent"].to_list()


def test_the_stripes_of_a_removed_directory_are_gone_with_it(striped: Follower) -> None:
    lustre = striped.lustre
    directory = _at(lustre, b"s")
    stripes = lustre.nodes[directory].stripes
    lustre.write(lustre.nodes[directory].children[b"f0"], 7)
    for name in list(lustre.nodes[directory].children):
        lustre.unlink(directory, name)
    lustre.unlink(ROOT, b"s")
    assert lustre.look(stripes).gone == set(stripes)
    assert_equal(striped)


def test_migrated_and_split_directories_have_stripes_too(striped: Follower) -> None:
    lustre = striped.lustre
    migrated = lustre.migrate(directory_of(lustre), 0)
    lustre.write(lustre.nodes[migrated].children[b"a"], 7)
    assert_equal(striped)
    plain = lustre.create(ROOT, b"plain", kind="d")
    lustre.create(plain, b"x")
    assert_equal(striped)
    successor = lustre.split(plain)
    assert lustre.nodes[successor].stripes[0] == plain, "the directory became a stripe"
    lustre.create(successor, b"y")
    lustre.write(lustre.nodes[successor].children[b"x"], 8)
    assert striped.round().unknown == 0
    assert_equal(striped)
    assert plain not in striped.rows()["id"].to_list()


def test_a_record_that_names_a_stripe_is_about_the_directory(striped: Follower) -> None:
    """A record of attributes may name as parent whatever a record before it left there."""
    lustre = striped.lustre
    directory = _at(lustre, b"s")
    lustre.chown(directory, 77)
    log = lustre.logs[lustre.nodes[directory].mdt]
    log.records[-1] = replace(
        log.records[-1], target=None, parent=lustre.nodes[directory].stripes[0]
    )
    assert striped.round().unknown == 0
    assert_equal(striped)


def test_a_directory_that_somebody_named_like_a_stripe_keeps_its_files(follower: Follower) -> None:
    """Nothing that a user names could lead a purge past files, or to where they are not."""
    lustre = follower.lustre
    above, name = next(iter(lustre.nodes[directory_of(lustre)].names))
    sequence, number, version = struct.unpack(">QII", directory_of(lustre))
    own = b"[%#x:%#x:%#x]:0" % (sequence, number, version)
    lustre.rename(above, name, above, own)
    assert_equal(follower)
    assert own in follower.rows()["parent"].to_list()
