"""Inputs of the layers above the layout."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.twin.arrays import Array, Integers
from trimtab.twin.simulation.faults import Conditions


@dataclass(frozen=True, slots=True)
class OstTerms:
    """The state of each real OST at one moment.

    Attributes
    ----------
    amplification
        Units that its drives write per host unit.
    walks_per_request
        Block groups that one request of 1 MiB searches, as a fraction of its OST's groups.
    window
        Factor on writes through collection and throttling within seconds.
    server
        Its current server.
    conditions
        Its faults.
    """

    amplification: Array
    walks_per_request: Array
    window: Array
    server: Integers
    conditions: Conditions
