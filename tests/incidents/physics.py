"""Laws of the simulated file system. Pure; arrays run over targets. Bytes, seconds, bytes/s.

"flash notes" are the project's notes on drives and allocator, "seeds" the numbered list of what
the published documents state. What is assumed and stands in neither says so.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

GIB: Final = 1024.0**3
MIB: Final = 1024.0**2

CAPACITY_BYTES: Final = 133e12
"""One OST (seeds 42: 665 TB is five of them)."""
DRIVES: Final = 12
DRIVE_WRITE_BYTES_PER_S: Final = 3.2e9
DRIVE_READ_BYTES_PER_S: Final = 3.5e9
"""PCIe Gen4 x2 a server (seeds 1)."""
DATA_SHARE: Final = 8 / 10
"""8+2 (seeds 10)."""
OST_WRITE_BYTES_PER_S: Final = 20e9
"""RAID and server path of one OST (flash notes f, reading 3; seeds 23: 19.9 GB/s at its best)."""
OST_READ_BYTES_PER_S: Final = 30e9
"""Assumed: between what one server gives its clients (41, seeds 26) and half of it."""
CORES: Final = 32
CORE_S_PER_BYTE_WRITTEN: Final = 0.7e-9
CORE_S_PER_BYTE_READ: Final = 0.45e-9
"""Assumed: two OSTs at their best take 28 of 32 cores, so four on one server get half."""
SERVER_WRITE_BYTES_PER_S: Final = 42e9
SERVER_READ_BYTES_PER_S: Final = 48e9
"""LNet selftest (seeds 29)."""
CLIENT_BYTES_PER_S: Final = 21.04e9
"""673,320 MB/s over 32 nodes (seeds 37)."""
CLIENT_NETWORK_BYTES_PER_S: Final = 25e9
CHECKSUM_S_PER_BYTE: Final = 1 / (554_012e6 / 32) - 1 / (673_320e6 / 32)
"""What checksums add to a client's time for a byte: 673,320 -> 554,012 MB/s (seeds 37)."""
SAFERET_SHARE: Final = 0.14
"""Mean IOR write -14 % (seeds 36)."""
GROUPS: Final = CAPACITY_BYTES / (128 * MIB)
"""0.99 million (flash notes c)."""
CREATES_PER_S: Final = 100_000.0
"""Of the whole file system (seeds 40)."""
SPARE: Final = 0.12
"""Physical spare factor of a 1-DWPD drive (flash notes e)."""

_FULL: Final = np.array([0.0, 0.50, 0.75, 0.85, 0.95])
_DOSE: Final = np.array([0.0, 0.017, 0.07, 0.14, 0.5, 2.1])
_WA: Final = np.array([
    [1.00, 1.00, 1.00, 1.00, 1.00, 1.00],
    [1.06, 1.07, 1.09, 1.11, 1.16, 1.17],
    [1.48, 1.51, 1.58, 1.66, 1.89, 1.90],
    [1.89, 1.94, 2.07, 2.22, 2.55, 2.61],
    [2.30, 2.37, 2.56, 2.78, 3.26, 3.35],
])  # fmt: skip
"""Combined toy (flash notes f). Dose 0 and the row of 95 % but its end are continued from what
stands beside them: the notes have 3.35 alone there."""


def _uniform_table() -> tuple[Array, Array]:
    """Return spare factor and write amplification of uniform random overwriting (b, formula 1)."""
    spare = np.linspace(0.02, 0.98, 200)
    valid = np.full_like(spare, 0.5)
    for _ in range(400):
        valid = np.exp(-(1 - valid) / (1 - spare))
    return spare, 1 / (1 - valid)


_SPARE, _UNIFORM = _uniform_table()


def write_amplification(fullness: Array, dose: Array, random_share: Array | float = 0.0) -> Array:
    """Return drive writes for a host write.

    Parameters
    ----------
    dose
        Bytes written since the last trim over capacity.
    random_share
        Of the writes, those that overwrite in small pieces all over the target. For them what was
        deleted and not trimmed counts as live: effective spare factor (flash notes b, 5).
    """
    row = np.clip(np.searchsorted(_FULL, fullness, side="right") - 1, 0, len(_FULL) - 2)
    part = np.clip((fullness - _FULL[row]) / (_FULL[row + 1] - _FULL[row]), 0, 1.2)
    column = np.clip(np.searchsorted(_DOSE, dose, side="right") - 1, 0, len(_DOSE) - 2)
    along = np.clip((dose - _DOSE[column]) / (_DOSE[column + 1] - _DOSE[column]), 0, 1)
    low = _WA[row, column] * (1 - along) + _WA[row, column + 1] * along
    high = _WA[row + 1, column] * (1 - along) + _WA[row + 1, column + 1] * along
    streamed = low * (1 - part) + high * part
    live = np.clip(fullness + dose, 0, 1)
    uniform = np.interp(1 - live * (1 - SPARE), _SPARE, _UNIFORM)
    return streamed * (1 - random_share) + np.maximum(uniform, streamed) * random_share


def collecting_share(amplification: Array) -> Array:
    """Return the share of time in which one drive collects garbage while it is written to.

    Assumed: none up to 1.5, 4 % at 1.9 (the state of an untrimmed drive at 75 %), so that
    switching writeback throttling off brings about 10 % there (seeds 17).
    """
    return np.clip(0.1 * (amplification - 1.5), 0.0, 0.6)


def throttled_share(collecting: Array, reads_mixed: Array | float) -> Array:
    """Return what writeback throttling leaves of the drives' bandwidth.

    The target is 2 ms for reads; a drive that collects garbage misses it, and its queue depth
    falls from 8 to 4 to 2. A drive reaches d / (d + 1) of its speed at depth d; a stripe waits
    for its slowest drive of twelve (flash notes f; block/blk-wbt.c). Without reads nothing happens.
    """
    any_drive = 1 - (1 - collecting) ** DRIVES
    shallow = (2 / 3) / (8 / 9)
    return 1 - any_drive * reads_mixed * (1 - shallow)


def useless_loops_per_request(
    fullness: Array, thresholds: tuple[int, int, int], *, old: bool, age: float
) -> Array:
    """Return useless cr1 loops a request (toy of flash notes c: 24 and 77 a thousand).

    They begin where c1 switches the loop off that still works (free < c1) and end where c2 has
    the search begin behind cr1 (free < c2).
    """
    free = 100 * (1 - fullness)
    first, second, _ = thresholds
    rate = np.interp(fullness, [0.75, 0.80, 0.85], [0.002, 0.0243, 0.0772]) * age
    return np.where((free < first) & (free >= second), rate, 0.0) if old else 0.0 * free


def partial_stripes(fullness: Array) -> Array:
    """Return the share of writes that find no whole stripe free.

    Assumed: from 93 % on, all of them at 99 %; a partial stripe reads before it writes.
    """
    return np.clip((fullness - 0.93) / 0.06, 0, 1)


def drive_side(
    amplification: Array, missing: Array, rebuild: Array, partial: Array
) -> tuple[Array, Array]:
    """Return what the drives of each target let through, for write and for read.

    Parameters
    ----------
    missing
        Drives that failed. Of what lay on them each chunk is read from eight others.
    rebuild
        Share of the drives' bandwidth that rebuilding takes.
    """
    left = (DRIVES - missing) / DRIVES * (1 - rebuild)
    write = DRIVES * DRIVE_WRITE_BYTES_PER_S * DATA_SHARE * left / amplification
    # Read, read, read, write, write, write instead of 1.25 writes: about eight times the work.
    write = write / (1 + 8 * partial)
    read = DRIVES * DRIVE_READ_BYTES_PER_S * left / (1 + missing / 11 * 7)
    return write, read


def share_of(ceiling: Array, used: Array, own_streams: float, other_streams: Array) -> Array:
    """Return what is left for a probe: the rest, or its share by streams where that is more."""
    return np.maximum(ceiling - used, ceiling * own_streams / (own_streams + other_streams))


def latency_p99_s(collecting: Array) -> float:
    """Return the 99th percentile of write latency of a job over all targets.

    1 ms; where a drive of the stripe collects garbage it is up by orders of magnitude (seeds 7).
    Assumed: 60 ms times the share of requests that meet one, beyond 1 %.
    """
    met = float(np.mean(1 - (1 - collecting) ** DRIVES))
    return 1e-3 + 60e-3 * max(met - 0.01, 0.0)
