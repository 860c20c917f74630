"""A drive: its sheet, the port that it is reached through, and write amplification."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Rate = TypeVar("Rate", float, NDArray[np.float64])

SMALL_BYTES = 4096


def write_under_collection(bytes_per_s: float, amplification: Rate) -> Rate:
    """Return what a host can write while the drive moves the rest of what its flash programs.

    Parameters
    ----------
    bytes_per_s
        Of a fresh drive.
    amplification
        Bytes programmed for each written, 1 or more.
    """
    return bytes_per_s / amplification


def small_reads_per_s(iops: float, bytes_per_s: float) -> float:
    """Return random 4 KiB reads of one drive: its sheet's, or what the port carries.

    >>> round(12 * small_reads_per_s(1_450_000, 3.5e9) / 1e6, 1)
    10.3
    """
    return min(iops, bytes_per_s / SMALL_BYTES)


def small_writes_per_s(iops: float, bytes_per_s: float) -> float:
    """Return random 4 KiB writes of one drive."""
    return min(iops, bytes_per_s / SMALL_BYTES)
