"""What Slurm's states, lines and errors mean, and what is passed on to it."""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.narrow import instance, present

from trimtab.base.error import ToolError, UsageError
from trimtab.base.snapshot import NotAvailable
from trimtab.reach import slurm_client
from trimtab.reach.allocation import NodeDemand
from trimtab.reach.launcher import Slurm, find_slurm
from trimtab.reach.process import ProcessResult
from trimtab.reach.slurm_allocation import FIRST_STEP_S, GIVING_BACK_S
from trimtab.reach.slurm_batch import (
    CREATED_WITHIN_S,
    KNOWN,
    batch_arguments,
    batch_script,
    job_name,
    limit_minutes,
    sbatch_options,
    srun_options,
    step_arguments,
    step_of,
)
from trimtab.reach.slurm_client import (
    JobStage,
    SlurmPatience,
    clean_environment,
    never_starts,
    of_sacct,
    of_squeue,
    silence_of,
    stage_of,
    state_behind,
    unfold,
)

STATES = """
BOOT_FAIL CANCELLED COMPLETED CONFIGURING COMPLETING DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY
PENDING PREEMPTED RUNNING RESV_DEL_HOLD REQUEUE_FED REQUEUE_HOLD REQUEUED RESIZING REVOKED
SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED TIMEOUT
EXPEDITING LAUNCH_FAILED POWER_UP_NODE RECONFIG_FAIL UPDATE_DB
"""
"""squeue(1) of 22.05, whose JOB STATE CODES sacct(1) shares; further ones of doc/html of 26.05."""

AT = datetime(2026, 11, 20, tzinfo=UTC)


def ran(
    stderr: str = "",
    *,
    exit_code: int | None = 0,
    stdout: str = "",
    timed_out: bool = False,
) -> ProcessResult:
    """Return how a command of Slurm went."""
    code = None if timed_out else exit_code
    return ProcessResult(
        ("srun",), stdout.encode(), stderr.encode(), code, None, AT, 1.0, 60.0, timed_out=timed_out
    )


def test_every_state_of_slurm_is_in_one_set_and_no_other_word_is_one() -> None:
    sets = (
        *(slurm_client.WAITING, slurm_client.RUNNING, slurm_client.PAUSED, slurm_client.ENDING),
        slurm_client.ENDED,
    )
    assert sorted(STATES.split()) == sorted(state for one in sets for state in one)
    assert not [state for state in STATES.split() if stage_of(state) is JobStage.UNKNOWN]
    assert slurm_client.HELD <= slurm_client.WAITING
    assert set(slurm_client.MEANING) == slurm_client.ENDED | slurm_client.PAUSED
    for word in ("", "running", "R", "?", "BEWITCHED"):
        assert stage_of(word) is JobStage.UNKNOWN


def test_what_waiting_does_not_mend_and_the_end_behind_the_cleaning() -> None:
    never = (
        *("BadConstraints", "JobHeldAdmin", "InvalidAccount", "PartitionTimeLimit"),
        *("QOSMaxNodePerJobLimit", "AssocMaxWallDurationPerJobLimit", "AssocMaxBBMinutesPerJob"),
    )
    passing = (
        *("Priority", "Resources", "None", "QOSMaxJobsPerUserLimit", "AssocGrpNodeLimit"),
        *("PartitionNodeLimit", "ReqNodeNotAvail, UnavailableNodes:n[1-3]"),
        "Nodes required for job are DOWN, DRAINED or reserved for jobs",
    )
    for reason in (*never, *passing):
        assert never_starts("PENDING", reason) is (reason in never), reason
        assert never_starts("REQUEUE_HOLD", reason)
    assert state_behind("COMPLETING", "TimeLimit") == "TIMEOUT"
    assert state_behind("COMPLETING", "NonZeroExitCode") == "COMPLETING"
    assert state_behind("RUNNING", "TimeLimit") == "RUNNING"


# What kind of Slurm there is.

CONFIG = b"""Configuration data as of 2026-11-21T00:17:15
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = perlmutter
MpiDefault              = cray_shasta
SLURM_VERSION           = 23.11.10
"""


def _slurm(
    tmp_path: Path, version: bytes, config: bytes = CONFIG, problem: str | None = None
) -> Slurm | NotAvailable:
    for name in ("sbatch", "srun", "squeue", "scancel", "scontrol", "sacct"):
        (tmp_path / name).touch(mode=0o755)

    def run(argv: tuple[str, ...], **_options: object) -> ProcessResult:
        if argv[1:] == ("--version",):
            return ran(stdout=version.decode())
        assert argv[1:] == ("show", "config")
        if problem is not None:
            return ran(problem, exit_code=1)
        return ran(stdout=config.decode())

    return find_slurm(path=str(tmp_path / "srun"), run=run)


def test_a_slurm_that_can_be_used(tmp_path: Path) -> None:
    found = instance(Slurm, _slurm(tmp_path, b"slurm 23.11.10\n"))
    assert (found.version, found.cluster) == ("23.11.10", "perlmutter")
    assert "sacct" in found.programs
    assert found.programs["sacct"] == str(tmp_path / "sacct")
    bare = _slurm(tmp_path, b"slurm-wlm 20.11.4\n", b"AccountingStorageType = (null)\n")
    assert isinstance(bare, Slurm)
    assert "sacct" not in bare.programs


@pytest.mark.parametrize(
    ("version", "problem", "words"),
    [
        (b"slurm 20.02.7\n", None, "Slurm 20.02.7 has no srun --overlap"),
        (b"slurm 19.05.5\n", None, "20.11 or later is needed"),
        (b"Flux 0.61\n", None, "is not supported: Flux 0.61"),
        (b"", None, "no message"),
        (
            b"slurm 22.05.8\n",
            "scontrol: error: fetch_config: DNS SRV lookup failed\n"
            "scontrol: fatal: Could not establish a configuration source",
            "cannot be used here: scontrol: fatal: Could not establish a configuration source",
        ),
    ],
)
def test_a_slurm_that_cannot(
    tmp_path: Path, version: bytes, problem: str | None, words: str
) -> None:
    found = instance(NotAvailable, _slurm(tmp_path, version, problem=problem))
    assert words in found.reason


# What a site file may ask for.

GOOD = {
    "account": "phys,storage",
    "cluster_constraint": "a&b",
    "constraint": "[rack1|rack2]&nvme*2",
    "exclude": "nid[001-004,9],login1",
    **{"exclusive": "user", "licenses": "scratch:10@db", "mem": "0", "nice": "-5"},
    "switches": "1@00:30:00",
}


def test_options_become_arguments_of_their_own() -> None:
    wanted = tuple(f"--{name.replace('_', '-')}={value}" for name, value in GOOD.items())
    site = {**GOOD, "mpi": "pmix_v4", "spread-job": ""}
    assert sbatch_options(site) == (*wanted, "--spread-job")
    assert srun_options(site) == ("--mpi=pmix_v4",)
    assert sbatch_options({"exclusive": "false", "contiguous": "No"}) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("wrap", "rm -rf /"), ("prolog", "/tmp/x"), ("output", "/tmp/x"), ("time", "999")),
        *(("nodes", "4"), ("account", "$(id)"), ("mem", "lots"), ("exclusive", "perhaps")),
        *(("partition", value) for value in ("", "a b", "-p", "main\n--uid=0")),
        *(("mpi", "../plugin"), ("nodelist", "-x"), ("--partition", "main")),
        ("\x1b[2Jclear", "1"),
    ],
)
def test_anything_else_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        sbatch_options({"partition": "main", name: value})
    assert "\x1b" not in caught.value.message
    assert (name if name.isprintable() else "clear") in caught.value.message


@given(st.sampled_from(sorted(KNOWN)) | st.text(), st.text())
def test_no_text_becomes_more_than_one_argument(name: str, value: str) -> None:
    try:
        arguments = sbatch_options({name: value}) + srun_options({name: value})
    except UsageError:
        return
    assert len(arguments) <= 1
    for argument in arguments:
        assert argument.startswith(f"--{name.replace('_', '-')}")
        assert argument.isprintable()


@pytest.mark.system
def test_the_script_varies_in_a_number_alone() -> None:
    script = batch_script(NodeDemand("x", time_limit_s=61.0)).decode()
    assert script.splitlines()[-3:] == ["sleep 420 &", "held=$!", 'wait "$held"']
    checked = subprocess.run(
        ("sh", "-n"), input=script, text=True, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert [limit_minutes(NodeDemand("x", time_limit_s=s)) for s in (0.1, 60, 61)] == [1, 1, 2]


def test_the_job_is_asked_for_as_a_whole_and_its_tasks_are_spread_evenly() -> None:
    demand = NodeDemand("p", 4, 8, time_limit_s=600, options={"partition": "probe", "mpi": "pmi2"})
    arguments = batch_arguments(demand)
    assert arguments[:6] == (
        *("--job-name=trimtab-p", "--nodes=4", "--ntasks=32", "--ntasks-per-node=8"),
        *("--time=10", "--no-requeue"),
    )
    assert arguments[-1] == "--partition=probe"
    for tasks, nodes, per_node in ((1, 1, 1), (4, 4, 1), (6, 4, 2), (32, 4, 8)):
        arguments = step_arguments("7", NodeDemand("x", 4, 8), tasks, ("ior", "-w"))
        assert {f"--nodes={nodes}", f"--ntasks-per-node={per_node}"} <= set(arguments)
        assert arguments[-2:] == ("ior", "-w")
    for name in ("", "a b", "a;b", "$x", "ä", "a\n", "x" * 181):
        with raises(UsageError, "job-name-invalid"):
            job_name(name)


# What comes back.

RUNNING = "7|RUNNING|None|1795220235|1795220237|1795223837|2|n[1-2]"


def test_a_line_of_squeue() -> None:
    view = present(of_squeue(f"6|PENDING|Priority|1|N/A|N/A|1|\n{RUNNING}\n", "7"))
    told = (view.state, view.reason, view.node_list, view.node_count)
    assert told == ("RUNNING", "None", "n[1-2]", 2)
    times = (view.submitted_at, view.started_at)
    assert times == tuple(datetime.fromtimestamp(at, UTC) for at in (1795220235, 1795220237))
    assert view.ended_at is None  # that is when it will have to end
    # A guessed start is none: the scheduler's plan for a waiting job; the moment when one was
    # cancelled in the queue.
    for line in (
        "7|PENDING|Resources|1795220235|1795229999|1795239999|2|",
        "7|CANCELLED|None|1795220235|1795220300|1795220300|2|",
    ):
        view = present(of_squeue(line, "7"))
        assert (view.started_at, view.ended_at) == (None, None)


@pytest.mark.parametrize(
    ("line", "state", "ended"),
    [
        ("7|TIMEOUT|1795220235|1795220237|1795220300|2|n[1-2]", "TIMEOUT", True),
        ("7|CANCELLED by 1000|1795220235|Unknown|1795220300|2|None assigned", "CANCELLED", False),
        ("7|OUT_OF_MEMORY|1795220235|1795220237|1795220300|1|n1", "OUT_OF_MEMORY", True),
        ("7|NODE_FAIL|1795220235|1795220237|1795220300|2|n[1-2]", "NODE_FAIL", True),
        ("7|RUNNING|1795220235|1795220237|Unknown|2|n[1-2]", "RUNNING", False),
    ],
)
def test_a_line_of_sacct(line: str, state: str, ended: bool) -> None:
    view = present(of_sacct(line, "7"))
    assert (view.state, view.reason, view.ended_at is not None) == (state, None, ended)


@pytest.mark.parametrize("read", [of_squeue, of_sacct])
@given(text=st.text(alphabet=st.characters() | st.sampled_from("7|[]-,")))
def test_rubbish_is_no_job(read, text: str) -> None:
    view = read(text, "7")
    assert view is None or view.job_id == "7"


@given(cut=st.integers(0, len(RUNNING) - 1))
def test_a_line_that_was_cut_is_no_job_with_too_few_nodes(cut: int) -> None:
    view = of_squeue(RUNNING[:cut], "7")
    if view is not None and view.node_list:
        with raises(ToolError, "node-list-invalid"):
            unfold(view.node_list, view.node_count)


def test_node_lists_are_unfolded_in_their_order() -> None:
    assert unfold("nid[000998-001001],login2", 5) == (
        *("login2", "nid000998", "nid000999", "nid001000", "nid001001"),
    )
    assert unfold("n7", None) == ("n7",)
    for folded, count in (("n[1-2", 2), ("n[1-3]", 2), ("", 0), ("n[2-1]", 1), ("@all", 1)):
        with raises(ToolError, "node-list-invalid"):
            unfold(folded, count)


@pytest.mark.parametrize(
    "said",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "scancel: error: Kill job error on job id 7: Unable to contact slurm controller "
        "(connect failure)",
        "squeue: error: slurm_receive_msgs: Zero Bytes were transmitted or received",
        "slurm_load_jobs error: Slurm backup controller in standby mode",
        "srun: error: Unable to confirm allocation for job 3: Unable to contact slurm controller "
        "(connect failure)\nsrun: Check SLURM_JOB_ID environment variable.",
    ],
)
def test_a_silent_controller_is_known_by_its_silence(said: str) -> None:
    assert silence_of(ran(said, exit_code=1)) is not None
    assert silence_of(ran(said)) is None  # it got through in the end
    # An answer is not silence.
    assert silence_of(ran("slurm_load_jobs error: Invalid job id specified", exit_code=1)) is None
    assert silence_of(ran(timed_out=True)) == "srun was still running after 60 s and was killed"


def test_only_ways_to_slurm_are_kept_of_the_environment() -> None:
    changed = clean_environment(
        {
            name: "x"
            for name in (
                *("SLURM_CONF", "SLURM_JWT", "SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_FORMAT"),
                *("PMI_RANK", "PMIX_RANK", "PMIX_MCA_gds", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_btl"),
                *("SLURMD_NODENAME", "PATH", "SACCT_FORMAT", "MY_SLURM_THING"),
            )
        }
    )
    assert changed.pop("SLURM_TIME_FORMAT") == "%s"
    assert set(changed) == {
        *("SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_FORMAT", "PMI_RANK", "PMIX_RANK"),
        *("OMPI_COMM_WORLD_RANK", "SLURMD_NODENAME", "SACCT_FORMAT"),
    }
    assert set(changed.values()) == {None}


# What srun says about the end of a command; recorded with Slurm 22.05.8, but for the one of 25.05,
# which is as slurmstepd/req.c has it.

BEGUN = "trimtab: begun\n"
STEP = "slurmstepd-n1: error: *** STEP 2.2 ON n1 CANCELLED AT 2026-11-21T00:23:48"
ABORTED = "srun: Job step aborted: Waiting up to 4 seconds for job step to finish.\n"
OOM_BY_KERNEL = (
    "srun: error: n1: task 0: Out Of Memory\n"
    "slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=1.0. Some of your processes may "
    "have been killed by the cgroup out-of-memory handler.\n"
)
OOM_BY_SLURM = (
    "slurmstepd-n1: error: StepId=1.1 exceeded memory limit (328433664 > 209715200), being killed\n"
    f"{ABORTED}srun: error: n1: task 0: Killed\n"
)
NODE_DIED = f"srun: error: Node failure on n6\n{ABORTED}"
TASK_FAILED = (
    "srun: error: n3: task 1: Exited with exit code 1\n"
    f"srun: launch/slurm: _step_signal: Terminating StepId=2.2\n{STEP} ***\n"
)
TASK_FAILED_25_05 = f"{STEP.replace('-n1', '')} DUE TO TASK FAILURE ***\n"
TIME_OVER = (
    "slurmstepd-n5: error: *** STEP 2.1 ON n5 CANCELLED AT 1795222275 DUE TO TIME LIMIT ***\n"
)
NODES_BUSY = "srun: error: Unable to create step for job 1: Requested nodes are busy\n"
TOO_MANY = (
    "srun: error: Unable to create step for job 3: More processors requested than permitted\n"
)


@pytest.mark.parametrize(
    ("stderr", "exit_code", "true"),
    [
        (BEGUN, 0, {"begun", "ended_by_itself"}),
        ("", 0, set()),
        (BEGUN + TASK_FAILED, 1, {"begun", "aborted"}),
        (BEGUN + TASK_FAILED_25_05, 1, {"begun", "aborted"}),
        (BEGUN + OOM_BY_KERNEL, 1, {"begun", "out_of_memory"}),
        (BEGUN + OOM_BY_SLURM, 137, {"begun", "out_of_memory", "aborted"}),
        (BEGUN + NODE_DIED, 0, {"begun", "aborted", "ended_with_job"}),
        (BEGUN + TIME_OVER, 143, {"begun", "aborted", "ended_with_job"}),
        (NODES_BUSY, 1, {"may_begin_later"}),
        (TOO_MANY, 1, set()),
        (BEGUN + NODES_BUSY, 1, {"begun"}),
    ],
)
def test_what_srun_says_counts_more_than_its_exit_code(
    stderr: str, exit_code: int, true: set[str]
) -> None:
    step = step_of(ran(stderr, exit_code=exit_code))
    names = ("begun", "ended_by_itself", "aborted", "ended_with_job", "out_of_memory")
    assert {name for name in (*names, "may_begin_later") if getattr(step, name)} == true
    assert step.result.stderr.decode() == stderr.replace(BEGUN, "")
    # The mark is taken out once, and nothing else.
    step = step_of(ran("half a li" + BEGUN + "ne\ntrimtab: begun\n"))
    assert step.result.stderr == b"half a line\ntrimtab: begun\n"
    # A complaint is srun's first error.
    said = NODES_BUSY + "srun: Check SLURM_JOB_ID environment variable.\n"
    assert step_of(ran(said, exit_code=1)).complaint.endswith("Requested nodes are busy")
    assert step_of(ran("", exit_code=1)).complaint == "no message"


def test_pauses_grow_to_half_a_minute() -> None:
    now = [0.0]
    patience = SlurmPatience(monotonic=lambda: sum(now), sleep=now.append)
    assert list(patience.pauses(120)) == [0, 1, 3, 7, 15, 31, 61, 91, 120]
    assert list(patience.pauses(0)) == [0]


PAGE = (Path(__file__).parents[2] / "docs" / "slurm.md").read_text()


def test_the_page_names_every_option_and_end_and_the_limits_that_hold() -> None:
    def part(title: str) -> str:
        return PAGE.partition(f"## {title}")[2].partition("## ")[0]

    rows = [line.split("|")[1] for line in part("Options").splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == KNOWN
    ends = re.findall(r"`([A-Z_]{4,})`", part("What becomes of a run"))
    assert set(ends) == slurm_client.ENDED | slurm_client.PAUSED
    patience, limits = SlurmPatience(), PAGE.partition("## Limits")[2]
    assert (patience.first_pause_s, patience.longest_pause_s, patience.ending_s) == (
        1.0,
        30.0,
        90.0,
    )
    assert (patience.controller_s, GIVING_BACK_S, FIRST_STEP_S) == (120.0, 60.0, 300.0)
    for words in ("1 s, doubled up to 30 s", "2 min; 1 min", "| first step | 5 min", "90 s"):
        assert words in limits
    assert CREATED_WITHIN_S == 5
    assert "gives up after 5 s" in PAGE
