"""Whether there is a Slurm here, and what it is like."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trimtab.errors import ToolError
from trimtab.launch.allocation import Allocation, Demand, Execute, Waiting
from trimtab.launch.process import execute
from trimtab.launch.slurm.allocation import SlurmAllocation
from trimtab.launch.slurm.client import Client, Patience, last_line, silence_of
from trimtab.launch.slurm.script import job_name
from trimtab.model.telemetry import NotAvailable, not_available

NEEDED: Final = ("sbatch", "srun", "squeue", "scancel", "scontrol")

OLDEST: Final = (20, 11)
"""``srun --overlap`` came with it."""

ONCE_S: Final = 60.0
"""How long a command outside of an allocation may wait for nodes of its own."""

FINDING_S: Final = 20.0
"""For the controller, when all that is asked is whether there is one: a person may be waiting."""


@dataclass(frozen=True, slots=True)
class Slurm:
    """Slurm's srun, in one job for all commands of a probe.

    Attributes
    ----------
    version
        Of its commands, as ``22.05.8``.
    programs
        Name to path; ``sacct`` where ended jobs can be asked for with it.
    cluster
        As Slurm names it.
    """

    version: str
    programs: Mapping[str, str]
    cluster: str | None = None
    patience: Patience = field(default_factory=Patience)
    kind: str = "slurm"
    name: str = "srun"
    processes: bool = True

    def wrap(self, argv: Sequence[str], tasks: int) -> tuple[str, ...]:
        """Return srun with a job of its own for this one command, given up after a minute.

        A probe runs in an allocation instead, where its commands share one job.
        """
        if tasks < 1:
            raise ValueError(f"{tasks} tasks")
        options = (f"--immediate={ONCE_S:g}", f"--ntasks={tasks}", "--kill-on-bad-exit=1")
        return (self.programs["srun"], *options, *argv)

    def allocate(
        self, demand: Demand, *, run: Execute = execute, on_wait: Waiting | None = None
    ) -> Allocation:
        """Return the nodes of one job, submitted when they are entered.

        Raises
        ------
        UsageError
            An option of the site file, or the name, cannot be used.
        """
        return SlurmAllocation(
            self._client(run),
            demand,
            version=self.version,
            cluster=self.cluster,
            on_wait=on_wait,
        )

    def give_back(self, name: str, *, run: Execute = execute) -> tuple[str, ...]:
        """Cancel what a broken-off run left in the queue, by its demand's name; return the ids.

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
    """Return the Slurm whose commands are on PATH, or why it cannot be used here.

    Parameters
    ----------
    path
        Of srun where it is not on PATH; the others are looked for beside it.
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
        why = "cannot be used here" if answer.problem else "is not the one that is known"
        return not_available("slurm-unusable", f"Slurm {why}: {complaint}")
    version = f"{match[1]}.{match[2]}{match[3]}"
    if (int(match[1]), int(match[2])) < OLDEST:
        return not_available(
            "tool-too-old", f"Slurm {version} has no srun --overlap: 20.11 or later is needed"
        )
    return version


def _settings(text: str) -> dict[str, str]:
    """Return what ``scontrol show config`` lists as ``Name = value``."""
    return dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))
