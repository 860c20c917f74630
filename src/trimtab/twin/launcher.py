"""Launchers of the twin, with simulated nodes and without a queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Self

from trimtab.errors import NeverStarted, UsageError
from trimtab.launch.allocation import Allocation, Demand, Waiting, job_facts, seconds_between
from trimtab.launch.process import Execute, ProcessResult, execute
from trimtab.model.telemetry import NotAvailable
from trimtab.twin.instruments.failures import no_name_service
from trimtab.twin.instruments.probes import node_names
from trimtab.twin.programs import Programs

KINDS: Final = ("local", "mpi", "slurm")
VERSION: Final = "simulated"


class TwinLauncher:
    """Starts programs on simulated nodes, under the name of a site's launcher."""

    def __init__(self, kind: str, programs: Programs) -> None:
        self.kind = kind
        self.name = f"twin {kind}"
        self.version = VERSION
        self.processes = kind != "local"
        self._programs = programs

    def wrap(self, argv: Sequence[str], tasks: int) -> tuple[str, ...]:
        """Return ``argv`` unchanged: the twin gets the number of tasks separately."""
        return tuple(argv)

    def allocate(
        self, demand: Demand, *, run: Execute = execute, on_wait: Waiting | None = None
    ) -> Allocation:
        """Return nodes, which are always free.

        Raises
        ------
        UsageError
            More nodes than there are.
        RefusedError
            Another process runs the twin, so nothing can be measured now.
        """
        self._programs.life.claim()
        nodes_available = self._programs.life.scenario.clients.nodes
        if demand.nodes > nodes_available:
            raise UsageError(
                f"{demand.nodes} nodes are requested, but the twin has {nodes_available}",
                code="too-many-nodes",
            )
        return TwinAllocation(self, demand, self._programs)


class TwinAllocation:
    """Simulated nodes for one probe; see `trimtab.launch.allocation.Allocation`."""

    def __init__(self, launcher: TwinLauncher, demand: Demand, programs: Programs) -> None:
        self._launcher = launcher
        self._demand = demand
        self._programs = programs
        self._began: datetime | None = None
        self._ended: datetime | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names, in order."""
        return node_names(self._demand.nodes)

    @property
    def facts(self) -> dict[str, object]:
        """See `Allocation`; there is no job and no queue."""
        held_s = seconds_between(self._began, self._ended)
        return job_facts(
            self._launcher.kind,
            self._demand.name,
            self.nodes,
            version=self._launcher.version,
            reason="the nodes are simulated",
            node_list=",".join(self.nodes),
            started_at=self._began,
            ended_at=self._ended,
            held_s=held_s,
        )

    def execute(
        self, argv: Sequence[str], *, tasks: int, timeout_s: float, **_options: Any
    ) -> ProcessResult:
        """Run a program as that many tasks."""
        return self._programs.execute(
            argv, timeout_s=timeout_s, tasks=tasks, nodes=self._demand.nodes
        )

    def __enter__(self) -> Self:
        """Note the time.

        Raises
        ------
        NeverStarted
            Several processes are needed, but the nodes' names do not resolve.
        """
        life = self._programs.life
        if self._launcher.processes and not life.simulation.state.names_resolve:
            reason = no_name_service(self.nodes[0]).reason
            raise NeverStarted(f"the nodes cannot be reached: {reason}", code="nodes-unreachable")
        self._began = life.now
        return self

    def __exit__(self, *_error: object) -> None:
        """Note the time, also in the diary, so that the measurement is in the past."""
        self._ended = self._programs.life.now
        self._programs.life.keep_time()


def find_twin_launcher(kind: str, programs: Programs) -> TwinLauncher | NotAvailable:
    """Return the launcher of a kind, or why there is none."""
    if kind not in KINDS:
        return NotAvailable(f"there is no launcher {kind!r}; the twin simulates {', '.join(KINDS)}")
    return TwinLauncher(kind, programs)
