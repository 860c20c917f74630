"""The network between clients and servers: line rate and LNet."""

from __future__ import annotations

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.stack.hardware import Platform


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
