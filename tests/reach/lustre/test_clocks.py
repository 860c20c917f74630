"""The time on other machines: within the round trip in which they said it, or not at all."""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.state import FakeLustre, Fault
from tests.reach.lustre.test_collecting import VALUE, line, result
from tests.support.narrow import present

from trimtab.base.site import Servers, Ssh
from trimtab.reach.fleet import fan_out
from trimtab.reach.lustre.server_query import HostClock, ask_clocks, read_clock

AT = datetime(2026, 11, 20, tzinfo=UTC)
BEGAN_S = AT.timestamp()


def answered(**changes: Any) -> bytes:
    return line({**VALUE, "commands": [], **changes})


def read(content: bytes, **options: Any) -> HostClock:
    return read_clock("oss1", result(content, started_at=AT, **options))


def test_a_clock_was_looked_at_before_the_collector_worked() -> None:
    found = read(answered(started=BEGAN_S + 0.5, elapsed_s=0.25), elapsed_s=1.0)
    assert found == HostClock("oss1", BEGAN_S + 0.5, BEGAN_S, BEGAN_S + 0.75)


@given(st.floats(0, 5), st.floats(0, 5), st.floats(0, 5), st.integers(-10000, 10000))
def test_the_truth_lies_within(
    before_s: float, work_s: float, after_s: float, off_s: float
) -> None:
    took_s = before_s + work_s + after_s
    content = answered(started=BEGAN_S + before_s + off_s, elapsed_s=work_s)
    found = read(content, elapsed_s=took_s)
    assert found.at_s is not None
    # What surely separates the clocks is never more than what does.
    apart_s = max(found.before_s - found.at_s, found.at_s - found.after_s, 0.0)
    assert apart_s <= abs(off_s) + 1e-4
    assert apart_s >= abs(off_s) - (before_s + after_s) - 1e-4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"ssh: No route to host\n",
        answered()[:-20],
        answered().replace(b'"end":true', b'"end":false'),
        answered(started="noon"),
        answered(started=True),
        answered(started=None),
        json.dumps({**VALUE, "started": float("nan")}, separators=(",", ":")).encode() + b"\n",
        json.dumps({**VALUE, "elapsed_s": float("inf")}, separators=(",", ":")).encode() + b"\n",
    ],
)
def test_what_is_no_time_is_none(content: bytes) -> None:
    found = read(content)
    assert found.at_s is None
    assert found.problem


@pytest.mark.parametrize("took_s", [-5.0, 1e9])
def test_a_duration_that_cannot_be_makes_nothing_surer_than_it_is(took_s: float) -> None:
    found = read(answered(started=BEGAN_S, elapsed_s=took_s), elapsed_s=2.0)
    assert BEGAN_S <= found.before_s <= found.after_s <= BEGAN_S + 2.0


def test_servers_and_clients_are_asked_once_each_and_the_dead_say_why() -> None:
    fake = FakeLustre.pair()
    fake.server("oss3").dead = True
    fake.faults = [Fault("hang", command="ssh", host="oss4")]
    servers = Servers(
        mds=("mds1", "mds2"), oss=("oss1", "oss3", "oss4"), clients=("mds1", "login9")
    )
    found = {one.name: one for one in ask_clocks(servers, fan_out=fake.fan_out)}
    assert list(found) == ["mds1", "mds2", "oss1", "oss3", "oss4", "login9"]
    for name in ("mds1", "mds2", "oss1"):
        assert found[name].at_s == pytest.approx(fake.now_s)
        assert found[name].before_s <= fake.now_s <= found[name].after_s
    assert "No route to host" in (found["oss3"].problem or "")
    assert found["oss4"].problem
    assert "login9" in (found["login9"].problem or "")


@pytest.mark.system
def test_a_server_that_is_reached_by_a_program_is_asked_for_real() -> None:
    # What stands for ssh runs the collector here: the clocks are one.
    with tempfile.TemporaryDirectory() as directory:
        ssh = Path(directory) / "ssh"
        ssh.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S -\n")
        ssh.chmod(0o755)
        servers = Servers(oss=("oss1", "oss2"), ssh=Ssh(command=(str(ssh),)), timeout_s=60.0)
        found = ask_clocks(servers, fan_out=fan_out)
    assert [one.problem for one in found] == [None, None]
    for one in found:
        assert one.before_s - 1e-3 <= present(one.at_s) <= one.after_s + 1e-3


def test_this_very_host_has_no_second_clock() -> None:
    assert ask_clocks(Servers(oss=("here",), reach="local"), fan_out=fan_out) == ()


def test_without_hosts_nobody_is_asked() -> None:
    assert ask_clocks(Servers(), fan_out=FakeLustre.pair().fan_out) == ()
