"""``kill -9`` of a real watch on a short schedule: what it kept is whole, and the next goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.support.counts import repetitions, seeded

from trimtab.store.slot import SlotState
from trimtab.store.store import Store

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]

# A real clock and real sleeping; the probe takes a tenth of a second.
WATCH = """
import sys, time
from datetime import UTC, datetime
from tests.support.memory_driver import MemoryDriver
from tests.support.watched import HOURLY, Moving, SimulatedProbe, a_site
from dataclasses import replace
from trimtab.site.path_access import since_boot_s
from trimtab.site.lookup import open_acting_driver
from trimtab.watch.watch import Watch
from trimtab.watch.log import configured
from trimtab.store.store import Store

def now():
    return datetime.now(UTC)

class Probe(SimulatedProbe):
    def __call__(self, probe, context):
        self.clock.at = now()
        time.sleep(0.1)
        return super().__call__(probe, context)

site = a_site(replace(HOURLY, schedule="every 1s"))
with Store.open(sys.argv[1]) as store:
    watch = Watch(site, store, MemoryDriver(), Probe(Moving(), 0.1), clock=now, sleep=time.sleep,
                  elapsed_s=since_boot_s, open_acting=open_acting_driver, log=configured())
    watch.run()
"""


@pytest.mark.parametrize("kills", repetitions(gate=4, soak=60))
def test_a_killed_watch_is_gone_on_with(tmp_path: Path, kills: int) -> None:
    path, chance = tmp_path / "t.db", seeded("killed watch")
    log = (tmp_path / "log").open("w+")
    with log:
        for _ in range(kills):
            watch = subprocess.Popen(
                [sys.executable, "-c", WATCH, path], cwd=ROOT, stderr=log, start_new_session=True
            )
            _wait_for_a_slot(path, watch)
            time.sleep(chance.uniform(0.0, 1.2))
            os.kill(watch.pid, signal.SIGKILL)
            assert watch.wait() == -signal.SIGKILL
    with Store.open(path) as store:
        slots, runs = store.slots("scratch"), store.runs()
        assert store.check(contents=True).problems == ()
    assert len({one.due_at for one in slots}) == len(slots)
    seconds = [one.due_at.timestamp() for one in slots]
    assert seconds == [seconds[0] + number for number in range(len(seconds))]  # none is lost
    ended = [one for one in slots if one.state is not SlotState.STARTED]
    assert len(slots) - len(ended) <= 1
    kept = {one.run for one in slots if one.run}
    assert {run.id for run in runs} == kept
    assert len(runs) >= len(ended)
    for slot in ended:
        if slot.state is SlotState.DONE:
            assert slot.before
            assert slot.after
            assert len(slot.verdicts) == 4
    assert Counter(one.state for one in ended)[SlotState.DONE] >= kills


def _wait_for_a_slot(path: Path, watch: subprocess.Popen[bytes]) -> None:
    """Wait until this process has seen a slot through."""
    holder = f":{watch.pid}:"
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        assert watch.poll() is None
        if path.exists():
            with Store.open(path) as store:
                if any(
                    one.state is SlotState.DONE and holder in (one.holder or "")
                    for one in store.slots("scratch")
                ):
                    return
        time.sleep(0.1)
    raise AssertionError("no slot was seen through")
