"""Benchmarks that probes run phase by phase: versions, failures, and whether what was asked ran."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType

import pytest
from tests.formats import damage
from tests.formats.recorded import FIXTURES, fixture
from tests.support.codes import raises
from tests.support.each import for_each

from trimtab.base.error import ToolError, UsageError, code_of
from trimtab.base.run import ProbeSpec, RawOutput, RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.formats import fio, ioload, ior, mdtest
from trimtab.formats.measurement import Measurement
from trimtab.formats.phase import confirm, readable_size_bytes

PHASED = (fio, ioload, ior)
MDTEST_VERSIONS = ("1.9.3", "1.9.3-ior-3.2.0", "3.3.0", "4.0.0", "4.1.0+dev")
ABSENT = "tool-not-recognised"
OLD = "tool-too-old"


@dataclass
class Program:
    """A program that prints something, and the arguments that it was started with."""

    printed: bytes
    stderr: bytes = b""
    argv: tuple[str, ...] = ()

    def __call__(self, argv: tuple[str, ...]) -> RawOutput:
        self.argv = argv
        return RawOutput("version", argv, self.printed, self.stderr)


def mdtest_output(version: str) -> bytes:
    return (FIXTURES / "mdtest" / version / "files.out").read_bytes()


@for_each(
    "tool, printed, expected",
    [
        (fio, b"fio-3.33\n", "3.33"),
        (fio, b"fio-3.36-12-gabc\n", "3.36-12-gabc"),
        (fio, b"fio-2.21\n", OLD),
        (fio, b"", ABSENT),
        (fio, b"something else\n", ABSENT),
        (ioload, b"ioload 0.1.0\n", "0.1.0"),
        (ioload, b"", ABSENT),
        (ioload, b"rubbish", ABSENT),
        (ior, b'{\n  "Version": "4.1.0+dev", \n', "4.1.0+dev"),
        (ior, b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n", "4.0.0"),
        (ior, b"IOR-3.3.0: MPI Coordinated Test of Parallel I/O\n", OLD),
        (ior, b"IOR-2.10.3: MPI Coordinated Test of Parallel I/O\n", OLD),
        (ior, b"", ABSENT),
        (ior, b"ior: not the benchmark", ABSENT),
        *((mdtest, mdtest_output(name), name.partition("-")[0]) for name in MDTEST_VERSIONS),
        (mdtest, b"", ABSENT),
    ],
)
def test_version(tool: ModuleType, printed: bytes, expected: str) -> None:
    program = Program(printed, b"no such option")
    result = tool.version(program, "/opt/tool")
    if expected in (OLD, ABSENT):
        assert isinstance(result, NotAvailable)
        assert code_of(result.reason) == expected
        assert expected == OLD or "no such option" in result.reason  # what it printed instead
    else:
        assert result == expected
    assert program.argv[0] == "/opt/tool"
    assert tool is not ior or program.argv[1:3] == ("-a", "DUMMY")  # it writes nothing


def test_version_of_what_cannot_be_started() -> None:
    def run(_argv: tuple[str, ...]) -> RawOutput:
        raise ToolError("it is not executable", code="no-permission")

    for tool in (*PHASED, mdtest):
        answer = tool.version(run, "/opt/tool")
        assert isinstance(answer, NotAvailable)
        assert (code_of(answer.reason), answer.reason) == ("no-permission", "it is not executable")


@for_each(
    "tool, name, status, words",
    [
        (fio, "no-space", RunStatus.PARTIAL, "No space left on device (error 28)"),
        (fio, "kill", RunStatus.PARTIAL, "terminating on signal 2"),
        (fio, "interrupted-int", RunStatus.PARTIAL, "terminating on signal 2"),
        (fio, "no-directory", RunStatus.FAILED, "is not a directory; fio ended with exit code 1"),
        (fio, "no-files", RunStatus.FAILED, "No such file or directory (error 2)"),
        (ioload, "no-space", RunStatus.PARTIAL, "No space left on device"),
        (ioload, "interrupted-int", RunStatus.PARTIAL, "interrupted by SIGINT"),
        (ioload, "no-directory", RunStatus.FAILED, "is not a directory"),
        (ioload, "no-files", RunStatus.FAILED, "No such file or directory"),
        (ior, "no-space", RunStatus.FAILED, "No space left on device"),
        (ior, "enospc-fpp-json", RunStatus.FAILED, "No space left on device"),
        (ior, "interrupted-int", RunStatus.FAILED, "output-unfinished, tool-exit"),
        (ior, "no-directory", RunStatus.FAILED, "No such file or directory"),
        (ior, "no-files", RunStatus.FAILED, "No such file or directory"),
        (ior, "verify-corrupt", RunStatus.FAILED, "data-corrupt"),
    ],
)
def test_failure_is_explained(tool: ModuleType, name: str, status: RunStatus, words: str) -> None:
    """In the tool's own words, or by a code where the reason is ours."""
    measured = tool.parse(fixture(tool.__name__.rpartition(".")[2], name).output)
    assert measured.status is status
    assert words in f"{', '.join(measured.codes)}: {measured.problem}"
    assert status is RunStatus.PARTIAL or not any(s.believed for s in measured.samples)


@for_each("rubbish", damage.RUBBISH, ids=range(len(damage.RUBBISH)))
def test_rubbish_is_named(rubbish: bytes) -> None:
    for tool in PHASED:
        measured = tool.parse(RawOutput("x", ("tool",), rubbish, exit_code=0))
        damage.check_sane(measured)
        assert not any(sample.believed for sample in measured.samples)
        assert measured.status is RunStatus.FAILED or tool is ior


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
