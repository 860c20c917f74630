"""Launchers, which start a command as several tasks and decide where it runs.

`LAUNCHERS` lists the kinds.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from trimtab.errors import ToolError
from trimtab.launch.allocation import Allocation, Demand, HostAllocation, Waiting
from trimtab.launch.process import Execute, execute
from trimtab.launch.slurm.launcher import find_slurm
from trimtab.model.telemetry import NotAvailable, not_available


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
        self, demand: Demand, *, run: Execute = execute, on_wait: Waiting | None = None
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
        self, demand: Demand, *, run: Execute = execute, on_wait: Waiting | None = None
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
        self, demand: Demand, *, run: Execute = execute, on_wait: Waiting | None = None
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
