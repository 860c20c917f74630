"""The exact size of a file: what all servers that hold a part of it answer."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Asked:
    """One file to look at: its identity in 16 bytes, and where it lies beneath the root."""

    id: bytes
    parent: bytes
    name: bytes


@dataclass(frozen=True, slots=True)
class Exact:
    """What all servers of a file say of it now.

    Attributes
    ----------
    project
        ``None`` where it was not asked for.
    errno
        Why nothing is known; 0: it is.
    """

    size_bytes: int = 0
    allocated_bytes: int = 0
    project: int | None = None
    errno: int = 0

    @property
    def known(self) -> bool:
        """Whether the file was there and all of its servers answered."""
        return self.errno == 0

    @property
    def gone(self) -> bool:
        """Whether the file is not there any more, or another has its name."""
        return self.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


NO_PROJECTS: Final = frozenset({errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
"""What a file system answers that has no projects."""

Look = Callable[[Sequence[Asked]], Sequence[Exact]]
"""Looks at files; an answer for each, in their order."""
