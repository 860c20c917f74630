"""What the layers above the layout make of it: the terms they are asked with, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.scenario.model import ProbeLoad, Scenario
from trimtab.twin.simulation.faults import Conditions
from trimtab.twin.stack.job import JobResult

Array = NDArray[np.float64]


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
    server: NDArray[np.int64]
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class OstRates:
    """What each real OST could do if nobody else asked, bytes/s."""

    write: Array
    read: Array


@dataclass(frozen=True, slots=True)
class Load:
    """Writes and reads of OSTs: what users ask of each real one at one moment, bytes/s."""

    write: Array
    read: Array


class Windows(Protocol):
    """What seconds of collection and writeback throttling leave of writes."""

    def __call__(self, scenario: Scenario, amplification: Array) -> Array:
        """Return the factor of each column, 0 to 1, of what amplification leaves."""
        ...


class Rates(Protocol):
    """Ceilings of the layers: `trimtab.twin.simulation.stacked`, and what tests put there."""

    def osts(self, scenario: Scenario, terms: OstTerms, *, from_clients: bool) -> OstRates:
        """Return what each OST could do, by itself or for clients; 0: it does not answer."""
        ...

    def survey(self, rates: OstRates, competing: Load) -> tuple[Array, Array]:
        """Return what obdfilter-survey sees of each OST: write and read, bytes/s.

        ``competing`` is what users want of each OST meanwhile, bytes/s.
        """
        ...

    def job(
        self,
        scenario: Scenario,
        probe: ProbeLoad,
        rates: OstRates,
        competing: Load,
        ost_of_task: NDArray[np.int64],
        *,
        client_share: tuple[float, float],
    ) -> JobResult:
        """Return what a job of file per process gets whose tasks have their files there.

        ``client_share`` is the part of its clients that is left to its write and to its read.
        """
        ...
