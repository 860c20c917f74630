"""Runs over candidates that are verified by row group: of a group that changed nothing goes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.purge.run.hosts import Hosts, audit
from tests.purge.run.test_core import BEFORE_ALL_TIMES_S, CUT_S, CoreWorld
from tests.purge.run.world import FILE_BYTES
from tests.support.codes import raises

from trimtab import _core
from trimtab.base.error import RefusedError
from trimtab.purge.run import run_account
from trimtab.purge.run.exchange import CandidatesListing, StopReason
from trimtab.purge.run.journal_line import RunEndLine
from trimtab.purge.run.plan_progress import PlanProgress, replay
from trimtab.purge.run.run_account import RunJob
from trimtab.purge.run.run_journal import journals, read
from trimtab.purge.run.runner import run


class Signed:
    """A file of candidates and what was signed of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.opened() as descriptor:
            _, self.parts = _core.parts_of(path, descriptor)

    @contextmanager
    def opened(self, flags: int = os.O_RDONLY) -> Iterator[int]:
        descriptor = os.open(self.path, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def candidates(self) -> _core.Candidates:
        with self.opened() as descriptor:
            return _core.Candidates(self.path, descriptor=descriptor, parts=self.parts)

    def flip(self, group: int) -> None:
        """Change the last byte of a group; the second time it is what it was."""
        place = sum(part[1] for part in self.parts[: group + 1]) - 1
        with self.opened(os.O_RDWR) as descriptor:
            byte = os.pread(descriptor, 1, place)
            os.pwrite(descriptor, bytes([byte[0] ^ 1]), place)


class SignedWorld(CoreWorld):
    """The world whose candidates are signed, in groups of so many rows."""

    group_rows = 20

    def write_candidates(self) -> None:
        super().write_candidates()
        frame = pl.read_parquet(self.candidates)
        frame.write_parquet(self.candidates, row_group_size=self.group_rows)
        self.signed = Signed(self.candidates)

    def signed_job(self, **changes: object) -> RunJob:
        candidates = self.signed.candidates()
        return self.job(
            listing=CandidatesListing(candidates, self.files),
            remover=lambda: self.removal_of(candidates, CUT_S),
            restorer=lambda: self.removal_of(candidates, BEFORE_ALL_TIMES_S),
            codes=dict(_core.REMOVAL_OUTCOMES),
            **changes,
        )

    def removal_of(self, candidates: _core.Candidates, before_s: int) -> _core.Removal:
        return _core.Removal(
            candidates, self.tree, self.rules(), before_s=before_s, quarantine=".quarantine"
        )

    def standing(self) -> PlanProgress:
        (path,) = journals(self.directory / "journals")
        return replay(read(path))

    def done(self) -> set[int]:
        fates = self.standing().fates
        return {row for rows, _ in fates for row in range(rows.first, rows.end)}

    def last_end(self) -> RunEndLine:
        (path,) = journals(self.directory / "journals")
        return [line for line in read(path).lines if isinstance(line, RunEndLine)][-1]


@pytest.fixture
def world(tmp_path):
    world = SignedWorld(tmp_path, 60, target=0.001)
    world.make()
    return world


@pytest.mark.parametrize("group", [0, 1, 2])
def test_a_group_that_changed_ends_a_run_before_its_first_row(world, group):
    world.signed.flip(group)
    with raises(RefusedError, "candidates-changed"):
        run(world.signed_job(), apply=True)
    gone = set(range(60)) - world.there()
    assert gone == world.done() <= set(range(20 * group))
    assert len(gone) > 20 * (group - 1), "groups before it are not undone, nor held up"
    assert world.standing().claims == ()
    end = world.last_end()
    assert end.reason == "failed"
    assert str(world.candidates) in end.text
    assert f"row group {group} of 3" in end.text
    # Nothing has to be mended in the journal once the file is what it was.
    world.signed.flip(group)
    result = run(world.signed_job(id="second"), apply=True)
    assert result.reason in (StopReason.TARGET, StopReason.EXHAUSTED)
    assert (result.recovered_rows, result.files, world.there()) == (0, 60 - len(gone), set())


def test_a_dry_run_finds_it_too(world):
    world.signed.flip(1)
    with raises(RefusedError, "candidates-changed"):
        run(world.signed_job(terms=lambda now: world.terms(now, apply=False)), apply=False)
    assert world.there() == set(range(60))


def test_a_file_that_is_exchanged_or_overwritten_during_a_run(world):
    """Another file under the name is not looked at; other bytes in the open file are refused."""
    other = world.directory / "other"
    looks = []

    def look(_surroundings):
        looks.append(len(world.there()))
        if len(looks) == 3:
            world.signed.flip(2)
            other.write_bytes(world.candidates.read_bytes()[::-1])
            other.rename(world.candidates)

    world.surroundings.look = look
    with raises(RefusedError, "candidates-changed"):
        run(world.signed_job(), apply=True)
    assert looks[2] > 40, "that was during the first group"
    assert set(range(40, 60)) <= world.there()
    assert not world.there() & set(range(20)), "the second group was read from the open file"


@pytest.mark.system
def test_after_a_kill_finished_groups_are_not_read_again(tmp_path, monkeypatch):
    world = SignedWorld(tmp_path, 400, target=0.0001)
    world.make()
    monkeypatch.setattr(run_account, "SYNC_ROWS", 20)
    process = os.fork()
    if process == 0:
        try:
            run(world.signed_job(id="killed"), apply=True)
        finally:
            os._exit(1)
    while not journals(tmp_path / "journals") or len(world.done()) < 100:
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    standing, done = world.standing(), world.done()
    # What was deleted and not synchronised is looked for: power may have been cut.
    unsettled = [rows for of_batch in standing.unsettled for rows in of_batch.rows]
    needed = {row for rows in unsettled for row in range(rows.first, rows.end)}
    needed |= set(range(400)) - done
    finished = [g for g in range(20) if not needed & set(range(20 * g, 20 * g + 20))]
    assert len(finished) >= 3
    for group in finished:
        world.signed.flip(group)
    result = run(world.signed_job(id="second"), apply=True)
    assert result.reason in (StopReason.TARGET, StopReason.EXHAUSTED)
    fates = {row: f for rows, f in world.standing().fates for row in range(rows.first, rows.end)}
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

    def jobs(job, _name):
        return replace(job, listing=CandidatesListing(signed.candidates(), 300))

    hosts.jobs = jobs
    try:
        signed.flip(3)
        for process in (hosts.start("one"), hosts.start("other")):
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            del hosts.started[process]
            assert code == 1
        there = hosts.world.there()
        assert set(range(150, 300)) <= there
        assert not there & set(range(130)), "the rows before are dealt with"
        standing = hosts.standing()
        assert standing.claims == ()
        ends = [line for line in hosts.lines() if isinstance(line, RunEndLine)]
        assert [(end.reason, "row group 3 of 6" in end.text) for end in ends] == [
            ("failed", True),
            ("failed", True),
        ]
        signed.flip(3)
        process = hosts.start("last")
        assert hosts.wait(process) in ("target-reached", "plan-exhausted")
        assert hosts.world.there() == set()
        audit(hosts.lines())
    finally:
        hosts.kill_all()
