"""Where the signing key, the journals and the arming files of purges lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trimtab.base.error import system_errors
from trimtab.base.visible import visible
from trimtab.store.location import SYSTEM_DIRECTORY

DEFAULT: Final = SYSTEM_DIRECTORY / "purge"
VARIABLE: Final = "TRIMTAB_PURGE"


@dataclass(frozen=True, slots=True)
class PurgePlace:
    """A directory of root's, closed to everybody else.

    Attributes
    ----------
    directory
        Absolute.
    owner
        Whose everything in it has to be.
    """

    directory: Path
    owner: int = 0

    @property
    def key(self) -> Path:
        """The file of the secret that plans are signed with."""
        return self.directory / "key"

    @property
    def journals(self) -> Path:
        """Journals of runs, and who armed what."""
        return self.directory / "journals"


def purge_place(path: str | os.PathLike[str] | None = None) -> PurgePlace:
    """Return the place that is given, else that of ``$TRIMTAB_PURGE``, else the system's own."""
    named = path or os.environ.get(VARIABLE)
    return PurgePlace(Path(os.path.abspath(named)) if named else DEFAULT)  # noqa: PTH100


def prepared(place: PurgePlace) -> PurgePlace:
    """Return a place whose directories are there, 0700.

    Raises
    ------
    UnreadableError
        They cannot be made.
    """
    with system_errors(
        f"{visible(place.directory)} cannot be made",
        code="place-unwritable",
        hint=f"set {VARIABLE} to a directory of root's",
    ):
        for directory in (place.directory, place.journals):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place
