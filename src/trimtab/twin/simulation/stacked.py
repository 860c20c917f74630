"""The ceilings of `trimtab.twin.stack` as the simulation asks for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.scenario.geometry import ost_capacity_bytes
from trimtab.twin.scenario.model import ProbeLoad, Raid, Scenario
from trimtab.twin.simulation.faults import Conditions
from trimtab.twin.simulation.measures import JobRates, Load, OstRates, OstTerms
from trimtab.twin.stack import client, hardware, raid
from trimtab.twin.stack import ost as ost_layer
from trimtab.twin.stack.job import IorJob, placed_job, survey_share

Array = NDArray[np.float64]


class StackRates:
    """`trimtab.twin.simulation.measures.Rates` by the layers and their fitted constants."""

    def __init__(self, constants: Constants = FITTED) -> None:
        self._constants = constants
        self._machine: tuple[object, hardware.Hardware] | None = None
        self._last: tuple[Scenario, OstTerms, OstRates] | None = None
        self._left: tuple[Conditions, Raid, tuple[Array, Array]] | None = None

    def osts(self, scenario: Scenario, terms: OstTerms, *, from_clients: bool) -> OstRates:
        """Return what each OST could do; 0 where it does not answer.

        Users and probes of an epoch ask with the very same terms: the answer is not made again.
        """
        if not from_clients:
            return self._made(scenario, terms, from_clients=False)
        if self._last is None or self._last[0] is not scenario or self._last[1] is not terms:
            self._last = (scenario, terms, self._made(scenario, terms, from_clients=True))
        return self._last[2]

    def _made(self, scenario: Scenario, terms: OstTerms, *, from_clients: bool) -> OstRates:
        machine = self._hardware(scenario)
        troubles = terms.conditions
        layout = scenario.osts.raid
        if self._left is None or self._left[0] is not troubles or self._left[1] is not layout:
            self._left = (troubles, layout, _left_of_arrays(troubles, layout))
        write_left, read_left = self._left[2]
        rates = ost_layer.rates(
            machine,
            terms.amplification,
            window=terms.window,
            groups_considered=terms.walks_per_request * machine.groups,
            drive_write_factor=troubles.drive_factor * write_left,
            drive_read_factor=troubles.drive_factor * read_left,
            server_share=_server_share(terms.server, scenario.osts.per_server),
            from_clients=from_clients,
            checksums=scenario.clients.checksums,
            constants=self._constants,
        )
        answers = ~troubles.silent
        return OstRates(rates.write * answers, rates.read * answers, rates.cores_allocator)

    def survey(self, rates: OstRates, competing: Load) -> tuple[Array, Array]:
        """Return what obdfilter-survey sees of each OST."""
        return (
            survey_share(rates.write, competing.write),
            survey_share(rates.read, competing.read),
        )

    def job(
        self,
        scenario: Scenario,
        probe: ProbeLoad,
        rates: OstRates,
        competing: Load,
        ost_of_task: NDArray[np.int64],
        *,
        client_share: tuple[float, float],
    ) -> JobRates:
        """Return what a job of file per process gets."""
        machine = self._hardware(scenario)
        tasks = probe.nodes * probe.tasks_per_node
        job = IorJob(probe.nodes, probe.tasks_per_node, probe.bytes_written / tasks)
        got = placed_job(
            ost_of_task,
            rates.write,
            rates.read,
            clients=client.node_limits(
                scenario.clients,
                machine.platform,
                probe.tasks_per_node,
                constants=self._constants,
            ),
            job=job,
            competing=competing.write,
            competing_read=competing.read,
            client_share=client_share,
        )
        slowest = int(got.slowest_osts[0])
        return JobRates(
            got.write_bytes_per_s,
            got.read_bytes_per_s,
            got.write_s,
            got.read_s,
            got.write_of_file,
            got.read_of_file,
            slowest,
        )

    def _hardware(self, scenario: Scenario) -> hardware.Hardware:
        key = (scenario.osts, scenario.server)
        if self._machine is None or self._machine[0] != key:
            osts = replace(scenario.osts, capacity_bytes=ost_capacity_bytes(scenario.osts))
            self._machine = (key, hardware.hardware(osts, scenario.server))
        return self._machine[1]


def _left_of_arrays(troubles: Conditions, layout: Raid) -> tuple[Array, Array]:
    """Return what is left of writes and reads where a drive is missing.

    What a lost drive would have taken is not written: until it is made anew, whole stripes cost the
    other drives no more than before.
    """
    short = np.where(troubles.short, raid.short_factor(layout), 1.0)
    read = np.where(troubles.degraded, raid.degraded_read_factor(layout), short)
    write_rebuilding, read_rebuilding = raid.rebuilding_factors(layout)
    return (
        np.where(troubles.rebuilding, write_rebuilding, short),
        np.where(troubles.rebuilding, read_rebuilding, read),
    )


def _server_share(server: NDArray[np.int64], per_server: int) -> Array:
    """Return the part of a server's own share that an OST has: less while it carries others'."""
    carried = np.bincount(server)[server]
    return np.minimum(1.0, per_server / carried)
