"""Exact sizes of files, from all servers that have a part of them."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Asked:
    """One file to look at: its 16-byte identity and its path beneath the root."""

    id: bytes
    parent: bytes
    name: bytes


@dataclass(frozen=True, slots=True)
class Exact:
    """Current data of a file from all its servers.

    Attributes
    ----------
    project
        Project; ``None`` if not requested.
    errno
        Error number; 0 on success.
    """

    size_bytes: int = 0
    allocated_bytes: int = 0
    project: int | None = None
    errno: int = 0

    @property
    def known(self) -> bool:
        """Whether the file exists and all its servers answered."""
        return self.errno == 0

    @property
    def gone(self) -> bool:
        """Whether the file no longer exists, or another has its name."""
        return self.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


NO_PROJECTS: Final = frozenset({errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
"""Errors of file systems without projects."""

Look = Callable[[Sequence[Asked]], Sequence[Exact]]
"""Reads files; returns one result per file, in order."""
