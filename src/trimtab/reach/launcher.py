"""Launchers, which start a command as several tasks: directly, with Open MPI, or with Slurm.

A launcher also decides where the tasks run. `LAUNCHERS` lists the kinds.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from trimtab.base.error import ToolError
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.reach.allocation import Allocation, HostAllocation, NodeDemand, Waiting
from trimtab.reach.process import Execute, execute
from trimtab.reach.slurm_allocation import SlurmAllocation
from trimtab.reach.slurm_batch import job_name
from trimtab.reach.slurm_client import Client, SlurmPatience, last_line, silence_of

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
    patience: SlurmPatience = field(default_factory=SlurmPatience)
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
        self, demand: NodeDemand, *, run: Execute = execute, on_wait: Waiting | None = None
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


class Launcher(Protocol):
    """Starts one command as a number of tasks.

    Attributes
    ----------
    kind
        Its key in `LAUNCHERS`, as in the site file.
    name
        The launching program, for the record: ``local``, ``mpirun``.
    version
        As printed; ``None`` without a program.
    processes
        Whether each task is a separate process; otherwise the command starts its own tasks.
    """

    @property
    def kind(self) -> str:
        """See above."""
        ...

    @property
    def name(self) -> str:
        """See above."""
        ...

    @property
    def version(self) -> str | None:
        """See above."""
        ...

    @property
    def processes(self) -> bool:
        """See above."""
        ...

    def wrap(self, argv: Sequence[str], tasks: int) -> tuple[str, ...]:
        """Return the command that runs ``argv`` as ``tasks`` tasks."""
        ...

    def allocate(
        self, demand: NodeDemand, *, run: Execute = execute, on_wait: Waiting | None = None
    ) -> Allocation:
        """Return the allocation for a probe's commands, not yet entered.

        Parameters
        ----------
        run
            Starts programs on this host, including the launcher's own.
        on_wait
            Called while a job is in the queue.

        Raises
        ------
        UsageError
            This launcher can never meet the demand: an unknown option, several nodes.
        """
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """Runs the command directly, as one process on this host."""

    kind: str = "local"
    name: str = "local"
    version: str | None = None
    processes: bool = False

    def wrap(self, argv: Sequence[str], tasks: int) -> tuple[str, ...]:
        """Return ``argv`` unchanged: the command starts its own tasks."""
        return tuple(argv)

    def allocate(
        self, demand: NodeDemand, *, run: Execute = execute, on_wait: Waiting | None = None
    ) -> Allocation:
        """Return this host."""
        return HostAllocation(self.kind, self.wrap, demand, run=run)


@dataclass(frozen=True, slots=True)
class OpenMpi:
    """Open MPI's mpirun on this host.

    Attributes
    ----------
    path
        Path of mpirun.
    cores
        Open MPI's slots: physical cores, not hardware threads (mpirun(1)).
    as_root
        Whether we are root: mpirun then refuses to run unless explicitly allowed.
    """

    path: str
    version: str | None
    cores: int
    as_root: bool
    kind: str = "mpi"
    name: str = "mpirun"
    processes: bool = True

    def wrap(self, argv: Sequence[str], tasks: int) -> tuple[str, ...]:
        """Return ``mpirun ... -n tasks argv``."""
        if tasks < 1:
            raise ValueError(f"{tasks} tasks")
        root = ("--allow-run-as-root",) if self.as_root else ()
        over = ("--oversubscribe",) if tasks > self.cores else ()
        # If bound to cores, tasks that wait for the disk would share one while others idle.
        return (self.path, *root, *over, "--bind-to", "none", "-n", str(tasks), *argv)

    def allocate(
        self, demand: NodeDemand, *, run: Execute = execute, on_wait: Waiting | None = None
    ) -> Allocation:
        """Return this host, on which mpirun starts the tasks."""
        return HostAllocation(self.kind, self.wrap, demand, run=run, version=self.version)


def find_open_mpi(*, path: str | None = None, run: Execute = execute) -> OpenMpi | NotAvailable:
    """Return Open MPI's mpirun, from PATH or the given path, or why it is unusable.

    MPICH and its relatives (Hydra) have other options and are refused by name rather than started
    wrongly.
    """
    program = path or shutil.which("mpirun")
    if program is None:
        return not_available("tool-not-found", "mpirun is not on PATH")
    try:
        result = run([program, "--version"], timeout_s=20.0, output_limit_bytes=2**20)
    except ToolError as error:
        return not_available(error.code, error.message)
    if result.problem is not None:
        return not_available("tool-failed", f"{program} --version: {result.problem}")
    text = result.stdout.decode("utf-8", "replace")
    match = re.search(r"\((?:Open MPI|OpenRTE|PRRTE)\) v?([0-9]\S*)", text)
    if match is None:
        return not_available(
            "tool-not-recognised", f"{program} is not Open MPI: it prints {_first_line(text)!r}"
        )
    return OpenMpi(program, match[1], physical_cores(), os.geteuid() == 0)


LAUNCHERS: Final[dict[str, Callable[..., Launcher | NotAvailable]]] = {
    "local": Local,
    "mpi": find_open_mpi,
    "slurm": find_slurm,
}
"""Kind in the site file to the function that finds it."""


def find_launcher(name: str) -> Launcher | NotAvailable:
    """Return the launcher of that kind, or why it is unusable here."""
    find = LAUNCHERS.get(name)
    if find is None:
        return not_available(
            "launcher-unknown", f"there is no launcher {name!r}; known: {', '.join(LAUNCHERS)}"
        )
    return find()


def physical_cores(root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return the number of physical cores this process may use, at least 1.

    Hardware threads of one core share ``topology/core_cpus_list`` (kernel
    admin-guide, cputopology). Without that file each CPU counts.
    """
    cores: set[str] = set()
    for cpu in os.sched_getaffinity(0):
        topology = root / f"cpu{cpu}" / "topology"
        # The second name is for kernels before 5.3.
        for name in ("core_cpus_list", "thread_siblings_list"):
            try:
                cores.add((topology / name).read_text().strip())
                break
            except OSError:
                continue
        else:
            cores.add(f"cpu{cpu}")
    return max(1, len(cores))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:120]
