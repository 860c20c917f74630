"""Runs Slurm's commands, and waits for a controller that restarts.

Uses the commands, not a library or the REST service: every site has them, in every version, with
its authentication.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from trimtab.base.error import NeverStarted, ToolError
from trimtab.base.units import is_digits
from trimtab.base.visible import visible
from trimtab.reach.process import Execute, ProcessResult, execute
from trimtab.reach.slurm_job import SACCT_FORMAT, SQUEUE_FORMAT, JobView, of_sacct, of_squeue

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
