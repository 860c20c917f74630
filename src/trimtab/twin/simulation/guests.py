"""What comes from outside the scenario: files of probes that somebody else starts, and their rates.

Guests' bytes are none of the users': no lifetime, no quota and no purge takes them; they are there
until they are removed.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from trimtab.twin.arrays import Array, Integers
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.measures import OstRates
from trimtab.twin.simulation.streams import stream
from trimtab.twin.stack import client, hardware
from trimtab.twin.stack.job import USER_STREAM_BYTES_PER_S
from trimtab.twin.stack.sharing import Resource, max_min, slowest_rate


def task_rates(
    scenario: Scenario,
    could: OstRates,
    competing: OstRates,
    ost_of_task: Integers,
    *,
    nodes: int,
    tasks_per_node: int,
    bytes_per_task: float,
    access: Literal["write", "read"],
    client_share: float = 1.0,
) -> tuple[Array, float]:
    """Return what each task of a job gets while all of them run, and when the slowest is done.

    Parameters
    ----------
    could
        What each real OST gives to clients now.
    competing
        What users ask of each meanwhile.
    client_share
        Part of the clients that is left to this run: `luck`.

    Returns
    -------
    tuple
        Bytes per second, and seconds for ``bytes_per_task`` each; ``inf``: one never ends.
    """
    machine = hardware.hardware(scenario.osts, scenario.server)
    limits = client.node_limits(scenario.clients, machine.platform, tasks_per_node)
    per_node = limits.write_bytes_per_s if access == "write" else limits.read_bytes_per_s
    node = np.arange(len(ost_of_task)) // tasks_per_node
    shared = Resource(node, np.full(nodes, per_node * client_share))
    demand = competing.write if access == "write" else competing.read
    osts = Resource(
        ost_of_task,
        could.write if access == "write" else could.read,
        demand,
        np.ceil(demand / USER_STREAM_BYTES_PER_S),
    )
    process = limits.process_bytes_per_s * client_share
    rates = max_min([shared, osts], np.full(len(ost_of_task), process))
    slowest = slowest_rate([shared, osts], process)
    return rates, bytes_per_task / slowest if slowest > 0.0 else math.inf


def luck(scenario: Scenario, at_s: float, access: str) -> float:
    """Return the part of its clients that is left to one phase of a probe."""
    draws = stream(scenario.seed, "guest", access, int(at_s))
    return float(client.run_share(draws.standard_normal(1))[0])
