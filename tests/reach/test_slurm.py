"""Jobs of a real Slurm: what comes of them when all goes well, and when it does not."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.narrow import instance, present
from tests.support.slurm import Cluster

from trimtab.base.error import Interrupted, JobLost, NeverStarted, ToolError, UsageError
from trimtab.base.interruption import interruptible
from trimtab.base.run import ProbeSpec, RawOutput, RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.formats import ioload
from trimtab.formats.format_table import find as find_benchmark
from trimtab.formats.phase import PhaseRequest
from trimtab.reach.allocation import Allocation, NodeDemand
from trimtab.reach.launcher import Slurm, find_launcher, find_slurm
from trimtab.reach.process import ProcessResult, execute
from trimtab.reach.slurm_client import Client, SlurmPatience

pytestmark = pytest.mark.system

QUICK = SlurmPatience(first_pause_s=0.1, longest_pause_s=1.0)
LONELY = {"partition": "lonely", "exclusive": "true"}
"""A partition of one node, which a job has to itself."""


@pytest.fixture
def launcher(slurm: Cluster) -> Slurm:
    found = instance(Slurm, find_launcher("slurm"))
    return dataclasses.replace(found, patience=QUICK)


@pytest.fixture(scope="module")
def slow_ends(
    slurm_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[object]]]:
    """Start what Slurm itself takes half a minute for, so that it passes beside the other tests.

    slurmctld looks for jobs over their time every 30 s (PERIODIC_TIMEOUT in slurmctld.h), and for
    a dead node about as often.
    """
    place = tmp_path_factory.mktemp("slow-ends")
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(slurm_cluster.conf)
    found = instance(Slurm, find_slurm())
    jobs: dict[str, Callable[[str], object]] = {
        "n5": lambda job_id: slurm_cluster.ask(
            "scontrol", "update", f"JobId={job_id}", "TimeLimit=0"
        ),
        "n6": lambda _job_id: slurm_cluster.stop("n6", signal.SIGKILL),
    }
    try:
        with ThreadPoolExecutor(len(jobs)) as pool:
            yield {node: pool.submit(_lose, found, node, do, place) for node, do in jobs.items()}
    finally:
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before


def _lose(launcher: Slurm, node: str, do: Callable[[str], object], place: Path) -> object:
    """Return what a command gives on whose job something is done while it runs."""
    options = {"nodelist": node, "partition": "doomed"}
    allocation = launcher.allocate(demand(f"lost-{node}", options=options))
    try:
        with allocation:
            result = struck(allocation, do, place, seconds=120)
            return result, allocation.facts
    except JobLost as error:
        return error, allocation.facts


def struck(
    allocation: Allocation, strike: Callable[[str], object], place: Path, *, seconds: int
) -> ProcessResult:
    """Return how a command went to whose job something is done once the command has begun."""
    job_id = str(allocation.facts["job_id"])
    begun, done = place / f"begun-{job_id}", threading.Event()

    def on_progress(_elapsed_s: float) -> None:
        if begun.exists() and not done.is_set():
            done.set()
            strike(job_id)

    argv = ("sh", "-c", 'touch "$1"; echo begun; sleep "$2"', "sh", str(begun), str(seconds))
    return allocation.execute(argv, tasks=1, timeout_s=100, on_progress=on_progress)


def demand(name: str, nodes: int = 1, tasks_per_node: int = 1, **more: Any) -> NodeDemand:
    terms: dict[str, Any] = {"time_limit_s": 300.0, "pending_limit_s": 60.0, **more}
    return NodeDemand(name, nodes=nodes, tasks_per_node=tasks_per_node, **terms)


def text(result: ProcessResult) -> str:
    return result.stdout.decode()


def test_the_tasks_of_a_job_run_on_its_nodes(
    launcher: Slurm, slurm: Cluster, slow_ends: object
) -> None:
    assert (launcher.version[:3], launcher.cluster, "sacct" in launcher.programs) == (
        "22.",
        "tests",
        True,
    )
    allocation = launcher.allocate(demand("works", 2, 2))
    assert allocation.nodes == ()
    with allocation:
        assert len(allocation.nodes) == 2
        where = allocation.execute(
            ("sh", "-c", "echo $SLURMD_NODENAME $SLURM_PROCID $SLURM_NTASKS $(pwd)"),
            tasks=4,
            timeout_s=60,
        )
        one, other = allocation.nodes
        assert where.problem is None, where.stderr
        tasks = (f"{node} {n} 4 /" for n, node in enumerate((one, one, other, other)))
        assert sorted(text(where).splitlines()) == [*tasks]
        spread = allocation.execute(("sh", "-c", "echo $SLURMD_NODENAME"), tasks=2, timeout_s=60)
        assert sorted(text(spread).split()) == [one, other]
        failed = allocation.execute(("sh", "-c", "exit 3"), tasks=1, timeout_s=60)
        assert (failed.exit_code, failed.timed_out) == (3, False)
        again = allocation.execute(("true",), tasks=4, timeout_s=60)
        assert again.problem is None
    facts = allocation.facts
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["state"], facts["launcher"], facts["name"]) == (
        "COMPLETED",
        "slurm",
        "trimtab-works",
    )
    submitted, started, ended = (
        datetime.fromisoformat(str(facts[name]))
        for name in ("submitted_at", "started_at", "ended_at")
    )
    assert submitted <= started <= ended
    assert facts["queued_s"] == (started - submitted).total_seconds()
    assert facts["node_hours"] == (ended - started).total_seconds() * 2 / 3600
    assert facts["nodes"] == list(allocation.nodes)
    seen = present(Client(launcher.programs).job(str(facts["job_id"])))
    expected = dataclasses.replace(seen, reason=None)
    client = Client(launcher.programs)
    slurm.wait("its accounting", lambda: client.accounted(str(facts["job_id"])) == expected)


def test_a_late_command_is_ended_on_all_nodes(launcher: Slurm, slurm: Cluster) -> None:
    allocation = launcher.allocate(demand("late", 2))
    with allocation:
        late = allocation.execute(("sh", "-c", "echo $$; exec sleep 100"), tasks=2, timeout_s=1)
        assert late.timed_out
        assert slurm.steps() == []
        processes = [Path("/proc", word, "cmdline") for word in text(late).split()]
        assert len(processes) == 2
        assert not any(path.exists() and b"sleep" in path.read_bytes() for path in processes)
        assert allocation.execute(("true",), tasks=2, timeout_s=60).problem is None
    assert allocation.facts["state"] == "COMPLETED"


def test_a_late_command_can_still_remove_its_files(
    launcher: Slurm, slurm: Cluster, tmp_path: Path
) -> None:
    """Its tasks get SIGTERM before srun does: srun would end them with SIGKILL."""
    script = """
    trap 'rm "$1/$SLURM_PROCID"; exit 7' TERM
    touch "$1/$SLURM_PROCID"
    sleep 100 & wait
    """

    def both_began() -> bool:
        return len(list(tmp_path.iterdir())) == 2

    def press(_elapsed_s: float) -> None:
        if both_began():
            raise Interrupted("enough")

    with launcher.allocate(demand("tidy", 2)) as allocation:
        with pytest.raises(Interrupted, match="enough"):
            allocation.execute(
                ("sh", "-c", script, "sh", str(tmp_path)), tasks=2, timeout_s=90, on_progress=press
            )
        assert list(tmp_path.iterdir()) == []


def test_options_of_the_site_reach_the_job(launcher: Slurm, slurm: Cluster) -> None:
    options = {**LONELY, "mem": "300M", "mpi": "pmi2"}
    with launcher.allocate(demand("options", options=options)) as allocation:
        assert allocation.nodes == ("n4",)
        shown = slurm.ask("scontrol", "--oneliner", "show", "job", str(allocation.facts["job_id"]))
        for word in ("Partition=lonely", "OverSubscribe=NO", "MinMemoryNode=300M", "Requeue=0"):
            assert word in shown
        pmi = allocation.execute(("sh", "-c", "echo $PMI_RANK $PMI_SIZE"), tasks=1, timeout_s=60)
        assert text(pmi).split() == ["0", "1"]


def test_a_job_of_its_own_variables_is_another_job(
    launcher: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SLURM_JOB_ID": "4711",
        "SLURM_NTASKS": "7",
        "SLURM_NNODES": "7",
        "SBATCH_PARTITION": "nowhere",
        "SQUEUE_FORMAT": "%u",
        "SLURM_PROCID": "5",
        "OMPI_COMM_WORLD_RANK": "5",
    }.items():
        monkeypatch.setenv(name, value)
    with launcher.allocate(demand("inside")) as allocation:
        result = allocation.execute(
            ("sh", "-c", "echo $SLURM_PROCID $SLURM_NTASKS $OMPI_COMM_WORLD_RANK"),
            tasks=1,
            timeout_s=60,
        )
        assert text(result).split() == ["0", "1"]


# A job that never begins: a missing probe.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partition": "nowhere"}, "invalid partition name"),
        ({"constraint": "gold"}, "Invalid feature"),
        ({"licenses": "none-such:1"}, "Invalid license"),
        ({"reservation": "none-such"}, "reservation is invalid"),
        ({"account": "$(id)"}, "account cannot be"),
    ],
)
def test_what_slurm_refuses_never_starts(
    launcher: Slurm, options: dict[str, str], words: str
) -> None:
    with (
        pytest.raises((NeverStarted, UsageError), match=f"(?i){words}"),
        launcher.allocate(demand("refused", options=options)),
    ):
        pytest.fail("it was not refused")


def test_pending_too_long_is_given_up(launcher: Slurm, slurm: Cluster) -> None:
    told: list[tuple[str, float]] = []
    with launcher.allocate(demand("first", options=LONELY)):
        second = launcher.allocate(
            demand("second", options=LONELY, pending_limit_s=1.0),
            on_wait=lambda why, waited_s: told.append((why, waited_s)),
        )
        with pytest.raises(NeverStarted, match=r"still waiting after 1.0 s \(PENDING: "), second:
            pytest.fail("there is one node, and it is taken")
        assert second.facts["state"] == "CANCELLED"
        assert second.facts["started_at"] is None
        assert second.facts["node_hours"] is None
    assert {why.partition(":")[0] for why, _ in told} == {"PENDING"}
    assert told[-1][1] <= 1.0 + 60.0


@pytest.mark.parametrize(
    ("strike", "words"),
    [
        (("scancel",), "never ran: it was cancelled"),
        (("scontrol", "hold"), "will not start by itself .*JobHeldAdmin"),
        (("scontrol", "uhold"), "will not start by itself .*JobHeldUser"),
    ],
)
def test_a_job_that_is_taken_out_of_the_queue(
    launcher: Slurm, slurm: Cluster, strike: tuple[str, ...], words: str
) -> None:
    with launcher.allocate(demand("first", options=LONELY)):
        struck = []

        def on_wait(_why: str, _waited_s: float) -> None:
            job_id = str(second.facts["job_id"])
            if not struck:
                struck.append(job_id)
                slurm.ask(*strike, job_id)

        second = launcher.allocate(demand("second", options=LONELY), on_wait=on_wait)
        with pytest.raises(NeverStarted, match=words), second:
            pytest.fail("it began")


def test_an_mpi_that_is_not_there_is_told_before_anything_is_measured(launcher: Slurm) -> None:
    allocation = launcher.allocate(demand("mpi", options={"mpi": "pmix_v9"}))
    with (
        pytest.raises(NeverStarted, match=r"did not start a command in job \d+: .*pmix_v9"),
        allocation,
    ):
        pytest.fail("it began")


def test_what_an_earlier_try_left_is_cancelled(launcher: Slurm, slurm: Cluster) -> None:
    def left_behind() -> str:
        script = "#!/bin/sh\nexec sleep 100\n"
        path = slurm.directory / "left.sh"
        path.write_text(script)
        return slurm.ask("sbatch", "--parsable", "--job-name=trimtab-same", str(path)).strip()

    left = left_behind()
    with launcher.allocate(demand("same")) as allocation:
        assert allocation.facts["job_id"] != left
    assert slurm.ask("squeue", "--noheader", "--states=all", f"--jobs={left}", "-o%T").strip() in {
        "CANCELLED",
        "COMPLETING",
    }
    slurm.wait("an end", lambda: not any(one.startswith(left) for one in slurm.queue()))
    other = left_behind()
    assert launcher.give_back("same") == (other,)
    slurm.wait("an end", lambda: not any(one.startswith(other) for one in slurm.queue()))
    assert launcher.give_back("same") == ()


# A job that began and is lost.


def _requeue(slurm: Cluster, job_id: str) -> None:
    slurm.ask("scontrol", "update", f"JobId={job_id}", "Requeue=1")
    slurm.ask("scontrol", "requeuehold", job_id)


def _make_way(slurm: Cluster, _job_id: str) -> None:
    path = slurm.directory / "high.sh"
    path.write_text("#!/bin/sh\nexit 0\n")
    slurm.ask("sbatch", "--parsable", "--partition=high", "--exclusive", str(path))


def _pause(slurm: Cluster, job_id: str) -> None:
    slurm.ask("scontrol", "suspend", job_id)
    slurm.ask("scontrol", "resume", job_id)


@pytest.mark.parametrize(
    ("strike", "states"),
    [
        (lambda slurm, job_id: slurm.ask("scancel", job_id), {"CANCELLED"}),
        (_requeue, {"REQUEUED", "REQUEUE_HOLD", "PENDING", "SPECIAL_EXIT"}),
        (_make_way, {"PREEMPTED"}),
        (_pause, {"SUSPENDED"}),  # in the middle: it makes a time worthless
    ],
    ids=["cancelled", "requeued by hand", "makes way for another", "paused"],
)
def test_a_job_that_began_and_is_lost(
    launcher: Slurm,
    slurm: Cluster,
    tmp_path: Path,
    strike: Callable[[Cluster, str], object],
    states: set[str],
) -> None:
    options = {"partition": "low", "exclusive": "true"} if strike is _make_way else {}
    allocation = launcher.allocate(demand("lost", options=options))
    with allocation:
        with pytest.raises(JobLost) as caught:
            struck(allocation, partial(strike, slurm), tmp_path, seconds=2)
        if strike is not _pause:
            with pytest.raises(JobLost):
                allocation.execute(("true",), tasks=1, timeout_s=60)
    error, facts = caught.value, allocation.facts
    assert error.state in states
    if states == {"CANCELLED"}:
        assert (error.unfinished, facts["state"]) == (False, "CANCELLED")
        assert text(instance(ProcessResult, error.result)) == "begun\n"
        assert facts["ended_at"] is not None
    elif strike is _pause:
        assert instance(ProcessResult, error.result).problem is None
    elif strike is _make_way:
        slurm.wait("an empty queue", lambda: not slurm.queue())


def test_a_task_that_takes_too_much_memory(launcher: Slurm) -> None:
    program = "import time; held = bytearray(300 << 20); time.sleep(60)"
    with launcher.allocate(demand("greedy", options={"mem": "100M"})) as allocation:
        with pytest.raises(JobLost, match="exceeded its memory limit") as caught:
            allocation.execute((sys.executable, "-c", program), tasks=1, timeout_s=60)
        assert caught.value.state == "OUT_OF_MEMORY"


# What else can come in between.


@pytest.mark.parametrize("when", ["waiting", "running"])
def test_ctrl_c_gives_the_nodes_back(launcher: Slurm, slurm: Cluster, when: str) -> None:
    def press(*_anything: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with launcher.allocate(demand("holds", options=LONELY)) as holder:
        there = {} if when == "running" else LONELY
        allocation = launcher.allocate(
            demand("stopped", options=there), on_wait=press if when == "waiting" else None
        )
        with pytest.raises(Interrupted), interruptible(), allocation:
            allocation.execute(("sleep", "100"), tasks=1, timeout_s=90, on_progress=press)
        assert [one.split()[0] for one in slurm.queue()] == [holder.facts["job_id"]]


# The built-in generator and Open MPI, as ranks of a job.


def test_the_generator_measures_as_ranks_of_a_job(launcher: Slurm, tmp_path: Path) -> None:
    tool = find_benchmark("builtin", _ask)
    assert not isinstance(tool, NotAvailable)
    sizes = {"transfer_size_bytes": 65536, "block_size_bytes": 2**20, "duration_s": 0.5}
    terms = {"repetitions": 1, "direct": False, "nodes": 2, "processes": True}
    spec = ProbeSpec(name="ranks", benchmark="builtin", tasks=4, **sizes, **terms)  # type: ignore[arg-type]
    with launcher.allocate(demand("ranks", 2, 2)) as allocation:
        for access in ("write", "read"):
            argv = ioload.command(PhaseRequest(spec, access, tool.path, str(tmp_path)))
            result = allocation.execute(argv, tasks=4, timeout_s=90)
            measurement = ioload.parse(result.raw_output(access))
            assert measurement.status is RunStatus.OK, (measurement.problem, result.stderr)
            report = json.loads(result.stdout)
            assert (report["ranks"], report["tasks"]) == (4, 4)
            (phase,) = measurement.phases
            assert (phase.access, phase.tasks) == (access, 4)
    assert len(list(tmp_path.iterdir())) == 4  # one file a task, and nothing of their meeting


def _ask(argv: tuple[str, ...]) -> RawOutput:
    return execute(argv, timeout_s=20).raw_output("version")


_MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d ranks, sum %d\n", size, sum);
    return MPI_Finalize();
}
"""


def test_open_mpi_finds_its_ranks_through_slurm(
    launcher: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two nodes on one host share the names of Open MPI's shared memory: by the network, then.
    monkeypatch.setenv("OMPI_MCA_btl", "self,tcp")
    (tmp_path / "sum.c").write_text(_MPI_PROGRAM)
    program = tmp_path / "sum"
    try:
        subprocess.run(("mpicc", "-o", program, tmp_path / "sum.c"), check=True, timeout=120)
    except FileNotFoundError:
        pytest.skip("mpicc is not on PATH")
    options = {"mpi": "pmix"}
    with launcher.allocate(demand("mpi", 2, 2, options=options)) as allocation:
        result = allocation.execute((str(program),), tasks=4, timeout_s=90)
        assert text(result).strip() == "4 ranks, sum 6", result.stderr.decode()


def test_without_slurm_or_its_configuration_there_is_a_reason(
    slurm_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty.conf").touch()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "empty.conf"))
    assert "Slurm cannot be used here: " in instance(NotAvailable, find_slurm()).reason
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = instance(NotAvailable, find_slurm()).reason
    assert "sbatch, srun, squeue, scancel, scontrol are missing" in missing


def test_a_command_by_itself_has_a_job_of_its_own(launcher: Slurm) -> None:
    result = execute(launcher.wrap(("sh", "-c", "echo $SLURM_PROCID"), 2), timeout_s=90)
    assert sorted(text(result).split()) == ["0", "1"], result.stderr
    with pytest.raises(ValueError, match="0 tasks"):
        launcher.wrap(("true",), 0)


def test_more_tasks_than_were_asked_for_is_a_bug(launcher: Slurm) -> None:
    with launcher.allocate(demand("few", 1, 2)) as allocation:
        for tasks in (0, 3):
            with pytest.raises(ValueError, match=f"{tasks} tasks in a job for 2"):
                allocation.execute(("true",), tasks=tasks, timeout_s=60)


def test_what_cannot_be_cleaned_up_is_said(launcher: Slurm) -> None:
    """A command whose step does not end is followed by no other: it may still write."""
    stubborn = dataclasses.replace(launcher, patience=dataclasses.replace(QUICK, ending_s=0.0))
    with stubborn.allocate(demand("stubborn")) as allocation:
        allocation.execute(("sleep", "100"), tasks=1, timeout_s=0.5)
        try:
            allocation.execute(("true",), tasks=1, timeout_s=60)
        except ToolError as error:
            assert "still run in job" in error.message  # noqa: PT017 (it may be quick enough)


# Last, what was begun first: see ``slow_ends``.


def test_a_node_that_dies_loses_the_job(
    slurm: Cluster, slow_ends: dict[str, Future[object]]
) -> None:
    error, facts = slow_ends["n6"].result(200)  # type: ignore[misc]
    assert isinstance(error, JobLost), error
    assert (error.state, error.unfinished, facts["state"]) == ("NODE_FAIL", False, "NODE_FAIL")
    assert "one of its nodes failed" in error.message


def test_the_time_limit_of_the_job_leaves_a_run_unfinished(
    slurm: Cluster, slow_ends: dict[str, Future[object]]
) -> None:
    result, facts = slow_ends["n5"].result(200)  # type: ignore[misc]
    assert isinstance(result, ProcessResult), result
    assert result.timed_out
    assert "was still running after" in str(result.problem)
    assert facts["state"] == "TIMEOUT"


def test_a_controller_that_restarts_is_waited_for(
    launcher: Slurm, slurm: Cluster, tmp_path: Path
) -> None:
    with launcher.allocate(demand("restart", 2)) as allocation:
        begun, restarted = tmp_path / "begun", []

        def on_progress(_elapsed_s: float) -> None:
            if begun.exists() and not restarted:
                slurm.stop("slurmctld")
                slurm.start("slurmctld")
                restarted.append(True)

        argv = ("sh", "-c", 'touch "$1"; sleep 2; echo done', "sh", str(begun))
        result = allocation.execute(argv, tasks=2, timeout_s=60, on_progress=on_progress)
        assert restarted
        assert (result.problem, text(result).split()) == (None, ["done", "done"])
        assert allocation.execute(("true",), tasks=2, timeout_s=60).problem is None
    assert allocation.facts["state"] == "COMPLETED"
