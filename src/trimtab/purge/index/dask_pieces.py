"""An index read by many workers: its shards in pieces, whose results merge exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import polars as pl

from trimtab.base.plain import plain_file
from trimtab.purge.core_call import core_errors
from trimtab.purge.index import index_view
from trimtab.purge.index.index_query import ROWS_MAXIMUM, By, answer, check, merged, totals
from trimtab.purge.index.manifest import ShardPath, shard_path
from trimtab.purge.index.manifest_file import load_manifest
from trimtab.purge.rules_in_force import RulesInForce
from trimtab.reach.dask_worker import answering

if TYPE_CHECKING:
    from trimtab._core import Tally
    from trimtab.purge.index.index_query import QueryAnswer
    from trimtab.purge.index.manifest import Manifest

PIECE_BYTES: Final = 256 * 1024**2
"""Bytes of shards in one task: a few seconds of reading, many times what the scheduler takes."""
_ROOM: Final = "is there room beside the plan, and in the directory of the index?"
_HINT: Final = "start workers with more memory; or leave --dask out"


@dataclass(frozen=True, slots=True)
class TallyPart:
    """Amounts by age of some shards of an index.

    Attributes
    ----------
    shards
        Paths that every worker can read; in pairs with the rows that count no more.
    threads
        0: one a processor.
    """

    shards: tuple[ShardPath, ...]
    rules: RulesInForce
    users: bool = False
    projects: bool = False
    osts: bool = False
    threads: int = 1

    def answer(self) -> Tally:
        """Return the tally; tallies of all shards merge to that of the index.

        Raises
        ------
        ToolError, DataError
            A shard cannot be read.
        """
        from trimtab._core import tally

        with core_errors("reading the index"):
            return tally(
                list(self.shards),
                self.rules.core(),
                threads=self.threads,
                users=self.users,
                projects=self.projects,
                osts=self.osts,
            )


def pieces(
    directory: Path, manifest: Manifest, *, most_bytes: int = 0
) -> list[tuple[ShardPath, ...]]:
    """Return the shards of an index in groups of neighbours, each the work of one task.

    Parameters
    ----------
    most_bytes
        Maximum size of a group, unless one shard is larger; 0: `PIECE_BYTES`.
    """
    groups: list[list[ShardPath]] = []
    room = 0
    for shard in manifest.shards:
        room -= shard.size_bytes
        if room < 0 or not groups:
            groups.append([])
            room = (most_bytes or PIECE_BYTES) - shard.size_bytes
        groups[-1].append(shard_path(directory.absolute(), shard))
    return [tuple(group) for group in groups] or [()]


def piece_manifests(directory: Path, manifest: Manifest) -> list[Manifest]:
    """Return the manifest of an index with the shards of each of its `pieces` alone."""
    shards = {shard_path(directory.absolute(), shard): shard for shard in manifest.shards}
    return [
        replace(manifest, shards=tuple(shards[path] for path in piece))
        for piece in pieces(directory, manifest)
    ]


def merged_tally(parts: Sequence[TallyPart], dask: str) -> Tally:
    """Return the tally of all parts, each counted by a worker of Dask.

    No more of them are in memory than workers have answered ahead of the first that has not.

    Raises
    ------
    UsageError
        Dask is not installed.
    ToolError
        Workers or the scheduler were lost.
    DataError
        A shard cannot be read.
    """
    with answering(None, dask, most=len(parts), hint=_HINT) as together:
        return _merged(together(parts))


def _merged(tallies: Iterator[Tally]) -> Tally:
    total = next(tallies)
    for tally in tallies:
        with core_errors("merging tallies"):
            total.merge(tally)
    return total


@dataclass(frozen=True, slots=True)
class SelectPart:
    """Candidates among some shards of an index.

    Attributes
    ----------
    out
        Directory for the file of each attempt.
    linked
        A tally of the index as a file; ``None``: files with several names stay.
    """

    shards: tuple[ShardPath, ...]
    rules: RulesInForce
    before_s: int
    out: str
    linked: str | None

    def answer(self) -> str:
        """Return the name of the file with the candidates, the longest unused first.

        Raises
        ------
        ToolError, DataError
            A shard cannot be read, or the file not be written.
        """
        from trimtab._core import Tally, select_part

        name = uuid4().hex
        with core_errors("choosing the candidates", hint=_ROOM):
            linked = (
                None if self.linked is None else Tally.from_bytes(Path(self.linked).read_bytes())
            )
            rules = self.rules.core()
            select_part(
                self.shards, rules, before_s=self.before_s, out=str(Path(self.out, name)),
                linked=linked,
            )  # fmt: skip
        return name


def chosen_by_workers(
    directory: Path,
    manifest: Manifest,
    rules: RulesInForce,
    *,
    before_s: int,
    out: Path,
    dask: str,
) -> None:
    """Write the candidates of a cut-off to a file, as one process would.

    Each worker writes those of its shards into a directory in that of the index, which all share;
    they are merged here, row by row.

    Raises
    ------
    UsageError, ToolError, DataError
        As `merged_tally` has them; or a file cannot be written.
    """
    from trimtab._core import merge_parts

    shards = pieces(directory, manifest)
    with (
        core_errors("choosing the candidates", hint=_ROOM),
        TemporaryDirectory(prefix=".candidates-", dir=directory.absolute()) as shared,
        answering(None, dask, most=len(shards), hint=_HINT) as together,
    ):
        linked = None
        if rules.linked:
            linked = str(Path(shared, "linked"))
            whole = _merged(together(TallyPart(piece, rules) for piece in shards))
            Path(linked).write_bytes(whole.to_bytes())
        parts = (SelectPart(piece, rules, before_s, shared, linked) for piece in shards)
        merge_parts([str(plain_file(shared, name)) for name in together(parts)], str(out))


@dataclass(frozen=True, slots=True)
class TotalsPart:
    """Totals by owner of some shards of an index.

    Attributes
    ----------
    manifest
        Manifest of the index, with these shards alone.
    """

    directory: Path
    manifest: Manifest
    by: By

    def answer(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the totals of files with one name, and the rows of those with several."""
        rows = index_view.scanned(self.directory, self.manifest)
        with index_view.readable():
            single = index_view.described(index_view.single_named(rows), self.manifest)
            several = index_view.several_named(rows)
            return (
                totals(single, self.by).collect(engine="streaming"),
                several.collect(engine="streaming"),
            )


def all_totals(directory: Path, manifest: Manifest, by: By, dask: str | None) -> pl.LazyFrame:
    """Return totals of an index, of which a key may have several; by workers of a scheduler.

    Files with several names are counted here: their names may lie in any shards.

    Parameters
    ----------
    dask
        The scheduler; ``None``: all is counted here.

    Raises
    ------
    UsageError, ToolError, DataError
        As `merged_tally` has them.
    """
    if dask is None:
        return totals(index_view.files(index_view.names(directory, manifest)), by)
    parts = [
        TotalsPart(directory.absolute(), piece, by)
        for piece in piece_manifests(directory, manifest)
    ]
    with answering(None, dask, most=len(parts), hint=_HINT) as together:
        single, several = zip(*together(parts), strict=True)
    first = index_view.described(index_view.first_names(pl.concat(several).lazy()), manifest)
    return pl.concat([*(part.lazy() for part in single), totals(first, by)])


def holdings(
    directory: Path, by: By, *, top: int = ROWS_MAXIMUM, dask: str | None = None
) -> QueryAnswer:
    """Return totals of an index by owner, age, size or location.

    Parameters
    ----------
    directory
        The index.
    top
        Maximum rows: the users, groups, projects, OSTs or pools with most bytes, or the first
        classes of age or size.
    dask
        Scheduler whose workers count.

    Returns
    -------
    QueryAnswer
        One row per group: the group, ``files``, ``allocated_bytes``, ``share`` of all bytes, and
        ``unused_days``, the longest time that one of its files was unused. A file with objects on
        several OSTs counts as a file on each, with its bytes divided among them. A file without a
        pool counts under `trimtab.purge.index.index_query.NO_POOL`.

    Raises
    ------
    UsageError
        The index lacks the column.
    UnreadableError, DataError
        The index cannot be read.
    ToolError
        Workers or the scheduler were lost.
    """
    manifest = load_manifest(directory)
    check(by, directory, manifest)
    with index_view.readable():
        return answer(merged(all_totals(directory, manifest, by, dask), by), manifest, top)
