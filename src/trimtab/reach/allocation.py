"""Allocations: this host, or the nodes of one batch job, for the commands of a probe.

::

    with launcher.allocate(demand) as allocation:       # waits in the queue, if there is one
        allocation.execute(argv, tasks=16, timeout_s=60)     # as often as needed
    allocation.facts                                    # what it cost, for the record

Leaving always releases the nodes. A probe's code is the same for every launcher.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, Self

from trimtab.base.error import UsageError, visible
from trimtab.base.event import utc_now
from trimtab.reach.process import OUTPUT_LIMIT_BYTES, Execute, ProcessResult

Waiting = Callable[[str, float], None]
"""Called with the reason for waiting (``PENDING: Priority``) and the seconds waited."""

PENDING_LIMIT_S: Final = 3600.0
"""A probe that starts an hour late would be recorded for a time it did not measure."""


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """The resources that a probe needs.

    Attributes
    ----------
    name
        Name of the batch job; the same when a probe's run is retried, so that a job left in the
        queue by an earlier try can be found. Letters, digits, ``.``, ``_`` and ``-``.
    time_limit_s
        Time limit of the job, for all commands together.
    pending_limit_s
        The longest wait in the queue; after it the probe is recorded as missing.
    options
        Options of the site file's ``[launcher.NAME]``; see the launcher for the supported ones.
    """

    name: str
    nodes: int = 1
    tasks_per_node: int = 1
    time_limit_s: float = 1800.0
    pending_limit_s: float = PENDING_LIMIT_S
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse impossible numbers.

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
        """Number of tasks that fill it."""
        return self.nodes * self.tasks_per_node


class Allocation(AbstractContextManager["Allocation"], Protocol):
    """Nodes for the duration of one probe; a context manager.

    Entering obtains them, waiting in the queue if there is one, and raises `NeverStarted` if it
    cannot; leaving releases them, also after an error or an interruption.

    Attributes
    ----------
    nodes
        Node names, in the order of the batch system.
    facts
        Plain JSON, complete after leaving. ``launcher``, ``version``, ``job_id``, ``name``,
        ``state``, ``node_list`` (folded), ``nodes``, ``submitted_at``, ``started_at``,
        ``ended_at`` (RFC 3339), ``queued_s``, ``node_hours``, ``reason`` (why a value is null).
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
        """Run ``argv`` as that many tasks, spread evenly over the nodes.

        Raises
        ------
        JobLost
            The job was lost. Reaching the job's time limit is not an error: the result has
            ``timed_out``.
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
        How long the nodes were held; ``None`` if not yet known.
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
    """Return the seconds between two times, ``None`` if one is missing."""
    return None if begin is None or end is None else (end - begin).total_seconds()


class HostAllocation:
    """The local host, which is always available: for the launchers ``local`` and ``mpi``."""

    def __init__(
        self,
        kind: str,
        wrap: Callable[[Sequence[str], int], tuple[str, ...]],
        demand: NodeDemand,
        *,
        run: Execute,
        version: str | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Refuse demands that this host cannot meet.

        Raises
        ------
        UsageError
            More than one node, or an option.
        """
        if demand.nodes != 1:
            raise UsageError(
                f"launcher {kind} runs only on this host, but {demand.nodes} nodes are requested",
                code="launcher-one-host",
                hint="use a launcher of kind slurm, or set nodes = 1",
            )
        if demand.options:
            name = next(iter(demand.options))
            raise UsageError(
                f"launcher {kind} has no option {visible(name[:80])!r}",
                code="launcher-option-unknown",
                hint="it has no options",
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
        """Run ``argv``; see `Allocation`."""
        return self._run(self._wrap(argv, tasks), timeout_s=timeout_s, **options)

    def __enter__(self) -> Self:
        """Note the time."""
        self._started_at, self._began_s = self._clock(), time.monotonic()
        return self

    def __exit__(self, *_error: object) -> None:
        """Note the time; no process of the commands is left."""
        self._ended_at, self._elapsed_s = self._clock(), time.monotonic() - self._began_s
