"""Capacity of OSTs, from drives and RAID."""

from __future__ import annotations

from typing import Final

from trimtab.twin.scenario.model import Osts, Scenario

GROUP_UNITS: Final = 2048
"""Units per block group of a miniature OST."""


def drives_capacity_bytes(osts: Osts) -> float:
    """Return the capacity of one OST's drives for data, including the file system's metadata.

    Notes
    -----
    (drives - spares) x capacity x data / (data + parity) / OSTs that share them: 12 drives of
    15.36 TB in 8+2+1 give 135.2 TB.
    """
    raid = osts.raid
    return (raid.drives - raid.spares) * osts.drive.capacity_bytes * raid.data_share / raid.shared


def ost_capacity_bytes(osts: Osts) -> float:
    """Return the capacity of one OST: the scenario's value, else that of its drives."""
    return drives_capacity_bytes(osts) if osts.capacity_bytes is None else osts.capacity_bytes


def capacity_bytes(scenario: Scenario) -> float:
    """Return the capacity of the whole file system at the start."""
    return scenario.osts.count * ost_capacity_bytes(scenario.osts)


def server_count(osts: Osts) -> int:
    """Return the number of object storage servers."""
    return -(-osts.count // osts.per_server)
