"""Signs that files are kept alive: which kinds there are, from when on, and what they may be.

None is proof, and nothing is decided by them; `trimtab.purge.evasion` says how they are found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, get_args

from trimtab.purge.index.manifest import Lack, Manifest

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["touched", "read together", "future", "renewed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MAY_BE: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "touched": "a program that sets times when it has checked or restored its files",
        "read together": "a job, a copy or a checksum of a data set that is all its owner has",
        "future": "a clock that was wrong, or an archive from a host whose clock is",
        "renewed": "a service that sets rights or owners at intervals, a quota or project set anew",
    }
)
"""What leaves the same signs and is nobody's fault."""

_NEEDED: Final[Mapping[Kind, tuple[Lack, ...]]] = MappingProxyType(
    {
        "touched": (Lack.ACCESS, Lack.MODIFICATION, Lack.CHANGE),
        "read together": (Lack.ACCESS,),
        "renewed": (Lack.IDENTITY, Lack.MODIFICATION, Lack.CHANGE),
    }
)
_KEPT_BY: Final[Mapping[Kind, tuple[str, str]]] = MappingProxyType(
    {
        "read together": ("atime", "reads do not extend life under this policy"),
        "renewed": ("ctime", "a change of metadata does not extend life under this policy"),
    }
)
_NS_PER_S: Final = 10**9


@dataclass(frozen=True, slots=True)
class Look:
    """A file system as an index saw it.

    Attributes
    ----------
    rows
        Columns `COLUMNS`, a row a file; times that the index lacks are null.
    as_of_s
        When it had been taken, in seconds since 1970.
    began_s
        When that was begun; ``None``: not known.
    """

    rows: pl.LazyFrame
    as_of_s: int
    began_s: int | None = None


@dataclass(frozen=True, slots=True)
class EvasionLimits:
    """From when on something is reported.

    Attributes
    ----------
    files
        Fewer files of one owner are nobody's concern, and chance may bring them together.
    gap_s
        Files that follow one another within it are of one go.
    grown_s
        So long after its birth a file is not being made any more: copying and unpacking set times
        within it.
    old_s
        Files that were not used for so long are what an owner would want to keep alive.
    share
        Of such files of an owner that were read in one go.
    skew_s
        By how much clocks may differ before a time is in the future.
    counted
        The times that extend a file's life; what moves another keeps nothing.
    """

    files: int = 1000
    gap_s: int = 5
    grown_s: int = 86400
    old_s: int = 8 * 7 * 86400
    share: float = 0.5
    skew_s: int = 300
    counted: tuple[str, ...] = ("atime", "mtime", "ctime")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What of one owner looks as if it were kept alive.

    Attributes
    ----------
    kind
        What it looks like.
    uid
        The owner.
    files, allocated_bytes
        How much.
    first_s, last_s
        Between which times, in seconds since 1970; of what is renewed, the last time.
    words
        What was seen, in a sentence.
    """

    kind: Kind
    uid: int
    files: int
    allocated_bytes: int
    first_s: int
    last_s: int
    words: str


@dataclass(frozen=True, slots=True)
class Signs:
    """What was found in an index, and what could not be looked for.

    Attributes
    ----------
    earlier
        The older indexes, the oldest first.
    passed_over
        Why a kind was not looked for.
    notes
        What a reader should know besides, a sentence each.
    """

    manifest: Manifest
    earlier: tuple[Manifest, ...]
    limits: EvasionLimits
    found: tuple[Suspicion, ...]
    passed_over: Mapping[Kind, str]
    notes: tuple[str, ...]


def unseen(
    lacking: Sequence[frozenset[Lack]], *, births: bool, limits: EvasionLimits
) -> dict[Kind, str]:
    """Return the signs that cannot be looked for, or would keep no file alive, and why.

    Parameters
    ----------
    lacking
        What each index lacks, oldest first.
    births
        Whether the last one has birth times.
    limits
        ``counted``: the times that extend a file's life.
    """
    over: dict[Kind, str] = {}
    for kind, needed in _NEEDED.items():
        of = lacking if kind == "renewed" else lacking[-1:]
        for lack in needed:
            if any(lack in lacks for lacks in of):
                over[kind] = f"the {lack.value} of a file is not told"
    if not births or Lack.BIRTH in lacking[-1]:
        over["touched"] = "no birth times are known, and unpacking an archive looks the same"
    if len(lacking) < 3:
        over["renewed"] = "it takes three indexes: two earlier ones"
    for kind, (time, why) in _KEPT_BY.items():
        if time not in limits.counted:
            over[kind] = why
    return over


def statement(suspicion: Suspicion) -> str:
    """Return a query for ``trimtab purge query`` that lists the files of a suspicion.

    It selects by the times that they share, so files used in the same seconds may be included.
    """
    first_ns, last_ns = suspicion.first_s * _NS_PER_S, (suspicion.last_s + 1) * _NS_PER_S - 1
    match suspicion.kind:
        case "future":
            when = f"last_use_s >= {suspicion.first_s}"
        case "read together":
            when = f"atime_ns BETWEEN {first_ns} AND {last_ns}"
        case "touched":
            when = f"ctime_ns BETWEEN {first_ns} AND {last_ns}"
        case "renewed":
            when = f"ctime_ns > mtime_ns AND ctime_ns BETWEEN {first_ns} AND {last_ns}"
    return f"SELECT path FROM files WHERE uid = {suspicion.uid} AND {when}"
