"""What is forked ends, fails and dies as what is started does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.command import forked, installed, trimtab
from tests.support.forked import fork

pytestmark = pytest.mark.system

HERE = f"{__name__}:"
"""Programs of this file."""


def raises() -> None:
    raise RuntimeError("it broke")


def ends_with_words() -> None:
    sys.exit("it ends")


def says_where() -> None:
    sys.stdout.write(f"{Path.cwd()} {os.environ['MINE']} {sys.argv[1:]}")


def sleeps() -> None:
    time.sleep(60)


@pytest.mark.parametrize("words", [("--version",), ("chekc",), ("runs", "--json"), ("runs", "-h")])
def test_a_command_prints_and_ends_as_it_is_installed(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    store = tmp_path / "t.db"
    assert trimtab(*words, store=store) == installed(*words, store=store)


def test_an_error_that_nobody_caught_is_a_traceback() -> None:
    ended = forked(environment={}, program=f"{HERE}raises")
    assert (ended.code, ended.stdout) == (1, "")
    assert "Traceback" in ended.stderr
    assert "RuntimeError: it broke" in ended.stderr


def test_last_words_are_an_error() -> None:
    ended = forked(environment={}, program=f"{HERE}ends_with_words")
    assert (ended.code, ended.stderr) == (1, "it ends\n")


def test_it_has_our_directory_and_the_environment_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = forked("a word", environment={"MINE": "yes"}, program=f"{HERE}says_where")
    assert ended.stdout == f"{tmp_path} yes ['a word']"


def test_one_that_is_killed_holds_up_nobody(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as said:
        process = fork(stdout=said.fileno(), stderr=said.fileno(), program=f"{HERE}sleeps")
        assert not process.ended_within(0.1)
        assert trimtab("--version", store=tmp_path / "t.db").code == 0
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        with pytest.raises(subprocess.TimeoutExpired):
            forked(environment={}, program=f"{HERE}sleeps", timeout_s=0.1)
