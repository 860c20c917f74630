"""Whether a run did what its plan said, as far as it was let: pure, over what the run came to."""

from __future__ import annotations

from typing import Final

from trimtab.message import Message
from trimtab.purge.run.messages import StopReason
from trimtab.purge.run.result import RunResult
from trimtab.purge.run.state import CAPPED, DELETED, NOT_BEGUN
from trimtab.units import format_bytes, format_percent

WAITS: Final = frozenset({"published", "armed", "caps"})
"""Guards whose objection ends by itself or by a person's approval: a timer that asks every night
whether a plan may be carried out is told so most nights."""
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
"""What users and their exemptions do to candidates between plan and run. The rest is an error, or
something that this host cannot find out."""
SHORT: Final = 0.9
"""A run that freed less than this part of what nothing excuses fell short. A healthy one frees all
of it; it stops by itself from a tenth of troubles on (`trimtab.purge.run.decide.Terms`)."""

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
    """Whether a run was refused only because its time has not come."""
    return result.reason is StopReason.REFUSED and all(
        objection.guard in WAITS for objection in result.objections
    )


def shortfall(result: RunResult) -> Message | None:
    """Return why a run that deletes did less than its plan said; ``None``: it did what it could.

    Notes
    -----
    Planned are the rows that it came to: a target that is reached, a cap and the end of its time
    are how runs end. Bytes are those that the plan lists, since what a name frees of a file with
    several is nobody's fault.
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
        f"({format_percent(done_bytes / due_bytes)}) that nobody had used or removed; of the rest "
        f"{format_bytes(worst[0])} are {worst[1].replace('_', ' ')}",
    )
