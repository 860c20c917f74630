"""Slurm's own commands, asked with patience: a controller that restarts is waited for.

Everything goes through the commands, not through a library or the REST service: they are what
every site has, in every version, with its authentication.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from trimtab.errors import NeverStarted, ToolError
from trimtab.launch.allocation import Execute
from trimtab.launch.process import ProcessResult, execute
from trimtab.launch.slurm.view import SACCT_FORMAT, SQUEUE_FORMAT, JobView, of_sacct, of_squeue
from trimtab.units import is_digits
from trimtab.visible import visible

Answer = TypeVar("Answer")

ASKING_TIMEOUT_S: Final = 60.0
"""Of one question; Slurm's commands give a silent controller up after some 20 s themselves."""

_SILENT: Final = re.compile(
    r"unable to contact slurm controller|socket timed out|connection (?:refused|timed out|failure)"
    r"|connect failure|zero bytes were transmitted|temporarily unable to accept job"
    r"|transport endpoint is not connected|in standby mode|unable to contact the controller"
    r"|communication shutdown failure",
    re.IGNORECASE,
)
"""How the errors read that pass when the controller is back (slurm_errno.c, errno.h)."""

_KEPT_VARIABLES: Final = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
_OURS: Final = re.compile(
    r"(?:SLURMD?|SBATCH|SRUN|SALLOC|SQUEUE|SACCT|SCANCEL|SCONTROL)_\w+"
    r"|(?:PMIX?_(?!MCA_)|OMPI_COMM_WORLD_)\w+"
)
"""Variables that stand for options of Slurm's commands, or say which task of which job we are.

Trimtab may itself run in a job or under mpirun: that job's own numbers must not reach another's.
"""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long Slurm is waited for, and by which clock.

    Attributes
    ----------
    first_pause_s, longest_pause_s
        Between two questions: each is twice the one before.
    controller_s
        A restart of slurmctld with its state takes seconds to a minute on large clusters.
    ending_s
        For processes to be gone and nodes to be cleaned; KillWait is 30 s by default
        (slurm.conf(5)).
    """

    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    controller_s: float = 120.0
    ending_s: float = 90.0
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self, limit_s: float) -> Iterator[float]:
        """Pause between the turns of a loop; it ends when ``limit_s`` are over.

        Yields the seconds that have passed: first 0, at last the limit.
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
        """Return the first good answer, or the last one when the time is over."""
        pauses = self.pauses(limit_s)
        next(pauses)
        answer = attempt()
        while not good(answer) and next(pauses, None) is not None:
            answer = attempt()
        return answer


def silence_of(result: ProcessResult) -> str | None:
    """Return what shows that the controller does not answer; ``None`` if it did."""
    if result.timed_out:
        return f"{result.problem}"
    if result.problem is None:
        return None
    complaint = result.stderr.decode("utf-8", "replace")
    return last_line(complaint) if _SILENT.search(complaint) else None


def last_line(text: str) -> str:
    """Return the last line with something in it, harmless and short."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return visible(lines[-1][:300]) if lines else "it says nothing"


def clean_environment(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return what to change in an environment so that Slurm's commands take options from us alone.

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
        Name to path: ``sbatch``, ``srun``, ``squeue``, ``scancel``, ``scontrol``, and ``sacct``
        where jobs are accounted for.
    """

    programs: Mapping[str, str]
    run: Execute = execute
    patience: Patience = field(default_factory=Patience)

    def ask(
        self, program: str, *arguments: str, patience_s: float | None = None, stdin: bytes = b""
    ) -> ProcessResult:
        """Return what one of the commands answered; while nobody answers, it is asked again.

        Parameters
        ----------
        patience_s
            For the controller; `Patience.controller_s` by default. Whether it answered in the end
            is told by `silence_of`.
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
        """Return what Slurm says about a job; ``None`` when it knows no such job any more.

        Raises
        ------
        ToolError
            It does not answer, or not to that.
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
                f"squeue cannot be asked for job {job_id}: {last_line(complaint)}",
                code="squeue-failed",
            )
        view = of_squeue(result.stdout.decode("utf-8", "replace"), job_id)
        return view if view is not None else self.accounted(job_id)

    def accounted(self, job_id: str) -> JobView | None:
        """Return what the accounting says about a job; ``None`` without accounting.

        slurmctld forgets a job some minutes after its end (MinJobAge), the accounting does not.
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
        """Return the id of a new job, or ``None`` while Slurm does not answer.

        An answer may get lost on its way: the job is looked for by its name.

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
        """Return the ids of this user's jobs of that name that wait or run, oldest first.

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
        """Return the ids of a job's steps that run, without those of Slurm's own.

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
        return match is not None and match.group(1) not in {"None", "Unknown", "0"}

    def cancel(self, *arguments: str, patience_s: float | None = None) -> str | None:
        """Ask scancel for something; return why it did not, and ``None`` where there is no need."""
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
        return match.group(1)
    why = last_line(result.stderr.decode("utf-8", "replace") or printed)
    raise NeverStarted(
        f"Slurm refused the job: {why.removeprefix('sbatch: error: ')}", code="job-refused"
    )
