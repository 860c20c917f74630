"""One command of a probe as a step of its job, and what srun's own words say about its end."""

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
"""For a step that is not created by then another try is made; see `step_arguments`."""

_MARK: Final = b"trimtab: begun\n"

_BEGIN: Final = 'if [ "$SLURM_PROCID" = 0 ]; then echo "trimtab: begun" >&2; fi; exec "$@"'
"""Run by each task in front of the command.

Without it nobody could tell a command that was too slow, which counts as 0, from one that Slurm
had not started when its time was over, which is none of the file system's business.
"""

_BUSY: Final = re.compile(r"nodes are busy|(?:temporarily|still) disabled|prolog", re.IGNORECASE)
"""Why a step is not created for now (slurm_errno.c)."""

_OUT_OF_MEMORY: Final = re.compile(
    r"^srun: error: .*: Out Of Memory$"
    r"|^slurmstepd[^:\n]*: error: (?:Detected [0-9]+ oom[-_]kill event"
    r"|.*exceeded (?:job|step|memory) (?:memory )?limit)",
    re.MULTILINE,
)
"""Of the kernel's control groups, and of Slurm's own counting (OverMemoryKill, slurm.conf(5))."""

_ABORTED: Final = re.compile(
    r"^slurmstepd[^:\n]*: error: \*\*\* .* CANCELLED AT|^srun: Job step aborted", re.MULTILINE
)
"""Slurm's own words for a step that was ended by more than its command, also by a failed task."""

_WITH_THE_JOB: Final = re.compile(
    r"^slurmstepd[^:\n]*: error: \*\*\* .* CANCELLED AT \S+ DUE TO"
    r" (?:TIME LIMIT|PREEMPTION|NODE FAILURE|JOB REQUEUE)"
    r"|^srun: error: Node failure on|^srun: error: .*already completing or completed",
    re.MULTILINE,
)
"""The same, where its job goes down with it: the state of the job will tell (slurmstepd/req.c)."""


@dataclass(frozen=True, slots=True)
class Step:
    """How one command went.

    Attributes
    ----------
    result
        Of srun, without what `step_arguments` added to its output.
    begun
        Whether the command itself began, at least as its first task.
    """

    result: ProcessResult
    begun: bool

    @property
    def _printed(self) -> str:
        return self.result.stderr.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """What srun says, in one line."""
        errors = re.findall(r"^srun: error: (.*)$", self._printed, re.MULTILINE)
        return last_line(errors[0] if errors else self._printed)

    @property
    def may_begin_later(self) -> bool:
        """Whether it did not begin, and another try may."""
        if self.begun or self.result.timed_out or self.result.problem is None:
            return False
        return silence_of(self.result) is not None or _BUSY.search(self._printed) is not None

    @property
    def out_of_memory(self) -> bool:
        """Whether Slurm or the kernel killed a task for its memory."""
        return self.result.problem is not None and _OUT_OF_MEMORY.search(self._printed) is not None

    @property
    def ended_with_job(self) -> bool:
        """Whether srun says that the whole job was ended."""
        return _WITH_THE_JOB.search(self._printed) is not None

    @property
    def aborted(self) -> bool:
        """Whether srun says that it was cut short.

        That counts more than the exit code: Slurm 22.05 ends with 0 when the only node of a step
        dies.
        """
        return self.ended_with_job or _ABORTED.search(self._printed) is not None

    @property
    def ended_by_itself(self) -> bool:
        """Whether the command came to its end, and well."""
        return self.result.problem is None and self.begun and not self.aborted

    @property
    def killed(self) -> bool:
        """Whether srun was ended by us or by a signal, and may have left tasks on the nodes."""
        result = self.result
        return result.timed_out or result.truncated or result.abandoned or result.signal is not None


def step_of(result: ProcessResult) -> Step:
    """Return a step from how srun ran."""
    begun = _MARK in result.stderr
    stderr = result.stderr.replace(_MARK, b"", 1)
    return Step(dataclasses.replace(result, stderr=stderr), begun)


def step_arguments(job_id: str, demand: Demand, tasks: int, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments for srun that run ``argv`` as that many tasks of a job.

    Tasks fill one node after the other, the same number on each: ranks that read what their
    neighbour wrote reach another node by as many steps as a node has tasks.
    """
    nodes = min(demand.nodes, tasks)
    return (
        f"--jobid={job_id}",
        # Beside the batch script, which has the job's processors already.
        "--overlap",
        f"--nodes={nodes}",
        f"--ntasks={tasks}",
        f"--ntasks-per-node={-(-tasks // nodes)}",
        "--distribution=block",
        # Bound to a core each, tasks that wait for the disk would share one while others idle.
        "--cpu-bind=none",
        "--kill-on-bad-exit=1",
        # A site's WaitTime would end the slower tasks that long after the first.
        "--wait=0",
        # Otherwise srun waits for minutes, in the command's time, for what another try gets at
        # once: after a restart of the controller it is told that its nodes are busy.
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
