"""The benchmarks that probes run phase by phase: their versions, their failures, and rubbish."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from tests.formats import damage
from tests.formats.recorded import FIXTURES, fixture
from tests.support.each import for_each

from trimtab.base.error import ToolError, code_of
from trimtab.base.run import RawOutput, RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.formats import fio, ioload, ior, mdtest

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
