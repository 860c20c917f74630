"""What was done is in the log book: once, also after a kill, and where an explanation reads it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.act.test_applying import SITE, driver, instruction, plan, surroundings
from tests.explain.causes.contexts import BAD_FROM, incident, quiet, shows, with_log

from trimtab.act.action_journal import log_actions
from trimtab.act.apply import apply
from trimtab.base.action import Action, ActionKind, Outcome
from trimtab.base.event import EventKind
from trimtab.explain.causes.configuration_change import CAUSE
from trimtab.store.store import Store


def done(number: int, kind: ActionKind = ActionKind.SET, target: str = "OST0000") -> Action:
    at = BAD_FROM + timedelta(minutes=number - 30)
    return Action(
        f"{number:08d}-0000-7000-8000-000000000000", SITE, "tunables", "0" * 16, "root@adm", at,
        instruction(target, kind=kind), at + timedelta(seconds=5), Outcome.DONE,
    )  # fmt: skip


def test_every_kind_of_change_is_an_event_of_its_own_and_told_once(tmp_path: Path) -> None:
    actions = [done(0), done(1, target="OST0001"), done(2, ActionKind.CLOSE)]
    refused = replace(done(3), outcome=Outcome.REFUSED)
    with Store.open(tmp_path / "t.db") as store:
        log_actions(store, SITE, [*actions, refused])
        log_actions(store, SITE, [*actions, refused])
        events = store.events(site=SITE)
        log_actions(store, SITE, [*actions, done(4)])
        (late,) = store.events(site=SITE)[2:]
    kinds = [(event.kind, event.id, event.targets) for event in events]
    assert kinds == [
        (EventKind.CONFIG_CHANGE, actions[0].id, ("OST0000", "OST0001")),
        (EventKind.TARGET_CLOSED, actions[2].id, ("OST0000",)),
    ]
    assert (late.id, late.targets) == (done(4).id, ("OST0000",))


def test_an_action_near_the_onset_of_an_incident_is_named_by_its_explanation(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "t.db") as store:
        log_actions(store, SITE, [done(0)])
        (event,) = store.events(site=SITE)
    piece = shows(CAUSE, quiet(events=with_log(event), of=incident(effect=0.82)), "change-logged")
    assert done(0).id[:13] in piece.what
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
        actions = around.store.actions(SITE)
        settled = [action for action in actions if action.outcome is not None]
        outcomes = {action.id: action for action in settled}
        last = [outcomes.get(each.id, each) for each in around.journal.last_run]
        log_actions(around.store, SITE, last)
        (event,) = around.store.events(site=SITE)
    assert event.targets == ("OST0000",)
