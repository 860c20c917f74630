"""Every decision exactly, and whole runs against file systems that tell of deletions late."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.narrow import instance

from trimtab.base.error import UsageError
from trimtab.purge.fullness import Usage
from trimtab.purge.run.next_batch import Pace, PaceLimits
from trimtab.purge.run.next_step import RunTerms, begin, handle, settling
from trimtab.purge.run.rows import Allowance, BatchOutcome, ListedRows, RowBatch, Rows, Spent
from trimtab.purge.run.situation import (
    Delete,
    Ended,
    LookAtRows,
    LookedAtRows,
    Measure,
    Objection,
    Stop,
    StopReason,
    UsageMeasured,
    Wait,
    Waited,
)

PACE = PaceLimits(rows_min=2, rows_max=10, rows_step=2)
TERMS = RunTerms(True, 0.5, pace=PACE, settle_s_min=15.0, settle_s_max=100.0, settle_s_step=5.0)
DRY = replace(TERMS, apply=False)
FULL = Usage(80, 20)
HUNDRED = (Rows(0, 100),)
DESTROYING = Wait(5.0, "objects of deleted files are being destroyed")


def list_of(rows, size=1):
    return ListedRows(rows, np.zeros(rows.count, np.uint32), np.full(rows.count, size, np.uint64))


def ended(batch, *outcomes, freed=0, **changes):
    outcome = BatchOutcome(batch, outcomes, 0, freed, freed, {}, 0.1, 0.001, 0.002)
    return replace(outcome, **changes)


def running(terms=TERMS, todo=HUNDRED, **changes):
    """Return a run that is past its first measurement."""
    state = replace(begin(terms, todo), needed_bytes=30, needed_first_bytes=30, measured_at_s=0.0)
    return replace(state, used_first_bytes=80, **changes)


def test_it_begins_with_a_measurement_once_nothing_is_being_destroyed():
    state, instruction = settling(begin(TERMS, (Rows(0, 9),)), 1000.0)
    assert instruction == Measure()
    state, instruction = handle(state, UsageMeasured(1000.0, FULL, 3))
    assert instruction == DESTROYING
    state, instruction = handle(state, Waited(1005.0))
    assert instruction == Measure()
    state, instruction = handle(state, UsageMeasured(1012.0, FULL, 0))
    assert instruction == replace(DESTROYING, seconds=3.0)
    state, instruction = handle(state, UsageMeasured(1015.0, FULL, 0))
    assert instruction == LookAtRows(Rows(0, 2))
    assert (state.needed_bytes, state.needed_first_bytes, state.used_first_bytes) == (30, 30, 80)


def test_a_dry_run_measures_at_once():
    state, _ = settling(begin(DRY, (Rows(0, 9),)), 1000.0)
    assert handle(state, UsageMeasured(1000.0, FULL, 3))[1] == LookAtRows(Rows(0, 2))


def test_at_or_under_the_target_nothing_goes():
    state = replace(begin(TERMS, (Rows(0, 9),)), settling_since_s=0.0)
    assert handle(state, UsageMeasured(20.0, Usage(50, 50)))[1] == Stop(
        StopReason.TARGET,
        "the file system was already 50.0 % full, at or under its target of 50.0 %",
    )
    assert handle(state, UsageMeasured(20.0, Usage(51, 49)))[1] == LookAtRows(Rows(0, 2))


def test_without_rows_it_is_over():
    state = replace(begin(TERMS, ()), settling_since_s=0.0)
    assert handle(state, UsageMeasured(20.0, FULL))[1] == Stop(
        StopReason.EXHAUSTED,
        "all files of the plan are done; 30 B more must go to reach the target",
    )


def test_it_deletes_what_is_needed_and_not_a_file_more():
    state = running(pace=Pace(10), needed_bytes=7)
    _, instruction = handle(state, LookedAtRows(1.0, (), list_of(Rows(0, 10), size=3)))
    assert instruction == Delete(RowBatch(Rows(0, 3)))


def test_an_objection_ends_it_before_the_next_batch():
    objection = Objection("kill-switch", "the switch is pulled")
    assert handle(running(), LookedAtRows(1.0, (objection,), list_of(Rows(0, 2))))[1] == Stop(
        StopReason.OBJECTION, "the switch is pulled", (objection,)
    )


def test_no_batch_begins_after_its_time():
    state = running(replace(TERMS, ends_at_s=50.0))
    look = LookedAtRows(50.0, (), list_of(Rows(0, 2)))
    assert handle(state, look)[1] == Stop(StopReason.OUT_OF_TIME, "the run's end time is reached")
    assert isinstance(handle(state, replace(look, at_s=49.9))[1], Delete)


def test_caps_end_it():
    state = running(replace(TERMS, allowance=Allowance(files=5)), spent=Spent(5, 0))
    look = LookedAtRows(1.0, (), list_of(Rows(0, 2)))
    assert handle(state, look)[1] == Stop(
        StopReason.FILES_CAP, "5 files deleted of at most 5 in 20.0 h"
    )
    state = running(replace(TERMS, allowance=Allowance(bytes=2**20)), spent=Spent(1, 2**20))
    assert handle(state, look)[1] == Stop(
        StopReason.BYTES_CAP,
        "1.00 MiB deleted of at most 1.00 MiB in 20.0 h; the next file would exceed it",
    )


def test_a_batch_is_taken_off_what_is_to_do_and_off_what_is_needed():
    batch = RowBatch(Rows(0, 10), (Rows(8, 2),))
    outcome = ended(batch, ("deleted", 6), ("failed", 2), ("capped", 2), freed=12)
    state, instruction = handle(running(pace=Pace(10)), Ended(2.0, outcome))
    assert instruction == LookAtRows(Rows(10, 10))
    assert state.todo == (Rows(10, 90),)
    amounts = (state.needed_bytes, state.freed_bytes, state.rows_done, state.troubles)
    assert amounts == (18, 12, 8, 2)


def test_when_as_much_is_freed_as_was_needed_it_waits_before_it_measures():
    outcome = ended(RowBatch(Rows(0, 10)), ("deleted", 10), freed=30)
    state, instruction = handle(running(), Ended(2.0, outcome))
    assert (instruction, state.settling_since_s) == (Measure(), 2.0)
    state, instruction = handle(state, UsageMeasured(2.0, FULL, None))
    assert instruction == DESTROYING
    assert handle(state, UsageMeasured(17.0, Usage(50, 50), None))[1] == Stop(
        StopReason.TARGET, "the file system is 50.0 % full, at or under its target of 50.0 %"
    )
    assert handle(state, UsageMeasured(17.0, Usage(55, 45), None))[1] == LookAtRows(Rows(10, 4))
    assert handle(state, UsageMeasured(90.0, FULL, 7))[1] == DESTROYING
    assert handle(state, UsageMeasured(102.0, FULL, 7))[1] == Stop(
        StopReason.NOT_SETTLED,
        "7 objects are still being destroyed after 100.0 s: free space unknown",
    )


def test_a_measurement_on_the_way_lowers_what_is_needed_and_never_raises_it():
    outcome = ended(RowBatch(Rows(0, 10)), ("deleted", 10), freed=10)
    state, instruction = handle(running(), Ended(61.0, outcome))
    assert instruction == Measure()
    assert handle(state, UsageMeasured(61.0, FULL, 5))[0].needed_bytes == 20
    lower, instruction = handle(state, UsageMeasured(61.0, Usage(55, 45), 5))
    assert (lower.needed_bytes, lower.measured_at_s) == (5, 61.0)
    assert instruction == LookAtRows(Rows(10, 4))
    stop = instance(Stop, handle(state, UsageMeasured(61.0, Usage(50, 50), 5))[1])
    assert stop.reason is StopReason.TARGET


def test_deleting_that_frees_nothing_ends():
    state = running(freed_bytes=30, settling_since_s=0.0)
    assert handle(state, UsageMeasured(20.0, Usage(66, 34), 0))[1] == Stop(
        StopReason.NOT_FREED,
        "30 B deleted, but usage fell by only 14 B: users write as fast, or snapshots, a trash can "
        "or shared extents hold the space",
    )
    assert handle(state, UsageMeasured(20.0, Usage(65, 35), 0))[1] == LookAtRows(Rows(0, 2))
    # Before what was needed is freed, nothing can be said.
    early = replace(state, freed_bytes=29)
    assert handle(early, UsageMeasured(20.0, FULL, 0))[1] == LookAtRows(Rows(0, 2))


def test_many_troubles_end_it_and_few_do_not():
    state = running(rows_done=900, troubles=90, pace=Pace(10))
    few = ended(RowBatch(Rows(0, 10)), ("deleted", 10))
    assert handle(state, Ended(1.0, few))[1] == LookAtRows(Rows(10, 10))
    many = ended(RowBatch(Rows(0, 100)), ("denied", 100))
    assert handle(state, Ended(1.0, many))[1] == Stop(
        StopReason.TROUBLES, "19.0 % of the rows failed: something else is wrong"
    )


def test_a_late_file_system_is_given_a_pause():
    second = {"latency_s_median": 1.0, "latency_s_p99": 1.0, "elapsed_s": 1.0}
    late = ended(RowBatch(Rows(0, 2)), ("deleted", 2), **second)
    state, instruction = handle(running(), Ended(1.0, late))
    assert state.pace == Pace(2, 0.25)
    assert instruction == Wait(0.25, "the file system responds slowly")
    assert handle(state, Waited(1.25))[1] == LookAtRows(Rows(2, 2))


def test_a_dry_run_ends_where_the_target_would_be_reached():
    outcome = ended(RowBatch(Rows(0, 10)), ("would_delete", 10), freed=30)
    assert handle(running(DRY), Ended(1.0, outcome))[1] == Stop(
        StopReason.TARGET, "the target would be reached: 30 B would be freed"
    )
    less = Ended(1.0, replace(outcome, freed_bytes=29))
    assert handle(running(DRY), less)[1] == LookAtRows(Rows(10, 4))
    last = running(DRY, todo=(Rows(0, 10),), needed_bytes=None)
    assert handle(last, Ended(1.0, outcome))[1] == Stop(
        StopReason.EXHAUSTED, "all files of the plan are done"
    )


@pytest.mark.parametrize(("apply", "target"), [(True, None), (True, 0.0), (False, 1.0)])
def test_terms_that_make_no_sense_are_refused(apply, target):
    with pytest.raises(UsageError):
        RunTerms(apply, target)


class Lagging:
    """A file system that destroys what was deleted after a while, while others write and delete."""

    def __init__(self, sizes, lag_s, used, available, drift, *, tells=True):
        self.sizes, self.lag_s, self.drift, self.tells = sizes, lag_s, drift, tells
        self.used, self.capacity = used, used + available
        self.pending = []
        self.deleted = []
        self.at_s = 0.0

    def settle(self):
        self.used -= sum(size for due_s, size in self.pending if due_s <= self.at_s)
        self.pending = [one for one in self.pending if one[0] > self.at_s]

    def event(self, instruction):
        self.at_s += 0.5
        self.settle()
        match instruction:
            case LookAtRows():
                rows = instruction.rows
                return LookedAtRows(self.at_s, (), list_of(rows, self.sizes[rows.first : rows.end]))
            case Measure():
                self.used = max(0, min(self.capacity, self.used + self.drift))
                usage = Usage(self.used, self.capacity - self.used)
                return UsageMeasured(self.at_s, usage, len(self.pending) if self.tells else None)
            case Delete():
                rows = instruction.batch.rows
                sizes = self.sizes[rows.first : rows.end]
                self.pending += [(self.at_s + self.lag_s, size) for size in sizes]
                self.deleted += range(rows.first, rows.end)
                done = ("deleted", rows.count)
                return Ended(self.at_s, ended(instruction.batch, done, freed=sum(sizes)))
            case Wait():
                self.at_s += instruction.seconds
                return Waited(self.at_s)
        raise AssertionError(instruction)

    def run(self, terms):
        state, instruction = settling(begin(terms, (Rows(0, len(self.sizes)),)), self.at_s)
        steps = 0
        while not isinstance(instruction, Stop):
            state, instruction = handle(state, self.event(instruction))
            steps += 1
            assert steps < 10_000
        return state, instruction


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.floats(0.0, 60.0),
    st.integers(0, 1000),
    st.floats(0.5, 300.0),
)
def test_however_late_a_file_system_tells_no_more_goes_than_is_needed(sizes, lag_s, used, often_s):
    world = Lagging(sizes, lag_s, used, 1000 - used, drift=0)
    needed = Usage(used, 1000 - used).excess_bytes(0.5)
    _, stop = world.run(replace(TERMS, measure_every_s=often_s))
    assert world.deleted == list(range(len(world.deleted)))
    gone = [sizes[row] for row in world.deleted]
    if stop.reason is StopReason.TARGET:
        assert sum(gone) >= needed
        # Not one file more: without the last it would not have been enough.
        assert sum(gone[:-1]) < needed or not gone
    else:
        assert (stop.reason, len(gone)) == (StopReason.EXHAUSTED, len(sizes))
        assert sum(gone) < needed


@pytest.mark.calibration
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.floats(0.0, 600.0),
    st.integers(0, 1000),
    st.floats(0.5, 300.0),
)
def test_no_more_goes_where_nobody_tells_how_late_it_is(sizes, lag_s, used, often_s):
    world = Lagging(sizes, lag_s, used, 1000 - used, drift=0, tells=False)
    needed = Usage(used, 1000 - used).excess_bytes(0.5)
    _, stop = world.run(replace(TERMS, measure_every_s=often_s, frees_late=True))
    gone = [sizes[row] for row in world.deleted]
    assert sum(gone[:-1]) < needed or not gone
    assert stop.reason in (StopReason.TARGET, StopReason.NOT_SETTLED, StopReason.EXHAUSTED)
    assert (sum(gone) >= needed) == (stop.reason is not StopReason.EXHAUSTED)


def test_what_is_freed_and_not_seen_is_said_where_nobody_tells_of_it():
    late = replace(TERMS, frees_late=True)
    state = running(late, freed_bytes=30, settling_since_s=0.0)
    assert handle(state, UsageMeasured(20.0, FULL, None))[1] == Stop(
        StopReason.NOT_SETTLED,
        "enough was deleted, but 30 B of it does not show in usage yet, and it is unknown whether "
        "objects are still being destroyed",
    )
    # Users wrote 5 meanwhile: more is needed than was at first.
    assert handle(state, UsageMeasured(20.0, Usage(85, 15), None))[0].needed_bytes == 5
    seen = instance(Stop, handle(state, UsageMeasured(20.0, Usage(60, 40), None))[1])
    assert seen.reason is StopReason.NOT_SETTLED
    # Who knows that nothing is being destroyed knows that others wrote.
    assert handle(state, UsageMeasured(20.0, Usage(60, 40), 0))[0].needed_bytes == 10


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.integers(-30, 30),
    st.integers(400, 1000),
)
def test_a_run_ends_whatever_others_write(sizes, drift, used):
    world = Lagging(sizes, 3.0, used, 1000 - used, drift)
    state, _ = world.run(replace(TERMS, measure_every_s=math.inf))
    assert len(world.deleted) == len(set(world.deleted)) <= len(sizes)
    assert state.freed_bytes == sum(sizes[row] for row in world.deleted)
