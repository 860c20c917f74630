"""Laws that hold in every epoch of every simulation; one that is broken is a bug of the twin.

They are checked where the environment has `VARIABLE`, as every test sets it, since each costs about
as much as the step that it checks.

=================  =================================================================================
no layer more      what clients measure is at most what their nodes, the network and the OSTs carry;
                   what a survey measures is at most what the OST does alone
=================  =================================================================================
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.constants import FITTED
from trimtab.twin.scenario.model import ProbeLoad, Scenario
from trimtab.twin.simulation.measures import JobRates, OstRates

Array = NDArray[np.float64]
VARIABLE: Final = "TRIMTAB_CHECK_LAWS"
_ROUNDING: Final = 1 + 1e-9


class LawBrokenError(AssertionError):
    """A simulation did what cannot be."""


def are_checked() -> bool:
    """Return whether the laws are checked."""
    return bool(os.environ.get(VARIABLE))


def check_job(
    scenario: Scenario,
    probe: ProbeLoad,
    rates: OstRates,
    ost_of_task: NDArray[np.int64],
    got: JobRates,
) -> None:
    """Check that a job moves no more than its nodes' ports and the OSTs of its files carry.

    Parameters
    ----------
    rates
        What each OST gives to clients.
    """
    used = np.unique(ost_of_task)
    ports = probe.nodes * scenario.clients.network_bytes_per_s
    tasks = len(ost_of_task) * FITTED.process_bytes_per_s
    for access, measured, of_osts in (
        ("writes", got.write_bytes_per_s, rates.write),
        ("reads", got.read_bytes_per_s, rates.read),
    ):
        for layer, most in (
            ("the processes", tasks),
            ("the nodes' ports", ports),
            ("the OSTs", float(of_osts[used].sum())),
        ):
            _at_most(f"{probe.name} {access}", measured, layer, most)


def check_survey(probe: ProbeLoad, measured: Array, alone: Array) -> None:
    """Check that a survey sees of no OST more than it does alone."""
    over = measured > alone * _ROUNDING
    if over.any():
        ost = int(np.flatnonzero(over)[0])
        _at_most(f"{probe.name} of OST {ost}", float(measured[ost]), "it", float(alone[ost]))


def _at_most(load: str, measured: float, layer: str, most: float) -> None:
    if measured > most * _ROUNDING:
        raise LawBrokenError(f"{load}: {measured:.6g} B/s, and {layer} carry {most:.6g} B/s")
