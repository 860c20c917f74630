"""Whether a run did what was asked, and how much of its files can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.formats.recorded import fixture
from tests.support.codes import raises

from trimtab.base.error import ToolError, UsageError
from trimtab.base.run import ProbeSpec, RunStatus
from trimtab.formats import fio, ioload, ior
from trimtab.formats.measurement import Measurement
from trimtab.formats.phase import confirm, readable_size_bytes

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
    ("values", "code", "figures"),
    [
        ({"tasks": 3}, "workload-mismatch", "3 tasks instead of 2"),
        ({"tasks": None}, "parameters-not-printed", "tasks"),
        (
            {"transfer_size_bytes": 4096},
            "workload-mismatch",
            "4096 bytes per transfer instead of 1048576",
        ),
        ({"moved_bytes": 0}, "no-bytes", "write 0"),
        ({"moved_bytes": None}, "no-bytes", "write 0"),
        ({"moved_bytes": MIB}, "bytes-mismatch", "1048576"),
        ({"moved_bytes": 100 * MIB + 1}, "bytes-mismatch", "104857601"),
        ({"block_size_bytes": 64 * MIB}, "workload-mismatch", "67108864"),
    ],
)
def test_another_workload_is_not_judged(values: dict[str, object], code: str, figures: str) -> None:
    confirmed = confirm(changed(**values), SPEC)
    assert (confirmed.status, confirmed.codes[0]) == (RunStatus.INVALID_WORKLOAD, code)
    assert figures in confirmed.problems[0]


def test_access_that_was_not_asked_for() -> None:
    measured = changed()
    confirmed = confirm(measured, replace(SPEC, accesses=("read",)))
    assert confirmed.codes == ("access-not-requested",)
    assert confirmed.status is RunStatus.INVALID_WORKLOAD
    assert confirm(measured, replace(SPEC, accesses=("write",))) is measured


@pytest.mark.parametrize(
    ("sizes", "codes"),
    [
        ({"data.0": 32 * MIB}, ("file-count-mismatch",)),
        ({"data.0": MIB, "data.1": 33 * MIB}, ("file-size-mismatch",)),
        ({}, ("file-count-mismatch",)),
    ],
)
def test_files_that_contradict(sizes: dict[str, int], codes: tuple[str, ...]) -> None:
    confirmed = confirm(changed(), SPEC, sizes=sizes)
    assert (confirmed.status, confirmed.codes) == (RunStatus.INVALID_WORKLOAD, codes)


def test_files_cannot_hold_more_than_was_written() -> None:
    confirmed = confirm(changed(moved_bytes=10 * MIB), SPEC, sizes=SIZES)
    assert confirmed.codes == ("file-size-mismatch",)
    assert "67108864 bytes, but 10485760" in confirmed.problems[0]


def test_run_that_ended_early_may_have_stopped_anywhere() -> None:
    partial = replace(
        changed(moved_bytes=MIB // 2), status=RunStatus.PARTIAL, problems=("the disk is full",)
    )
    assert confirm(partial, SPEC) is partial


def test_failed_run_stays_failed() -> None:
    failed = fio.parse(fixture("fio", "no-files").output)
    assert confirm(failed, SPEC, sizes={}) is failed


def test_earlier_problem_is_kept() -> None:
    partial = replace(changed(tasks=1), status=RunStatus.PARTIAL, problems=("the disk is full",))
    confirmed = confirm(partial, SPEC)
    assert confirmed.codes == ("workload-mismatch", "tool-message")
    assert confirmed.problems[1] == "the disk is full"


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
    ("sizes", "code"),
    [
        ({}, "file-count-mismatch"),
        ({"a": MIB}, "file-count-mismatch"),
        ({"a": MIB, "b": MIB - 1}, "file-too-short"),
        ({"a": MIB, "b": 0}, "file-too-short"),
    ],
)
def test_nothing_to_read(sizes: dict[str, int], code: str) -> None:
    with raises(ToolError, code):
        readable_size_bytes(sizes, SPEC)


def test_shared_file_has_holes() -> None:
    with raises(UsageError, "shared-file-holes"):
        readable_size_bytes({"data": 64 * MIB}, replace(SPEC, file_per_process=False))
