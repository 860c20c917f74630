"""The version of the simulation, to separate results of different versions."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from trimtab import __version__


@cache
def code_version(*parts: str) -> str:
    """Return the version with a hash of the simulation's source files.

    Parameters
    ----------
    parts
        Further packages of Trimtab, besides ``twin`` and the core, to include.
    """
    import trimtab._core

    package = Path(__file__).parents[1]
    files = sorted(
        path
        for part in ("twin", *parts)
        for path in (package / part).rglob("*")
        if path.suffix in {".py", ".toml"}
    )
    digest = hashlib.sha256()
    for path in (*files, Path(trimtab._core.__file__)):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:16]}"
