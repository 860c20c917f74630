"""What is trimmed and moved on a fake Lustre: in turns, of real files, and what cuts it off."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.act.lustre_site import LustreSite, lustre
from tests.act.test_on_lustre import GIB, OST, outcomes
from tests.fake_lustre.state import Fault

from trimtab.act import session
from trimtab.act.apply import ActingSurroundings
from trimtab.purge.index.manifest import FileSystemIdentity, IndexSource, Manifest, TimeTrust
from trimtab.purge.index.manifest_file import save_manifest
from trimtab.purge.index.shard import ShardWriter, columns, completed
from trimtab.reach.lustre.lustre_driver import LustreDriver

# Trims of a fake Lustre: in ranges, of several servers at once, and what cuts them off.

__all__ = ["lustre"]
pytestmark = pytest.mark.system


def trims(lustre: LustreSite) -> list[dict]:
    return [line for line in lustre.lines() if line["do"] == "range"]


def test_targets_are_trimmed_in_ranges_one_of_a_server_at_a_time(lustre: LustreSite) -> None:
    capacity = lustre.fake.target(OST).capacity_bytes
    lustre.write_site(f'[policy.trim]\nrange = "{capacity // 2} B"\n')
    for target in lustre.fake.osts:
        target.untrimmed_bytes, target.written_bytes = 5 * GIB, 10 * GIB
    plan = lustre.run("trim", "fake", "--targets", "OST[0000-0003]")["plan"]
    stages = [(each["stage"], each["server"]) for each in plan["instructions"]]
    assert stages == [(0, "oss1"), (0, "oss2"), (1, "oss1"), (1, "oss2")]
    applied = lustre.run("trim", "fake", "--targets", "OST[0000-0003]", "--apply")
    assert outcomes(applied) == ["done"] * 4
    for action in applied["actions"]:
        assert action["found"] == str(5 * GIB)
        assert action["facts"] == {"effect": "seen", "bytes_written_total": str(10 * GIB)}
    # What the device holds beyond what the file system shows of it is trimmed by the last range.
    for action in applied["actions"]:
        of_action = [line for line in trims(lustre) if line["action"] == action["id"]]
        assert [line["start_bytes"] for line in of_action] == [0, capacity // 2]
        assert of_action[-1]["length_bytes"] is None
    assert lustre.run("trim", "fake", "--targets", "OST[0000-0003]")["plan"]["instructions"] == []


def test_a_trim_that_was_killed_goes_on_where_it_was(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity = lustre.fake.target(OST).capacity_bytes
    lustre.write_site(f'[policy.trim]\nrange = "{capacity // 3} B"\n')
    lustre.fake.target(OST).untrimmed_bytes = 5 * GIB
    trim: Callable[..., object] = LustreDriver.trim

    def dying(driver: LustreDriver, target: str, start: int, length: int | None) -> object:
        if start:
            raise KeyboardInterrupt
        return trim(driver, target, start, length)

    with monkeypatch.context() as patch:
        patch.setattr(LustreDriver, "trim", dying)
        lustre.run("trim", "fake", "--targets", OST, "--apply", code=130)
    resumed = lustre.run("trim", "fake", "--targets", OST, "--apply")
    assert [each["outcome"] for each in resumed["settled"]] == ["failed"]
    assert outcomes(resumed) == ["done"]
    starts = [line["start_bytes"] for line in trims(lustre)]
    assert starts[:2] == [0, capacity // 3]
    assert len(starts) == len(set(starts))


def test_servers_are_trimmed_at_once_and_never_two_targets_of_one(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity = lustre.fake.target(OST).capacity_bytes
    lustre.write_site(f'[policy.trim]\nrange = "{capacity // 2} B"\n')
    trim: Callable[..., object] = LustreDriver.trim
    all_servers = threading.Barrier(4, timeout=30.0)
    on_server: dict[str, threading.Lock] = {s.name: threading.Lock() for s in lustre.fake.servers}

    def counted(driver: LustreDriver, target: str, start: int, length: int | None) -> object:
        server = on_server[lustre.fake.target(target).server]
        assert server.acquire(blocking=False), "two at once on a server"
        try:
            if not start:
                all_servers.wait()  # none goes on before all four have begun
            return trim(driver, target, start, length)
        finally:
            server.release()

    monkeypatch.setattr(LustreDriver, "trim", counted)
    applied = lustre.run("trim", "fake", "--targets", "OST[0000-0007]", "--apply")
    assert outcomes(applied) == ["done"] * 8
    assert [line["do"] for line in lustre.lines()].count("begin") == 8
    assert len(trims(lustre)) == 16
    assert lustre.run("trim", "fake", "--targets", "OST[0000-0007]", "--apply")["actions"] == []


def test_where_a_trim_breaks_off_the_others_end_and_are_resumed(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity = lustre.fake.target(OST).capacity_bytes
    lustre.write_site(f'[policy.trim]\nrange = "{capacity // 3} B"\n')
    trim: Callable[..., object] = LustreDriver.trim
    under_way, surroundings = threading.Event(), []

    def known(**parts: Any) -> ActingSurroundings:
        surroundings.append(ActingSurroundings(**parts))
        return surroundings[-1]

    def dying(driver: LustreDriver, target: str, start: int, length: int | None) -> object:
        if target == "OST0000":
            assert under_way.wait(30.0)
            raise KeyboardInterrupt
        result = trim(driver, target, start, length)
        under_way.set()
        assert surroundings[-1].stopping.wait(30.0)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(LustreDriver, "trim", dying)
        patch.setattr(session, "ActingSurroundings", known)
        lustre.run("trim", "fake", "--targets", "OST[0000,0002]", "--apply", code=130)
    assert [line["start_bytes"] for line in trims(lustre)] == [0]
    resumed = lustre.run("trim", "fake", "--targets", "OST[0000,0002]", "--apply")
    assert outcomes(resumed) == ["done", "done"]
    other = {line["action"]: line["target"] for line in lustre.lines() if line["do"] == "begin"}
    starts = [line["start_bytes"] for line in trims(lustre) if other[line["action"]] == "OST0002"]
    assert starts[:2] == [0, capacity // 3]
    assert len(starts) == len(set(starts))


def test_a_trim_pauses_while_the_drives_write_slowly(lustre: LustreSite) -> None:
    target = lustre.fake.target(OST)
    lustre.write_site(f'[policy.trim]\nrange = "{target.capacity_bytes // 3} B"\npause = "7s"\n')
    lustre.fake.write(OST, 100 * GIB)
    lustre.before_write.append(lambda: slow_down(lustre, OST))
    assert outcomes(lustre.run("trim", "fake", "--targets", OST, "--apply")) == ["done"]
    assert lustre.slept == [5.0, 7.0]


def slow_down(lustre: LustreSite, name: str) -> None:
    """Let a target's drives take a hundred times longer for writes from now on."""
    target = lustre.fake.target(name)
    server = lustre.fake.server(target.server)
    names = {drive.name for drive in target.drives}
    for path, text in lustre.fake.files(server.name).items():
        if path.endswith("/stat") and path.split("/")[-2] in names:
            fields = text.split()
            fields[4] = str(int(fields[4]) + 1000)
            fields[7] = str(int(fields[7]) + 100_000)
            server.files[path] = " ".join(fields) + "\n"


@pytest.mark.parametrize(
    ("happens", "outcome"),
    [
        ("fail_over", "skipped"),
        ("kill_server", "unreachable"),
        (Fault("hang", "fstrim"), "unknown"),
        (Fault("refuse", "fstrim", text="fstrim: x: Input/output error\n"), "failed"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_a_trim_that_fails_ends_the_turns_after_it(
    lustre: LustreSite, happens: Fault | str, outcome: str
) -> None:
    def now() -> None:
        if isinstance(happens, Fault):
            lustre.fake.faults.append(happens)
        elif happens == "fail_over":
            lustre.fake.fail_over("OST0000")
        else:
            lustre.fake.kill_server("oss1")

    lustre.before_write.append(now)
    applied = lustre.run("trim", "fake", "--targets", "OST[0000-0001]", "--apply", code=4)
    assert outcomes(applied) == [outcome]
    assert [each["stage"] for each in applied["plan"]["instructions"]] == [0, 1]


# Files moved off full targets of a fake Lustre: real files, of names that no shell would bear.

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
    monkeypatch.setattr("trimtab.act.decide.balance.QUIET", timedelta())
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
    assert [action["outcome"] for action in files.migrate("--apply")["actions"]] == ["done"]


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
    assert lustre.run("balance", "fake", "--migrate", code=2)["error"]["code"] == "index-missing"
