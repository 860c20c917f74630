"""A simulation that goes on from one command to the next, and the diary that it is lived by."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import fields, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.codes import raises
from tests.support.small_twin import START, small_scenario

from trimtab.base.error import Interrupted, RefusedError, UnreadableError, UsageError
from trimtab.base.interruption import interruptible
from trimtab.twin import life as life_module
from trimtab.twin.life import NAME, PASS, Diary, Life, fingerprint, life_directory
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


@pytest.fixture
def name(tmp_path: Path) -> str:
    """Return the scenario file of the directory."""
    return scenario_file(tmp_path)


def same(one: Life, other: Life) -> None:
    """Both stand at the same moment, to the last bit."""
    assert (one.now, one.simulation.now) == (other.now, other.simulation.now)
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


def test_time_never_goes_backwards(name: str, tmp_path: Path) -> None:
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


def test_progress_is_told_while_living_again(name: str, tmp_path: Path) -> None:
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
def test_deeds_that_nobody_can_do_are_named(name: str, tmp_path: Path, line: str) -> None:
    Life.open(tmp_path, name).close()
    with (tmp_path / NAME).open("a") as stream:
        stream.write(line + "\n")
    with raises(UnreadableError, "diary-unreadable"):
        Life.open(tmp_path, name)


def test_a_life_that_was_killed_while_it_was_made_is_refused(name: str, tmp_path: Path) -> None:
    life = Life(small_scenario(), tmp_path)
    assert life.diary is not None
    life.diary.announce()
    with raises(RefusedError, "simulation-killed") as refused:
        Life.open(tmp_path, name)
    assert str(tmp_path) in str(refused.value.hint)


@pytest.mark.system
def test_a_second_process_is_refused_and_changes_nothing(name: str, tmp_path: Path) -> None:
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


def test_files_of_a_node_that_died_are_still_there_and_can_be_removed(
    name: str, tmp_path: Path
) -> None:
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
    assert TwinDriver(Life.open(tmp_path, name), "/twin").guest.list_names("/twin") == ()


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


def test_a_signal_leaves_whole_epochs(name: str, tmp_path: Path) -> None:
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
    same(life, Life.open(tmp_path, name))


# The diary: one writer, whole lines, and time in one line however long it lasts


HOUR = timedelta(hours=1)


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    begun = Diary(tmp_path)
    begun.begin("abc", START, START, version="1")
    return begun


def lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(one) for one in (directory / NAME).read_text().splitlines()]


def test_where_there_is_none_nothing_is_read(tmp_path: Path) -> None:
    assert Diary(tmp_path / "nowhere").read() == ({}, ())
    assert Diary(tmp_path / "nowhere").time() is None


def test_what_is_written_is_read(diary: Diary, tmp_path: Path) -> None:
    diary.add({"do": "trim", "how": {"column": 2}}, START + HOUR)
    first, deeds = Diary(tmp_path).read()
    assert first["fingerprint"] == "abc"
    assert [one["do"] for one in deeds] == [PASS, "trim"]
    assert deeds[1]["how"] == {"column": 2}
    assert datetime.fromisoformat(deeds[1]["at"]) == START + HOUR


def test_time_takes_one_line_however_often_it_is_kept(diary: Diary, tmp_path: Path) -> None:
    for hour in range(50):
        diary.keep_time(START + hour * HOUR)
    assert len(lines(tmp_path)) == 2
    diary.add({"do": "trim", "how": {}}, START + 50 * HOUR)
    for hour in range(51, 60):
        diary.keep_time(START + hour * HOUR)
    assert [one.get("do") for one in lines(tmp_path)] == [None, PASS, "trim", PASS]
    assert Diary(tmp_path).time() == START + 59 * HOUR


def test_another_process_goes_on_in_the_line_of_the_time(diary: Diary, tmp_path: Path) -> None:
    diary.keep_time(START + HOUR)
    diary.close()
    other = Diary(tmp_path)
    other.read()
    other.keep_time(START + 2 * HOUR)
    assert len(lines(tmp_path)) == 2
    assert Diary(tmp_path).time() == START + 2 * HOUR


@given(cut=st.integers(min_value=1, max_value=60))
def test_a_line_that_was_cut_off_is_left_out_and_written_over(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    directory = tmp_path_factory.mktemp("cut")
    begun = Diary(directory)
    begun.begin("abc", START, START, version="1")
    begun.add({"do": "set", "how": {"key": "allocator.c1", "value": 0.25}}, START + HOUR)
    begun.close()
    path = directory / NAME
    path.write_bytes(path.read_bytes()[:-cut])
    after = Diary(directory)
    assert len(after.read()[1]) == 1
    after.add({"do": "trim", "how": {}}, START + 2 * HOUR)
    assert [one["do"] for one in Diary(directory).read()[1]] == [PASS, "trim"]
    assert path.read_bytes().endswith(b"}\n")


@pytest.mark.parametrize(
    "text",
    [
        "no json\n",
        "[]\n",
        "{}\n",
        '{"fingerprint":"abc","watched_from":"2026-11-01T00:00:00+00:00","version":"1"}\n[]\n',
        '{"fingerprint":"abc","watched_from":"2026-11-01T00:00:00+00:00","version":"1"}\n{"do":"pass"}\n',
        '{"fingerprint":"abc","watched_from":"2026-11-01T00:00:00+00:00","version":"1"}\n'
        '{"at":"2026-11-01T00:00:00","do":"pass"}\n',
        '{"fingerprint":"abc","watched_from":"2026-11-01T00:00:00+00:00","version":"1"}\n{"at":7,"do":"pass"}\n',
        "\0\0\0\n",
        "\xff\xfe\n",
    ],
)
def test_what_is_no_diary_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(text.encode("latin-1"))
    with raises(UnreadableError, "diary-unreadable"):
        Diary(tmp_path).read()


@pytest.mark.parametrize("name", ["watched_from", "version"])
def test_a_diary_of_an_unreleased_version_is_refused(tmp_path: Path, name: str) -> None:
    begun = {"fingerprint": "abc", "watched_from": START.isoformat(), "version": "1"}
    del begun[name]
    (tmp_path / NAME).write_text(json.dumps(begun) + "\n")
    with raises(UnreadableError, "format-unreleased", str(tmp_path)):
        Diary(tmp_path).time()


def test_two_do_not_write_at_once(diary: Diary, tmp_path: Path) -> None:
    other = Diary(tmp_path)
    other.read()
    diary.keep_time(START + HOUR)
    before = (tmp_path / NAME).read_bytes()
    with raises(RefusedError, "twin-in-use"):
        other.add({"do": "trim", "how": {}}, START + HOUR)
    assert (tmp_path / NAME).read_bytes() == before
    assert Diary(tmp_path).time() == START + HOUR  # reading is free


@pytest.mark.parametrize("deed", [True, False])
def test_nobody_writes_after_what_they_have_not_read(
    diary: Diary, tmp_path: Path, deed: bool
) -> None:
    late = Diary(tmp_path)
    late.read()
    if deed:
        diary.add({"do": "trim", "how": {}}, START + HOUR)
    else:
        diary.keep_time(START + HOUR)
    diary.close()
    with raises(RefusedError, "twin-in-use"):
        late.keep_time(START + HOUR)
    late.read()
    late.keep_time(START + 2 * HOUR)


def test_a_life_that_was_announced_has_no_time_yet(tmp_path: Path) -> None:
    Diary(tmp_path).announce()
    first, deeds = Diary(tmp_path).read()
    assert (first, deeds) == ({"fingerprint": None}, ())
    assert Diary(tmp_path).time() is None
    Diary(tmp_path).begin("abc", START, START + HOUR, version="1")
    assert Diary(tmp_path).time() == START + HOUR


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises(UnreadableError, "file-unwritable"):
        Diary(tmp_path / "file").begin("abc", START, START, version="1")
    (tmp_path / NAME).mkdir()
    with raises(UnreadableError, "file-unreadable"):
        Diary(tmp_path).read()
