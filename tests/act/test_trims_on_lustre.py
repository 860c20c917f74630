"""Trims of a fake Lustre: in ranges, of several servers at once, and what cuts them off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.act.lustre_site import LustreSite, lustre
from tests.act.test_on_lustre import GIB, OST, outcomes
from tests.fake_lustre.state import Fault

from trimtab.act import session
from trimtab.act.apply import ActingSurroundings
from trimtab.reach.lustre.lustre_driver import LustreDriver

__all__ = ["lustre"]
pytestmark = pytest.mark.system


def trims(lustre: LustreSite) -> list[dict]:
    return [line for line in lustre.lines() if line["do"] == "range"]


def test_targets_are_trimmed_in_ranges_one_of_a_server_at_a_time(lustre: LustreSite) -> None:
    capacity = lustre.fake.target(OST).capacity_bytes
    lustre.write_site(f'[policy.trim]\nrange = "{capacity // 2} B"\n')
    for target in lustre.fake.osts:
        target.untrimmed_bytes, target.written_bytes = 5 * GIB, 10 * GIB
    plan = lustre.run("trim", "fake", "--targets", "OST[0000-0003]")["plan"]
    stages = [(each["stage"], each["server"]) for each in plan["instructions"]]
    assert stages == [(0, "oss1"), (0, "oss2"), (1, "oss1"), (1, "oss2")]
    applied = lustre.run("trim", "fake", "--targets", "OST[0000-0003]", "--apply")
    assert outcomes(applied) == ["done"] * 4
    for action in applied["actions"]:
        assert action["found"] == str(5 * GIB)
        assert action["facts"] == {"effect": "seen", "bytes_written_total": str(10 * GIB)}
    # What the device holds beyond what the file system shows of it is trimmed by the last range.
    for action in applied["actions"]:
        of_action = [line for line in trims(lustre) if line["action"] == action["id"]]
        assert [line["start_bytes"] for line in of_action] == [0, capacity // 2]
        assert of_action[-1]["length_bytes"] is None
    assert lustre.run("trim", "fake", "--targets", "OST[0000-0003]")["plan"]["instructions"] == []


def test_a_trim_that_was_killed_goes_on_where_it_was(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity = lustre.fake.target(OST).capacity_bytes
    lustre.write_site(f'[policy.trim]\nrange = "{capacity // 3} B"\n')
    lustre.fake.target(OST).untrimmed_bytes = 5 * GIB
    trim: Callable[..., object] = LustreDriver.trim

    def dying(driver: LustreDriver, target: str, start: int, length: int | None) -> object:
        if start:
            raise KeyboardInterrupt
        return trim(driver, target, start, length)

    with monkeypatch.context() as patch:
        patch.setattr(LustreDriver, "trim", dying)
        lustre.run("trim", "fake", "--targets", OST, "--apply", code=130)
    resumed = lustre.run("trim", "fake", "--targets", OST, "--apply")
    assert [each["outcome"] for each in resumed["settled"]] == ["failed"]
    assert outcomes(resumed) == ["done"]
    starts = [line["start_bytes"] for line in trims(lustre)]
    assert starts[:2] == [0, capacity // 3]
    assert len(starts) == len(set(starts))


def test_servers_are_trimmed_at_once_and_never_two_targets_of_one(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity = lustre.fake.target(OST).capacity_bytes
    lustre.write_site(f'[policy.trim]\nrange = "{capacity // 2} B"\n')
    trim: Callable[..., object] = LustreDriver.trim
    all_servers = threading.Barrier(4, timeout=30.0)
    on_server: dict[str, threading.Lock] = {s.name: threading.Lock() for s in lustre.fake.servers}

    def counted(driver: LustreDriver, target: str, start: int, length: int | None) -> object:
        server = on_server[lustre.fake.target(target).server]
        assert server.acquire(blocking=False), "two at once on a server"
        try:
            if not start:
                all_servers.wait()  # none goes on before all four have begun
            return trim(driver, target, start, length)
        finally:
            server.release()

    monkeypatch.setattr(LustreDriver, "trim", counted)
    applied = lustre.run("trim", "fake", "--targets", "OST[0000-0007]", "--apply")
    assert outcomes(applied) == ["done"] * 8
    lines = lustre.lines()
    assert [line["do"] for line in lines].count("begin") == 8
    assert len(trims(lustre)) == 16
    again = lustre.run("trim", "fake", "--targets", "OST[0000-0007]", "--apply")
    assert again["actions"] == []


def test_where_a_trim_breaks_off_the_others_end_and_are_resumed(
    lustre: LustreSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    capacity = lustre.fake.target(OST).capacity_bytes
    lustre.write_site(f'[policy.trim]\nrange = "{capacity // 3} B"\n')
    trim: Callable[..., object] = LustreDriver.trim
    under_way, surroundings = threading.Event(), []

    def known(**parts: Any) -> ActingSurroundings:
        surroundings.append(ActingSurroundings(**parts))
        return surroundings[-1]

    def dying(driver: LustreDriver, target: str, start: int, length: int | None) -> object:
        if target == "OST0000":
            assert under_way.wait(30.0)
            raise KeyboardInterrupt
        result = trim(driver, target, start, length)
        under_way.set()
        assert surroundings[-1].stopping.wait(30.0)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(LustreDriver, "trim", dying)
        patch.setattr(session, "ActingSurroundings", known)
        lustre.run("trim", "fake", "--targets", "OST[0000,0002]", "--apply", code=130)
    assert [line["start_bytes"] for line in trims(lustre)] == [0]
    resumed = lustre.run("trim", "fake", "--targets", "OST[0000,0002]", "--apply")
    assert outcomes(resumed) == ["done", "done"]
    other = {line["action"]: line["target"] for line in lustre.lines() if line["do"] == "begin"}
    starts = [line["start_bytes"] for line in trims(lustre) if other[line["action"]] == "OST0002"]
    assert starts[:2] == [0, capacity // 3]
    assert len(starts) == len(set(starts))


def test_a_trim_pauses_while_the_drives_write_slowly(lustre: LustreSite) -> None:
    target = lustre.fake.target(OST)
    lustre.write_site(f'[policy.trim]\nrange = "{target.capacity_bytes // 3} B"\npause = "7s"\n')
    lustre.fake.write(OST, 100 * GIB)
    lustre.before_write.append(lambda: slow_down(lustre, OST))
    assert outcomes(lustre.run("trim", "fake", "--targets", OST, "--apply")) == ["done"]
    assert lustre.slept == [5.0, 7.0]


def slow_down(lustre: LustreSite, name: str) -> None:
    """Let a target's drives take a hundred times longer for writes from now on."""
    target = lustre.fake.target(name)
    server = lustre.fake.server(target.server)
    names = {drive.name for drive in target.drives}
    for path, text in lustre.fake.files(server.name).items():
        if path.endswith("/stat") and path.split("/")[-2] in names:
            fields = text.split()
            fields[4] = str(int(fields[4]) + 1000)
            fields[7] = str(int(fields[7]) + 100_000)
            server.files[path] = " ".join(fields) + "\n"


@pytest.mark.parametrize(
    ("happens", "outcome"),
    [
        ("fail_over", "skipped"),
        ("kill_server", "unreachable"),
        (Fault("hang", "fstrim"), "unknown"),
        (Fault("refuse", "fstrim", text="fstrim: x: Input/output error\n"), "failed"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_a_trim_that_fails_ends_the_turns_after_it(
    lustre: LustreSite, happens: Fault | str, outcome: str
) -> None:
    def now() -> None:
        if isinstance(happens, Fault):
            lustre.fake.faults.append(happens)
        elif happens == "fail_over":
            lustre.fake.fail_over("OST0000")
        else:
            lustre.fake.kill_server("oss1")

    lustre.before_write.append(now)
    names = "OST[0000-0001]"
    applied = lustre.run("trim", "fake", "--targets", names, "--apply", code=4)
    assert outcomes(applied) == [outcome]
    assert [each["stage"] for each in applied["plan"]["instructions"]] == [0, 1]
