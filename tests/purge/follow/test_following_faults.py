"""What servers and clients do not tell: an index says so, or nobody follows it."""

from __future__ import annotations

from pathlib import Path
from typing import Never

import pytest
from tests.fake_lustre.followed import Follower, caught_up, scan
from tests.fake_lustre.namespace import ROOT, FakeNamespace, Log
from tests.support.codes import raises

from trimtab.base.error import RefusedError, ToolError

HOUR_NS = 3600 * 10**9


@pytest.fixture
def lustre() -> FakeNamespace:
    fake = FakeNamespace(2)
    for mdt in range(2):
        fake.create(ROOT, b"d%d" % mdt, kind="d", mdt=mdt)
    fake.register()
    return fake


def change(lustre: FakeNamespace, mdt: int) -> None:
    lustre.chown(lustre.nodes[ROOT].children[b"d%d" % mdt], 77)


@pytest.mark.parametrize("more", [0, 9])
def test_a_changelog_that_was_begun_anew_is_noticed(
    lustre: FakeNamespace, tmp_path: Path, more: int
) -> None:
    """Its first user has the name of the one of before."""
    follower = caught_up(lustre, tmp_path)
    for _ in range(5):
        change(lustre, 1)
    follower.catch_up()
    lustre.logs[1] = Log()
    change(lustre, 1)
    lustre.register(mdt=1)
    change(lustre, 1)
    assert "recreated" in follower.round().manifest.obstacles[0]
    for _ in range(more):
        change(lustre, 1)
    manifest = follower.catch_up()
    assert manifest.obstacles
    assert manifest.followed is not None
    assert lustre.logs[1].index == manifest.followed.mdts[1].mark
    assert lustre.refused == 0
    assert follower.rescan().obstacles == ()


def test_an_mdt_that_only_servers_know_is_one_that_is_not_followed(
    lustre: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(lustre, tmp_path)
    follower = Follower(lustre, tmp_path)
    users = lustre.users()
    with monkeypatch.context() as context:
        context.setattr(lustre, "mdts", lambda: ["MDT0000"])
        context.setattr(lustre, "users", lambda: users)
        with raises(RefusedError, "changelog-missing"):
            follower.begin()
    follower.begin()
    assert follower.round().manifest.obstacles == ()
    added = {**lustre.users(), "MDT0002": users["MDT0001"]}
    monkeypatch.setattr(lustre, "users", lambda: added)
    assert "added after the scan" in follower.round().manifest.obstacles[0]


def test_an_index_is_as_old_as_what_was_not_read(lustre: FakeNamespace, tmp_path: Path) -> None:
    follower = caught_up(lustre, tmp_path)
    before = follower.round().manifest.ended_ns
    for _ in range(4):
        change(lustre, 1)
    lustre.now_ns += HOUR_NS
    lustre.silent.add("MDT0001")
    assert follower.round().manifest.ended_ns == before
    lustre.silent.clear()
    lustre.read_maximum = 2
    assert follower.round().manifest.ended_ns == before
    assert follower.round().manifest.ended_ns > before


def test_that_a_user_is_gone_is_noticed_where_nothing_can_be_read(
    lustre: FakeNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = caught_up(lustre, tmp_path)

    def read(*_: object) -> Never:
        raise ToolError("the changelog cannot be read", code="changelog-unreachable")

    monkeypatch.setattr(lustre, "read", read)
    with raises(ToolError, "changelog-unreachable"):
        follower.round()
    lustre.drop(0)
    lustre.drop(1)
    assert len(follower.round().manifest.obstacles) == 2
