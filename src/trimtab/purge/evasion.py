"""Signs that files are kept alive without being used: counted and reported, with no consequence.

Pure, over frames of the index. None of it is proof: a job that reads a data set looks like a loop
that reads files to keep them, and a wrong clock looks like a date set on purpose. Each sign
requires what ordinary work does not do:

==================  ===================================================================
``touched``         access, modification and change in the same second, of many files of
                    one owner within seconds of each other, long after their birth
                    (which no user can set)
``read together``   most of what an owner had left untouched for long was read in one
                    pass, and no other owner's files were at that time (a backup reads
                    all users' files)
``future``          a time later than the index, which would keep a file for ever; it
                    counts as the time of the index, and is reported
``renewed``         the change time of the same unchanged files advanced in every
                    interval between indexes: ``chmod`` or a rename in a crontab
==================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from trimtab.purge.signs import KINDS, EvasionLimits, Kind, Look, Suspicion
from trimtab.units import format_bytes, plural

if TYPE_CHECKING:
    import polars as pl

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
PART_ROWS: Final = 250_000
"""So many files are held against earlier indexes at once; more are in parts by their identity."""

_NS_PER_S: Final = 10**9
_KEY: Final = ("id", "uid", "size_bytes", "mtime_ns")
"""What is the same of a file whose data did not change between two indexes."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the files of an index, or of a part of it, come to; counts of all parts add up.

    Attributes
    ----------
    frames
        By name: ``touched`` and ``retained`` (uid, second, files, size), ``old`` (uid, files) and
        ``future`` (uid, files, size, first, last).
    moved
        Files whose change time may be later than in the index before.
    """

    frames: Mapping[str, pl.DataFrame]
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which files of an index may have been renewed up to it, and up to all later ones.

    Attributes
    ----------
    since_ns
        Earlier change times are passed over; ``None``: none is.
    part, parts
        One part of all files, by their identity.
    later
        What later indexes left; ``None``: there is none.
    """

    since_ns: int | None
    part: int
    parts: int
    later: pl.DataFrame | None = None

    def of(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Return what is left of files: the key, allocated_bytes, first and until."""
        import polars as pl

        left = _regular(rows)
        if self.since_ns is not None:
            left = left.filter(pl.col("ctime_ns") >= self.since_ns)
        if self.parts > 1:
            left = left.filter(_part_of(pl.col("id"), self.parts) == self.part)
        if self.later is None:
            times = {"first": "ctime_ns", "until": "ctime_ns"}
            chosen = left.select(*_KEY, "allocated_bytes", **times)
        else:
            chosen = (
                left.select(*_KEY, "ctime_ns")
                .join(self.later.lazy(), on=_KEY, how="inner")
                .filter(pl.col("ctime_ns") < pl.col("first"))
                .select(*_KEY, "allocated_bytes", "until", first="ctime_ns")
            )
        return _once(chosen).collect(engine="streaming")


RowsOf: TypeAlias = Callable[[int, Narrowing], "pl.DataFrame"]
"""What is left of the index of a number, the oldest first."""


def suspicions(
    look: Look,
    *,
    earlier: Sequence[Look] = (),
    kinds: Sequence[Kind] = KINDS,
    limits: EvasionLimits | None = None,
) -> tuple[Suspicion, ...]:
    """Return all signs that files are kept alive without being used, most files first.

    Parameters
    ----------
    look
        The latest index: frame with `COLUMNS`, one row per file, and its times.
    earlier
        Older indexes of the same root, oldest first; ``renewed`` needs two.
    kinds
        Signs to look for; `unseen` says which ones an index cannot show.
    limits
        Thresholds; the defaults where ``None``.

    Returns
    -------
    tuple of Suspicion
        One for each owner and occurrence: files, allocated bytes, and first and last second.
    """
    chosen = limits or EvasionLimits()
    looks = [*earlier, look]
    begins_s = [each.began_s for each in looks]
    counts = counted(look, kinds, chosen, before_s=begins_s[-2] if earlier else None)
    return signs(
        counts, begins_s, lambda number, narrowing: narrowing.of(looks[number].rows), kinds, chosen
    )


def counted(
    look: Look, kinds: Sequence[Kind], limits: EvasionLimits, *, before_s: int | None
) -> Counts:
    """Return what the files of an index, or of a part of it, come to.

    Parameters
    ----------
    before_s
        When the scan before it began, in seconds since 1970; ``None``: not known, or none.
    """
    import polars as pl

    rows = _regular(look.rows)
    frames = {}
    if "touched" in kinds:
        frames["touched"] = _seconds(_touched(rows, limits), _second("ctime_ns"))
    if "read together" in kinds:
        retained, old = _unchanged(rows, look.as_of_s, limits)
        frames["retained"] = _seconds(retained, _second("atime_ns"))
        frames["old"] = old.group_by("uid").agg(files=_files())
    if "future" in kinds:
        frames["future"] = _future(rows, look.as_of_s, limits)
    moved = 0
    if "renewed" in kinds:
        since_ns = _since_ns(before_s, limits)
        later = rows if since_ns is None else rows.filter(pl.col("ctime_ns") >= since_ns)
        moved = later.select(pl.len()).collect(engine="streaming").item()
    return Counts(
        {name: frame.collect(engine="streaming") for name, frame in frames.items()}, moved
    )


def merged(counts: Sequence[Counts]) -> Counts:
    """Return the counts of all parts of an index as one."""
    return Counts(
        {name: _added([each.frames[name] for each in counts]) for name in counts[0].frames},
        sum(each.moved for each in counts),
    )


def signs(
    counts: Counts,
    begins_s: Sequence[int | None],
    rows_of: RowsOf,
    kinds: Sequence[Kind],
    limits: EvasionLimits,
) -> tuple[Suspicion, ...]:
    """Return the signs that counts show, most files first, as `suspicions` does.

    Parameters
    ----------
    begins_s
        When the scan of each index began, the oldest first.
    rows_of
        Asked for what is left of each index where files may have been renewed.
    """
    seen = {
        "touched": lambda: _touched_together(counts, limits),
        "read together": lambda: _read_together(counts, limits),
        "future": lambda: _future_times(counts),
        "renewed": lambda: _renewed(begins_s, counts.moved, rows_of, limits),
    }
    suspected = [sign for kind in KINDS if kind in kinds for sign in seen[kind]()]
    return tuple(sorted(suspected, key=lambda sign: (-sign.files, sign.uid, sign.kind)))


def left_of(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return what `Narrowing.of` left of all parts of an index as one."""
    import polars as pl

    return _once(pl.concat(frames).lazy()).collect()


def _touched(rows: pl.LazyFrame, limits: EvasionLimits) -> pl.LazyFrame:
    """Return files whose three times share one second, long after their birth.

    ``touch`` leaves such times. So does unpacking an archive, on files that it creates; without
    birth times the two cannot be distinguished, and such files are skipped.
    """
    import polars as pl

    second = _second("ctime_ns")
    return rows.filter(
        (_second("atime_ns") == second) & (_second("mtime_ns") == second),
        pl.col("ctime_ns") - pl.col("btime_ns") > limits.grown_s * _NS_PER_S,
    )


def _touched_together(counts: Counts, limits: EvasionLimits) -> Iterator[Suspicion]:
    for uid, files, size, first, last in _goes(counts.frames["touched"], limits):
        yield Suspicion(
            "touched", uid, files, size, first, last,
            f"{plural(files, 'file', ',')} ({format_bytes(size)}) had all their times set to the "
            f"same second within {plural(last - first + 1, 'second', ',')}, long after they were "
            "made",
        )  # fmt: skip


def _unchanged(
    rows: pl.LazyFrame, as_of_s: int, limits: EvasionLimits
) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Return what a purge would have taken but for a read, and all that is unchanged for long."""
    import polars as pl

    unchanged = pl.max_horizontal("mtime_ns", "ctime_ns")
    old_ns = limits.old_s * _NS_PER_S
    read = rows.filter(pl.col("atime_ns").is_not_null())
    retained = read.filter(pl.col("atime_ns") - unchanged > old_ns)
    return retained, read.filter(unchanged < as_of_s * _NS_PER_S - old_ns)


def _read_together(counts: Counts, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners most of whose long unchanged files were read in one pass, without others'."""
    held = dict(counts.frames["old"].iter_rows())
    goes = list(_goes(counts.frames["retained"], limits))
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


def _future(rows: pl.LazyFrame, as_of_s: int, limits: EvasionLimits) -> pl.LazyFrame:
    import polars as pl

    bound_ns = (as_of_s + limits.skew_s) * _NS_PER_S
    latest = pl.max_horizontal(f"{name}_ns" for name in limits.counted)
    return (
        rows.filter(latest > bound_ns)
        .group_by("uid")
        .agg(
            files=_files(),
            size=_allocated(),
            first=latest.min().floordiv(_NS_PER_S),
            last=latest.max().floordiv(_NS_PER_S),
        )
    )


def _future_times(counts: Counts) -> Iterator[Suspicion]:
    """Yield owners of files with a time later than the index, however few."""
    for uid, files, size, first, last in counts.frames["future"].sort("uid").iter_rows():
        yield Suspicion(
            "future", uid, files, int(size), first, last,
            f"{plural(files, 'file', ',')} ({format_bytes(int(size))}) have a time later than the "
            "index; it counts as the time of the index",
        )  # fmt: skip


def _renewed(
    begins_s: Sequence[int | None], moved: int, rows_of: RowsOf, limits: EvasionLimits
) -> Iterator[Suspicion]:
    """Yield owners of many files whose change time advanced in every interval, without their data.

    Notes
    -----
    No user can set a change time: one that advanced between two indexes is later than the
    beginning of the first scan. Few files qualify, so these are selected first and then compared
    with the earlier indexes, in parts where a user renews everything. Fewer than three indexes
    show no period.
    """
    import polars as pl

    parts = -(-moved // PART_ROWS)
    if len(begins_s) < 3 or not parts:
        return
    totals = pl.concat(
        _renewed_part(begins_s, rows_of, limits, part, parts) for part in range(parts)
    )
    for uid, files, size, first, last in _added([totals]).sort("uid").iter_rows():
        if files < limits.files:
            continue
        yield Suspicion(
            "renewed", uid, files, int(size), first, last,
            f"the change time of {plural(files, 'file', ',')} ({format_bytes(int(size))}) moved on "
            f"in each of {plural(len(begins_s) - 1, 'interval')} between indexes, their data never",
        )  # fmt: skip


def _renewed_part(
    begins_s: Sequence[int | None], rows_of: RowsOf, limits: EvasionLimits, part: int, parts: int
) -> pl.DataFrame:
    """Return files, bytes, first and last second of renewal by owner, for a part of all files."""
    import polars as pl

    left = None
    # From the last index back: fewer files are left each time.
    for number in reversed(range(len(begins_s))):
        since_ns = _since_ns(begins_s[number - 1], limits) if number else None
        left = rows_of(number, Narrowing(since_ns, part, parts, left))
    assert left is not None
    return left.group_by("uid").agg(
        files=_files(),
        size=_allocated(),
        first=pl.col("until").min().floordiv(_NS_PER_S),
        last=pl.col("until").max().floordiv(_NS_PER_S),
    )


def _since_ns(before_s: int | None, limits: EvasionLimits) -> int | None:
    """Return what a change time must reach to be later than in the index before."""
    return None if before_s is None else (before_s - limits.skew_s) * _NS_PER_S


def _part_of(identity: pl.Expr, parts: int) -> pl.Expr:
    """Return the part of each identity: the same in every process, whatever Polars it has."""
    import polars as pl

    words = (identity.bin.slice(at, 4).bin.reinterpret(dtype=pl.UInt32) for at in (4, 8, 12))
    # Consecutive numbers come to different parts: the multiplier is 65,536 by the golden ratio.
    return pl.sum_horizontal(word.cast(pl.UInt64) for word in words) * 40503 // 65536 % parts


def _once(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row of each file: an index may have a file twice that was renamed meanwhile."""
    import polars as pl

    return rows.group_by(_KEY).agg(
        pl.col("allocated_bytes").max(), pl.col("first").min(), pl.col("until").max()
    )


def _regular(rows: pl.LazyFrame) -> pl.LazyFrame:
    import polars as pl

    return rows.select(COLUMNS).filter(pl.col("type") == "f")


def _second(name: str) -> pl.Expr:
    import polars as pl

    return pl.col(name).floordiv(_NS_PER_S)


def _files() -> pl.Expr:
    import polars as pl

    return pl.len().cast(pl.Int64)


def _allocated() -> pl.Expr:
    import polars as pl

    return pl.col("allocated_bytes").cast(pl.Int128).sum()


def _seconds(frame: pl.LazyFrame, second: pl.Expr) -> pl.LazyFrame:
    """Return files and bytes of each owner and second: what is sorted is seconds and not files."""
    return frame.group_by("uid", second.alias("second")).agg(files=_files(), size=_allocated())


def _added(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return counts of parts as one: sums, the first and the last of each key."""
    import polars as pl

    whole = pl.concat(frames)
    merging = {"files": pl.Expr.sum, "size": pl.Expr.sum, "first": pl.Expr.min, "last": pl.Expr.max}
    keys = [name for name in whole.columns if name not in merging]
    values = [name for name in whole.columns if name in merging]
    return whole.group_by(keys).agg(merging[name](pl.col(name)) for name in values)


def _goes(seconds: pl.DataFrame, limits: EvasionLimits) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield owner, files, bytes, first and last second of each go that has enough files.

    Seconds of one owner that follow one another within the gap are one go.
    """
    import polars as pl

    ordered = seconds.sort("uid", "second")
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
