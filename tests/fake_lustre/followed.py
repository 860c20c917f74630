"""Who works on a fake Lustre, who scans it, and who follows it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import polars as pl
from tests.fake_lustre.namespace import ROOT, FakeNamespace
from tests.purge.index.imports import load_verified

from trimtab.purge import following, rescanning
from trimtab.purge.index.index_view import scanned
from trimtab.purge.index.manifest import FileSystemIdentity, IndexSource, Manifest, TimeTrust
from trimtab.purge.index.manifest_file import save_manifest
from trimtab.purge.index.shard import ShardWriter, columns
from trimtab.reach.lustre.changelog import RecordType

if TYPE_CHECKING:
    from trimtab.purge.lustre_changes import LiveChangelogs

NAMES = (b"a", b"b", b"c\nd", b"[0x1:0x2:0x3]:0", b"\xff")


class Users:
    """People who do something at random."""

    def __init__(self, lustre: FakeNamespace, rng: random.Random) -> None:
        self.lustre, self.rng = lustre, rng

    def act(self, times: int = 1) -> None:
        for _ in range(times):
            self.rng.choice(self._acts())()

    def _acts(self) -> list[Callable[[], None]]:
        return [
            self._create, self._create, self._mkdir, self._mkdir, self._link, self._unlink,
            self._rename, self._rename, self._rename_directory, self._write, self._touch,
            self._chown, self._migrate, self._split,
        ]  # fmt: skip

    def _some(self, kind: str) -> bytes | None:
        found = [fid for fid, node in self.lustre.nodes.items() if node.kind == kind]
        return self.rng.choice(found) if found else None

    def _directory(self) -> bytes:
        return self._some("d") or ROOT

    def _create(self) -> None:
        directory, name = self._directory(), self.rng.choice(NAMES)
        if name not in self.lustre.nodes[directory].children:
            self.lustre.create(directory, name, kind=self.rng.choice("ffl"))

    def _mkdir(self) -> None:
        directory, name = self._directory(), self.rng.choice(NAMES)
        if name not in self.lustre.nodes[directory].children:
            mdt = self.rng.choice((None, *range(len(self.lustre.logs))))
            stripes = self.rng.choice((0, 0, len(self.lustre.logs)))
            self.lustre.create(directory, name, kind="d", mdt=mdt, stripes=stripes)

    def _link(self) -> None:
        fid, directory, name = self._some("f"), self._directory(), self.rng.choice(NAMES)
        if fid is not None and name not in self.lustre.nodes[directory].children:
            self.lustre.link(fid, directory, name)

    def _unlink(self) -> None:
        directory = self._directory()
        children = self.lustre.nodes[directory].children
        empty = [name for name, fid in children.items() if not self.lustre.nodes[fid].children]
        if empty:
            self.lustre.unlink(directory, self.rng.choice(empty))

    def _rename(self) -> None:
        self._move(self._directory())

    def _rename_directory(self) -> None:
        directory = self._some("d")
        if directory is not None and directory != ROOT:
            parent, name = self.lustre.nodes[directory].names[0]
            self._move(parent, name)

    def _move(self, parent: bytes, name: bytes | None = None) -> None:
        nodes = self.lustre.nodes
        children = nodes[parent].children
        if not children:
            return
        name = name or self.rng.choice(list(children))
        moved, to, as_name = children[name], self._directory(), self.rng.choice(NAMES)
        above = to
        while above != ROOT:
            if above == moved:
                return  # into itself
            above = nodes[above].names[0][0]
        over = nodes[to].children.get(as_name)
        if over is not None and (
            nodes[over].children or (nodes[over].kind == "d") != (nodes[moved].kind == "d")
        ):
            return
        self.lustre.rename(parent, name, to, as_name)

    def _write(self) -> None:
        if (fid := self._some("f")) is not None:
            self.lustre.write(fid, self.rng.randrange(10**6))

    def _touch(self) -> None:
        if (fid := self._some("f")) is not None:
            self.lustre.touch(fid, self.rng.choice((RecordType.MTIME, RecordType.CTIME)))

    def _chown(self) -> None:
        if (fid := self._some(self.rng.choice("fd"))) is not None and fid != ROOT:
            self.lustre.chown(fid, self.rng.randrange(1000, 1004))

    def _migrate(self) -> None:
        fid = self._some(self.rng.choice("fd"))
        if fid is not None and fid != ROOT and self.lustre.nodes[fid].names:
            self.lustre.migrate(fid, self.rng.randrange(len(self.lustre.logs)))

    def _split(self) -> None:
        if (fid := self._some("d")) is not None and fid != ROOT:
            self.lustre.split(fid)


def scan(
    lustre: FakeNamespace, directory: Path, *, during: Callable[[], None] = lambda: None
) -> Manifest:
    """Make the index of a scan that others work beside."""
    started_ns = lustre.now_ns
    rows = lustre.listing(during=during)
    writer = ShardWriter(directory, rows_maximum=7, once=False, prefix="scan")
    writer.add(rows)
    manifest = Manifest(
        index_id="0", root=b"/scratch", filesystem=FileSystemIdentity("lustre", "scratch"),
        source=IndexSource.SCAN, tool="test", started_ns=started_ns, ended_ns=lustre.now_ns,
        times=TimeTrust.MDS_ONLY, time_resolution_ns=1, lacking=frozenset(), complete=True,
        shards=writer.finish(),
    )  # fmt: skip
    save_manifest(manifest, directory)
    return manifest


class Follower:
    """What one site runs."""

    def __init__(self, lustre: FakeNamespace, directory: Path) -> None:
        self.lustre, self.directory = lustre, directory
        self.changelogs = cast("LiveChangelogs", lustre)

    def begin(self) -> None:
        following.begin(
            self.directory, self.changelogs, file_system="scratch", now_s=self.lustre.now_ns / 10**9
        )

    def round(self) -> following.Round:
        clock = datetime.fromtimestamp(self.lustre.now_ns / 10**9, UTC)
        return following.follow_once(self.directory, self.changelogs, lambda: clock)

    def rescan(self) -> Manifest:
        """Look again at what the MDTs hold whose records were lost."""
        clock = datetime.fromtimestamp(self.lustre.now_ns / 10**9, UTC)
        return rescanning.rescan(self.directory, self.changelogs, lambda: clock)

    def catch_up(self) -> Manifest:
        """Follow until nothing is left to be done."""
        for _ in range(40):
            manifest = self.round().manifest
            followed = manifest.followed
            assert followed is not None
            if followed.again is None and all(
                mdt.stale or mdt.mark == log.index
                for mdt, log in zip(followed.mdts, self.lustre.logs, strict=True)
            ):
                return manifest
        raise AssertionError("it never ends")

    def rows(self) -> pl.DataFrame:
        frame = scanned(self.directory, load_verified(self.directory)).collect()
        return in_order(frame)


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(*columns()).sort("parent", "name", "id")


def values(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """Return rows as values that can be compared."""
    return [
        tuple(tuple(value) if isinstance(value, list) else value for value in row)
        for row in frame.iter_rows()
    ]


def caught_up(lustre: FakeNamespace, directory: Path) -> Follower:
    """Return somebody who follows an index of it, scanned just now, and is up to date."""
    scan(lustre, directory)
    follower = Follower(lustre, directory)
    follower.begin()
    follower.catch_up()
    return follower
