"""All fitted constants of the twin; every other value is published or derived.

A constant represents one physical cause and names the rows of
``benchmarks/reproduction/statements.csv`` that its fit may use. They were fixed before the first
fit; all other rows are held out. ``benchmarks/reproduction/fit.py`` fits the values and writes them
here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

_ORIGIN: Final = "trimtab.twin.simulation.fitted_constant"


@dataclass(frozen=True, slots=True)
class Constant:
    """One fitted constant.

    Attributes
    ----------
    unit
        ``1`` for a plain factor.
    low, high
        Physical bounds; a fit that ends at one is a finding, not a value.
    fitted_on
        Rows of ``statements.csv``.
    """

    name: str
    value: float
    unit: str
    low: float
    high: float
    meaning: str
    fitted_on: tuple[str, ...]


def _fitted(
    value: float, unit: str, bounds: tuple[float, float], meaning: str, *fitted_on: str
) -> Any:
    """Return the field of a constant; see `Constant`."""
    return field(default=value, metadata={_ORIGIN: (unit, *bounds, meaning, fitted_on)})


@dataclass(frozen=True, slots=True)
class Constants:
    """The values by name, as the layers use them."""

    raid_write_efficiency: float = _fitted(
        0.917,
        "1",
        (0.80, 1.0),
        "efficiency of the drives' writes after parity, its copies and ldiskfs, on an E1000",
        "10-write",
    )
    host_factor_e2000: float = _fitted(
        2.12,
        "1",
        (1.3, 2.6),
        "speed of an E2000 core relative to an E1000's: clock (1.3), two generations of cores, "
        "memory, two threads per core; overheads shrink by it",
        "39-write-iops",
    )
    memory_passes: float = _fitted(
        2.68,
        "1",
        (2.0, 5.0),
        "number of times a byte read crosses a server's memory, whose bandwidth is published",
        "15-read-4x32",
    )
    client_path_efficiency: float = _fitted(
        0.967,
        "1",
        (0.85, 1.0),
        "efficiency of client, RPCs and server threads relative to the lower of target and "
        "network, E1000",
        "26-write",
        "26-read",
    )
    lnet_efficiency: float = _fitted(
        0.98,
        "1",
        (0.90, 1.0),
        "efficiency of LNet relative to the line rate: headers and gaps between messages",
        "29-read",
        "31-write-cpt8",
    )
    lnet_write_slingshot: float = _fitted(
        0.865,
        "1",
        (0.70, 1.0),
        "additional factor for writes, which a server fetches over Slingshot",
        "29-write",
    )
    small_write_s: float = _fitted(
        3.45e-05,
        "s",
        (5e-6, 200e-6),
        "time of one random 4 KiB write on one array of an E1000, serially",
        "26-write-iops",
    )
    small_read_core_s: float = _fitted(
        2.29e-05,
        "s",
        (2e-6, 100e-6),
        "core time of an E1000 server for one random 4 KiB read",
        "26-read-iops",
    )
    node_bytes_per_s: float = _fitted(
        2.81e10,
        "B/s",
        (15e9, 40e9),
        "maximum rate of the CPU of one node of the hourly probe, without checksums or SafeRet",
        "36-saferet",
        "37-without",
    )
    process_bytes_per_s: float = _fitted(
        5e09,
        "B/s",
        (2.8e9, 7e9),
        "rate of a single client process: 691 nodes with 4 each gave 6,524 GB/s, so at least 2.8; "
        "8 nodes with 8 each do not reach the peak of an E2000, so below 7",
        "34-write",
        "34-read",
    )
    saferet_cost: float = _fitted(
        0.163,
        "1",
        (0.0, 0.5),
        "relative CPU time that SafeRet adds to each byte of a client",
        "36-saferet",
        "37-without",
    )
    checksum_core_s_per_byte: float = _fitted(
        6.2e-10,
        "s/B",
        (0.05e-9, 2e-9),
        "core time of checksums on the wire, for client and server alike",
        "37-with",
    )
    shared_file_factor: float = _fitted(
        0.39,
        "1",
        (0.1, 1.0),
        "throughput of one shared file relative to file per process, because of locks",
        "35-shared-691",
    )
    allocator_s_per_group: float = _fitted(
        5.41e-08,
        "s",
        (16e-9, 500e-9),
        "CPU time per group of a search: memory and locks. The slowest of the slow OSTs, at half "
        "speed, is assumed to do 77 useless loops per 1,000 requests, like the simulated allocator "
        "at 85 % full; 16 ns was measured on one core without locks",
        "22-slow",
    )
    run_spread: float = _fitted(
        0.07,
        "1",
        (0.0, 0.15),
        "loss of a run's clients to other nodes and network paths: its logarithm is the absolute "
        "value of a normal draw with this standard deviation, so that no run exceeds its clients; "
        "set to give quiet weeks the published 4.7 %",
        "37-spread-before",
    )


FITTED: Final = Constants()
TABLE: Final = tuple(
    Constant(each.name, getattr(FITTED, each.name), *each.metadata[_ORIGIN])
    for each in fields(Constants)
)
"""The fitted constants with their metadata, in the order of `Constants`."""
