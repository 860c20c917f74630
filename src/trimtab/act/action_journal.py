"""The journal of what is done to a site: on stable storage before and after each instruction.

::

    apply  plan, policy, who, token         a run of a plan begins
    begin  action, instruction              fsynced, and only then is anything written
    range  action, start, length, trimmed   a step of a trim
    end    action, outcome, found           fsynced, and only then does the next one begin
    begin  action, instruction              (killed here)
    apply  ...                              the next run finds that action without an end
    end    action, unknown

One file per site, in a directory that only its user can write to. The ledger in the store is made
from the same lines and filled from them again after a kill (`trimtab.act.session`). Finished
actions also go into the site's log book, with which incidents are compared.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from trimtab.base.action import Action, ActionKind, Instruction, Outcome
from trimtab.base.error import DataError, Message, code_of, system_errors, visible
from trimtab.base.event import Event, EventKind, utc_now
from trimtab.base.trusted_file import trusted_directory
from trimtab.base.units import enumerated
from trimtab.store.chain import (
    ChainedFile,
    StrictLine,
    line_adapter,
    line_value,
    locked,
    opened_chain,
)
from trimtab.store.kept import value_of
from trimtab.store.location import SYSTEM_DIRECTORY

if TYPE_CHECKING:
    from trimtab.store.store import Store

SUFFIX: Final = ".journal.jsonl"
LARGEST_BYTES: Final = 16 * 1024**2
"""Some 30,000 actions; reading them takes half a second."""
CHANGED_HINT: Final = "it can no longer be used: keep it, and find out who wrote to it"
_UNRELEASED_HINT: Final = (
    "see which of its actions have not ended, and move it to another directory"
)
_LONGEST_BYTES: Final = 64 * 1024
"""Maximum size of a line."""


@dataclass(frozen=True, slots=True)
class ApplyLine(StrictLine):
    """A plan begins to be applied."""

    at: datetime
    site: str
    policy: str
    plan: str
    who: str
    token: int
    version: str
    do: Literal["apply"] = "apply"


@dataclass(frozen=True, slots=True)
class ActionBegin(StrictLine):
    """An instruction is about to be carried out."""

    at: datetime
    action: str
    policy: str
    plan: str
    who: str
    kind: str
    target: str
    reason: str
    reason_code: str
    server: str | None
    setting: str | None
    before: str | None
    value: str | None
    stage: int
    permanent: bool = False
    reverts: tuple[str, ...] = ()
    do: Literal["begin"] = "begin"


@dataclass(frozen=True, slots=True)
class RangeLine(StrictLine):
    """A part of a target was trimmed; without a length up to its end."""

    at: datetime
    action: str
    start_bytes: int
    length_bytes: int | None
    trimmed_bytes: int
    do: Literal["range"] = "range"


@dataclass(frozen=True, slots=True)
class ActionEnd(StrictLine):
    """Outcome of an instruction."""

    at: datetime
    action: str
    outcome: str
    found: str | None = None
    detail: str | None = None
    facts: dict[str, str] = field(default_factory=dict)
    do: Literal["end"] = "end"


@dataclass(frozen=True, slots=True)
class ContinuesLine(StrictLine):
    """The first line of a journal that took the place of a full one.

    Attributes
    ----------
    file, sum_of_file
        The full one's name beside it, and the sum of its last line.
    """

    at: datetime
    file: str
    sum_of_file: str
    do: Literal["continues"] = "continues"


Line = ApplyLine | ActionBegin | RangeLine | ActionEnd | ContinuesLine


@dataclass(frozen=True, slots=True)
class Journalled:
    """Actions recorded in a journal.

    Attributes
    ----------
    actions
        Actions in the order in which they were begun; without an outcome if the journal has none.
    ranges
        Action to the completed ranges of its trim.
    """

    actions: tuple[Action, ...]
    ranges: dict[str, tuple[RangeLine, ...]]

    @property
    def interrupted_trims(self) -> dict[str, int]:
        """Target to the byte at which its last trim was interrupted."""
        resume: dict[str, int] = {}
        for action in self.actions:
            if action.instruction.kind is not ActionKind.TRIM:
                continue
            target, ranges = action.instruction.target, self.ranges.get(action.id, ())
            resume.pop(target, None)
            ends = [r.start_bytes + r.length_bytes for r in ranges if r.length_bytes is not None]
            if action.outcome is not Outcome.DONE and len(ranges) == len(ends) > 0:
                resume[target] = max(ends)
        return resume


class ActionJournal:
    """The journal of one site, open to be written.

    Attributes
    ----------
    lines
        Lines that it had when it was opened.
    """

    def __init__(self, file: ChainedFile, lines: tuple[Line, ...], site: str) -> None:
        self.path = file.path
        self.lines = lines
        self._file = file
        self._site = site
        self._written: list[Line] = []

    @functools.cached_property
    def past(self) -> Journalled:
        """Actions before it was opened.

        Raises
        ------
        DataError
            As `journalled`.
        """
        return journalled(self.lines, self._site)

    @property
    def last_run(self) -> tuple[Action, ...]:
        """The actions of the plan that was applied last, before it was opened."""
        begins = (n for n, line in enumerate(self.lines) if isinstance(line, ApplyLine))
        lines = self.lines[max(begins, default=len(self.lines)) :]
        begun = {line.action for line in lines if isinstance(line, ActionBegin)}
        return tuple(action for action in self.past.actions if action.id in begun)

    @property
    def has_open_work(self) -> bool:
        """Whether an action has not ended, or an interrupted trim can be resumed."""
        done = journalled((*self.lines, *self._written), self._site)
        is_open = any(action.outcome is None for action in done.actions)
        return is_open or bool(done.interrupted_trims)

    def write(self, line: Line) -> None:
        """Write a line, and wait until it is on stable storage.

        Raises
        ------
        UnreadableError
            It could not be written: nothing more may be done, since it would be unrecorded.
        """
        self._file.append(line_adapter(Line).dump_json(line))
        self._written.append(line)


def directory_of(store: Store) -> Path:
    """Return the directory of journals: beside a store that is a file."""
    path = store.location.path
    return (SYSTEM_DIRECTORY if path is None else Path(path).parent) / "actions"


@contextlib.contextmanager
def opened(
    directory: Path, site: str, *, largest_bytes: int = LARGEST_BYTES
) -> Iterator[ActionJournal]:
    """Open the journal of a site to write it; one process at a time.

    A full journal is put aside when it is closed, once no action in it is open, and the next one is
    chained to its last line: each visit reads the whole of the current one.

    Raises
    ------
    RefusedError
        Another process has it open, or another user can write to it.
    DataError
        It was changed or damaged.
    UnreadableError
        It cannot be read or written.
    """
    owner = os.geteuid()
    problem = f"cannot make {visible(os.fspath(directory))}"
    with system_errors(problem, code="journal-unwritable"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(
            trusted_directory(directory, "the journals' directory", owner=owner)
        )
        hint = "two at once would each undo what the other does: wait for it"
        stack.enter_context(locked(site, held, visible(site), hint=hint))
        path = directory / f"{site}{SUFFIX}"
        file = stack.enter_context(opened_chain(path, held, owner=owner))
        chain = file.read(hint=CHANGED_HINT)
        lines = []
        for number, text in enumerate(chain.lines, start=1):
            try:
                lines.append(line_value(line_adapter(Line), text, unreleased_hint=_UNRELEASED_HINT))
            except DataError as error:
                shown = visible(os.fspath(path))
                raise DataError(
                    error.reason, file=shown, line=number, code=error.code, hint=error.hint
                ) from error
        journal = ActionJournal(file, tuple(lines), site)
        yield journal
        if file.size_bytes > largest_bytes and not journal.has_open_work:
            continued_in(path, held, file, owner=owner)


def ends_open(directory: Path, site: str) -> bool:
    """Return whether a journal ends with an action that the ledger may lack: a kill between them.

    It is read without its lock and its chain; where it cannot be read `opened` says why.
    """
    try:
        with (directory / f"{site}{SUFFIX}").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_BYTES))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    except FileNotFoundError:
        return False
    except OSError:
        return True
    if not last:
        return False
    try:
        return json.loads(last)["do"] not in {"apply", "end", "continues"}
    except (ValueError, KeyError, TypeError):
        return True  # a line that was cut, or another's


def continued_in(path: Path, directory: int, file: ChainedFile, *, owner: int) -> Path:
    """Put a journal aside under a name of its own, begin the next one, and return that name.

    The name of the journal is never without a file: whenever the process is killed, it is the full
    one or the next one.
    """
    now = utc_now()
    aside = path.with_name(f"{path.name.removesuffix(SUFFIX)}.{now:%Y%m%dT%H%M%S%f}{SUFFIX}")
    following = path.with_name(f".next{SUFFIX}")
    with system_errors(f"cannot continue {visible(os.fspath(path))}", code="journal-unwritable"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(following.name, dir_fd=directory)  # of a process that was killed
        with opened_chain(following, directory, owner=owner) as chain:
            line = ContinuesLine(now, aside.name, file.last_sum)
            chain.append(line_adapter(Line).dump_json(line))
        os.link(path.name, aside.name, src_dir_fd=directory, dst_dir_fd=directory)
        os.rename(following.name, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)
    return aside


def begin_line(action: Action) -> ActionBegin:
    """Return the line that an action begins with."""
    instruction = action.instruction
    return value_of(
        ActionBegin,
        instruction,
        at=action.at,
        action=action.id,
        policy=action.policy,
        plan=action.plan,
        who=action.who,
        kind=instruction.kind.value,
        reason=str(instruction.reason),
        reason_code=code_of(instruction.reason) or "reason-uncoded",
        do="begin",
    )


def journalled(lines: tuple[Line, ...], site: str) -> Journalled:
    """Return the actions that lines record.

    Raises
    ------
    DataError
        An action ends that did not begin, or an outcome is unknown.
    """
    actions: dict[str, Action] = {}
    ranges: dict[str, tuple[RangeLine, ...]] = {}
    for number, line in enumerate(lines, start=1):
        match line:
            case ActionBegin():
                actions[line.action] = _begun(line, site)
            case RangeLine():
                ranges[line.action] = (*ranges.get(line.action, ()), line)
            case ActionEnd():
                begun = actions.get(line.action)
                if begun is None:
                    raise DataError(
                        "an action ends that did not begin",
                        code="journal-contradictory",
                        line=number,
                    )
                actions[line.action] = ended(begun, line)
            case ApplyLine() | ContinuesLine():
                pass
    return Journalled(tuple(actions.values()), ranges)


def ended(action: Action, line: ActionEnd) -> Action:
    """Return an action with its outcome."""
    return replace(
        action,
        until=line.at,
        outcome=Outcome(line.outcome),
        found=line.found,
        detail=line.detail,
        facts=line.facts,
    )


def _begun(line: ActionBegin, site: str) -> Action:
    reason = Message(line.reason_code, line.reason)
    instruction = value_of(Instruction, line, kind=ActionKind(line.kind), reason=reason)
    return Action(
        id=line.action,
        site=site,
        policy=line.policy,
        plan=line.plan,
        who=line.who,
        at=line.at,
        instruction=instruction,
    )


# What was done to a site, in its log book: incidents are compared with it

SOURCE: Final = "act"
_KINDS: Final = {
    "trim": EventKind.TRIM,
    "close": EventKind.TARGET_CLOSED,
    "open": EventKind.TARGET_OPENED,
    "migrate": EventKind.NOTE,
}
_NAMED: Final = 3
"""Actions and settings named in an entry, of which an explanation shows only the beginning."""
_ID_SHOWN: Final = 13


def log_actions(store: Store, site: str, actions: Iterable[Action]) -> None:
    """Write an event for each kind of change; what the log book has already is not repeated.

    An event has the id of the first action that it covers.
    """
    wrote = [each for each in actions if each.outcome is not None and each.outcome.wrote]
    if not wrote:
        return
    logged = {
        event.id: event
        for event in store.events(site=site, since=min(action.at for action in wrote))
        if event.source == SOURCE
    }
    for plan, kind in dict.fromkeys((each.plan, each.instruction.kind) for each in wrote):
        of_kind = [e for e in wrote if (e.plan, e.instruction.kind) == (plan, kind)]
        for action in tuple(of_kind):
            event = logged.get(action.id)
            until = None if event is None else event.end
            of_kind = [each for each in of_kind if until is None or each.at > until]
        if of_kind:
            store.add_event(_event(site, of_kind))


def _event(site: str, actions: list[Action]) -> Event:
    first, last = actions[0], actions[-1]
    kind = first.instruction.kind
    settings = dict.fromkeys(
        f"{action.instruction.setting} = {action.instruction.value}"
        for action in actions
        if action.instruction.setting is not None and kind is not ActionKind.MIGRATE
    )
    ids = enumerated((action.id[:_ID_SHOWN] for action in actions), _NAMED)
    words = [first.policy, f"action {ids}:", kind.value, enumerated(settings, _NAMED)]
    return Event(
        id=first.id,
        site=site,
        kind=_KINDS.get(kind.value, EventKind.CONFIG_CHANGE),
        at=first.at,
        until=last.until,
        targets=tuple(dict.fromkeys(action.instruction.target for action in actions)),
        detail=" ".join(word for word in words if word),
        source=SOURCE,
    )
