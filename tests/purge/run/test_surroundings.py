"""The world as it is on this host, in a run over real files with nothing made up but the plan."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.purge.run.lines import plan_line
from tests.purge.run.world import (
    CODES,
    FILE_BYTES,
    SlowRemover,
    Table,
    file_system,
    policy,
    situation,
    with_plan,
)

from trimtab.purge import root_facts
from trimtab.purge.purge_policy import Guards
from trimtab.purge.run.exchange import StopReason
from trimtab.purge.run.next_batch import PaceLimits
from trimtab.purge.run.next_step import RunTerms
from trimtab.purge.run.run_account import RunJob
from trimtab.purge.run.run_guard import objections
from trimtab.purge.run.runner import run
from trimtab.purge.run.situation import ServerClock, Situation
from trimtab.purge.run.surroundings import AskedSite, HostSurroundings

OWNER = os.geteuid()


class Host:
    """A root with files, an allow-list and a clock that is turned by hand."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.root.mkdir()
        self.stop = directory / "stop"
        allowed = directory / "roots"
        allowed.write_text(f"{self.root}\n")
        allowed.chmod(0o644)
        self.journals = directory / "journals"
        self.paths = [self.root / f"file-{row}" for row in range(30)]
        for path in self.paths:
            path.write_bytes(b"x" * FILE_BYTES)
        facts = root_facts.root_facts(str(self.root))
        good = situation()
        self.at_s = good.now_s
        self.policy = policy(
            root=str(self.root), guards=Guards(allow_list=str(allowed), kill_switch=str(self.stop))
        )
        assert facts.file_system is not None
        self.planned = with_plan(
            good,
            file_system=file_system(facts.file_system, str(self.root)),
            index={"atime_settings": facts.atime_settings},
            horizon={"target": 1e-9},
        ).planned

    def surroundings(
        self, *, canary: bool = False, site: AskedSite | None = None
    ) -> HostSurroundings:
        good = situation()
        return HostSurroundings(
            replace(self.policy, target=1e-9),
            self.planned,
            good.arming,
            journals=self.journals,
            canary=canary,
            site=site or AskedSite(),
            owner=OWNER,
            clock=lambda: self.at_s,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    def guards(self, now: Situation) -> list[str]:
        return [objection.guard for objection in objections(now)]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_what_is_here_is_collected_and_a_canary_only_where_it_is_wanted(host):
    now = host.surroundings().situation()
    assert host.guards(now) == ["canary", "clocks"]
    now = host.surroundings(canary=True).situation()
    # The canary's clock is the real one, and this one stands still somewhere else.
    assert host.guards(now) == ["clocks"]
    assert now.canary is not None
    assert now.canary.trouble is None


def test_what_servers_know_is_asked_of_them(host):
    site = AskedSite(lambda: 7, tuple, lambda: "a trash can is on")
    surroundings = host.surroundings(site=site)
    assert "space" in host.guards(surroundings.situation())
    usage, in_flight = surroundings.measure()
    assert (usage.fullness > 0, in_flight) == (True, 7)
    assert host.surroundings().measure()[1] is None


def test_a_site_is_told_before_every_batch_that_files_will_be_deleted(host):
    told = []
    site = AskedSite(
        lambda: told.append("asked") or 0,
        lambda: told.append("clocks") or (),
        deleting=lambda: told.append("deleting"),
    )
    surroundings = host.surroundings(site=site)
    surroundings.situation()  # before the run: clocks are asked for once
    surroundings.measure()
    surroundings.measure()
    surroundings.situation()
    surroundings.measure()
    assert told == ["deleting", "clocks", "asked", "asked", "deleting", "asked"]


def test_a_clock_of_a_server_that_is_wrong_holds_a_run_back(host):
    far_s = host.at_s + 3600.0
    wrong = ServerClock("oss3", far_s, host.at_s, host.at_s + 1.0)
    surroundings = host.surroundings(canary=True, site=AskedSite(clocks=lambda: (wrong,)))
    now = surroundings.situation()
    assert now.canary is not None
    # The canary's clock is the real one; here it is made the one that stands still.
    good = replace(now.canary, file_system_at_s=host.at_s, before_s=host.at_s, after_s=host.at_s)
    (objection,) = objections(replace(now, canary=good))
    assert (objection.guard, "oss3 by" in objection.reason) == ("clocks", True)


def test_the_kill_switch_is_seen_at_once_and_the_mount_within_a_second(host):
    surroundings = host.surroundings()
    surroundings.situation()
    host.stop.touch()
    assert "kill-switch" in host.guards(surroundings.situation())
    host.stop.unlink()
    host.root.rename(host.root.with_name("away"))
    host.root.mkdir()
    assert "mount" not in host.guards(surroundings.situation())
    host.at_s += 1.0
    now = surroundings.situation()
    assert "mount" in host.guards(now)
    assert "not the directory it was when the run began" in (now.root.trouble or "")


def test_the_root_that_was_looked_at_is_what_a_run_goes_by(host):
    surroundings = host.surroundings()
    assert surroundings.root is None
    surroundings.situation()
    assert surroundings.root is not None
    state = host.root.stat()
    host.root.rename(host.root.with_name("away"))
    host.root.mkdir()
    held = os.fstat(surroundings.root)
    assert (held.st_dev, held.st_ino) == (state.st_dev, state.st_ino)
    surroundings.close()
    assert surroundings.root is None


def test_without_a_root_the_rest_is_still_told(host):
    host.policy = replace(host.policy, root=str(host.root / "none"))
    now = host.surroundings(canary=True).situation()
    assert {"mount", "usage", "canary"} <= set(host.guards(now))


def test_a_run_over_real_files(host):
    table = Table(np.full(30, OWNER, np.uint32), np.full(30, FILE_BYTES, np.uint64))
    job = RunJob(
        id="run-1",
        plan=plan_line("plan-1", "", 30, str(host.root), "here"),
        horizon_s=0.0,
        terms=lambda _now: RunTerms(False, 1e-9, pace=PaceLimits(rows_min=4, rows_max=8)),
        remover=lambda: cast("Any", SlowRemover(host.paths, host.root / "aside")),
        restorer=lambda: cast("Any", SlowRemover(host.paths, host.root / "aside", restoring=True)),
        codes=CODES,
        listing=table,
        surroundings=host.surroundings(),
        journals=host.journals,
        owner=OWNER,
    )
    result = run(job, apply=False)
    assert (result.reason, result.files) == (StopReason.EXHAUSTED, 30)
    assert result.objections == ()
