"""Jobs and what they share: against one that shares anew at each end, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twin.stack import slow_sharing

from trimtab.twin.scenario import ProbeLoad
from trimtab.twin.simulation.job import NodeLimits, Resource, fair_share, max_min, placed_job

# Shares


CAPACITIES = st.floats(0.1, 100.0)


@st.composite
def shared(draw: st.DrawFn) -> tuple[Resource, Resource, np.ndarray, list, list[float]]:
    nodes, osts, flows = (draw(st.integers(1, 5)) for _ in range(3))
    flows *= 3
    node = draw(st.lists(st.integers(0, nodes - 1), min_size=flows, max_size=flows))
    ost = draw(st.lists(st.integers(0, osts - 1), min_size=flows, max_size=flows))
    node_rates = draw(st.lists(CAPACITIES, min_size=nodes, max_size=nodes))
    ost_rates = draw(st.lists(CAPACITIES, min_size=osts, max_size=osts))
    demand = draw(st.lists(st.floats(0.01, 50) | st.just(0.0), min_size=osts, max_size=osts))
    weight = draw(st.lists(st.floats(0.5, 9), min_size=osts, max_size=osts))
    limits = draw(st.lists(CAPACITIES, min_size=flows, max_size=flows))
    slow_nodes = [slow_sharing.Shared(rate) for rate in node_rates]
    slow_osts = [
        slow_sharing.Shared(*values) for values in zip(ost_rates, demand, weight, strict=True)
    ]
    paths = [[slow_nodes[n], slow_osts[o]] for n, o in zip(node, ost, strict=True)]
    return (
        Resource(np.array(node), np.array(node_rates)),
        Resource(np.array(ost), np.array(ost_rates), np.array(demand), np.array(weight)),
        np.array(limits),
        paths,
        limits,
    )


@pytest.mark.calibration
@given(shared())
def test_filling_all_at_once_is_filling_step_by_step(case) -> None:
    nodes, osts, limits, paths, slow_limits = case
    assert max_min([nodes, osts], limits) == pytest.approx(
        slow_sharing.filled(paths, slow_limits), rel=1e-6
    )


@pytest.mark.calibration
@given(shared())
def test_nobody_can_get_more_without_taking_from_who_has_less(case) -> None:
    nodes, osts, limits, _, _ = case
    alone = Resource(osts.passed, osts.capacity)
    rates = max_min([nodes, alone], limits)
    for flow, rate in enumerate(rates):
        if rate >= limits[flow] * (1 - 1e-9):
            continue
        tight = False
        for kind in (nodes, alone):
            here = kind.passed == kind.passed[flow]
            full = rates[here].sum() >= kind.capacity[kind.passed[flow]] * (1 - 1e-6)
            tight |= bool(full and rate >= rates[here].max() * (1 - 1e-6))
        assert tight


def test_two_flows_on_a_narrow_link_leave_the_wide_one_to_the_third() -> None:
    wide = Resource(np.array([0, 0, 0]), np.array([10.0]))
    narrow = Resource(np.array([0, 0, 1]), np.array([2.0, 100.0]))
    assert max_min([wide, narrow], np.full(3, np.inf)).tolist() == [1.0, 1.0, 8.0]


def test_what_carries_nothing_gives_nothing_and_ends() -> None:
    dead = Resource(np.array([0, 1]), np.array([0.0, 4.0]))
    assert max_min([dead], np.full(2, np.inf)).tolist() == [0.0, 4.0]


def test_flows_that_nothing_limits_are_without_limit() -> None:
    assert max_min([Resource(np.array([0]), np.array([np.inf]))], np.array([np.inf])) == [np.inf]


@pytest.mark.parametrize(
    ("demand", "weight", "share"),
    [(0.0, 1.0, 5.0), (2.0, 1.0, 4.0), (20.0, 2.0, 2.5), (20.0, 8.0, 1.0)],
)
def test_others_take_what_they_ask_or_their_shares(
    demand: float, weight: float, share: float
) -> None:
    got = fair_share(np.array([10.0]), np.array([2.0]), np.array([demand]), np.array([weight]))
    assert got.tolist() == [share]


# Jobs


NODE = NodeLimits(20e9, 25e9, 5e9)


def load(nodes: int, each: int, bytes_per_task: float) -> ProbeLoad:
    """Return a probe whose tasks, so many on each node, write a file each."""
    size = nodes * each * bytes_per_task
    return ProbeLoad("hourly", "ior", "hourly", nodes, each, bytes_written=size)


PROBE = load(32, 64, 61e9)


def probe(write, *, job=PROBE, **options):
    """Return what a job whose files go around the OSTs gets."""
    write = np.asarray(write, dtype=float)
    around, read = np.arange(job.tasks) % len(write), np.full(len(write), 40e9)
    return placed_job(around, write, read, clients=NODE, job=job, **options)


RATES = st.floats(1.0, 20.0)


@pytest.mark.calibration
@given(st.data())
def test_a_job_ends_when_one_that_shares_anew_at_each_end_does(data: st.DataObject) -> None:
    nodes, osts = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    each = data.draw(st.integers(1, 3))
    ost = data.draw(
        st.lists(st.integers(0, osts - 1), min_size=nodes * each, max_size=nodes * each)
    )
    of_node = data.draw(RATES)
    rates = np.array(data.draw(st.lists(RATES, min_size=osts, max_size=osts)))
    asked = st.floats(0.01, 30) | st.just(0.0)
    users = np.array(data.draw(st.lists(asked, min_size=osts, max_size=osts)))
    streams = np.ceil(users)
    got = placed_job(
        np.array(ost),
        rates,
        rates * 2,
        clients=NodeLimits(of_node, of_node, 6.0),
        job=load(nodes, each, 10.0),
        competing=users,
        streams=streams,
    )
    slow_nodes = [slow_sharing.Shared(of_node) for _ in range(nodes)]
    slow_osts = [slow_sharing.Shared(*v) for v in zip(rates, users, streams, strict=True)]
    paths = [[slow_nodes[n // each], slow_osts[o]] for n, o in enumerate(ost)]
    ends = slow_sharing.ends(paths, [6.0] * len(ost), 10.0)
    assert got.write_s == pytest.approx(max(ends), rel=1e-6)
    last = {o for o, end in zip(ost, ends, strict=True) if end >= max(ends) * (1 - 1e-7)}
    assert last <= set(got.slowest_osts.tolist())
    plain = [slow_sharing.Shared(2 * rate) for rate in rates]
    alone = [[slow_nodes[n // each], plain[o]] for n, o in enumerate(ost)]
    assert got.read_s == pytest.approx(max(slow_sharing.ends(alone, [6.0] * len(ost), 10.0)))


@pytest.mark.parametrize(("osts", "share"), [(274, 0.934), (298, 0.982)])
def test_balance_shows_only_where_osts_are_the_limit(osts: int, share: float) -> None:
    narrow = probe(np.full(osts, 1e9))
    assert narrow.limit == "ost"
    assert narrow.write_bytes_per_s == pytest.approx(share * osts * 1e9, rel=1e-3)
    wide = probe(np.full(osts, 15e9))
    assert (wide.limit, wide.write_bytes_per_s) == ("client", pytest.approx(32 * 20e9))
    assert len(wide.slowest_osts) == osts


def test_the_probe_does_not_see_an_ost_at_half_speed() -> None:
    rates = np.full(274, 20e9)
    rates[5] = 10e9
    assert probe(rates).write_bytes_per_s == pytest.approx(32 * 20e9)


def test_an_ost_hurts_from_where_its_files_are_slower_than_their_node() -> None:
    """Eight files at 20 / 64 GB/s each: 2.5 GB/s."""
    for rate, slower in ((2.6e9, False), (2.4e9, True), (0.26e9, True)):
        rates = np.full(256, 20e9)
        rates[5] = rate
        result = probe(rates)
        assert result.write_bytes_per_s == pytest.approx(min(32 * 20e9, 256 * rate), rel=2e-3)
        assert (result.slowest_osts.tolist() == [5]) == slower
        assert result.limit == ("ost" if slower else "client")


def test_users_on_one_ost_make_the_whole_job_wait() -> None:
    competing = np.zeros(256)
    competing[9] = 40e9
    streams = np.full(256, 72.0)
    result = probe(np.full(256, 16e9), competing=competing, streams=streams)
    assert result.write_bytes_per_s == pytest.approx(2048 * 16e9 / (8 + 72))
    assert result.slowest_osts.tolist() == [9]
    assert probe(np.full(256, 16e9), competing=competing / 4, streams=streams).limit == "client"


def test_a_silent_ost_never_lets_the_job_end() -> None:
    rates = np.full(64, 20e9)
    rates[11] = 0
    result = probe(rates)
    assert (result.write_s, result.write_bytes_per_s) == (np.inf, 0)
    assert result.slowest_osts.tolist() == [11]
    assert np.isfinite(result.read_s)


def test_a_placed_job_takes_the_files_where_they_are() -> None:
    job = load(2, 2, 1e9)
    result = placed_job(
        np.array([0, 0, 0, 1]), np.array([3e9, 9e9]), np.full(2, 4e9), clients=NODE, job=job
    )
    assert (result.write_s, result.read_s) == (pytest.approx(1.0), pytest.approx(0.75))


def test_a_job_of_no_bytes_has_no_bandwidth() -> None:
    result = probe(np.full(8, 1e9), job=load(1, 2, 0.0))
    assert (result.write_bytes_per_s, result.write_s) == (0, 0)
