"""Every answer of the fake has the form, the error and the exit code of its recording."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fake_lustre import answers
from tests.fake_lustre.acting import FakeMachine
from tests.fake_lustre.answers import (
    ANSWERS,
    ASSUMED,
    ASSUMED_AS_A_WHOLE,
    MASTER,
    RECORDED,
    Answer,
    check,
    row_of_file,
)
from tests.fake_lustre.replay import replay
from tests.fake_lustre.state import FakeLustre, Output
from tests.reach.hosts import real_data

FIXTURES = Path(__file__).parents[1] / "fixtures/lustre"


def recording_of(row: Answer) -> Path:
    assert row.recording is not None
    version, name = row.recording
    if version == MASTER:
        return real_data("lustre-2.17") / name
    return FIXTURES / version / name


def recorded(row: Answer, part: str) -> str:
    return recording_of(row).with_suffix(f".{part}").read_text(errors="surrogateescape")


def _pair_of_users(*, sudoers: bool = True) -> FakeLustre:
    state = FakeLustre.pair()
    for server in state.servers:
        server.euid, server.sudoers = 1000, sudoers
    return state


def _small(**changed: bool) -> FakeLustre:
    state = FakeLustre.small()
    for name, value in changed.items():
        setattr(state.target("OST0001" if name == "up" else "MDT0000"), name, value)
    return state


def _with_reader() -> FakeLustre:
    state = FakeLustre.pair()
    state.target("MDT0000").changelog_users.append(("cl1", 0, 1))
    return state


def _with_echo_client() -> FakeLustre:
    state = FakeLustre.small()
    target = state.target("OST0001")
    target.echo_objects, target.echo_bytes = [2], 4096
    assert target.server is not None
    state.server(target.server).echo_clients.append("scratch-OST0001_ecc")
    return state


WORLDS: dict[str, Callable[[], FakeLustre]] = {
    "small": FakeLustre.small,
    "pair": FakeLustre.pair,
    "lost OST": lambda: _small(up=False),
    "aborted": lambda: _small(aborted=True),
    "file": lambda: FakeLustre.small(layouts={"/scratch/t-fake/a": [2]}),
    "permanent": lambda: FakeLustre.pair(permanent={"mdt.scratch-*.identity_upcall": "NONE"}),
    "reader": _with_reader,
    "user": _pair_of_users,
    "echo client": _with_echo_client,
    "sudo user": lambda: _pair_of_users(sudoers=False),
}


def answer_of(row: Answer) -> Output:
    """Return what the fake answers to the example of a row."""
    state, argv = WORLDS[row.world](), shlex.split(row.example)
    if row.world.endswith("user"):
        sudo = ["sudo", "-n"] if argv[0] == "sudo" else None
        words = argv[2:] if sudo else argv
        told = FakeMachine(state, row.on, sudo).run(words, 5.0, rights=True)
        return Output(told["stdout"], told["stderr"], told["exit_code"])
    return state.run(row.on, argv) if row.on else replay(state, row.example)


def forms(text: str) -> Iterator[str]:
    """Yield the form of each line: numbers, names of machines and widths of columns are none."""
    for line in text.splitlines():
        if "Linux version" in line:  # that of the machine
            continue
        form = re.sub(r"\blus-", "scratch-", line)
        form = re.sub(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "N", form)
        form = re.sub(r"0x[0-9a-f]+|ff[0-9a-f]{14}|\d+(?:\.\d+)*", "N", form)
        form = re.sub(r"(\[?\b(none|mq-deadline|bfq|kyber)\b\]? ?)+$", "SCHEDULERS", form)
        form = re.sub(r"/dev/\w+|\bvd[a-z]\b", "DEV", form)
        form = re.sub(r",(?:user_xattr|errors=remount-ro)", "", form)
        form = re.sub(r"mgsnode=[^,]*|\bmgs\b", "MGS", form)
        form = re.sub(r"[KMGT]?i?B \(", "B (", form)
        yield re.sub(r"\s+", " ", form).strip()


COMMANDS = [row for row in RECORDED if row.words[0] not in ("file", "write")]


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: f"{row.form} {row.exit_code}")
def test_an_answer_has_its_recorded_form(row: Answer) -> None:
    output = answer_of(row)
    assert output.exit_code == row.exit_code
    out, err = recorded(row, "out"), recorded(row, "err")
    codes = {*re.findall(r"rc=(\d+)", out), recorded(row, "rc").strip()}
    assert str(row.exit_code) in codes or os.strerror(row.exit_code) in err
    for text, theirs in ((output.stdout, set(forms(out))), (output.stderr, set(forms(err)))):
        strange = [form for form in forms(text) if form and form not in theirs]
        assert not strange, row.recording


@pytest.mark.parametrize(
    "row", [row for row in RECORDED if row.words[0] == "write"], ids=lambda row: row.exit_code
)
def test_a_write_is_refused_with_the_recorded_error(row: Answer) -> None:
    text = recorded(row, "err")
    assert (os.strerror(row.exit_code) in text) if row.exit_code else text == ""


@pytest.mark.parametrize(
    "row", [row for row in RECORDED if row.words[0] == "file"], ids=lambda row: row.form
)
def test_a_file_has_its_recorded_form(row: Answer) -> None:
    state = WORLDS[row.world]()
    files = {
        path: text
        for path, text in state.files(state.servers[0].name).items()
        if row.example in path and row_of_file(path) == row
    }
    assert files
    theirs = list(forms(recorded(row, "out")))
    for path, text in files.items():
        # A client's mount is recorded elsewhere, and every machine's own root nowhere.
        lines = [line for line in text.splitlines() if "svname=" in line or "lustre" not in line]
        kept = [line for line in lines if " / ext4" not in line and " / / " not in line]
        strange = [
            form for form in forms("\n".join(kept)) if not any(one.endswith(form) for one in theirs)
        ]
        assert not strange, path


@pytest.mark.parametrize("name", ["small", "pair", "perlmutter"])
def test_every_file_is_in_a_table(name: str) -> None:
    state: FakeLustre = getattr(FakeLustre, name)()
    for server in (state.servers[0], state.servers[-1]):
        for path in state.files(server.name):
            row_of_file(path)


def test_an_answer_in_neither_table_is_an_error() -> None:
    with pytest.raises(AssertionError, match="lctl get_param that ends with 5 is in no table"):
        check(["lctl", "get_param", "version"], 5)
    with pytest.raises(AssertionError, match="is in no table"):
        check(["lctl", "get_parameter"], 0)
    with pytest.raises(AssertionError, match="/boot/x is in no table"):
        row_of_file("/boot/x")


def test_an_option_that_no_recorded_command_had_is_an_error() -> None:
    check(["lfs", "df", "-lv", "/scratch"], 0)
    with pytest.raises(AssertionError, match="lfs df --x is an option in no recorded command"):
        check(["lfs", "df", "--x"], 0)
    # Refused by a running Lustre: an answer like any other.
    check(["lfs", "getstripe", "--", "/scratch/a"], 4)


def test_each_answer_is_in_one_table_and_each_assumption_says_what_rests_on_it() -> None:
    keys = [(row.form, row.exit_code) for row in ANSWERS]
    assert len(keys) == len(set(keys))
    assert all(row.rests for row in (*ASSUMED, *ASSUMED_AS_A_WHOLE))
    # On which a write, a limit or a deletion rests, by name: a further one is decided here.
    assert {row.form for row in (*ASSUMED, *ASSUMED_AS_A_WHOLE) if row.changes} == {
        "Lustre before 2.17",
        "targets on ZFS",
    }


def test_every_recording_is_there_whole() -> None:
    for row in RECORDED:
        for part in ("cmd", "out", "err", "rc"):
            assert recording_of(row).with_suffix(f".{part}").is_file(), row
    assert answers.RELEASE in {row.recording[0] for row in RECORDED if row.recording}
