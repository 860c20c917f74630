"""Runs with the core's own removal, over real files: kills, and candidates that were changed.

Candidates are verified by row group: of a group that is not what was signed nothing goes.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.purge.run.core_world import OLD_S, CoreWorld, outcomes_of
from tests.purge.run.hosts import Hosts, audit
from tests.purge.run.lines import flip, numbers
from tests.purge.run.world import FILE_BYTES, with_planned
from tests.support.children import begun, code_of_child
from tests.support.codes import raises
from tests.support.counts import repetitions, seeded

from trimtab import _core
from trimtab.base.error import RefusedError
from trimtab.purge.run import run_account
from trimtab.purge.run.journal_line import RunEndLine
from trimtab.purge.run.rows import CAPPED, DELETED, GONE, NOT_BEGUN, TROUBLES, WOULD_DELETE
from trimtab.purge.run.run_account import INTACT, RunJob
from trimtab.purge.run.run_journal import journals
from trimtab.purge.run.situation import CandidatesListing, StopReason

ALL_DONE = (StopReason.TARGET, StopReason.EXHAUSTED)


@pytest.fixture
def world(tmp_path):
    return CoreWorld(tmp_path, 60).make()


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
    removal = world.removal()
    kept.rename(directory)
    assert set(outcomes_of(removal.delete(0, 60))) == {"deleted", "exempt"}
    assert world.there() == {row for row in range(60) if world.paths[row].parent == directory}


def test_a_run_deletes_down_to_the_target(world):
    world.paths[3].write_bytes(b"used since")
    world.paths[5].unlink()
    result = world.run()
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
    world = CoreWorld(tmp_path, 300).make()
    world.listed_s = listed_s
    for path in world.paths:
        path.with_suffix(".new").write_bytes(b"saved")
        path.with_suffix(".new").rename(path)
    result = world.run()
    assert (result.reason, set(result.outcomes)) == (reason, {outcome})
    assert world.there() == set(range(300))


def test_a_dry_run_says_the_same_and_touches_nothing(world):
    before = {path: path.lstat() for path in world.paths}
    assert world.run(dry=True).outcomes == {"would_delete": 30}
    assert {path: path.lstat() for path in world.paths} == before
    assert world.run().outcomes == {"deleted": 30}


def test_files_go_beneath_the_root_that_guards_looked_at(world):
    """Another directory with the same names has the path by then: hard links, so inodes agree."""
    descriptor = os.open(world.tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        away = world.tree.with_name("away")
        world.tree.rename(away)
        for path in world.paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        removal = world.removal(root_descriptor=descriptor)
        assert set(outcomes_of(removal.check(0, 60))) == {"would_delete"}
        assert set(outcomes_of(removal.delete(0, 60))) == {"deleted"}
        assert not [path for path in away.rglob("file-*") if path.is_file()]
    finally:
        os.close(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        world.removal(root_descriptor=2**20)


def test_what_lies_aside_goes_back_by_the_whole_plan(world):
    """No batch is open: a power cut brought back what one that has its end had removed."""
    cell = world.tree / ".quarantine" / "cell-9-9-0"
    for directory in (cell.parent, cell):
        directory.mkdir(mode=0o700)
    world.paths[57].rename(cell / "03")
    (cell / "04").write_text("whose")
    found = world.run(dry=True)
    assert (found.unexplained, (cell / "03").exists()) == ((), True)
    # Guards hold the run back, and a file that is aside goes back all the same.
    good = world.surroundings.now
    world.surroundings.now = with_planned(good, publication=None)
    refused = world.run()
    assert (refused.reason, refused.files) == (StopReason.REFUSED, 0)
    assert world.there() == set(range(60))
    aside = b".quarantine/cell-9-9-0/04"
    assert refused.unexplained == (aside,)
    world.surroundings.now = good
    result = world.run()
    assert (result.reason, result.files) == (StopReason.TARGET, 30)
    assert result.unexplained == (aside,), "it is told at every start"
    assert (world.tree / os.fsdecode(aside)).read_text() == "whose"


@pytest.mark.system
@pytest.mark.parametrize("kills_wanted", repetitions(gate=10, soak=200))
def test_after_kills_the_next_run_puts_back_and_goes_on(tmp_path, kills_wanted):
    world = CoreWorld(tmp_path, 2000 if kills_wanted <= 10 else 50_000, target=0.001).make()
    chance = seeded("purge kills of the core")
    kills = 0
    while kills < kills_wanted:
        process = begun(lambda: world.run(id=f"run-{os.getpid()}"))
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(process, signal.SIGKILL)
        if code_of_child(process) == 0:
            break
        kills += 1
    assert world.run(id="last").reason in ALL_DONE
    assert kills >= 3
    fates = world.settled()
    assert set(fates.values()) <= {"deleted", "gone", "put_back"}
    back = [*fates.values()].count("put_back")
    assert back <= kills * 2 * 32, "a kill leaves a round of each of two threads"


class Signed:
    """A file of candidates and what was signed of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            _, self.parts = _core.parts_of(path, file.fileno())

    def candidates(self) -> _core.Candidates:
        with self.path.open("rb") as file:
            return _core.Candidates(self.path, descriptor=file.fileno(), parts=self.parts)

    def flip(self, group: int) -> None:
        """Change the last byte of a group; the second time it is what it was."""
        flip(self.path, sum(part[1] for part in self.parts[: group + 1]) - 1)


class SignedWorld(CoreWorld):
    """The world whose candidates are signed, in groups of twenty rows."""

    def write_candidates(self, group_rows: int | None = 20) -> None:
        super().write_candidates(group_rows)
        self.signed = Signed(self.parquet)

    def opened(self) -> _core.Candidates:
        return self.signed.candidates()

    def job(self, **changes: object) -> RunJob:
        return super().job(listing=CandidatesListing(self.opened(), self.files), **changes)


@pytest.fixture
def signed_world(tmp_path):
    return SignedWorld(tmp_path, 60, target=0.001).make()


@pytest.mark.parametrize("group", [0, 1, 2])
def test_a_group_that_changed_ends_a_run_before_its_first_row(signed_world, group):
    world = signed_world
    world.signed.flip(group)
    with raises(RefusedError, "candidates-changed"):
        world.run()
    gone = set(range(60)) - world.there()
    assert gone == world.fates().keys() <= set(range(20 * group))
    assert len(gone) > 20 * (group - 1), "groups before it are not undone, nor held up"
    assert world.standing().claims == ()
    end = world.lines(RunEndLine)[-1]
    assert end.reason == "failed"
    assert str(world.parquet) in end.text
    assert f"row group {group} of 3" in end.text
    # Nothing has to be mended in the journal once the file is what it was.
    world.signed.flip(group)
    result = world.run()
    assert result.reason in ALL_DONE
    assert (result.recovered_rows, result.files, world.there()) == (0, 60 - len(gone), set())


def test_a_dry_run_finds_a_group_that_changed_too(signed_world):
    signed_world.signed.flip(1)
    with raises(RefusedError, "candidates-changed"):
        signed_world.run(dry=True)
    assert signed_world.there() == set(range(60))


def test_candidates_that_are_exchanged_or_overwritten_during_a_run(signed_world):
    """Another file under the name is not looked at; other bytes in the open file are refused."""
    world, looks = signed_world, []

    def look(_surroundings):
        looks.append(len(world.there()))
        if len(looks) == 3:
            world.signed.flip(2)
            other = world.directory / "other"
            other.write_bytes(world.parquet.read_bytes()[::-1])
            other.rename(world.parquet)

    world.surroundings.look = look
    with raises(RefusedError, "candidates-changed"):
        world.run()
    assert looks[2] > 40, "that was during the first group"
    assert set(range(40, 60)) <= world.there()
    assert not world.there() & set(range(20)), "the second group was read from the open file"


@pytest.mark.system
def test_after_a_kill_finished_groups_are_not_read_again(tmp_path, monkeypatch):
    world = SignedWorld(tmp_path, 400, target=0.0001).make()
    monkeypatch.setattr(run_account, "SYNC_ROWS", 20)
    process = begun(lambda: world.run(id="killed"))
    while not journals(tmp_path / "journals") or len(world.fates()) < 100:
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    code_of_child(process)
    # What was deleted and not synchronised is looked for: power may have been cut.
    needed = numbers(rows for batch in world.standing().unsettled for rows in batch.rows)
    needed |= set(range(400)) - world.fates().keys()
    finished = [g for g in range(20) if not needed & set(range(20 * g, 20 * g + 20))]
    assert len(finished) >= 3
    for group in finished:
        world.signed.flip(group)
    assert world.run(id="second").reason in ALL_DONE
    fates = world.fates()
    assert set(fates) == set(range(400))
    assert world.there() == {row for row, fate in fates.items() if fate == "put_back"}


@pytest.mark.system
def test_two_hosts_stop_before_a_group_that_changed(tmp_path):
    hosts = Hosts(tmp_path / "plan", 300, delay_s=0.001, lease_s=60.0)
    path = tmp_path / "candidates.parquet"
    owners = hosts.world.table.uids
    pl.DataFrame(
        {"uid": owners, "allocated_bytes": pl.Series([FILE_BYTES] * 300, dtype=pl.UInt64)}
    ).write_parquet(path, row_group_size=50)
    signed = Signed(path)
    hosts.jobs = lambda job, _name: replace(
        job, listing=CandidatesListing(signed.candidates(), 300)
    )
    try:
        signed.flip(3)
        for process in (hosts.start("one"), hosts.start("other")):
            assert code_of_child(process) == 1
            del hosts.started[process]
        there = hosts.world.there()
        assert set(range(150, 300)) <= there
        assert not there & set(range(130)), "the rows before are dealt with"
        assert hosts.world.standing().claims == ()
        ends = [
            (end.reason, "row group 3 of 6" in end.text) for end in hosts.world.lines(RunEndLine)
        ]
        assert ends == [("failed", True)] * 2
        signed.flip(3)
        assert hosts.wait(hosts.start("last")) in ("target-reached", "plan-exhausted")
        assert hosts.world.there() == set()
        audit(hosts.lines())
    finally:
        hosts.kill_all()
