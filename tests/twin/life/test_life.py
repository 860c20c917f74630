"""A simulation that goes on from one command to the next: living again is the same as going on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.small_twin import START, small_scenario

from trimtab.base.error import Interrupted, RefusedError, UnreadableError, UsageError
from trimtab.reach.interruption import interruptible
from trimtab.twin import life as life_module
from trimtab.twin.life import NAME, Life, fingerprint, life_directory
from trimtab.twin.scenario import ProbeLoad
from trimtab.twin.scenario_file import to_toml
from trimtab.twin.twin_driver import TwinDriver

MIB = 2.0**20
PROBE = ProbeLoad(
    "hourly", "ior", "every 1h", nodes=2, tasks_per_node=2, bytes_written=128 * MIB, timeout_s=600.0
)
DAY_S = 86400.0


def scenario_file(directory: Path, **changes: object) -> str:
    path = directory / "small.toml"
    path.write_text(to_toml(small_scenario(**changes)))
    return str(path)


def same(one: Life, other: Life) -> None:
    """Both stand at the same moment, to the last bit."""
    assert one.now == other.now
    assert one.simulation.now == other.simulation.now
    assert one.simulation.scenario == replace(
        other.simulation.scenario, source=one.simulation.scenario.source
    )
    for field in fields(one.simulation.state):
        mine = getattr(one.simulation.state, field.name)
        theirs = getattr(other.simulation.state, field.name)
        assert np.array_equal(mine, theirs, equal_nan=np.asarray(mine).dtype.kind == "f"), field
    assert one.held.keys() == other.held.keys()
    assert all(np.array_equal(one.held[name], other.held[name]) for name in one.held)


DEEDS = {
    "trim": lambda driver, target: driver.trim(f"OST{target:04x}"),
    "close": lambda driver, target: driver.set_creation(f"OST{target:04x}", False),
    "open": lambda driver, target: driver.set_creation(f"OST{target:04x}", True),
    "reset": lambda driver, target: driver.reset_allocator(f"OST{target:04x}"),
    "threshold": lambda driver, target: driver.set(
        "OST0000", "ldiskfs/md0/mb_c1_threshold", str(20 + target)
    ),
    "throttle": lambda driver, target: driver.set(
        "OST0000", "drives/queue/wbt_lat_usec", str(1000 * target)
    ),
    "write": lambda driver, target: driver.guest.write(
        {f"/twin/.trimtab-probe-x/data.{target}": 40.0 * MIB}
    ),
    "sleep": lambda driver, target: driver.sleep(7000.0 * (target + 1)),
}


@pytest.mark.calibration
@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from(sorted(DEEDS)), st.integers(0, 3)), max_size=8))
def test_living_again_is_the_same_as_going_on(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[str, int]]
) -> None:
    directory = tmp_path_factory.mktemp("life")
    name = scenario_file(directory)
    lived = Life.open(directory, name)
    driver = TwinDriver(lived, "/twin")
    driver.guest.make_directory("/twin", ".trimtab-probe-x")
    for deed, target in deeds:
        DEEDS[deed](driver, target)
        driver.sleep(1800.0)
    lived.close()
    again = Life.open(directory, name)
    same(lived, again)
    lived.pass_by(DAY_S)
    again.pass_by(DAY_S)
    same(lived, again)


def test_its_own_probes_run_until_it_is_watched_and_no_more(tmp_path: Path) -> None:
    name = scenario_file(tmp_path, probes=(PROBE,))
    life = Life.open(tmp_path, name, watched_from=START + timedelta(hours=5))
    assert life.now == START + timedelta(hours=5)
    life.pass_by(10 * 3600.0)
    assert len(life.simulation.trace.jobs) == 5
    life.close()
    again = Life.open(tmp_path, name, watched_from=START)  # the diary says when, not the caller
    same(life, again)
    assert len(again.simulation.trace.jobs) == 5


def test_time_never_goes_backwards(tmp_path: Path) -> None:
    name = scenario_file(tmp_path)
    life = Life.open(tmp_path, name)
    life.pass_by(5000.5)
    assert life.now == START + timedelta(seconds=5000.5)
    assert life.simulation.now == START + timedelta(hours=1)
    life.pass_until(START)
    life.pass_by(-3.0)
    assert life.now == START + timedelta(seconds=5000.5)
    life.keep_time()
    life.keep_time()
    life.close()
    assert Life.open(tmp_path, name).now == START + timedelta(seconds=5000.5)


def test_time_that_only_passed_is_one_line(tmp_path: Path) -> None:
    driver = TwinDriver(Life.open(tmp_path, scenario_file(tmp_path)), "/twin")
    size = (tmp_path / NAME).stat().st_size
    for _ in range(100):
        driver.sleep(60.0)
    assert (tmp_path / NAME).stat().st_size == size


def test_progress_is_told_while_living_again(tmp_path: Path) -> None:
    name = scenario_file(tmp_path)
    life = Life.open(tmp_path, name, watched_from=START + timedelta(hours=6))
    life.pass_by(6 * 3600.0)
    life.close()
    told: list[float] = []
    Life.open(tmp_path, name, progress=told.append)
    assert told == sorted(told)
    assert len(told) == 12
    assert told[-1] == pytest.approx(1.0)
    assert told[5] == pytest.approx(0.5)


def test_another_scenario_is_refused_and_so_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Life.open(tmp_path, scenario_file(tmp_path))
    with raises(RefusedError, "scenario-changed") as refused:
        Life.open(tmp_path, scenario_file(tmp_path, seed=7))
    assert "the scenario small has changed" in refused.value.message
    name = scenario_file(tmp_path)
    Life.open(tmp_path, name)
    monkeypatch.setattr(life_module, "code_version", lambda: "0.0.0")
    with raises(RefusedError, "scenario-changed") as refused:
        Life.open(tmp_path, name)
    assert "Trimtab has changed" in refused.value.message
    # Its record would lie in the future of a life that began anew in the same place.
    assert f"trimtab twin run {name} --directory {tmp_path}-2" in str(refused.value.hint)


def test_a_fingerprint_knows_the_scenario_and_not_its_file() -> None:
    one = small_scenario()
    assert fingerprint(one) == fingerprint(replace(one, source="/elsewhere.toml"))
    assert fingerprint(one) != fingerprint(replace(one, seed=one.seed + 1))
    assert fingerprint(one) != fingerprint(small_scenario(probes=(PROBE,)))


@pytest.mark.parametrize(
    "line",
    [
        '{"at":"2026-11-01T01:00:00+00:00","do":"explode","how":{}}',
        '{"at":"2026-11-01T01:00:00+00:00","do":"trim","how":{"column":99}}',
        '{"at":"2026-11-01T01:00:00+00:00","do":"trim","how":{"nothing":1}}',
        '{"at":"2026-11-01T01:00:00+00:00","do":"set","how":{"key":"no.such","value":1}}',
        '{"at":"2026-11-01T01:00:00+00:00","do":"write","how":{"bytes_of_osts":[[1,"x"]]}}',
        '{"at":"2026-11-01T01:00:00+00:00","do":"write","how":{"bytes_of_osts":[[1,"0-99"]]}}',
        '{"at":"2026-11-01T01:00:00+00:00","do":"trim"}',
    ],
)
def test_deeds_that_nobody_can_do_are_named(tmp_path: Path, line: str) -> None:
    name = scenario_file(tmp_path)
    Life.open(tmp_path, name).close()
    with (tmp_path / NAME).open("a") as stream:
        stream.write(line + "\n")
    with raises(UnreadableError, "diary-unreadable"):
        Life.open(tmp_path, name)


def test_a_life_that_was_killed_while_it_was_made_is_refused(tmp_path: Path) -> None:
    name = scenario_file(tmp_path)
    life = Life(small_scenario(), tmp_path)
    assert life.diary is not None
    life.diary.announce()
    with raises(RefusedError, "simulation-killed") as refused:
        Life.open(tmp_path, name)
    assert str(tmp_path) in str(refused.value.hint)


@pytest.mark.system
def test_a_second_process_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    name = scenario_file(tmp_path)
    driver = TwinDriver(Life.open(tmp_path, name), "/twin")
    driver.sleep(60.0)
    before = (tmp_path / NAME).read_bytes()
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from trimtab.base.error import RefusedError\nfrom trimtab.twin.life import Life\n"
        f"life = Life.open(Path({str(tmp_path)!r}), {name!r})\nprint(life.now.isoformat())\n"
        "try:\n    life.do('trim', column=0)\n"
        "except RefusedError:\n    print(life.simulation.state.last_trim_s[0])\n    sys.exit(4)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 4, ended.stderr
    assert ended.stdout.split() == [driver.clock().isoformat(), "nan"]  # it looks, and does nothing
    assert (tmp_path / NAME).read_bytes() == before
    driver.sleep(60.0)


def test_files_of_a_node_that_died_are_still_there_and_can_be_removed(tmp_path: Path) -> None:
    name = scenario_file(tmp_path)
    life = Life.open(tmp_path, name)
    empty = life.simulation.state.used_bytes.copy()
    driver = TwinDriver(life, "/twin")
    driver.guest.make_directory("/twin", ".trimtab-probe-x")
    sizes = {f"/twin/.trimtab-probe-x/data.{task}": MIB * (task + 1) for task in range(6)}
    driver.guest.write(sizes)
    used = life.simulation.state.used_bytes.copy()
    life.close()
    guest = TwinDriver(Life.open(tmp_path, name), "/twin").guest
    assert guest.list_names("/twin", ".trimtab-") == (".trimtab-probe-x",)
    assert sum(guest.file_sizes("/twin/.trimtab-probe-x").values()) == 21 * MIB
    assert np.array_equal(guest.life.simulation.state.used_bytes, used)
    assert guest.remove("/twin", ".trimtab-probe-x").removed
    assert np.array_equal(guest.life.simulation.state.used_bytes, empty)
    assert guest.life.held == {}
    guest.life.close()
    again = TwinDriver(Life.open(tmp_path, name), "/twin").guest
    assert again.list_names("/twin") == ()


def test_time_passes_beyond_the_end_of_the_scenario(tmp_path: Path) -> None:
    life = Life.open(tmp_path, scenario_file(tmp_path, length_s=86400.0))
    life.pass_by(86399.0 + 3 * 86400.0)
    assert life.simulation.now == START + timedelta(hours=95)


def test_a_directory_is_named_whole() -> None:
    assert life_directory("/var/twin") == Path("/var/twin")
    with raises(UsageError, "path-relative"):
        life_directory("var/twin")


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises(UnreadableError, "file-unreadable"):
        Life.open(tmp_path / "file", scenario_file(tmp_path))


def test_a_signal_leaves_whole_epochs(tmp_path: Path) -> None:
    name = scenario_file(tmp_path)
    life = Life.open(tmp_path, name)
    passed: list[float] = []

    def progress(part: float) -> None:
        passed.append(part)
        if len(passed) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted), interruptible():
        life.pass_until(START + timedelta(days=2), progress=progress)
    assert life.now == life.simulation.now == START + timedelta(hours=3)
    life.do("trim", column=1)
    life.close()
    again = Life.open(tmp_path, name)
    same(life, again)
