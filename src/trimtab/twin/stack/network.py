"""The network between clients and servers: line rate and LNet."""

from __future__ import annotations

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.stack.hardware import Platform


def write_bytes_per_s(
    line_bytes_per_s: float, platform: Platform, constants: Constants = FITTED
) -> float:
    """Return the write throughput of a server's or client's ports.

    A server fetches written data, which over Slingshot costs more than sending.
    """
    fetch = constants.lnet_write_slingshot if platform.slingshot else 1.0
    return line_bytes_per_s * constants.lnet_efficiency * fetch


def read_bytes_per_s(line_bytes_per_s: float, constants: Constants = FITTED) -> float:
    """Return the read throughput of a server's or client's ports."""
    return line_bytes_per_s * constants.lnet_efficiency
