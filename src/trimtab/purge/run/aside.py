"""What runs put aside and did not end with: files in quarantines, batches without an end.

A file that is put aside waits for a person. It is nobody's old data: no scan lists it, no rule lets
it go, and no other plan's run begins while it is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.purge.plan.names import escape
from trimtab.purge.run.journal import journals, read
from trimtab.purge.run.records import PlanLine
from trimtab.purge.run.standing import Standing, replay
from trimtab.units import plural
from trimtab.visible import visible

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class AsideFile:
    """A file that lies in a quarantine; paths are relative to the root.

    Attributes
    ----------
    quarantine
        Name of the directory beneath the root.
    place, origin
        Where it is now, and where it was; ``None``: that was not noted.
    row
        Of the plan by which it was taken.
    uid, size_bytes
        Whose it is, and its length.
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
    """Yield the other plans of a file system of which a batch was begun and has no end.

    Parameters
    ----------
    beside
        A plan of the file system; its own run recovers it.

    Raises
    ------
    DataError, UnreadableError
        A journal was changed, or cannot be read.
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
    """Return what other plans left unfinished, a sentence each.

    Parameters
    ----------
    interrupted
        Other plans with a batch that has no end.
    quarantine
        The plan's own, whose contents its own run recovers; a longer name is also its own.
    """
    prefix = quarantine.encode()
    others = Counter(file.quarantine for file in files if not file.quarantine.startswith(prefix))
    lying = (
        f"{plural(count, 'file', ',')} of another plan {'lies' if count == 1 else 'lie'} aside in "
        f"{visible(escape(name))}"
        for name, count in sorted(others.items())
    )
    return (*(f"a run of plan {visible(plan)} was interrupted" for plan in interrupted), *lying)


def stranded(files: Iterable[AsideFile], quarantine: str) -> Iterator[str]:
    """Yield a sentence for each file that a plan's run could not put back, with its path."""
    prefix = quarantine.encode()
    lying = [file for file in files if file.quarantine.startswith(prefix)]
    for file in lying[:_SHOWN]:
        was = "a file" if file.origin is None else escape(file.origin)
        yield (
            f"{was} could not be put back and waits in {escape(file.place)}: "
            "trimtab purge recover ROOT puts it back"
        )
    if len(lying) > _SHOWN:
        yield f"{len(lying) - _SHOWN:,} more lie beside them"
