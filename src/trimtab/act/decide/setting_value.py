"""Values of settings: whether a printed value is the requested one, and which values do harm."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from trimtab.base.error import Message

_FOLDED: Final = re.compile(r"(\S.*?) \(([^()]*)\)(?:, |\Z)")
_CHOSEN: Final = re.compile(r"\[(\S+)\]")
_PERCENT: Final = re.compile(r"([0-9]{1,3})%?")
_PERCENTAGES: Final = re.compile(r"(mdt_)?qos_(threshold_rr|prio_free)|mb_c[123]_threshold")
_STORED: Final = 256
"""Lustre stores a percentage in parts of 256: lustre/lod/lproc_lod.c."""


@lru_cache(maxsize=4096)
def unfolded(text: str) -> tuple[str, ...]:
    """Return the distinct values of a setting that was folded over drives or MDTs.

    Examples
    --------
    >>> unfolded("0 (11), 2000 (nvme3n1)"), unfolded("4 8 16 ")
    (('0', '2000'), ('4 8 16',))
    """
    matches, end = [], 0
    for match in _FOLDED.finditer(text):
        if match.start() != end:
            break
        matches.append(match[1])
        end = match.end()
    values = matches if matches and end == len(text) else [text]
    return tuple(dict.fromkeys(" ".join(value.split()) for value in values))


def leaf_of(setting: str) -> str:
    """Return the last part of a setting's name."""
    return setting.rpartition("/")[2]


def is_same(setting: str, shown: str, requested: str) -> bool:
    """Return whether every value that a setting shows is the one requested.

    Surrounding spaces and percent signs are ignored. In a list of choices only the bracketed one
    counts. Percentages are stored as n/256 and read back rounded, so a neighbour that may be read
    back after writing the requested one is the same; but 0 and 100, which switch something off,
    must match exactly.

    Examples
    --------
    >>> is_same("lod/qos_threshold_rr", "18%", "17"), is_same("q/scheduler", "[none] bfq", "none")
    (True, True)
    >>> is_same("drives/queue/wbt_lat_usec", "0 (11), 2000 (nvme3n1)", "0")
    False
    """
    return not differing(setting, shown, requested)


def differing(setting: str, shown: str, requested: str) -> tuple[str, ...]:
    """Return the values of a setting that differ from the one requested."""
    return tuple(value for value in unfolded(shown) if not _agree(setting, value, requested))


@lru_cache(maxsize=4096)
def _agree(setting: str, value: str, requested: str) -> bool:
    words = " ".join(requested.split())
    chosen = _CHOSEN.search(value)
    if chosen is not None and len(value.split()) > 1:
        value = chosen[1]
    if value == words:
        return True
    left, right = _PERCENT.fullmatch(value), _PERCENT.fullmatch(words)
    if left is None or right is None:
        return False
    if _PERCENTAGES.fullmatch(leaf_of(setting)):
        return int(left[1]) in _read_back(int(right[1]))
    return int(left[1]) == int(right[1])


def _read_back(percent: int) -> frozenset[int]:
    """Return what a percentage may read back as, rounded either way when stored and when read."""
    if percent in {0, 100}:
        return frozenset({percent})
    stored = percent * _STORED // 100
    reads = {part * 100 // _STORED + up for part in (stored, stored + 1) for up in (0, 1)}
    return frozenset(reads - {0, 100}) | {percent}


_GATES: Final = frozenset(
    {
        "active", "degraded", "max_create_count", "no_create", "no_precreate", "readonly",
        "reserved_mb_low", "reserved_mb_high",
    }
)  # fmt: skip
"""These close targets, which `trimtab.act.decide.balance` does within caps."""
_COUNTERS: Final = frozenset(
    {
        "brw_stats", "discard_stats", "job_stats", "mb_alloc_stats", "qos_ost_weights", "stats",
    }
)  # fmt: skip
"""A write clears these counters."""
_POINTERS: Final = frozenset({"mb_last_group", "mb_last_groups", "mb_last_start"})
_OFF: Final = frozenset({"0", "off", "none", "no", "n", "false", "disable", "disabled"})


def harm_of(setting: str, value: str) -> Message | None:
    """Return why a value must not be written to a setting; ``None`` if it may.

    Examples
    --------
    >>> harm_of("drives/queue/discard_max_bytes", "0").code
    'value-harmful'
    """
    leaf = leaf_of(setting)
    if leaf == "discard_max_bytes" and not _is_positive(value):
        # Seen on Linux 6.12: every other value is refused until the device is probed again.
        text = f"{leaf} = {value} switches discards off irreversibly"
        return Message("value-harmful", text)
    if leaf.startswith("checksum") and value.strip().lower() in _OFF:
        text = f"{leaf} = {value} switches checksums off: wrong data would go unnoticed"
        return Message("value-harmful", text)
    if leaf == "prealloc_table" and not _is_increasing(value):
        # Seen on Lustre 2.17: the write succeeds and empties the table.
        return Message(
            "value-harmful", f"{leaf} takes only increasing numbers greater than 0, not {value}"
        )
    if leaf in _GATES:
        return Message("setting-forbidden", f"{leaf} closes targets: [policy.balance] does that")
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
