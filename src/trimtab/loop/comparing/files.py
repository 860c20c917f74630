"""A side of a comparison from result files, as tools printed them, which are not kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from trimtab.errors import UnreadableError
from trimtab.loop.comparing.operands import Operand
from trimtab.loop.comparing.sides import SideOfStore, side_of_site
from trimtab.loop.importing.importer import import_files
from trimtab.loop.importing.storing import Terms
from trimtab.loop.sites import SITE_FILE
from trimtab.visible import visible


def as_files(text: str) -> tuple[str, ...]:
    """Return the files that a side names, separated by commas; nothing unless all are there."""
    paths = tuple(part.strip() for part in text.split(","))
    named = all(path and not path.endswith(SITE_FILE) and Path(path).is_file() for path in paths)
    return paths if named else ()


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
