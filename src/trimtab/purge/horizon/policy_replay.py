"""What a past policy would have deleted, and how much of it was used afterwards.

Candidates that a cut-off selects in an earlier index are looked up by identity in a later one.
Pure, over frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from trimtab.base.error import UsageError
from trimtab.base.units import EpochS, format_bytes, format_duration, format_percent, plural
from trimtab.purge.horizon.age_curve import Freed
from trimtab.purge.owner import USER_NAME
from trimtab.show.encode import shape

if TYPE_CHECKING:
    import polars as pl

_DAY_S: Final = 86400
_BAND_DAYS: Final = 28
USERS_MAXIMUM: Final = 100


class Afterwards(StrEnum):
    """What became of a file that would have been deleted; the first that applies, in this order."""

    GONE = "gone"
    """Its owner deleted it, or another object has its number now: no loss."""
    WRITTEN = "written"
    """Its data changed: it would have been missed."""
    READ = "read"
    """It was read: it would have been missed. Known only if reads are recorded."""
    CHANGED = "changed"
    """Only the inode changed: a rename, or a change of owner, mode, links or times."""
    UNTOUCHED = "untouched"
    """It was not used."""


_MISSED: Final = (Afterwards.WRITTEN, Afterwards.READ)


@dataclass(frozen=True, slots=True)
class UserReplay:
    """What would have been deleted of one user, and how much of that they used afterwards."""

    uid: int
    deleted: Freed
    missed: Freed


@dataclass(frozen=True, slots=True)
class AgeReplay:
    """The same for files of one age at the time: a band of four weeks from ``from_days``."""

    from_days: int
    deleted: Freed
    missed: Freed


@dataclass(frozen=True, slots=True)
class Replay:
    """What a past cut-off would have deleted, and what became of it.

    Attributes
    ----------
    then_s, later_s
        Times of the two indexes, in seconds since 1970.
    outcomes
        All candidates by what became of them; `Afterwards.READ` only if reads are known.
    reads_known
        Whether every class of client recorded reads in between.
    users
        Users who would have missed files, most bytes first, at most `USERS_MAXIMUM`.
    ages
        By age at the time, youngest first: shows from where a later cut-off hurts.
    """

    then_s: EpochS
    later_s: EpochS
    reads_known: bool
    outcomes: dict[Afterwards, Freed]
    users: tuple[UserReplay, ...]
    ages: tuple[AgeReplay, ...]

    @property
    def deleted(self) -> Freed:
        """All that would have been deleted."""
        return sum(self.outcomes.values(), Freed())

    @property
    def missed(self) -> Freed:
        """What was used afterwards; only writes if reads are unknown."""
        return sum((self.outcomes.get(outcome, Freed()) for outcome in _MISSED), Freed())

    @property
    def words(self) -> tuple[str, ...]:
        """The result as sentences."""
        span = format_duration(self.later_s - self.then_s)
        whole, missed = self.deleted, self.missed
        if not whole.files:
            return ("Nothing would have been deleted.",)
        use = "read or written" if self.reads_known else "written"
        part = missed.allocated_bytes / whole.allocated_bytes if whole.allocated_bytes else None
        share = "" if part is None else f" ({format_percent(part, 2)} of the bytes)"
        first = (
            f"{plural(whole.files, 'file', ',')} with {format_bytes(whole.allocated_bytes)} would "
            f"have been deleted; {plural(missed.files, 'file', ',')} with "
            f"{format_bytes(missed.allocated_bytes)}{share} were {use} in the {span} after it."
        )
        if self.reads_known:
            return (first,)
        return first, "Unknown how much was only read: not every client records reads."


def replay(
    candidates: pl.LazyFrame,
    later: pl.LazyFrame,
    *,
    then_s: int,
    later_s: int,
    reads_known: bool,
) -> Replay:
    """Return what would have been deleted, and what became of it.

    Parameters
    ----------
    candidates
        Rows that the core's ``select`` chose from the earlier index by the past rules and cut-off:
        ``id``, ``device``, ``uid``, ``allocated_bytes``, the four times in ns, ``last_use_s``. A
        file with several names counts once.
    later
        The later index, with the same columns.
    then_s, later_s
        Times of the two indexes, in seconds since 1970.
    reads_known
        Whether every class of client recorded reads in between.

    Raises
    ------
    UsageError
        The later index is not later.

    Notes
    -----
    Two rows are the same object if their number and, if both indexes have it, their birth time
    agree: inode numbers are reused, FIDs never. Device numbers change at a remount, so they are
    compared only if an index has several. A file read during the earlier scan may count as read
    afterwards; files unused for 8 weeks rarely are.
    """
    import polars as pl

    if later_s <= then_s:
        raise UsageError(
            "the later index is not later than the earlier one",
            code="index-not-later",
            hint="swap the two indexes",
        )
    joined = _joined(candidates, later)
    judged = joined.with_columns(outcome=_afterwards(reads_known=reads_known))
    missed = pl.col("outcome").is_in([outcome.value for outcome in _MISSED])
    age_days = (pl.lit(then_s) - pl.col("last_use_s")) // _DAY_S
    counted = (
        judged.with_columns(missed=missed, from_days=age_days // _BAND_DAYS * _BAND_DAYS)
        .group_by("outcome", "missed", "uid", "from_days")
        .agg(pl.len().alias("files"), pl.sum("allocated_bytes"))
        .collect(engine="streaming")
    )
    return Replay(
        then_s=then_s,
        later_s=later_s,
        reads_known=reads_known,
        outcomes={
            Afterwards(outcome): Freed(files, size)
            for outcome, files, size in _sums(counted, "outcome").rows()
        },
        users=_users(counted),
        ages=tuple(
            AgeReplay(band, deleted, missed)
            for band, deleted, missed in sorted(_both(counted, "from_days"))
        ),
    )


def _joined(candidates: pl.LazyFrame, later: pl.LazyFrame) -> pl.LazyFrame:
    """Return each candidate object once, joined with its columns in the later index."""
    import polars as pl

    devices = [
        frame.select(pl.n_unique("device")).collect(engine="streaming").item()
        for frame in (candidates, later)
    ]
    key = ["id"] if max(devices) <= 1 else ["id", "device"]
    columns = [*key, "atime_ns", "mtime_ns", "ctime_ns", "btime_ns"]
    before = candidates.unique(subset=key, keep="any")
    # Drop everything but the candidates first: only they are held in memory.
    after = later.select(columns).join(before.select(key), on=key, how="semi")
    after = after.unique(subset=key, keep="any")
    after = after.with_columns(there=pl.lit(value=True))
    return before.join(after, on=key, how="left", suffix="_later")


def _afterwards(*, reads_known: bool) -> pl.Expr:
    import polars as pl

    born = pl.col("btime_ns").ne(pl.col("btime_ns_later")).fill_null(value=False)
    written = pl.col("mtime_ns_later").gt(pl.col("mtime_ns")).fill_null(value=False)
    read = pl.col("atime_ns_later").gt(pl.col("atime_ns")).fill_null(value=False)
    changed = pl.col("ctime_ns_later").ne(pl.col("ctime_ns")).fill_null(value=False)
    return (
        pl.when(pl.col("there").is_null() | born)
        .then(pl.lit(Afterwards.GONE.value))
        .when(written)
        .then(pl.lit(Afterwards.WRITTEN.value))
        .when(read if reads_known else pl.lit(value=False))
        .then(pl.lit(Afterwards.READ.value))
        .when(changed)
        .then(pl.lit(Afterwards.CHANGED.value))
        .otherwise(pl.lit(Afterwards.UNTOUCHED.value))
    )


def _sums(counted: pl.DataFrame, *by: str) -> pl.DataFrame:
    import polars as pl

    return counted.group_by(by).agg(pl.sum("files"), pl.sum("allocated_bytes"))


def _both(counted: pl.DataFrame, by: str) -> list[tuple[int, Freed, Freed]]:
    """Return what would have been deleted and missed for each value of a column."""
    whole = {key: Freed(files, size) for key, files, size in _sums(counted, by).rows()}
    part = _sums(counted.filter("missed"), by)
    missed = {key: Freed(files, size) for key, files, size in part.rows()}
    return [(key, share, missed.get(key, Freed())) for key, share in whole.items()]


def _users(counted: pl.DataFrame) -> tuple[UserReplay, ...]:
    hurt = [UserReplay(*row) for row in _both(counted, "uid") if row[2].files]
    hurt.sort(key=lambda user: (-user.missed.allocated_bytes, user.uid))
    return tuple(hurt[:USERS_MAXIMUM])


shape(UserReplay, derive={"name": USER_NAME})
shape(
    Replay,
    derive={
        "deleted": "deleted",
        "missed": "missed",
        "words": (tuple[str, ...], attrgetter("words")),
    },
)
