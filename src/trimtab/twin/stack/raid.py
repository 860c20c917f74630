"""Drives as one array: parity, small writes, and what a rebuild costs.

A full stripe costs ``(data + parity) / data`` bytes for each byte written. A write smaller than a
stripe reads the old data and both parities and writes all three: 3 operations of each kind (two
parities). Reads of whole data do not touch parity, and since parity, data and spares are spread
over all drives, all of them serve reads.
"""

from __future__ import annotations

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.scenario.model import Raid
from trimtab.twin.stack.hardware import Hardware, small_operations_per_s

_REBUILD_SHARE = 0.3
"""Part of the drives' time that a rebuild may take: an assumption, no document prints it."""


def data_share(raid: Raid) -> float:
    """Return the part of the bytes on the drives that is data.

    >>> data_share(Raid())
    0.8
    """
    if raid.kind == "raid10":
        return 0.5
    return raid.data / (raid.data + raid.parity)


def small_write_operations(raid: Raid) -> int:
    """Return drive writes (and as many reads) for one write smaller than a stripe.

    >>> small_write_operations(Raid())
    3
    """
    return 2 if raid.kind == "raid10" else 1 + raid.parity


def shrunk(efficiency: float, host: float) -> float:
    """Return an efficiency whose overhead a faster host works off in less time.

    >>> shrunk(0.5, 1.0), round(shrunk(0.5, 3.0), 3)
    (0.5, 0.75)
    """
    return 1 / (1 + (1 / efficiency - 1) / host)


def write_bytes_per_s(machine: Hardware, constants: Constants = FITTED) -> float:
    """Return what an array of fresh drives takes."""
    efficiency = shrunk(constants.raid_write_efficiency, machine.platform.host(constants))
    return machine.drives * machine.drive_write_bytes_per_s * data_share(machine.raid) * efficiency


def read_bytes_per_s(machine: Hardware, constants: Constants = FITTED) -> float:
    """Return what an array gives: its drives' sum, or what crosses the server's memory."""
    return min(
        machine.drives * machine.drive_read_bytes_per_s,
        machine.memory_bytes_per_s / constants.memory_passes,
    )


def small_writes_per_s(machine: Hardware, constants: Constants = FITTED) -> float:
    """Return random 4 KiB writes of one array.

    The drives would give far more (12 x 135,000 / 3): what is measured is one array that takes them
    one after another, so twice the arrays take twice as many.
    """
    drives = machine.drives * small_operations_per_s(
        machine.drive_write_iops, machine.drive_write_bytes_per_s
    )
    serial = machine.platform.host(constants) / constants.small_write_s
    return min(drives / small_write_operations(machine.raid), serial)


def rebuild_factor(raid: Raid) -> float:
    """Return what is left of writes and reads while a missing drive is rebuilt."""
    return (1 - 1 / raid.drives) * (1 - _REBUILD_SHARE)
