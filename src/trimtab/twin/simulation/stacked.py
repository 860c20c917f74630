"""Applies the ceilings of `trimtab.twin.stack` to the simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trimtab.twin.arrays import Array, Flags, Integers, OstRates
from trimtab.twin.constants import FITTED, Constants
from trimtab.twin.scenario.geometry import ost_capacity_bytes
from trimtab.twin.scenario.model import Clients, Osts, ProbeLoad, Raid, Scenario, Server
from trimtab.twin.simulation.faults import Conditions
from trimtab.twin.simulation.measures import OstTerms
from trimtab.twin.stack import client, hardware, raid
from trimtab.twin.stack import ost as ost_layer
from trimtab.twin.stack.job import JobResult, placed_job, survey_share


class StackRates:
    """Ceilings of the layers, with fitted constants; tests substitute others."""

    def __init__(self, constants: Constants = FITTED) -> None:
        self._constants = constants
        self._machine: tuple[Osts, Server, hardware.Hardware] | None = None
        self._last: tuple[Scenario, OstTerms, OstRates] | None = None
        self._fixed: dict[bool, _Fixed] = {}
        self._nodes: dict[int, tuple[Clients, hardware.Platform, client.NodeLimits]] = {}

    def osts(self, scenario: Scenario, terms: OstTerms, *, from_clients: bool) -> OstRates:
        """Return each OST's possible rates; 0 if it does not answer.

        Users and probes of an epoch use identical terms, so the result is cached.
        """
        if not from_clients:
            return self._made(scenario, terms, from_clients=False)
        if self._last is None or self._last[0] is not scenario or self._last[1] is not terms:
            self._last = (scenario, terms, self._made(scenario, terms, from_clients=True))
        return self._last[2]

    def _made(self, scenario: Scenario, terms: OstTerms, *, from_clients: bool) -> OstRates:
        fixed = self._fixed.get(from_clients)
        if fixed is None or not fixed.holds(scenario, terms):
            fixed = self._fixed[from_clients] = self._fix(scenario, terms, from_clients)
        now = fixed.ceilings.rates(
            terms.amplification,
            window=terms.window,
            groups_considered=terms.walks_per_request * fixed.groups,
        )
        return OstRates(now.write * fixed.answers, fixed.read)

    def _fix(self, scenario: Scenario, terms: OstTerms, from_clients: bool) -> _Fixed:
        machine, troubles = self._hardware(scenario), terms.conditions
        write_left, read_left = _left_of_arrays(troubles, scenario.osts.raid)
        ceilings = ost_layer.ceilings_of(
            machine,
            drive_write_factor=troubles.drive_factor * write_left,
            drive_read_factor=troubles.drive_factor * read_left,
            server_share=_server_share(terms.server, scenario.osts.per_server),
            from_clients=from_clients,
            checksums=scenario.clients.checksums,
            constants=self._constants,
        )
        answers = ~troubles.silent
        read = np.array(np.broadcast_to(ceilings.read, answers.shape)) * answers
        read.flags.writeable = False
        return _Fixed(scenario, troubles, terms.server, machine.groups, ceilings, answers, read)

    def survey(self, rates: OstRates, competing: OstRates) -> tuple[Array, Array]:
        """Return obdfilter-survey's rates of each OST."""
        return (
            survey_share(rates.write, competing.write),
            survey_share(rates.read, competing.read),
        )

    def job(
        self,
        scenario: Scenario,
        probe: ProbeLoad,
        rates: OstRates,
        competing: OstRates,
        ost_of_task: Integers,
        *,
        client_share: tuple[float, float],
    ) -> JobResult:
        """Return the result of a file-per-process job."""
        machine = self._hardware(scenario)
        return placed_job(
            ost_of_task,
            rates.write,
            rates.read,
            clients=self._of_nodes(scenario.clients, machine.platform, probe.tasks_per_node),
            job=probe,
            competing=competing.write,
            competing_read=competing.read,
            client_share=client_share,
        )

    def _of_nodes(
        self, clients: Clients, platform: hardware.Platform, tasks_per_node: int
    ) -> client.NodeLimits:
        known = self._nodes.get(tasks_per_node)
        if known is None or known[0] is not clients or known[1] is not platform:
            limits = client.node_limits(
                clients, platform, tasks_per_node, constants=self._constants
            )
            known = self._nodes[tasks_per_node] = (clients, platform, limits)
        return known[2]

    def _hardware(self, scenario: Scenario) -> hardware.Hardware:
        known = self._machine
        if known is None or known[0] is not scenario.osts or known[1] is not scenario.server:
            osts = replace(scenario.osts, capacity_bytes=ost_capacity_bytes(scenario.osts))
            machine = hardware.hardware(osts, scenario.server)
            known = self._machine = (scenario.osts, scenario.server, machine)
        return known[2]


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Values that stay constant while the scenario and the faults do."""

    scenario: Scenario
    troubles: Conditions
    server: Integers
    groups: float
    ceilings: ost_layer.Ceilings
    answers: Flags
    read: Array

    def holds(self, scenario: Scenario, terms: OstTerms) -> bool:
        """Return whether it applies to the same scenario and terms."""
        same = self.scenario is scenario and self.troubles is terms.conditions
        return same and self.server is terms.server


def _left_of_arrays(troubles: Conditions, layout: Raid) -> tuple[Array, Array]:
    """Return the factors on writes and reads if a drive is missing.

    Writes to a lost drive are skipped: until it is rebuilt, whole stripes cost the other drives no
    more than before.
    """
    short = np.where(troubles.short, raid.short_factor(layout), 1.0)
    read = np.where(troubles.degraded, raid.degraded_read_factor(layout), short)
    write_rebuilding, read_rebuilding = raid.rebuilding_factors(layout)
    return (
        np.where(troubles.rebuilding, write_rebuilding, short),
        np.where(troubles.rebuilding, read_rebuilding, read),
    )


def _server_share(server: Integers, per_server: int) -> Array:
    """Return an OST's fraction of its normal share of a server: less after a failover."""
    carried = np.bincount(server)[server]
    return np.minimum(1.0, per_server / carried)
