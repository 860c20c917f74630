"""Parses squeue's and sacct's line about one job, and classifies its state for a probe.

Every state of Slurm is in one of the sets. Slurm shows one word: the job's base state, or a
currently set flag in its place (``doc/html/job_state_codes``). An unknown word is reported as such,
not guessed.

Both commands print named fields separated by ``|``, and times as seconds since the epoch
(``SLURM_TIME_FORMAT=%s``), so neither locale nor time zone matters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from trimtab.base.error import ToolError
from trimtab.base.units import is_digits
from trimtab.base.visible import visible


class JobStage(Enum):
    """The stage of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    ENDING = "ending"
    ENDED = "ended"
    UNKNOWN = "unknown"


WAITING: Final = frozenset(
    {"PENDING", "CONFIGURING", "POWER_UP_NODE", "EXPEDITING", "REQUEUED", "REQUEUE_FED"}
    | {"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
"""Not started, or requeued. ``CONFIGURING``: it has nodes, which are still booting."""

HELD: Final = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
"""Waiting states that only a person can end."""

RUNNING: Final = frozenset({"RUNNING", "SIGNALING", "RESIZING", "UPDATE_DB"})

PAUSED: Final = frozenset({"SUSPENDED", "STOPPED"})
"""Started but paused. A measurement meanwhile includes the pause."""

ENDING: Final = frozenset({"COMPLETING", "STAGE_OUT"})
"""Ended, with nodes being cleaned; until then this word hides how it ended."""

ENDED: Final = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL"}
    | {"OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"}
)

_STAGES: Final = {
    state: stage
    for stage, states in (
        (JobStage.WAITING, WAITING),
        (JobStage.RUNNING, RUNNING),
        (JobStage.PAUSED, PAUSED),
        (JobStage.ENDING, ENDING),
        (JobStage.ENDED, ENDED),
    )
    for state in states
}

MEANING: Final = {
    "BOOT_FAIL": "one of its nodes did not boot",
    "CANCELLED": "it was cancelled",
    "COMPLETED": "its script ended",
    "DEADLINE": "it reached its deadline",
    "FAILED": "its script failed",
    "LAUNCH_FAILED": "it could not be launched on a node",
    "NODE_FAIL": "one of its nodes failed",
    "OUT_OF_MEMORY": "it exceeded its memory limit",
    "PREEMPTED": "a job of higher priority took its nodes",
    "RECONFIG_FAIL": "one of its nodes could not be set up",
    "REVOKED": "another cluster took it",
    "STOPPED": "it was stopped while a command ran",
    "SUSPENDED": "it was suspended while a command ran",
    "TIMEOUT": "it reached its time limit",
}
"""Descriptions for messages."""

_NEVER: Final = frozenset(
    {"AccountNotAllowed", "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount"}
    | {"InvalidQOS", "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue", "PartitionTimeLimit"}
    | {"QOSNotAllowed", "ReservationDeleted", "ReservationInvalid"}
)

_PER_JOB_LIMIT: Final = re.compile(r"(?:Assoc|QOS)Max[A-Za-z]+PerJob(?:Limit)?")

_STATE_OF_REASON: Final = {
    "TimeLimit": "TIMEOUT",
    "NodeDown": "NODE_FAIL",
    "OutOfMemory": "OUT_OF_MEMORY",
    "DeadLine": "DEADLINE",
}


def stage_of(state: str) -> JobStage:
    """Return the stage of a state; ``UNKNOWN`` for an unknown word.

    Examples
    --------
    >>> stage_of("PENDING"), stage_of("BEWITCHED")
    (<JobStage.WAITING: 'waiting'>, <JobStage.UNKNOWN: 'unknown'>)
    """
    return _STAGES.get(state, JobStage.UNKNOWN)


def never_starts(state: str, reason: str) -> bool:
    """Return whether a pending job will wait until someone changes it or the site.

    Reasons are from squeue(1), JOB REASON CODES, and resource_limits of Slurm's documentation:
    waiting never resolves a per-job limit, but does resolve a group limit. ``PartitionNodeLimit``
    is not included: it also occurs while nodes are down.

    Examples
    --------
    >>> never_starts("PENDING", "QOSMaxWallDurationPerJobLimit")
    True
    >>> never_starts("PENDING", "Priority")
    False
    """
    return state in HELD or reason in _NEVER or _PER_JOB_LIMIT.fullmatch(reason) is not None


def state_behind(state: str, reason: str) -> str:
    """Return the final state of a ``COMPLETING`` job, if the reason shows it.

    Examples
    --------
    >>> state_behind("COMPLETING", "TimeLimit")
    'TIMEOUT'
    >>> state_behind("COMPLETING", "None")
    'COMPLETING'
    """
    return _STATE_OF_REASON.get(reason, state) if state in ENDING else state


SQUEUE_FORMAT: Final = "%i|%T|%r|%V|%S|%e|%D|%N"
"""Id, state, reason, submitted, started, ends or ended, number of nodes, nodes (squeue(1))."""

SACCT_FORMAT: Final = "JobIDRaw,State,Submit,Start,End,NNodes,NodeList"

_TIME: Final = re.compile(r"[0-9]{6,12}")


@dataclass(frozen=True, slots=True)
class JobView:
    """One job at one moment.

    Attributes
    ----------
    state
        Slurm's state: ``RUNNING``.
    reason
        Slurm's reason for waiting or ending; ``None`` from sacct, which has none.
    started_at, ended_at
        By the controller's clock, in whole seconds; ``None`` before, and if it never had nodes.
    node_list
        Folded, as Slurm prints it; empty without nodes.
    """

    job_id: str
    state: str
    reason: str | None
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    node_list: str
    node_count: int | None

    @property
    def stage(self) -> JobStage:
        """The stage of the job."""
        return stage_of(self.state)

    @property
    def final_state(self) -> str:
        """Its final state, if already known while its nodes are being cleaned."""
        return state_behind(self.state, self.reason or "")


def of_squeue(text: str, job_id: str) -> JobView | None:
    """Parse squeue's output in `SQUEUE_FORMAT`; ``None`` if the job is missing.

    Examples
    --------
    >>> of_squeue("7|RUNNING|None|1795220235|1795220236|1795223836|2|n[1-2]", "7").node_list
    'n[1-2]'
    """
    fields = _fields_of(text, job_id, 8)
    if fields is None:
        return None
    state, reason, *rest = fields
    return _view(job_id, state, reason, rest)


def of_sacct(text: str, job_id: str) -> JobView | None:
    """Parse ``sacct --parsable2`` in `SACCT_FORMAT`; ``None`` if the job is missing.

    Examples
    --------
    >>> of_sacct("7|CANCELLED by 0|1795220235|Unknown|1795220236|2|None assigned", "7").state
    'CANCELLED'
    """
    fields = _fields_of(text, job_id, 7)
    if fields is None:
        return None
    state, *rest = fields
    return _view(job_id, state.partition(" ")[0], None, rest)  # "CANCELLED by 1000"


def _fields_of(text: str, job_id: str, count: int) -> list[str] | None:
    """Return the fields after the id in the job's line, if the number of fields fits."""
    lines = ([field.strip() for field in line.split("|")] for line in text.splitlines())
    return next((line[1:] for line in lines if len(line) == count and line[0] == job_id), None)


def unfold(node_list: str, count: int | None) -> tuple[str, ...]:
    """Expand a folded list of nodes, in order.

    Raises
    ------
    ToolError
        It cannot be expanded, or the number of names differs from Slurm's.

    Examples
    --------
    >>> unfold("n[1-2,5]", 3)
    ('n1', 'n2', 'n5')
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        # Without groups: "@all" is not a node, whatever this host's ClusterShell knows.
        names = tuple(str(name) for name in NodeSet(node_list, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise ToolError(
            f"Slurm's node list {visible(node_list[:120])!r}: {error}", code="node-list-invalid"
        ) from error
    if any(name.startswith("@") for name in names):
        raise ToolError(
            f"Slurm's node list {visible(node_list[:120])!r} has a group",
            code="node-list-invalid",
        )
    if not names or (count is not None and len(names) != count):
        raise ToolError(
            f"Slurm's node list {visible(node_list[:120])!r} has {len(names)} nodes, not {count}",
            code="node-list-invalid",
        )
    return names


def _view(job_id: str, state: str, reason: str | None, rest: list[str]) -> JobView:
    *times, count, node_list = rest
    had_nodes = node_list not in {"", "(null)", "None assigned"}
    stage = stage_of(state)
    submitted, started, ended = map(_time, times)
    # For a pending job the start is the scheduler's estimate, and for one cancelled in the queue
    # the time of cancelling: only a job with nodes has started.
    began = had_nodes and stage not in {JobStage.WAITING, JobStage.UNKNOWN}
    return JobView(
        job_id=job_id,
        state=state,
        reason=reason,
        submitted_at=submitted,
        started_at=started if began else None,
        ended_at=ended if began and stage is JobStage.ENDED else None,
        node_list=node_list if had_nodes else "",
        node_count=int(count) if is_digits(count) else None,
    )


def _time(text: str) -> datetime | None:
    """Parse a time; ``None`` for ``N/A``, ``Unknown`` and ``None``."""
    return datetime.fromtimestamp(int(text), UTC) if _TIME.fullmatch(text) else None
