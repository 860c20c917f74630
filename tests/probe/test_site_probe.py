"""Probes of a site file: on a real directory, on chosen OSTs, and refused before they write."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.act.world import action
from tests.fake_lustre.state import FakeLustre
from tests.support.codes import raises

from trimtab.base.action import ActionKind
from trimtab.base.error import JobLost, RefusedError, ToolError, TrimtabError, UsageError
from trimtab.base.event import identifier_of, utc_now
from trimtab.base.run import RunStatus
from trimtab.base.site import Checked, Servers, Site, SiteLauncher, SiteProbe, SiteStore
from trimtab.base.site_policy import MetricsExport
from trimtab.probe import site_probe
from trimtab.probe.probe import DIRECTORY_PREFIX, ProbeOutcome, RunContext
from trimtab.probe.site_probe import SiteProbeRunner, demand_of, instrument_of, spec_of
from trimtab.probe.site_validation import validate
from trimtab.probe.write_read import Pinned, Striped, pin, pin_usable
from trimtab.reach import launcher
from trimtab.reach.allocation import HostAllocation, NodeDemand
from trimtab.reach.local_driver import LocalDriver
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


def ran(place: Path, probe: SiteProbe, *further: Any, site: Site | None = None) -> ProbeOutcome:
    """Return what came of a probe of a site on a directory."""
    runner = SiteProbeRunner(site or Site("s", "local", str(place)), _now, *further)
    return runner(probe, RunContext(identifier_of(_now(), "s", "x"), _now(), lambda *_: None))


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
    probe = replace(SMALL, launcher="queue", nodes=2, repetitions=3, timeout_s=100, pending_s=600)
    spec = spec_of(probe, 10**12, 2)
    demand = demand_of(probe, spec, site, "01a1f640-bc00-7000-8000-00000000abcd")
    assert demand == NodeDemand("trimtab-hourly-00000000abcd", 2, 1, 660.0, 600.0, options)


@pytest.mark.system
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not on PATH")
def test_the_ranks_of_an_mpi_job_are_the_tasks(tmp_path: Path) -> None:
    """A real mpirun, when it is here: the report is of all ranks together."""
    probe = replace(SMALL, launcher="mpi", tasks_per_node=2, duration_s=1.0)
    parameters: dict[str, Any] = ran(tmp_path, probe).run.parameters
    phases = [(one["access"], one["tasks"]) for one in parameters["phases"]]
    assert phases == [("write", 2), ("read", 2)]
    assert parameters["job"]["launcher"] == "mpi"
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
    run = ran(tmp_path, SMALL).run
    assert run.status is status
    assert "gone" in str(run.problem)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_a_run_has_the_id_of_its_slot_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run_id = identifier_of(_now(), "s", "probe:hourly")
    left = tmp_path / "below" / f"{DIRECTORY_PREFIX}{run_id}"
    left.mkdir(parents=True)
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
    with pytest.raises(TrimtabError, match="does not exist"):
        ran(tmp_path, replace(SMALL, directory="gone"))


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

    ways: dict[str, Any] = {"execute": fake.execute, "fan_out": fake.fan_out}
    driver = LustreDriver(str(tmp_path), "scratch", servers, **ways)
    monkeypatch.setattr(site_probe, "open_driver", lambda site, clock: driver)
    closings = {name: action(ActionKind.CLOSE, name, 60.0) for name in ("OST0005", "OST0006")}
    site = Site("s", "local", str(tmp_path), servers=servers)
    reach = replace(THIS_HOST, execute=execute)
    probe = replace(SMALL, tasks_per_node=8, target_pinning=True)
    found = ran(tmp_path, probe, None, reach, lambda: closings, site=site)
    parameters: dict[str, Any] = found.run.parameters
    lost, closed = [text for text in parameters["warnings"] if "left out" in text]
    assert lost.startswith("OST0003 ")
    assert "lost: DISCONN" in lost
    assert closed.startswith("OST0005 ")
    assert "Trimtab closed it to new files at" in closed
    assert parameters["spec"]["tasks"] == 6
    assert not any(f"-i {index} " in words for words in asked for index in (3, 5))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_every_target_gets_equal_files_from_each_node(
    nodes: int, per_node: int, count: int
) -> None:
    targets = [f"OST{number:04x}" for number in range(count)]
    try:
        pinned = pin(nodes * per_node, per_node, targets)
    except UsageError:
        assert (nodes * per_node) % count or (per_node % count and count % per_node)
        return
    assert set(Counter(pinned).values()) == {nodes * per_node // count}
    for node in range(nodes):
        assert len(set(Counter(pinned[node * per_node : (node + 1) * per_node]).values())) == 1


class Lfs:
    """Answers as lfs does; a closed OST passes files on to OST 0, with exit code 0."""

    def __init__(self, closed: frozenset[int] = frozenset(), code: int = 0) -> None:
        self.closed, self.code = closed, code
        self.places: dict[str, int] = {}
        self.counts: dict[str, str] = {}

    def __call__(self, argv: Sequence[str], **_: object) -> ProcessResult:
        output = b""
        match argv[1:]:
            case ["setstripe", "-c", "1", "-i", index, *paths]:
                for path in paths:
                    self.places[path] = 0 if int(index) in self.closed else int(index)
            case ["setstripe", "-c", count, path]:
                self.counts[path] = count
            case ["getstripe", "-i", path]:
                output = f"{self.places[path]}\n\n".encode()
            case ["getstripe", "-d", "-c", path]:
                output = f"{self.counts[path]}\n\n".encode()
            case _:
                raise AssertionError(argv)
        return ProcessResult(tuple(argv), output, b"", self.code, None, utc_now(), 0.1, 60.0)


def test_files_are_made_on_their_targets_and_read_back() -> None:
    lfs, made = Lfs(), []
    pinned = pin(4, 4, ("OST0000", "OST000a"))
    Pinned(lambda parent, name: made.append((parent, name)), pinned, lfs)("/scratch/", "p")
    assert made == [("/scratch/", "p")]
    assert lfs.places == {f"/scratch/p/data.{n:08d}": (n % 2) * 10 for n in range(4)}
    Striped(lambda *_: None, -1, lfs)("/scratch", "p")
    assert lfs.counts == {"/scratch/p": "-1"}


def test_a_file_that_went_elsewhere_is_refused() -> None:
    place = Pinned(lambda *_: None, ("OST0000", "OST0001"), Lfs(frozenset({1})))
    with raises(RefusedError, "placement-refused"):
        place("/scratch", "p")


def test_what_lfs_refuses_is_told() -> None:
    with raises(ToolError, "lfs-failed"):
        Striped(lambda *_: None, 4, Lfs(code=22))("/scratch", "p")


@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 12),
    st.sets(st.integers(0, 11), max_size=6),
)
def test_what_is_left_out_takes_its_files_with_it_and_is_said(
    nodes: int, files: int, count: int, lost: set[int]
) -> None:
    targets = [f"OST{number:04x}" for number in range(count)]
    unusable = {f"OST{number:04x}": "it is lost" for number in lost}
    tasks = files * count
    if tasks % nodes:
        return
    try:
        placed, left_out = pin_usable(tasks, nodes, targets, unusable)
    except UsageError:
        return  # uneven with all of them
    except RefusedError:
        assert set(targets) & set(unusable)
        return
    assert not set(placed) & set(unusable)
    assert set(Counter(placed).values()) == {files}
    assert len(placed) % nodes == 0
    named = {text.split()[0] for text in left_out}
    assert named | set(placed) == set(targets)
    assert not named & set(placed)
    if not set(targets) & set(unusable):
        assert placed == pin(tasks, tasks // nodes, targets)
        assert not left_out


def checked(path: Path, what: str, **site: Any) -> list[Checked]:
    """Return what is said of a part of a site that is held against reality."""
    found = validate(
        Site("here", "local", str(path), **site), open_with=lambda one: LocalDriver(one.path)
    )
    return [one for one in found if one.what.startswith(what)]


@pytest.mark.system
@pytest.mark.parametrize(
    ("url", "raw", "told"),
    [
        ("{0}/t.db", None, "{0}/t.db; raw outputs in {0}/raw"),
        ("{0}/t.db", "{0}/else", "{0}/t.db; raw outputs in {0}/else"),
        ("postgresql://db/trimtab", "{0}/else", "raw outputs in {0}/else"),
    ],
)
def test_raw_outputs_have_a_place(tmp_path: Path, url: str, raw: str | None, told: str) -> None:
    store = SiteStore(url.format(tmp_path), raw and raw.format(tmp_path))
    (found,) = checked(tmp_path, "store ", store=store)
    assert found.ok is True
    assert found.detail.endswith(told.format(tmp_path))


@pytest.mark.system
def test_with_postgresql_raw_outputs_stay_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SiteStore("postgresql://me:secret@db/trimtab")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for user, place in ((0, "/var/lib/trimtab/raw"), (1000, f"{tmp_path}/trimtab/raw")):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        (found,) = checked(tmp_path, "store ", store=store)
        assert found.detail.endswith(f"; raw outputs in {place}")
        assert "secret" not in found.detail


@pytest.mark.system
def test_a_probe_whose_directory_is_not_there_is_found_before_its_slot(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    probes = (SiteProbe("a", directory="here"), SiteProbe("b", directory="gone"))
    (found,) = checked(tmp_path, "probe b", probes=probes)
    told = f"{tmp_path}/gone is not a directory with known free space"
    assert (found.ok, found.detail) == (False, told)
    of_a = checked(tmp_path, "probe a", probes=probes)
    assert not any("not a directory" in str(one.detail) for one in of_a)


@pytest.mark.system
@pytest.mark.parametrize(
    ("textfile", "holds", "told"),
    [
        ("", False, "is a directory: name a file in it"),
        ("gone/trimtab.prom", False, "gone is not a directory"),
        ("trimtab.prom", True, "can be written in"),
    ],
)
def test_a_file_of_metrics_that_no_slot_could_write_is_found(
    tmp_path: Path, textfile: str, holds: bool, told: str
) -> None:
    metrics = MetricsExport(None, f"{tmp_path}/{textfile}")
    (found,) = checked(tmp_path, "metrics ", metrics=metrics)
    assert found.ok is holds
    assert told in found.detail
