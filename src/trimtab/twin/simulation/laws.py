"""Laws that hold in every epoch of every simulation; a violation is a bug in the twin.

They are checked only if the environment has `VARIABLE`, which every test sets, since each check
costs about as much as the step it checks.

=================  =================================================================================
no layer more      what clients measure is at most what their nodes, the network and the OSTs carry;
                   what a survey measures is at most what the OST does alone
closed loop        what users and probes move on an OST in an epoch is at most what it carries
every byte         what was wanted was written, refused, waits, or was never asked for
=================  =================================================================================
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.twin.arrays import Array, Integers, OstRates
from trimtab.twin.constants import FITTED
from trimtab.twin.scenario.model import ProbeLoad, Scenario
from trimtab.twin.simulation.state import State
from trimtab.twin.simulation.traffic import Layers, Probed
from trimtab.twin.stack.job import JobResult

VARIABLE: Final = "TRIMTAB_CHECK_LAWS"
_ROUNDING: Final = 1 + 1e-9


class LawBrokenError(AssertionError):
    """A simulation violated a law."""


def are_checked() -> bool:
    """Return whether the laws are checked."""
    return bool(os.environ.get(VARIABLE))


def check_job(
    scenario: Scenario,
    probe: ProbeLoad,
    rates: OstRates,
    ost_of_task: Integers,
    got: JobResult,
) -> None:
    """Check that a job moves no more than its nodes' ports and its files' OSTs can.

    Parameters
    ----------
    rates
        Rates of each OST for clients.
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
    """Check that a survey measures no OST faster than it is alone."""
    over = measured > alone * _ROUNDING
    if over.any():
        ost = int(np.flatnonzero(over)[0])
        _at_most(f"{probe.name} of OST {ost}", float(measured[ost]), "it", float(alone[ost]))


@dataclass(frozen=True, slots=True)
class Books:
    """Bytes of the whole that users wanted but did not write."""

    refused: float
    queued: float
    slowed: float

    @classmethod
    def of(cls, state: State) -> Books:
        """Return the books of a state."""
        refused = state.refused_quota_bytes + state.refused_space_bytes
        return cls(refused, state.queued_bytes, state.slowed_bytes)


def check_books(before: Books, state: State, *, new_demand: float, written: float) -> None:
    """Check that every byte that users wanted in an epoch is accounted for once."""
    after = Books.of(state)
    wanted = before.queued + new_demand
    became = (
        written + (after.refused - before.refused) + after.queued + (after.slowed - before.slowed)
    )
    if abs(wanted - became) > 1e-9 * (after.refused + after.slowed + abs(wanted)) + 1.0:
        raise LawBrokenError(f"{wanted:.9g} bytes were wanted, and {became:.9g} are accounted for")


def check_traffic(
    layers: Layers,
    by_probes: Probed | None,
    users: tuple[Array, Array],
    weight: Array,
    *,
    seconds: float,
) -> None:
    """Check that OSTs and clients could carry users' and probes' I/O."""
    written, read = users
    longer = 1.0
    if by_probes is not None:
        # A run longer than its epoch is counted in the one in which it starts.
        longer = max(1.0, by_probes.longest_s / seconds)
        written, read = written + by_probes.client_written, read + by_probes.client_read
    for passed, most in ((written, layers.write), (read, layers.read)):
        check_osts(passed, most * longer)
        check_clients(float(passed @ weight), layers.clients * longer)


def check_osts(moved: Array, most: Array) -> None:
    """Check that users and probes moved no more on a column's OST than it can carry."""
    over = moved > most * _ROUNDING + 1.0
    if over.any():
        column = int(np.flatnonzero(over)[0])
        raise LawBrokenError(
            f"an OST of column {column} moved {moved[column]:.6g} bytes in an epoch, and carries "
            f"{most[column]:.6g}"
        )


def check_clients(moved: float, most: float) -> None:
    """Check that users and probes moved no more than all client nodes can carry."""
    if moved > most * _ROUNDING + 1.0:
        raise LawBrokenError(f"clients moved {moved:.6g} bytes in an epoch, and carry {most:.6g}")


def _at_most(load: str, measured: float, layer: str, most: float) -> None:
    if measured > most * _ROUNDING:
        raise LawBrokenError(f"{load}: {measured:.6g} B/s, and {layer} carry {most:.6g} B/s")
