"""Throughput of a client node: its processes, CPU and ports.

A byte costs a process ``(1 + SafeRet) / process rate`` of its own and then the shared part of the
node, ``(1 + SafeRet) / node rate + checksum / cores``. With p processes a node moves ``1 / (own / p
+ shared)``, or what its ports carry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.twin.arrays import Array
from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.scenario.model import Clients
from trimtab.twin.stack import network, raid
from trimtab.twin.stack.hardware import Platform

NODE_CORES: Final = 64
"""Cores of a node of the hourly probe (source S3: one EPYC 7763)."""
SMALL_READS_PER_S: Final = 1.66e9 / 4096
"""Published, for one node with 96 processes (source S2)."""
SMALL_WRITES_PER_S: Final = 0.92e9 / 4096
"""Printed, likewise."""
SMALL_PROCESSES: Final = 96


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Limits of one node and of one of its processes, in bytes per second."""

    write_bytes_per_s: float
    read_bytes_per_s: float
    process_bytes_per_s: float = FITTED.process_bytes_per_s


def processor_bytes_per_s(
    clients: Clients, tasks_per_node: int, cores: int = NODE_CORES, constants: Constants = FITTED
) -> float:
    """Return a node's throughput without its ports, for writing or reading.

    The client cost of reads is not published: assume that of writes.
    """
    slower = 1 + constants.saferet_cost * clients.saferet
    own_s = slower / constants.process_bytes_per_s
    shared_s = slower / (constants.node_bytes_per_s * cores / NODE_CORES)
    if clients.checksums:
        shared_s += constants.checksum_core_s_per_byte / cores
    return 1 / (own_s / tasks_per_node + shared_s)


def node_limits(
    clients: Clients,
    platform: Platform,
    tasks_per_node: int = 64,
    *,
    cores: int = NODE_CORES,
    constants: Constants = FITTED,
) -> NodeLimits:
    """Return the limits of one of a scenario's nodes with that many processes."""
    processor = processor_bytes_per_s(clients, tasks_per_node, cores, constants)
    path = raid.shrunk(constants.client_path_efficiency, platform.host(constants))
    line = clients.network_bytes_per_s
    write = network.write_bytes_per_s(line, platform, constants) * path
    read = network.read_bytes_per_s(line, constants) * path
    return NodeLimits(min(processor, write), min(processor, read), constants.process_bytes_per_s)


def run_share(draws: Array, constants: Constants = FITTED) -> Array:
    """Return the fraction of a run's clients left by other nodes and paths, from normal draws.

    It is at most 1: noise belongs to the layer in which it arises, and only reduces it.
    """
    return np.exp(-constants.run_spread * np.abs(draws))


def mean_run_share(constants: Constants = FITTED) -> float:
    """Return the mean of `run_share`.

    >>> round(mean_run_share(), 3)
    0.947
    """
    spread = constants.run_spread
    return math.exp(spread**2 / 2) * math.erfc(spread / math.sqrt(2))


def small_reads_per_s(tasks_per_node: int) -> float:
    """Return random 4 KiB reads per second of one node, one at a time per process."""
    return SMALL_READS_PER_S * min(1.0, tasks_per_node / SMALL_PROCESSES)


def small_writes_per_s(tasks_per_node: int) -> float:
    """Return random 4 KiB writes per second of one node."""
    return SMALL_WRITES_PER_S * min(1.0, tasks_per_node / SMALL_PROCESSES)
