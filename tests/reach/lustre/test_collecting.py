"""What is made of what a server sends: a whole answer or a problem; never a part or an error."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.narrow import present

from trimtab.reach.lustre.server_answer import ServerAnswer, parse_answer, program
from trimtab.reach.process import ProcessResult

COMMAND = {
    "key": "devices",
    "argv": ["lctl", "dl"],
    "stdout": "  0 UP osd-ldiskfs\n",
    "stderr": "",
    "exit_code": 0,
    "signal": None,
    "timed_out": False,
    "truncated": False,
    "elapsed_s": 0.01,
    "first_line": None,
    "error": None,
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
    values: dict[str, Any] = {
        "argv": ("ssh", "oss1"),
        "exit_code": 0,
        "signal": None,
        "started_at": datetime(2026, 11, 20, tzinfo=UTC),
        "elapsed_s": 1.0,
        "timeout_s": 20.0,
        **options,
    }
    return ProcessResult(stdout=stdout, stderr=stderr, **values)


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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"Welcome to oss1\n\n", b""),
        (b"", b"bye\n"),
        (b"no line end", b"\xff\x00\n\n"),
        (b"\r\n", b""),
    ],
)
def test_a_login_shell_may_print_around_it(before: bytes, after: bytes) -> None:
    assert parse_answer("n", result(before + line() + after)) == parse_answer("n", result(line()))


def test_a_whole_answer_counts_however_the_connection_ended() -> None:
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


@pytest.mark.parametrize("name", [name for name in VALUE if name != "started"])
def test_a_wrong_type_anywhere_is_a_problem_or_harmless(name: str) -> None:
    for wrong in WRONG:
        answer = parse_answer("n", result(line({**VALUE, name: wrong})))
        check(answer)
    missing = {key: value for key, value in VALUE.items() if key != name}
    check(parse_answer("n", result(line(missing))))


@pytest.mark.parametrize("name", list(COMMAND))
def test_a_wrong_type_in_a_command_too(name: str) -> None:
    for wrong in WRONG:
        command = {**COMMAND, name: wrong}
        check(parse_answer("n", result(line({**VALUE, "commands": [command]}))))
    answer = parse_answer("n", result(line({**VALUE, "commands": [{**COMMAND, "stdout": 7}]})))
    assert answer.problem is not None


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_anything_may_come(one: bytes, other: bytes) -> None:
    check(parse_answer("n", result(one, other)))
    check(parse_answer("n", result(b'{"format":' + one, other)))


def test_a_hundred_megabytes_of_nothing() -> None:
    answer = parse_answer("n", result(b"x" * 10**8))
    check(answer)
    assert answer.problem is not None
    answer = parse_answer("n", result(b'{"format":1,"host":"' + b"x" * 10**8))
    check(answer)
    assert "the answer was cut after 100000020 bytes" in present(answer.problem)


@pytest.mark.parametrize("text", ["'", '"', "\\", "\n", "é\udcff", "${HOME}", "'''"])
def test_any_request_survives_being_sent(text: str) -> None:
    sent: list[str] = []
    source = program({"files": [text]}).rpartition(b"\nmain(")[2]
    exec(b"main(" + source, {"main": sent.append})
    assert json.loads(sent[0]) == {"files": [text]}
