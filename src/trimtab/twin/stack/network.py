"""The network between clients and servers: line rate, LNet, and the tables of source 004."""

from __future__ import annotations

from typing import Final

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.stack.hardware import Platform

SELFTEST: Final = {
    # CPU partitions: 1 MB write, read in bytes/s; 4 KB write, read in RPC/s
    4: (99_034e6, 94_444e6, 405_668.0, 414_891.0),
    8: (99_002e6, 99_033e6, 427_851.0, 428_617.0),
    16: (98_953e6, 99_031e6, 454_760.0, 457_183.0),
}
"""Printed: LNet selftest of one E2000 server, one NUMA node per socket (source 004, Table 4)."""

GROUP_UPLINK_BYTES_PER_S: Final = 14.4e12
"""Printed: from a group of four racks of Perlmutter's storage to compute, each way (source 002)."""


def write_bytes_per_s(
    line_bytes_per_s: float, platform: Platform, constants: Constants = FITTED
) -> float:
    """Return what a server's, or a client's, ports carry of writes.

    A server fetches what is written: over Slingshot that costs more than sending does.
    """
    fetch = constants.lnet_write_slingshot if platform.slingshot else 1.0
    return line_bytes_per_s * constants.lnet_efficiency * fetch


def read_bytes_per_s(line_bytes_per_s: float, constants: Constants = FITTED) -> float:
    """Return what a server's, or a client's, ports carry of reads."""
    return line_bytes_per_s * constants.lnet_efficiency
