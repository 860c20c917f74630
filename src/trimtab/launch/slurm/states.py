"""What the state of a job means for a probe: every word of Slurm is in one of the sets.

Slurm shows one word: the job's base state, or in its place a flag that is set at the moment
(``doc/html/job_state_codes``). A word that stands here nowhere is told, not guessed.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final


class Stage(Enum):
    """How far a job is."""

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
"""Not begun, or sent back to the queue. ``CONFIGURING``: it has nodes, which are still booting."""

HELD: Final = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
"""Of those that wait: nothing happens before a person releases them."""

RUNNING: Final = frozenset({"RUNNING", "SIGNALING", "RESIZING", "UPDATE_DB"})

PAUSED: Final = frozenset({"SUSPENDED", "STOPPED"})
"""Begun and not going on. What was measured meanwhile includes the pause."""

ENDING: Final = frozenset({"COMPLETING", "STAGE_OUT"})
"""Over, while its nodes are cleaned; how it ended is behind this word until they are."""

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
    "BOOT_FAIL": "a node of it did not boot",
    "CANCELLED": "somebody cancelled it",
    "COMPLETED": "its script came to its end",
    "DEADLINE": "its deadline came",
    "FAILED": "its script failed",
    "LAUNCH_FAILED": "it could not be launched on a node",
    "NODE_FAIL": "a node of it failed",
    "OUT_OF_MEMORY": "it used more memory than it was given",
    "PREEMPTED": "a job of higher priority took its nodes",
    "RECONFIG_FAIL": "a node of it could not be set up",
    "REVOKED": "another cluster took it",
    "STOPPED": "it was stopped while a command ran",
    "SUSPENDED": "it was suspended while a command ran",
    "TIMEOUT": "its time limit came",
}
"""In words, for messages."""

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
    """Return what a state means; ``UNKNOWN`` for a word that no version known here has.

    Examples
    --------
    >>> stage_of("PENDING"), stage_of("BEWITCHED")
    (<Stage.WAITING: 'waiting'>, <Stage.UNKNOWN: 'unknown'>)
    """
    return _STAGES.get(state, Stage.UNKNOWN)


def never_starts(state: str, reason: str) -> bool:
    """Return whether a job that waits goes on waiting until somebody changes it or the site.

    Reasons are of squeue(1), JOB REASON CODES, and resource_limits of Slurm's documentation: a
    limit of one job is never met by waiting, a limit of a group is. ``PartitionNodeLimit`` is not
    among them: it is also said while nodes are down.

    Examples
    --------
    >>> never_starts("PENDING", "QOSMaxWallDurationPerJobLimit")
    True
    >>> never_starts("PENDING", "Priority")
    False
    """
    return state in HELD or reason in _NEVER or _PER_JOB_LIMIT.fullmatch(reason) is not None


def state_behind(state: str, reason: str) -> str:
    """Return how a job ends that is still ``COMPLETING``, where the reason tells it.

    Examples
    --------
    >>> state_behind("COMPLETING", "TimeLimit")
    'TIMEOUT'
    >>> state_behind("COMPLETING", "None")
    'COMPLETING'
    """
    return _STATE_OF_REASON.get(reason, state) if state in ENDING else state
