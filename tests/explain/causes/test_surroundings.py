"""Causes around storage: the network, load of others, metadata servers, one client node."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest
from tests.explain.causes.contexts import (
    BAD_FROM,
    GOOD,
    HOME,
    HOUR,
    HOURS,
    LOST,
    MDTS,
    OSTS,
    SERVERS,
    START,
    WELL,
    counter,
    event,
    gauge,
    incident,
    missing,
    quiet,
    run,
    runs,
    shows,
    survey,
    weight_of,
    with_log,
)
from tests.support.counts import repetitions

from trimtab.base.event import EventKind
from trimtab.base.incident import Found, Shape
from trimtab.base.run import RunStatus
from trimtab.base.site_hardware import Figure, Hardware
from trimtab.explain.causes.client_node import CLIENT_NODE as NODE
from trimtab.explain.causes.competing_load import ACCOUNTING
from trimtab.explain.causes.competing_load import COMPETING_LOAD as LOAD
from trimtab.explain.causes.competing_load import METADATA_LOAD as META
from trimtab.explain.causes.network import NETWORK as NET
from trimtab.explain.context import JOBS, Context, Period, RunFact
from trimtab.explain.explanation import explain

# The network: LNet selftest, clients against servers, connections, what a line carries.

LINE = Hardware(network=Figure(50e9, "B/s", 1e9))


def selftests(good: float, bad: float, *, kind: str = "lnet-selftest") -> tuple[RunFact, ...]:
    return tuple(
        run(START + n * 6 * HOUR, {"read_bandwidth": value, "write_bandwidth": 0.9 * value},
            kind=kind, probe="lst")
        for n in range(10)
        for value in [good if n < 8 else bad]
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["lnet-selftest", "lnet_selftest"])
def test_a_selftest_that_is_slow_convicts(kind: str) -> None:
    of = quiet(runs=(*runs(WELL, LOST), *selftests(48e9, 24e9, kind=kind)))
    assert shows(NET, of, "selftest-in-time", value=0.5).weight > 1.5
    assert weight_of(NET, of) > 1.4


def test_selftest_in_time() -> None:
    # One direction alone is enough.
    tests = [
        run(START + n * 6 * HOUR,
            {"read_bandwidth": 48e9, "write_bandwidth": 42e9 if n < 8 else 20e9},
            kind="lnet-selftest", probe="lst")
        for n in range(10)
    ]  # fmt: skip
    of = quiet(runs=(*runs(WELL, LOST), *tests))
    shows(NET, of, "selftest-in-time", Found.FOR)
    # A selftest as ever clears.
    of = quiet(runs=(*runs(WELL, LOST), *selftests(48e9, 47.5e9)))
    assert shows(NET, of, "selftest-in-time").weight < -1
    assert weight_of(NET, of) < 0
    # Without a selftest.
    shows(NET, quiet(), "selftest-in-time", Found.NOT_AVAILABLE)


def test_a_sum_over_many_servers_hardly_clears_any_of_them() -> None:
    """A probe waits for its slowest server: of 24 that one lost 30 % is 1 % of the sum."""
    tests = (*runs(WELL, LOST), *selftests(48e9, 47.5e9))
    home = {f"OST{n:04x}": f"oss{n}" for n in range(24)}
    assert shows(NET, quiet(runs=tests), "selftest-in-time").weight < -1
    shows(NET, quiet(runs=tests, home=home), "selftest-in-time", weight=-0.3)
    # Where selftests scatter more than one server is worth, few servers clear no more either.
    uneven = [
        run(START + n * 6 * HOUR, {"read_bandwidth": 48e9 * (1 + 0.1 * (-1) ** n)},
            kind="lnet-selftest", probe="lst")
        for n in range(10)
    ]  # fmt: skip
    piece = shows(NET, quiet(runs=(*runs(WELL, LOST), *uneven)), "selftest-in-time")
    assert piece.weight >= -0.3


@pytest.mark.parametrize(("reached", "outcome"), [(45e9, Found.AGAINST), (15e9, Found.FOR)])
def test_a_selftest_against_the_line_rate(reached: float, outcome: Found) -> None:
    tests = [run(BAD_FROM + HOUR, {"read_bandwidth": reached}, kind="lnet-selftest", probe="lst")]
    of = quiet(runs=(*runs(WELL, LOST), *tests), hardware=LINE)
    shows(NET, of, "selftest-of-line-rate", outcome)


def test_clients_against_servers() -> None:
    # Clients are slow and servers are not.
    assert 0 < shows(NET, quiet(), "clients-against-servers").weight < 0.5
    # Servers that are slow as well clear.
    slow = quiet(surveys=survey(15e9, 4e9, slow_targets=OSTS[:2]))
    shows(NET, slow, "servers-slow-too", Found.AGAINST)
    alike = quiet(surveys=survey(15e9, 9e9, slow_targets=OSTS))
    shows(NET, alike, "clients-against-servers", Found.AGAINST)
    # A survey through the network does not tell.
    surveyed = [run(BAD_FROM + 4 * HOUR, {}, kind="ior", probe="survey")]
    rows = survey(15e9)
    for row in rows:
        if row["at"] >= BAD_FROM:
            row["run"] = surveyed[0].id
    scene = quiet(surveys=rows, runs=(*runs(WELL, LOST), *surveyed))
    shows(NET, scene, "clients-against-servers", reason="survey-through-network")


def test_targets_that_lost_too_little_do_not_clear_the_network() -> None:
    """At 70 % of their usual rate they explain a probe at 70 %, and none at 20 %."""
    surveyed = survey(15e9, 10.5e9, slow_targets=OSTS[:2])
    for effect, weight in ((0.7, -1.0), (0.2, 0.0)):
        of = quiet(surveys=surveyed, of=incident(effect=effect))
        shows(NET, of, "servers-slow-too", weight=weight)


def test_connections_broken() -> None:
    # Connections of several servers that break.
    of_two = [ost for ost in OSTS if HOME[ost] in ("oss0", "oss1")]
    rows = [*gauge("import_state", "FULL", targets=[o for o in OSTS if o not in of_two]),
            *gauge("import_state", "FULL", "DISCONN", targets=of_two)]  # fmt: skip
    piece = shows(NET, quiet(readings=rows), "connections-broken")
    assert piece.weight > 0.9
    # One servers connections are that servers matter.
    of_one = [ost for ost in OSTS if HOME[ost] == "oss0"]
    rows = [*gauge("import_state", "FULL", targets=[o for o in OSTS if o not in of_one]),
            *gauge("import_state", "FULL", "DISCONN", targets=of_one)]  # fmt: skip
    lost = incident(effect=None)
    shows(NET, quiet(readings=rows, of=lost), "connections-broken", Found.AGAINST)
    # Idle connections are well.
    rows = gauge("import_state", "FULL", "IDLE")
    shows(NET, quiet(readings=rows, of=lost), "connections-broken", Found.AGAINST)
    # A path that is merely slow keeps its connections: that they are well tells nothing.
    shows(NET, quiet(readings=rows), "connections-broken", Found.NEUTRAL)
    # Connections that nobody could see.
    unseen = quiet(missing("import_state", "lctl may not be run"))
    shows(NET, unseen, "connections-broken", Found.NOT_AVAILABLE, why="lctl may not be run")


def test_a_line_that_carries_all_it_can() -> None:
    full = quiet(
        readings=counter("network_bytes_total", 1e10, 4.8e10, targets=SERVERS), hardware=LINE
    )
    shows(NET, full, "network-saturated", Found.FOR)
    half = quiet(
        readings=counter("network_bytes_total", 1e10, 2e10, targets=SERVERS), hardware=LINE
    )
    shows(NET, half, "network-saturated", Found.NEUTRAL, value=0.4)


def test_the_log_book_tells_of_a_switch() -> None:
    log = with_log(event(EventKind.NOTE, BAD_FROM - HOUR, "switch x1000c0r3 exchanged"))
    shows(NET, quiet(events=log), "network-logged", Found.FOR)
    before = with_log(event(EventKind.NOTE, BAD_FROM - 40 * HOUR, "switch exchanged"))
    shows(NET, quiet(events=before), "network-not-logged", weight=0)
    other = with_log(event(EventKind.NOTE, BAD_FROM - HOUR, "purge switched to weekly, unlinked"))
    shows(NET, quiet(events=other), "network-not-logged", weight=0)


def test_an_entry_of_a_log_book_full_of_such_entries_weighs_less() -> None:
    near = event(EventKind.NOTE, BAD_FROM - HOUR, "switch x1000c0r3 exchanged")
    daily = [
        event(EventKind.NOTE, BAD_FROM - (13 + 6 * n) * HOUR, "link of a switch flapped")
        for n in range(20)
    ]
    alone = shows(NET, quiet(events=with_log(near)), "network-logged", Found.FOR)
    among_many = shows(NET, quiet(events=with_log(near, *daily)), "network-logged", Found.FOR)
    assert among_many.weight < alone.weight / 3
    # Of several near by the nearest is shown.
    early = event(EventKind.NOTE, BAD_FROM - 11 * HOUR, "link down")
    shows(NET, quiet(events=with_log(early, near)), "network-logged", says="x1000c0r3")


def test_an_incident_of_a_survey_on_the_servers() -> None:
    base = incident()
    assert base.key is not None
    of = replace(base, key=replace(base.key, kind="obdfilter-survey"))
    shows(NET, quiet(of=of), "survey-on-servers", Found.AGAINST)


# Load of other jobs: what all clients moved less what the probe moved itself.

BYTES = ("client_bytes_written_total", "client_bytes_read_total")


def loaded_by_others(per_target: float) -> Context:
    return quiet(counter(BYTES[0], 1e9, per_target), of=incident(Shape.DIP))


def test_load_of_reach() -> None:
    # Much more than usual and enough to matter.
    of = loaded_by_others(20e9)
    assert shows(LOAD, of, "load-in-time").weight > 0.9
    shows(LOAD, of, "load-of-reach", Found.FOR, value=pytest.approx(12 * 19e9 / WELL, rel=0.05))
    assert weight_of(LOAD, of) > 1.4
    # More than usual but little beside the probe.
    # Three times nearly nothing takes nothing from a probe of 600 GB/s.
    of = quiet(counter(BYTES[0], 1e7, 3e7), counter(BYTES[1], 1e7))
    shows(LOAD, of, "load-of-reach", weight=-1.5)
    assert weight_of(LOAD, of) < 0
    # As usual is against.
    of = quiet()
    assert shows(LOAD, of, "load-in-time").weight < -1
    shows(LOAD, of, "load-of-reach", Found.AGAINST)
    # The probes own bytes are no load of others.
    # A probe that moved more itself is not its own competitor.
    own_rate, hour_s, idle = 300e9, 3600.0, 1e9 * len(OSTS)
    facts = []
    for at in HOURS:
        moved = own_rate * hour_s if at >= BAD_FROM else 0.0
        value = WELL if at < BAD_FROM else LOST
        facts.append(run(at - HOUR, {"write_bandwidth": value}, minutes=60, bytes_written=moved))
    total = counter(BYTES[0], idle / len(OSTS), (idle + own_rate) / len(OSTS))
    scene = quiet(counter(BYTES[1], 1e6), total, runs=facts)
    shows(LOAD, scene, "load-in-time", Found.AGAINST, value=pytest.approx(idle, rel=0.05))
    # Devices stand in where clients are not counted.
    refused = missing(BYTES[0], "lctl may not be run")
    scene = quiet(refused, counter("bytes_written_total", 1e9, 2e10), but=BYTES)
    assert "bytes_written_total" in str(shows(LOAD, scene, "load-in-time", Found.FOR).source)
    # No counters say why.
    scene = quiet(refused, but=BYTES)
    shows(LOAD, scene, "load-in-time", Found.NOT_AVAILABLE, why="lctl may not be run")


def test_a_sum_that_lacks_targets_is_no_sum() -> None:
    """Half the targets missing for some hours is not half the load."""
    rows = counter(BYTES[0], 1e9)
    gone = {*OSTS[:6]}
    rows = [row for row in rows if row["target"] not in gone or row["at"] >= BAD_FROM - HOUR]
    scene = quiet(rows, counter(BYTES[1], 1.0))
    assert shows(LOAD, scene, "load-in-time").found is not Found.FOR


def test_more_jobs_count_a_little_and_half_of_it_beside_measured_bytes() -> None:
    more = gauge("concurrent_jobs", 200.0, 400.0)
    beside = shows(LOAD, quiet(more), "concurrent-jobs").weight
    assert 0 < 2 * beside <= shows(LOAD, quiet(more, but=BYTES), "concurrent-jobs").weight <= 0.5
    shows(LOAD, quiet(but=["concurrent_jobs"]), "concurrent-jobs", Found.NOT_AVAILABLE)


def test_accounting_has_every_hour_of_the_jobs() -> None:
    def accounted(bad_jobs: float, bad_nodes: float) -> Context:
        rows = [
            (at, *((bad_jobs, bad_nodes) if at >= BAD_FROM else (100.0, 900.0))) for at in HOURS
        ]
        return quiet(jobs=pl.DataFrame(rows, schema=JOBS, orient="row"))

    more = shows(LOAD, accounted(180.0, 900.0), "concurrent-jobs", Found.FOR)
    assert more.source == ACCOUNTING
    assert "running jobs: 180 jobs in the bad hours, 100 jobs in good hours" in more.what
    assert more.weight <= 0.5
    larger = shows(LOAD, accounted(90.0, 1500.0), "concurrent-jobs", Found.FOR)
    assert "nodes that jobs ran on: 1,500 nodes" in larger.what
    shows(LOAD, accounted(100.0, 900.0), "concurrent-jobs", Found.AGAINST)


def test_a_step_of_many_days_is_no_job() -> None:
    shows(LOAD, quiet(now=BAD_FROM + 24 * 10 * HOUR), "shape-of-load", Found.AGAINST)
    shows(LOAD, quiet(of=incident(Shape.DIP)), "shape-of-load", Found.FOR)


def test_another_metric_has_no_reach() -> None:
    of = quiet(of=incident(metric="file_creation_rate"), runs=runs(1e5, 5e4))
    shows(LOAD, of, "load-of-reach", Found.NOT_AVAILABLE)


# Load on the metadata servers: operations, processors, and rates that fell more than bandwidth.

OPERATIONS, CPU = "metadata_operations_total", "server_cpu_fraction"
MDS = [server for server in SERVERS if server.startswith("mds")]
OSS = [server for server in SERVERS if server.startswith("oss")]


def creations(good: float, bad: float) -> tuple[RunFact, ...]:
    return runs(good, bad, metric="file_creation_rate", probe="mdtest-hourly", kind="mdtest")


def loaded_metadata() -> Context:
    return quiet(
        counter(OPERATIONS, 1e4, 8e4, targets=MDTS),
        gauge(CPU, 0.3, targets=OSS), gauge(CPU, 0.3, 0.8, targets=MDS),
        runs=(*runs(WELL, 0.9 * WELL), *creations(1e5, 2e4)),
    )  # fmt: skip


def test_metadata_operations() -> None:
    # More operations busy servers and slow creation.
    of = loaded_metadata()
    shows(META, of, "metadata-operations", Found.FOR)
    shows(META, of, "mds-cpu", Found.FOR)
    shows(META, of, "metadata-rates", Found.FOR, value=0.201)
    assert weight_of(META, of) > 2
    # One mdt that is loaded_metadata alone.
    # Users' directories are spread over MDTs by name: the sum may hide one.
    rows = counter(OPERATIONS, 1e5, targets=["MDT0001"])
    rows += counter(OPERATIONS, 1e3, 1.4e5, targets=["MDT0000"])
    shows(META, quiet(rows), "metadata-operations", Found.FOR)
    # Quiet servers are against.
    of = quiet(runs=(*runs(WELL, LOST), *creations(1e5, 1e5)))
    shows(META, of, "metadata-operations", Found.AGAINST)
    shows(META, of, "mds-cpu", Found.AGAINST)
    shows(META, of, "metadata-rates", Found.AGAINST, value=1.005)
    # Busy object servers are no metadata load.
    of = quiet(gauge(CPU, 0.3, 0.9, targets=OSS), gauge(CPU, 0.3, targets=MDS))
    shows(META, of, "mds-cpu", Found.AGAINST)
    # Cpu that is told with the mdt.
    shows(META, quiet(gauge(CPU, 0.2, 0.9, targets=MDTS)), "mds-cpu", Found.FOR)
    # Bandwidth that fell as much.
    of = quiet(runs=(*runs(WELL, 0.5 * WELL), *creations(1e5, 5e4)))
    shows(META, of, "metadata-rates", Found.AGAINST, value=0.5025)


@pytest.mark.parametrize("name", [OPERATIONS, CPU])
def test_what_is_missing_says_why(name: str) -> None:
    scene = quiet(missing(name, "mds0 did not answer", targets=[*MDTS, *MDS]))
    (piece,) = (piece for piece in META.assess(scene) if piece.source == name)
    assert piece.found is Found.NOT_AVAILABLE
    assert "mds0 did not answer" in str(piece.reason)


def test_without_a_metadata_probe() -> None:
    shows(META, quiet(), "metadata-rates", Found.NOT_AVAILABLE)


def test_an_incident_of_metadata_alone() -> None:
    of = quiet(of=incident(metric="file_creation_rate"))
    shows(META, of, "metric-of-incident", Found.FOR)
    both = quiet(of=incident(metric="file_creation_rate", moved_with=["hourly write_bandwidth"]))
    shows(META, both, "metric-of-incident", Found.NEUTRAL)
    shows(META, quiet(), "metric-of-incident", Found.AGAINST)


# One bad client node: runs with it are slow, runs without it are not.

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


def unsteady(facts: list[RunFact]) -> Context:
    return quiet(runs=facts, of=incident(Shape.UNSTEADY))


def test_slow_with_node() -> None:
    # The node is found.
    scene = unsteady(spread(lambda fact, _: "nid0007" in fact.hosts, seed=3))
    piece = shows(NODE, scene, "slow-with-node", value=1.0, reference=0.0)
    assert piece.weight > 1.0
    assert "nid0007" in piece.what
    # A node that does not let runs end.
    facts = spread(lambda fact, _: False, seed=3)
    facts = [
        replace(fact, status=RunStatus.UNFINISHED, values={})
        if fact.at >= BAD_FROM and "nid0007" in fact.hosts else fact
        for fact in facts
    ]  # fmt: skip
    piece = shows(NODE, unsteady(facts), "slow-with-node", value=1.0)
    assert piece.weight > 1.0
    assert "nid0007" in piece.what
    # Runs that are all slow clear every node.
    scene = unsteady(spread(lambda *_: True))
    shows(NODE, scene, "slow-with-node", weight=-2.0)
    assert weight_of(NODE, scene) < -1


def test_the_same_nodes_every_time_tell_nothing() -> None:
    shows(NODE, unsteady(spread(lambda *_: True, per_run=24)), "nodes-alike", Found.NEUTRAL)


def test_runs_that_do_not_tell_their_nodes() -> None:
    shows(NODE, quiet(), "slow-with-node", reason="too-few-runs")


def test_a_node_that_was_slow_before_is_not_what_began() -> None:
    facts = spread(lambda fact, _: "nid0007" in fact.hosts, seed=3)
    facts = [
        replace(fact, values={"write_bandwidth": LOST}) if "nid0007" in fact.hosts else fact
        for fact in facts
    ]
    shows(NODE, unsteady(facts), "node-slow-earlier", Found.AGAINST)


@pytest.mark.calibration
def test_chance_convicts_nobody() -> None:
    """Slow runs that have nothing to do with their nodes: a likelihood ratio is 1 on average.

    One over 20 then comes in one of 20 worlds at most; of 60, more than 7 in one of 100.
    """
    weights = [
        NODE.assess(unsteady(spread(lambda _, chance: chance.random() < 0.5, seed=seed)))[0].weight
        for seed in range(60)
    ]
    assert sum(weight > 1.3 for weight in weights) <= 7


@pytest.mark.calibration
def test_chance_leans_against_on_average() -> None:
    weights = [
        NODE.assess(unsteady(spread(lambda _, chance: chance.random() < 0.5, seed=seed)))[0].weight
        for seed in range(40)
    ]
    assert sum(weights) / len(weights) < 0


def test_other_probes_that_moved_too() -> None:
    other = runs(WELL, LOST, probe="other")
    moved = quiet(runs=(*runs(WELL, LOST), *other), of=incident(moved_with=["other"]))
    shows(NODE, moved, "moved-alone", Found.AGAINST)
    alone = quiet(runs=(*runs(WELL, LOST), *other), of=incident(unmoved=["other"]))
    shows(NODE, alone, "moved-alone", Found.FOR)
    shows(NODE, quiet(), "moved-alone", Found.NOT_AVAILABLE)


def test_too_few_runs() -> None:
    facts = [fact for fact in spread(lambda *_: True) if fact.at < BAD_FROM + 3 * HOUR]
    assert NODE.assess(unsteady(facts))[0].found is Found.NOT_AVAILABLE


@pytest.mark.parametrize("well", [2, 4])
def test_the_host_that_starts_probes_is_not_blamed_for_runs_that_left_nothing(well: int) -> None:
    facts = [
        replace(fact, status=RunStatus.UNFINISHED, values={}, hosts=("watch",))
        if fact.at >= BAD_FROM and n % well else fact
        for n, fact in enumerate(spread(lambda *_: False))
    ]  # fmt: skip
    piece = NODE.assess(unsteady(facts))[0]
    assert "watch" not in piece.what
    assert piece.found is not Found.FOR


# The probe's nodes, partition and tool before the onset and since.


def pool(first: int, size: int = 16) -> tuple[str, ...]:
    """Return the names of neighbouring nodes."""
    return tuple(f"nid{n:04d}" for n in range(first, first + size))


def on_nodes(
    nodes_at: Callable[[int], tuple[str, ...]], bad: float = 0.85, **place: Callable[[int], str]
) -> list[RunFact]:
    """Return hourly runs; ``nodes_at`` and ``place`` are of the hours since the onset."""
    facts = []
    for n, at in enumerate(HOURS):
        value = WELL * (bad if at >= BAD_FROM else 1.0) * (1 + 0.01 * (n % 5 - 2))
        hour = n - HOURS.index(BAD_FROM)
        facts.append(
            run(at, {"write_bandwidth": value}, hosts=nodes_at(hour), nodes=16,
                place={name: of(hour) for name, of in place.items()})
        )  # fmt: skip
    return facts


def test_a_probe_that_moves_in_the_run_that_loses() -> None:
    facts = on_nodes(lambda hour: pool(700 if hour >= 0 else 100))
    of = quiet(runs=facts, of=incident(effect=0.85))
    piece = shows(NODE, of, "nodes-changed", Found.FOR, at=BAD_FROM)
    assert "nid[0100-0115] before, nid[0700-0715] since" in piece.what
    shows(NODE, of, "shape-of-move", Found.FOR)
    told = explain(of)
    assert told.causes[0].cause == "client-node"
    assert told.causes[0].confidence >= 0.9
    assert "closed targets" not in told.deciding


def test_a_move_is_placed_as_well_as_the_onset() -> None:
    """One or two runs to either side weigh less, a day has nothing to do with it."""
    weights = []
    for late in (0, 2):
        facts = on_nodes(lambda hour, late=late: pool(700 if hour >= late else 100))
        of = quiet(runs=facts, of=incident(effect=0.85))
        weights.append(shows(NODE, of, "nodes-changed", Found.FOR).weight)
    assert weights[1] <= weights[0]
    facts = on_nodes(lambda hour: pool(700 if hour >= 6 else 100))
    shows(NODE, quiet(runs=facts, of=incident(effect=0.85)), "nodes-as-before", Found.NEUTRAL)


def test_a_move_after_a_run_that_was_slow_already_explains_nothing() -> None:
    facts = on_nodes(lambda hour: pool(700 if hour >= 1 else 100))
    of = quiet(runs=facts, of=replace(incident(effect=0.85), onset=(BAD_FROM - HOUR, BAD_FROM)))
    shows(NODE, of, "nodes-as-before", Found.NEUTRAL)


def test_a_move_shows_less_the_wider_the_interval_of_the_onset() -> None:
    facts = on_nodes(lambda hour: pool(700 if hour >= 0 else 100))
    weights = []
    for before in (HOUR, 192 * HOUR):
        of = replace(incident(effect=0.85), onset=(BAD_FROM - before, BAD_FROM))
        weights.append(shows(NODE, quiet(runs=facts, of=of), "nodes-changed", Found.FOR).weight)
    assert weights[0] - weights[1] >= 0.5


def test_a_move_long_before_explains_nothing_that_began() -> None:
    facts = on_nodes(lambda hour: pool(700 if hour >= -24 else 100))
    of = quiet(runs=facts, of=incident(effect=0.85))
    shows(NODE, of, "nodes-as-before", Found.NEUTRAL)
    assert weight_of(NODE, of) <= 0


def test_nodes_on_which_runs_are_well_after_the_incident_are_not_the_cause() -> None:
    end = 6
    facts = on_nodes(lambda hour: pool(700 if hour >= 0 else 100))
    facts = [
        replace(fact, values={"write_bandwidth": WELL}) if fact.at > BAD_FROM + end * HOUR else fact
        for fact in facts
    ]
    of = quiet(
        runs=facts, of=incident(effect=0.85, until=BAD_FROM + end * HOUR),
        bad=(Period(BAD_FROM, BAD_FROM + end * HOUR),),
        good=(GOOD, Period(BAD_FROM + (end + 1) * HOUR, HOURS[-1])),
    )  # fmt: skip
    shows(NODE, of, "nodes-as-before", Found.NEUTRAL)


@pytest.mark.parametrize("size", [24, 400, 4000])
@pytest.mark.parametrize("per_run", [1, 16])
@pytest.mark.parametrize("seeds", repetitions(gate=5, soak=30))
def test_a_probe_on_random_nodes_does_not_move(size: int, per_run: int, seeds: int) -> None:
    """Whether its pool is small, or so large that every run is on new nodes."""
    nodes = [f"nid{n:05d}" for n in range(size)]
    for seed in range(seeds):
        chance = random.Random(seed)
        facts = on_nodes(lambda _, of=chance: tuple(sorted(of.sample(nodes, per_run))))
        pieces = NODE.assess(quiet(runs=facts, of=incident(effect=0.85)))
        moves = [piece.weight for piece in pieces if piece.what.code == "nodes-changed"]
        assert all(weight <= 0.5 for weight in moves), (seed, moves)


def test_a_pool_that_moves_is_seen_in_small_runs_on_random_nodes_of_it() -> None:
    """Two of sixty nodes a run: each is on new ones, but those before lie between the others."""
    for seed in range(10):
        chance = random.Random(seed)

        def nodes(hour: int, chance: random.Random = chance) -> tuple[str, ...]:
            return pool((2000 if hour >= 0 else 1000) + chance.randrange(60), size=2)

        of = quiet(runs=on_nodes(nodes), of=incident(effect=0.85))
        assert shows(NODE, of, "nodes-changed", Found.FOR).weight > 0.7


def test_a_partition_or_tool_that_changed_alone() -> None:
    facts = on_nodes(
        lambda _: pool(100), partition=lambda hour: "gpu" if hour >= 0 else "batch",
        launcher=lambda _: "slurm",
    )  # fmt: skip
    of = quiet(runs=facts, of=incident(effect=0.85))
    shows(NODE, of, "place-changed", Found.FOR, says="partition batch before, gpu since")
    shows(NODE, of, "nodes-as-before", Found.NEUTRAL)
    assert explain(of).causes[0].cause == "client-node"
    same = on_nodes(lambda _: pool(100), partition=lambda _: "batch")
    shows(NODE, quiet(runs=same), "place-as-before", Found.NEUTRAL)
    shows(NODE, quiet(), "place-changed", reason="no-place")


def test_other_metrics_and_probes_on_the_same_nodes_do_not_speak_against_a_move() -> None:
    facts = on_nodes(lambda hour: pool(700 if hour >= 0 else 100))
    names = [replace(fact, id=f"names-{fact.id}", probe="names", kind="mdtest") for fact in facts]
    moved = ["write-hourly read_bandwidth", "names file_creation_rate"]
    of = quiet(runs=[*facts, *names], of=incident(effect=0.85, moved_with=moved))
    shows(NODE, of, "moved-alone", Found.NEUTRAL, value=0)
    elsewhere = [replace(fact, hosts=pool(300)) for fact in names]
    of = quiet(runs=[*facts, *elsewhere], of=incident(effect=0.85, moved_with=moved))
    shows(NODE, of, "moved-alone", Found.AGAINST, value=1)
