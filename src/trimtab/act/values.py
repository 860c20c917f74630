"""Values of settings as the system prints them, compared with those that were asked for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_FOLDED: Final = re.compile(r"(\S.*?) \(([^()]*)\)(?:, |\Z)")
_CHOSEN: Final = re.compile(r"\[(\S+)\]")
_PERCENT: Final = re.compile(r"([0-9]{1,3})%?")
_PERCENTAGES: Final = re.compile(r"(mdt_)?qos_(threshold_rr|prio_free)|mb_c[123]_threshold")
_STORED: Final = 256
"""Lustre stores a percentage as so many parts: lustre/lod/lproc_lod.c."""


@lru_cache(maxsize=4096)
def unfolded(text: str) -> tuple[str, ...]:
    """Return the values of a setting that was folded over drives or MDTs, each once.

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

    Spaces at the ends do not count, nor does the sign of a percentage. Of a list of choices with
    one in brackets that one counts. Percentages are stored as n/256 and read back rounded, so a
    neighbour that writing the requested one may read back as is the same; but 0 and 100, which
    switch something off, are only themselves.

    Examples
    --------
    >>> is_same("lod/qos_threshold_rr", "18%", "17"), is_same("q/scheduler", "[none] bfq", "none")
    (True, True)
    >>> is_same("drives/queue/wbt_lat_usec", "0 (11), 2000 (nvme3n1)", "0")
    False
    """
    return not differing(setting, shown, requested)


def differing(setting: str, shown: str, requested: str) -> tuple[str, ...]:
    """Return those values that a setting shows that are not the one requested."""
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
    """Return what a percentage may read as once it was written, rounded either way both times."""
    if percent in {0, 100}:
        return frozenset({percent})
    stored = percent * _STORED // 100
    reads = {part * 100 // _STORED + up for part in (stored, stored + 1) for up in (0, 1)}
    return frozenset(reads - {0, 100}) | {percent}
