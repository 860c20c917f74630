"""A drive's random 4 KiB operations: its data sheet's, or what the link to it carries.

Sequential rates need no function: a host writes the sheet's rate over the write amplification.
"""

from __future__ import annotations

from typing import Final

SMALL_BYTES: Final = 4096


def small_reads_per_s(iops: float, bytes_per_s: float) -> float:
    """Return random 4 KiB reads of one drive.

    >>> round(12 * small_reads_per_s(1_450_000, 3.5e9) / 1e6, 1)
    10.3
    """
    return min(iops, bytes_per_s / SMALL_BYTES)


def small_writes_per_s(iops: float, bytes_per_s: float) -> float:
    """Return random 4 KiB writes of one drive."""
    return min(iops, bytes_per_s / SMALL_BYTES)
