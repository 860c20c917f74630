"""Every alert of the watch by its name, which is also its section of the runbook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from trimtab.model.finding import Severity

INCIDENT: Final = "incident"
INTEGRITY: Final = "integrity"
ACTION_FAILED: Final = "action-failed"
PURGE_FAILED: Final = "purge-failed"
"""A scheduled purge that was not begun, did not end, or freed less than its plan said."""
APPROVAL_FORGED: Final = "approval-forged"
WATCH_GONE: Final = "watch-gone"
"""Sent by `trimtab watch --check`, as a watch that is gone cannot."""
TEST: Final = "test"


@dataclass(frozen=True, slots=True)
class StateAlert:
    """A state of targets or machines that people are told of.

    Attributes
    ----------
    name
        Of the alert.
    trouble
        Id of the `trimtab.model.target.Trouble`.
    words
        What several places are then: "3 targets lost".
    at_once
        From the first snapshot that shows it, whatever its source; else from the second in a row,
        or from the first in which two sources show it.
    """

    name: str
    trouble: str
    severity: Severity
    words: str
    at_once: bool = False


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
STATES: Final = (
    StateAlert("target-read-only", "read-only", _CRITICAL, "read-only", at_once=True),
    StateAlert("target-may-be-read-only", "may-be-read-only", _CRITICAL, "may be read-only"),
    StateAlert(
        "target-file-system-errors",
        "file-system-errors",
        _CRITICAL,
        "with file system errors",
        at_once=True,
    ),
    StateAlert("target-two-servers", "two-servers", _CRITICAL, "claimed by two servers"),
    StateAlert("target-lost", "lost", _CRITICAL, "lost"),
    StateAlert("target-disconnected", "disconnected", _CRITICAL, "not connected"),
    StateAlert("server-no-answer", "no-answer", _CRITICAL, "not answering"),
    StateAlert("target-degraded", "degraded", _WARNING, "degraded"),
    StateAlert("target-failed-over", "failed-over", _WARNING, "failed over"),
    StateAlert("target-over-limit", "over-limit", _WARNING, "over the fullness limit"),
    StateAlert("target-inodes", "inodes", _WARNING, "almost out of inodes"),
    StateAlert("target-media-errors", "media-errors", _WARNING, "with media errors"),
)
"""States that are alerts. Others are left to `trimtab targets`: a target that was closed on
purpose, or a setting that was wrong for months, wakes nobody up."""

REACH: Final = frozenset({"lost", "disconnected", "no-answer", "two-servers"})
"""Troubles that a snapshot shows to be over even where it is not complete."""
AGAIN: Final[Mapping[Severity, timedelta]] = {
    Severity.CRITICAL: timedelta(hours=1),
    Severity.WARNING: timedelta(days=1),
    Severity.INFO: timedelta(days=1),
}
"""The shortest time between two alerts that one subject became worse: what comes meanwhile is
collected in the next."""

NAMES: Final = (
    INCIDENT,
    INTEGRITY,
    ACTION_FAILED,
    PURGE_FAILED,
    APPROVAL_FORGED,
    WATCH_GONE,
    *(state.name for state in STATES),
)
"""Every alert that is sent; each has its section in docs/runbook.md."""
