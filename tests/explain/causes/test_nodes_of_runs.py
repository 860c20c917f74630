"""Client nodes by the speed of their runs, and by name in the log book."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    HOUR,
    HOURS,
    OSTS,
    event,
    incident,
    quiet,
    run,
    shows,
    survey,
    weight_of,
    with_log,
)

from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Shape
from trimtab.explain.causes.client_node import CLIENT_NODE
from trimtab.explain.causes.node_speed import RUNS_LEAST, Sized, follows_nodes
from trimtab.explain.context import Context, Period

SLOW_NODES = ("nid0004", "nid0012", "nid0020", "nid0028")


def sized(
    seed: int, runs: int, *, loss: float, noise: float = 0.03, phi: float = 0.0
) -> list[Sized]:
    """Return runs on four neighbours of 32 nodes, of which every eighth is slow."""
    rng = np.random.default_rng(seed)
    made, error = [], 0.0
    for _ in range(runs):
        first = int(rng.integers(29))
        nodes = tuple(f"nid{first + n:04}" for n in range(4))
        error = phi * error + float(rng.normal(0, noise)) * (1 - phi**2) ** 0.5
        slow = any(node in SLOW_NODES for node in nodes)
        made.append((nodes, (1 - loss * slow) * (1 + error)))
    return made


@pytest.mark.parametrize(("runs", "least"), [(48, 0.5), (100, 0.9), (200, 0.95)])
def test_a_mixed_pool_is_seen(runs: int, least: float) -> None:
    weights = [follows_nodes(sized(seed, runs, loss=0.15))[1] for seed in range(40)]
    assert np.mean(np.array(weights) > 0.5) >= least


@pytest.mark.parametrize(("runs", "phi"), [(RUNS_LEAST, 0.0), (100, 0.0), (400, 0.0), (100, 0.8)])
def test_chance_does_not_look_like_a_mixed_pool(runs: int, phi: float) -> None:
    weights = np.array(
        [follows_nodes(sized(seed, runs, loss=0.0, phi=phi))[1] for seed in range(200)]
    )
    assert np.mean(weights > 0) <= 0.06
    assert np.mean(weights > 1) <= 0.01


def test_too_few_runs_or_always_the_same_nodes_tell_nothing() -> None:
    assert follows_nodes(sized(1, RUNS_LEAST - 1, loss=0.5)) == (0.0, 0.0)
    assert follows_nodes([(("nid1", "nid2"), float(n)) for n in range(100)])[1] <= 0
    assert follows_nodes([((), float(n)) for n in range(100)]) == (0.0, 0.0)


def scattered(loss_since: float, loss_before: float) -> Context:
    good, bad = (sized(seed, 100, loss=loss)
                 for seed, loss in ((1, loss_before), (2, loss_since)))  # fmt: skip
    step = timedelta(minutes=30)
    facts = [
        run(BAD_FROM + n * step, {"write_bandwidth": 600e9 * speed}, hosts=tuple(nodes))
        for n, (nodes, speed) in enumerate([*good, *bad], start=-100)
    ]
    return quiet(
        runs=facts, of=incident(Shape.UNSTEADY, effect=None),
        good=(Period(BAD_FROM - 50 * HOUR, BAD_FROM - step),),
        bad=(Period(BAD_FROM, BAD_FROM + 50 * HOUR),),
    )  # fmt: skip


def test_a_mixed_pool_makes_runs_scatter() -> None:
    mixed = scattered(0.25, 0.0)
    assert shows(CLIENT_NODE, mixed, "speed-of-nodes", Found.FOR).weight > 1
    assert weight_of(CLIENT_NODE, mixed) > 1
    # It always was one: that is no news.
    shows(CLIENT_NODE, scattered(0.25, 0.25), "speed-of-nodes", weight=0)
    shows(CLIENT_NODE, scattered(0.0, 0.0), "nodes-predict-nothing", weight=0)


def test_where_nodes_always_differed_a_slow_one_that_is_new_is_no_bad_node() -> None:
    def with_new(before: float) -> Context:
        of = scattered(0.25, before)
        facts = tuple(
            replace(fact, hosts=(*fact.hosts, "nid0900"), values={"write_bandwidth": 4e11})
            if fact.at >= BAD_FROM and number % 4 == 0 else fact
            for number, fact in enumerate(of.runs)
        )  # fmt: skip
        return replace(of, runs=facts)

    shows(CLIENT_NODE, with_new(0.0), "slow-with-node", Found.FOR, says="nid0900")
    shows(CLIENT_NODE, with_new(0.25), "slow-with-node", Found.NEUTRAL, says="nid0900")


def noted(detail: str, hours: float = 30) -> Context:
    facts = []
    for n, at in enumerate(HOURS):
        slow = at >= BAD_FROM
        nodes = (4, 5) if slow else (2 * n % 32, (2 * n + 1) % 32)
        hosts = tuple(f"nid{node:04}" for node in nodes)
        facts.append(run(at, {"write_bandwidth": 4e11 if slow else 6e11}, hosts=hosts))
    log = with_log(event(EventKind.NOTE, BAD_FROM + timedelta(hours=hours), detail))
    return quiet(runs=facts, events=log)


def test_a_node_that_the_log_book_names() -> None:
    assert shows(CLIENT_NODE, noted("nid0004 drained, link at half speed"), "node-logged",
                 Found.FOR).weight > 1.5  # fmt: skip
    shows(CLIENT_NODE, noted("nid0009 drained"), "node-not-logged", weight=0)
    shows(CLIENT_NODE, noted("nid0004 drained", hours=-40), "node-not-logged", weight=0)
    shows(CLIENT_NODE, noted("nid00041 drained"), "node-not-logged", weight=0)
    nameless = noted("nid0004 drained")
    bare = tuple(replace(fact, hosts=()) for fact in nameless.runs)
    shows(CLIENT_NODE, replace(nameless, runs=bare), "node-logged", Found.NOT_AVAILABLE)


def test_another_probe_that_moved_along_and_is_as_ever_contradicts_the_nodes() -> None:
    def with_other(name: str) -> float:
        facts = []
        for at in HOURS:
            slow = at >= BAD_FROM
            hosts = ("nid0900", "nid0901") if slow else ("nid0004", "nid0005")
            own = run(at, {"write_bandwidth": 4e11 if slow else 6e11}, hosts=hosts)
            facts += [own, run(at, {"write_bandwidth": 5e11}, hosts=hosts, probe="small")]
        scene = quiet(runs=facts, of=incident(unmoved=[name]))
        return shows(CLIENT_NODE, scene, "moved-alone").weight

    assert with_other("small write_bandwidth") == -0.6
    assert with_other("small file_creation_rate") == 0


def test_a_node_whose_runs_are_faster_is_not_bad() -> None:
    def slow_with(node: int) -> float:
        """Return the weight if runs with that node are well, and half of the others slow."""
        facts = [
            run(BAD_FROM + n * HOUR / 4, {"write_bandwidth": 4e11 if slow else 6e11},
                hosts=(f"nid{n % 4:04}", "nid0100"))
            for n in range(-200, 200)
            for slow in [n >= 0 and n % 4 != node and n % 8 < 4]
        ]  # fmt: skip
        of = quiet(
            runs=facts, of=incident(Shape.UNSTEADY, effect=None),
            good=(Period(BAD_FROM - 50 * HOUR, BAD_FROM),),
            bad=(Period(BAD_FROM, BAD_FROM + 50 * HOUR),),
        )  # fmt: skip
        pieces = [piece for piece in CLIENT_NODE.assess(of) if piece.what.code == "slow-with-node"]
        return pieces[0].weight

    assert slow_with(0) <= 0


def test_a_survey_below_the_clients_that_lost_as_much_clears_a_move() -> None:
    facts = [
        run(at, {"write_bandwidth": 4e11 if at >= BAD_FROM else 6e11},
            hosts=("nid0900", "nid0901") if at >= BAD_FROM else ("nid0004", "nid0005"))
        for at in HOURS
    ]  # fmt: skip
    of = incident(effect=0.67)
    well = weight_of(CLIENT_NODE, quiet(runs=facts, of=of))
    below = quiet(runs=facts, of=of, surveys=survey(15e9, 10e9, slow_targets=OSTS))
    shows(CLIENT_NODE, below, "clients-against-servers", Found.AGAINST, weight=-1.0)
    assert weight_of(CLIENT_NODE, below) == pytest.approx(well - 1.0)
