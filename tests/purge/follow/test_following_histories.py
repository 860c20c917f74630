"""Random histories of a Lustre, followed through kills, losses and races: equal to a fresh listing.

A scan runs while users work; rounds of following are killed between any two durable steps; records
come twice, are lost, and users are dropped. In the end the index is what a listing finds, row by
row, or it says that it has to be scanned again.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from tests.fake_lustre.followed import Follower, Users, in_order, scan, values
from tests.fake_lustre.namespace import BEGAN_NS, FakeNamespace
from tests.support.counts import all_in_soak

from trimtab.purge import rescanning
from trimtab.purge.index import index_view, shard
from trimtab.purge.index.manifest_file import load_manifest


class KilledError(Exception):
    """The process is gone."""


class Killer:
    """Ends a process before or after the n-th durable step from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lustre: FakeNamespace) -> None:
        self.left: int | None = None
        for module, name in (
            (index_view, "write_shard"), (shard, "write_shard"), (index_view, "write_synchronised"),
            (index_view, "save_manifest"), (lustre, "clear"),
        ):  # fmt: skip
            monkeypatch.setattr(module, name, self._killing(getattr(module, name)))

    def _killing(self, step: Callable[..., object]) -> Callable[..., object]:
        def killed(*arguments: object, **keywords: object) -> object:
            self._count()
            answer = step(*arguments, **keywords)
            self._count()
            return answer

        return killed

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise KilledError


def begun(
    lustre: FakeNamespace, index: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Follower, Killer]:
    follower = Follower(lustre, index)
    follower.begin()
    return follower, Killer(monkeypatch, lustre)


def assert_fresh(follower: Follower) -> pl.DataFrame:
    """Require what a listing finds, and no clearing that was refused; return the listing."""
    expected, found = in_order(follower.lustre.listing()), follower.rows()
    assert sorted(set(values(found)) ^ set(values(expected)), key=repr)[:6] == []
    assert found.equals(expected)
    assert follower.lustre.refused == 0
    return expected


@pytest.mark.parametrize("seed", all_in_soak(range(1000), gate=range(10)))
def test_a_followed_index_is_a_fresh_listing_or_says_that_it_is_not(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    lustre = FakeNamespace(rng.choice((1, 2, 3)))
    users = Users(lustre, rng)
    users.act(rng.randrange(60, 400))
    lustre.register()
    busy = rng.random() < 0.7
    scan(lustre, tmp_path, during=lambda: users.act(rng.choice((0, 0, 1, 3))) if busy else None)
    follower, killer = begun(lustre, tmp_path, monkeypatch)
    kills, races = rng.random() < 0.6, rng.random() < 0.5
    losing = rng.random() < 0.2
    lost = False
    lustre.read_maximum = rng.choice((1, 5, 1000))
    lustre.repeat = rng.choice((0, 0, 3))
    if races:
        lustre.meanwhile = lambda: users.act() if rng.random() < 0.2 else None
    for _ in range(rng.randrange(1, 8)):
        users.act(rng.randrange(25))
        if losing and rng.random() < 0.4:
            log = rng.randrange(len(lustre.logs))
            if rng.random() < 0.3:
                lustre.drop(log)
                lost = True
            elif lustre.logs[log].records:
                lost |= lustre.lose(log, rng.choice(lustre.logs[log].records).index)
        killer.left = rng.randrange(12) if kills and rng.random() < 0.7 else None
        with contextlib.suppress(KilledError):
            follower.round()
        killer.left = None
        if rng.random() < 0.1:
            index_view.merge(tmp_path, load_manifest(tmp_path), whole=rng.random() < 0.5, now_s=0)
    lustre.meanwhile, lustre.read_maximum = lambda: None, 1000
    manifest = follower.catch_up()
    if lost and manifest.obstacles:
        return
    assert not manifest.obstacles
    expected = assert_fresh(follower)
    assert manifest.rows == expected.height
    assert manifest.ended_ns >= BEGAN_NS
    merged = index_view.merge(tmp_path, load_manifest(tmp_path), whole=True, now_s=0)
    assert merged.rows == expected.height
    assert follower.rows().equals(expected)


@pytest.mark.parametrize("seed", all_in_soak(range(1000), gate=range(3)))
def test_an_index_is_a_fresh_listing_after_records_of_an_mdt_were_lost(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(rescanning, "BATCH", rng.choice((3, 10, 10**6)))
    lustre = FakeNamespace(rng.choice((2, 2, 3)))
    users = Users(lustre, rng)
    users.act(rng.randrange(60, 300))
    lustre.register()
    lustre.now_ns += 3 * 3600 * 10**9  # what was touched since then is told from what was not
    busy = rng.random() < 0.5
    scan(lustre, tmp_path, during=lambda: users.act(rng.choice((0, 0, 1))) if busy else None)
    follower, killer = begun(lustre, tmp_path, monkeypatch)
    for _ in range(rng.randrange(1, 4)):
        lost = rng.randrange(len(lustre.logs))
        users.act(rng.randrange(20))
        if rng.random() < 0.5:
            follower.catch_up()
        users.act(rng.randrange(20))
        lustre.drop(lost)
        users.act(rng.randrange(1, 20))
        lustre.register(mdt=lost)
        users.act(rng.randrange(10))
        assert follower.round().manifest.obstacles
        racing = rng.choice((0.0, 0.1))
        lustre.meanwhile = partial(_act_sometimes, users, rng, racing)
        while True:
            killer.left = rng.randrange(30) if rng.random() < 0.4 else None
            with contextlib.suppress(KilledError):
                assert follower.rescan().obstacles == ()
                break
        killer.left, lustre.meanwhile = None, lambda: None
    manifest = follower.catch_up()
    assert not manifest.obstacles
    assert_fresh(follower)


def _act_sometimes(users: Users, rng: random.Random, probability: float) -> None:
    if rng.random() < probability:
        users.act()
