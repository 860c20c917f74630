"""The batch script that holds the nodes while a probe's commands run as steps."""

from __future__ import annotations

import math
import re
from string import Template
from typing import Final

from trimtab.errors import UsageError
from trimtab.launch.allocation import Demand
from trimtab.launch.slurm.options import sbatch_options
from trimtab.visible import visible

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


def limit_minutes(demand: Demand) -> int:
    """Return the time limit in whole minutes, as Slurm counts."""
    return max(1, math.ceil(demand.time_limit_s / 60.0))


def batch_script(demand: Demand) -> bytes:
    """Return the script, in which only a number varies."""
    seconds = limit_minutes(demand) * 60 + SPARE_S
    return _SCRIPT.substitute(seconds=str(seconds)).encode("ascii")


def batch_arguments(demand: Demand) -> tuple[str, ...]:
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
