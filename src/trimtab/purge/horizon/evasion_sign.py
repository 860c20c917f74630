"""Kinds of signs that files are kept artificially young, their thresholds, and innocent causes.

None is proof, and no decision depends on them; `trimtab.purge.horizon.evasion` describes how they
are detected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, get_args

from trimtab.base.encode import mapped, shape
from trimtab.base.units import EpochS
from trimtab.purge.index.manifest import Lack, Manifest
from trimtab.purge.owner import USER_NAME

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["touched", "read together", "future", "renewed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

MAY_BE: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "touched": "a program that sets times after checking or restoring its files",
        "read together": "a job, copy or checksum of a data set that is all its owner has",
        "future": "a wrong clock, here or on the host that made an archive",
        "renewed": "a service that sets modes or owners regularly, or a quota or project set again",
    }
)
"""Innocent causes that leave the same signs."""

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
class IndexLook:
    """A file system as recorded by an index.

    Attributes
    ----------
    rows
        Columns `trimtab.purge.horizon.evasion.COLUMNS`, one row per file; times that the index
        lacks are null.
    as_of_s
        End of the scan, in seconds since 1970.
    began_s
        Beginning of the scan, in seconds since 1970; ``None`` if unknown.
    """

    rows: pl.LazyFrame
    as_of_s: int
    began_s: int | None = None


@dataclass(frozen=True, slots=True)
class EvasionLimits:
    """Thresholds for reporting a sign.

    Attributes
    ----------
    files
        Ignore owners with fewer files than this; chance may bring a few files together.
    gap_s
        Files within this many seconds of one another belong to one pass.
    grown_s
        Age in seconds from which a file is complete: copying and unpacking set times earlier.
    old_s
        Files unused for this many seconds are those that an owner may want to keep alive.
    share
        Fraction of an owner's old files that one pass read.
    skew_s
        Tolerated difference of clocks, in seconds, before a time is in the future.
    counted
        Times that extend a file's life; changing others has no effect.
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
    """An owner's files that appear to be kept artificially young.

    Attributes
    ----------
    kind
        The sign.
    uid
        The owner.
    files, allocated_bytes
        Number of files and their allocated bytes.
    first_s, last_s
        First and last time, in seconds since 1970; for ``renewed``, of the last renewal.
    words
        What was detected, in a sentence.
    """

    kind: Kind
    uid: int
    files: int
    allocated_bytes: int
    first_s: EpochS
    last_s: EpochS
    words: str


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs detected in an index, and those that could not be looked for.

    Attributes
    ----------
    manifest
        Manifest of the index.
    earlier
        Manifests of the older indexes, oldest first.
    limits
        The thresholds.
    found
        The signs, most files first.
    passed_over
        Why a kind could not be looked for.
    notes
        Sentences on the limits of the result.
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
    """Return the signs that cannot be looked for, or would have no effect, each with the reason.

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
                over[kind] = f"the index lacks the {lack.value} of files"
    if not births or Lack.BIRTH in lacking[-1]:
        over["touched"] = "without birth times, unpacking an archive looks the same"
    if len(lacking) < 3:
        over["renewed"] = "requires two earlier indexes"
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


@dataclass(frozen=True, slots=True)
class PurgeEvasionDocument:
    """Signs that files are kept artificially young: none of it is proof."""

    directory: str
    signs: Signs


shape(
    Suspicion,
    derive={
        "name": USER_NAME,
        "may_be": mapped("kind", MAY_BE.__getitem__, str),
        "query": (str, statement),
    },
)
shape(
    Signs,
    omit=["found"],
    inline={"manifest": ("index_id", "root", "ended")},
    derive={
        "signs": "found",
        "earlier": (
            tuple[str, ...],
            lambda signs: [manifest.index_id for manifest in signs.earlier],
        ),
    },
)
shape(PurgeEvasionDocument, inline={"signs": ()})
