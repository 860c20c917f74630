"""Benchmarks that probes run phase by phase: versions, failures, the built-in one, real runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.formats import damage
from tests.formats.damage import sampled
from tests.formats.recorded import FIXTURES, Recording, fixture, kept
from tests.support import loopback
from tests.support.codes import raises
from tests.support.each import for_each
from tests.support.narrow import instance, present

from trimtab.base.error import ToolError, UsageError, code_of
from trimtab.base.run import Access, ProbeSpec, RawOutput, RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.formats import fio, ioload, ior, mdtest
from trimtab.formats import phase as workload
from trimtab.formats.format_table import find, names, phases_of
from trimtab.formats.measurement import Measurement
from trimtab.formats.phase import PhaseRequest, confirm, readable_size_bytes
from trimtab.reach.launcher import LAUNCHERS
from trimtab.reach.process import execute

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
        reason = instance(NotAvailable, tool.version(run, "/opt/tool")).reason
        assert (code_of(reason), reason) == ("no-permission", "it is not executable")


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
        ({"transfer_size_bytes": 4096}, "workload-mismatch", "4096 bytes per transfer instead of"),
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
    ("sizes", "moved_bytes", "code"),
    [
        ({"data.0": 32 * MIB}, 64 * MIB, "file-count-mismatch"),
        ({"data.0": MIB, "data.1": 33 * MIB}, 64 * MIB, "file-size-mismatch"),
        ({}, 64 * MIB, "file-count-mismatch"),
        (SIZES, 10 * MIB, "file-size-mismatch"),
    ],
    ids=["one is missing", "of other sizes", "none", "more than was written"],
)
def test_files_that_contradict(sizes: dict[str, int], moved_bytes: int, code: str) -> None:
    confirmed = confirm(changed(moved_bytes=moved_bytes), SPEC, sizes=sizes)
    assert (confirmed.status, confirmed.codes) == (RunStatus.INVALID_WORKLOAD, (code,))
    if moved_bytes == 10 * MIB:
        assert "67108864 bytes, but 10485760" in confirmed.problems[0]


def test_a_run_that_ended_early_or_failed_stays_what_it_is() -> None:
    ended: Any = {"status": RunStatus.PARTIAL, "problems": ("the disk is full",)}
    partial = replace(changed(moved_bytes=MIB // 2), **ended)
    assert confirm(partial, SPEC) is partial  # it may have stopped anywhere
    failed = fio.parse(fixture("fio", "no-files").output)
    assert confirm(failed, SPEC, sizes={}) is failed
    confirmed = confirm(replace(changed(tasks=1), **ended), SPEC)
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
def test_read_takes_the_shortest_file_in_transfers(sizes: dict[str, int], expected: int) -> None:
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


BUILTIN = ProbeSpec("check", "builtin", 4, MIB, 1024 * MIB, 5, 5.0)
each = for_each("recorded", kept("ioload"), ids=lambda recorded: recorded.name)


def report(name: str = "write-direct") -> dict[str, Any]:
    return json.loads(fixture("ioload", name).text)


def parsed(document: dict[str, Any]) -> Measurement:
    output = fixture("ioload", "write-direct").output
    return ioload.parse(replace(output, stdout=json.dumps(document).encode() + b"\n"))


def test_command_of_a_write() -> None:
    argv = ioload.command(PhaseRequest(BUILTIN, "write", "/x/trimtab-ioload", "/scratch/a b"))
    assert argv == (
        *("/x/trimtab-ioload", "--dir", "/scratch/a b", "--name", "data", "--write", "--alone"),
        *("--tasks", "4", "--transfer-size", "1048576", "--block-size", "1073741824"),
        *("--deadline", "5", "--minimum-duration", "5", "--keep", "--fsync", "--direct"),
    )


def test_command_of_a_read() -> None:
    spec = replace(BUILTIN, direct=False, duration_s=0.25, file_per_process=False)
    argv = ioload.command(PhaseRequest(spec, "read", "x", "/scratch", 3 * MIB))
    assert argv[argv.index("--block-size") + 1] == str(3 * MIB)
    assert argv[argv.index("--deadline") + 1] == "0.25"
    assert argv[-3:] == ("--shared-file", "--reorder", "1")
    assert not {"--write", "--direct", "--fsync"} & set(argv)
    alone = ioload.command(PhaseRequest(replace(spec, tasks=1), "read", "x", "/scratch"))
    assert "--reorder" not in alone


def test_whole_run() -> None:
    measured = ioload.parse(fixture("ioload", "write-direct").output, repetition=2, ordinal=5)
    printed = report()
    assert (measured.kind, measured.status, measured.problem) == ("builtin", RunStatus.OK, None)
    assert measured.tool_version == printed["ioload"]
    (phase,) = measured.phases
    assert (phase.access, phase.repetition, phase.tasks) == ("write", 2, 2)
    assert (phase.transfer_size_bytes, phase.block_size_bytes) == (MIB, 32 * MIB)
    assert (phase.direct, phase.caches_dropped) == (True, False)
    reported = printed["phases"][0]
    assert phase.moved_bytes == reported["bytes"]
    for name in ("bandwidth_bytes_per_s", "elapsed_s", "cpu_user_s", "cpu_system_s"):
        assert getattr(phase, name) == reported[name], name
    sample = measured.samples[0]
    assert (sample.metric, sample.repetition) == ("write_bandwidth", 2)
    assert (sample.output, sample.line) == (5, 1)


def test_latency_and_timeline_add_up() -> None:
    measured = ioload.parse(fixture("ioload", "write-direct").output)
    reported = report()["phases"][0]
    latency = {sample.statistic: sample.value for sample in measured.samples[1:]}
    assert latency["p99.9"] == reported["latency"]["p999_s"]
    assert latency["p50"] == reported["latency"]["p50_s"]
    (histogram,) = measured.histograms
    assert sum(histogram.count) == reported["latency"]["count"]
    (timeline,) = measured.timelines
    assert (sum(timeline.moved_bytes), timeline.interval_s) == (reported["bytes"], 0.1)
    assert len(timeline.moved_bytes) == max(len(row) for row in reported["timeline"]["tasks"])


def test_deadline_that_came_is_what_was_asked_for() -> None:
    document = report()
    document["status"] = document["phases"][0]["status"] = "partial"
    assert parsed(document).status is RunStatus.OK


def test_buffered_instead_of_direct_is_said() -> None:
    direct = {"asked": True, "used": False, "reason": "tmpfs ignores it"}
    measured = parsed(report() | {"direct": direct})
    assert measured.phases[0].direct is False
    (warning,) = measured.warnings
    assert code_of(warning) == "direct-not-used"
    assert warning.endswith("tmpfs ignores it")


def with_phase(changes: dict[str, Any], name: str = "write-direct") -> Measurement:
    """Return what is read of a report whose phase was changed."""
    document = report(name)
    document["phases"][0] |= changes
    return parsed(document)


def test_data_that_came_back_wrong_is_a_failure() -> None:
    verify = {"checked_bytes": 1, "mismatches": 2, "first_mismatch": None}
    measured = with_phase({"verify": verify}, "read-direct")
    assert (measured.status, measured.codes) == (RunStatus.FAILED, ("data-corrupt",))
    assert not measured.samples[0].believed


@for_each("key", ["bytes", "elapsed_s", "bandwidth_bytes_per_s"])
@for_each("value", [0, -1, None, "many", float("nan"), float("inf"), True])
def test_figures_that_cannot_be_are_not_believed(key: str, value: object) -> None:
    measured = with_phase({key: value})
    damage.check_sane(measured)
    assert not measured.samples[0].believed


@for_each("key", ["latency", "timeline", "per_task", "verify", "access", "status"])
@for_each("value", [None, 3, "x", [], [[1]], {"tasks": [["x"]], "interval_s": 1}])
def test_other_shapes_never_raise(key: str, value: object) -> None:
    damage.check_sane(with_phase({key: value}))


@sampled
@each
def test_cut_anywhere_never_gives_another_number(recorded: Recording) -> None:
    data = recorded.output.stdout
    assert data or ioload.parse(recorded.output).status is RunStatus.FAILED
    for cut in damage.cuts(data, seed=len(data)) if data else ():
        measured = damage.check_cut(ioload.parse, recorded.output, cut)
        assert measured.status is not RunStatus.OK or data[len(cut) :].strip() == b""


@sampled
@each
def test_damage_never_raises_and_never_lies(recorded: Recording) -> None:
    if recorded.output.stdout:
        for changed in damage.flips(recorded.output.stdout, seed=3, count=40):
            damage.check_changed(ioload.parse, recorded.output, changed)


SHORT = ProbeSpec("check", "x", 2, MIB, 8 * MIB, 1, 0.4)


def ask(argv: tuple[str, ...]) -> RawOutput:
    return execute(argv, timeout_s=20).raw_output("version")


@dataclass(frozen=True)
class Installed:
    """A tool that is installed here."""

    name: str
    path: str
    wrap: Callable[[tuple[str, ...], int], tuple[str, ...]]

    def run(
        self, spec: ProbeSpec, access: Access, directory: Path, size_bytes: int | None = None
    ) -> tuple[Measurement, RawOutput]:
        benchmark = phases_of(self.name)
        argv = benchmark.arguments(
            PhaseRequest(spec, access, self.path, str(directory), size_bytes=size_bytes)
        )
        result = execute(self.wrap(argv, spec.tasks), timeout_s=60)
        output = result.raw_output(f"{access} 0")
        return benchmark.parse(output), output


@pytest.fixture(params=names("phases"))
def tool(request: pytest.FixtureRequest) -> Installed:
    name: str = request.param
    found = find(name, ask)
    if isinstance(found, NotAvailable):
        pytest.skip(f"{name}: {found.reason}")
    launcher = LAUNCHERS[phases_of(name).launchers[0]]()
    if isinstance(launcher, NotAvailable):
        pytest.skip(f"{name}: {launcher.reason}")
    return Installed(name, found.path, launcher.wrap)


def sizes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in directory.iterdir()}


@pytest.mark.system
@pytest.mark.parametrize("direct", [True, False])
def test_write_then_read(tool: Installed, tmp_path: Path, direct: bool) -> None:
    spec = replace(SHORT, direct=direct)
    held, size_bytes = {}, None
    for access in ("write", "read"):
        measured, output = tool.run(spec, access, tmp_path, size_bytes)
        assert measured.status is RunStatus.OK, (measured.problem, output.stderr)
        assert access == "write" or sizes(tmp_path) == held
        held = sizes(tmp_path)
        confirmed = workload.confirm(measured, replace(spec, accesses=(access,)), sizes=held)
        assert confirmed.status is RunStatus.OK, confirmed.problem
        if access == "write":
            (phase,) = measured.phases
            # IOR counts in whole seconds; stopping takes as long as the transfer in flight.
            assert present(phase.elapsed_s) >= spec.duration_s * 0.9
            assert sum(held.values()) <= present(phase.moved_bytes)
            size_bytes = workload.readable_size_bytes(held, spec)


@pytest.mark.system
def test_data_does_not_compress(tool: Installed, tmp_path: Path) -> None:
    tool.run(replace(SHORT, direct=False), "write", tmp_path)
    blocks: set[bytes] = set()
    total = 0
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        total += len(data) // 4096
        blocks |= {data[start : start + 4096] for start in range(0, len(data), 4096)}
        packed = subprocess.run(["gzip", "-1"], input=data, capture_output=True, check=True).stdout
        assert len(packed) > 0.85 * len(data)
    assert len(blocks) > 0.99 * total > 0


@pytest.mark.system
def test_name_with_everything_in_it(tool: Installed, tmp_path: Path) -> None:
    directory = tmp_path / "sp ace:%d$ncpus,é;'\"#"
    directory.mkdir()
    written, output = tool.run(replace(SHORT, direct=False), "write", directory)
    assert written.status is RunStatus.OK, (written.problem, output.stderr)
    assert len(sizes(directory)) == SHORT.tasks


@pytest.mark.system
def test_missing_files_are_not_made_by_a_read(tool: Installed, tmp_path: Path) -> None:
    read, _ = tool.run(SHORT, "read", tmp_path, 4 * MIB)
    assert read.status is RunStatus.FAILED
    assert "No such file" in (read.problem or "")
    assert sizes(tmp_path) == {}


@pytest.mark.system
def test_short_files_are_not_extended_by_a_read(tool: Installed, tmp_path: Path) -> None:
    tool.run(replace(SHORT, direct=False), "write", tmp_path)
    held = {path.name: 2 * MIB for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        with path.open("r+b") as file:
            file.truncate(2 * MIB)
    tool.run(SHORT, "read", tmp_path, 4 * MIB)  # fails or reads what is there: but changes nothing
    assert sizes(tmp_path) == held


@pytest.mark.system
@loopback.needs_loop_devices()
def test_full_file_system(tool: Installed, tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, fs="ext4", size_bytes=64 * MIB) as scratch:
        directory = scratch.mount_point / "probe"
        directory.mkdir()
        spec = replace(SHORT, block_size_bytes=256 * MIB, duration_s=20.0)
        written, output = tool.run(spec, "write", directory)
        assert written.status in (RunStatus.PARTIAL, RunStatus.FAILED)
        assert "No space left on device" in (written.problem or ""), output.stderr
        assert output.exit_code != 0
