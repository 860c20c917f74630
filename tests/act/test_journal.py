"""A journal that is full: put aside, and the next one bound to it, whenever the process dies."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.act.test_applying import (
    NOW,
    SITE,
    TIB,
    driver,
    instruction,
    plan,
    surroundings,
)
from tests.support.codes import raises

from trimtab.act.action_journal import (
    ActionEnd,
    ContinuesLine,
    RangeLine,
    begin_line,
    ends_open,
    opened,
)
from trimtab.act.apply import apply
from trimtab.base.action import Action, ActionKind, Outcome
from trimtab.base.error import DataError
from trimtab.store.chain import FIRST_SUM, linked, unlinked


def put_aside(directory: Path) -> None:
    """Open and close a journal that may hold nothing more."""
    with opened(directory, SITE, largest_bytes=0):
        pass


def test_a_full_journal_is_put_aside_and_the_next_one_is_bound_to_it(tmp_path: Path) -> None:
    directory = tmp_path / "actions"
    for _ in range(3):
        with surroundings(tmp_path, driver()) as around:
            apply(plan(instruction()), around)
    path = directory / f"{SITE}.journal.jsonl"
    full = path.read_bytes()
    with opened(directory, SITE, largest_bytes=len(full)):
        pass  # it is as large as it may be
    assert path.read_bytes() == full
    with opened(directory, SITE, largest_bytes=len(full) - 1) as journal:
        assert len(journal.lines) == 9
    (aside,) = directory.glob(f"{SITE}.*T*.journal.jsonl")
    assert aside.read_bytes() == full
    with opened(directory, SITE) as journal:
        (first,) = journal.lines
    assert isinstance(first, ContinuesLine)
    assert first.file == aside.name
    assert first.sum_of_file == unlinked(full, hint="").last_sum
    with surroundings(tmp_path, driver()) as around:  # and it goes on
        assert [action.outcome for action in apply(plan(instruction()), around)] == [Outcome.DONE]
        assert len(around.store.actions(SITE)) == 4
    assert not list(directory.glob(".next*"))


@pytest.mark.parametrize(("line", "key"), [("begin", "reverts"), ("end", "facts")])
def test_a_journal_of_an_unreleased_version_is_refused(tmp_path: Path, line: str, key: str) -> None:
    directory = tmp_path / "actions"
    with surroundings(tmp_path, driver()) as around:
        apply(plan(instruction()), around)
    path = directory / f"{SITE}.journal.jsonl"
    text, last_sum, without = b"", FIRST_SUM, 0
    for number, kept in enumerate(unlinked(path.read_bytes(), hint="").lines):
        words = json.loads(kept)
        if words["do"] == line:
            del words[key]
            without = number + 1
        linked_line, last_sum = linked(json.dumps(words).encode(), last_sum)
        text += linked_line
    path.write_bytes(text)
    with (
        raises(DataError, "format-unreleased", str(path)) as caught,
        opened(directory, SITE),
    ):
        pass
    assert caught.value.line == without
    assert path.read_bytes() == text


def test_a_journal_is_not_put_aside_while_something_in_it_is_open(tmp_path: Path) -> None:
    directory = tmp_path / "actions"
    begun = begin_line(Action("a", SITE, "trim", "p", "me", NOW, instruction(kind=ActionKind.TRIM)))
    half = RangeLine(NOW, "a", 0, TIB, TIB)
    failed = ActionEnd(NOW, "a", "failed", "1", "it failed")
    path = directory / f"{SITE}.journal.jsonl"
    for line, is_open in ((begun, True), (half, True), (failed, True)):
        with opened(directory, SITE, largest_bytes=0) as journal:
            journal.write(line)
            assert journal.has_open_work is is_open
        assert len(list(directory.glob("*.jsonl"))) == 1, line
    again = begin_line(Action("b", SITE, "trim", "p", "me", NOW, instruction(kind=ActionKind.TRIM)))
    with opened(directory, SITE, largest_bytes=0) as journal:
        journal.write(again)
        journal.write(ActionEnd(NOW, "b", "failed", None, "refused at once"))
    assert len(list(directory.glob("*.jsonl"))) == 2  # nothing of it can be resumed
    assert path.exists()


@pytest.mark.parametrize("call", ["link", "rename", "fsync"])
def test_a_kill_while_a_journal_is_put_aside_loses_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    directory = tmp_path / "actions"
    with surroundings(tmp_path, driver()) as around:
        apply(plan(instruction()), around)
    full = (directory / f"{SITE}.journal.jsonl").read_bytes()
    real = getattr(os, call)

    class Dead(BaseException):
        """The process is no more."""

    def die(*arguments: Any, **more: Any) -> Any:
        if call == "fsync" and not list(directory.glob(f"{SITE}.*T*")):
            return real(*arguments, **more)
        raise Dead

    with monkeypatch.context() as patched:
        patched.setattr(os, call, die)
        with pytest.raises(Dead):
            put_aside(directory)
    texts = {file.read_bytes() for file in directory.glob(f"{SITE}*.jsonl")}
    assert full in texts
    with opened(directory, SITE, largest_bytes=0) as journal:
        assert journal.lines
    with opened(directory, SITE) as journal:
        assert isinstance(journal.lines[0], ContinuesLine)


def test_the_end_of_a_journal_tells_of_an_action_that_the_ledger_lacks(tmp_path: Path) -> None:
    directory = tmp_path / "actions"
    assert not ends_open(directory, SITE)
    begun = begin_line(Action("a", SITE, "tunables", "p", "me", NOW, instruction()))
    for line, is_open in ((None, False), (begun, True), (ActionEnd(NOW, "a", "done"), False)):
        with opened(directory, SITE) as journal:
            if line is not None:
                journal.write(line)
        assert ends_open(directory, SITE) is is_open
    path = directory / f"{SITE}.journal.jsonl"
    path.write_bytes(path.read_bytes() + b'{"sum":"')
    assert ends_open(directory, SITE)
