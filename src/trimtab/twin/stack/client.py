"""A client node: what its processor, its processes and its ports let through.

The time of a node's processor for a byte is ``(1 + SafeRet) / rate + checksum / cores``; what it
moves is one over that, or what its ports carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.scenario.model import Clients
from trimtab.twin.stack import network, raid
from trimtab.twin.stack.hardware import Platform

NODE_CORES: Final = 64
"""Of a node of the hourly probe (seed 002: one EPYC 7763); what checksums are spread over."""
PROCESS_BYTES_PER_S: Final = 1.5e9
"""Printed: one rank writes 1 to 2 GB/s (seed 004, 4.1); the middle."""
SMALL_READS_PER_S: Final = 1.66e9 / 4096
"""Printed: of one node with 96 processes (seed 001)."""
SMALL_WRITES_PER_S: Final = 0.92e9 / 4096
SMALL_PROCESSES: Final = 96


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """What one node, and one process of it, can move, bytes per second."""

    write_bytes_per_s: float
    read_bytes_per_s: float
    process_bytes_per_s: float = PROCESS_BYTES_PER_S


def processor_bytes_per_s(checksums: bool, saferet: bool, constants: Constants = FITTED) -> float:
    """Return what the processor of a node moves, writing or reading.

    Read is not printed: a byte costs a read what it costs a write.
    """
    second_per_byte = (1 + constants.saferet_cost * saferet) / constants.node_bytes_per_s
    if checksums:
        second_per_byte += constants.checksum_core_s_per_byte / NODE_CORES
    return 1 / second_per_byte


def node_limits(clients: Clients, platform: Platform, constants: Constants = FITTED) -> NodeLimits:
    """Return what one of a scenario's nodes can move."""
    processor = processor_bytes_per_s(clients.checksums, clients.saferet, constants)
    path = raid.shrunk(constants.client_path_efficiency, platform.host(constants))
    line = clients.network_bytes_per_s
    return NodeLimits(
        write_bytes_per_s=min(
            processor, network.write_bytes_per_s(line, platform, constants) * path
        ),
        read_bytes_per_s=min(processor, network.read_bytes_per_s(line, constants) * path),
    )


def small_reads_per_s(tasks_per_node: int) -> float:
    """Return random 4 KiB reads of one node: each process waits for one at a time."""
    return SMALL_READS_PER_S * min(1.0, tasks_per_node / SMALL_PROCESSES)


def small_writes_per_s(tasks_per_node: int) -> float:
    """Return random 4 KiB writes of one node."""
    return SMALL_WRITES_PER_S * min(1.0, tasks_per_node / SMALL_PROCESSES)
