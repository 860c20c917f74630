"""After a kill: the ledger is filled from the journal, and what was open is looked at again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trimtab.loop.acting.journal import EndLine, Journal, ended
from trimtab.model.action import INTERRUPTED, Action, ActionKind, Outcome
from trimtab.model.telemetry import NotAvailable, Setting

if TYPE_CHECKING:
    from trimtab.drivers.protocol import Driver
    from trimtab.record.store import Store

_REGISTRATIONS: Final = {ActionKind.REGISTER: True, ActionKind.DEREGISTER: False}
"""Whether the MDT then has a user."""
MARGIN: Final = timedelta(minutes=2)
"""A server begins a write that long after the journal's line at the most."""


def recover(
    journal: Journal, store: Store, driver: Driver, site: str, now: datetime
) -> tuple[Action, ...]:
    """Settle every action that was begun and did not end, and return them.

    The ledger afterwards has whatever the journal has.
    """
    done = journal.past
    first = min((action.at for action in done.actions), default=None)
    stored = {} if first is None else {a.id: a for a in store.actions(site, since=first)}
    settled = []
    for action in done.actions:
        final = action
        if action.outcome is None:
            line = _end_of(action, driver, now)
            journal.write(line)
            final = ended(action, line)
            settled.append(final)
        if stored.get(action.id) != final:
            store.put_action(final)
    return tuple(settled)


def _end_of(action: Action, driver: Driver, now: datetime) -> EndLine:  # noqa: C901
    """Return what is to be said of an action whose process was killed."""
    instruction = action.instruction
    outcome, state = Outcome.UNKNOWN, None
    detail = "its process was killed: whether it was done is not known"
    wait_s = driver.dead_man_s
    puts_back = not isinstance(wait_s, NotAvailable)
    pending = puts_back and now - action.at < timedelta(seconds=wait_s) + MARGIN
    if pending and instruction.kind in {ActionKind.SET, ActionKind.CLOSE}:
        detail = "its process was killed, and its server may be about to put back the value"
    elif instruction.kind is ActionKind.SET and instruction.setting is not None:
        setting = driver.settings(instruction.target).get(instruction.setting)
        if isinstance(setting, Setting):
            state = setting.value
            if state == instruction.value:
                outcome, detail = Outcome.DONE, "its process was killed after it was written"
            elif state == instruction.before:
                outcome, detail = Outcome.SKIPPED, "its process was killed, the value is as before"
    elif instruction.kind in {ActionKind.CLOSE, ActionKind.OPEN}:
        snapshot = driver.snapshot(now).of(instruction.target)
        enabled = None if snapshot is None else snapshot.value("create_enabled")
        if isinstance(enabled, bool):
            wanted = instruction.kind is ActionKind.OPEN
            outcome = Outcome.DONE if enabled is wanted else Outcome.SKIPPED
            state = "open" if enabled else "closed"
            detail = "its process was killed; this is how the target is now"
    elif instruction.kind in _REGISTRATIONS:
        state = _changelog_user(driver, instruction.target)
        if state is not None and bool(state) is _REGISTRATIONS[instruction.kind]:
            outcome, detail = Outcome.DONE, "its process was killed after it was done"
    elif instruction.kind in {ActionKind.TRIM, ActionKind.RESET_ALLOCATOR, ActionKind.MIGRATE}:
        outcome, detail = Outcome.FAILED, "its process was killed; it can be repeated"
    return EndLine(now, action.id, outcome.value, state, detail, {INTERRUPTED: "killed"})


def _changelog_user(driver: Driver, target: str) -> str | None:
    changelogs = driver.changelogs
    answer = changelogs if isinstance(changelogs, NotAvailable) else changelogs.user(target)
    return answer if isinstance(answer, str) else None
