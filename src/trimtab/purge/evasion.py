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

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

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
    seen = {
        "touched": lambda: touched_together(look, chosen),
        "read together": lambda: read_together(look, chosen),
        "future": lambda: future_times(look, chosen),
        "renewed": lambda: renewed([*earlier, look], chosen),
    }
    signs = [sign for kind in KINDS if kind in kinds for sign in seen[kind]()]
    return tuple(sorted(signs, key=lambda sign: (-sign.files, sign.uid, sign.kind)))


def touched_together(look: Look, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of many files whose three times share one second, long after their birth.

    ``touch`` leaves such times. So does unpacking an archive, on files that it creates; without
    birth times the two cannot be distinguished, and such files are skipped.

    Parameters
    ----------
    look
        The index; times in nanoseconds since 1970, null where unknown.
    limits
        ``files``, ``gap_s`` and ``grown_s`` apply.
    """
    import polars as pl

    second = _second("ctime_ns")
    grown_ns = limits.grown_s * _NS_PER_S
    chosen = _files(look).filter(
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


def read_together(look: Look, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners most of whose long unchanged files were read in one pass, without other owners'.

    Parameters
    ----------
    look
        The index; times in nanoseconds since 1970, null where unknown.
    limits
        ``files``, ``gap_s``, ``old_s`` and ``share`` apply.
    """
    import polars as pl

    unchanged = pl.max_horizontal("mtime_ns", "ctime_ns")
    old_ns = limits.old_s * _NS_PER_S
    files_of = _files(look).filter(pl.col("atime_ns").is_not_null())
    # What a purge would have taken but for the read.
    retained = files_of.filter(pl.col("atime_ns") - unchanged > old_ns)
    old = files_of.filter(unchanged < look.as_of_s * _NS_PER_S - old_ns)
    held = dict(old.group_by("uid").agg(pl.len()).collect(engine="streaming").iter_rows())
    goes = list(_goes(retained, _second("atime_ns"), limits))
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


def future_times(look: Look, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of files with a time later than the index, however few.

    Parameters
    ----------
    look
        The index; times in nanoseconds since 1970, null where unknown.
    limits
        ``counted`` and ``skew_s`` apply.
    """
    import polars as pl

    bound_ns = (look.as_of_s + limits.skew_s) * _NS_PER_S
    latest = pl.max_horizontal(f"{name}_ns" for name in limits.counted)
    frame = (
        _files(look)
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


def renewed(looks: Sequence[Look], limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of many files whose change time advanced in every interval, without their data.

    Parameters
    ----------
    looks
        Indexes of the same root, oldest first; fewer than three show no period.
    limits
        ``files`` and ``skew_s`` apply.

    Notes
    -----
    No user can set a change time: one that advanced between two indexes is later than the
    beginning of the first scan. Few files qualify, so these are selected first and then compared
    with the earlier indexes, in parts where a user renews everything.
    """
    import polars as pl

    if len(looks) < 3:
        return
    moved = _moved_since(looks[-1], looks[-2], limits)
    count = moved.select(pl.len()).collect(engine="streaming").item()
    parts = -(-count // PART_ROWS)
    if not parts:
        return
    totals = pl.concat(_renewed_part(looks, limits, part, parts) for part in range(parts))
    frame = (
        totals.group_by("uid")
        .agg(pl.col("files", "size").sum(), pl.col("first").min(), pl.col("last").max())
        .filter(pl.col("files") >= limits.files)
        .sort("uid")
    )
    for uid, files, size, first, last in frame.iter_rows():
        yield Suspicion(
            "renewed", uid, files, int(size), first, last,
            f"the change time of {plural(files, 'file', ',')} ({format_bytes(int(size))}) moved on "
            f"in each of {plural(len(looks) - 1, 'interval')} between indexes, their data never",
        )  # fmt: skip


def _renewed_part(
    looks: Sequence[Look], limits: EvasionLimits, part: int, parts: int
) -> pl.DataFrame:
    """Return files, bytes, first and last second of renewal by owner, for a part of all files."""
    import polars as pl

    key = ["id", "uid", "size_bytes", "mtime_ns"]
    here = pl.col("id").hash(seed=1) % parts == part
    left = (
        _moved_since(looks[-1], looks[-2], limits)
        .filter(here)
        .select(*key, "allocated_bytes", first="ctime_ns", until="ctime_ns")
        .unique(key)
        .collect(engine="streaming")
    )
    # From the last index back: fewer files are left each time.
    for place in reversed(range(len(looks) - 1)):
        look = looks[place]
        rows = _moved_since(look, looks[place - 1], limits) if place else _files(look)
        left = (
            rows.filter(here)
            .select(*key, "ctime_ns")
            .join(left.lazy(), on=key, how="inner")
            .filter(pl.col("ctime_ns") < pl.col("first"))
            .select(*key, "allocated_bytes", "until", first="ctime_ns")
            .unique(key)
            .collect(engine="streaming")
        )
    return left.group_by("uid").agg(
        files=pl.len().cast(pl.Int64),
        size=pl.col("allocated_bytes").cast(pl.Int128).sum(),
        first=pl.col("until").min().floordiv(_NS_PER_S),
        last=pl.col("until").max().floordiv(_NS_PER_S),
    )


def _moved_since(look: Look, before: Look, limits: EvasionLimits) -> pl.LazyFrame:
    """Return the files whose change time may be later than where it was before."""
    import polars as pl

    if before.began_s is None:
        return _files(look)
    return _files(look).filter(pl.col("ctime_ns") >= (before.began_s - limits.skew_s) * _NS_PER_S)


def _files(look: Look) -> pl.LazyFrame:
    import polars as pl

    return look.rows.select(COLUMNS).filter(pl.col("type") == "f")


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
