"""The plan of a probe: exact arithmetic, and refusals before anything is written."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises

from trimtab.base.error import RefusedError, UsageError
from trimtab.base.run import RunStatus
from trimtab.formats.measurement import MeasuredPhase, Measurement
from trimtab.probe.check.check_plan import CheckRequest, plan_probe
from trimtab.probe.write_read import WriteRead

MIB, GIB = 1024**2, 1024**3


def plan(available: int = 100 * GIB, processors: int = 2, **request):
    return plan_probe(CheckRequest(**request), available_bytes=available, processors=processors)


def test_the_default_fits_a_minute_and_a_twentieth_of_the_free_space():
    spec = plan()
    assert (spec.repetitions, spec.duration_s, spec.tasks) == (5, 5.0, 4)
    assert (spec.transfer_size_bytes, spec.block_size_bytes) == (MIB, GIB)
    assert spec.direct


def test_space_never_exceeds_64_gib_by_default():
    spec = plan(available=10**16)
    assert spec.tasks * spec.block_size_bytes == 64 * GIB


@given(available=st.integers(40 * MIB, 10**16), processors=st.integers(1, 256))
def test_any_plan_stays_within_its_space(available, processors):
    spec = plan(available=available, processors=processors)
    assert spec.tasks * spec.block_size_bytes <= min(64 * GIB, available * 0.05)
    assert spec.block_size_bytes % spec.transfer_size_bytes == 0
    assert 1 <= spec.tasks <= 16


@given(budget=st.floats(1, 3600), repetitions=st.none() | st.integers(1, 50))
def test_any_plan_stays_within_its_time_or_takes_the_shortest(budget, repetitions):
    spec = plan(budget_s=budget, repetitions=repetitions)
    assert spec.duration_s <= 5.0
    planned = 2 * spec.repetitions * (spec.duration_s + 0.5)
    assert planned <= max(budget, 2 * spec.repetitions * 0.6) + 1e-6


def test_a_small_budget_gives_short_repetitions_rather_than_none():
    spec = plan(budget_s=5.0)
    assert (spec.repetitions, spec.duration_s) == (1, 2.0)


def test_a_nearly_full_file_system_is_refused():
    with raises(RefusedError, "space-too-small"):
        plan(available=10 * MIB)


def test_a_space_budget_that_would_fill_the_file_system_is_refused():
    with raises(RefusedError, "space-too-small"):
        plan(available=10 * GIB, space_bytes=10 * GIB)


def test_a_block_size_over_the_space_budget_is_wrong_use():
    with raises(UsageError, "space-budget-exceeded"):
        plan(block_size_bytes=64 * GIB)


def test_sizes_must_suit_direct_io():
    with raises(UsageError, "transfer-size-unaligned"):
        plan(transfer_size_bytes=1000)
    assert plan(transfer_size_bytes=1000, direct=False).transfer_size_bytes == 1000


def test_more_tasks_than_the_space_has_transfers_is_wrong_use():
    with raises(UsageError, "space-budget-exceeded"):
        plan(available=40 * MIB, tasks=64)


def test_an_earlier_block_size_is_kept_while_it_fits():
    assert plan(available=200 * GIB).block_size_bytes == 2 * GIB
    kept = plan_probe(
        CheckRequest(),
        available_bytes=200 * GIB,
        processors=2,
        earlier=[dataclasses.replace(plan(), direct=False), plan()],
    )
    assert kept.block_size_bytes == GIB
    shrunk = plan_probe(CheckRequest(), available_bytes=50 * GIB, processors=2, earlier=[plan()])
    assert shrunk.block_size_bytes == 512 * MIB
    grown = plan_probe(CheckRequest(), available_bytes=800 * GIB, processors=2, earlier=[plan()])
    assert grown.block_size_bytes == 8 * GIB


class Counting(WriteRead):
    """Writes so much at every write, and nothing in truth."""

    def _one_access(self, probe, repetition, access, text, position) -> None:
        phases = (MeasuredPhase(access, repetition, 10 * GIB),)
        probe.measurements.append(Measurement("builtin", RunStatus.OK, phases=phases))


@pytest.mark.parametrize(("most_gib", "writes"), [(100, 5), (35, 3), (5, 1)])
def test_no_write_begins_that_would_be_more_than_half_of_the_free_space(most_gib, writes):
    instrument = SimpleNamespace(launcher=None, tool=SimpleNamespace(path="ioload"))
    probe = SimpleNamespace(measurements=[], warnings=[], problems=[], progress=lambda *_: None)
    step = Counting(plan(), instrument, most_gib * GIB)  # type: ignore[arg-type]
    step.measure(probe)  # type: ignore[arg-type]
    assert len(probe.measurements) == 2 * writes  # each with its read
    assert len(probe.warnings) == (writes < 5)
