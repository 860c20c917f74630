"""Commands with what starts them as several tasks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.narrow import instance

from trimtab.base.error import ToolError
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.launcher import (
    LAUNCHERS,
    Local,
    OpenMpi,
    find_launcher,
    find_open_mpi,
    physical_cores,
)
from trimtab.reach.process import ProcessResult, execute

OPEN_MPI_4 = b"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"
OPEN_MPI_5 = b"mpirun (Open MPI) 5.0.3\n"
MPIEXEC = b"mpiexec (OpenRTE) 4.1.4\n"
HYDRA = b"HYDRA build details:\n    Version:                                 4.0.2\n"


def says(stdout: bytes, exit_code: int | None = 0):
    def run(argv: Sequence[str], **_options: object) -> ProcessResult:
        at = datetime(2026, 11, 20, tzinfo=UTC)
        return ProcessResult(tuple(argv), stdout, b"", exit_code, None, at, 0.1, 20.0)

    return run


def test_local_leaves_the_command_alone() -> None:
    local = Local()
    assert local.wrap(["fio", "--name=x"], 8) == ("fio", "--name=x")
    assert (local.kind, local.version, local.processes) == ("local", None, False)


def test_a_launcher_is_found_by_its_kind() -> None:
    assert instance(Local, find_launcher("local")).wrap(["true"], 1) == ("true",)
    unknown = instance(NotAvailable, find_launcher("no-such-launcher"))
    assert unknown.reason.endswith("; known: local, mpi, slurm")


@pytest.mark.parametrize(
    ("said", "version"), [(OPEN_MPI_4, "4.1.4"), (OPEN_MPI_5, "5.0.3"), (MPIEXEC, "4.1.4")]
)
def test_open_mpi_is_known_by_what_it_says(said: bytes, version: str) -> None:
    found = instance(OpenMpi, find_open_mpi(path="/opt/mpirun", run=says(said)))
    assert (found.version, found.path, found.kind) == (version, "/opt/mpirun", "mpi")
    assert found.as_root is (os.geteuid() == 0)


@pytest.mark.parametrize(
    ("said", "exit_code", "words"),
    [
        (HYDRA, 0, "not Open MPI: it prints 'HYDRA build details:'"),
        (b"", 0, "not Open MPI"),
        (b"\xff\xfe rubbish", 0, "not Open MPI"),
        (OPEN_MPI_4, 1, "exit code 1"),
    ],
)
def test_other_launchers_are_refused_by_name(said: bytes, exit_code: int, words: str) -> None:
    found = instance(NotAvailable, find_open_mpi(path="/opt/mpirun", run=says(said, exit_code)))
    assert words in found.reason


def test_missing_mpirun_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_open_mpi() == NotAvailable("mpirun is not on PATH")

    def fails(_argv: Sequence[str], **_options: object) -> ProcessResult:
        raise ToolError("it is not executable")

    assert find_open_mpi(path="/x", run=fails) == NotAvailable("it is not executable")


@pytest.mark.parametrize(
    ("tasks", "as_root", "expected"),
    [
        (2, False, ("m", "--bind-to", "none", "-n", "2", "ior")),
        (5, False, ("m", "--oversubscribe", "--bind-to", "none", "-n", "5", "ior")),
        (2, True, ("m", "--allow-run-as-root", "--bind-to", "none", "-n", "2", "ior")),
    ],
)
def test_mpirun_gets_what_it_needs_and_no_more(
    tasks: int, as_root: bool, expected: tuple[str, ...]
) -> None:
    assert OpenMpi("m", "4.1.4", cores=4, as_root=as_root).wrap(["ior"], tasks) == expected


def test_no_tasks_is_a_bug() -> None:
    with pytest.raises(ValueError, match="0 tasks"):
        OpenMpi("m", "4.1.4", cores=4, as_root=False).wrap(["ior"], 0)


def test_table_holds_what_can_be_found() -> None:
    assert {"local": Local}.keys() <= LAUNCHERS.keys()
    assert isinstance(LAUNCHERS["local"](), Local)
    assert set(LAUNCHERS) == {"local", "mpi", "slurm"}


def test_hardware_threads_of_a_core_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3, 7})
    for cpu, threads in ((0, "0,2"), (2, "0,2"), (1, "1,3"), (3, "1,3")):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        name = "core_cpus_list" if cpu != 3 else "thread_siblings_list"
        (topology / name).write_text(threads + "\n")
    assert physical_cores(tmp_path) == 3  # cpu7 does not say: it counts for itself


@pytest.mark.system
def test_real_mpirun_starts_the_tasks_and_dies_with_them() -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    found = find_open_mpi()
    if isinstance(found, NotAvailable):
        pytest.skip(found.reason)
    result = execute(found.wrap(["sh", "-c", "echo $OMPI_COMM_WORLD_RANK"], 3), timeout_s=60)
    assert sorted(result.stdout.split()) == [b"0", b"1", b"2"], result.stderr
    stuck = execute(found.wrap(["sh", "-c", "echo $$; exec sleep 600"], 2), timeout_s=2)
    assert stuck.timed_out
    ranks = [int(word) for word in stuck.stdout.split()]
    assert len(ranks) == 2
    for pid in ranks:
        assert not _sleeps(pid)


def _sleeps(pid: int) -> bool:
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
