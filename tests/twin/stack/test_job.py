from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.twin.stack import slow_sharing

from trimtab.twin.stack.client import NodeLimits
from trimtab.twin.stack.job import IorJob, balance, ior_job, place, placed_job

NODE = NodeLimits(20e9, 25e9, 5e9)
PROBE = IorJob(32, 64, 61e9)


def probe(write, *, competing=None, is_open=None, job=PROBE, seed=1, **options):
    write = np.asarray(write, dtype=float)
    return ior_job(
        write,
        np.full(len(write), 40e9),
        np.zeros(len(write)) if competing is None else np.asarray(competing, dtype=float),
        np.ones(len(write), dtype=bool) if is_open is None else is_open,
        clients=NODE,
        job=job,
        rng=np.random.default_rng(seed),
        **options,
    )


RATES = st.floats(1.0, 20.0)


@pytest.mark.calibration
@settings(max_examples=200)
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
        job=IorJob(nodes, each, 10.0),
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


def test_round_robin_leaves_no_ost_more_than_one_file_ahead() -> None:
    is_open = np.ones(50, dtype=bool)
    is_open[[3, 7]] = False
    files = np.bincount(place(1000, is_open, np.random.default_rng(0)), minlength=50)
    assert files[[3, 7]].tolist() == [0, 0]
    assert set(files[is_open]) == {20, 21}


def test_files_over_osts_balance_by_arithmetic() -> None:
    assert balance(2048, 274) == pytest.approx(0.934, abs=5e-4)
    assert balance(2048, 298) == pytest.approx(0.982, abs=5e-4)
    assert balance(298, 298) == 1


@pytest.mark.parametrize(("osts", "share"), [(274, 0.934), (298, 0.982)])
def test_balance_shows_only_where_osts_are_the_limit(osts: int, share: float) -> None:
    narrow = probe(np.full(osts, 1e9))
    assert narrow.limit == "ost"
    assert narrow.write_bytes_per_s == pytest.approx(share * osts * 1e9, rel=1e-3)
    wide = probe(np.full(osts, 15e9))
    assert wide.limit == "client"
    assert wide.write_bytes_per_s == pytest.approx(32 * 20e9)
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
        expected = min(32 * 20e9, 256 * rate)
        assert result.write_bytes_per_s == pytest.approx(expected, rel=2e-3)
        assert (result.slowest_osts.tolist() == [5]) == slower
        assert result.limit == ("ost" if slower else "client")


def test_users_on_one_ost_make_the_whole_job_wait() -> None:
    competing = np.zeros(256)
    competing[9] = 40e9
    streams = np.full(256, 72.0)
    result = probe(np.full(256, 16e9), competing=competing, streams=streams)
    assert result.write_bytes_per_s == pytest.approx(2048 * 16e9 / (8 + 72))
    assert result.slowest_osts.tolist() == [9]
    alone = probe(np.full(256, 16e9), competing=competing / 4, streams=streams)
    assert alone.limit == "client"


def test_a_silent_ost_never_lets_the_job_end() -> None:
    rates = np.full(64, 20e9)
    rates[11] = 0
    result = probe(rates)
    assert (result.write_s, result.write_bytes_per_s) == (np.inf, 0)
    assert result.slowest_osts.tolist() == [11]
    assert np.isfinite(result.read_s)


def test_without_an_open_ost_nothing_is_written() -> None:
    result = probe(np.full(8, 1e9), is_open=np.zeros(8, dtype=bool))
    assert result.limit == "nothing open"
    assert result.write_bytes_per_s == 0


def test_few_open_osts_carry_it_all() -> None:
    is_open = np.zeros(274, dtype=bool)
    is_open[:50] = True
    result = probe(np.full(274, 10e9), is_open=is_open)
    assert result.per_ost_bytes[50:].sum() == 0
    assert result.write_bytes_per_s == pytest.approx(2048 / 41 * 10e9, rel=1e-3)


def test_bytes_are_all_written() -> None:
    result = probe(np.full(97, 10e9))
    assert result.per_ost_bytes.sum() == pytest.approx(2048 * 61e9)
    assert result.write_s == pytest.approx(2048 * 61e9 / result.write_bytes_per_s)


def test_columns_that_stand_for_several_osts_are_these_osts() -> None:
    stands = np.array([3, 5, 2])
    rates = np.array([1e9, 4e9, 2e9])
    classes = probe(rates, columns=stands)
    single = probe(np.repeat(rates, stands))
    assert classes.write_bytes_per_s == single.write_bytes_per_s
    assert classes.per_ost_bytes.sum() == pytest.approx(single.per_ost_bytes.sum())
    assert classes.slowest_osts.tolist() == [0]


def test_weighted_draws_follow_the_weights_and_balance_worse() -> None:
    weights = np.where(np.arange(200) < 100, 3.0, 1.0)
    files = np.bincount(
        place(40_000, np.ones(200, dtype=bool), np.random.default_rng(2), weights), minlength=200
    )
    assert files[:100].sum() / files[100:].sum() == pytest.approx(3, rel=0.05)
    job = IorJob(32, 64, 61e9, placement="weighted")
    even = probe(np.full(274, 1e9)).write_bytes_per_s
    drawn = probe(np.full(274, 1e9), job=job, placement_weights=np.ones(274)).write_bytes_per_s
    assert drawn < 0.8 * even


def test_the_same_draws_give_the_same_job() -> None:
    rates = np.random.default_rng(3).uniform(1e9, 4e9, 274)
    assert probe(rates, seed=4).write_bytes_per_s == probe(rates, seed=4).write_bytes_per_s
    starts = {probe(rates, seed=seed).write_bytes_per_s for seed in range(5)}
    assert len(starts) > 1


def test_a_placed_job_takes_the_files_where_they_are() -> None:
    job = IorJob(2, 2, 1e9)
    result = placed_job(
        np.array([0, 0, 0, 1]), np.array([3e9, 9e9]), np.full(2, 4e9), clients=NODE, job=job
    )
    assert result.write_s == pytest.approx(1.0)
    assert result.read_s == pytest.approx(0.75)
    assert result.per_ost_bytes.tolist() == [3e9, 1e9]


def test_a_job_of_no_bytes_has_no_bandwidth() -> None:
    result = probe(np.full(8, 1e9), job=IorJob(1, 2, 0.0))
    assert (result.write_bytes_per_s, result.write_s) == (0, 0)
