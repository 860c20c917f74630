"""One command of a probe as a job step, and how it ended according to srun's messages."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.launch.allocation import Demand
from trimtab.launch.process import ProcessResult
from trimtab.launch.slurm.client import last_line, silence_of
from trimtab.launch.slurm.options import srun_options

CREATED_WITHIN_S: Final = 5
"""A step not created by then is retried; see `step_arguments`."""

_MARK: Final = b"trimtab: begun\n"

_BEGIN: Final = 'if [ "$SLURM_PROCID" = 0 ]; then echo "trimtab: begun" >&2; fi; exec "$@"'
"""Runs in each task before the command.

It distinguishes a command that was too slow, which counts as 0, from one that Slurm had not started
by its deadline, which has nothing to do with the file system.
"""

_BUSY: Final = re.compile(r"nodes are busy|(?:temporarily|still) disabled|prolog", re.IGNORECASE)
"""Why a step cannot be created for now (slurm_errno.c)."""

_OUT_OF_MEMORY: Final = re.compile(
    r"^srun: error: .*: Out Of Memory$"
    r"|^slurmstepd[^:\n]*: error: (?:Detected [0-9]+ oom[-_]kill event"
    r"|.*exceeded (?:job|step|memory) (?:memory )?limit)",
    re.MULTILINE,
)
"""From the kernel's control groups, and from Slurm (OverMemoryKill, slurm.conf(5))."""

_ABORTED: Final = re.compile(
    r"^slurmstepd[^:\n]*: error: \*\*\* .* CANCELLED AT|^srun: Job step aborted", re.MULTILINE
)
"""Slurm's messages for a step that did not end by itself, also after a failed task."""

_WITH_THE_JOB: Final = re.compile(
    r"^slurmstepd[^:\n]*: error: \*\*\* .* CANCELLED AT \S+ DUE TO"
    r" (?:TIME LIMIT|PREEMPTION|NODE FAILURE|JOB REQUEUE)"
    r"|^srun: error: Node failure on|^srun: error: .*already completing or completed",
    re.MULTILINE,
)
"""The same, if the job ends with it: the job's state has the reason (slurmstepd/req.c)."""


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one command.

    Attributes
    ----------
    result
        srun's result, without the output added by `step_arguments`.
    begun
        Whether the command itself started, at least in its first task.
    """

    result: ProcessResult
    begun: bool

    @property
    def _printed(self) -> str:
        return self.result.stderr.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The error message of srun, in one line."""
        errors = re.findall(r"^srun: error: (.*)$", self._printed, re.MULTILINE)
        return last_line(errors[0] if errors else self._printed)

    @property
    def may_begin_later(self) -> bool:
        """Whether it did not start, but a retry may."""
        if self.begun or self.result.timed_out or self.result.problem is None:
            return False
        return silence_of(self.result) is not None or _BUSY.search(self._printed) is not None

    @property
    def out_of_memory(self) -> bool:
        """Whether Slurm or the kernel killed a task for its memory."""
        return self.result.problem is not None and _OUT_OF_MEMORY.search(self._printed) is not None

    @property
    def ended_with_job(self) -> bool:
        """Whether srun reports that the whole job was ended."""
        return _WITH_THE_JOB.search(self._printed) is not None

    @property
    def aborted(self) -> bool:
        """Whether srun reports that it was cut short.

        This overrides the exit code: Slurm 22.05 exits with 0 when a step's only node dies.
        """
        return self.ended_with_job or _ABORTED.search(self._printed) is not None

    @property
    def ended_by_itself(self) -> bool:
        """Whether the command ended by itself, successfully."""
        return self.result.problem is None and self.begun and not self.aborted

    @property
    def killed(self) -> bool:
        """Whether we or a signal ended srun, so that tasks may be left on the nodes."""
        result = self.result
        return result.timed_out or result.truncated or result.abandoned or result.signal is not None


def step_of(result: ProcessResult) -> Step:
    """Return the step of srun's result."""
    begun = _MARK in result.stderr
    stderr = result.stderr.replace(_MARK, b"", 1)
    return Step(dataclasses.replace(result, stderr=stderr), begun)


def step_arguments(job_id: str, demand: Demand, tasks: int, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the srun arguments that run ``argv`` as that many tasks of a job.

    Tasks fill one node after the other, with the same number on each: a rank reaches another node's
    data with an offset of the tasks per node.
    """
    nodes = min(demand.nodes, tasks)
    return (
        f"--jobid={job_id}",
        # In parallel to the batch script, which already has the job's CPUs.
        "--overlap",
        f"--nodes={nodes}",
        f"--ntasks={tasks}",
        f"--ntasks-per-node={-(-tasks // nodes)}",
        "--distribution=block",
        # If bound to cores, tasks that wait for the disk would share one while others idle.
        "--cpu-bind=none",
        "--kill-on-bad-exit=1",
        # A site's WaitTime would kill slower tasks that long after the first has ended.
        "--wait=0",
        # Otherwise srun waits for minutes, in the command's time, where a retry succeeds at once:
        # after a restart the controller reports that its nodes are busy.
        f"--immediate={CREATED_WITHIN_S}",
        "--chdir=/",
        "--input=none",
        *srun_options(demand.options),
        "sh",
        "-c",
        _BEGIN,
        "sh",
        *argv,
    )
