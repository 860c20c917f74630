"""Classifies job states for a probe: every state of Slurm is in one of the sets.

Slurm shows one word: the job's base state, or a currently set flag in its place
(``doc/html/job_state_codes``). An unknown word is reported as such, not guessed.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final


class Stage(Enum):
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
        (Stage.WAITING, WAITING),
        (Stage.RUNNING, RUNNING),
        (Stage.PAUSED, PAUSED),
        (Stage.ENDING, ENDING),
        (Stage.ENDED, ENDED),
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


def stage_of(state: str) -> Stage:
    """Return the stage of a state; ``UNKNOWN`` for an unknown word.

    Examples
    --------
    >>> stage_of("PENDING"), stage_of("BEWITCHED")
    (<Stage.WAITING: 'waiting'>, <Stage.UNKNOWN: 'unknown'>)
    """
    return _STAGES.get(state, Stage.UNKNOWN)


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
