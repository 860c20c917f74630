"""Values that are never written for a policy, whoever asks for them, and why."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from trimtab.act.values import leaf_of
from trimtab.message import Message

_GATES: Final = frozenset(
    {
        "active", "degraded", "max_create_count", "no_create", "no_precreate", "readonly",
        "reserved_mb_low", "reserved_mb_high",
    }
)  # fmt: skip
"""Closing targets has caps: `trimtab.act.balance`."""
_COUNTERS: Final = frozenset(
    {
        "brw_stats", "discard_stats", "job_stats", "mb_alloc_stats", "qos_ost_weights", "stats",
    }
)  # fmt: skip
"""A write clears what they counted."""
_POINTERS: Final = frozenset({"mb_last_group", "mb_last_groups", "mb_last_start"})
_OFF: Final = frozenset({"0", "off", "none", "no", "n", "false", "disable", "disabled"})


def harm_of(setting: str, value: str) -> Message | None:
    """Return why a value is not written to a setting; ``None``: it may be.

    Examples
    --------
    >>> harm_of("drives/queue/discard_max_bytes", "0").code
    'value-harmful'
    """
    leaf = leaf_of(setting)
    if leaf == "discard_max_bytes" and not _is_positive(value):
        # Seen on Linux 6.12: every other value is refused until the device is probed anew.
        text = f"{leaf} = {value} switches discards off, and cannot be taken back"
        return Message("value-harmful", text)
    if leaf.startswith("checksum") and value.strip().lower() in _OFF:
        text = f"{leaf} = {value} switches checksums off: wrong data would go unnoticed"
        return Message("value-harmful", text)
    if leaf == "prealloc_table" and not _is_increasing(value):
        # Seen on Lustre 2.17: the write succeeds and empties the table.
        return Message("value-harmful", f"{leaf} takes only rising numbers over 0, not {value}")
    if leaf in _GATES:
        return Message("setting-forbidden", f"{leaf} closes targets: that is [policy.balance]'s")
    if leaf in _POINTERS:
        return Message("setting-forbidden", f"{leaf} moves by itself: [policy.allocator] resets it")
    if leaf in _COUNTERS or leaf.startswith("trigger_"):
        return Message("setting-forbidden", f"{leaf} is not a setting: a write clears or breaks it")
    return None


def _is_positive(text: str) -> bool:
    word = text.strip()
    return word.isascii() and word.isdigit() and int(word) > 0


def _is_increasing(text: str) -> bool:
    words = text.split()
    if not words or not all(map(_is_positive, words)):
        return False
    numbers = [int(word) for word in words]
    return all(low < high for low, high in pairwise(numbers))
