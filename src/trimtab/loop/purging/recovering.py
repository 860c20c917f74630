"""Files that runs put aside: listed, and put back where they were."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trimtab.errors import RefusedError, ToolError, TrimtabError, UsageError
from trimtab.launch.process import utc_now
from trimtab.loop.purging.answering import require_answer
from trimtab.loop.purging.core_errors import core_errors
from trimtab.loop.purging.place import PurgePlace
from trimtab.purge.plan.load import LoadedPlan
from trimtab.purge.run.arming import who_now
from trimtab.purge.run.aside import AsideFile, interrupted_plans, leftovers
from trimtab.purge.run.collect import root_facts
from trimtab.purge.run.facts import plan_line, root_line
from trimtab.purge.run.journal import opened
from trimtab.purge.run.records import PlanLine
from trimtab.report.documents.encode import mapped, shape
from trimtab.units import whole_second
from trimtab.visible import visible


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
    """Return what other plans left beneath the root; that it cannot be told is left as well."""
    plan = loaded.plan
    line = plan_line(plan, loaded.sha256)
    try:
        interrupted = [other.plan for other, _ in interrupted_plans(place.journals, line)]
        files = files_aside(plan.file_system.root)
    except TrimtabError as error:
        hint = "" if error.hint is None else f" ({error.hint})"
        return (f"what other plans left cannot be told: {error.message}{hint}",)
    return leftovers(files, interrupted, plan.quarantine)
