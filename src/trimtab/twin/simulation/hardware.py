"""Fitted constants of the twin, and hardware figures of a scenario: servers, ports, arrays.

A constant represents one physical cause and names the rows of
``benchmarks/reproduction/statements.csv`` that its fit may use. They were fixed before the first
fit; all other rows are held out. ``benchmarks/reproduction/fit.py`` fits the values and writes them
here. Every other value of the twin is published or derived.

The figures come from pure functions on plain values. Nothing here depends on time: wear, fullness
and age are inputs of the layers above.

A full stripe costs ``(data + parity) / data`` bytes for each byte written. A write smaller than a
stripe reads the old data and both parities and writes all three: 3 operations of each kind (two
parities). Reads of whole data do not touch parity, and since parity, data and spares are spread
over all drives, all of them serve reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from trimtab.twin.scenario import Osts, Raid, Server, ServerGeneration, ost_capacity_bytes

_ORIGIN: Final = "trimtab.twin.simulation.hardware"


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


GROUP_BYTES: Final = 128 * 1024**2
"""A block group of ldiskfs with 4 KiB blocks."""


@dataclass(frozen=True, slots=True)
class Platform:
    """Published figures of a generation of servers.

    Attributes
    ----------
    memory_bytes_per_s
        Channels x transfers x 8 bytes.
    faster_host
        Whether host overheads shrink by `Constants.host_factor_e2000`.
    slingshot
        Whether servers fetch writes over Slingshot.
    """

    name: str
    memory_bytes_per_s: float
    faster_host: bool
    slingshot: bool

    def host(self, constants: Constants = FITTED) -> float:
        """Return the speed of a core relative to an E1000's."""
        return constants.host_factor_e2000 if self.faster_host else 1.0


E1000: Final = Platform("e1000", 8 * 3.2e9 * 8, faster_host=False, slingshot=True)
"""8 DIMMs of DDR4-3200 (source S5, Table 2)."""
E2000: Final = Platform("e2000", 12 * 4.8e9 * 8, faster_host=True, slingshot=False)
"""12 DIMMs of DDR5-4800 (source S5, Table 2)."""

_PLATFORMS: Final[Mapping[ServerGeneration, Platform]] = {"e1000": E1000, "e2000": E2000}


@dataclass(frozen=True, slots=True)
class OstHardware:
    """One kind of OST with its share of a server.

    Attributes
    ----------
    drives
        Number of drives whose full speed this OST gets while all OSTs work; a fraction of shared
        drives.
    drive_write_bytes_per_s, drive_read_bytes_per_s
        Rates of one drive, as reachable through its controllers.
    groups
        Block groups of the real OST.
    cores, memory_bytes_per_s, network_bytes_per_s
        Those of the server, divided by its number of OSTs.
    """

    drives: float
    drive_write_bytes_per_s: float
    drive_read_bytes_per_s: float
    drive_read_iops: float
    drive_write_iops: float
    drive_capacity_bytes: float
    raid: Raid
    groups: float
    cores: float
    memory_bytes_per_s: float
    network_bytes_per_s: float
    platform: Platform


def small_operations_per_s(iops: float, bytes_per_s: float) -> float:
    """Return random 4 KiB operations of one drive: its data sheet's, limited by its link.

    >>> round(12 * small_operations_per_s(1_450_000, 3.5e9) / 1e6, 1)
    10.3
    """
    return min(iops, bytes_per_s / 4096)


def platform_of(server: Server) -> Platform:
    """Return the platform of a server's generation."""
    return _PLATFORMS[server.generation]


def hardware(osts: Osts, server: Server) -> OstHardware:
    """Return the hardware figures of a scenario."""
    platform = platform_of(server)
    drive = osts.drive
    # Drives with OSTs on both controllers are reached through both links.
    links = 2 if osts.raid.shared > osts.per_server else 1
    link = float("inf") if osts.link_bytes_per_s is None else links * osts.link_bytes_per_s
    return OstHardware(
        drives=osts.raid.drives / osts.raid.shared,
        drive_write_bytes_per_s=min(drive.write_bytes_per_s, link),
        drive_read_bytes_per_s=min(drive.read_bytes_per_s, link),
        drive_read_iops=drive.read_iops,
        drive_write_iops=drive.write_iops,
        drive_capacity_bytes=drive.capacity_bytes,
        raid=osts.raid,
        groups=ost_capacity_bytes(osts) / GROUP_BYTES,
        cores=server.cores / osts.per_server,
        memory_bytes_per_s=platform.memory_bytes_per_s / osts.per_server,
        network_bytes_per_s=server.network_bytes_per_s / osts.per_server,
        platform=platform,
    )


def port_write_bytes_per_s(
    line_bytes_per_s: float, platform: Platform, constants: Constants = FITTED
) -> float:
    """Return the write throughput of a server's or client's ports.

    A server fetches written data, which over Slingshot costs more than sending.
    """
    fetch = constants.lnet_write_slingshot if platform.slingshot else 1.0
    return line_bytes_per_s * constants.lnet_efficiency * fetch


def port_read_bytes_per_s(line_bytes_per_s: float, constants: Constants = FITTED) -> float:
    """Return the read throughput of a server's or client's ports."""
    return line_bytes_per_s * constants.lnet_efficiency


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


def array_write_bytes_per_s(machine: OstHardware, constants: Constants = FITTED) -> float:
    """Return the write throughput of an array of fresh drives."""
    efficiency = shrunk(constants.raid_write_efficiency, machine.platform.host(constants))
    return machine.drives * machine.drive_write_bytes_per_s * machine.raid.data_share * efficiency


def array_read_bytes_per_s(machine: OstHardware, constants: Constants = FITTED) -> float:
    """Return an array's read throughput: its drives' sum, limited by server memory."""
    return min(
        machine.drives * machine.drive_read_bytes_per_s,
        machine.memory_bytes_per_s / constants.memory_passes,
    )


def small_writes_per_s(machine: OstHardware, constants: Constants = FITTED) -> float:
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


def rebuild_s(machine: OstHardware, part: float = 1.0) -> float:
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
