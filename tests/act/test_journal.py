"""The journal: put aside when it is full, and told in the log book, whenever the process dies."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.act.test_applying import (
    NOW,
    SITE,
    TIB,
    TRIM,
    done_in,
    driver,
    instruction,
    plan,
    surroundings,
)
from tests.explain.causes.contexts import BAD_FROM, incident, quiet, shows, with_log
from tests.support.codes import raises

from trimtab.act.action_journal import (
    ActionEnd,
    ContinuesLine,
    RangeLine,
    begin_line,
    ends_open,
    log_actions,
    opened,
)
from trimtab.act.apply import apply
from trimtab.base.action import Action, ActionKind, Outcome
from trimtab.base.error import DataError
from trimtab.base.event import EventKind
from trimtab.explain.causes.configuration_change import CONFIGURATION_CHANGE
from trimtab.store.chain import FIRST_SUM, linked, unlinked
from trimtab.store.store import Store

# A journal that is full: put aside, and the next one bound to it, whenever the process dies.


def put_aside(directory: Path) -> None:
    """Open and close a journal that may hold nothing more."""
    with opened(directory, SITE, largest_bytes=0):
        pass


def test_a_full_journal_is_put_aside_and_the_next_one_is_bound_to_it(tmp_path: Path) -> None:
    directory = tmp_path / "actions"
    for _ in range(3):
        done_in(tmp_path, driver())
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
    done_in(tmp_path, driver())
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
    with raises(DataError, "format-unreleased", str(path)) as caught, opened(directory, SITE):
        pass
    assert caught.value.line == without
    assert path.read_bytes() == text


def test_a_journal_is_not_put_aside_while_something_in_it_is_open(tmp_path: Path) -> None:
    directory = tmp_path / "actions"
    begun = begin_line(Action("a", SITE, "trim", "p", "me", NOW, TRIM))
    half = RangeLine(NOW, "a", 0, TIB, TIB)
    failed = ActionEnd(NOW, "a", "failed", "1", "it failed")
    path = directory / f"{SITE}.journal.jsonl"
    for line, is_open in ((begun, True), (half, True), (failed, True)):
        with opened(directory, SITE, largest_bytes=0) as journal:
            journal.write(line)
            assert journal.has_open_work is is_open
        assert len(list(directory.glob("*.jsonl"))) == 1, line
    again = begin_line(Action("b", SITE, "trim", "p", "me", NOW, TRIM))
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
    done_in(tmp_path, driver())
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


# What was done is in the log book: once, also after a kill, and where an explanation reads it.


def done_action(number: int, kind: ActionKind = ActionKind.SET, target: str = "OST0000") -> Action:
    at = BAD_FROM + timedelta(minutes=number - 30)
    return Action(
        f"{number:08d}-0000-7000-8000-000000000000", SITE, "tunables", "0" * 16, "root@adm", at,
        instruction(target, kind=kind), at + timedelta(seconds=5), Outcome.DONE,
    )  # fmt: skip


def test_every_kind_of_change_is_an_event_of_its_own_and_told_once(tmp_path: Path) -> None:
    actions = [done_action(0), done_action(1, target="OST0001"), done_action(2, ActionKind.CLOSE)]
    refused = replace(done_action(3), outcome=Outcome.REFUSED)
    with Store.open(tmp_path / "t.db") as store:
        log_actions(store, SITE, [*actions, refused])
        log_actions(store, SITE, [*actions, refused])
        events = store.events(site=SITE)
        log_actions(store, SITE, [*actions, done_action(4)])
        (late,) = store.events(site=SITE)[2:]
    kinds = [(event.kind, event.id, event.targets) for event in events]
    assert kinds == [
        (EventKind.CONFIG_CHANGE, actions[0].id, ("OST0000", "OST0001")),
        (EventKind.TARGET_CLOSED, actions[2].id, ("OST0000",)),
    ]
    assert (late.id, late.targets) == (done_action(4).id, ("OST0000",))


def test_an_action_near_the_onset_of_an_incident_is_named_by_its_explanation(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        log_actions(store, SITE, [done_action(0)])
        (event,) = store.events(site=SITE)
    piece = shows(
        CONFIGURATION_CHANGE,
        quiet(events=with_log(event), of=incident(effect=0.82)),
        "change-logged",
    )
    assert done_action(0).id[:13] in piece.what
    assert piece.at == event.at


def test_what_a_killed_process_did_is_told_by_the_next(tmp_path: Path) -> None:
    memory = driver("OST0000", "OST0001")
    written = memory.set

    def dying(target: str, name: str, value: str):
        if target == "OST0001":
            raise KeyboardInterrupt
        return written(target, name, value)

    memory.set = dying  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt), surroundings(tmp_path, memory) as around:
        apply(plan(instruction(), instruction("OST0001")), around)
    with surroundings(tmp_path, memory) as around:
        settled = [action for action in around.store.actions(SITE) if action.outcome is not None]
        outcomes = {action.id: action for action in settled}
        last = [outcomes.get(each.id, each) for each in around.journal.last_run]
        log_actions(around.store, SITE, last)
        (event,) = around.store.events(site=SITE)
    assert event.targets == ("OST0000",)
