"""Where the commands of one probe run: on this host, or on the nodes of one batch job.

::

    with launcher.allocate(demand) as allocation:       # waits in the queue, if there is one
        allocation.execute(argv, tasks=16, timeout_s=60)     # as often as the probe needs it
    allocation.facts                                    # what it cost, for the record

Leaving gives the nodes back, whatever happened. A probe's code is the same for every launcher.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, Self

from trimtab.errors import JobLost, NeverStarted, UsageError
from trimtab.launch.process import OUTPUT_LIMIT_BYTES, ProcessResult, utc_now
from trimtab.visible import visible

__all__ = [
    "PENDING_LIMIT_S",
    "Allocation",
    "Demand",
    "Execute",
    "HostAllocation",
    "JobLost",
    "NeverStarted",
    "Waiting",
]

Execute = Callable[..., ProcessResult]
"""`trimtab.launch.process.execute`, or what stands for it in a test or on the twin."""

Waiting = Callable[[str, float], None]
"""Told why a job waits (``PENDING: Priority``) and for how many seconds it has waited."""

PENDING_LIMIT_S: Final = 3600.0
"""A probe of last hour, started now, would stand for a time that it did not see."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a probe needs to run on.

    Attributes
    ----------
    name
        Of the batch job; the same for a probe's run when it is tried again, so that what an
        earlier try left in the queue is found by it. Letters, digits, ``.``, ``_`` and ``-``.
    time_limit_s
        For all commands together, from the job's start to its end.
    pending_limit_s
        The longest wait in the queue; then the probe is missing.
    options
        Of the site file's ``[launcher.NAME]``; see the launcher for those that it knows.
    """

    name: str
    nodes: int = 1
    tasks_per_node: int = 1
    time_limit_s: float = 1800.0
    pending_limit_s: float = PENDING_LIMIT_S
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse numbers that nobody can mean.

        Raises
        ------
        ValueError
            A number that is not positive.
        """
        for name in ("nodes", "tasks_per_node", "time_limit_s", "pending_limit_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}")

    @property
    def tasks(self) -> int:
        """How many tasks fill it."""
        return self.nodes * self.tasks_per_node


class Allocation(AbstractContextManager["Allocation"], Protocol):
    """Nodes for the time of one probe; a context manager.

    Entering gets them, waiting in the queue if there is one, and raises `NeverStarted` where it
    does not; leaving gives them back, also after an error or an interruption.

    Attributes
    ----------
    nodes
        Names, in the order of the batch system.
    facts
        Plain JSON, complete after leaving. ``launcher``, ``version``, ``job_id``, ``name``,
        ``state``, ``node_list`` (folded), ``nodes``, ``submitted_at``, ``started_at``,
        ``ended_at`` (RFC 3339), ``queued_s``, ``node_hours``, ``reason`` (why something is null).
    """

    @property
    def nodes(self) -> tuple[str, ...]:
        """See above."""
        ...

    @property
    def facts(self) -> dict[str, object]:
        """See above."""
        ...

    def execute(
        self,
        argv: Sequence[str],
        *,
        tasks: int,
        timeout_s: float,
        on_progress: Callable[[float], None] | None = None,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> ProcessResult:
        """Return how ``argv`` ran as that many tasks, spread evenly over the nodes.

        Raises
        ------
        JobLost
            The job was taken away. When its time was over while the command ran, there is no
            error: the result has ``timed_out``.
        ToolError
            The command could not be started.
        """
        ...


def job_facts(
    launcher: str,
    demand_name: str,
    nodes: Sequence[str],
    *,
    version: str | None,
    reason: str | None,
    node_list: str | None,
    job_id: str | None = None,
    state: str | None = None,
    submitted_at: datetime | None = None,
    started_at: datetime | None = None,
    ended_at: datetime | None = None,
    held_s: float | None = None,
) -> dict[str, object]:
    """Return the facts of an allocation, see `Allocation`; without a job most are ``None``.

    Parameters
    ----------
    held_s
        How long the nodes were held; ``None`` while that is not known.
    """
    return {
        "launcher": launcher,
        "version": version,
        "job_id": job_id,
        "name": demand_name,
        "state": state,
        "node_list": node_list,
        "nodes": list(nodes),
        "submitted_at": None if submitted_at is None else submitted_at.isoformat(),
        "started_at": None if started_at is None else started_at.isoformat(),
        "ended_at": None if ended_at is None else ended_at.isoformat(),
        "queued_s": seconds_between(submitted_at, started_at),
        "node_hours": None if held_s is None else held_s * len(nodes) / 3600.0,
        "reason": reason,
    }


def seconds_between(begin: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from one time to the other, ``None`` where one is missing."""
    return None if begin is None or end is None else (end - begin).total_seconds()


class HostAllocation:
    """The host itself, which is always there: for the launchers ``local`` and ``mpi``."""

    def __init__(
        self,
        kind: str,
        wrap: Callable[[Sequence[str], int], tuple[str, ...]],
        demand: Demand,
        *,
        run: Execute,
        version: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Refuse what this host cannot be.

        Raises
        ------
        UsageError
            More than one node, or an option.
        """
        if demand.nodes != 1:
            raise UsageError(
                f"launcher {kind} starts tasks on this host alone, and {demand.nodes} nodes are "
                "requested",
                code="launcher-one-host",
                hint="give the probe a launcher of kind slurm, or write nodes = 1",
            )
        if demand.options:
            name = next(iter(demand.options))
            raise UsageError(
                f"launcher {kind} has no option {visible(name[:80])!r}",
                code="launcher-option-unknown",
                hint="it has none at all",
            )
        self._kind = kind
        self._version = version
        self._wrap = wrap
        self._demand = demand
        self._run = run
        self._clock = clock
        self._started_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._began_s = 0.0
        self._elapsed_s: float | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The name of this host."""
        return (platform.node(),)

    @property
    def facts(self) -> dict[str, object]:
        """See `Allocation`; there is no job and no queue."""
        return job_facts(
            self._kind,
            self._demand.name,
            self.nodes,
            version=self._version,
            reason="this host needs no job",
            node_list=self.nodes[0],
            started_at=self._started_at,
            ended_at=self._ended_at,
            held_s=self._elapsed_s,
        )

    def execute(
        self, argv: Sequence[str], *, tasks: int, timeout_s: float, **options: Any
    ) -> ProcessResult:
        """Return how ``argv`` ran; see `Allocation`."""
        return self._run(self._wrap(argv, tasks), timeout_s=timeout_s, **options)

    def __enter__(self) -> Self:
        """Note the time."""
        self._started_at, self._began_s = self._clock(), time.monotonic()
        return self

    def __exit__(self, *_error: object) -> None:
        """Note the time: no process of the commands is left by then."""
        self._ended_at, self._elapsed_s = self._clock(), time.monotonic() - self._began_s
