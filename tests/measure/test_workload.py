"""Whether a run did what was asked, and how much of its files can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.measure.recorded import fixture

from trimtab.errors import ToolError, UsageError
from trimtab.measure import fio, ioload, ior
from trimtab.measure.measurement import Measurement
from trimtab.measure.workload import confirm, readable_size_bytes
from trimtab.model.run import ProbeSpec, RunStatus

MIB = 2**20
SPEC = ProbeSpec("check", "fio", 2, MIB, 32 * MIB, 1, 1.0)
SIZES = {"data.0": 32 * MIB, "data.1": 32 * MIB}
PARSERS = {"ior": ior.parse, "fio": fio.parse, "ioload": ioload.parse}


@pytest.mark.parametrize("tool", PARSERS)
@pytest.mark.parametrize("access", ["write", "read"])
def test_recorded_runs_did_what_was_asked(tool: str, access: str) -> None:
    measured = PARSERS[tool](fixture(tool, f"{access}-direct").output)
    assert confirm(measured, SPEC, sizes=SIZES) is measured
    assert measured.status is RunStatus.OK


def changed(**values: object) -> Measurement:
    measured = fio.parse(fixture("fio", "write-direct").output)
    return replace(measured, phases=(replace(measured.phases[0], **values),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tasks": 3}, "3 tasks instead of 2"),
        ({"tasks": None}, "number of tasks is not known"),
        ({"transfer_size_bytes": 4096}, "4096 bytes a transfer instead of 1048576"),
        ({"moved_bytes": 0}, "no bytes were moved"),
        ({"moved_bytes": None}, "no bytes were moved"),
        ({"moved_bytes": MIB}, "less than one transfer of every task"),
        ({"moved_bytes": 100 * MIB + 1}, "not whole transfers"),
        ({"block_size_bytes": 64 * MIB}, "a block of 67108864 bytes"),
    ],
)
def test_another_workload_is_not_judged(values: dict[str, object], words: str) -> None:
    confirmed = confirm(changed(**values), SPEC)
    assert confirmed.status is RunStatus.INVALID_WORKLOAD
    assert words in (confirmed.problem or "")


def test_access_that_was_not_asked_for() -> None:
    measured = changed()
    assert "not asked for" in (confirm(measured, SPEC, "read").problem or "")
    only_reads = replace(SPEC, accesses=("read",))
    assert confirm(measured, only_reads).status is RunStatus.INVALID_WORKLOAD
    assert confirm(measured, SPEC, "write") is measured


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"data.0": 32 * MIB}, "1 files instead of 2"),
        ({"data.0": MIB, "data.1": 33 * MIB}, "a file of 34603008 bytes instead of at most"),
        ({}, "0 files instead of 2"),
    ],
)
def test_files_that_contradict(sizes: dict[str, int], words: str) -> None:
    confirmed = confirm(changed(), SPEC, sizes=sizes)
    assert confirmed.status is RunStatus.INVALID_WORKLOAD
    assert words in (confirmed.problem or "")


def test_files_cannot_hold_more_than_was_written() -> None:
    confirmed = confirm(changed(moved_bytes=10 * MIB), SPEC, sizes=SIZES)
    assert "67108864 bytes, but 10485760 were written" in (confirmed.problem or "")


def test_run_that_ended_early_may_have_stopped_anywhere() -> None:
    partial = replace(
        changed(moved_bytes=MIB // 2), status=RunStatus.PARTIAL, problem="the disk is full"
    )
    assert confirm(partial, SPEC) is partial


def test_failed_run_stays_failed() -> None:
    failed = fio.parse(fixture("fio", "no-files").output)
    assert confirm(failed, SPEC, sizes={}) is failed


def test_earlier_problem_is_kept() -> None:
    partial = replace(changed(tasks=1), status=RunStatus.PARTIAL, problem="the disk is full")
    problem = confirm(partial, SPEC).problem or ""
    assert "1 tasks instead of 2" in problem
    assert "the disk is full" in problem


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"a": 32 * MIB, "b": 32 * MIB}, 32 * MIB),
        ({"a": 64 * MIB, "b": 64 * MIB}, 32 * MIB),
        ({"a": 3 * MIB + 5, "b": 32 * MIB}, 3 * MIB),
        ({"a": MIB, "b": MIB}, MIB),
    ],
)
def test_read_asks_for_the_shortest_file_in_whole_transfers(
    sizes: dict[str, int], expected: int
) -> None:
    assert readable_size_bytes(sizes, SPEC) == expected


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({}, "left 0 files instead of 2"),
        ({"a": MIB}, "left 1 files"),
        ({"a": MIB, "b": MIB - 1}, "less than one transfer"),
        ({"a": MIB, "b": 0}, "less than one transfer"),
    ],
)
def test_nothing_to_read(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        readable_size_bytes(sizes, SPEC)


def test_shared_file_has_holes() -> None:
    with pytest.raises(UsageError, match="holes"):
        readable_size_bytes({"data": 64 * MIB}, replace(SPEC, file_per_process=False))
