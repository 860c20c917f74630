"""One command of a probe as a step of its job, and what srun's own words say about its end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from trimtab.launch.allocation import Demand
from trimtab.launch.process import ProcessResult
from trimtab.launch.slurm.client import last_line, silence_of
from trimtab.launch.slurm.options import srun_options

_NOT_CREATED: Final = re.compile(
    r"^srun: (?:error: )?(?:Unable to (?:create step|confirm allocation) for job"
    r"|Job(?: [0-9]+)? step creation (?:temporarily|still) disabled)",
    re.MULTILINE,
)
_OUT_OF_MEMORY: Final = re.compile(
    r"^srun: error: .*: Out Of Memory$"
    r"|^slurmstepd[^:\n]*: error: (?:Detected [0-9]+ oom[-_]kill event"
    r"|.*exceeded (?:job|step|memory) (?:memory )?limit)",
    re.MULTILINE,
)
"""Of the kernel's control groups, and of Slurm's own counting (OverMemoryKill, slurm.conf(5))."""

_TAKEN: Final = re.compile(
    r"^slurmstepd[^:\n]*: error: \*\*\* .* CANCELLED AT \S+ DUE TO|^srun: error: Node failure on",
    re.MULTILINE,
)


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
        "--chdir=/",
        "--input=none",
        *srun_options(demand.options),
        *argv,
    )


def why_not_begun(result: ProcessResult) -> str | None:
    """Return why no task of a step began; ``None`` if one may have."""
    said = result.stderr.decode("utf-8", "replace")
    if result.problem is None or result.stdout or _NOT_CREATED.search(said) is None:
        return None
    return last_line(said)


def may_begin_later(result: ProcessResult) -> bool:
    """Return whether a step that did not begin failed only for want of an answer."""
    return not result.timed_out and silence_of(result) is not None


def ran_out_of_memory(result: ProcessResult) -> bool:
    """Return whether Slurm or the kernel killed a task for its memory."""
    said = result.stderr.decode("utf-8", "replace")
    return result.problem is not None and _OUT_OF_MEMORY.search(said) is not None


def was_taken(result: ProcessResult) -> bool:
    """Return whether srun says that the job was ended around the step."""
    said = result.stderr.decode("utf-8", "replace")
    return result.problem is not None and _TAKEN.search(said) is not None
