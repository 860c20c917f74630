"""Detect files kept artificially young; signs are counted and reported, with no consequence.

No sign is proof: a job that reads a data set looks like a loop that reads files to keep them, and a
wrong clock looks like a date set on purpose. Each sign requires a pattern that ordinary work does
not produce:

==================  ===================================================================
``touched``         access, modification and change in the same second, of many files of
                    one owner within seconds of each other, long after their birth
                    (which no user can set)
``read together``   most of an owner's long untouched files were read in one pass, and no
                    other owner's files were at that time (a backup reads all users' files)
``future``          a time later than the index, which would keep a file for ever; it
                    counts as the time of the index, and is reported
``renewed``         the change time of the same unchanged files advanced in every
                    interval between indexes: ``chmod`` or a rename in a crontab
==================  ===================================================================

`suspicions` is pure, over frames of the index; `look_for_evasion` reads the indexes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from trimtab.base.error import UsageError, visible
from trimtab.base.units import format_bytes, plural
from trimtab.purge.horizon.evasion_sign import (
    KINDS,
    EvasionLimits,
    IndexLook,
    Kind,
    Signs,
    Suspicion,
    unseen,
)
from trimtab.purge.horizon.horizon_question import require_same
from trimtab.purge.index import index_view
from trimtab.purge.index.index_query import doubts
from trimtab.purge.index.manifest import Manifest, TimeTrust
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.purge_policy import Policy

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
"""Number of files compared with earlier indexes at once; more are split into parts by identity."""

_NS_PER_S: Final = 10**9
_KEY: Final = ("id", "uid", "size_bytes", "mtime_ns")
"""Columns that stay equal between two indexes if a file's data did not change."""


def suspicions(
    look: IndexLook,
    *,
    earlier: Sequence[IndexLook] = (),
    kinds: Sequence[Kind] = KINDS,
    limits: EvasionLimits | None = None,
) -> tuple[Suspicion, ...]:
    """Return all signs that files are kept artificially young, most files first.

    Parameters
    ----------
    look
        The latest index: frame with `COLUMNS`, one row per file, and its times.
    earlier
        Earlier indexes of the same root, oldest first; ``renewed`` needs two.
    kinds
        Signs to look for; `unseen` lists those that an index cannot show.
    limits
        Thresholds; ``None`` for the defaults.

    Returns
    -------
    tuple of Suspicion
        One per owner and occurrence, with files, allocated bytes, and first and last second.
    """
    chosen = limits or EvasionLimits()
    seen = {
        "touched": lambda: _touched_together(look, chosen),
        "read together": lambda: _read_together(look, chosen),
        "future": lambda: _future_times(look, chosen),
        "renewed": lambda: _renewed([*earlier, look], chosen),
    }
    signs = [sign for kind in KINDS if kind in kinds for sign in seen[kind]()]
    return tuple(sorted(signs, key=lambda sign: (-sign.files, sign.uid, sign.kind)))


def _touched_together(look: IndexLook, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of many files whose three times share one second, long after their birth.

    ``touch`` leaves such times, and so does unpacking an archive on the files it creates. Without
    birth times the two cannot be distinguished, so such files are skipped.
    """
    second = _second("ctime_ns")
    touched = _regular(look).filter(
        (_second("atime_ns") == second) & (_second("mtime_ns") == second),
        pl.col("ctime_ns") - pl.col("btime_ns") > limits.grown_s * _NS_PER_S,
    )
    for uid, files, size, first, last in _goes(touched, second, limits):
        yield Suspicion(
            "touched", uid, files, size, first, last,
            f"{plural(files, 'file', ',')} ({format_bytes(size)}) had all their times set to the "
            f"same second within {plural(last - first + 1, 'second', ',')}, long after they were "
            "made",
        )  # fmt: skip


def _read_together(look: IndexLook, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners most of whose long unchanged files were read in one pass, without others'."""
    unchanged = pl.max_horizontal("mtime_ns", "ctime_ns")
    old_ns = limits.old_s * _NS_PER_S
    read = _regular(look).filter(pl.col("atime_ns").is_not_null())
    # Files that a purge would have deleted without the read.
    retained = read.filter(pl.col("atime_ns") - unchanged > old_ns)
    old = read.filter(unchanged < look.as_of_s * _NS_PER_S - old_ns)
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
            f"{plural(files, 'file', ',')} ({format_bytes(size)}), {share:.0%} of this owner's "
            f"long unchanged files, were read within {plural(last - first + 1, 'second', ',')}; it "
            "may be a job",
        )  # fmt: skip


def _future_times(look: IndexLook, limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of files with a time later than the index, however few."""
    latest = pl.max_horizontal(f"{name}_ns" for name in limits.counted)
    later = _regular(look).filter(latest > (look.as_of_s + limits.skew_s) * _NS_PER_S)
    for uid, files, size, first, last in _by_owner(later, latest).sort("uid").iter_rows():
        yield Suspicion(
            "future", uid, files, int(size), first, last,
            f"{plural(files, 'file', ',')} ({format_bytes(int(size))}) have a time later than the "
            "index; it counts as the time of the index",
        )  # fmt: skip


def _renewed(looks: Sequence[IndexLook], limits: EvasionLimits) -> Iterator[Suspicion]:
    """Yield owners of many files whose change time advanced in every interval, with unchanged data.

    Notes
    -----
    No user can set a change time: one that advanced between two indexes is later than the start of
    the first scan. Few files qualify, so these are selected first and then compared with the
    earlier indexes, in parts in case a user renews everything. Fewer than three indexes show no
    regular interval.
    """
    if len(looks) < 3:
        return
    moved = _moved_since(looks[-1], looks[-2], limits).select(pl.len())
    parts = -(-moved.collect(engine="streaming").item() // PART_ROWS)
    if not parts:
        return
    totals = pl.concat(_renewed_part(looks, limits, part, parts) for part in range(parts))
    owners = totals.group_by("uid").agg(pl.sum("files", "size"), pl.min("first"), pl.max("last"))
    for uid, files, size, first, last in owners.sort("uid").iter_rows():
        if files < limits.files:
            continue
        yield Suspicion(
            "renewed", uid, files, int(size), first, last,
            f"the change time of {plural(files, 'file', ',')} ({format_bytes(int(size))}) advanced "
            f"in each of {plural(len(looks) - 1, 'interval')} between indexes, but their data "
            "never changed",
        )  # fmt: skip


def _renewed_part(
    looks: Sequence[IndexLook], limits: EvasionLimits, part: int, parts: int
) -> pl.DataFrame:
    """Return files, bytes, first and last second of renewal by owner, for one part of all files."""
    here = pl.col("id").hash(seed=1) % parts == part
    moved = _moved_since(looks[-1], looks[-2], limits).filter(here)
    left = _once(moved.select(*_KEY, "allocated_bytes", first="ctime_ns", until="ctime_ns"))
    # From the last index back: fewer files are left each time.
    for number in reversed(range(len(looks) - 1)):
        before = looks[number - 1] if number else None
        earlier = _moved_since(looks[number], before, limits).filter(here)
        left = _once(
            earlier.select(*_KEY, "ctime_ns")
            .join(left.lazy(), on=_KEY, how="inner")
            .filter(pl.col("ctime_ns") < pl.col("first"))
            .select(*_KEY, "allocated_bytes", "until", first="ctime_ns")
        )
    return _by_owner(left.lazy(), pl.col("until"))


def _moved_since(look: IndexLook, before: IndexLook | None, limits: EvasionLimits) -> pl.LazyFrame:
    """Return the files whose change time may be later than in the previous index."""
    rows = _regular(look)
    if before is None or before.began_s is None:
        return rows
    return rows.filter(pl.col("ctime_ns") >= (before.began_s - limits.skew_s) * _NS_PER_S)


def _once(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return one row per file: an index may list a file twice if it was renamed during the scan."""
    once = rows.group_by(_KEY).agg(pl.max("allocated_bytes"), pl.min("first"), pl.max("until"))
    return once.collect(engine="streaming")


def _regular(look: IndexLook) -> pl.LazyFrame:
    return look.rows.select(COLUMNS).filter(type="f")


def _second(name: str) -> pl.Expr:
    return pl.col(name).floordiv(_NS_PER_S)


def _allocated() -> pl.Expr:
    return pl.col("allocated_bytes").cast(pl.Int128).sum()


def _by_owner(rows: pl.LazyFrame, time_ns: pl.Expr) -> pl.DataFrame:
    """Return files, bytes, and the first and last second of a time, by owner."""
    of_owners = rows.group_by("uid").agg(
        files=pl.len().cast(pl.Int64),
        size=_allocated(),
        first=time_ns.min().floordiv(_NS_PER_S),
        last=time_ns.max().floordiv(_NS_PER_S),
    )
    return of_owners.collect(engine="streaming")


def _goes(
    rows: pl.LazyFrame, second: pl.Expr, limits: EvasionLimits
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield owner, files, bytes, first and last second of each pass with enough files.

    Seconds of one owner within the gap of each other form one pass. Files are counted per second
    first, so that seconds and not files are sorted.
    """
    seconds = rows.group_by("uid", second.alias("second")).agg(
        files=pl.len().cast(pl.Int64), size=_allocated()
    )
    ordered = seconds.collect(engine="streaming").sort("uid", "second")
    # Between two owners the difference does not matter: grouping by owner separates them.
    apart = ordered["second"].diff() > limits.gap_s
    frame_of_goes = (
        ordered.with_columns(go=apart.fill_null(value=True).cum_sum())
        .group_by("uid", "go")
        .agg(
            pl.sum("files"),
            pl.sum("size"),
            first=pl.min("second"),
            last=pl.max("second"),
        )
        .filter(pl.col("files") >= limits.files)
        .sort("uid", "first")
    )
    for uid, _, files, size, first, last in frame_of_goes.iter_rows():
        yield uid, files, int(size), first, last


def look_for_evasion(
    directory: Path,
    *,
    earlier: Sequence[Path] = (),
    policy: Policy | None = None,
    files: int | None = None,
) -> Signs:
    """Return the signs that files of an index are kept alive unused.

    Parameters
    ----------
    directory
        Directory of the index.
    earlier
        Directories of older indexes of the same root, in any order.
    policy
        Its minimum age is what an owner would want to keep alive, times that do not count keep
        nothing, and users that it exempts have no need to; ``None``: the usual values.
    files
        Fewer files of one owner are not reported; ``None``: `EvasionLimits.files`.

    Raises
    ------
    UsageError
        The indexes are not of one root, or not older.
    UnreadableError, DataError
        One cannot be read.
    """
    manifest = load_manifest(directory)
    older = sorted(
        ((load_manifest(path), path) for path in earlier), key=lambda pair: pair[0].ended_ns
    )
    manifests = (*(index for index, _ in older), manifest)
    _require_order(manifests)
    limits = _limits(policy, files)
    exempt_users = () if policy is None else sorted(policy.exempt_numbers("user", manifest.as_of_s))
    coarsest_ns = max(index.time_resolution_ns for index in manifests)
    with index_view.readable():
        looks = [
            _look(at, index, exempt_users, coarsest_ns)
            for index, at in (*older, (manifest, directory))
        ]
        passed_over = unseen(
            [index.lacking for index in manifests], births=_has_births(looks[-1]), limits=limits
        )
        kinds: list[Kind] = [kind for kind in KINDS if kind not in passed_over]
        suspected = suspicions(looks[-1], earlier=looks[:-1], kinds=kinds, limits=limits)
    return Signs(
        manifest=manifest,
        earlier=manifests[:-1],
        limits=limits,
        found=suspected,
        passed_over=passed_over,
        notes=tuple(_notes(manifests, exempt_users)),
    )


def _require_order(manifests: Sequence[Manifest]) -> None:
    last = manifests[-1]
    ends = [manifest.ended_ns for manifest in manifests]
    for manifest in manifests[:-1]:
        require_same(manifest, last)
    if len(set(ends)) < len(ends) or max(ends) != ends[-1]:
        raise UsageError(
            "an earlier index is not earlier, or is given twice",
            code="index-not-earlier",
            hint="--index is the latest, and each --earlier another one before it",
        )


def _limits(policy: Policy | None, files: int | None) -> EvasionLimits:
    usual = EvasionLimits()
    limits = usual if files is None else replace(usual, files=files)
    if policy is None:
        return limits
    return replace(limits, old_s=policy.minimum_age_s, counted=policy.counted)


def _look(
    directory: Path, manifest: Manifest, exempt_users: Sequence[int], resolution_ns: int
) -> IndexLook:
    """Return an index as it is looked at: each file once, times as coarse as the coarsest index.

    A time in nanoseconds is later than the same in seconds, and would look as if it had moved on.
    """
    rows = index_view.files(index_view.scanned(directory, manifest)).select(COLUMNS)
    if exempt_users:
        rows = rows.filter(~pl.col("uid").is_in(exempt_users))
    if resolution_ns > 1:
        times = [name for name in COLUMNS if name.endswith("_ns")]
        rows = rows.with_columns(pl.col(times).floordiv(resolution_ns) * resolution_ns)
    started_ns = manifest.started_ns
    return IndexLook(rows, manifest.as_of_s, None if started_ns is None else started_ns // 10**9)


def _has_births(look: IndexLook) -> bool:
    """Return whether any file has a birth time: a network file system may give none."""
    known: pl.DataFrame = (
        look.rows.filter(pl.col("btime_ns").is_not_null()).head(1).collect(engine="streaming")
    )
    return bool(known.height)


def _notes(manifests: Sequence[Manifest], exempt_users: Sequence[int]) -> Iterator[str]:
    yield from doubts(manifests[-1])
    if any(manifest.times is TimeTrust.MDS_ONLY for manifest in manifests):
        yield (
            "times are those of the metadata server: a file may have been used later, and reads "
            "that it has not heard of are not seen"
        )
    if any(manifest.source is not manifests[-1].source for manifest in manifests):
        tools = ", ".join(dict.fromkeys(visible(manifest.tool) for manifest in manifests))
        yield (
            f"the indexes were made by different programs ({tools}): files may not be recognised "
            "again"
        )
    if exempt_users:
        yield "files of users that the policy exempts were not looked at"
