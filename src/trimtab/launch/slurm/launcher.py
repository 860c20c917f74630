"""Detects Slurm and its version, and starts commands with it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trimtab.errors import ToolError
from trimtab.launch.allocation import Allocation, Demand, Waiting
from trimtab.launch.process import Execute, execute
from trimtab.launch.slurm.allocation import SlurmAllocation
from trimtab.launch.slurm.client import Client, Patience, last_line, silence_of
from trimtab.launch.slurm.script import job_name
from trimtab.model.telemetry import NotAvailable, not_available

NEEDED: Final = ("sbatch", "srun", "squeue", "scancel", "scontrol")

OLDEST: Final = (20, 11)
"""The first version with ``srun --overlap``."""

ONCE_S: Final = 60.0
"""How long a command outside of an allocation may wait for nodes."""

FINDING_S: Final = 20.0
"""For the controller during detection, when a user may be waiting."""


@dataclass(frozen=True, slots=True)
class Slurm:
    """Slurm's srun, with one job for all commands of a probe.

    Attributes
    ----------
    version
        Version of its commands: ``22.05.8``.
    programs
        Name to path; with ``sacct`` if it can query ended jobs.
    cluster
        Slurm's name of the cluster.
    """

    version: str
    programs: Mapping[str, str]
    cluster: str | None = None
    patience: Patience = field(default_factory=Patience)
    kind: str = "slurm"
    name: str = "srun"
    processes: bool = True

    def wrap(self, argv: Sequence[str], tasks: int) -> tuple[str, ...]:
        """Return srun with a separate job for this command, which gives up after a minute.

        A probe uses an allocation instead, in which its commands share one job.
        """
        if tasks < 1:
            raise ValueError(f"{tasks} tasks")
        options = (f"--immediate={ONCE_S:g}", f"--ntasks={tasks}", "--kill-on-bad-exit=1")
        return (self.programs["srun"], *options, *argv)

    def allocate(
        self, demand: Demand, *, run: Execute = execute, on_wait: Waiting | None = None
    ) -> Allocation:
        """Return the allocation of one job, which is submitted on entering.

        Raises
        ------
        UsageError
            An option of the site file, or the name, is invalid.
        """
        return SlurmAllocation(
            self._client(run),
            demand,
            version=self.version,
            cluster=self.cluster,
            on_wait=on_wait,
        )

    def give_back(self, name: str, *, run: Execute = execute) -> tuple[str, ...]:
        """Cancel jobs that an aborted run left in the queue, by its demand's name; return the ids.

        Raises
        ------
        ToolError
            Slurm does not answer.
        """
        client = self._client(run)
        jobs = client.named(job_name(name))
        for job_id in jobs:
            client.cancel(job_id)
        return jobs

    def _client(self, run: Execute) -> Client:
        return Client(self.programs, run, self.patience)


def find_slurm(*, path: str | None = None, run: Execute = execute) -> Slurm | NotAvailable:
    """Return the Slurm whose commands are on PATH, or why it is unusable here.

    Parameters
    ----------
    path
        Path of srun if it is not on PATH; the others are searched next to it.
    """
    programs = _programs(path)
    if missing := [name for name in NEEDED if name not in programs]:
        return not_available(
            "tool-not-found", f"{', '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing"
        )
    client = Client(programs, run)
    try:
        version = _version(client)
        if isinstance(version, NotAvailable):
            return version
        answer = client.ask("scontrol", "show", "config", patience_s=FINDING_S)
    except ToolError as error:
        return not_available(error.code, error.message)
    silence = silence_of(answer)
    if silence is not None:
        return not_available("controller-silent", f"Slurm's controller does not answer: {silence}")
    if answer.problem is not None:
        complaint = last_line(answer.stderr.decode("utf-8", "replace"))
        return not_available("slurm-unusable", f"Slurm cannot be used here: {complaint}")
    settings = _settings(answer.stdout.decode("utf-8", "replace"))
    if not settings.get("AccountingStorageType", "").endswith("/slurmdbd"):
        programs.pop("sacct", None)
    return Slurm(version, programs, cluster=settings.get("ClusterName"))


def _programs(path: str | None) -> dict[str, str]:
    folder = None if path is None else str(Path(path).parent)
    programs = {name: shutil.which(name, path=folder) for name in (*NEEDED, "sacct")}
    return {name: program for name, program in programs.items() if program is not None}


def _version(client: Client) -> str | NotAvailable:
    answer = client.ask("scontrol", "--version", patience_s=0.0)
    text = answer.stdout.decode("utf-8", "replace")
    match = re.match(r"slurm(?:-wlm)? ([0-9]+)\.([0-9]+)(\S*)", text)
    if match is None:
        complaint = last_line(answer.stderr.decode("utf-8", "replace") or text)
        why = "cannot be used here" if answer.problem else "is not supported"
        return not_available("slurm-unusable", f"Slurm {why}: {complaint}")
    version = f"{match[1]}.{match[2]}{match[3]}"
    if (int(match[1]), int(match[2])) < OLDEST:
        return not_available(
            "tool-too-old", f"Slurm {version} has no srun --overlap: 20.11 or later is needed"
        )
    return version


def _settings(text: str) -> dict[str, str]:
    """Parse ``scontrol show config``: lines of ``Name = value``."""
    return dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))
