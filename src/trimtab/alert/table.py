"""Every alert of the watch by name; the name is also its section of the runbook."""

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
"""A scheduled purge did not begin, did not end, or freed less than planned."""
APPROVAL_FORGED: Final = "approval-forged"
WATCH_GONE: Final = "watch-gone"
"""Sent by `trimtab watch --check`, because a stopped watch cannot send it."""
TEST: Final = "test"


@dataclass(frozen=True, slots=True)
class StateAlert:
    """A state of targets or machines that raises an alert.

    Attributes
    ----------
    name
        Name of the alert.
    trouble
        Id of the `trimtab.model.target.Trouble`.
    words
        Description after a count: "3 targets lost".
    at_once
        Alert on the first snapshot that shows the state, from any source; otherwise on the second
        in a row, or on the first in which two sources show it.
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
"""States that raise alerts.

Others only show in `trimtab targets`: a target closed on purpose, or a setting wrong for months, is
no reason to wake someone.
"""

REACH: Final = frozenset({"lost", "disconnected", "no-answer", "two-servers"})
"""Troubles that even an incomplete snapshot can show to be over."""
AGAIN: Final[Mapping[Severity, timedelta]] = {
    Severity.CRITICAL: timedelta(hours=1),
    Severity.WARNING: timedelta(days=1),
    Severity.INFO: timedelta(days=1),
}
"""Minimum time between two alerts that a subject got worse; changes in between go into the next."""

NAMES: Final = (
    INCIDENT,
    INTEGRITY,
    ACTION_FAILED,
    PURGE_FAILED,
    APPROVAL_FORGED,
    WATCH_GONE,
    *(state.name for state in STATES),
)
"""Every alert that is sent; each has a section in docs/runbook.md."""
