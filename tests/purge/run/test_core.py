"""Runs with the core's own removal, over real files: what it says is understood, kills included."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import polars as pl
import pytest
from tests.purge.run.world import World, with_planned
from tests.support.counts import repetitions, seeded

from trimtab import _core
from trimtab.purge.run.exchange import StopReason
from trimtab.purge.run.plan_progress import replay
from trimtab.purge.run.rows import CAPPED, DELETED, GONE, NOT_BEGUN, TROUBLES, WOULD_DELETE
from trimtab.purge.run.run_account import INTACT, RunJob
from trimtab.purge.run.run_journal import journals, read
from trimtab.purge.run.runner import run

OLD_S = 1_500_000_000
CUT_S = 1_600_000_000
BEFORE_ALL_TIMES_S = -(2**62)


class CoreWorld(World):
    """The world with candidates as the core selects them, and its removal.

    Files were last used at a time that nobody can set back (ctime is the present), so that ctime
    does not count and the plan takes it as it is.
    """

    exempt_paths: tuple[bytes, ...] = ()
    open_files = False

    def rules(self) -> _core.Rules:
        return _core.Rules(
            counted=["mtime"],
            as_of_s=int(time.time()),
            old_enough_before_s=CUT_S,
            minimum_size_bytes=0,
            exempt_paths=list(self.exempt_paths),
            exempt_users=[],
            exempt_groups=[],
            exempt_projects=[],
            linked=False,
        )

    def make(self) -> World:
        super().make()
        for row, path in enumerate(self.paths):
            os.utime(path, (OLD_S + row, OLD_S + row))
        self.write_candidates()
        return self

    @property
    def candidates(self) -> Path:
        return self.directory / "candidates.parquet"

    def write_candidates(self) -> None:
        states = [path.lstat() for path in self.paths]
        device = self.tree.stat().st_dev

        def column(name: str, of: str, kind: pl.DataType | type[pl.DataType]) -> pl.Series:
            return pl.Series(name, [getattr(state, of) for state in states], kind)

        frame = pl.DataFrame(
            [
                pl.Series("parent", [bytes(p.parent.relative_to(self.tree)) for p in self.paths]),
                pl.Series("name", [os.fsencode(path.name) for path in self.paths]),
                pl.Series("id", [state.st_ino.to_bytes(16, "big") for state in states]),
                pl.Series("id_kind", ["inode"] * len(states)),
                pl.Series("device", [device] * len(states), pl.UInt64),
                column("uid", "st_uid", pl.UInt32),
                column("gid", "st_gid", pl.UInt32),
                pl.Series("project", [None] * len(states), pl.UInt32),
                column("size_bytes", "st_size", pl.UInt64),
                pl.Series(
                    "allocated_bytes", [state.st_blocks * 512 for state in states], pl.UInt64
                ),
                column("nlink", "st_nlink", pl.UInt32),
                column("atime_ns", "st_atime_ns", pl.Int64),
                column("mtime_ns", "st_mtime_ns", pl.Int64),
                column("ctime_ns", "st_ctime_ns", pl.Int64),
                pl.Series("btime_ns", [None] * len(states), pl.Int64),
                pl.Series("type", ["f"] * len(states)),
                pl.Series("last_use_s", [state.st_mtime_ns // 10**9 for state in states], pl.Int64),
            ]
        )
        frame.write_parquet(self.candidates)

    def core_job(self, **changes: object) -> RunJob:
        return self.job(
            remover=lambda: self.removal(CUT_S),
            restorer=lambda: self.removal(BEFORE_ALL_TIMES_S),
            codes=dict(_core.REMOVAL_OUTCOMES),
            **changes,
        )

    listed_s: int | None = None

    def removal(self, before_s: int) -> _core.Removal:
        return _core.Removal(
            _core.Candidates(self.candidates),
            str(self.tree),
            self.rules(),
            before_s=before_s,
            quarantine=".quarantine",
            listed_s=self.listed_s,
            open_files=self.open_files,
        )


@pytest.fixture
def world(tmp_path):
    world = CoreWorld(tmp_path, 60)
    world.make()
    return world


def test_every_outcome_that_a_run_knows_is_one_of_the_cores():
    names = set(_core.REMOVAL_OUTCOMES.values())
    assert {DELETED, GONE, WOULD_DELETE} | INTACT <= names
    assert TROUBLES - {"unknown"} <= names
    assert not {CAPPED, NOT_BEGUN, "unknown"} & names


def test_an_exempt_directory_stays_by_whatever_name_it_is_found(world):
    """Where case is folded one directory has many names, and a comparison of paths knows one."""
    directory, kept = world.paths[0].parent, world.tree / "kept"
    world.exempt_paths = (b"kept",)
    directory.rename(kept)
    removal = world.removal(CUT_S)
    kept.rename(directory)
    codes = removal.delete(0, 60).outcomes
    outcomes = {_core.REMOVAL_OUTCOMES[code] for code in codes}
    assert outcomes == {"deleted", "exempt"}
    assert world.there() == {row for row in range(60) if world.paths[row].parent == directory}


def test_a_run_deletes_down_to_the_target(world):
    world.paths[3].write_bytes(b"used since")
    world.paths[5].unlink()
    result = run(world.core_job(), apply=True)
    assert result.reason is StopReason.TARGET
    assert result.outcomes == {"deleted": 29, "changed_size": 1, "gone": 1}
    assert world.there() == {3, *range(31, 60)}
    assert all(stranger.exists() for stranger in world.strangers)


@pytest.mark.parametrize(
    ("listed_s", "reason", "outcome"),
    [
        (OLD_S, StopReason.EXHAUSTED, "replaced"),
        (2**40, StopReason.TROUBLES, "not_same"),
        (None, StopReason.TROUBLES, "not_same"),
    ],
)
def test_files_that_users_saved_anew_do_not_stop_a_run(tmp_path, listed_s, reason, outcome):
    """Files that were there before the index was begun and are not in it mean something else."""
    world = CoreWorld(tmp_path, 300)
    world.make()
    world.listed_s = listed_s
    for path in world.paths:
        path.with_suffix(".new").write_bytes(b"saved")
        path.with_suffix(".new").rename(path)
    result = run(world.core_job(), apply=True)
    assert result.reason is reason
    assert set(result.outcomes) == {outcome}
    assert world.there() == set(range(300))


def test_a_dry_run_says_the_same_and_touches_nothing(world):
    before = {path: path.lstat() for path in world.paths}
    job = world.core_job(terms=lambda now: world.terms(now, apply=False))
    result = run(job, apply=False)
    assert result.outcomes == {"would_delete": 30}
    assert {path: path.lstat() for path in world.paths} == before
    assert run(world.core_job(id="second"), apply=True).outcomes == {"deleted": 30}


def test_files_go_beneath_the_root_that_guards_looked_at(world):
    """Another directory with the same names has the path by then: hard links, so inodes agree."""
    descriptor = os.open(world.tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        away = world.tree.with_name("away")
        world.tree.rename(away)
        for path in world.paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        removal = _core.Removal(
            _core.Candidates(world.candidates), str(world.tree), world.rules(), before_s=CUT_S,
            quarantine=".quarantine", root_descriptor=descriptor,
        )  # fmt: skip
        codes = {_core.REMOVAL_OUTCOMES[code] for code in removal.check(0, 60).outcomes}
        assert codes == {"would_delete"}
        assert {_core.REMOVAL_OUTCOMES[c] for c in removal.delete(0, 60).outcomes} == {"deleted"}
        assert not [path for path in away.rglob("file-*") if path.is_file()]
    finally:
        os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        _core.Removal(
            _core.Candidates(world.candidates), str(world.tree), world.rules(), before_s=CUT_S,
            quarantine=".quarantine", root_descriptor=2**20,
        )  # fmt: skip


def test_what_lies_aside_goes_back_by_the_whole_plan(world):
    """No batch is open: a power cut brought back what one that has its end had removed."""
    cell = world.tree / ".quarantine" / "cell-9-9-0"
    for directory in (cell.parent, cell):
        directory.mkdir(mode=0o700)
    world.paths[57].rename(cell / "03")
    (cell / "04").write_text("whose")
    found = run(world.core_job(terms=lambda now: world.terms(now, apply=False)), apply=False)
    assert (found.unexplained, (cell / "03").exists()) == ((), True)
    # Guards hold the run back, and a file that is aside goes back all the same.
    good = world.surroundings.now
    world.surroundings.now = with_planned(good, publication=None)
    refused = run(world.core_job(id="refused"), apply=True)
    assert (refused.reason, refused.files) == (StopReason.REFUSED, 0)
    assert world.there() == set(range(60))
    aside = b".quarantine/cell-9-9-0/04"
    assert refused.unexplained == (aside,)
    world.surroundings.now = good
    result = run(world.core_job(id="third"), apply=True)
    assert (result.reason, result.files) == (StopReason.TARGET, 30)
    assert result.unexplained == (aside,), "it is told at every start"
    assert (world.tree / os.fsdecode(aside)).read_text() == "whose"


@pytest.mark.system
@pytest.mark.parametrize("kills_wanted", repetitions(gate=10, soak=200))
def test_after_kills_the_next_run_puts_back_and_goes_on(tmp_path, kills_wanted):
    world = CoreWorld(tmp_path, 2000 if kills_wanted <= 10 else 50_000, target=0.001)
    world.make()
    chance = seeded("purge kills of the core")
    kills = 0
    while kills < kills_wanted:
        process = os.fork()
        if process == 0:
            code = 1
            try:
                run(world.core_job(id=f"run-{os.getpid()}"), apply=True)
                code = 0
            finally:
                os._exit(code)
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(process, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0:
            break
        kills += 1
    result = run(world.core_job(id="last"), apply=True)
    assert result.reason in (StopReason.TARGET, StopReason.EXHAUSTED)
    assert kills >= 3
    (path,) = journals(tmp_path / "journals")
    standing = replay(read(path))
    assert standing.claims == ()
    fates = {row: fate for rows, fate in standing.fates for row in range(rows.first, rows.end)}
    assert len(fates) == sum(rows.count for rows, _ in standing.fates)
    assert set(fates.values()) <= {"deleted", "gone", "put_back"}
    back = {row for row, fate in fates.items() if fate == "put_back"}
    assert len(back) <= kills * 2 * 32, "a kill leaves a round of each of two threads"
    assert world.there() == set(range(world.files)) - set(fates) | back
    assert all(stranger.exists() for stranger in world.strangers)
