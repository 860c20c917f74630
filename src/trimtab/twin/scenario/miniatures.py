"""How far the size of a miniature OST puts write amplification off.

``benchmarks/miniature_size.py`` measures it: each size beside the largest that can be simulated, at
60 to 85 % full, trimmed every night or never, with and without resets of the allocator's pointer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from trimtab.twin.scenario.model import Resolution
from trimtab.units import format_percent


class Off(NamedTuple):
    """By which parts write amplification is off.

    Attributes
    ----------
    least, most
        With nightly trims, or without trims and resets.
    reset_untrimmed
        At the worst where the pointer is reset and nothing trimmed: freed data stay on the drives.
    """

    least: float
    most: float
    reset_untrimmed: float


OFF: Final[Mapping[tuple[int, int], Off]] = {
    (16, 64): Off(-0.237, 0.021, -0.315),
    (16, 256): Off(-0.125, 0.084, -0.173),
    (32, 128): Off(-0.173, 0.065, -0.227),
    (32, 512): Off(-0.101, 0.072, -0.157),
    (64, 256): Off(-0.118, 0.052, -0.148),
    (64, 512): Off(-0.084, 0.047, -0.112),
    (64, 1024): Off(-0.075, 0.031, -0.116),
    (64, 2048): Off(-0.054, 0.021, -0.094),
    (128, 1024): Off(-0.058, 0.03, -0.081),
    (256, 2048): Off(-0.03, 0.023, -0.054),
}
"""By groups and units of a superblock, as measured."""


def sentence(resolution: Resolution) -> str:
    """Return the size of a miniature in words, and how far it is off."""
    size = f"{resolution.groups} groups, superblocks of {resolution.superblock_units:,} units"
    known = OFF.get((resolution.groups, resolution.superblock_units))
    if known is None:
        return f"{size}; how far write amplification is off with this size was not measured"
    least, most = (f"{'+' * (part > 0)}{format_percent(part)}" for part in known[:2])
    return f"{size}; write amplification {least} to {most} off"
