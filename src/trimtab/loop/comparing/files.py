"""A side of a comparison from result files, as tools printed them, which are not kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from trimtab.errors import UnreadableError, UsageError
from trimtab.loop.comparing.operands import Operand
from trimtab.loop.comparing.sides import SideOfStore, side_of_site
from trimtab.loop.importing.importer import import_files
from trimtab.loop.importing.storing import Terms
from trimtab.loop.sites import SITE_FILE
from trimtab.model.grouping import grouped
from trimtab.units import enumerated, plural
from trimtab.visible import visible

_TYPED: Final = (
    "type trimtab compare A B; result files of a side are joined by commas (1.json,2.json 3.json), "
    "or lie in a directory of their own (before/*.json after/*.json)"
)


def as_files(text: str) -> tuple[str, ...]:
    """Return the files that a side names, separated by commas; nothing unless all are there."""
    paths = tuple(part.strip() for part in text.split(","))
    named = all(path and not path.endswith(SITE_FILE) and Path(path).is_file() for path in paths)
    return paths if named else ()


def sides_of(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the texts of both sides: two words, or more files, those of a directory one side.

    Raises
    ------
    UsageError
        There are no two sides, or more words than two that are not the files of two directories.

    Notes
    -----
    A shell expands ``a/*.json b/*.json`` before it calls: what was one word is known from the
    directory alone, so that no other way of parting files is tried.
    """
    if len(arguments) == 2:
        return arguments[0], arguments[1]
    sides = grouped(arguments, lambda name: Path(name).parent)
    odd = [name for name in arguments if "," in name or not Path(name).is_file()]
    if not odd and len(sides) == 2:
        before, after = map(",".join, sides.values())
        return before, after
    problem = f"{plural(len(arguments), 'word')} for two sides"
    if odd and len(arguments) > 2:
        problem += f", and {visible(odd[0])} is not a file"
    elif len(arguments) > 2:
        directories = enumerated([visible(str(directory)) for directory in sides], 3)
        problem += f": files of {directories}, not of two directories"
    raise UsageError(problem, code="sides-unclear", hint=_TYPED)


def side_of_files(paths: Sequence[str], operand: Operand, *, probe: str | None) -> SideOfStore:
    """Return the series of results that files hold.

    Raises
    ------
    UnreadableError
        One holds no result that can be compared.
    """
    from trimtab.record.store import Store

    terms = Terms()
    with (
        TemporaryDirectory(prefix="trimtab-") as directory,
        Store.open(Path(directory) / "files.db") as store,
    ):
        for file in import_files(paths, terms, store, workers=0):
            if not file.results:
                reason = file.reason or "it holds no result"
                raise UnreadableError(
                    f"{visible(file.file)} cannot be compared: {reason}",
                    code="file-unreadable",
                    hint="docs/import.md lists the formats",
                )
        return side_of_site(store, terms.site, operand, timezone="UTC", probe=probe)
