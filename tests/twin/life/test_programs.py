"""A node of the twin: what IOR, the generator and lfs do there, and where files go."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.codes import raises
from tests.support.small_twin import START, small_life, small_scenario

from trimtab.base.error import NeverStarted, RefusedError, ToolError, UsageError
from trimtab.base.run import Access, ProbeSpec, RunStatus
from trimtab.base.snapshot import NotAvailable
from trimtab.formats import ioload, ior
from trimtab.formats.format_table import phases_of
from trimtab.formats.measurement import Measurement
from trimtab.formats.phase import PhaseRequest
from trimtab.probe.write_read import Pinned
from trimtab.reach.allocation import Allocation, NodeDemand
from trimtab.reach.process import ProcessResult
from trimtab.twin.guest import Guest, NoSpace
from trimtab.twin.probe_output import command_of
from trimtab.twin.scenario import Fault, ProbeLoad, Scenario
from trimtab.twin.twin_driver import TwinDriver
from trimtab.twin.twin_site import twin_reach

MIB = 2**20
NAME = ".trimtab-probe-x"
WHERE = f"/twin/{NAME}"
SPEC = ProbeSpec("p", "ior", 4, MIB, 32 * MIB, 1, 2.0, nodes=2)


def a_driver(**changes: Any) -> TwinDriver:
    driver = TwinDriver(small_life(**changes), "/twin")
    driver.life.pass_by(7200.0)
    driver.guest.make_directory("/twin", NAME)
    return driver


def allocated(driver: TwinDriver, name: str, nodes: int, each: int) -> Allocation:
    launcher = driver.launcher(name)
    assert not isinstance(launcher, NotAvailable)
    return launcher.allocate(NodeDemand("job", nodes=nodes, tasks_per_node=each))


@pytest.fixture
def driver() -> TwinDriver:
    return a_driver()


def run(driver: TwinDriver, *argv: str, timeout_s: float = 600.0) -> ProcessResult:
    with allocated(driver, "slurm", 2, 2) as allocation:
        return allocation.execute(argv, tasks=4, timeout_s=timeout_s)


def measured(
    driver: TwinDriver, access: Access, spec: ProbeSpec = SPEC, name: str = "ior"
) -> Measurement:
    """What a probe reads of a command that it builds itself, as it does on a real file system."""
    benchmark = phases_of(name)
    argv = benchmark.command(PhaseRequest(spec, access, name_of(driver, name), WHERE))
    result = run(driver, *argv)
    assert result.problem is None, result.stderr
    return benchmark.parse(result.raw_output("command"), repetition=0, ordinal=0)


def name_of(driver: TwinDriver, name: str) -> str:
    tool = twin_reach(driver).find_tool(name, lambda argv: pytest.fail("nobody is asked"))
    assert not isinstance(tool, NotAvailable)
    return tool.path


def used(driver: TwinDriver) -> np.ndarray:
    return driver.life.simulation.state.used_bytes.copy()


@pytest.mark.parametrize("name", ["ior", "builtin"])
@pytest.mark.parametrize("direct", [True, False])
def test_a_probe_of_fixed_time_is_measured(driver: TwinDriver, name: str, direct: bool) -> None:
    before = used(driver)
    spec = replace(SPEC, benchmark=name, direct=direct, processes=True)
    for access in ("write", "read"):
        began = driver.clock()
        found = measured(driver, access, spec, name)
        assert found.status is RunStatus.OK, found.problem
        (sample,) = [one for one in found.samples if one.metric == f"{access}_bandwidth"]
        took_s = (driver.clock() - began).total_seconds()
        assert 2.0 < took_s < 2.1
        (phase,) = found.phases
        assert sample.value == pytest.approx((phase.moved_bytes or 0) / took_s, rel=0.03)
    # What goes around a file again stays within it.
    assert used(driver).sum() - before.sum() == 4 * 32 * MIB
    assert [*driver.guest.file_sizes(f"/twin/{NAME}").values()] == [32 * MIB] * 4
    assert driver.guest.remove("/twin", NAME).removed
    assert np.array_equal(used(driver), before)


def test_the_command_of_a_site_file_writes_reads_and_leaves_nothing(driver: TwinDriver) -> None:
    probe = ProbeLoad("hourly", "ior", "every 1h", 2, 2, bytes_written=4.0 * 32 * MIB)
    argv = [word.replace("{directory}", WHERE) for word in command_of(probe)]
    before, began = used(driver), driver.clock()
    written = driver.life.simulation.state.client_bytes_written_total.copy()
    found = ior.parse(run(driver, *argv).raw_output("command"), ordinal=0)
    assert found.status is RunStatus.OK
    assert {one.metric for one in found.samples} >= {"write_bandwidth", "read_bandwidth"}
    assert sum(phase.elapsed_s or 0.0 for phase in found.phases) == pytest.approx(
        (driver.clock() - began).total_seconds(), abs=1e-4
    )
    # IOR removes its files unless it is told to keep them.
    assert np.array_equal(used(driver), before)
    assert driver.guest.file_sizes(WHERE) == {}
    more = driver.life.simulation.state.client_bytes_written_total - written
    assert more.sum() == 4 * 32 * MIB


def test_writing_again_writes_the_drives_and_takes_no_more_room(driver: TwinDriver) -> None:
    paths = {f"{WHERE}/data.{task:08d}": 8.0 * MIB for task in range(4)}
    driver.guest.write(paths)
    after, osts = used(driver), [driver.guest.file(path).osts for path in paths]
    written = driver.life.simulation.state.client_bytes_written_total.copy()
    driver.guest.write({path: 4.0 * MIB for path in paths})
    assert np.array_equal(used(driver), after)
    assert [driver.guest.file(path).osts for path in paths] == osts
    assert set(driver.guest.file_sizes(WHERE).values()) == {8 * MIB}
    more = driver.life.simulation.state.client_bytes_written_total - written
    assert more.sum() == 16 * MIB


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-a", "POSIX", "-w", "-F", "-Z", "-o", f"{WHERE}/data"), "'-Z'"),
        (("-a", "MPIIO", "-w", "-F", "-o", f"{WHERE}/data"), "-a MPIIO"),
        (("-w", "-o", f"{WHERE}/data"), "only a file per task"),
        (("-w", "-F", "-t", "many", "-o", f"{WHERE}/data"), "-t many"),
        (("-w", "-F"), "-o"),
        (("-w", "-F", "-o", "/twin/nowhere/data"), "/twin/nowhere does not exist"),
        (("-r", "-F", "-o", f"{WHERE}/data"), "does not exist"),
    ],
)
def test_what_ior_is_not_played_with_is_named(
    driver: TwinDriver, words: tuple[str, ...], said: str
) -> None:
    before = used(driver)
    result = run(driver, "ior", *words)
    assert result.exit_code == 1
    assert said in result.stderr.decode()
    assert np.array_equal(used(driver), before)


def test_reading_past_the_end_of_a_file_fails(driver: TwinDriver) -> None:
    driver.guest.write({f"{WHERE}/data.{task:08d}": 8.0 * MIB for task in range(4)})
    words = ("ior", "-r", "-F", "-k", "-b", str(16 * MIB), "-t", str(MIB), "-o", f"{WHERE}/data")
    result = run(driver, *words)
    assert result.exit_code == 1
    assert b"is shorter than the read" in result.stderr


def test_what_is_not_installed_is_said(driver: TwinDriver) -> None:
    with raises(ToolError, "program-missing"):
        run(driver, "/usr/bin/fio", "--version")
    reach = twin_reach(driver)
    assert isinstance(reach.find_tool("fio", lambda argv: pytest.fail("asked")), NotAvailable)
    assert [reach.which(name) for name in ("fio", "ior")] == [None, "/usr/bin/ior"]


def test_caches_are_dropped_with_sudo_and_without(driver: TwinDriver) -> None:
    for sudo in ((), ("sudo", "-n")):
        assert run(driver, *sudo, "sysctl", "-q", "-w", "vm.drop_caches=3").exit_code == 0


def test_the_versions_that_are_told_are_those_that_are_used(driver: TwinDriver) -> None:
    execute = driver.programs.execute

    def ask(argv: tuple[str, ...]):
        return execute(argv, timeout_s=5.0).raw_output("version")

    for name, told in (("ior", ior.version), ("builtin", ioload.version)):
        tool = twin_reach(driver).find_tool(name, ask)
        assert not isinstance(tool, NotAvailable)
        assert told(ask, tool.path) == tool.version


# Where files go


def pinned(driver: TwinDriver, targets: tuple[str, ...]) -> Pinned:
    return Pinned(driver.guest.make_directory, targets, driver.programs.execute)


def test_pinned_files_lie_where_they_were_asked_for_also_once_written(driver: TwinDriver) -> None:
    driver.guest.remove("/twin", NAME)
    targets = ("OST0002", "OST0000", "OST0002", "OST0000")
    pinned(driver, targets)("/twin", NAME)
    before = used(driver)
    measured(driver, "write", replace(SPEC, target_pinning=True))
    assert (used(driver) - before).tolist() == [64 * MIB, 0, 64 * MIB, 0]
    for task, target in enumerate(targets):
        assert driver.guest.targets(f"{WHERE}/data.{task:08d}") == (target,)


def test_a_closed_target_passes_a_file_on_and_pinning_notices(driver: TwinDriver) -> None:
    driver.guest.remove("/twin", NAME)
    driver.set_creation("OST0001", False)
    driver.life.pass_by(3600.0)
    with pytest.raises(RefusedError, match="placed on OST0002"):
        pinned(driver, ("OST0000", "OST0001"))("/twin", NAME)


def test_files_go_around_the_open_targets_alike(driver: TwinDriver) -> None:
    driver.set_creation("OST0003", False)
    driver.life.pass_by(3600.0)
    files = driver.guest.touch([f"{WHERE}/{number}" for number in range(9)])
    assert np.bincount([file.osts[0] for file in files], minlength=4).tolist() == [3, 3, 3, 0]


def test_uneven_targets_get_files_by_their_room() -> None:
    driver = a_driver(placement=replace(small_scenario().placement, kind="weighted"))
    big = f"{WHERE}/big"
    driver.guest.create(big, first=0, stripe_count=1)
    driver.guest.write({big: 1000.0 * MIB})
    files = driver.guest.touch([f"{WHERE}/{number}" for number in range(400)])
    counts = np.bincount([file.osts[0] for file in files], minlength=4)
    assert 0 < counts[0] < 0.6 * counts[1:].min()


def test_stripes_spread_a_file_evenly(driver: TwinDriver) -> None:
    execute = driver.programs.execute
    before = used(driver)
    execute(("lfs", "setstripe", "-c", "-1", WHERE), timeout_s=5.0)
    assert execute(("lfs", "getstripe", "-d", "-c", WHERE), timeout_s=5.0).stdout == b"-1\n"
    driver.guest.write({f"{WHERE}/wide": 8.0 * MIB})
    assert (used(driver) - before).tolist() == [2 * MIB] * 4
    assert len(driver.guest.targets(f"{WHERE}/wide")) == 4


def test_lfs_says_what_it_does_not_play() -> None:
    result = a_driver().programs.execute(("lfs", "migrate", WHERE), timeout_s=5.0)
    assert (result.exit_code, b"lfs migrate" in result.stderr) == (1, False)
    assert b"does not simulate migrate" in result.stderr


# What goes wrong


def test_no_space_where_all_are_closed_is_what_a_run_meets(driver: TwinDriver) -> None:
    for number in range(4):
        driver.set_creation(f"OST{number:04x}", False)
    driver.life.pass_by(3600.0)
    before = used(driver)
    result = run(driver, "ior", "-w", "-F", "-o", f"{WHERE}/data")
    assert result.exit_code == 134
    assert ior.parse(result.raw_output("command"), ordinal=0).status is not RunStatus.OK
    assert np.array_equal(used(driver), before)


def test_no_space_where_an_ost_is_full_and_nothing_is_written(driver: TwinDriver) -> None:
    before = used(driver)
    with pytest.raises(NoSpace, match="No space left on device"):
        driver.guest.write({f"{WHERE}/huge": 3.0 * 2**30})
    assert np.array_equal(used(driver), before)
    words = ("ior", "-w", "-F", "-t", str(MIB), "-b", str(3 * 2**30), "-o", f"{WHERE}/data")
    assert run(driver, *words).exit_code == 134
    assert np.array_equal(used(driver), before)


def faulty(kind: str, *osts: int) -> TwinDriver:
    hour = timedelta(hours=1)
    fault = Fault(kind=kind, at=START + hour, until=START + 6 * hour, osts=osts)  # type: ignore[arg-type]
    driver = a_driver(faults=(fault,))
    driver.life.pass_by(3600.0)
    return driver


def test_a_silent_ost_hangs_a_run_until_its_time_is_over() -> None:
    driver = faulty("silent-ost", 1)
    began = driver.clock()
    words = ("ior", "-w", "-r", "-F", "-t", str(MIB), "-b", str(MIB), "-o", f"{WHERE}/data")
    result = run(driver, *words, timeout_s=90.0)
    assert (result.timed_out, result.exit_code, result.elapsed_s) == (True, None, 90.0)
    assert driver.clock() - began == timedelta(seconds=90)
    assert ior.parse(result.raw_output("command"), ordinal=0).status is not RunStatus.OK
    fixed_time = ior.command(PhaseRequest(SPEC, "write", "ior", WHERE))
    assert run(driver, *fixed_time, timeout_s=60.0).timed_out
    driver.life.pass_by(6 * 3600.0)
    assert run(driver, *words, timeout_s=90.0).exit_code == 0


def test_without_names_no_job_begins() -> None:
    driver = faulty("name-service")
    with raises(NeverStarted, "nodes-unreachable"):
        run(driver, "ior", "-w", "-F", "-o", f"{WHERE}/data")
    driver.life.pass_by(6 * 3600.0)
    assert run(driver, "ior", "-w", "-F", "-o", f"{WHERE}/data").exit_code == 0


def test_more_nodes_than_there_are_is_refused(driver: TwinDriver) -> None:
    there = driver.life.scenario.clients.nodes
    with pytest.raises(UsageError, match=str(there)):
        allocated(driver, "mpi", there + 1, 1)


def test_the_facts_of_an_allocation_are_in_the_times_of_the_twin(driver: TwinDriver) -> None:
    with allocated(driver, "slurm", 2, 1) as allocation:
        driver.life.pass_by(1800.0)
    assert allocation.facts["node_hours"] == pytest.approx(1.0)
    assert allocation.facts["ended_at"] == driver.clock().isoformat()


# The mount


def test_paths_are_described() -> None:
    guest = a_driver().guest
    assert guest.describe("/twin/").kind == "directory"
    assert guest.describe(WHERE).exists
    assert not guest.describe("/twin/else").exists
    for wrong in ("", "a\0b"):
        with pytest.raises(UsageError):
            guest.describe(wrong)


def test_directories_of_probes_alone_are_made() -> None:
    guest = a_driver().guest
    with pytest.raises(RefusedError):
        guest.make_directory("/twin", "home")
    with pytest.raises(RefusedError):
        guest.make_directory("/twin", NAME)
    with pytest.raises(UsageError):
        guest.make_directory("/elsewhere", NAME)
    assert guest.remove("/twin", ".trimtab-probe-none").existed is False
    assert guest.list_names("/twin", ".trimtab") == (NAME,)


def test_the_space_is_that_of_the_simulation() -> None:
    guest = a_driver().guest
    before = guest.space()
    guest.write({f"{WHERE}/data": 64.0 * MIB})
    after = guest.space()
    assert before.capacity_bytes == 4 * 2 * 2**30
    assert after.used_bytes - before.used_bytes == pytest.approx(64 * MIB, abs=4096)
    assert 0 < after.inodes_free <= after.inodes


# Like the scenario's own probes


def both_ways(scenario: Scenario, hours: int) -> tuple[np.ndarray, np.ndarray]:
    """Writes of a scenario's own probe, and of the same command as a guest, each hour."""
    probe = scenario.probes[0]
    own = TwinDriver(small_life(probes=(probe,)), "/twin")
    own.life.watched_from = START + timedelta(days=30)
    own.life.simulation = type(own.life.simulation)(own.life.scenario)
    own.life.pass_by(hours * 3600.0)
    guest = TwinDriver(small_life(probes=(probe,)), "/twin")
    guest.guest.make_directory("/twin", NAME)
    argv = [word.replace("{directory}", WHERE) for word in command_of(probe)]
    found = []
    for hour in range(1, hours + 1):
        guest.life.pass_until(START + timedelta(hours=hour))
        measurement = ior.parse(run(guest, *argv).raw_output("command"), ordinal=0)
        found.append([one.value for one in measurement.samples if "bandwidth" in one.metric])
    jobs = [[one.write_bytes_per_s, one.read_bytes_per_s] for one in own.life.simulation.trace.jobs]
    return np.array(jobs, dtype=float), np.array(found)


@pytest.mark.calibration
def test_a_probe_started_from_outside_measures_what_the_scenarios_own_did() -> None:
    probe = ProbeLoad("hourly", "ior", "every 1h", 2, 2, bytes_written=4.0 * 32 * MIB)
    own, guest = both_ways(small_scenario(probes=(probe,)), 120)
    assert own.shape == guest.shape == (120, 2)
    # Two samples of 120 runs that differ by 4 to 5 %: their means lie within 1 % three times of 4.
    assert guest.mean(axis=0) == pytest.approx(own.mean(axis=0), rel=0.025)
    assert guest.std(axis=0) == pytest.approx(own.std(axis=0), rel=0.4)


def test_a_guest_is_as_good_as_the_place_it_is_mounted_at(tmp_path: Path) -> None:
    guest = Guest(small_life(tmp_path), "/twin/")
    assert guest.path == "/twin"
    assert guest.describe("/twin").exists
