"""Determine whether a run freed what its plan allowed. Pure, from the result."""

from __future__ import annotations

from typing import Final

from trimtab.message import Message
from trimtab.purge.run.messages import StopReason
from trimtab.purge.run.result import RunResult
from trimtab.purge.run.state import CAPPED, DELETED, NOT_BEGUN
from trimtab.units import format_bytes, format_percent

WAITS: Final = frozenset({"published", "armed", "caps"})
"""Guards whose objections end by themselves or by an approval; a nightly timer often meets them."""
EXCUSED: Final = frozenset(
    {
        "gone",
        "touched",
        "changed_owner",
        "changed_project",
        "changed_size",
        "changed_mtime",
        "changed_atime",
        "ctime_only",
        "changed_type",
        "moved",
        "replaced",
        "other_links",
        "open",
        "immutable",
        "exempt",
        "too_small",
        "too_young",
        "put_back",
    }
)
"""Outcomes caused by users and exemptions between plan and run.

The rest are errors, or unknown to this host.
"""
SHORT: Final = 0.9
"""A run that freed less than this fraction of the bytes without an excused outcome fell short.

A healthy run frees all of them; a run stops by itself at a tenth of rows with trouble
(`trimtab.purge.run.decide.Terms`).
"""

_FAILED: Final = frozenset(
    {
        StopReason.OBJECTION,
        StopReason.NOT_SETTLED,
        StopReason.NOT_FREED,
        StopReason.TROUBLES,
        StopReason.INTERRUPTED,
        StopReason.FAILED,
    }
)


def waits(result: RunResult) -> bool:
    """Whether a run was refused only because it is too early."""
    return result.reason is StopReason.REFUSED and all(
        objection.guard in WAITS for objection in result.objections
    )


def shortfall(result: RunResult) -> Message | None:
    """Return why a run deleted less than planned; ``None`` if it did what it could.

    Notes
    -----
    Only rows that the run reached count, because a reached target, a cap and the end time are
    normal ends. Bytes are those listed in the plan, because deleting one of several names frees
    nothing.
    """
    if result.reason is StopReason.REFUSED:
        if waits(result):
            return None
        reasons = "; ".join(objection.words for objection in result.objections)
        return Message("purge-refused", f"it was refused ({reasons})")
    if result.reason in _FAILED:
        return Message("purge-stopped", f"it was stopped: {result.text}")
    sizes = result.outcome_bytes
    due_bytes = sum(
        size for name, size in sizes.items() if name not in {*EXCUSED, CAPPED, NOT_BEGUN}
    )
    done_bytes = sizes.get(DELETED, 0)
    if done_bytes >= SHORT * due_bytes:
        return None
    worst = max(
        (size, name)
        for name, size in sizes.items()
        if name not in {*EXCUSED, CAPPED, NOT_BEGUN, DELETED}
    )
    return Message(
        "purge-short",
        f"it deleted {format_bytes(done_bytes)} of the {format_bytes(due_bytes)} "
        f"({format_percent(done_bytes / due_bytes)}) that users had not used or removed; of the "
        f"rest {format_bytes(worst[0])} are {worst[1].replace('_', ' ')}",
    )
