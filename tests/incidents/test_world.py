"""The simulated worlds are what they say: repeatable, plain, conserving, and true to [S1]."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.incidents.generate import MECHANISMS, make_world
from tests.incidents.scenarios import WITHHELD, scenarios
from tests.incidents.world import CAUSES, Cause, Incident, Run, Site, Snapshot, Spec, World

pytestmark = pytest.mark.calibration  # weeks of a watch, or of a world, are simulated

COUNTERS = (
    "bytes_written_total", "bytes_read_total", "client_bytes_written_total",
    "client_bytes_read_total", "allocator_requests_total",
    "allocator_useless_loops_total{cr1}", "bytes_discarded_total",
)  # fmt: skip


@cache
def world_of(spec: Spec) -> World:
    return make_world(spec)


def with_one(cause: Cause, *, variant: str | None = None, site: Site | None = None) -> World:
    """Return ten days with one incident from the fifth to the seventh."""
    incident = Incident(cause, 5.0, 48.0, 0.6, variant)
    return world_of(Spec(seed=7, days=10, incidents=(incident,), site=site))


def hourly(world: World) -> list[Run]:
    return [run for run in world.runs if run["probe"] == "hourly"]


def ratio_of_medians(world: World, metric: str) -> float:
    truth = world.truth[0]
    values: dict[bool, list[float]] = {True: [], False: []}
    for run in hourly(world):
        inside = truth["at"] <= run["at"] and (truth["until"] is None or run["at"] < truth["until"])
        if metric in run["values"]:
            values[inside].append(run["values"][metric])
    return float(np.median(values[True]) / np.median(values[False]))


def surveyed(
    world: World, targets: list[str], metric: str = "write_bandwidth"
) -> tuple[float, float]:
    """Return medians of surveys of some targets, within and without the incident."""
    truth = world.truth[0]
    end = truth["until"] or world.snapshots[-1]["at"]
    values: dict[bool, list[float]] = {True: [], False: []}
    for one in world.surveys:
        if one["target"] in targets and one["metric"] == metric and one["value"] is not None:
            values[truth["at"] <= one["at"] < end].append(one["value"])
    return float(np.median(values[True])), float(np.median(values[False]))


def number(snapshot: Snapshot, target: str, name: str) -> float:
    value = snapshot["targets"][target]["readings"][name]
    assert isinstance(value, (int, float))
    return float(value)


# What it is


def test_the_same_spec_gives_the_same_world_and_another_seed_another() -> None:
    spec = Spec(seed=3, days=4, osts=8, incidents=(Incident("client-node", 2.0, 24.0, 0.5),))
    first, again = make_world(spec), make_world(spec)
    assert (first.runs, first.surveys, first.snapshots) == (
        again.runs,
        again.surveys,
        again.snapshots,
    )
    assert (first.events, first.truth) == (again.events, again.truth)
    assert make_world(replace(spec, seed=4)).runs != first.runs


def test_an_incident_changes_nothing_before_it() -> None:
    """So whatever differs afterwards is its effect."""
    with_it = with_one("competing-load")
    without = world_of(Spec(seed=7, days=10, site=None, incidents=()))
    # The site is drawn from the seed; this cause asks for no other.
    start = with_it.truth[0]["at"]
    before = [run for run in with_it.runs if run["at"] < start]
    assert before == [run for run in without.runs if run["at"] < start]
    assert with_it.runs != without.runs


def _plain(value: object, where: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            if type(key) is not str:
                yield f"{where}: key {key!r}"
            yield from _plain(one, f"{where}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from _plain(one, f"{where}[]")
    elif type(value) not in {str, int, float, bool, type(None), datetime}:
        yield f"{where}: {type(value).__name__}"
    elif isinstance(value, float) and not np.isfinite(value):
        yield f"{where}: {value}"


@pytest.mark.parametrize("cause", ["target-silent", "garbage-collection", "few-targets-open"])
def test_a_world_consists_of_plain_finite_values(cause: Cause) -> None:
    world = with_one(cause)
    for name in ("site", "runs", "surveys", "snapshots", "events", "profiles", "truth"):
        assert list(_plain(getattr(world, name), name))[:5] == []


def test_the_generator_imports_numpy_and_nothing_else() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        if path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                assert (
                    top == "numpy"
                    or top in sys.stdlib_module_names
                    or name.startswith("tests.incidents")
                ), f"{path.name} imports {name}"


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(ValueError, match="no variant 'sideways'"):
        make_world(Spec(seed=1, days=2, incidents=(Incident("failover", 1, 1, 0.5, "sideways"),)))


# Bookkeeping


def test_what_clients_move_is_what_the_servers_network_carries() -> None:
    spec = Spec(seed=5, days=3, confounders=False)
    world = world_of(spec)
    first, last = world.snapshots[0], world.snapshots[-1]
    moved = sum(
        number(last, ost, name) - number(first, ost, name)
        for ost in world.site["home"]
        for name in ("client_bytes_written_total", "client_bytes_read_total")
    )
    carried = 0.0
    for server in set(world.site["home"].values()):
        values = [one["hosts"][server]["readings"]["network_bytes_total"] for one in (first, last)]
        assert isinstance(values[0], int)
        assert isinstance(values[1], int)
        carried += values[1] - values[0]
    assert carried == pytest.approx(moved, rel=1e-6)


def test_every_probe_run_lies_within_what_its_targets_counted() -> None:
    world = world_of(Spec(seed=5, days=3, confounders=False))
    runs = hourly(world)
    for before, after, run in zip(world.snapshots, world.snapshots[1:], runs[1:], strict=False):
        assert before["at"] < run["at"] < run["until"] < after["at"]
        written = sum(
            number(after, ost, "client_bytes_written_total")
            - number(before, ost, "client_bytes_written_total")
            for ost in world.site["home"]
        )
        assert run["bytes_written"] is not None
        assert run["bytes_written"] < written < 3 * run["bytes_written"]


def test_counters_only_fall_where_something_was_started_anew() -> None:
    world = with_one("failover")
    moved = set(world.truth[0]["targets"])
    assert len(moved) == 2
    fell: dict[str, list[datetime]] = {}
    for before, after in zip(world.snapshots, world.snapshots[1:], strict=False):
        for ost in world.site["home"]:
            falls = {
                name: number(after, ost, name) < number(before, ost, name) for name in COUNTERS
            }
            if falls["bytes_written_total"]:
                assert falls["client_bytes_read_total"], "all of a target begin anew at once"
                fell.setdefault(ost, []).append(after["at"])
            else:
                assert not any(falls.values()), (ost, falls)
    for ost in moved:
        # When it moved, and when it moved back.
        assert len(fell[ost]) >= 2
    assert any(ost not in fell for ost in world.site["home"])


@pytest.mark.parametrize("cause", ["target-filling", "targets-over-limit", "allocator-loops"])
def test_space_adds_up_and_fullness_stays_between_nothing_and_all(cause: Cause) -> None:
    for snapshot in with_one(cause).snapshots:
        for target in snapshot["targets"]:
            used, free, whole = (
                number(snapshot, target, f"{name}_bytes")
                for name in ("used", "available", "capacity")
            )
            assert 0 < used < whole
            assert used + free == pytest.approx(whole)


def test_every_gap_has_a_reason_and_nothing_else_has_one() -> None:
    world = world_of(
        Spec(
            seed=9,
            days=6,
            incidents=(Incident("target-silent", 3.0, 30.0, 0.5, "lost"),),
            missing=frozenset({"server_cpu_fraction", "allocator_useless_loops_total"}),
        )
    )
    gaps = 0
    for snapshot in world.snapshots:
        for state in [*snapshot["targets"].values(), *snapshot["hosts"].values()]:
            empty = {name for name, value in state["readings"].items() if value is None}
            assert empty == set(state["reasons"])
            assert "server_cpu_fraction" not in state["readings"] or "server_cpu_fraction" in empty
            gaps += len(empty)
    assert gaps > 0


def test_snapshots_every_three_hours_and_48_targets() -> None:
    world = world_of(Spec(seed=2, days=2, osts=48, snapshot_every_h=3))
    assert len(world.snapshots) == 16
    assert len(world.site["home"]) == 48
    assert len(set(world.site["home"].values())) == 24


# The figures of [S1]


def test_checksums_cost_what_was_measured() -> None:
    """673,320 -> 554,012 MB/s."""
    world = with_one("configuration-change", variant="checksums")
    assert world.truth[0]["seen_by"]["hourly:write_bandwidth"] == pytest.approx(0.823, abs=0.003)
    assert ratio_of_medians(world, "write_bandwidth") == pytest.approx(0.823, abs=0.03)
    inside, outside = surveyed(world, list(world.site["home"]))
    assert inside == pytest.approx(outside, rel=0.05), "the servers do not compute the clients'"


def test_saferet_costs_what_was_measured() -> None:
    world = with_one("configuration-change", variant="saferet")
    assert world.truth[0]["seen_by"]["hourly:write_bandwidth"] == pytest.approx(0.86, abs=0.003)


CLIENTS_BOUND = Site(bound_by="clients", allocator="old", lnet_selftest=True)


def test_a_probe_that_its_clients_bind_is_blind_to_a_target_at_half_speed() -> None:
    world = with_one("array-degraded", site=CLIENTS_BOUND)
    inside, outside = surveyed(world, world.truth[0]["targets"])
    assert inside < 0.7 * outside
    assert not [name for name in world.truth[0]["seen_by"] if name.startswith("hourly:")]
    assert ratio_of_medians(world, "write_bandwidth") == pytest.approx(1.0, abs=0.03)


def test_the_probe_of_a_saturated_system_waits_for_that_target() -> None:
    world = with_one("array-degraded", site=replace(CLIENTS_BOUND, bound_by="servers"))
    inside, outside = surveyed(world, world.truth[0]["targets"])
    assert ratio_of_medians(world, "write_bandwidth") == pytest.approx(inside / outside, abs=0.08)


def test_a_target_at_260_megabytes_a_second_takes_54_minutes_and_the_run_its_zero() -> None:
    from tests.incidents.rates import make_rates, phase
    from tests.incidents.system import (
        PROBE_BYTES_PER_OST,
        calm,
        first_state,
        make_system,
        make_weather,
    )

    system = make_system(Spec(seed=1, days=1), CLIENTS_BOUND, 0)
    weather = make_weather(system)
    now = calm(system, weather, 0)
    now.user_write, now.user_read = 0 * now.user_write, 0 * now.user_read
    state = first_state(system)
    share = np.full(system.osts, PROBE_BYTES_PER_OST)
    nodes = np.full(system.nodes, 21.04e9)

    def minutes(limit: float) -> float:
        now.rate_limit[3] = limit
        now.streams[:] = 0.0
        rates = make_rates(system, state, now)
        return phase(system, now, rates, share, nodes, write=True, noise=0.0).duration_s / 60

    assert minutes(np.inf) == pytest.approx(5.3, abs=0.1), "bound by 21 GB/s a node"
    assert minutes(10e9) == minutes(np.inf), "half speed does not show"
    assert minutes(260e6) == pytest.approx(54, abs=1)
    world = with_one("target-silent", variant="crawls", site=CLIENTS_BOUND)
    truth = world.truth[0]
    inside = [
        run for run in hourly(world) if truth["at"] <= run["at"] < (truth["until"] or run["at"])
    ]
    assert {run["status"] for run in inside} == {"unfinished"}


def test_a_server_with_two_servers_targets_gives_each_about_half() -> None:
    world = with_one("failover", site=CLIENTS_BOUND)
    moved = set(world.truth[0]["targets"])
    during = next(one for one in world.snapshots if one["at"] > world.truth[0]["at"])
    server = {during["targets"][ost]["server"] for ost in moved}
    assert len(server) == 1
    shared = [ost for ost in world.site["home"] if during["targets"][ost]["server"] in server]
    assert len(shared) == 4
    inside, outside = surveyed(world, shared)
    assert 0.4 < inside / outside < 0.65


def test_write_amplification_is_the_notes_table_and_their_formula() -> None:
    from tests.incidents.physics import write_amplification

    full = np.array([0.5, 0.75, 0.75, 0.75, 0.85, 0.95])
    dose = np.array([2.1, 2.1, 0.07, 0.017, 0.14, 2.1])
    expected = [1.17, 1.90, 1.58, 1.51, 2.22, 3.35]
    assert write_amplification(full, dose) == pytest.approx(expected)
    # Uniform random overwriting of everything, spare 0.12: 4.348 (formula 1).
    assert write_amplification(full[:1], dose[:1], 1.0) == pytest.approx(4.348, rel=0.01)


def test_throttling_takes_about_ten_percent_where_drives_collect_garbage_and_else_nothing() -> None:
    from tests.incidents.physics import collecting_share, throttled_share

    untrimmed = collecting_share(np.array([1.9]))
    assert throttled_share(untrimmed, 1.0) == pytest.approx(0.90, abs=0.02)
    assert throttled_share(untrimmed, 0.0) == pytest.approx(1.0), "no reads, no throttling"
    assert throttled_share(collecting_share(np.array([1.3])), 1.0) == pytest.approx(1.0)


def test_the_allocator_searches_for_nothing_between_its_two_thresholds_only() -> None:
    from tests.incidents.physics import useless_loops_per_request

    full = np.array([0.70, 0.80, 0.85, 0.90])
    default = useless_loops_per_request(full, (25, 15, 5), old=True, age=1.0)
    assert default == pytest.approx([0, 0.0243, 0.0772, 0])
    mitigated = useless_loops_per_request(full, (25, 25, 5), old=True, age=1.0)
    assert mitigated == pytest.approx([0, 0, 0, 0])


def test_garbage_collection_recovers_after_a_trim_and_shows_in_the_tail() -> None:
    world = with_one("garbage-collection")
    truth = world.truth[0]
    until = truth["until"]
    assert until is not None
    amplification: dict[int, list[float]] = {}
    for one in world.snapshots:
        if truth["at"] <= one["at"] < until:
            values = [
                number(one, ost, "drive_write_amplification{nvme0n1}") for ost in world.site["home"]
            ]
            amplification.setdefault(one["at"].hour, []).append(float(np.mean(values)))
    assert np.mean(amplification[1]) > 1.3 * np.mean(amplification[3]), "trimmed at 02:00"
    tails: dict[bool, list[float]] = {True: [], False: []}
    for run in world.runs:
        if "write_latency:p99" in run["tails"]:
            tails[truth["at"] <= run["at"] < until].append(run["tails"]["write_latency:p99"])
    assert np.median(tails[True]) > 5 * np.median(tails[False])


def test_the_policy_that_guards_the_limit_leaves_few_targets_open() -> None:
    world = with_one("few-targets-open", variant="policy")
    truth = {one["cause"]: one for one in world.truth}
    few = truth["few-targets-open"]
    assert few["mitigation"]
    assert few["because_of"] == "targets-over-limit"
    assert "targets-over-limit" in truth
    during = next(one for one in world.snapshots if (one["at"] - few["at"]).days >= 1)
    open_now = [
        ost for ost in world.site["home"] if during["targets"][ost]["readings"]["create_enabled"]
    ]
    assert 1 < len(open_now) < 6
    fullness = [number(during, ost, "used_bytes") / 133e12 for ost in world.site["home"]]
    assert 0.75 < np.median(fullness) < 0.80, "the limit alone costs little yet"
    assert ratio_of_medians(world, "write_bandwidth") < 0.85


# The scenarios


@pytest.mark.parametrize("cause", CAUSES)
def test_some_instrument_sees_every_cause(cause: Cause) -> None:
    chosen = next(one for one in scenarios(11) if one.spec.name.startswith(f"single/{cause}/"))
    world = make_world(replace(chosen.spec, days=30, snapshot_every_h=6))
    truth = world.truth[0]
    assert truth["cause"] == cause
    if cause == "bad-checksums":
        # Nothing becomes slow: the servers' logs alone tell of it.
        counts = [
            host["readings"].get("checksum_errors_total") or 0
            for one in world.snapshots
            for host in one["hosts"].values()
        ]
        assert any(counts)
        return
    assert truth["seen_by"], truth


@pytest.mark.parametrize("seed", range(5))
def test_trims_can_only_stop_where_somebody_trimmed(seed: int) -> None:
    incidents = (
        Incident("trim-overdue", 12.0, None, 0.7, "stopped"),
        Incident("writeback-throttling", 16.0, None, 0.5, "default"),
    )
    world = make_world(Spec(seed=seed, days=18, incidents=incidents, snapshot_every_h=24))
    trims = [one["at"] for one in world.events if one["kind"] == "trim"]
    assert trims
    assert max(trims) < world.truth[0]["at"]
    assert world.truth[0]["seen_by"]


def test_quiet_worlds_are_quiet() -> None:
    quiet = [one for one in scenarios(11) if one.sort == "quiet"]
    assert len(quiet) == 6
    for scenario in quiet[:3]:
        world = make_world(replace(scenario.spec, snapshot_every_h=24))
        assert [one for one in world.truth if not one["standing"]] == []
        runs = hourly(world)
        assert {run["status"] for run in runs} == {"ok"}
        values = np.array([run["values"]["write_bandwidth"] for run in runs])
        assert 0.02 < values.std() / values.mean() < 0.08
        assert world.events, "trims, purges and notes are normal"


def test_there_is_a_scenario_for_every_form_of_every_cause_and_names_are_unique() -> None:
    found = scenarios(1)
    names = [one.spec.name for one in found]
    assert len(set(names)) == len(names)
    for cause in CAUSES:
        for variant in MECHANISMS[cause].VARIANTS:
            assert f"single/{cause}/{variant}/0" in names
    assert {one.sort for one in found} == {
        "single", "pair", "quiet", "standing", "mitigation", "withheld",
    }  # fmt: skip
    assert scenarios(1) == found
    assert scenarios(2) != found


def test_standing_conditions_are_there_from_the_first_hour() -> None:
    for scenario in scenarios(11):
        if scenario.sort == "standing":
            world = make_world(replace(scenario.spec, days=7, snapshot_every_h=24))
            assert world.truth[0]["standing"]
            assert world.truth[0]["at"] == scenario.spec.start
            assert world.truth[0]["seen_by"]


@pytest.mark.parametrize("cause", ["competing-load", "configuration-change"])
def test_what_is_withheld_is_told_nowhere(cause: Cause) -> None:
    scenario = next(one for one in scenarios(11) if one.spec.name == f"withheld/{cause}")
    world = make_world(replace(scenario.spec, days=28, snapshot_every_h=24))
    assert world.truth[0]["seen_by"]
    if "events" in WITHHELD[cause]:
        assert world.events == []
    if "surveys" in WITHHELD[cause]:
        assert world.surveys == []
    for snapshot in world.snapshots:
        for state in [*snapshot["targets"].values(), *snapshot["hosts"].values()]:
            for name, value in state["readings"].items():
                assert value is None or name.partition("{")[0] not in WITHHELD[cause]
            if "settings" in WITHHELD[cause]:
                assert state["settings"] == {}
