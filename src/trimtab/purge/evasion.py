"""Signs that files are kept alive without being used: counted and reported, never punished.

Pure, over frames of the index. None of it is proof: a job that reads a data set looks like a loop
that reads files to keep them, and a clock that was wrong looks like a date set on purpose. Each
kind asks for what ordinary work does not do:

==================  ===================================================================
``touched``         access, modification and change in the same second, of many files of
                    one owner within seconds of each other, long after they came into
                    being (their birth, which nobody can set)
``read together``   most of what an owner had left untouched for long was read in one go,
                    and nobody else's files were at that time (a backup reads everybody's)
``future``          a time later than the index, which would keep a file for ever; it is
                    taken for the time of the index, and reported
``renewed``         the change time of the same unchanged files moved on from index to
                    index, each time: ``chmod`` or a rename in a crontab
==================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from trimtab.units import format_bytes, plural

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["touched", "read together", "future", "renewed"]

COLUMNS: Final = (
    "id",
    "uid",
    "size_bytes",
    "allocated_bytes",
    "type",
    "atime_ns",
    "mtime_ns",
    "ctime_ns",
    "btime_ns",
)
_NS_PER_S: Final = 10**9


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
    """

    files: int = 1000
    gap_s: int = 5
    grown_s: int = 86400
    old_s: int = 8 * 7 * 86400
    share: float = 0.5
    skew_s: int = 300


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
        Between which times, in seconds since 1970.
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


def suspicions(
    index: pl.LazyFrame,
    *,
    as_of_s: int,
    earlier: Sequence[pl.LazyFrame] = (),
    limits: EvasionLimits | None = None,
) -> tuple[Suspicion, ...]:
    """Return everything that looks as if files were kept alive, the largest first.

    Parameters
    ----------
    index
        Columns `COLUMNS` of the index; times that it lacks are null.
    as_of_s
        When it was taken, in seconds since 1970.
    earlier
        Older indexes of the same root, the oldest first; ``renewed`` needs two.
    limits
        From when on something is reported.
    """
    chosen = limits or EvasionLimits()
    found = [
        *touched_together(index, chosen),
        *read_together(index, as_of_s, chosen),
        *future_times(index, as_of_s, chosen),
        *renewed([*earlier, index], chosen),
    ]
    return tuple(sorted(found, key=lambda one: (-one.files, one.uid, one.kind)))


def touched_together(index: pl.LazyFrame, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of many files whose three times are of the same second, long after their birth.

    So ``touch`` leaves them. Unpacking an archive does too, of files that it makes, and an index
    without birth times cannot tell the two apart: nothing is said of it then.
    """
    import polars as pl

    second = _second("ctime_ns")
    grown_ns = limits.grown_s * _NS_PER_S
    chosen = _files(index).filter(
        (_second("atime_ns") == second) & (_second("mtime_ns") == second),
        pl.col("ctime_ns") - pl.col("btime_ns") > grown_ns,
    )
    for uid, files, size, first, last in _goes(chosen, second, limits):
        yield Suspicion(
            "touched", uid, files, size, first, last,
            f"{plural(files, 'file', ',')} ({format_bytes(size)}) had all their times set to the "
            f"same second within {plural(last - first + 1, 'second', ',')}, long after they were "
            "made",
        )  # fmt: skip


def read_together(index: pl.LazyFrame, as_of_s: int, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners most of whose long unchanged files were read in one go, theirs alone."""
    import polars as pl

    unchanged = pl.max_horizontal("mtime_ns", "ctime_ns")
    old_ns = limits.old_s * _NS_PER_S
    files_of = _files(index).filter(pl.col("atime_ns").is_not_null())
    # What a purge would have taken but for the read.
    kept = files_of.filter(pl.col("atime_ns") - unchanged > old_ns)
    old = files_of.filter(unchanged < as_of_s * _NS_PER_S - old_ns)
    held = dict(old.group_by("uid").agg(pl.len()).collect(engine="streaming").iter_rows())
    goes = list(_goes(kept, _second("atime_ns"), limits))
    for uid, files, size, first, last in goes:
        others = any(
            other != uid and begin <= last + limits.gap_s and end >= first - limits.gap_s
            for other, _, _, begin, end in goes
        )
        share = files / held[uid] if uid in held else 0.0
        if others or share < limits.share:
            continue
        yield Suspicion(
            "read together", uid, files, size, first, last,
            f"{plural(files, 'file', ',')} ({format_bytes(size)}), {share:.0%} of what this owner "
            "had not changed for long, were read within "
            f"{plural(last - first + 1, 'second', ',')}; it may be a job",
        )  # fmt: skip


def future_times(index: pl.LazyFrame, as_of_s: int, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of files with a time later than the index, however few."""
    import polars as pl

    bound_ns = (as_of_s + limits.skew_s) * _NS_PER_S
    latest = pl.max_horizontal("atime_ns", "mtime_ns", "ctime_ns")
    frame = (
        _files(index)
        .filter(latest > bound_ns)
        .group_by("uid")
        .agg(
            pl.len(),
            pl.col("allocated_bytes").cast(pl.Int128).sum(),
            latest.min().floordiv(_NS_PER_S).alias("first"),
            latest.max().floordiv(_NS_PER_S).alias("last"),
        )
        .sort("uid")
        .collect(engine="streaming")
    )
    for uid, files, size, first, last in frame.iter_rows():
        yield Suspicion(
            "future", uid, files, int(size), first, last,
            f"{plural(files, 'file', ',')} ({format_bytes(int(size))}) have a time later than the "
            "index; it counts as the time of the index",
        )  # fmt: skip


def renewed(indexes: Sequence[pl.LazyFrame], limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of many files whose change time moved on in every interval, their data not.

    Parameters
    ----------
    indexes
        Of the same root, the oldest first; fewer than three show no period.
    """
    import polars as pl

    if len(indexes) < 3:
        return
    key = ["id", "uid", "size_bytes", "mtime_ns"]
    joined = _files(indexes[-1]).select(*key, "allocated_bytes", "ctime_ns", "btime_ns")
    joined = joined.unique(key).rename({"ctime_ns": "last"})
    names: list[str] = []
    for place, one in enumerate(indexes[:-1]):
        names.append(f"at_{place}")
        before = _files(one).select(*key, pl.col("ctime_ns").alias(names[-1])).unique(key)
        joined = joined.join(before, on=key, how="inner")
    steps = [*names, "last"]
    moved = [pl.col(later) > pl.col(sooner) for sooner, later in pairwise(steps)]
    frame = (
        joined.filter(*moved)
        .group_by("uid")
        .agg(
            pl.len(),
            pl.col("allocated_bytes").cast(pl.Int128).sum(),
            pl.col(steps[0]).min().floordiv(_NS_PER_S).alias("first"),
            pl.col("last").max().floordiv(_NS_PER_S).alias("until"),
        )
        .filter(pl.col("len") >= limits.files)
        .sort("uid")
        .collect(engine="streaming")
    )
    for uid, files, size, first, last in frame.iter_rows():
        yield Suspicion(
            "renewed", uid, files, int(size), first, last,
            f"the change time of {plural(files, 'file', ',')} ({format_bytes(int(size))}) moved on "
            f"in each of {plural(len(indexes) - 1, 'interval')} between indexes, their data never",
        )  # fmt: skip


def _files(index: pl.LazyFrame) -> pl.LazyFrame:
    import polars as pl

    return index.select(COLUMNS).filter(pl.col("type") == "f")


def _second(name: str) -> pl.Expr:
    import polars as pl

    return pl.col(name).floordiv(_NS_PER_S)


def _goes(
    frame: pl.LazyFrame, second: pl.Expr, limits: EvasionLimits
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield owner, files, bytes, first and last second of each go that has enough files.

    Seconds of one owner that follow one another within the gap are one go. They are counted first,
    so that what is sorted is seconds and not files.
    """
    import polars as pl

    seconds = frame.group_by("uid", second.alias("second")).agg(
        files=pl.len(), size=pl.col("allocated_bytes").cast(pl.Int128).sum()
    )
    ordered = seconds.collect(engine="streaming").sort("uid", "second")
    # Where one owner's seconds end and another's begin the owner parts them anyway.
    apart = ordered["second"].diff() > limits.gap_s
    frame_of_goes = (
        ordered.with_columns(go=apart.fill_null(value=True).cum_sum())
        .group_by("uid", "go")
        .agg(
            pl.col("files").sum(),
            pl.col("size").sum(),
            pl.col("second").min().alias("first"),
            pl.col("second").max().alias("last"),
        )
        .filter(pl.col("files") >= limits.files)
        .sort("uid", "first")
    )
    for uid, _, files, size, first, last in frame_of_goes.iter_rows():
        yield uid, files, int(size), first, last
