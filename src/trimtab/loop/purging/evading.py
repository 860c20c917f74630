"""An index looked through for signs that files are kept alive without being used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from trimtab.errors import UsageError
from trimtab.loop.dask_workers import answering
from trimtab.loop.purging.by_shards import HINT, piece_manifests
from trimtab.loop.purging.core_errors import core_errors
from trimtab.loop.purging.replaying import require_same
from trimtab.purge.evasion import (
    COLUMNS,
    Counts,
    Narrowing,
    counted,
    left_of,
    merged,
    signs,
    suspicions,
)
from trimtab.purge.index import views
from trimtab.purge.index.manifest import Manifest, TimeTrust
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.index.query import doubts
from trimtab.purge.policy import Policy
from trimtab.purge.signs import KINDS, EvasionLimits, Kind, Look, Signs, Suspicion, unseen
from trimtab.visible import visible

if TYPE_CHECKING:
    import polars as pl

    from trimtab.loop.workers import Together


_NAMED: Final = (*COLUMNS, "device", "parent", "name")
"""Columns of files with several names: they say which of them is the first."""


def look_for_evasion(
    directory: Path,
    *,
    earlier: Sequence[Path] = (),
    policy: Policy | None = None,
    files: int | None = None,
    dask: str | None = None,
) -> Signs:
    """Return the signs that files of an index are kept alive unused.

    Parameters
    ----------
    directory
        Of the index.
    earlier
        Older ones of the same root, in any order.
    policy
        Its minimum age is what an owner would want to keep alive, times that do not count keep
        nothing, and users that it exempts have no need to; ``None``: the usual values.
    files
        Fewer files of one owner are not reported; ``None``: `EvasionLimits.files`.
    dask
        Scheduler whose workers read the indexes, as `trimtab.loop.dask_workers.answering` has it.

    Raises
    ------
    UsageError
        The indexes are not of one root, or not older; or Dask is not installed.
    UnreadableError, DataError
        One cannot be read.
    ToolError
        Workers or the scheduler were lost.
    """
    manifest = load_manifest(directory)
    older = sorted(
        ((load_manifest(path), path) for path in earlier), key=lambda pair: pair[0].ended_ns
    )
    manifests = (*(index for index, _ in older), manifest)
    _require_order(manifests)
    limits = _limits(policy, files)
    exempt_users = () if policy is None else sorted(policy.exempt_numbers("user", manifest.as_of_s))
    view = _View(tuple(exempt_users), max(index.time_resolution_ns for index in manifests))
    indexes = [*((path, index) for index, path in older), (directory, manifest)]
    look = _Looking(indexes, view, limits)
    with views.readable():
        suspected, passed_over = look.alone() if dask is None else look.by_workers(dask)
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


@dataclass(frozen=True, slots=True)
class _View:
    """Files as all indexes are looked at: of whom, and with times as coarse as the coarsest.

    A time in nanoseconds is later than the same in seconds, and would look as if it had moved on.
    """

    exempt_users: tuple[int, ...]
    resolution_ns: int

    def of(self, files: pl.LazyFrame) -> pl.LazyFrame:
        import polars as pl

        rows = files.select(COLUMNS)
        if self.exempt_users:
            rows = rows.filter(~pl.col("uid").is_in(self.exempt_users))
        if self.resolution_ns > 1:
            times = [name for name in COLUMNS if name.endswith("_ns")]
            rows = rows.with_columns(
                pl.col(times).floordiv(self.resolution_ns) * self.resolution_ns
            )
        return rows


def _began_s(manifest: Manifest) -> int | None:
    started_ns = manifest.started_ns
    return None if started_ns is None else started_ns // 10**9


def _has_births(rows: pl.LazyFrame) -> bool:
    """Return whether any file has a birth time: a network file system may give none."""
    import polars as pl

    known: pl.DataFrame = (
        rows.filter(pl.col("btime_ns").is_not_null()).head(1).collect(engine="streaming")
    )
    return bool(known.height)


@dataclass(frozen=True, slots=True)
class _Looking:
    """Indexes that are looked through, the oldest first: by one process, or by workers."""

    indexes: Sequence[tuple[Path, Manifest]]
    view: _View
    limits: EvasionLimits

    def alone(self) -> tuple[tuple[Suspicion, ...], dict[Kind, str]]:
        """Return the signs, and why others were not looked for."""
        looks = [
            Look(
                self.view.of(views.files(views.scanned(path, index))),
                index.as_of_s,
                _began_s(index),
            )
            for path, index in self.indexes
        ]
        passed_over = self._unseen(births=_has_births(looks[-1].rows))
        kinds: list[Kind] = [kind for kind in KINDS if kind not in passed_over]
        suspected = suspicions(looks[-1], earlier=looks[:-1], kinds=kinds, limits=self.limits)
        return suspected, passed_over

    def by_workers(self, dask: str) -> tuple[tuple[Suspicion, ...], dict[Kind, str]]:
        """Return the same, from counts of shards that workers of Dask made."""
        path, latest = self.indexes[-1]
        pieces = [piece_manifests(path, index) for path, index in self.indexes]
        begins_s = [_began_s(index) for _, index in self.indexes]
        passed_over = self._unseen(births=True)
        kinds: list[Kind] = [kind for kind in KINDS if kind not in passed_over]
        counting = _Counting(
            path.absolute(), latest, self.view, tuple(kinds), self.limits,
            begins_s[-2] if len(begins_s) > 1 else None,
        )  # fmt: skip
        with (
            core_errors("looking through the index", hint="is there room beside the index?"),
            TemporaryDirectory(prefix=".renewed-", dir=path.absolute()) as shared,
            answering(None, dask, most=max(map(len, pieces)), hint=HINT) as together,
        ):
            parts = together(replace(counting, manifest=piece) for piece in pieces[-1])
            counts, births, several = zip(*parts, strict=True)
            latest_several = _first_names(several)
            counts = merged([*counts, counting.counts(latest_several)])
            has_births = any(births) or _has_births(self.view.of(latest_several))
            passed_over = self._unseen(births=has_births)
            kinds = [kind for kind in kinds if kind not in passed_over]
            renewals = _Renewals(self, pieces, latest_several, together, Path(shared))
            return signs(counts, begins_s, renewals.left, kinds, self.limits), passed_over

    def _unseen(self, *, births: bool) -> dict[Kind, str]:
        lacking = [index.lacking for _, index in self.indexes]
        return unseen(lacking, births=births, limits=self.limits)


@dataclass(frozen=True, slots=True)
class _Counting:
    """Counts of the files with one name among some shards of the latest index.

    Attributes
    ----------
    before_s
        As `trimtab.purge.evasion.counted` has it.
    """

    directory: Path
    manifest: Manifest
    view: _View
    kinds: tuple[Kind, ...]
    limits: EvasionLimits
    before_s: int | None

    def answer(self) -> tuple[Counts, bool, pl.DataFrame]:
        """Return counts, whether a file has a birth time, and the rows of files of several names.

        Raises
        ------
        DataError
            A shard cannot be read.
        """
        with views.readable():
            rows = views.scanned(self.directory, self.manifest)
            single = views.single_named(rows)
            several = views.several_named(rows).select(_NAMED)
            births = _has_births(self.view.of(single))
            return self.counts(single), births, several.collect(engine="streaming")

    def counts(self, files: pl.LazyFrame) -> Counts:
        """Return the counts of files, each of which is a row."""
        look = Look(self.view.of(files), self.manifest.as_of_s)
        return counted(look, self.kinds, self.limits, before_s=self.before_s)


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of some shards of an index where files may have been renewed.

    Attributes
    ----------
    narrowing
        Without what later indexes left, which is in a file.
    later
        The file; ``None``: this is the latest index.
    """

    directory: Path
    manifest: Manifest
    view: _View
    narrowing: Narrowing
    later: str | None

    def answer(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return what is left of files of one name, and the rows of those of several.

        Raises
        ------
        DataError
            A shard cannot be read.
        """
        import polars as pl

        with views.readable():
            rows = views.scanned(self.directory, self.manifest)
            several = views.several_named(rows).select(_NAMED)
            narrowing = self.narrowing
            if self.later is None:
                several = several.head(0)
            else:
                later = pl.read_parquet(self.later)
                narrowing = replace(narrowing, later=later)
                several = several.join(later.lazy(), on="id", how="semi")
            left = narrowing.of(self.view.of(views.single_named(rows)))
            return left, several.collect(engine="streaming")


@dataclass(frozen=True, slots=True)
class _Renewals:
    """Asks workers what is left of each index; what later ones left is in a file that all share."""

    looking: _Looking
    pieces: Sequence[Sequence[Manifest]]
    latest_several: pl.LazyFrame
    together: Together
    shared: Path

    def left(self, number: int, narrowing: Narrowing) -> pl.DataFrame:
        """Return what is left of the index of a number."""
        path, view = self.looking.indexes[number][0].absolute(), self.looking.view
        later = None
        if narrowing.later is not None:
            later = str(self.shared / f"later-{narrowing.part}-{number}")
            narrowing.later.write_parquet(later)
        alone = replace(narrowing, later=None)
        questions = (_Left(path, piece, view, alone, later) for piece in self.pieces[number])
        single, several = zip(*self.together(questions), strict=True)
        first = self.latest_several if later is None else _first_names(several)
        return left_of([*single, narrowing.of(view.of(first))])


def _first_names(several: Sequence[pl.DataFrame]) -> pl.LazyFrame:
    """Return one row for each file whose names are among these rows."""
    import polars as pl

    return views.first_names(pl.concat(several).lazy()).collect().lazy()


def _notes(manifests: Sequence[Manifest], exempt_users: Sequence[int]) -> Iterator[str]:
    yield from doubts(manifests[-1])
    if any(manifest.times is TimeTrust.MDS_ONLY for manifest in manifests):
        yield (
            "times are those of the metadata server: a file may have been used later, and reads "
            "that it has not heard of are not seen"
        )
    if any(manifest.source is not manifests[-1].source for manifest in manifests):
        tools = ", ".join(dict.fromkeys(visible(manifest.tool) for manifest in manifests))
        yield f"the indexes were made by different programs ({tools}): files may not be known again"
    if exempt_users:
        yield "files of users that the policy exempts were not looked at"
