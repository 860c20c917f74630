"""A probe of the site file on a real directory, and what is refused before anything is written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.act.world import action
from tests.fake_lustre.state import FakeLustre
from tests.support.codes import raises

from trimtab.base.action import ActionKind
from trimtab.base.error import JobLost, RefusedError, TrimtabError
from trimtab.base.event import identifier_of
from trimtab.base.run import RunStatus
from trimtab.base.site import Servers, Site, SiteLauncher, SiteProbe
from trimtab.probe import site_probe
from trimtab.probe.probe import DIRECTORY_PREFIX, RunContext
from trimtab.probe.site_probe import SiteProbeRunner, demand_of, instrument_of, spec_of
from trimtab.reach import launcher
from trimtab.reach.allocation import HostAllocation, NodeDemand
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.process import ProcessResult
from trimtab.site.path_access import THIS_HOST

MIB = 1024**2
SMALL = SiteProbe(
    "hourly", benchmark="builtin", tasks_per_node=1, block_size_bytes=4 * MIB, duration_s=0.2,
    direct=False,
)  # fmt: skip


def _now() -> datetime:
    return datetime.now(UTC)


def test_a_scheduled_probe_takes_at_most_a_fifth_of_what_is_free() -> None:
    probe = SiteProbe("hourly", tasks_per_node=4, block_size_bytes=100 * MIB)
    assert spec_of(probe, 2000 * MIB, 2).tasks == 4
    with raises(RefusedError, "space-too-small"):
        spec_of(probe, 1999 * MIB, 2)


def test_tasks_are_those_of_all_nodes() -> None:
    spec = spec_of(replace(SMALL, nodes=3, tasks_per_node=4), 10**12, 2)
    assert (spec.tasks, spec.nodes) == (12, 3)


def test_options_and_nodes_end_a_series_only_where_they_are_used() -> None:
    plain, more = spec_of(SMALL, 10**12, 2), spec_of(replace(SMALL, nodes=2), 10**12, 2)
    assert {"nodes", "options", "target_pinning", "processes"}.isdisjoint(
        plain.compared_settings("local")
    )
    assert more.compared_settings("local")["nodes"] == 2


def test_a_launcher_that_does_not_start_a_benchmark_is_refused() -> None:
    site = Site("s", "local", "/", launchers=(SiteLauncher("queue", "slurm"),))
    with raises(RefusedError, "launcher-mismatch"):
        instrument_of(replace(SMALL, launcher="queue", benchmark="fio"), site, THIS_HOST)


def test_a_batch_job_is_asked_for_as_long_as_the_probe_may_take() -> None:
    options = {"partition": "io"}
    site = Site("s", "local", "/", launchers=(SiteLauncher("queue", "slurm", options),))
    probe = replace(
        SMALL, launcher="queue", nodes=2, repetitions=3, timeout_s=100.0, pending_s=600.0
    )
    demand = demand_of(
        probe, spec_of(probe, 10**12, 2), site, "01a1f640-bc00-7000-8000-00000000abcd"
    )
    assert demand == NodeDemand("trimtab-hourly-00000000abcd", 2, 1, 660.0, 600.0, options)


@pytest.mark.system
def test_the_ranks_of_an_mpi_job_are_the_tasks(tmp_path: Path) -> None:
    """A real mpirun, when it is here: the report is of all ranks together."""
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not on PATH")
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), _now)
    probe = replace(SMALL, launcher="mpi", tasks_per_node=2, duration_s=1.0)
    outcome = runner(probe, RunContext(identifier_of(_now(), "s", "mpi"), _now(), lambda *_: None))
    phases = outcome.run.parameters["phases"]
    assert isinstance(phases, list)
    assert [(one["access"], one["tasks"]) for one in phases] == [("write", 2), ("read", 2)]
    assert outcome.run.parameters["job"]["launcher"] == "mpi"  # type: ignore[index]
    assert list(tmp_path.iterdir()) == []


class _LostAllocation(HostAllocation):
    """This host, taken away when the first command is to run."""

    unfinished = False

    def execute(self, *arguments: object, **more: object) -> ProcessResult:
        raise JobLost("the job is gone", state="TIMEOUT" if self.unfinished else "NODE_FAIL")


@pytest.mark.system
@pytest.mark.parametrize(
    ("unfinished", "status"), [(True, RunStatus.UNFINISHED), (False, RunStatus.FAILED)]
)
def test_a_job_whose_time_is_over_counts_as_0_and_one_that_was_lost_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, unfinished: bool, status: RunStatus
) -> None:
    monkeypatch.setattr(_LostAllocation, "unfinished", unfinished)
    monkeypatch.setattr(launcher, "HostAllocation", _LostAllocation)
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), _now)
    outcome = runner(SMALL, RunContext(identifier_of(_now(), "s", "x"), _now(), lambda *_: None))
    assert outcome.run.status is status
    assert "gone" in str(outcome.run.problem)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_a_run_has_the_id_of_its_slot_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    run_id = identifier_of(_now(), "s", "probe:hourly")
    left = tmp_path / "below" / f"{DIRECTORY_PREFIX}{run_id}"
    left.mkdir()
    (left / "of an earlier try").write_bytes(b"x" * 100)
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), _now)
    told: list[str] = []
    context = RunContext(run_id, _now(), lambda text, fraction: told.append(text))
    outcome = runner(replace(SMALL, directory="below"), context)
    assert (outcome.run.id, outcome.run.probe) == (run_id, "hourly")
    assert outcome.run.status in {RunStatus.OK, RunStatus.PARTIAL, RunStatus.FAILED}
    assert [one.label for one in outcome.run.outputs] == ["write 0", "read 0"]
    assert outcome.error is None or outcome.run.problem
    assert told
    assert list((tmp_path / "below").iterdir()) == []


@pytest.mark.system
def test_what_was_broken_off_is_cleaned_up(tmp_path: Path) -> None:
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), _now)
    (tmp_path / f"{DIRECTORY_PREFIX}x").mkdir()
    (tmp_path / f"{DIRECTORY_PREFIX}x" / "data").write_bytes(b"x")
    runner.clean_up(SMALL, "x")
    runner.clean_up(SMALL, "x")  # it is gone, which is fine
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_a_place_that_is_not_there_is_said(tmp_path: Path) -> None:
    runner = SiteProbeRunner(Site("s", "local", str(tmp_path)), _now)
    with pytest.raises(TrimtabError, match="does not exist"):
        runner(replace(SMALL, directory="gone"), RunContext("x", _now(), lambda *_: None))


@pytest.mark.system
def test_a_pinned_probe_leaves_out_what_is_lost_and_what_the_ledger_closed_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeLustre.pair(mount=str(tmp_path))
    fake.target("OST0003").up = False
    for name in ("OST0005", "OST0006"):
        fake.target(name).max_create_count = {"MDT0000": 0, "MDT0001": 0}
    fake.target("OST0006").max_create_count = {}  # a failover has opened it since
    servers = Servers(oss=tuple(one.name for one in fake.servers), sudo=True)
    asked: list[str] = []

    def execute(argv: tuple[str, ...], **options: Any) -> ProcessResult:
        if argv[0] != "lfs":
            return THIS_HOST.execute(argv, **options)
        asked.append(" ".join(argv))
        return fake.execute(argv, **options)

    driver = LustreDriver(
        str(tmp_path), "scratch", servers, execute=fake.execute, fan_out=fake.fan_out
    )
    monkeypatch.setattr(site_probe, "open_driver", lambda site, clock: driver)
    closings = {name: action(ActionKind.CLOSE, name, 60.0) for name in ("OST0005", "OST0006")}
    site = Site("s", "local", str(tmp_path), servers=servers)
    reach = replace(THIS_HOST, execute=execute)
    runner = SiteProbeRunner(site, _now, None, reach, lambda: closings)
    probe = replace(SMALL, tasks_per_node=8, target_pinning=True)
    at = datetime.now(UTC)
    run = runner(probe, RunContext(identifier_of(at, "s", "pinned"), at, lambda *_: None)).run
    parameters: dict[str, Any] = dict(run.parameters)
    left_out = [text for text in parameters["warnings"] if "left out" in text]
    assert [text.split()[0] for text in left_out] == ["OST0003", "OST0005"]
    assert "lost: DISCONN" in left_out[0]
    assert "Trimtab closed it to new files at" in left_out[1]
    assert parameters["spec"]["tasks"] == 6
    assert not any(f"-i {index} " in words for words in asked for index in (3, 5))
