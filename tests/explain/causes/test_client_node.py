"""One bad client node: runs with it are slow, runs without it are not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.explain.causes.around import LOST, WELL, quiet, shows, weight_of
from tests.explain.causes.contexts import BAD_FROM, HOUR, HOURS, incident, run, runs

from trimtab.base.incident import Found, Shape
from trimtab.base.run import RunStatus
from trimtab.explain.causes.client_node import CAUSE
from trimtab.explain.context import Context, RunFact

NODES = [f"nid{n:04d}" for n in range(24)]


def spread(
    is_slow: Callable[[RunFact, random.Random], bool], *, seed: int = 1, per_run: int = 8
) -> list[RunFact]:
    """Return hourly runs on random nodes; in the bad hours those are slow that are said to be."""
    chance = random.Random(seed)
    facts = []
    for n, at in enumerate(HOURS):
        hosts = tuple(sorted(chance.sample(NODES, per_run)))
        fact = run(at, {"write_bandwidth": WELL * (1 + 0.01 * (n % 5 - 2))}, hosts=hosts)
        if at >= BAD_FROM and is_slow(fact, chance):
            fact = replace(fact, values={"write_bandwidth": LOST})
        facts.append(fact)
    return facts


def of(facts: list[RunFact]) -> Context:
    return quiet(runs=facts, of=incident(Shape.UNSTEADY))


def test_slow_with_node() -> None:
    # The node is found.
    scene = of(spread(lambda fact, _: "nid0007" in fact.hosts, seed=3))
    piece = shows(CAUSE, scene, "slow-with-node", value=1.0, reference=0.0)
    assert piece.weight > 1.0
    assert "nid0007" in piece.what
    # A node that does not let runs end.
    facts = spread(lambda fact, _: False, seed=3)
    facts = [
        replace(fact, status=RunStatus.UNFINISHED, values={})
        if fact.at >= BAD_FROM and "nid0007" in fact.hosts else fact
        for fact in facts
    ]  # fmt: skip
    piece = shows(CAUSE, of(facts), "slow-with-node", value=1.0)
    assert piece.weight > 1.0
    assert "nid0007" in piece.what
    # Runs that are all slow clear every node.
    scene = of(spread(lambda *_: True))
    shows(CAUSE, scene, "slow-with-node", weight=-2.0)
    assert weight_of(CAUSE, scene) < -1


def test_the_same_nodes_every_time_tell_nothing() -> None:
    shows(CAUSE, of(spread(lambda *_: True, per_run=24)), "nodes-alike", Found.NEUTRAL)


def test_runs_that_do_not_tell_their_nodes() -> None:
    shows(CAUSE, quiet(), "slow-with-node", reason="too-few-runs")


def test_a_node_that_was_slow_before_is_not_what_began() -> None:
    facts = spread(lambda fact, _: "nid0007" in fact.hosts, seed=3)
    facts = [
        replace(fact, values={"write_bandwidth": LOST}) if "nid0007" in fact.hosts else fact
        for fact in facts
    ]
    shows(CAUSE, of(facts), "node-slow-earlier", Found.AGAINST)


@pytest.mark.calibration
def test_chance_convicts_nobody() -> None:
    """Slow runs that have nothing to do with their nodes: a likelihood ratio is 1 on average.

    One over 20 then comes in one of 20 worlds at most; of 60, more than 7 in one of 100.
    """
    weights = [
        CAUSE.assess(of(spread(lambda _, chance: chance.random() < 0.5, seed=seed)))[0].weight
        for seed in range(60)
    ]
    assert sum(weight > 1.3 for weight in weights) <= 7


@pytest.mark.calibration
def test_chance_leans_against_on_average() -> None:
    weights = [
        CAUSE.assess(of(spread(lambda _, chance: chance.random() < 0.5, seed=seed)))[0].weight
        for seed in range(40)
    ]
    assert sum(weights) / len(weights) < 0


def test_other_probes_that_moved_too() -> None:
    other = runs(WELL, LOST, probe="other")
    moved = quiet(runs=(*runs(WELL, LOST), *other), of=incident(moved_with=["other"]))
    shows(CAUSE, moved, "moved-alone", Found.AGAINST)
    alone = quiet(runs=(*runs(WELL, LOST), *other), of=incident(unmoved=["other"]))
    shows(CAUSE, alone, "moved-alone", Found.FOR)
    shows(CAUSE, quiet(), "moved-alone", Found.NOT_AVAILABLE)


def test_too_few_runs() -> None:
    facts = [fact for fact in spread(lambda *_: True) if fact.at < BAD_FROM + 3 * HOUR]
    assert CAUSE.assess(of(facts))[0].found is Found.NOT_AVAILABLE


@pytest.mark.parametrize("well", [2, 4])
def test_the_host_that_starts_probes_is_not_blamed_for_runs_that_left_nothing(well: int) -> None:
    facts = [
        replace(fact, status=RunStatus.UNFINISHED, values={}, hosts=("watch",))
        if fact.at >= BAD_FROM and n % well else fact
        for n, fact in enumerate(spread(lambda *_: False))
    ]  # fmt: skip
    piece = CAUSE.assess(of(facts))[0]
    assert "watch" not in piece.what
    assert piece.found is not Found.FOR
