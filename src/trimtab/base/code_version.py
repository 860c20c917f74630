"""The version of Trimtab, and digests of its sources, which tell results of other code apart."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__version__: Final = "0.1.0"
_SUFFIXES: Final = (".j2", ".py", ".toml")


@cache
def code_version(*parts: str) -> str:
    """Return the version with a hash of the simulation's source files.

    Parameters
    ----------
    parts
        Further packages of Trimtab, besides ``twin`` and the core, to include.
    """
    from pathlib import Path

    import trimtab._core

    patterns = (f"{part}/**/*".lstrip("/") for part in ("twin", *parts))
    digest = source_digest(*patterns, also=Path(trimtab._core.__file__))
    return f"{__version__}+{digest[:16]}"


@cache
def source_digest(*patterns: str, also: Path | None = None) -> str:
    """Return the SHA-256 of source files of Trimtab, by their names and contents.

    Parameters
    ----------
    patterns
        Patterns of their paths in the package: ``judge/**/*``.
    also
        A further file.
    """
    import hashlib
    from pathlib import Path

    package = Path(__file__).parents[1]
    files = {path for pattern in patterns for path in package.glob(pattern)}
    sources = sorted(path for path in files if path.suffix in _SUFFIXES)
    digest = hashlib.sha256()
    for path in (*sources, *(() if also is None else (also,))):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
