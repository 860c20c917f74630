"""What the layers above the layout make of it: the terms they are asked with, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.twin.arrays import Array, Integers
from trimtab.twin.simulation.faults import Conditions


@dataclass(frozen=True, slots=True)
class OstTerms:
    """How each real OST is at one moment.

    Attributes
    ----------
    amplification
        Units that its drives write for each unit of the host.
    walks_per_request
        Block groups that one request of 1 MiB looks at, in parts of all groups of its OST.
    window
        What collection and throttling within seconds leave of writes.
    server
        That serves it now.
    conditions
        What is wrong.
    """

    amplification: Array
    walks_per_request: Array
    window: Array
    server: Integers
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class OstRates:
    """Writes and reads of each real OST, bytes/s: what it could do alone, or what users ask."""

    write: Array
    read: Array
