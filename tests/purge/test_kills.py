"""``kill -9`` of every step of a purge, as a site runs it: scan, plan and run of one large tree.

The moments are random, seeded by the commit. 50,000 files and 10 kills of each step; a million
and 200 under ``make soak-purge``, which keeps the figures (``TRIMTAB_KILLS_REPORT``).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from tests.purge.command.walk import AGO_S, DAY_S, Walk, grow_old
from tests.purge.index.imports import load_verified
from tests.purge.notice.making import open_directory
from tests.purge.run.lines import fates_of, journal_of
from tests.support import loopback
from tests.support.counts import repetitions, seeded

from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.plan.plan_directory import load_plan
from trimtab.purge.plan.plan_signature import read_key
from trimtab.purge.run.journal_line import DoneLine
from trimtab.purge.run.plan_progress import replay
from trimtab.purge.run.run_journal import journals, read

COUNTS = repetitions(gate=10, soak=200)
FILES_PER_KILL = 5000
FILES_PER_DIRECTORY = 250
YOUNG_EVERY = 10
"""Every tenth file is young: it stands in no plan."""
USED_EVERY = 500
"""Every so many of the planned files are used before the first run."""
USED_BETWEEN = 5
"""So many more after each kill."""
FILE_BYTES = 4096
QUARANTINE_ROWS = 64
"""What a run with two threads may have aside at one moment."""
IDENTITY = ("parent", "name", "inode", "size_bytes", "mtime_ns")
pytestmark = [
    pytest.mark.system,
    loopback.needs_loop_devices("ext4"),
]


@dataclass
class Stage:
    """A tree, what is known of it, and the commands that purge it, which may be killed."""

    walk: Walk
    files: pl.DataFrame
    kills: int
    report: dict[str, dict[str, object]] = field(default_factory=dict)

    def killed_after(self, moment_s: float, *arguments: object, ago_s: float = 0.0) -> bool:
        """Kill a command at a moment; return whether it had not ended by then."""
        command = self.walk.start(*arguments, ago_s=ago_s)
        if not command.ended_within(moment_s):
            command.kill()
        code = command.wait()
        failure = f"{code} after {moment_s:.3f} s: {self.walk.printed()}"
        assert code in (0, -signal.SIGKILL), failure
        return code != 0

    def ended(self, *arguments: object, ago_s: float = 0.0) -> float:
        """Let a command end well; return how many seconds it took."""
        began_s = time.monotonic()
        code = self.walk.start(*arguments, ago_s=ago_s).wait()
        assert code == 0, self.walk.printed()
        return time.monotonic() - began_s

    @property
    def old(self) -> set[bytes]:
        """The paths of what may go."""
        young_ns = time.time_ns() - 100 * DAY_S * 10**9
        return paths_of(self.files.filter(pl.col("mtime_ns") < young_ns))

    def path(self, name: bytes) -> bytes:
        return os.fsencode(self.walk.root) + b"/" + name


def paths_of(frame: pl.DataFrame) -> set[bytes]:
    return {parent + b"/" + name for parent, name in frame.select("parent", "name").iter_rows()}


@pytest.fixture(scope="module", params=COUNTS)
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Give a tree on a file system of its own."""
    files = request.param * FILES_PER_KILL
    private = tmp_path_factory.mktemp("kills")
    size_bytes = max(512 * loopback.MIB, files * FILE_BYTES * 7 // 4)
    with (
        loopback.mounted(private, size_bytes=size_bytes, mkfs_options=("-i", "4096")) as mounted,
        contextlib.contextmanager(open_directory)() as public,
    ):
        walk = Walk(mounted.mount_point, private, public, core="real")
        walk.write_policy()
        make_tree(walk.root, files)
        stage = Stage(walk, seen_below(walk.root), request.param)
        yield stage
    if "TRIMTAB_KILLS_REPORT" in os.environ:
        Path(os.environ["TRIMTAB_KILLS_REPORT"]).write_text(json.dumps(stage.report))


def make_tree(root: Path, files: int) -> None:
    """Make files of 300 days, and young ones, in directories of users."""
    old_s, young_s = time.time() - 300 * DAY_S, time.time() - 50 * DAY_S
    for first in range(0, files, FILES_PER_DIRECTORY):
        directory = root / f"user{first % 7}" / f"run{first}"
        directory.mkdir(parents=True)
        for number in range(first, min(files, first + FILES_PER_DIRECTORY)):
            file = os.open(directory / f"f{number}", os.O_WRONLY | os.O_CREAT, 0o644)
            os.posix_fallocate(file, 0, FILE_BYTES)
            os.fchown(file, 1, 1)
            at_s = old_s + number / files if number % YOUNG_EVERY else young_s
            os.utime(file, (at_s, at_s))
            os.close(file)


def seen_below(root: Path) -> pl.DataFrame:
    """Return every file, by one `os.lstat` after the other: the obvious twin of a scan."""
    rows, top = [], os.fsencode(root)
    for parent, _, names in os.walk(top):
        relative = os.path.relpath(parent, top)
        for name in names:
            status = os.lstat(parent + b"/" + name)
            rows.append((relative, name, status.st_ino, status.st_size, status.st_mtime_ns))
    frame = pl.DataFrame(rows, schema=list(IDENTITY), orient="row")
    return frame.with_columns(pl.col("inode").cast(pl.UInt64)).sort("parent", "name")


def index_files(index: Path) -> pl.DataFrame:
    """Return the same of an index."""
    manifest = load_verified(index)
    assert manifest.complete
    frame = pl.concat([pl.read_parquet(index / shard.name) for shard in manifest.shards])
    inode = pl.col("id").bin.slice(8).bin.reinterpret(dtype=pl.UInt64, endianness="big")
    return (
        frame.filter(pl.col("type") == "f")
        .select("parent", "name", inode.alias("inode"), "size_bytes", "mtime_ns")
        .cast({"size_bytes": pl.Int64})
        .sort("parent", "name")
    )


@pytest.fixture(scope="module")
def scanned(stage: Stage) -> Stage:
    """Kill scans, each index gone on with until it is whole, and hold each against the tree."""
    chance, walk = seeded("kills of scans"), stage.walk
    index = walk.private / "index-0"
    scan = ("scan", walk.root, "--checkpoint", "20ms", "--index")
    most_s = stage.ended(*scan, index) / 4
    kills = whole = gone_on = 0
    while True:
        kept = load_manifest(index) if (index / "manifest.json").exists() else None
        if kept is not None:
            assert index_files(index).equals(stage.files)
            whole += 1
            if kills >= stage.kills and gone_on:
                break
            shutil.rmtree(index)
            index = walk.private / f"index-{whole}"
        begun = (index / "checkpoint.json").exists()
        gone_on += begun
        if kills < stage.kills or not gone_on:
            # Each goes on from where the last one was: so all parts of a scan are met, if it is
            # neither done before the kill nor killed before there is anything to go on from.
            killed = stage.killed_after(chance.uniform(0, most_s), *scan, index)
            kills += killed
            most_s *= 0.8 if not killed else 1.0 if begun else 1.1
        else:
            stage.ended(*scan, index)
    grow_old(index)
    walk.index = index
    stage.report["scan"] = {"kills": kills, "gone_on_from_a_checkpoint": gone_on, "indexes": whole}
    return stage


@pytest.fixture(scope="module")
def planned(scanned: Stage) -> Stage:
    """Kill the making of plans; what is at the place of a plan is whole, and what it should be."""
    chance, walk = seeded("kills of plans"), scanned.walk
    plans = walk.private / "plans"
    plans.mkdir(mode=0o700)
    made = ("plan", "--index", walk.index, "--policy", walk.policy, "--out", plans / "p")
    old = scanned.old
    whole_s, kills, whole = scanned.ended(*made, ago_s=AGO_S - 600), 0, 0
    shutil.rmtree(plans / "p")
    # The site's key is made anew with the first that gets so far.
    shutil.rmtree(walk.place)
    while True:
        if kills < scanned.kills:
            moment_s = chance.uniform(0, whole_s)
            kills += scanned.killed_after(moment_s, *made, ago_s=AGO_S - 600)
        else:
            scanned.ended(*made, ago_s=AGO_S - 600)
        if not (plans / "p").exists():
            continue
        whole += 1
        assert _rows(walk, plans / "p").keys() == old
        assert [path.name for path in plans.iterdir()] == ["p"]
        if kills >= scanned.kills:
            break
        shutil.rmtree(plans / "p")
    walk.plan = plans / "p"
    scanned.report["plan"] = {"kills": kills, "plans": whole, "rows": len(old)}
    return scanned


def _rows(walk: Walk, plan: Path) -> dict[bytes, int]:
    """Return the rows of a plan whose signature and hashes are right, by their paths."""
    loaded = load_plan(plan, read_key(walk.place / "key"))
    frame = pl.read_parquet(loaded.candidates, columns=["parent", "name"])
    assert frame.height == loaded.plan.candidates.files
    return {p + b"/" + n: row for row, (p, n) in enumerate(frame.iter_rows())}


@dataclass
class Ran:
    """What runs left that were killed again and again.

    Attributes
    ----------
    rows
        The number of each path in the plan.
    used
        Paths that were used while they were there.
    fate_of
        What the journal says of each row.
    recovered
        Rows of batches that were under way when a run was killed, as often as that was so.
    """

    rows: dict[bytes, int]
    used: set[bytes]
    kills: int
    fate_of: dict[int, str]
    recovered: int
    deleted: int
    there: set[bytes]


@pytest.fixture(scope="module")
def ran(planned: Stage) -> Ran:
    """Kill runs of one plan, use files in between, and let the last run end."""
    walk = planned.walk
    planned.ended("notify", walk.plan, ago_s=AGO_S - 1200)
    planned.ended("arm", walk.plan, ago_s=3 * DAY_S)
    rows = _rows(walk, walk.plan)
    used, kills = _kill_runs(planned, rows)
    began_s = time.monotonic()
    planned.ended("run", walk.plan, "--apply")
    chronicle = read(journal_of(walk.place))
    standing = replay(chronicle)
    assert (standing.todo, standing.claims) == ((), ())
    lines = [line for line in chronicle.lines if isinstance(line, DoneLine)]
    fate_of = fates_of(standing)
    planned.report["run"] = {
        "kills": kills,
        "rows": len(rows),
        "outcomes": dict(Counter(fate_of.values())),
        "batches": len(lines),
        "batches_recovered": sum(line.recovered for line in lines),
        "last_run_s": round(time.monotonic() - began_s, 2),
    }
    return Ran(
        rows=rows,
        used=used,
        kills=kills,
        fate_of=fate_of,
        recovered=sum(line.rows.count for line in lines if line.recovered),
        deleted=sum(line.files for line in lines),
        there=paths_of(seen_below(walk.root)),
    )


def _kill_runs(stage: Stage, rows: dict[bytes, int]) -> tuple[set[bytes], int]:
    """Return which files were used, before the first run and between any two, and the kills."""
    chance, paths = seeded("kills of runs"), sorted(rows)
    used = set(paths[::USED_EVERY])
    for path in used:
        os.utime(stage.path(path))
    kills, most_s = 0, 0.3
    while kills < stage.kills:
        moment_s = chance.uniform(0, most_s)
        if not stage.killed_after(moment_s, "run", stage.walk.plan, "--apply"):
            break
        kills += 1
        for path in chance.sample(paths, USED_BETWEEN):
            if os.path.lexists(stage.path(path)):
                os.utime(stage.path(path))
                used.add(path)
        # Neither done before all kills, nor with most of it left for the last run.
        ahead = _done(stage.walk) / len(rows) > kills / stage.kills
        most_s = min(1.0, max(0.02, most_s * (0.6 if ahead else 1.2)))
    return used, kills


def _done(walk: Walk) -> int:
    result = journals(walk.place / "journals")
    fates = replay(read(result[0])).fates if result else ()
    return sum(rows.count for rows, _ in fates)


def test_scans_that_are_killed_are_gone_on_with(stage, scanned):
    told = scanned.report["scan"]
    # More where none of the first met a scan that went on from a checkpoint.
    assert told["kills"] >= stage.kills
    assert told["gone_on_from_a_checkpoint"] > 0


def test_a_plan_is_whole_or_not_there(planned):
    assert planned.report["plan"]["kills"] == planned.kills


def test_runs_that_are_killed_are_gone_on_with(stage, ran):
    assert ran.kills > stage.kills // 2
    assert sorted(ran.fate_of) == list(range(len(ran.rows)))


def test_every_file_is_there_or_its_row_says_that_it_went(stage, ran):
    gone = {path for path, row in ran.rows.items() if ran.fate_of[row] in ("deleted", "gone")}
    assert ran.there == paths_of(stage.files) - gone
    assert ran.deleted == len(gone)


def test_nothing_goes_that_was_used(ran):
    assert ran.used <= ran.there


def test_what_stays_was_used_or_was_aside_when_a_run_was_killed(ran):
    """What is put back has a new ctime: it is kept, and nobody is told that somebody used it."""
    kept = {path: ran.fate_of[row] for path, row in ran.rows.items() if path in ran.there}
    changed = {"changed_size", "changed_mtime", "changed_atime", "ctime_only"}
    assert set(kept.values()) <= {*changed, "put_back"}
    assert {path for path, fate in kept.items() if fate in changed} <= ran.used
    put_back = list(kept.values()).count("put_back")
    assert len(kept) - len(ran.used) <= put_back <= ran.kills * QUARANTINE_ROWS
