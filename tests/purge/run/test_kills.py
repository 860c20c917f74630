"""A run that is killed at any call, and at any moment: the next one goes on, and all adds up."""

import contextlib
import os
import signal
import time

import pytest
from tests.purge.run.mortal import DIED, Server
from tests.purge.run.world import World
from tests.support.counts import repetitions, seeded

from trimtab.purge.run.journal_line import DoneLine

pytestmark = pytest.mark.system

SMALL = 13
CHANGED = 10
"""Every tenth row was changed since the plan: it stays."""


@pytest.fixture
def server(tmp_path):
    """Yield a way to start runs of small worlds."""
    server = Server(tmp_path, SMALL, rows=4)
    yield server
    server.end()


def world_of(directory, files):
    world = World(directory, files, target=0.001).make()
    for path in world.paths[3::CHANGED]:
        path.write_bytes(b"changed since")
    return world


def check(world, kills):
    """Hold the journal against what is there: every row once, and nothing else gone."""
    fates, there = world.settled(), world.there()
    assert (world.standing().todo, sorted(fates)) == ((), list(range(world.files)))
    assert there == set(range(3, world.files, CHANGED))
    assert list(world.remover.aside.iterdir()) == []
    assert sum(line.files for line in world.lines(DoneLine)) == world.files - len(there)
    # Nothing was begun twice but for what a kill left as it was.
    tried = (world.directory / "unlinks").read_text().split()
    assert len(tried) - len(set(tried)) <= kills * 2


def test_killed_at_every_call_a_run_can_be_gone_on_with(server, tmp_path):
    for die_at in range(1, 400):
        place = f"at-{die_at}"
        world = world_of(tmp_path / place, SMALL)
        server.start(place, die_at)
        code = server.wait()
        if code == 0:
            check(world, 0)
            assert die_at > 60
            return
        assert code == DIED, f"killed at call {die_at}"
        server.start(place)
        assert server.wait() == 0, f"killed at call {die_at}"
        check(world, 1)
    pytest.fail("a run of a few files makes hundreds of calls")


@pytest.mark.parametrize("worlds", repetitions(gate=6, soak=400))
def test_killed_again_and_again_at_any_call_it_adds_up(server, tmp_path, worlds):
    chance = seeded("purge kills at calls")
    for number in range(worlds):
        place = f"again-{number}"
        world = world_of(tmp_path / place, SMALL)
        kills = 0
        while True:
            server.start(place, chance.randrange(1, 40) if kills < 30 else 0)
            code = server.wait()
            if code == 0:
                break
            assert code == DIED, f"world {number}, after {kills} kills"
            kills += 1
        check(world, kills)


@pytest.mark.parametrize("kills_wanted", repetitions(gate=12, soak=200))
def test_killed_at_random_moments_it_adds_up(tmp_path, kills_wanted):
    files = 4000 if kills_wanted <= 20 else 100_000
    kills = 0
    chance = seeded("purge kills at moments")
    world = world_of(tmp_path / "world", files)
    server = Server(tmp_path, files, rows=64, delay_s=5e-5)
    while kills < kills_wanted:
        process = server.start("world")
        time.sleep(chance.uniform(0.0, 0.15))
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        if server.wait() == 0:
            break
        kills += 1
    server.start("world")
    assert server.wait() == 0
    server.end()
    assert kills >= 5
    check(world, kills)
