"""What is made of what a server sends: a whole answer or a problem, and its clock."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support.narrow import present

from trimtab.base.site import Servers, Ssh
from trimtab.reach.fleet import fan_out
from trimtab.reach.lustre.server_answer import ServerAnswer, parse_answer, program
from trimtab.reach.lustre.server_query import HostClock, ask_clocks, read_clock
from trimtab.reach.process import ProcessResult

AT = datetime(2026, 11, 20, tzinfo=UTC)
COMMAND = {
    **{"key": "devices", "argv": ["lctl", "dl"], "stdout": "  0 UP osd-ldiskfs\n", "stderr": ""},
    **{"exit_code": 0, "signal": None, "timed_out": False, "truncated": False},
    **{"elapsed_s": 0.01, "first_line": None, "error": None},
}
VALUE: dict[str, Any] = {
    "format": 1,
    "host": "oss1",
    "euid": 0,
    "started": 1795208430.5,
    "elapsed_s": 0.25,
    "files": {"/proc/uptime": "1.0 2.0\n", "/proc/odd": '\udcff{"format":'},
    "links": {"/dev/a": "/dev/b", "/dev/c": None},
    "directories": {"/dev": ["a", "b"]},
    "times": {"/var/lib/systemd/timers/stamp-fstrim.timer": 12},
    "commands": [COMMAND],
    "skipped": [["/proc/x", "no permission to read /proc/x"]],
    "end": True,
}


def line(value: object = VALUE) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def result(stdout: bytes, stderr: bytes = b"", **options: Any) -> ProcessResult:
    values: dict[str, Any] = {"exit_code": 0, "signal": None, "elapsed_s": 1.0, "timeout_s": 20.0}
    how: dict[str, Any] = {"argv": ("ssh", "oss1"), "started_at": AT, **values, **options}
    return ProcessResult(stdout=stdout, stderr=stderr, **how)


def check(answer: ServerAnswer) -> None:
    """Half an answer is none: with a problem everything else is empty."""
    assert (answer.problem is None) == answer.whole
    if answer.problem is not None:
        assert answer == ServerAnswer(answer.node, problem=answer.problem)
        assert answer.problem.isprintable()
        assert len(answer.problem) < 500


def test_an_answer() -> None:
    answer = parse_answer("oss1-ib", result(line()))
    check(answer)
    assert (answer.node, answer.host, answer.euid, answer.elapsed_s) == ("oss1-ib", "oss1", 0, 0.25)
    assert answer.started_at_s == 1795208430.5
    assert answer.files == VALUE["files"]
    assert answer.links == {"/dev/a": "/dev/b", "/dev/c": None}
    assert answer.directories == {"/dev": ("a", "b")}
    assert list(answer.times.values()) == [12.0]
    assert answer.skipped == {"/proc/x": "no permission to read /proc/x"}
    (command,) = answer.commands
    assert (command.argv, command.complete) == (("lctl", "dl"), True)
    assert answer.command("devices") is command
    assert answer.command("other") is None


def test_a_whole_answer_counts_whatever_is_around_it_and_however_the_connection_ended() -> None:
    whole = parse_answer("n", result(line()))
    for before, after in (  # a login shell may print around it
        (b"Welcome to oss1\n\n", b""),
        (b"", b"bye\n"),
        (b"no line end", b"\xff\x00\n\n"),
        (b"\r\n", b""),
    ):
        assert parse_answer("n", result(before + line() + after)) == whole
    late = result(line(), exit_code=None, signal=9, timed_out=True)
    assert parse_answer("n", late).whole
    assert parse_answer("n", result(line()[:-1])).whole


@pytest.mark.parametrize("share", range(0, len(line()) - 1, 37))
def test_half_an_answer_is_none(share: int) -> None:
    answer = parse_answer("n", result(line()[:share], b"Connection closed\n", exit_code=255))
    check(answer)
    assert "ssh ended with exit code 255: Connection closed" in present(answer.problem)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (result(b""), "nothing came"),
        (result(b" \n"), "nothing came"),
        (result(b"", b"x: not found\n", exit_code=127), "no answer: ssh ended with exit code 127"),
        (result(b"garbage \x1b[2J\nmore"), r"no answer, but the output 'garbage \\x1b[2J'"),
        (result(line() + line()), "the output has two answers"),
        (result(line()[:100] + b"\n" + line()), "the output has two answers"),
        (result(b'{"format":1,\n"end":true}'), "the answer is not JSON"),
        (result(b'{"format":' + b"[" * 100_000), "the answer was cut after"),
        (result(b'{"format":' + b"[" * 100_000 + b"\n"), "the answer is not JSON"),
        (result(b'{"format":' + b"9" * 5000 + b"}\n"), "the answer is not JSON"),
        (result(b'{"format":1,"end":true}\n'), "has the wrong format"),
        (result(line({**VALUE, "format": 2})), "format 2, not 1"),
        (result(line({**VALUE, "end": False})), "it has no end marker"),
        (result(b"", not_started="ssh could not be started: x"), "ssh could not be started: x"),
        (
            result(b"", exit_code=None, signal=9, timed_out=True),
            "no answer: ssh was still running after 20 s and was killed",
        ),
        (
            result(b"", b"Warning: key\nssh: connect to host n: refused\n", exit_code=255),
            "ssh: connect to host n: refused",
        ),
    ],
)
def test_what_came_instead_is_said(given: ProcessResult, problem: str) -> None:
    answer = parse_answer("n", given)
    check(answer)
    assert problem in present(answer.problem)


WRONG = [None, 7, 1.5, True, "text", [], [7], [["a"]], {}, {"a": 7}, {"a": [7]}, {"a": {}}]


@pytest.mark.parametrize("name", [*(name for name in VALUE if name != "started"), *COMMAND])
def test_a_wrong_type_anywhere_is_a_problem_or_harmless(name: str) -> None:
    def checked(changed: dict[str, object], *, without: str = "") -> None:
        command = {**COMMAND, **changed} if name in COMMAND else COMMAND
        value = {**VALUE, "commands": [command], **(changed if name in VALUE else {})}
        check(parse_answer("n", result(line({k: v for k, v in value.items() if k != without}))))

    for wrong in WRONG:
        checked({name: wrong})
    checked({}, without=name)
    broken = {**VALUE, "commands": [{**COMMAND, "stdout": 7}]}
    assert parse_answer("n", result(line(broken))).problem is not None


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_anything_may_come(one: bytes, other: bytes) -> None:
    check(parse_answer("n", result(one, other)))
    check(parse_answer("n", result(b'{"format":' + one, other)))


def test_a_hundred_megabytes_of_nothing() -> None:
    for head, problem in (
        (b"", "no answer"),
        (b'{"format":1,"host":"', "cut after 100000020 bytes"),
    ):
        answer = parse_answer("n", result(head + b"x" * 10**8))
        check(answer)
        assert problem in present(answer.problem)


@pytest.mark.parametrize("text", ["'", '"', "\\", "\n", "é\udcff", "${HOME}", "'''"])
def test_any_request_survives_being_sent(text: str) -> None:
    sent: list[str] = []
    source = program({"files": [text]}).rpartition(b"\nmain(")[2]
    exec(b"main(" + source, {"main": sent.append})
    assert json.loads(sent[0]) == {"files": [text]}


BEGAN_S = AT.timestamp()


def answered(**changes: Any) -> bytes:
    return line({**VALUE, "commands": [], **changes})


def read(content: bytes, **options: Any) -> HostClock:
    return read_clock("oss1", result(content, **options))


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


def test_what_is_no_time_is_none_and_what_is_no_duration_makes_nothing_surer() -> None:
    for content in (
        *(b"", b"ssh: No route to host\n", answered()[:-20]),
        answered().replace(b'"end":true', b'"end":false'),
        *(answered(started=started) for started in ("noon", True, None, float("nan"))),
        line({**VALUE, "elapsed_s": float("inf")}),
    ):
        found = read(content)
        assert found.at_s is None
        assert found.problem
    for took_s in (-5.0, 1e9):
        found = read(answered(started=BEGAN_S, elapsed_s=took_s), elapsed_s=2.0)
        assert BEGAN_S <= found.before_s <= found.after_s <= BEGAN_S + 2.0


@pytest.mark.system
def test_a_server_that_is_reached_by_a_program_is_asked_for_real(tmp_path: Path) -> None:
    # What stands for ssh runs the collector here: the clocks are one.
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S -\n")
    ssh.chmod(0o755)
    servers = Servers(oss=("oss1", "oss2"), ssh=Ssh(command=(str(ssh),)), timeout_s=60.0)
    found = ask_clocks(servers, fan_out=fan_out)
    assert [one.problem for one in found] == [None, None]
    for one in found:
        assert one.before_s - 1e-3 <= present(one.at_s) <= one.after_s + 1e-3


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
    # This very host has no second clock, and without hosts nobody is asked.
    assert ask_clocks(Servers(oss=("here",), reach="local"), fan_out=fan_out) == ()
    assert ask_clocks(Servers(), fan_out=fake.fan_out) == ()
