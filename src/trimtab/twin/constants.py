"""The constants of the twin that are fitted, all of them; everything else is printed or follows.

A constant stands for one physical cause. `FITTED_ON` and `HELD_OUT` name the rows of
``benchmarks/reproduction/statements.csv`` that constants may see and those that they may not: they
were written down before the first fit. ``benchmarks/reproduction/fit.py`` fits and writes the
values here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

FITTED_ON: Final = (
    "10-write",
    "15-read-4x32",
    "26-write",
    "26-read",
    "26-write-iops",
    "26-read-iops",
    "29-write",
    "29-read",
    "31-write-cpt8",
    "34-write",
    "34-read",
    "35-shared-691",
    "36-saferet",
    "37-without",
    "37-with",
    "39-write-iops",
)
"""Rows that the fit of the layers sees. 34-write and 34-read were held out at first: they bound
`Constants.process_bytes_per_s`, so they are no predictions."""

HELD_OUT: Final = (
    "2-read",
    "2-write",
    "2-read-iops",
    "2-write-iops",
    "5-link",
    "10-read",
    "11-write",
    "11-read",
    "12-write",
    "12-read",
    "13-write",
    "13-read",
    "14-write",
    "14-read",
    "15-write-4x16",
    "15-read-4x16",
    "15-write-4x32",
    "16-write",
    "16-read",
    "16-write-peak",
    "16-read-peak",
    "figure-3-write",
    "figure-3-read",
    "figure-3-fio-e1000",
    "figure-3-fio-e2000",
    "30-e1000-single",
    "30-e1000-dual",
    "30-e2000-single",
    "30-e2000-dual",
    "31-write-cpt4",
    "31-read-cpt4",
    "31-read-cpt8",
    "31-write-cpt16",
    "31-read-cpt16",
    "34-write-iops",
    "34-read-iops",
    "35-peak",
    "35-fpp-4147",
    "35-fpp-691",
    "35-fpp-128mib",
    "35-shared-4147",
    "35-random-691",
    "35-node-read",
    "35-node-write",
    "37-ratio",
    "39-write",
    "39-read",
    "39-read-iops",
    # Told later, and seen by no fit.
    "figure-3-read-e2000",
    "figure-3-raid-write",
    "38-rank",
    "38-wrf-e2000",
    "38-wrf-e1000",
    "38-wrf-gain",
    "38-wrf-saved",
    "38-wrf-aggregators",
    "38-wrf-lockahead",
    "38-wrf-stripes",
    "41-drives",
    "mlperf-unet3d-10",
    "mlperf-unet3d-20",
    "mlperf-unet3d-ratio",
    "mlperf-resnet50-client",
)
"""Rows that no fit sees. Most of them say nothing new all the same (``docs/twin-model.md``)."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One fitted constant.

    Attributes
    ----------
    unit
        ``1`` for a plain factor.
    low, high
        What physics allows; a fit that ends there is a finding, not a value.
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


TABLE: Final = (
    Constant(
        "raid_write_efficiency",
        0.917,
        "1",
        0.80,
        1.0,
        "what parity, its copies and ldiskfs leave of the drives' writes on an E1000",
        ("10-write",),
    ),
    Constant(
        "host_factor_e2000",
        2.12,
        "1",
        1.3,
        2.6,
        "work that a core of an E2000 server does for one of an E1000: clock (1.3), two "
        "generations of cores, memory, two threads a core; overheads shrink by it",
        ("39-write-iops",),
    ),
    Constant(
        "memory_passes",
        2.68,
        "1",
        2.0,
        5.0,
        "times that a byte read crosses the memory of a server, whose bandwidth is printed",
        ("15-read-4x32",),
    ),
    Constant(
        "client_path_efficiency",
        0.967,
        "1",
        0.85,
        1.0,
        "what client, RPCs and server threads leave of the lower of target and network, E1000",
        ("26-write", "26-read"),
    ),
    Constant(
        "lnet_efficiency",
        0.98,
        "1",
        0.90,
        1.0,
        "what LNet leaves of the line rate: headers and pauses between messages",
        ("29-read", "31-write-cpt8"),
    ),
    Constant(
        "lnet_write_slingshot",
        0.865,
        "1",
        0.70,
        1.0,
        "what is left of that where a server fetches what is written, over Slingshot",
        ("29-write",),
    ),
    Constant(
        "small_write_s",
        3.45e-05,
        "s",
        5e-6,
        200e-6,
        "time in which one array of an E1000 takes one random 4 KiB write, one after another",
        ("26-write-iops",),
    ),
    Constant(
        "small_read_core_s",
        2.29e-05,
        "s",
        2e-6,
        100e-6,
        "time of a core of an E1000 server for one random 4 KiB read",
        ("26-read-iops",),
    ),
    Constant(
        "node_bytes_per_s",
        2.81e10,
        "B/s",
        15e9,
        40e9,
        "that the processor of one node of the hourly probe moves at most, without checksums or "
        "SafeRet",
        ("36-saferet", "37-without"),
    ),
    Constant(
        "process_bytes_per_s",
        5e09,
        "B/s",
        2.8e9,
        7e9,
        "that one process of a client moves alone: 691 nodes with 4 each gave 6,524 GB/s, so at "
        "least 2.8; 8 nodes with 8 each do not reach the peak of an E2000, so under 7",
        ("34-write", "34-read"),
    ),
    Constant(
        "saferet_cost",
        0.163,
        "1",
        0.0,
        0.5,
        "processor time that SafeRet adds to each byte of a client, as a part of it",
        ("36-saferet", "37-without"),
    ),
    Constant(
        "checksum_core_s_per_byte",
        6.2e-10,
        "s/B",
        0.05e-9,
        2e-9,
        "time of one core for checksums on the wire, client and server alike",
        ("37-with",),
    ),
    Constant(
        "shared_file_factor",
        0.39,
        "1",
        0.1,
        1.0,
        "what locks on one shared file leave of file per process",
        ("35-shared-691",),
    ),
    Constant(
        "allocator_s_per_group",
        5.41e-08,
        "s",
        16e-9,
        500e-9,
        "time of the processor for one group that a search looks at: memory and locks. The slowest "
        "of the slow OSTs, at half speed, is taken to make 77 useless loops in 1,000 requests as "
        "the simulated allocator does 85 % full; 16 ns was measured on one core without locks",
        ("22-slow",),
    ),
    Constant(
        "run_spread",
        0.07,
        "1",
        0.0,
        0.15,
        "what other nodes and other paths through the network take of the clients of a run: its "
        "logarithm is the absolute value of a normal draw of this standard deviation, so that no "
        "run exceeds its clients; set so that quiet weeks have the printed 4.7 %",
        ("37-spread-before",),
    ),
)


@dataclass(frozen=True, slots=True)
class Constants:
    """The values alone, by name, as the layers take them; the meaning of each is in `TABLE`."""

    raid_write_efficiency: float
    host_factor_e2000: float
    memory_passes: float
    client_path_efficiency: float
    lnet_efficiency: float
    lnet_write_slingshot: float
    small_write_s: float
    small_read_core_s: float
    node_bytes_per_s: float
    process_bytes_per_s: float
    saferet_cost: float
    checksum_core_s_per_byte: float
    shared_file_factor: float
    allocator_s_per_group: float
    run_spread: float


NAMES: Final = tuple(field.name for field in fields(Constants))
FITTED: Final = Constants(**{constant.name: constant.value for constant in TABLE})
