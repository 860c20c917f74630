"""Laws that no simulation may break: physics of layers, bytes and time."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.twin.simulation.small import DAY, START, small
from tests.twin.simulation.stand_ins import quick, slow_layout, unthrottled

from trimtab.twin.scenario import Fault, Lifetime, Resolution, Scenario
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation import job, ost_array, traffic
from trimtab.twin.simulation.engine import Simulation
from trimtab.twin.simulation.hardware import hardware, port_write_bytes_per_s
from trimtab.twin.simulation.job import JobResult
from trimtab.twin.simulation.ost_array import OstRates, stream
from trimtab.twin.simulation.traffic import with_met
from trimtab.twin.simulation.user_load import competing


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
    nodes = job.node_limits(scenario.clients, machine.platform, probe.tasks_per_node)
    servers = scenario.osts.count * port_write_bytes_per_s(
        machine.network_bytes_per_s, machine.platform
    )
    measured = writes(of)
    assert len(measured) >= 8
    assert measured.max() <= probe.nodes * nodes.write_bytes_per_s
    assert measured.max() <= servers
    fresh = float(ost_array.ceilings_of(machine, from_clients=True).rates().write)
    assert measured.max() <= scenario.osts.count * fresh


def test_chance_takes_from_the_clients_and_gives_them_nothing() -> None:
    share = job.run_share(np.random.default_rng(1).standard_normal(100_000))
    assert share.max() <= 1.0
    assert share.mean() == pytest.approx(job.mean_run_share(), rel=1e-3)
    # Quiet weeks have 4.7 %, a part of it from users.
    assert np.log(share).std() == pytest.approx(0.042, rel=0.02)


def test_a_job_that_moves_more_than_its_osts_breaks_the_law() -> None:
    scenario = small()
    probe = scenario.probes[0]
    osts, last = OstRates(np.full(8, 2e9), np.full(8, 4e9)), np.array([0])
    tasks = np.arange(probe.tasks) % 8
    each = np.full(8, 0.25e9)
    most, more = (
        JobResult(write, 32e9, 1.0, 1.0, each, each, last, "ost") for write in (16e9, 16.1e9)
    )
    traffic.check_job(scenario, probe, osts, tasks, most)
    with pytest.raises(traffic.LawBrokenError, match="the OSTs carry"):
        traffic.check_job(scenario, probe, osts, tasks, more)
    with pytest.raises(traffic.LawBrokenError, match="OST 3"):
        traffic.check_survey(probe, np.full(8, 2e9), np.array([2e9] * 3 + [1e9] + [2e9] * 4))


def test_tests_check_them() -> None:
    assert traffic.are_checked()


# Users and probes share what there is


def crowded(daily: float = 30e15) -> Scenario:
    """Return the template with far more writes than it carries, of files that live ten minutes."""
    changed = {"resolution.epoch": "15m", "users.fullness": "30%", "gating.enabled": "false"}
    plain = replace_keys(load_scenario("template"), changed)
    asked = replace(plain.users, daily_writes_bytes=daily, lifetimes=(Lifetime(1.0, 600.0),))
    return replace(plain, users=asked, faults=(), changes=())


@pytest.mark.calibration
def test_users_write_no_more_than_the_servers_carry() -> None:
    of = ran(crowded(), 2.0)
    machine = hardware(of.scenario.osts, of.scenario.server)
    most = of.scenario.osts.count * float(
        ost_array.ceilings_of(machine, from_clients=True).rates().write
    )
    written = float(of.state.client_bytes_written_total @ of.columns.weight) / (2 * DAY)
    assert 0.5 * most < written <= most
    # 30 PB were wanted: some of it waits, most of it was never asked for.
    assert of.state.queued_bytes == pytest.approx(30e15 / 4)
    assert of.state.slowed_bytes > 5e15
    assert of.state.refused_space_bytes == 0.0
    calm = ran(crowded(40e12), 2.0)
    assert calm.state.slowed_bytes == 0.0
    assert writes(of).mean() < 0.7 * writes(calm).mean()


def test_what_waits_is_written_when_there_is_room_again() -> None:
    of = Simulation(crowded())
    of.run(of.now + timedelta(hours=12))
    assert of.state.queued_bytes > 1e14
    of.set_key("users.daily_writes", "10TB")
    waits, before = of.state.queued_bytes, of.population.totals.written
    of.step()
    # Jobs are patient for some hours of what they write: of less, they wait for less.
    assert of.state.queued_bytes < waits
    assert of.population.totals.written - before > 100e9 * 900


@settings(max_examples=10)
@given(
    daily=st.floats(1e12, 40e15),
    rate=st.floats(1e8, 40e9),
    fullness=st.floats(0.05, 0.9),
    slow=st.booleans(),
    classes=st.sampled_from([None, 3]),
    seed=st.integers(0, 2**32),
)
def test_no_load_breaks_a_law(
    daily: float, rate: float, fullness: float, slow: bool, classes: int | None, seed: int
) -> None:
    plain = small(1.0, seed=seed, resolution=Resolution(classes=classes))
    users = replace(
        plain.users,
        daily_writes_bytes=daily,
        daily_reads_bytes=3 * daily,
        fullness=fullness,
        job_rate_bytes_per_s=rate,
        lifetimes=(Lifetime(0.9, 1200.0), Lifetime(0.1, None)),
    )
    faults = (Fault(START + timedelta(hours=3), "slow-drive", None, (3,), 0.2),) if slow else ()
    of = Simulation(
        replace(plain, users=users, faults=faults), layout=slow_layout, windows=unthrottled
    )
    of.run()  # the laws are checked in every epoch
    assert of.trace.jobs


# Every byte is in a counter


def test_what_a_probe_met_of_users_is_counted_where_it_met_it() -> None:
    plain = small(1.0)
    users = replace(plain.users, daily_writes_bytes=8 * 5e12, burstiness=0.0, rhythm=0.0)
    of = quick(replace(plain, users=users))
    met, counted = [], []
    for _ in range(24):
        before = of.state.client_bytes_written_total.copy()
        of.step()
        run = of.trace.jobs[-1]
        draws = stream(plain.seed, "competing", int(run.at.timestamp()))
        assert run.write_s is not None
        met.append(competing(of._user_rate, of.scenario.users, draws) * run.write_s)
        counted.append(of.state.client_bytes_written_total - before)
    met, counted = np.array(met), np.array(counted)
    assert (counted >= met * (1 - 1e-9)).all()
    # Bursts on single OSTs stand out of what the hour brings them.
    assert np.corrcoef(met.ravel(), counted.ravel())[0, 1] > 0.8
    # The day's sum is what users wanted, and what the probe wrote.
    assert counted.sum() == pytest.approx(8 * 5e12 + 24 * 3e12, rel=1e-2)


def test_a_run_that_did_not_end_is_counted_as_far_as_it_came() -> None:
    fault = Fault(START, "silent-ost", None, (5,))
    plain = small(1.0, faults=(fault,), probes=(small().probes[0],))
    users = replace(plain.users, daily_writes_bytes=0.0, daily_reads_bytes=0.0)
    of = quick(replace(plain, users=users))
    of.step()
    assert of.trace.jobs[-1].status == "unfinished"
    written = of.state.client_bytes_written_total
    assert written[5] == 0.0
    np.testing.assert_allclose(np.delete(written, 5), 3e12 / 8)
    assert of.state.client_bytes_read_total.sum() == 0.0


def test_bytes_are_no_less_for_being_met() -> None:
    weight = np.array([2.0, 1.0])
    mean, met = np.array([10.0, 10.0]), np.array([6.0, 0.0])
    counted = with_met(mean, met, np.array([0.1, 0.1]), weight)
    assert counted @ weight == pytest.approx(30.0)
    assert counted[0] > counted[1] >= 0.0
    # More than all was met: it was written ahead.
    assert with_met(mean, np.array([40.0, 0.0]), np.array([0.1, 0.1]), weight) @ weight == 80.0
