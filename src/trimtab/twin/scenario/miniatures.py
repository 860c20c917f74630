"""Errors of write amplification through the size of a miniature OST.

``benchmarks/miniature_size.py`` measures them: each size against the largest that can be simulated,
at 60 to 85 % full, trimmed every night or never, with resets of the allocator's pointer, and with a
probe; see docs/twin.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from trimtab.twin.scenario.model import Resolution
from trimtab.units import format_percent


class Off(NamedTuple):
    """Relative errors of write amplification.

    Attributes
    ----------
    least, most
        With nightly trims, or without trims and resets.
    probed
        Worst case if a probe writes as much as users, in hourly runs, with nightly trims.
    """

    least: float
    most: float
    probed: float


OFF: Final[Mapping[tuple[int, int], Off]] = {
    (16, 64): Off(-0.223, 0.023, 0.039),
    (16, 256): Off(-0.109, 0.087, 0.253),
    (64, 256): Off(-0.102, 0.055, 0.133),
    (64, 2048): Off(-0.047, 0.046, 0.309),
    (256, 512): Off(-0.06, 0.046, 0.053),
    (256, 2048): Off(-0.023, 0.026, 0.255),
    (512, 512): Off(-0.06, 0.029, -0.017),
    (512, 1024): Off(-0.032, 0.019, 0.053),
    (1024, 1024): Off(-0.027, 0.011, 0.013),
}
"""Measured errors, by groups and units per superblock."""


def sentence(resolution: Resolution) -> str:
    """Describe the size of a miniature and its error."""
    size = f"{resolution.groups} groups, superblocks of {resolution.superblock_units:,} units"
    known = OFF.get((resolution.groups, resolution.superblock_units))
    if known is None:
        return f"{size}; the error of write amplification for this size was not measured"
    least, most, probed = (
        f"{'+' * (part > 0)}{format_percent(part)}"
        for part in (known.least, known.most, known.probed)
    )
    return f"{size}; write amplification {least} to {most} off, {probed} with a large probe"
