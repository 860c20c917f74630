"""Drives as one array: parity, small writes, and the cost of a rebuild.

A full stripe costs ``(data + parity) / data`` bytes for each byte written. A write smaller than a
stripe reads the old data and both parities and writes all three: 3 operations of each kind (two
parities). Reads of whole data do not touch parity, and since parity, data and spares are spread
over all drives, all of them serve reads.
"""

from __future__ import annotations

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.scenario.model import Raid
from trimtab.twin.stack.hardware import Hardware, small_operations_per_s


def small_write_operations(raid: Raid) -> int:
    """Return the drive writes (and as many reads) of a write smaller than a stripe.

    >>> small_write_operations(Raid())
    3
    """
    return 1 + raid.parity


def shrunk(efficiency: float, host: float) -> float:
    """Return an efficiency with the overhead reduced by a faster host.

    >>> shrunk(0.5, 1.0), round(shrunk(0.5, 3.0), 3)
    (0.5, 0.75)
    """
    return 1 / (1 + (1 / efficiency - 1) / host)


def write_bytes_per_s(machine: Hardware, constants: Constants = FITTED) -> float:
    """Return the write throughput of an array of fresh drives."""
    efficiency = shrunk(constants.raid_write_efficiency, machine.platform.host(constants))
    return machine.drives * machine.drive_write_bytes_per_s * machine.raid.data_share * efficiency


def read_bytes_per_s(machine: Hardware, constants: Constants = FITTED) -> float:
    """Return an array's read throughput: its drives' sum, limited by server memory."""
    return min(
        machine.drives * machine.drive_read_bytes_per_s,
        machine.memory_bytes_per_s / constants.memory_passes,
    )


def small_writes_per_s(machine: Hardware, constants: Constants = FITTED) -> float:
    """Return random 4 KiB writes of one array.

    The drives could do far more (12 x 135,000 / 3): the measured limit is that one array processes
    them serially, so twice the arrays do twice as many.
    """
    drives = machine.drives * small_operations_per_s(
        machine.drive_write_iops, machine.drive_write_bytes_per_s
    )
    serial = machine.platform.host(constants) / constants.small_write_s
    return min(drives / small_write_operations(machine.raid), serial)


def degraded_read_factor(raid: Raid) -> float:
    """Return the factor on reads while a drive's data is missing.

    One drive of ``drives`` is gone, and each of its chunks is read from as many as the data chunks;
    a mirror has one, its copy.

    >>> round(degraded_read_factor(Raid()), 3)
    0.579
    """
    missing = 1 / raid.drives
    return (1 - missing) / (1 - missing + raid.data * missing)


def short_factor(raid: Raid) -> float:
    """Return the factor with one drive fewer, after the rebuild."""
    return 1 - 1 / raid.drives


def rebuilding_factors(raid: Raid) -> tuple[float, float]:
    """Return the factors on writes and reads during a rebuild.

    Rebuilt data counts only at the end: a rebuilding array is never faster than a degraded one.
    """
    left = 1 - raid.rebuild_share
    return short_factor(raid) * left, degraded_read_factor(raid) * left


def rebuild_s(machine: Hardware, part: float = 1.0) -> float:
    """Return the duration of a rebuild with the drives' share of time for it.

    Parameters
    ----------
    part
        Fraction of the drive that is rebuilt.

    Notes
    -----
    Each byte takes the time of ``data`` reads and a write. With spare space both are spread over
    all other drives; without it the new drive gets all writes.

    12 drives of 15.36 TB, 3.5 and 3.2 GB/s in 8+2+1, 30 % of their time: 3 h 22 min.
    """
    raid, others = machine.raid, machine.raid.drives - 1
    read_s = raid.data / machine.drive_read_bytes_per_s
    write_s = 1 / machine.drive_write_bytes_per_s
    if raid.spares > 0:
        per_byte_s = (read_s + write_s) / (others * raid.rebuild_share)
    else:
        per_byte_s = max(read_s / (others * raid.rebuild_share), write_s)
    return machine.drive_capacity_bytes * part * per_byte_s
