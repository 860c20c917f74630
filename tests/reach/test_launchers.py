"""Where a probe's commands run: this host, and what starts them as several tasks."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.narrow import instance

from trimtab.base.error import ToolError, UsageError
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.allocation import HostAllocation, NodeDemand
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


def test_a_launcher_is_found_by_its_kind_and_local_leaves_the_command_alone() -> None:
    local = instance(Local, find_launcher("local"))
    assert local.wrap(["fio", "--name=x"], 8) == ("fio", "--name=x")
    assert (local.kind, local.version, local.processes) == ("local", None, False)
    unknown = instance(NotAvailable, find_launcher("no-such-launcher"))
    assert unknown.reason.endswith("; known: local, mpi, slurm")
    assert set(LAUNCHERS) == {"local", "mpi", "slurm"}


@pytest.mark.parametrize(
    ("said", "exit_code", "version", "words"),
    [
        (OPEN_MPI_4, 0, "4.1.4", ""),
        (OPEN_MPI_5, 0, "5.0.3", ""),
        (MPIEXEC, 0, "4.1.4", ""),
        (HYDRA, 0, None, "not Open MPI: it prints 'HYDRA build details:'"),
        (b"", 0, None, "not Open MPI"),
        (b"\xff\xfe rubbish", 0, None, "not Open MPI"),
        (OPEN_MPI_4, 1, None, "exit code 1"),
    ],
)
def test_open_mpi_is_known_by_what_it_says(
    said: bytes, exit_code: int, version: str | None, words: str
) -> None:
    found = find_open_mpi(path="/opt/mpirun", run=says(said, exit_code))
    if version is None:
        assert words in instance(NotAvailable, found).reason
    else:
        mpi = instance(OpenMpi, found)
        assert (mpi.version, mpi.path, mpi.kind) == (version, "/opt/mpirun", "mpi")
        assert mpi.as_root is (os.geteuid() == 0)


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
    launcher = OpenMpi("m", "4.1.4", cores=4, as_root=as_root)
    assert launcher.wrap(["ior"], tasks) == expected
    with pytest.raises(ValueError, match="0 tasks"):
        launcher.wrap(["ior"], 0)


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


@pytest.mark.system
def test_commands_run_here_through_the_launcher() -> None:
    program = "import sys; print(sys.argv[1])"
    allocation = Local().allocate(NodeDemand("x", tasks_per_node=4))
    assert allocation.facts["started_at"] is None
    with allocation:
        result = allocation.execute((sys.executable, "-c", program, "a b"), tasks=4, timeout_s=60)
        assert (result.stdout, result.problem) == (b"a b\n", None)
        late = allocation.execute(("sleep", "60"), tasks=1, timeout_s=0.1)
        assert late.timed_out
        long = allocation.execute(("yes",), tasks=1, timeout_s=60, output_limit_bytes=1000)
        assert long.truncated
    facts = allocation.facts
    assert json.loads(json.dumps(facts)) == facts
    assert facts["nodes"] == [platform.node()] == list(allocation.nodes)
    assert (facts["launcher"], facts["job_id"], facts["queued_s"]) == ("local", None, None)
    hours = instance(float, facts["node_hours"])
    assert 0 < hours < 1


def test_mpirun_is_put_in_front() -> None:
    seen: list[tuple[str, ...]] = []

    def run(argv: tuple[str, ...], **_options: object) -> None:
        seen.append(argv)

    launcher = OpenMpi("mpirun", "4.1.4", cores=8, as_root=False)
    with launcher.allocate(NodeDemand("x"), run=run) as allocation:  # type: ignore[arg-type]
        allocation.execute(("ior",), tasks=3, timeout_s=1)
    assert seen == [("mpirun", "--bind-to", "none", "-n", "3", "ior")]
    assert allocation.facts["version"] == "4.1.4"


def test_an_unset_clock_costs_no_node_hours_that_were_not_spent() -> None:
    moments = iter([datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)])
    allocation = HostAllocation(
        "local",
        lambda argv, _tasks: tuple(argv),
        NodeDemand("x"),
        run=lambda *_argv, **_options: pytest.fail("nothing is to be run"),
        clock=lambda: next(moments),
    )
    with allocation:
        pass
    hours = instance(float, allocation.facts["node_hours"])
    assert 0 <= hours < 1


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (NodeDemand("x", nodes=2), "only on this host, but 2 nodes"),
        (
            NodeDemand("x", options={"partition": "main"}),
            "launcher local has no option 'partition'",
        ),
        (NodeDemand("x", options={"a\x1b[2J": ""}), r"launcher local has no option 'a\\\\x1b"),
    ],
)
def test_what_this_host_cannot_be_is_refused(demand: NodeDemand, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Local().allocate(demand)


@pytest.mark.parametrize("name", ["nodes", "tasks_per_node", "time_limit_s", "pending_limit_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_demand_for_nothing_is_a_bug(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        NodeDemand("x", **{name: value})  # type: ignore[arg-type]
