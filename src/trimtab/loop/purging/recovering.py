"""Files that runs put aside: listed, and put back where they were."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trimtab.errors import RefusedError, TrimtabError, UsageError
from trimtab.loop.purging.answering import require_answer
from trimtab.loop.purging.core_errors import core_errors
from trimtab.loop.purging.place import PurgePlace
from trimtab.purge.plan.load import LoadedPlan
from trimtab.purge.run.aside import AsideFile, interrupted_plans, leftovers
from trimtab.purge.run.facts import plan_line
from trimtab.purge.run.journal import Standing, journals, read, replay
from trimtab.visible import visible


@dataclass(frozen=True, slots=True)
class Recovered:
    """What lies aside beneath a root, or lay there.

    Attributes
    ----------
    interrupted
        Plans of the root whose last batch has no end: `trimtab purge run` ends it.
    """

    root: str
    files: tuple[AsideFile, ...]
    interrupted: tuple[str, ...]


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
    root: Path, *, place: PurgePlace, restore: bool = False, into: Path | None = None
) -> Recovered:
    """List what interrupted runs put aside beneath a root, and put it back if asked to.

    Nothing is deleted and nothing replaced: a file whose name is taken stays where it is.

    Raises
    ------
    RefusedError
        Several hosts carry a plan of the root out, and one has a batch open.
    UsageError
        ``into`` is not beneath the root.
    ToolError
        A quarantine cannot be read.
    NoAnswer
        The file system hangs.
    """
    require_answer(str(root), "the recovery")
    if restore and (plans := _claimed(place.journals, str(root))):
        raise RefusedError(
            f"a host is at work on plan {visible(plans[0])}, or was lost within a batch",
            code="plan-shared",
            hint="run it once more with --shared: that takes over what a lost host had begun",
        )
    files = files_aside(str(root), restore=restore, into=_beneath(root, into))
    return Recovered(str(root), tuple(files), tuple(_interrupted(place.journals, str(root))))


def _beneath(root: Path, into: Path | None) -> bytes | None:
    if into is None:
        return None
    path = into.absolute()
    if not path.is_relative_to(root):
        raise UsageError(
            f"{visible(str(path))} is not beneath {visible(str(root))}", code="path-outside"
        )
    return b"/".join(os.fsencode(part) for part in path.relative_to(root).parts)


def _interrupted(directory: Path, root: str) -> list[str]:
    """Return the plans of a root with a batch that has no end."""
    return [plan for plan, standing in _standings(directory, root) if standing.open_rows]


def _claimed(directory: Path, root: str) -> list[str]:
    """Return the plans of a root of which one of several hosts has a batch open."""
    return [plan for plan, standing in _standings(directory, root) if standing.claims]


def _standings(directory: Path, root: str) -> Iterator[tuple[str, Standing]]:
    for path in journals(directory):
        chronicle = read(path)
        if chronicle.plan is not None and chronicle.plan.root == visible(root):
            yield chronicle.plan.plan, replay(chronicle)


def leftovers_of_others(loaded: LoadedPlan, place: PurgePlace) -> Callable[[], tuple[str, ...]]:
    """Return what finds what other plans left beneath the root; not being able to is a finding."""
    return partial(_leftovers, loaded, place)


def _leftovers(loaded: LoadedPlan, place: PurgePlace) -> tuple[str, ...]:
    plan = loaded.plan
    system = plan_line(plan, loaded.sha256).file_system
    try:
        interrupted = interrupted_plans(place.journals, system, but=plan.id)
        files = files_aside(plan.file_system.root)
    except TrimtabError as error:
        return (f"what other plans left cannot be told: {error.message}",)
    return leftovers(files, interrupted, plan.quarantine_name)
