"""Find what interrupted runs left, put their files back, and end their batches.

A file set aside waits in a quarantine for an administrator: no scan lists it, no rule allows its
deletion, and no run of another plan begins while it exists.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from trimtab.base.encode import mapped, shape
from trimtab.base.error import RefusedError, ToolError, TrimtabError, UsageError, visible
from trimtab.base.event import utc_now
from trimtab.base.units import plural, whole_second
from trimtab.purge.core_call import core_errors, require_answer
from trimtab.purge.owner import USER_NAME
from trimtab.purge.plan.arming import who_now
from trimtab.purge.plan.deletion_plan import escape
from trimtab.purge.plan.plan_directory import LoadedPlan
from trimtab.purge.root_facts import root_facts
from trimtab.purge.run.journal_line import PlanLine
from trimtab.purge.run.next_step import plan_line, root_line
from trimtab.purge.run.plan_progress import PlanProgress, replay
from trimtab.purge.run.run_journal import journals, opened, read
from trimtab.store.location import PurgePlace

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class AsideFile:
    """A file in a quarantine; paths are relative to the root.

    Attributes
    ----------
    quarantine
        Name of the directory beneath the root.
    place, origin
        Its present and original path; ``None`` if not recorded.
    row
        Row of its plan.
    uid, size_bytes
        Its owner and length.
    fate
        ``waits``, ``restored``, ``name_taken``, ``directory_gone``, ``origin_unknown``, ``in_use``
        or ``failed``.
    """

    quarantine: bytes
    place: bytes
    origin: bytes | None
    row: int | None
    uid: int
    size_bytes: int
    fate: str


def interrupted_plans(directory: Path, beside: PlanLine) -> Iterator[tuple[PlanLine, PlanProgress]]:
    """Yield other plans of a file system with a batch that was begun and has no end.

    Parameters
    ----------
    beside
        A plan of the file system to omit, because its own run recovers it.

    Raises
    ------
    DataError, UnreadableError
        A journal was changed or cannot be read.
    """
    for path in journals(directory):
        chronicle = read(path)
        plan = chronicle.plan
        if plan is None or plan.plan == beside.plan or not plan.shares_caps(beside):
            continue
        if (standing := replay(chronicle)).open_rows:
            yield plan, standing


def leftovers(
    files: Iterable[AsideFile], interrupted: Sequence[str], quarantine: str
) -> tuple[str, ...]:
    """Return what other plans left unfinished, one sentence each.

    Parameters
    ----------
    interrupted
        Other plans with a batch without an end.
    quarantine
        The plan's own quarantine, whose contents its own run recovers; longer names with this
        prefix are its own too.
    """
    prefix = quarantine.encode()
    others = Counter(file.quarantine for file in files if not file.quarantine.startswith(prefix))
    set_aside = (
        f"{plural(count, 'file', ',')} of another plan {'is' if count == 1 else 'are'} set aside "
        f"in {visible(escape(name))}"
        for name, count in sorted(others.items())
    )
    return (*(f"a run of plan {visible(plan)} was interrupted" for plan in interrupted), *set_aside)


def stranded(files: Iterable[AsideFile], quarantine: str) -> Iterator[str]:
    """Yield a sentence with the path of each file that a plan's run could not restore."""
    prefix = quarantine.encode()
    set_aside = [file for file in files if file.quarantine.startswith(prefix)]
    for file in set_aside[:_SHOWN]:
        was = "a file" if file.origin is None else escape(file.origin)
        yield (
            f"{was} could not be restored and remains in {escape(file.place)}: run trimtab purge "
            "recover ROOT"
        )
    if len(set_aside) > _SHOWN:
        yield f"{len(set_aside) - _SHOWN:,} more files with them"


shape(
    AsideFile,
    omit=["quarantine"],
    derive={
        "place": (str, lambda file: escape(file.place)),
        "origin": (str | None, lambda file: file.origin and escape(file.origin)),
        "owner": USER_NAME,
    },
)


@dataclass(frozen=True, slots=True)
class PurgeRecoverDocument:
    """Files put aside by interrupted runs beneath a root, and the fate of each.

    ``fate`` is ``waits``, ``restored``, ``name_taken``, ``directory_gone``, ``origin_unknown``,
    ``in_use`` or ``failed``. ``interrupted`` are plans whose last batch is unfinished.
    """

    root: str
    restored: bool
    files: tuple[AsideFile, ...]
    interrupted: tuple[str, ...]


shape(PurgeRecoverDocument, derive={"root": mapped("root", visible, str)})


def files_aside(root: str, *, restore: bool = False, into: bytes | None = None) -> list[AsideFile]:
    """Return every file in quarantines beneath a root; with ``restore``, put each back.

    Parameters
    ----------
    into
        A directory beneath the root, for files whose own is gone.

    Raises
    ------
    ToolError
        A quarantine cannot be read, or ``into`` cannot be opened.
    """
    from trimtab import _core

    with core_errors("the recovery", hint="run it as root, on the root of the purge"):
        listed = _core.files_aside(root, restore=restore, into=into)
    return [AsideFile(**file) for file in listed]


def recover(
    root: Path,
    *,
    place: PurgePlace,
    restore: bool = False,
    into: Path | None = None,
    now: Callable[[], datetime] = utc_now,
) -> PurgeRecoverDocument:
    """List what interrupted runs put aside beneath a root, and put it back if asked to.

    Nothing is deleted and nothing replaced: a file whose name is taken stays where it is. With
    ``restore`` the batches that these runs had begun are ended too, in their journals: their plans
    may be lost.

    Raises
    ------
    RefusedError
        A run is at work on the file system, or one of several hosts has a batch open and may be.
    UsageError
        ``into`` is not beneath the root.
    ToolError
        A quarantine cannot be read.
    NoAnswer
        The file system hangs.
    """
    require_answer(str(root), "the recovery")
    line = _line_of(str(root))
    if restore:
        _release(line, place, now())
    files = files_aside(str(root), restore=restore, into=_beneath(root, into))
    interrupted = tuple(plan.plan for plan, _ in interrupted_plans(place.journals, line))
    return PurgeRecoverDocument(str(root), restore, tuple(files), interrupted)


def _line_of(root: str) -> PlanLine:
    facts = root_facts(root)
    if facts.file_system is None:
        trouble = facts.trouble or f"nothing is known of {visible(root)}"
        raise ToolError(trouble, code="root-unknown")
    return root_line(root, facts.file_system)


def _release(line: PlanLine, place: PurgePlace, at: datetime) -> None:
    """End the batches that runs on a file system had begun; refuse where one may be at work."""
    for plan, standing in list(interrupted_plans(place.journals, line)):
        held_until = standing.held_until
        if held_until is not None and at < held_until:
            raise RefusedError(
                f"a host is at work on plan {visible(plan.plan)}, or was lost within a batch",
                code="plan-shared",
                hint="run it once more with --shared, which takes over what a lost host had begun; "
                f"where the plan is lost, wait until {whole_second(held_until)}",
            )
        lease_s, owner = standing.lease_s, place.owner
        with opened(place.journals, plan, at=at, lease_s=lease_s, owner=owner) as journal:
            for released in journal.standing.releases(at, who_now()):
                journal.write(released)


def _beneath(root: Path, into: Path | None) -> bytes | None:
    if into is None:
        return None
    path = into.absolute()
    if not path.is_relative_to(root):
        raise UsageError(f"{visible(path)} is not beneath {visible(root)}", code="path-outside")
    return b"/".join(os.fsencode(part) for part in path.relative_to(root).parts)


def leftovers_of_others(loaded: LoadedPlan, place: PurgePlace) -> tuple[str, ...]:
    """Return what other plans left beneath the root, or a sentence why that is not known."""
    plan = loaded.plan
    line = plan_line(plan, loaded.sha256)
    try:
        interrupted = [other.plan for other, _ in interrupted_plans(place.journals, line)]
        files = files_aside(plan.file_system.root)
    except TrimtabError as error:
        hint = "" if error.hint is None else f" ({error.hint})"
        return (f"leftovers of other plans are unknown: {error.message}{hint}",)
    return leftovers(files, interrupted, plan.quarantine)
