"""Who holds the space of a file system: users, groups and projects with their limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar


class HolderKind(StrEnum):
    """Kind of a holder."""

    USER = "user"
    GROUP = "group"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """Limits of one quantity, in bytes or files; ``None``: no limit.

    Attributes
    ----------
    grace_until
        When the soft limit becomes hard, aware UTC; ``None`` unless it is exceeded.
    """

    soft: int | None = None
    hard: int | None = None
    grace_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """What one holder has in all targets together.

    Attributes
    ----------
    name
        Its name on the asking host; empty if it has none there.
    files
        As the MDTs count them: objects on OSTs are no files.
    before_bytes
        What it had in the earlier result; ``None`` without one, or if it was not listed there.
    """

    kind: HolderKind
    id: int
    bytes: int
    files: int
    of_bytes: QuotaLimit = field(default_factory=QuotaLimit)
    of_files: QuotaLimit = field(default_factory=QuotaLimit)
    name: str = ""
    before_bytes: int | None = None

    @property
    def label(self) -> str:
        """``user ada``, or ``user 20317`` without a name."""
        return f"{self.kind} {self.name or self.id}"

    @property
    def over_soft(self) -> tuple[str, ...]:
        """The quantities of which it has more than its soft limit: ``bytes``, ``files``."""
        pairs = (("bytes", self.bytes, self.of_bytes), ("files", self.files, self.of_files))
        return tuple(
            name for name, used, limit in pairs if limit.soft is not None and used > limit.soft
        )

    @property
    def grace_until(self) -> datetime | None:
        """When its first grace ends."""
        ends = (self.of_bytes.grace_until, self.of_files.grace_until)
        return min((end for end in ends if end is not None), default=None)


@dataclass(frozen=True, slots=True)
class TargetHolders:
    """Who fills one OST, MDT or pool (``pool flash``): the largest holders of a kind.

    Attributes
    ----------
    accounted_bytes
        Sum over all holders of the kind; the target also holds journals and tables of nobody's.
    largest
        Id and bytes, the largest first.
    """

    target: str
    kind: HolderKind
    accounted_bytes: int
    largest: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds a file system.

    Attributes
    ----------
    at
        When it was read, aware UTC.
    source
        Where the figures are from.
    holdings
        By kind, the largest first; the largest of each kind, and all over a soft limit.
    left_out
        Number of holders that are not listed.
    problems
        Why figures are missing or too small.
    whole
        Whether the sums are whole, for the kinds that are accounted at all.
    """

    KEPT_AS: ClassVar = "holders"

    at: datetime
    source: str
    holdings: tuple[Holding, ...]
    targets: tuple[TargetHolders, ...] = ()
    left_out: int = 0
    problems: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class HoldersDocument:
    """``trimtab holders --json``.

    Attributes
    ----------
    holders
        With the names of this host, and what each had in the earlier result.
    before
        Time of that result, about a month earlier; ``None``: there is none.
    fullest, fullness
        The fullest OST of the last snapshot, and its fullness, 0 to 1; ``None`` without one.
    """

    site: str
    store: str
    holders: Holders
    before: datetime | None = None
    fullest: str | None = None
    fullness: float | None = None
