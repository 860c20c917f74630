"""Laws that no simulation may break: physics of layers, bytes and time."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from tests.twin.simulation.small import small

from trimtab.twin.scenario.load import load_scenario
from trimtab.twin.scenario.model import Scenario
from trimtab.twin.simulation import laws
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.measures import JobRates, OstRates
from trimtab.twin.stack import client, ost
from trimtab.twin.stack.hardware import hardware
from trimtab.twin.stack.network import write_bytes_per_s


def ran(scenario: Scenario, days: float) -> Simulation:
    of = Simulation(scenario)
    of.run(of.now + timedelta(days=days))
    return of


def writes(of: Simulation) -> np.ndarray:
    return np.array([run.write_bytes_per_s for run in of.trace.jobs if run.status == "ok"])


# No layer carries more than the one beneath it


@pytest.mark.calibration
@pytest.mark.parametrize(("name", "days"), [("template", 8.0), ("e2000-f", 4.0), ("e1000-f", 4.0)])
def test_no_run_exceeds_clients_network_or_osts(name: str, days: float) -> None:
    scenario = load_scenario(name)
    of = ran(scenario, days)
    machine = hardware(scenario.osts, scenario.server)
    probe = next(probe for probe in scenario.probes if probe.kind == "ior")
    nodes = client.node_limits(scenario.clients, machine.platform, probe.tasks_per_node)
    servers = scenario.osts.count * write_bytes_per_s(machine.network_bytes_per_s, machine.platform)
    measured = writes(of)
    assert len(measured) >= 8
    assert measured.max() <= probe.nodes * nodes.write_bytes_per_s
    assert measured.max() <= servers
    fresh = float(ost.rates(machine, from_clients=True).write)
    assert measured.max() <= scenario.osts.count * fresh


def test_chance_takes_from_the_clients_and_gives_them_nothing() -> None:
    share = client.run_share(np.random.default_rng(1).standard_normal(100_000))
    assert share.max() <= 1.0
    assert share.mean() == pytest.approx(client.mean_run_share(), rel=1e-3)
    # Quiet weeks have 4.7 %, a part of it from users.
    assert np.log(share).std() == pytest.approx(0.042, rel=0.02)


def test_a_job_that_moves_more_than_its_osts_breaks_the_law() -> None:
    scenario = small()
    probe = scenario.probes[0]
    osts = OstRates(np.full(8, 2e9), np.full(8, 4e9), np.zeros(8))
    tasks = np.arange(probe.nodes * probe.tasks_per_node) % 8
    laws.check_job(scenario, probe, osts, tasks, JobRates(16e9, 32e9, 1.0, 1.0, 0))
    with pytest.raises(laws.LawBrokenError, match="the OSTs carry"):
        laws.check_job(scenario, probe, osts, tasks, JobRates(16.1e9, 32e9, 1.0, 1.0, 0))
    with pytest.raises(laws.LawBrokenError, match="OST 3"):
        laws.check_survey(probe, np.full(8, 2e9), np.array([2e9] * 3 + [1e9] + [2e9] * 4))


def test_tests_check_them() -> None:
    assert laws.are_checked()
