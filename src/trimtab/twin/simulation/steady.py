"""What OSTs carry in a steady state: the ceilings of the simulation, asked without its time."""

from __future__ import annotations

from functools import cache

import numpy as np

from trimtab.twin.arrays import Array
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation.faults import conditions
from trimtab.twin.simulation.measures import OstRates, OstTerms
from trimtab.twin.simulation.stacked import StackRates
from trimtab.twin.simulation.throttling import throttling


def steady_rates(
    scenario: Scenario, amplification: Array, walks_per_request: Array, *, from_clients: bool
) -> OstRates:
    """Return what OSTs do that amplify and search so much, each on a server of its own.

    Parameters
    ----------
    walks_per_request
        Block groups that a request looks at in vain, in parts of all groups of its OST.
    """
    count = len(amplification)
    terms = OstTerms(
        amplification,
        walks_per_request,
        throttling(scenario, amplification),
        np.arange(count) // scenario.osts.per_server,
        conditions((), scenario.start, scenario.start, count),
    )
    return _rates().osts(scenario, terms, from_clients=from_clients)


@cache
def _rates() -> StackRates:
    return StackRates()
