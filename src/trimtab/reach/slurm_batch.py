"""Builds the batch job that holds a probe's nodes, and the job steps that run its commands.

A site file may set only the sbatch options listed here, and each value is validated: nothing else
reaches a command line. Excluded are options that Trimtab sets itself (nodes, tasks, time, name) and
those that run programs on the nodes (``--prolog``, ``--bcast``, ``--container``).

How a command ended is read from srun's messages.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Final

from trimtab.base.error import UsageError, visible
from trimtab.reach.allocation import NodeDemand
from trimtab.reach.process import ProcessResult
from trimtab.reach.slurm_client import last_line, silence_of

_WORD: Final = re.compile(r"[A-Za-z0-9_.:@,+/-]{1,400}")
_EXPRESSION: Final = re.compile(r"[A-Za-z0-9_.:@,+/&|*()\[\] =-]{1,400}")
"""Features and licences are expressions: ``[rack1|rack2]&nvme``, ``scratch:10``."""
_NODES: Final = re.compile(r"[A-Za-z0-9_.,\[\]-]{1,4000}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_SIGNED: Final = re.compile(r"-?[0-9]{1,9}")
_SIZE: Final = re.compile(r"[0-9]{1,9}[KMGT]?")
_MPI: Final = re.compile(r"none|pmi2|pmix(?:_v[0-9]+)?|cray_shasta|openmpi")
_YES: Final = frozenset({"", "true", "yes", "on"})
_NO: Final = frozenset({"false", "no", "off"})

_VALUES: Final[dict[str, re.Pattern[str]]] = {
    "account": _WORD,
    "cluster-constraint": _EXPRESSION,
    "constraint": _EXPRESSION,
    "cores-per-socket": _NUMBER,
    "cpus-per-task": _NUMBER,
    "exclude": _NODES,
    "gres": _WORD,
    "hint": _WORD,
    "licenses": _EXPRESSION,
    "mem": _SIZE,
    "mem-per-cpu": _SIZE,
    "network": _WORD,
    "nice": _SIGNED,
    "nodelist": _NODES,
    "partition": _WORD,
    "prefer": _EXPRESSION,
    "priority": _NUMBER,
    "qos": _WORD,
    "reservation": _WORD,
    "sockets-per-node": _NUMBER,
    "switches": re.compile(r"[0-9]{1,4}(?:@[0-9:-]{1,20})?"),
    "threads-per-core": _NUMBER,
    "wckey": _WORD,
}
"""Options of sbatch(1) with a value."""

_SWITCHES: Final = frozenset({"contiguous", "exclusive", "oversubscribe", "spread-job"})
"""Options of sbatch(1) without a value."""

_EXCLUSIVE: Final = frozenset({"user", "mcs", "topo"})

KNOWN: Final = frozenset({*_VALUES, *_SWITCHES, "mpi"})
"""All names; ``mpi`` is an srun option, for every command of the probe."""


def sbatch_options(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments for sbatch.

    Raises
    ------
    UsageError
        An unknown name, or an invalid value.

    Examples
    --------
    >>> sbatch_options({"partition": "probe", "exclusive": "true", "mpi": "pmix"})
    ('--partition=probe', '--exclusive')
    """
    return tuple(argument for name, argument in _arguments(options) if name != "mpi")


def srun_options(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments for srun: the MPI type, if the site sets one.

    Examples
    --------
    >>> srun_options({"partition": "probe", "mpi": "pmix"})
    ('--mpi=pmix',)
    """
    return tuple(argument for name, argument in _arguments(options) if name == "mpi")


def _arguments(options: Mapping[str, str]) -> list[tuple[str, str]]:
    arguments = []
    for option, value in options.items():
        name = option.replace("_", "-")
        if name in _SWITCHES:
            if _is_on(name, value):
                extra = f"={value}" if value in _EXCLUSIVE else ""
                arguments.append((name, f"--{name}{extra}"))
        elif name == "mpi":
            arguments.append((name, f"--mpi={_checked(name, value, _MPI.fullmatch)}"))
        elif name in _VALUES:
            arguments.append((name, f"--{name}={_checked(name, value, _VALUES[name].fullmatch)}"))
        else:
            raise UsageError(
                f"launcher slurm has no option {visible(option[:80])!r}",
                code="launcher-option-unknown",
                hint=f"options: {', '.join(sorted(KNOWN))}",
            )
    return arguments


def _is_on(name: str, value: str) -> bool:
    word = value.lower()
    if word in _YES or (name == "exclusive" and word in _EXCLUSIVE):
        return True
    if word in _NO:
        return False
    raise UsageError(
        f"launcher slurm: {name} must be true or false, not {visible(value[:80])!r}",
        code="launcher-option-invalid",
    )


def _checked(name: str, value: str, matches: Callable[[str], object]) -> str:
    if matches(value) is None or (value.startswith("-") and name != "nice"):
        raise UsageError(
            f"launcher slurm: {name} cannot be {visible(value[:80])!r}",
            code="launcher-option-invalid",
        )
    return value


NAME_PREFIX: Final = "trimtab-"
"""Prefix of every job: jobs are cancelled by name, so the name must be ours only."""

SPARE_S: Final = 300
"""The script outlives Slurm's limit by this, so that Slurm ends it with TIMEOUT; if a site does not
enforce limits (OverTimeLimit), it ends by itself."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,180}")

_SCRIPT: Final = Template("""\
#!/bin/sh
# Holds the nodes of one Trimtab probe; its commands run beside this script, as steps.
trap 'kill "$$held" 2>/dev/null; exit 0' TERM
sleep $seconds &
held=$$!
wait "$$held"
""")


def job_name(name: str) -> str:
    """Return the name of the job.

    Raises
    ------
    UsageError
        It has characters that are invalid in a job name.

    Examples
    --------
    >>> job_name("hourly-01a2")
    'trimtab-hourly-01a2'
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"a job cannot be named {visible(name[:80])!r}", code="job-name-invalid")
    return name if name.startswith(NAME_PREFIX) else NAME_PREFIX + name


def limit_minutes(demand: NodeDemand) -> int:
    """Return the time limit in whole minutes, as Slurm counts."""
    return max(1, math.ceil(demand.time_limit_s / 60.0))


def batch_script(demand: NodeDemand) -> bytes:
    """Return the script, in which only a number varies."""
    seconds = limit_minutes(demand) * 60 + SPARE_S
    return _SCRIPT.substitute(seconds=str(seconds)).encode("ascii")


def batch_arguments(demand: NodeDemand) -> tuple[str, ...]:
    """Return the arguments for sbatch.

    Uses ``--no-requeue``: otherwise a job that lost a node would restart unnoticed.

    Raises
    ------
    UsageError
        The name or an option cannot be used.
    """
    return (
        f"--job-name={job_name(demand.name)}",
        f"--nodes={demand.nodes}",
        f"--ntasks={demand.tasks}",
        f"--ntasks-per-node={demand.tasks_per_node}",
        f"--time={limit_minutes(demand)}",
        "--no-requeue",
        "--chdir=/",
        "--input=/dev/null",
        "--output=/dev/null",
        "--error=/dev/null",
        *sbatch_options(demand.options),
    )


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
class JobStep:
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


def step_of(result: ProcessResult) -> JobStep:
    """Return the step of srun's result."""
    begun = _MARK in result.stderr
    stderr = result.stderr.replace(_MARK, b"", 1)
    return JobStep(dataclasses.replace(result, stderr=stderr), begun)


def step_arguments(
    job_id: str, demand: NodeDemand, tasks: int, argv: Sequence[str]
) -> tuple[str, ...]:
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
