"""Find what runs left unfinished: files in quarantines, batches without an end.

A file set aside waits for an administrator: no scan lists it, no rule allows its deletion, and no
run of another plan begins while it exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.purge.index.owners import USER_NAME
from trimtab.purge.plan.names import escape
from trimtab.purge.run.journal import journals, read
from trimtab.purge.run.records import PlanLine
from trimtab.purge.run.standing import Standing, replay
from trimtab.report.documents.encode import shape
from trimtab.units import plural
from trimtab.visible import visible

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


def interrupted_plans(directory: Path, beside: PlanLine) -> Iterator[tuple[PlanLine, Standing]]:
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
