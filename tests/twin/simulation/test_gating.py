"""Closing full OSTs, on a file system of Perlmutter's size, without the layout beneath.

`benchmarks/reports/twin-questions.md` has these runs as a position.
"""

from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest
from benchmarks.controllers_help import Controlled
from tests.twin.simulation.small import small
from tests.twin.simulation.stand_ins import NoLayout, unthrottled

from trimtab.twin.scenario import Fault, Gating, Scenario
from trimtab.twin.scenario_check import replace_keys
from trimtab.twin.scenario_fact import at_the_end
from trimtab.twin.scenario_file import load_scenario
from trimtab.twin.simulation.engine import Simulation

pytestmark = pytest.mark.calibration

HOUR = timedelta(hours=1)


def without_layout(scenario: Scenario) -> Simulation:
    def nothing(_scenario: Scenario, columns: int, _threads: int | None) -> Any:
        return NoLayout(columns)

    return Simulation(scenario, layout=nothing, windows=unthrottled)


def simulated(scenario: Scenario) -> Simulation:
    of = without_layout(scenario)
    of.run()
    return of


@cache
def near_the_limit(setting: str, value: str) -> Simulation:
    """Return ten days of that that were simulated."""
    return simulated(near_the_limit_scenario(setting, value))


def near_the_limit_scenario(setting: str, value: str) -> Scenario:
    """Return ten days at 73 % with a burst of 12 GB/s over 18 hours, as on three days of 2024."""
    base = at_the_end(load_scenario("perlmutter"))
    burst = base.start + timedelta(days=5, hours=2)
    hourly = next(probe for probe in base.probes if probe.kind == "ior")
    scenario = replace(
        base,
        changes=(),
        assumptions={},
        length_s=10 * 86400.0,
        faults=(Fault(burst, "burst", burst + 18 * HOUR, (), 12e9),),
        probes=(replace(hourly, since=None),),
    )
    full = {"users.fullness": "0.73", "users.daily_writes": "2.9PB", "resolution.classes": "all"}
    return replace_keys(scenario, {**full, setting: value})


def least_open(of: Simulation) -> float:
    return float(of.trace.of("open").sum(axis=1).min())


def fullest(of: Simulation) -> float:
    """Return how full the fullest thousandth is: one large file makes a single OST."""
    return float(np.quantile(of.trace.of("fullness"), 0.999))


def refused_runs(of: Simulation) -> int:
    return sum(job.status != "ok" for job in of.trace.jobs)


def test_with_a_limit_on_how_many_are_closed_about_50_stay_open_and_no_run_is_refused():
    limited = near_the_limit("gating.most_closed", "0.83")
    assert least_open(limited) == pytest.approx(50, abs=2)
    assert refused_runs(limited) == 0
    assert limited.state.refused_space_bytes == 0.0
    ungated = near_the_limit("gating.enabled", "false")
    assert fullest(limited) < fullest(ungated), "closing OSTs keeps the fullest less full"


def test_without_such_a_limit_the_policy_fails():
    """Near the limit the few that are open take what all would: they fill, and none is left."""
    of = near_the_limit("gating.most_closed", "all")
    assert least_open(of) <= 5
    assert refused_runs(of) > 0
    assert fullest(of) > fullest(near_the_limit("gating.enabled", "false")) + 0.05


def test_the_policy_that_ships_keeps_more_open_than_the_site_had():
    """About 50 of 298 were left to the operators (S1, VII); here every target is one column."""
    over = (near_the_limit("gating.enabled", "false").trace.of("fullness") > 0.75).mean(axis=1)
    assert over.max() > 0.4, "far more are over the limit than the cap lets close"
    begun = replace_keys(near_the_limit_scenario("gating.enabled", "false"), {"mdts.count": 1})
    balanced = Controlled(without_layout(begun), ("balance",))
    balanced.run()
    assert balanced.done["balance"] > 0
    assert least_open(balanced.simulation) >= 0.8 * 298 - 1
    assert balanced.simulation.state.refused_space_bytes == 0.0


def test_an_ost_takes_no_more_over_its_limit_than_comes_until_the_next_look():
    """It took what came in an hour, however few were open: 36 % more where one of eight was."""
    users = replace(small().users, fullness=0.74, fullness_spread=0.03, burstiness=0.0)
    gating = Gating(enabled=True, limit=0.75, reopen=0.74)
    over = {}
    for every_s in (3600.0, 900.0, 300.0):
        scenario = small(
            1.0, users=users, probes=(), gating=replace(gating, every_s=every_s, most_closed=0.8)
        )
        over[every_s] = fullest(simulated(scenario)) - 0.75
    assert over[300.0] < over[900.0] < over[3600.0], over


def test_far_from_the_limit_an_epoch_passes_whole():
    users = replace(small().users, fullness=0.5)
    gating = Gating(enabled=True, limit=0.9, reopen=0.89)
    often, seldom = (
        simulated(small(1.0, users=users, gating=replace(gating, every_s=every_s)))
        for every_s in (900.0, 3600.0)
    )
    np.testing.assert_array_equal(often.trace.of("fullness"), seldom.trace.of("fullness"))
