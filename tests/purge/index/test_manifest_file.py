"""The manifest: comes back as it was, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.manifests import manifest as of_scan

from trimtab.base.error import DataError, UnreadableError
from trimtab.purge.index.manifest import (
    FileSystemIdentity,
    IndexSource,
    Lack,
    Manifest,
    Refused,
    Shard,
    TimeTrust,
    Unread,
)
from trimtab.purge.index.manifest_file import from_json, load_manifest, save_manifest, to_json

WHOLE = replace(
    of_scan("/scratch", 2 * 10**9, lacking=frozenset({Lack.PROJECT})),
    filesystem=FileSystemIdentity("lustre", "scratch", 5, 6),
    started_ns=1,
    shards=(Shard("a.parquet", 3, 5, None),),
)

texts = st.text(max_size=8).filter(lambda text: text.isprintable())
manifests = st.builds(
    replace,
    st.just(WHOLE),
    root=st.binary(max_size=8).map(lambda path: b"/" + path),
    filesystem=st.none() | st.builds(FileSystemIdentity, texts, texts | st.none()),
    source=st.sampled_from(IndexSource),
    times=st.sampled_from(TimeTrust),
    lacking=st.frozensets(st.sampled_from(Lack)),
    complete=st.just(False),
    started_ns=st.none() | st.integers(0, 2 * 10**18),
    unread=st.lists(st.builds(Unread, st.binary(max_size=5), texts), max_size=3).map(tuple),
    refused=st.integers(1, 2**40),
    refused_examples=st.just((Refused(4, None, "why", "text"),)),
    notes=st.lists(texts, max_size=2).map(tuple),
    vanished=st.integers(0, 2**62),
)


@given(manifests)
def test_a_manifest_comes_back_as_it_was(manifest: Manifest) -> None:
    assert from_json(to_json(manifest)) == manifest
    assert to_json(manifest).isascii()


def _changed(**values: object) -> str:
    return json.dumps({**json.loads(to_json(WHOLE)), **values})


def test_an_index_of_an_unreleased_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(_changed(schema_version=1))
    with raises(DataError, "format-unreleased", "manifest.json") as caught:
        load_manifest(tmp_path)
    assert "trimtab purge scan" in (caught.value.hint or "")


@pytest.mark.parametrize("key", sorted(json.loads(to_json(WHOLE))))
def test_every_key_of_a_manifest_is_required(key: str) -> None:
    document = json.loads(to_json(WHOLE))
    del document[key]
    with pytest.raises(DataError):
        from_json(json.dumps(document))


@for_each(
    "text, said",
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ('{"schema_version": NaN}', "not JSON"),
        ('{"schema_version": 1, "schema_version": 1}', "twice"),
        ("{}", "version None"),
        ('{"schema_version": 2}', "atime_settings is missing"),
        (_changed(schema_version=3), "version 3"),
        (_changed(surprise=1), "surprise is unknown"),
        (_changed(root="scratch"), "absolute"),
        (_changed(root="/a b"), "root is not in"),
        (_changed(root="/%zz"), "root is not in"),
        (_changed(root=5), "root: "),
        (_changed(source="guess"), "source"),
        (_changed(times="exact"), "times"),
        (_changed(lacking=["soul"]), "lacking"),
        (_changed(complete=1), "complete"),
        (_changed(complete="false"), "complete"),
        (_changed(ended_ns=1.5), "ended_ns"),
        (_changed(ended_ns=True), "ended_ns"),
        (_changed(ended_ns=-1), "ended_ns"),
        (_changed(started_ns=3 * 10**18), "later"),
        (_changed(time_resolution_ns=0), "time_resolution_ns"),
        (_changed(rows=4), "rows is not in"),
        (_changed(size_bytes=4), "size_bytes is not in"),
        (_changed(can_delete="yes"), "can_delete"),
        (_changed(refused=1, can_delete=False), "complete is true"),
        (_changed(unread=[{"path": "", "reason": "x"}], can_delete=False), "complete is true"),
        (_changed(unread=[{"path": ""}]), "unread.0.reason: "),
        (_changed(unread=[{"path": "", "reason": "x", "more": 1}]), "unread is not in"),
        (_changed(filesystem={"kind": "ext4"}), "filesystem is not in"),
        (_changed(shards=None), "shards: "),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        from_json(text)
    assert said in caught.value.message


SHARD = {"name": "a", "rows": 3, "size_bytes": 5, "sha256": None}


@for_each(
    "shards",
    [
        *([SHARD | {"name": name}] for name in ("../x", "", ".", "a/b", "/etc/passwd", "a\0b")),
        [SHARD, SHARD],
    ],
)
def test_a_shard_lies_in_the_index_and_counts_once(shards: list[dict[str, object]]) -> None:
    many = len(shards)
    with raises(DataError, "manifest-contradictory"):
        from_json(_changed(shards=shards, rows=3 * many, size_bytes=5 * many))


def test_an_index_is_loaded_with_its_shards(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"12345")
    save_manifest(WHOLE, tmp_path)
    assert load_manifest(tmp_path) == WHOLE
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert (tmp_path / "manifest.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, b"1234", b"123456"])
def test_a_shard_that_is_not_there_is_missed(tmp_path: Path, content: bytes | None) -> None:
    save_manifest(WHOLE, tmp_path)
    if content is not None:
        (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet"):
        load_manifest(tmp_path)


def test_a_shard_may_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"12345")
    (tmp_path / "a.parquet").symlink_to("elsewhere")
    save_manifest(WHOLE, tmp_path)
    with raises(DataError, "shard-unreadable"):
        load_manifest(tmp_path)


def test_a_directory_without_manifest_is_no_index(tmp_path: Path) -> None:
    with raises(UnreadableError, "index-missing"):
        load_manifest(tmp_path)


def test_only_a_whole_index_of_known_identity_can_delete() -> None:
    assert WHOLE.can_delete
    shortcomings = {
        "only by name": replace(WHOLE, lacking=frozenset({Lack.IDENTITY})),
        "line feed": replace(WHOLE, lacking=frozenset({Lack.PLAIN_NAMES})),
        "could not be read": replace(WHOLE, complete=False, refused=1),
        "subtrees": replace(WHOLE, complete=False, unread=(Unread(b"a", "EACCES"),)),
        "everything beneath": replace(WHOLE, complete=False),
        "time of the scan": replace(WHOLE, started_ns=None),
        "its file system": replace(WHOLE, filesystem=None),
    }
    for said, manifest in shortcomings.items():
        (obstacle,) = manifest.obstacles
        assert said in obstacle
        assert not manifest.can_delete


def test_whether_an_index_can_delete_is_not_believed_but_worked_out() -> None:
    assert from_json(_changed(can_delete=False)).can_delete
    assert not from_json(_changed(can_delete=True, filesystem=None)).can_delete


def test_a_file_system_is_known_again() -> None:
    ext4, lustre = FileSystemIdentity("ext4", "/dev/sda1", 7, 8), WHOLE.filesystem
    assert lustre is not None
    assert ext4.is_same(replace(ext4, name="/dev/sdb1", device=9))
    assert lustre.is_same(replace(lustre, fsid=3))
    for other in (replace(ext4, fsid=6), replace(ext4, fsid=None)):
        assert not ext4.is_same(other)
    for other in (replace(lustre, name="home"), replace(lustre, kind="ext4")):
        assert not lustre.is_same(other)
    assert not FileSystemIdentity("ext4").is_same(FileSystemIdentity("ext4"))
