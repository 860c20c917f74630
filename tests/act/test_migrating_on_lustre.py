"""Files moved off full targets of a fake Lustre: real files, of names that no shell would bear."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.act.lustre_site import LustreSite, lustre
from tests.fake_lustre.state import Fault

from trimtab.purge.index.manifest import FileSystemIdentity, IndexSource, Manifest, TimeTrust
from trimtab.purge.index.manifest_file import save_manifest
from trimtab.purge.index.shard import ShardWriter, columns, completed

__all__ = ["lustre"]
pytestmark = pytest.mark.system

OST = "OST0003"
GIB = 2**30
NAMES = (b"large", b"-rf\n$(reboot) \xff", b"held")
DAY = timedelta(days=1)
CONTENT = [os.urandom(3 << 20) for _ in NAMES]


@dataclass
class Files:
    """Files on a full target, and an index of them that calls them large."""

    lustre: LustreSite
    directory: Path
    index: Path

    def path(self, number: int) -> Path:
        return Path(os.fsdecode(os.fsencode(self.directory) + b"/u1/" + NAMES[number]))

    def target(self, number: int) -> int:
        (index,) = self.lustre.fake.layouts[str(self.path(number))]
        return index

    def migrate(self, *words: str, code: int = 0) -> dict:
        given = ("--migrate", "--index", str(self.index), *words)
        return self.lustre.run("balance", "fake", *given, code=code)


def write_index(files: Files, *, age: timedelta = DAY, fids: bool = False) -> None:
    states = [files.path(number).stat() for number in range(len(NAMES))]
    numbers = [[0, state.st_ino] for state in states]
    if fids:
        numbers = [[0x200000402, (number + 1) << 32] for number in range(len(NAMES))]
    rows = {
        "parent": [b"u1"] * len(NAMES),
        "name": list(NAMES),
        "id": [b"".join(part.to_bytes(8, "big") for part in pair) for pair in numbers],
        "id_kind": ["fid" if fids else "inode"] * len(NAMES),
        "device": [7] * len(NAMES),
        "uid": [1000] * len(NAMES),
        "gid": [100] * len(NAMES),
        "size_bytes": [state.st_size for state in states],
        "allocated_bytes": [(9 - number) * GIB for number in range(len(NAMES))],
        "nlink": [1] * len(NAMES),
        "atime_ns": [state.st_atime_ns for state in states],
        "mtime_ns": [state.st_mtime_ns for state in states],
        "ctime_ns": [state.st_ctime_ns for state in states],
        "btime_ns": [None] * len(NAMES),
        "type": ["f"] * len(NAMES),
        "osts": [[3]] * len(NAMES),
    }
    kinds = columns()
    frame = pl.DataFrame(rows).with_columns(pl.col(name).cast(kinds[name]) for name in rows)
    files.index.mkdir(exist_ok=True)
    writer = ShardWriter(files.index)
    writer.add(completed(frame, 0).with_columns(last_use_s=pl.lit(None, pl.Int64)))
    ended = datetime.now(UTC) - age
    manifest = Manifest(
        index_id="0199", root=os.fsencode(files.directory),
        filesystem=FileSystemIdentity("lustre", "scratch"), source=IndexSource.SCAN, tool="fake",
        started_ns=None, ended_ns=int(ended.timestamp() * 1e9), times=TimeTrust.EXACT_NS,
        time_resolution_ns=1, lacking=frozenset(), complete=True, shards=writer.finish(),
    )  # fmt: skip
    save_manifest(manifest, files.index)


@pytest.fixture
def files(lustre: LustreSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    where = Files(lustre, tmp_path / "scratch", tmp_path / "index")
    (where.directory / "u1").mkdir(parents=True)
    for number in range(len(NAMES)):
        where.path(number).write_bytes(CONTENT[number])
        written_ns = where.path(number).stat().st_mtime_ns
        # Older than the file: a read would change it, whatever the mount options.
        os.utime(where.path(number), ns=(written_ns - 10**12, written_ns))
        lustre.fake.layouts[str(where.path(number))] = [3]
    # A file's time of change is this machine's: so what is quiet is, too.
    monkeypatch.setattr("trimtab.act.decide.migration.QUIET", timedelta())
    target = lustre.fake.target(OST)
    target.max_create_count = dict.fromkeys((mdt.name for mdt in lustre.fake.mdts), 0)
    target.used_bytes = int(0.9 * (target.capacity_bytes - target.reserved_bytes))
    write_index(where)
    return where


@pytest.mark.parametrize("fids", [False, True])
def test_files_are_moved_the_largest_first_and_stay_the_same(files: Files, fids: bool) -> None:
    write_index(files, fids=fids)
    read_at = [files.path(number).stat().st_atime_ns for number in range(len(NAMES))]
    plan = files.migrate()["plan"]
    assert [each["target"] for each in plan["instructions"]] == [OST] * 3
    assert [files.target(number) for number in range(3)] == [3, 3, 3]
    moved = files.migrate("--apply", "--plan", plan["id"])["actions"]
    assert [action["outcome"] for action in moved] == ["done"] * 3
    assert all(files.target(number) != 3 for number in range(3))
    assert read_at == [files.path(number).stat().st_atime_ns for number in range(len(NAMES))]
    assert [files.path(number).read_bytes() for number in range(len(NAMES))] == CONTENT
    assert [line["do"] for line in files.lustre.lines()] == ["apply", *["begin", "end"] * 3]
    # The index still has them there; the ledger knows better.
    assert files.migrate()["plan"]["instructions"] == []


def write_into(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"more")


def overwrite(path: Path) -> None:
    """Let the copy differ, though it is as long and as old as the file."""
    state = path.stat()
    with path.open("r+b") as stream:
        stream.write(b"other")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize(
    ("before", "during", "outcome", "begun"),
    [
        (write_into, None, "skipped", 3),
        (lambda path: path.unlink(), None, "skipped", 3),
        (lambda path: (path.unlink(), path.symlink_to("/etc/passwd")), None, "skipped", 3),
        (lambda path: os.link(path, path.with_name("second")), None, "skipped", 3),
        (None, write_into, "unknown", 3),
        (None, overwrite, "failed", 1),
    ],
)
def test_a_file_that_is_not_what_the_index_has_is_left(
    files: Files,
    before: Callable[[Path], object] | None,
    during: Callable[[Path], object] | None,
    outcome: str,
    begun: int,
) -> None:
    if before is not None:
        before(files.path(0))
    if during is not None:
        files.lustre.during_migration.append(lambda: during(files.path(0)))
    actions = files.migrate("--apply", code=4)["actions"]
    assert actions[0]["outcome"] == outcome
    # Content that differs is an alarm: no other file is moved.
    assert len(actions) == begun
    assert (files.target(0) == 3) is (before is not None)


def test_a_file_that_is_open_is_refused_and_tried_again(files: Files) -> None:
    text = "error: lfs migrate: x: cannot get lease: Device or resource busy\n"
    files.lustre.fake.faults.append(Fault("refuse", "lfs migrate", code=16, text=text, times=1))
    actions = files.migrate("--apply", code=4)["actions"]
    assert [action["outcome"] for action in actions] == ["refused", "done", "done"]
    again = files.migrate("--apply")["actions"]
    assert [action["outcome"] for action in again] == ["done"]


def test_what_was_killed_goes_on_with_the_rest(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    files.lustre.during_migration += [die, lambda: None]
    files.migrate("--apply", code=130)
    resumed = files.migrate("--apply")
    assert [each["outcome"] for each in resumed["settled"]] == ["failed"]
    assert [action["outcome"] for action in resumed["actions"]] == ["done", "done"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda files: files.lustre.fake.target(OST).max_create_count.clear(), "target-open"),
        (lambda files: write_index(files, age=30 * DAY), "index-stale"),
    ],
)
def test_nothing_is_moved_off_an_open_target_or_by_an_old_index(
    files: Files, change: Callable[[Files], object], code: str
) -> None:
    change(files)
    plan = files.migrate()["plan"]
    assert plan["instructions"] == []
    assert code in [*(each["reason_code"] for each in plan["untouched"]), *plan["held_codes"]]


def test_a_migration_needs_an_index(lustre: LustreSite) -> None:
    refused = lustre.run("balance", "fake", "--migrate", code=2)
    assert refused["error"]["code"] == "index-missing"
