"""The life of a job in simulated time: lost answers, long waits, words that nobody knows.

What stands for Slurm here is a list of answers; how the real one behaves is in ``test_slurm``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.codes import raises
from tests.support.narrow import instance

from trimtab.base.error import JobLost, NeverStarted, ToolError, TrimtabError
from trimtab.reach.allocation import NodeDemand
from trimtab.reach.process import ProcessResult
from trimtab.reach.slurm_allocation import SlurmAllocation
from trimtab.reach.slurm_client import Client, SlurmPatience

SILENCE = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
FORGOTTEN = "slurm_load_jobs error: Invalid job id specified"
BEGUN = b"trimtab: begun\n"
PROGRAMS = {name: name for name in ("sbatch", "srun", "squeue", "scancel", "scontrol", "sacct")}


@dataclass
class Answers:
    """A Slurm that says what it was given to say; time passes only by pauses and commands.

    Attributes
    ----------
    states
        What squeue says about the job, one answer after the other; the last is repeated. ``None``
        is silence, ``""`` an unknown job.
    steps
        How the commands end, in turn: exit code, stdout and stderr. Then all end well.
    """

    states: list[Any] = field(default_factory=list)
    steps: list[tuple[int | None, bytes, bytes]] = field(default_factory=list)
    submitted: list[str | None] = field(default_factory=lambda: ["7"])
    named: list[str] = field(default_factory=list)
    running_steps: list[str] = field(default_factory=list)
    suspended: str = "None"
    accounted: str = ""
    now_s: float = 0.0
    asked: list[tuple[str, ...]] = field(default_factory=list)
    on_cancel: Callable[[Answers], None] = lambda answers: answers.states.append(
        ("CANCELLED", "None")
    )

    def run(self, argv: Sequence[str], *, timeout_s: float, **_options: object) -> ProcessResult:
        """Stand for `trimtab.reach.process.execute`."""
        self.asked.append(tuple(argv))
        name, arguments = argv[0], argv[1:]
        code, stdout, stderr = getattr(self, f"_{name}")(arguments)
        timed_out = code is None
        self.now_s += timeout_s if timed_out else 0.01
        at = datetime.fromtimestamp(1_800_000_000 + self.now_s, UTC)
        return ProcessResult(
            tuple(argv), stdout, stderr, code, None, at, 0.01, timeout_s, timed_out=timed_out
        )

    def sleep(self, pause_s: float) -> None:
        """Let time pass."""
        self.now_s += pause_s

    def times(self, name: str) -> int:
        """Return how often a command was asked."""
        return sum(one[0] == name for one in self.asked)

    def _sbatch(self, _arguments: Sequence[str]) -> tuple[int, bytes, bytes]:
        job_id = self.submitted.pop(0) if len(self.submitted) > 1 else self.submitted[0]
        if job_id is None:
            return 1, b"", b"sbatch: error: Socket timed out on send/recv operation"
        return 0, f"{job_id}\n".encode(), b""

    def _squeue(self, arguments: Sequence[str]) -> tuple[int, bytes, bytes]:
        if any(one.startswith("--name=") for one in arguments):
            return 0, "\n".join(self.named).encode(), b""
        if "--steps" in arguments:
            return 0, "\n".join((*self.running_steps, "7.batch")).encode(), b""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state is None:
            return 1, b"", SILENCE.encode()
        if isinstance(state, str):
            return 1, b"", FORGOTTEN.encode()
        nodes = "" if state[0] == "PENDING" else "n[1-2]"
        times = "1800000000|1800000010|1800000100"
        return 0, f"7|{state[0]}|{state[1]}|{times}|2|{nodes}\n".encode(), b""

    def _sacct(self, _arguments: Sequence[str]) -> tuple[int, bytes, bytes]:
        return 0, self.accounted.encode(), b""

    def _srun(self, _arguments: Sequence[str]) -> tuple[int | None, bytes, bytes]:
        return self.steps.pop(0) if self.steps else (0, b"", BEGUN)

    def _scancel(self, arguments: Sequence[str]) -> tuple[int, bytes, bytes]:
        if not arguments[-1].count("."):
            self.on_cancel(self)
        return 0, b"", b""

    def _scontrol(self, _arguments: Sequence[str]) -> tuple[int, bytes, bytes]:
        return 0, f"JobId=7 JobName=x SuspendTime={self.suspended} X=1".encode(), b""


RUNNING, PENDING = ("RUNNING", "None"), ("PENDING", "Priority")
FINE, HALF = (0, b"", BEGUN), (143, b"half", BEGUN)
"""How a command ends: well, or killed after half of its output."""
LATE, NEVER_BEGAN = (None, b"", BEGUN), (None, b"", b"")
BUSY = (1, b"", b"srun: error: Unable to create step for job 7: Job prolog is still running\n")


def nothing(_answers: Answers) -> None:
    """Stand for a scancel that does nothing."""


def allocation(answers: Answers, **demand: float) -> SlurmAllocation:
    patience = SlurmPatience(monotonic=lambda: answers.now_s, sleep=answers.sleep)
    return SlurmAllocation(
        Client(PROGRAMS, answers.run, patience),
        NodeDemand("p", 2, 2, **demand),  # type: ignore[arg-type]
    )


def outcome(answers: Answers, timeout_s: float = 60.0) -> ProcessResult | TrimtabError:
    """Return what one command of a probe comes to."""
    try:
        with allocation(answers) as job:
            return job.execute(("ior",), tasks=4, timeout_s=timeout_s)
    except TrimtabError as error:
        return error


def test_a_wait_is_followed_with_longer_and_longer_pauses() -> None:
    answers = Answers([*[PENDING] * 9, RUNNING])
    told: list[tuple[str, float]] = []
    job = allocation(answers)
    job._on_wait = lambda why, waited_s: told.append((why, round(waited_s)))
    with job:
        pass
    assert [waited_s for _, waited_s in told] == [0, 1, 3, 7, 15, 31, 61, 91, 121]
    assert {why for why, _ in told} == {"PENDING: Priority"}
    assert job.facts["queued_s"] == 10.0


def test_the_queue_has_its_limit_and_the_job_is_cancelled() -> None:
    answers = Answers([PENDING])
    job = allocation(answers, pending_limit_s=600.0)
    with raises(NeverStarted, "job-pending-too-long", "(PENDING: Priority)"), job:
        pytest.fail("it never began")
    assert 600 <= answers.now_s < 640
    assert ("scancel", "7") in answers.asked
    assert job.facts["state"] == "CANCELLED"


def test_an_unknown_state_is_told_and_not_guessed() -> None:
    answers = Answers([("BEWITCHED", "Spell")])
    with raises(NeverStarted, "job-pending-too-long", "(BEWITCHED: Spell)"), allocation(answers):
        pytest.fail("it never began")
    answers = Answers([RUNNING, RUNNING, ("BEWITCHED", "Spell")])
    error = instance(JobLost, outcome(answers))
    assert (error.state, error.unfinished) == ("BEWITCHED", False)


def test_an_answer_that_was_lost_is_found_by_the_name() -> None:
    answers = Answers([RUNNING], submitted=[None])

    def submit(_arguments: Sequence[str]) -> tuple[int, bytes, bytes]:
        answers.named = ["6", "7"]
        return 1, b"", b"sbatch: error: Socket timed out on send/recv operation"

    answers._sbatch = submit  # type: ignore[method-assign]
    answers.on_cancel = lambda answers: answers.states.append(("COMPLETED", "None"))
    with allocation(answers) as job:
        assert job.facts["job_id"] == "7"
    assert answers.times("sbatch") == 1


def test_a_controller_that_stays_silent_makes_a_missing_probe() -> None:
    answers = Answers([None], submitted=[None])
    with raises(NeverStarted, "controller-silent"), allocation(answers):
        pytest.fail("it never began")
    assert 120 <= answers.now_s < 300
    assert answers.times("sbatch") > 5
    # In the queue silence is waited out, unless it outlasts patience.
    assert isinstance(outcome(Answers([PENDING, None, None, None, RUNNING])), ProcessResult)
    job = allocation(Answers([PENDING, None], on_cancel=nothing))
    with raises(NeverStarted, "controller-silent"), job:
        pytest.fail("it never began")
    assert "may hold its nodes" in str(job.facts["reason"])


def test_silence_after_a_command_spoils_what_failed_and_not_what_ended_well() -> None:
    silent = [RUNNING, RUNNING, None]
    assert instance(ProcessResult, outcome(Answers([*silent]))).problem is None
    error = instance(JobLost, outcome(Answers([*silent], [FINE, (1, b"half", BEGUN)])))
    assert error.state is None
    assert instance(ProcessResult, error.result).stdout == b"half"


def test_nodes_that_cannot_be_given_back_are_told() -> None:
    job = allocation(Answers([RUNNING, RUNNING, None], on_cancel=nothing))
    with job:
        assert job.facts["reason"] is None
    reason = instance(str, job.facts["reason"])
    assert "job 7 may hold its nodes until its time limit" in reason
    assert job.facts["node_hours"] is None
    # So is a job that does not end.
    answers = Answers([RUNNING], on_cancel=nothing)
    with allocation(answers) as job:
        pass
    assert "it is RUNNING after scancel" in str(job.facts["reason"])
    assert [one[1:] for one in answers.asked if one[0] == "scancel"] == [
        *(("--batch", "--signal=TERM", "7"), ("7",)),
    ]


def test_time_that_slurm_took_is_not_the_file_systems() -> None:
    """A command that had not begun when its time was over has no result, and no 0 either."""
    error = instance(ToolError, outcome(Answers([RUNNING], [FINE, NEVER_BEGAN])))
    assert not isinstance(error, JobLost)
    assert "Slurm did not start a command in job 7: srun was still running after 60 s" in str(error)
    # One that began and is late is a result.
    assert instance(ProcessResult, outcome(Answers([RUNNING], [FINE, LATE]))).timed_out


def test_what_may_begin_later_is_tried_again_and_what_never_begins_is_a_missing_probe() -> None:
    answers = Answers([RUNNING], [BUSY] * 4)
    assert instance(ProcessResult, outcome(answers)).problem is None
    assert answers.times("srun") == 6
    answers = Answers([RUNNING], [BUSY] * 1000)
    error = instance(NeverStarted, outcome(answers))
    assert "Job prolog is still running" in error.message
    assert 300 <= answers.now_s < 400


def test_the_cleaning_of_nodes_hides_an_end_for_a_while() -> None:
    over = b"slurmstepd: error: *** STEP 7.1 ON n1 CANCELLED AT 1 DUE TO TIME LIMIT ***\n"
    cleaning = ("COMPLETING", "TimeLimit")
    for end in (("TIMEOUT", "TimeLimit"), cleaning):
        answers = Answers(
            [RUNNING] * 3 + [cleaning] * 3 + [end], [FINE, (143, b"half", BEGUN + over)]
        )
        result = instance(ProcessResult, outcome(answers))
        assert (result.timed_out, result.stdout) == (True, b"half")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        *(("NODE_FAIL", "NodeDown"), ("PREEMPTED", "None"), ("CANCELLED", "None")),
        *(("OUT_OF_MEMORY", "OutOfMemory"), ("DEADLINE", "DeadLine"), ("COMPLETED", "None")),
        *(("FAILED", "JobLaunchFailure"), ("PENDING", "BeginTime")),
    ],
)
def test_a_job_that_is_gone_is_lost_with_its_state(state: str, reason: str) -> None:
    answers = Answers([RUNNING, RUNNING, (state, reason)], [FINE, HALF])
    error = instance(JobLost, outcome(answers))
    assert (error.state, error.unfinished) == (state, False)
    assert isinstance(error.result, ProcessResult)
    assert state in error.message


def test_a_pause_makes_even_a_good_result_worthless() -> None:
    answers = Answers([RUNNING], suspended="1800000050")
    assert instance(JobLost, outcome(answers)).state == "SUSPENDED"


def test_a_time_limit_between_two_commands_leaves_the_run_unfinished() -> None:
    answers = Answers([RUNNING, RUNNING, ("TIMEOUT", "TimeLimit")])
    with allocation(answers) as job:
        first = job.execute(("ior",), tasks=4, timeout_s=60)  # it ended before its job did
        assert first.problem is None
        with pytest.raises(JobLost) as caught:
            job.execute(("ior",), tasks=4, timeout_s=60)
        assert caught.value.unfinished


@pytest.mark.parametrize(
    ("state", "error"),
    [("BOOT_FAIL", JobLost), ("CANCELLED", NeverStarted), ("NODE_FAIL", JobLost)],
)
def test_a_job_that_ends_before_it_is_seen_to_run(state: str, error: type[TrimtabError]) -> None:
    answers = Answers([PENDING, (state, "None")])
    if error is NeverStarted:
        squeue = answers._squeue

        def without_nodes(arguments: Sequence[str]) -> tuple[int, bytes, bytes]:
            code, stdout, stderr = squeue(arguments)
            return code, stdout.replace(b"n[1-2]", b""), stderr

        answers._squeue = without_nodes  # type: ignore[method-assign]
    with pytest.raises(error, match=state), allocation(answers):
        pytest.fail("it was not usable")


def test_what_squeue_forgot_the_accounting_knows() -> None:
    answers = Answers([RUNNING, RUNNING, ""], [FINE, HALF])
    answers.accounted = "7|PREEMPTED|1800000000|1800000010|1800000040|2|n[1-2]\n"
    job = allocation(answers)
    with job, pytest.raises(JobLost) as caught:
        job.execute(("ior",), tasks=4, timeout_s=60)
    assert caught.value.state == "PREEMPTED"
    assert job.facts["node_hours"] == 30 * 2 / 3600
    # What nobody knows any more is said.
    error = instance(JobLost, outcome(Answers([RUNNING, RUNNING, ""], [FINE, HALF])))
    assert "Slurm no longer knows job 7" in error.message


def test_steps_that_stay_forbid_another_command() -> None:
    answers = Answers([RUNNING], [FINE, LATE], running_steps=["7.1"])
    with allocation(answers) as job:
        assert job.execute(("ior",), tasks=4, timeout_s=60).timed_out
        with raises(ToolError, "tasks-left-running"):
            job.execute(("ior",), tasks=4, timeout_s=60)
    assert ("scancel", "--signal=KILL", "7.1") in answers.asked
    assert ("scancel", "--batch", "--signal=TERM", "7") not in answers.asked
    assert ("scancel", "7") in answers.asked


def test_it_is_given_back_once() -> None:
    answers = Answers([RUNNING, RUNNING, ("COMPLETED", "None")])
    job = allocation(answers)
    with pytest.raises(ValueError, match="not entered"):
        job.execute(("ior",), tasks=1, timeout_s=1)
    job.__exit__(None, None, None)  # before it was entered there is nothing to give back
    assert answers.asked == []
    with job:
        pass
    asked = len(answers.asked)
    job.__exit__(None, None, None)
    assert len(answers.asked) == asked
