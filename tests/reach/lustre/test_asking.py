"""What this client is asked, within which time, and what is left behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support.narrow import present
from tests.support.silent_fuse import silent_mount

from trimtab.base.site import Servers
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.server_query import ask_client
from trimtab.reach.process import ProcessResult, execute, still_hanging

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Slow:
    """A client each of whose commands takes its whole time and answers nothing."""

    def __init__(self) -> None:
        self.fake = FakeLustre.pair()
        self.fake.faults.append(Fault("hang"))
        self.given: list[tuple[str, float]] = []

    def __call__(self, argv: Sequence[str], *, timeout_s: float, **options: Any) -> ProcessResult:
        self.given.append((" ".join(argv[:2]), timeout_s))
        return self.fake.execute(argv, timeout_s=timeout_s, **options)


def test_all_that_the_client_is_asked_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, passed = Slow(), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: sum(passed))

    def execute_slowly(argv: Sequence[str], *, timeout_s: float, **options: Any) -> ProcessResult:
        passed.append(timeout_s)
        return slow(argv, timeout_s=timeout_s, **options)

    view = ask_client("scratch", "/scratch", execute_slowly, timeout_s=20.0)
    # Imports first: they tell which target is lost, and reading them sends nothing.
    assert [words for words, _ in slow.given][:3] == ["lctl get_param", "lctl get_param", "lfs df"]
    assert sum(passed) <= 20.0 + 3 * 1.0, "what comes last has a second each"
    assert view.problems


@pytest.mark.parametrize("servers", [True, False])
def test_a_lost_target_is_waited_for_only_where_nobody_else_tells_the_space_of_others(
    servers: bool,
) -> None:
    fake, asked = FakeLustre.pair(), list[str]()
    fake.target("OST0001").up = False

    def noting(argv: Sequence[str], **options: Any) -> ProcessResult:
        asked.append(" ".join(argv[:2]))
        return fake.execute(argv, **options)

    named = Servers(oss=tuple(one.name for one in fake.servers), sudo=True)
    driver = LustreDriver(
        "/scratch",
        fake.file_system,
        named if servers else Servers(),
        execute=noting,
        fan_out=fake.fan_out,
    )
    snapshot = driver.snapshot(AT)
    assert ("lfs df" in asked) is not servers
    others = [seen for seen in snapshot.targets if seen.target.name != "OST0001"]
    assert all(seen.fullness() is not None for seen in others)
    assert present(snapshot.of("OST0001")).fullness() is None


@pytest.mark.system
def test_what_cannot_be_killed_is_left_behind_once_and_never_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, mount = tmp_path / "bin", tmp_path / "mount"
    programs.mkdir()
    mount.mkdir()
    started = tmp_path / "started"
    program = programs / "lfs"
    program.write_text(f'#!/bin/sh\necho "$*" >> {started}\nexec stat {mount}/f0\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    with silent_mount(mount, mute=True):
        for _ in range(2):
            ask_client("scratch", "/scratch", execute, timeout_s=1.0)
        view = ask_client("scratch", "/scratch", execute, timeout_s=1.0)
        assert [line.split()[0] for line in started.read_text().splitlines()] == ["df"]
        assert still_hanging("lfs", "df") == 1
        assert "1 left behind still hang" in str(view.why_no_space)
