"""Runs Slurm's commands, waits for a controller that restarts, and reads the state of one job.

Uses the commands, not a library or the REST service: every site has them, in every version, with
its authentication. squeue and sacct print named fields separated by ``|``, and times as seconds
since the epoch (``SLURM_TIME_FORMAT=%s``), so neither locale nor time zone matters.

Every state of Slurm is in one of the sets. Slurm shows one word: the job's base state, or a
currently set flag in its place (``doc/html/job_state_codes``). An unknown word is reported as such,
not guessed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeVar

from trimtab.base.error import NeverStarted, ToolError, visible
from trimtab.base.units import is_digits
from trimtab.reach.process import Execute, ProcessResult, execute


class JobStage(Enum):
    """The stage of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    ENDING = "ending"
    ENDED = "ended"
    UNKNOWN = "unknown"


WAITING: Final = frozenset(
    {"PENDING", "CONFIGURING", "POWER_UP_NODE", "EXPEDITING", "REQUEUED", "REQUEUE_FED"}
    | {"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
"""Not started, or requeued. ``CONFIGURING``: it has nodes, which are still booting."""

HELD: Final = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
"""Waiting states that only a person can end."""

RUNNING: Final = frozenset({"RUNNING", "SIGNALING", "RESIZING", "UPDATE_DB"})

PAUSED: Final = frozenset({"SUSPENDED", "STOPPED"})
"""Started but paused. A measurement meanwhile includes the pause."""

ENDING: Final = frozenset({"COMPLETING", "STAGE_OUT"})
"""Ended, with nodes being cleaned; until then this word hides how it ended."""

ENDED: Final = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL"}
    | {"OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"}
)

_STAGES: Final = {
    state: stage
    for stage, states in (
        (JobStage.WAITING, WAITING),
        (JobStage.RUNNING, RUNNING),
        (JobStage.PAUSED, PAUSED),
        (JobStage.ENDING, ENDING),
        (JobStage.ENDED, ENDED),
    )
    for state in states
}

MEANING: Final = {
    "BOOT_FAIL": "one of its nodes did not boot",
    "CANCELLED": "it was cancelled",
    "COMPLETED": "its script ended",
    "DEADLINE": "it reached its deadline",
    "FAILED": "its script failed",
    "LAUNCH_FAILED": "it could not be launched on a node",
    "NODE_FAIL": "one of its nodes failed",
    "OUT_OF_MEMORY": "it exceeded its memory limit",
    "PREEMPTED": "a job of higher priority took its nodes",
    "RECONFIG_FAIL": "one of its nodes could not be set up",
    "REVOKED": "another cluster took it",
    "STOPPED": "it was stopped while a command ran",
    "SUSPENDED": "it was suspended while a command ran",
    "TIMEOUT": "it reached its time limit",
}
"""Descriptions for messages."""

_NEVER: Final = frozenset(
    {"AccountNotAllowed", "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount"}
    | {"InvalidQOS", "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue", "PartitionTimeLimit"}
    | {"QOSNotAllowed", "ReservationDeleted", "ReservationInvalid"}
)

_PER_JOB_LIMIT: Final = re.compile(r"(?:Assoc|QOS)Max[A-Za-z]+PerJob(?:Limit)?")

_STATE_OF_REASON: Final = {
    "TimeLimit": "TIMEOUT",
    "NodeDown": "NODE_FAIL",
    "OutOfMemory": "OUT_OF_MEMORY",
    "DeadLine": "DEADLINE",
}


def stage_of(state: str) -> JobStage:
    """Return the stage of a state; ``UNKNOWN`` for an unknown word.

    Examples
    --------
    >>> stage_of("PENDING"), stage_of("BEWITCHED")
    (<JobStage.WAITING: 'waiting'>, <JobStage.UNKNOWN: 'unknown'>)
    """
    return _STAGES.get(state, JobStage.UNKNOWN)


def never_starts(state: str, reason: str) -> bool:
    """Return whether a pending job will wait until someone changes it or the site.

    Reasons are from squeue(1), JOB REASON CODES, and resource_limits of Slurm's documentation:
    waiting never resolves a per-job limit, but does resolve a group limit. ``PartitionNodeLimit``
    is not included: it also occurs while nodes are down.

    Examples
    --------
    >>> never_starts("PENDING", "QOSMaxWallDurationPerJobLimit")
    True
    >>> never_starts("PENDING", "Priority")
    False
    """
    return state in HELD or reason in _NEVER or _PER_JOB_LIMIT.fullmatch(reason) is not None


def state_behind(state: str, reason: str) -> str:
    """Return the final state of a ``COMPLETING`` job, if the reason shows it.

    Examples
    --------
    >>> state_behind("COMPLETING", "TimeLimit")
    'TIMEOUT'
    >>> state_behind("COMPLETING", "None")
    'COMPLETING'
    """
    return _STATE_OF_REASON.get(reason, state) if state in ENDING else state


SQUEUE_FORMAT: Final = "%i|%T|%r|%V|%S|%e|%D|%N"
"""Id, state, reason, submitted, started, ends or ended, number of nodes, nodes (squeue(1))."""

SACCT_FORMAT: Final = "JobIDRaw,State,Submit,Start,End,NNodes,NodeList"

_TIME: Final = re.compile(r"[0-9]{6,12}")


@dataclass(frozen=True, slots=True)
class JobView:
    """One job at one moment.

    Attributes
    ----------
    state
        Slurm's state: ``RUNNING``.
    reason
        Slurm's reason for waiting or ending; ``None`` from sacct, which has none.
    started_at, ended_at
        By the controller's clock, in whole seconds; ``None`` before, and if it never had nodes.
    node_list
        Folded, as Slurm prints it; empty without nodes.
    """

    job_id: str
    state: str
    reason: str | None
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    node_list: str
    node_count: int | None

    @property
    def stage(self) -> JobStage:
        """The stage of the job."""
        return stage_of(self.state)

    @property
    def final_state(self) -> str:
        """Its final state, if already known while its nodes are being cleaned."""
        return state_behind(self.state, self.reason or "")


def of_squeue(text: str, job_id: str) -> JobView | None:
    """Parse squeue's output in `SQUEUE_FORMAT`; ``None`` if the job is missing.

    Examples
    --------
    >>> of_squeue("7|RUNNING|None|1795220235|1795220236|1795223836|2|n[1-2]", "7").node_list
    'n[1-2]'
    """
    fields = _fields_of(text, job_id, 8)
    if fields is None:
        return None
    state, reason, *rest = fields
    return _view(job_id, state, reason, rest)


def of_sacct(text: str, job_id: str) -> JobView | None:
    """Parse ``sacct --parsable2`` in `SACCT_FORMAT`; ``None`` if the job is missing.

    Examples
    --------
    >>> of_sacct("7|CANCELLED by 0|1795220235|Unknown|1795220236|2|None assigned", "7").state
    'CANCELLED'
    """
    fields = _fields_of(text, job_id, 7)
    if fields is None:
        return None
    state, *rest = fields
    return _view(job_id, state.partition(" ")[0], None, rest)  # "CANCELLED by 1000"


def _fields_of(text: str, job_id: str, count: int) -> list[str] | None:
    """Return the fields after the id in the job's line, if the number of fields fits."""
    lines = ([field.strip() for field in line.split("|")] for line in text.splitlines())
    return next((line[1:] for line in lines if len(line) == count and line[0] == job_id), None)


def unfold(node_list: str, count: int | None) -> tuple[str, ...]:
    """Expand a folded list of nodes, in order.

    Raises
    ------
    ToolError
        It cannot be expanded, or the number of names differs from Slurm's.

    Examples
    --------
    >>> unfold("n[1-2,5]", 3)
    ('n1', 'n2', 'n5')
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        # Without groups: "@all" is not a node, whatever this host's ClusterShell knows.
        names = tuple(str(name) for name in NodeSet(node_list, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise ToolError(
            f"Slurm's node list {visible(node_list[:120])!r}: {error}", code="node-list-invalid"
        ) from error
    if any(name.startswith("@") for name in names):
        raise ToolError(
            f"Slurm's node list {visible(node_list[:120])!r} has a group",
            code="node-list-invalid",
        )
    if not names or (count is not None and len(names) != count):
        raise ToolError(
            f"Slurm's node list {visible(node_list[:120])!r} has {len(names)} nodes, not {count}",
            code="node-list-invalid",
        )
    return names


def _view(job_id: str, state: str, reason: str | None, rest: list[str]) -> JobView:
    *times, count, node_list = rest
    had_nodes = node_list not in {"", "(null)", "None assigned"}
    stage = stage_of(state)
    submitted, started, ended = map(_time, times)
    # For a pending job the start is the scheduler's estimate, and for one cancelled in the queue
    # the time of cancelling: only a job with nodes has started.
    began = had_nodes and stage not in {JobStage.WAITING, JobStage.UNKNOWN}
    return JobView(
        job_id=job_id,
        state=state,
        reason=reason,
        submitted_at=submitted,
        started_at=started if began else None,
        ended_at=ended if began and stage is JobStage.ENDED else None,
        node_list=node_list if had_nodes else "",
        node_count=int(count) if is_digits(count) else None,
    )


def _time(text: str) -> datetime | None:
    """Parse a time; ``None`` for ``N/A``, ``Unknown`` and ``None``."""
    return datetime.fromtimestamp(int(text), UTC) if _TIME.fullmatch(text) else None


Answer = TypeVar("Answer")

ASKING_TIMEOUT_S: Final = 60.0
"""Deadline of one command; Slurm's commands give up on a silent controller after 20 s."""

_SILENT: Final = re.compile(
    r"unable to contact slurm controller|socket timed out|connection (?:refused|timed out|failure)"
    r"|connect failure|zero bytes were transmitted|temporarily unable to accept job"
    r"|transport endpoint is not connected|in standby mode|unable to contact the controller"
    r"|communication shutdown failure",
    re.IGNORECASE,
)
"""Temporary errors, which pass when the controller is back (slurm_errno.c, errno.h)."""

_KEPT_VARIABLES: Final = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
_OURS: Final = re.compile(
    r"(?:SLURMD?|SBATCH|SRUN|SALLOC|SQUEUE|SACCT|SCANCEL|SCONTROL)_\w+"
    r"|(?:PMIX?_(?!MCA_)|OMPI_COMM_WORLD_)\w+"
)
"""Variables for options of Slurm's commands, or for the job and task we run in.

Trimtab may itself run in a job or under mpirun: that job's variables must not reach another.
"""


@dataclass(frozen=True, slots=True)
class SlurmPatience:
    """How long to wait for Slurm, and by which clock.

    Attributes
    ----------
    first_pause_s, longest_pause_s
        Between two queries: each is twice the previous one.
    controller_s
        A restart of slurmctld takes seconds to a minute on large clusters.
    ending_s
        For processes to end and nodes to be cleaned; KillWait is 30 s by default (slurm.conf(5)).
    """

    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    controller_s: float = 120.0
    ending_s: float = 90.0
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self, limit_s: float) -> Iterator[float]:
        """Pause between iterations of a loop until ``limit_s`` have passed.

        Yields the elapsed seconds, from 0 to the limit.
        """
        began_s, pause_s = self.monotonic(), self.first_pause_s
        passed_s = 0.0
        while True:
            yield passed_s
            if passed_s >= limit_s:
                return
            self.sleep(min(pause_s, limit_s - passed_s))
            pause_s = min(2 * pause_s, self.longest_pause_s)
            passed_s = self.monotonic() - began_s

    def until(
        self, attempt: Callable[[], Answer], good: Callable[[Answer], bool], limit_s: float
    ) -> Answer:
        """Return the first good answer, or the last one at the time limit."""
        pauses = self.pauses(limit_s)
        next(pauses)
        answer = attempt()
        while not good(answer) and next(pauses, None) is not None:
            answer = attempt()
        return answer


def silence_of(result: ProcessResult) -> str | None:
    """Return the error of a silent controller; ``None`` if it answered."""
    if result.timed_out:
        return f"{result.problem}"
    if result.problem is None:
        return None
    complaint = result.stderr.decode("utf-8", "replace")
    return last_line(complaint) if _SILENT.search(complaint) else None


def last_line(text: str) -> str:
    """Return the last line that is not empty, escaped and shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return visible(lines[-1][:300]) if lines else "no message"


def clean_environment(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the changes to an environment after which Slurm's commands use only our options.

    Examples
    --------
    >>> clean_environment({"SLURM_JOB_ID": "7", "SLURM_CONF": "/etc/slurm.conf", "HOME": "/h"})
    {'SLURM_JOB_ID': None, 'SLURM_TIME_FORMAT': '%s'}
    """
    removed = (name for name in environment if _OURS.fullmatch(name))
    return {
        **{name: None for name in removed if name not in _KEPT_VARIABLES},
        "SLURM_TIME_FORMAT": "%s",
    }


@dataclass(frozen=True, slots=True)
class Client:
    """The commands of Slurm.

    Attributes
    ----------
    programs
        Name to path: ``sbatch``, ``srun``, ``squeue``, ``scancel``, ``scontrol``, and ``sacct`` if
        there is accounting.
    """

    programs: Mapping[str, str]
    run: Execute = execute
    patience: SlurmPatience = field(default_factory=SlurmPatience)

    def ask(
        self, program: str, *arguments: str, patience_s: float | None = None, stdin: bytes = b""
    ) -> ProcessResult:
        """Run a command and return its result; retry while the controller is silent.

        Parameters
        ----------
        patience_s
            For the controller; default: `SlurmPatience.controller_s`. `silence_of` shows whether
            it finally answered.
        """
        limit_s = self.patience.controller_s if patience_s is None else patience_s

        def once() -> ProcessResult:
            return self.run(
                (self.programs[program], *arguments),
                timeout_s=ASKING_TIMEOUT_S,
                output_limit_bytes=2**22,
                environment=clean_environment(os.environ),
                stdin=stdin,
            )

        return self.patience.until(once, lambda result: silence_of(result) is None, limit_s)

    def job(self, job_id: str) -> JobView | None:
        """Query a job; ``None`` if Slurm no longer knows it.

        Raises
        ------
        ToolError
            Slurm does not answer, or refuses the query.
        """
        result = self.ask(
            "squeue",
            "--noheader",
            "--states=all",
            f"--jobs={job_id}",
            f"--format={SQUEUE_FORMAT}",
        )
        _raise_if_silent(result)
        complaint = result.stderr.decode("utf-8", "replace")
        if result.problem is not None and "invalid job id" not in complaint.lower():
            raise ToolError(
                f"squeue failed for job {job_id}: {last_line(complaint)}",
                code="squeue-failed",
            )
        view = of_squeue(result.stdout.decode("utf-8", "replace"), job_id)
        return view if view is not None else self.accounted(job_id)

    def accounted(self, job_id: str) -> JobView | None:
        """Query a job in the accounting; ``None`` without accounting.

        slurmctld forgets a job some minutes after its end (MinJobAge); the accounting does not.
        """
        if "sacct" not in self.programs:
            return None
        result = self.ask(
            "sacct",
            "--noheader",
            "--parsable2",
            "--allocations",
            f"--jobs={job_id}",
            f"--format={SACCT_FORMAT}",
            patience_s=0.0,
        )
        return of_sacct(result.stdout.decode("utf-8", "replace"), job_id)

    def submit(self, script: bytes, arguments: Sequence[str], name: str) -> str | None:
        """Submit a job and return its id, or ``None`` if Slurm does not answer.

        The answer may get lost, so the job is also searched by its name.

        Raises
        ------
        NeverStarted
            Slurm refuses it.
        """
        result = self.ask("sbatch", "--parsable", *arguments, patience_s=0.0, stdin=script)
        if silence_of(result) is None:
            return _job_id(result)
        try:
            return next(reversed(self.named(name, patience_s=0.0)), None)
        except ToolError:
            return None

    def named(self, name: str, *, patience_s: float | None = None) -> tuple[str, ...]:
        """Return the ids of this user's pending and running jobs with that name, oldest first.

        Raises
        ------
        ToolError
            Slurm does not answer.
        """
        user = str(os.geteuid())
        arguments = ("--noheader", f"--user={user}", f"--name={name}", "--format=%i")
        result = self.ask("squeue", *arguments, patience_s=patience_s)
        _raise_if_silent(result)
        return tuple(
            sorted((word for word in result.stdout.decode().split() if is_digits(word)), key=int)
        )

    def steps(self, job_id: str) -> tuple[str, ...]:
        """Return the ids of a job's running steps, without Slurm's own.

        Raises
        ------
        ToolError
            Slurm does not answer.
        """
        result = self.ask("squeue", "--noheader", "--steps", f"--jobs={job_id}", "--format=%i")
        _raise_if_silent(result)
        identifiers = re.findall(r"^\s*([0-9]+\.[0-9]+)\s*$", result.stdout.decode(), re.MULTILINE)
        return tuple(identifiers)

    def was_suspended(self, job_id: str) -> bool:
        """Return whether a job was ever suspended (``SuspendTime`` of scontrol(1))."""
        result = self.ask("scontrol", "--oneliner", "show", "job", job_id)
        match = re.search(r" SuspendTime=(\S+)", result.stdout.decode("utf-8", "replace"))
        return match is not None and match[1] not in {"None", "Unknown", "0"}

    def cancel(self, *arguments: str, patience_s: float | None = None) -> str | None:
        """Run scancel; return why it failed, ``None`` if it succeeded or was not needed."""
        result = self.ask("scancel", *arguments, patience_s=patience_s)
        if result.problem is None:
            return None
        complaint = last_line(result.stderr.decode("utf-8", "replace"))
        gone = re.search(
            r"invalid job id|already completing or completed", complaint, re.IGNORECASE
        )
        return None if gone else complaint


def _raise_if_silent(result: ProcessResult) -> None:
    silence = silence_of(result)
    if silence is not None:
        raise ToolError(
            f"Slurm's controller does not answer: {silence}",
            code="controller-silent",
            hint="see scontrol ping",
        )


def _job_id(result: ProcessResult) -> str:
    """Return the id in ``sbatch --parsable``'s answer: ``123`` or ``123;cluster``."""
    printed = result.stdout.decode("utf-8", "replace").strip()
    match = re.fullmatch(r"([0-9]+)(?:;\S+)?", printed.rpartition("\n")[2].strip())
    if result.problem is None and match is not None:
        return match[1]
    why = last_line(result.stderr.decode("utf-8", "replace") or printed)
    raise NeverStarted(
        f"Slurm refused the job: {why.removeprefix('sbatch: error: ')}", code="job-refused"
    )
