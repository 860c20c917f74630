"""Scan a file system into an index, resuming where an earlier scan was stopped."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import DataError, Interrupted, ToolError, UsageError, system_errors, visible
from trimtab.base.event import new_identifier, utc_now
from trimtab.base.filesystem import parse_mountinfo
from trimtab.base.interruption import interruptible
from trimtab.base.units import plural
from trimtab.purge.core_call import Look, ScanLimits, core_errors, look_on, require_answer
from trimtab.purge.index.manifest import (
    ELSEWHERE,
    FileSystemIdentity,
    IndexSource,
    Lack,
    Manifest,
    Shard,
    Sizes,
    SizesMode,
    TimeTrust,
    Unread,
)
from trimtab.purge.index.manifest_file import MANIFEST, save_manifest
from trimtab.purge.index.scan_workers import PARTS, PartTerms, SpreadProgress, spread
from trimtab.purge.root_facts import root_facts
from trimtab.purge.run.situation import RootFacts

if TYPE_CHECKING:
    from trimtab._core import NamespaceScan, ScanProgress, ScanResult
    from trimtab.purge.index.carry_over import ScanBase

    Progress = Callable[[ScanProgress | SpreadProgress], None]

CHECKPOINT: Final = "checkpoint.json"
_FIRST_S: Final = 1.0
"""Time that one host scans before workers do, so that they find directories to begin with."""
_THREADS_OF_PART: Final = 4
"""Default threads of a worker; few, because there are many workers."""
_LOOK_S: Final = 0.2
_GOES_ON: Final = "what was scanned is kept: the same command continues the scan"
_HANGS: Final = (
    ". A call to the file system has not returned: this process remains until the file system "
    "answers or is unmounted (umount --force)"
)


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Options of a scan.

    Attributes
    ----------
    threads
        Number of threads; 0: as many as suit the machine.
    checkpoint_s
        Seconds between two checkpoints, from which a killed scan continues.
    project, layout
        Whether to read these too, at a call or two per file.
    sizes
        Source of sizes on Lustre; elsewhere they are always exact.
    limits
        Limits of the calls to the file system.
    base
        Directory of an earlier index of the same root: only directories that changed since are
        read. ``None``: all are.
    dask
        Scheduler whose workers scan, as in `trimtab.reach.dask_worker.answering`; the index is on
        storage that they share.
    """

    threads: int = 0
    checkpoint_s: float = 30.0
    project: bool = False
    layout: bool = False
    sizes: SizesMode = SizesMode.SAMPLED
    limits: ScanLimits = field(default_factory=ScanLimits)
    base: Path | None = None
    dask: str | None = None


def scan_index(
    root: str,
    directory: Path,
    options: ScanOptions,
    *,
    version: str,
    progress: Progress | None = None,
    look: Look | None = None,
) -> Manifest:
    """Scan, or continue a scan, and return the manifest of the index.

    Parameters
    ----------
    root
        Absolute path without links.
    directory
        Directory of the index: new, empty, or left by a scan that was stopped.
    look
        Looks at the files of a sample; ``None``: through this host's Lustre.

    Raises
    ------
    UsageError
        There is an index already, or the beginning of another scan; or no incremental scan can
        start from the earlier index.
    ToolError
        The root cannot be scanned, or a call failed; `NoAnswer` if it hangs.
    DataError
        The remains of an interrupted scan are damaged.
    Interrupted
        A signal came: the same command continues.
    """
    require_answer(root, "the scan")
    top = root_facts(root)
    if top.trouble is not None or top.file_system is None:
        raise ToolError(
            f"{visible(root)} cannot be scanned: {top.trouble}",
            code="root-unscannable",
            hint="give the absolute path of a mounted file system, links resolved",
        )
    lustre = top.file_system.kind == "lustre"
    if options.limits.calls_per_mdt_s is not None and not lustre:
        raise UsageError(
            f"{visible(root)} is no Lustre: it has no MDTs",
            code="mdts-none",
            hint="limit the whole scan, with --calls-per-second",
        )
    base = _base(root, top.file_system, options)
    _prepare(directory)
    with (
        core_errors("the scan", hint="the same command continues; or remove what it left"),
        _errors_of(base),
    ):
        result = _scanned(root, directory, options, progress, base, lustre=lustre)
    manifest = _manifest(result, root, directory, options, top, version=version)
    if base is not None:
        manifest = _with_carried(manifest, directory, base, result)
    if lustre or look is not None:
        look = look or look_on(root, lustre=True, project=False, threads=options.threads)
        manifest = replace(manifest, sizes=_sizes(directory, manifest, options.sizes, look))
    save_manifest(manifest, directory)
    (directory / CHECKPOINT).unlink(missing_ok=True)  # the index is whole: nothing to go on from
    shutil.rmtree(directory / PARTS, ignore_errors=True)
    return manifest


def _scanned(
    root: str,
    directory: Path,
    options: ScanOptions,
    progress: Progress | None,
    base: ScanBase | None,
    *,
    lustre: bool,
) -> ScanResult:
    terms = PartTerms(
        root,
        options.limits.threads(options.threads),
        options.project,
        options.layout,
        lustre=lustre,
        exact_sizes=lustre and options.sizes is SizesMode.EXACT,
        limits=options.limits,
    )

    def carried_out(for_s: float | None = None) -> ScanResult:
        core_base = None if base is None else base.for_the_core()
        scan = terms.scan(directory, options.checkpoint_s, base=core_base)
        return _carried_out(scan, progress, terms.stop_s(), for_s=for_s)

    # A scan makes the checkpoint, or continues from an existing one; a small scan ends by itself.
    if options.dask and carried_out(_FIRST_S).stopped:
        threads = options.limits.threads(options.threads or _THREADS_OF_PART)
        _spread(directory, replace(terms, threads=threads), options, progress)
    # After workers have scanned: what the checkpoint says.
    return carried_out()


def _base(root: str, file_system: FileSystemIdentity, options: ScanOptions) -> ScanBase | None:
    if options.base is None:
        return None
    if options.dask is not None:
        raise UsageError(
            "workers of Dask do full scans only",
            code="base-dask",
            hint="give --dask or --incremental, not both; --dask none leaves out the site's",
        )
    from trimtab.purge.index.carry_over import starting_point

    return starting_point(
        options.base,
        os.fsencode(root),
        file_system,
        lacking=_lacking(project=options.project, layout=options.layout),
        mounts=parse_mountinfo(Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")),
        now_ns=time.time_ns(),
    )


@contextmanager
def _errors_of(base: ScanBase | None) -> Iterator[None]:
    """Say what to do about a damaged file where it is of the earlier index."""
    try:
        yield
    except DataError as error:
        if base is None or Path(error.file or "/").parent != base.directory:
            raise
        raise DataError(
            error.reason,
            file=error.file,
            code="base-damaged",
            hint="leave out --incremental: no other scan can start from it either",
        ) from error


def _with_carried(
    manifest: Manifest, directory: Path, base: ScanBase, result: ScanResult
) -> Manifest:
    from trimtab.purge.index.carry_over import carried_over, words

    shards, incremental = carried_over(base, directory, manifest.shards, unchanged=result.unchanged)
    manifest = replace(manifest, shards=shards, incremental=incremental)
    notes = words(incremental, manifest.oldest_ns, manifest.ended_ns)
    return replace(
        manifest,
        lacking=manifest.lacking | ({Lack.IN_PLACE} if incremental.carried else set()),
        notes=(*manifest.notes, *notes),
    )


def _manifest(
    result: ScanResult,
    root: str,
    directory: Path,
    options: ScanOptions,
    top: RootFacts,
    *,
    version: str,
) -> Manifest:
    lustre = top.file_system is not None and top.file_system.kind == "lustre"
    laid_out = options.layout and _tells_layouts([directory / name for name in result.shards])
    return Manifest(
        index_id=new_identifier(utc_now()),
        root=os.fsencode(root),
        filesystem=top.file_system,
        source=IndexSource.SCAN,
        tool=f"trimtab {version}",
        started_ns=result.started_ns,
        ended_ns=result.ended_ns,
        times=TimeTrust.MDS_ONLY if lustre else TimeTrust.EXACT_NS,
        time_resolution_ns=1,
        lacking=_lacking(project=options.project, layout=laid_out),
        complete=not result.unread_count,
        shards=tuple(
            _shard(directory, name, rows)
            for name, rows in zip(result.shards, result.rows, strict=True)
        ),
        notes=tuple(_notes(result, no_layouts=options.layout and not laid_out)),
        unread=tuple(Unread(path, _reason(number)) for path, number in result.unread),
        vanished=result.vanished,
        atime_settings=top.atime_settings,
    )


def _sizes(directory: Path, manifest: Manifest, mode: SizesMode, look: Look) -> Sizes:
    """Return how sizes were determined, with the sample that shows the error of listed ones."""
    import polars as pl

    from trimtab.purge.index.index_view import readable
    from trimtab.purge.index.size_sample import random_seed, take_sample

    if mode is not SizesMode.SAMPLED:
        return Sizes(mode)
    began = time.monotonic()
    with core_errors("looking at a sample of sizes", hint="--sizes lazy does without"):
        sample = take_sample(directory, manifest, look, seed=random_seed())
    with readable():
        known = pl.col("exact_size_bytes").is_not_null().sum()
        looked_at = pl.scan_parquet(directory / sample.name, glob=False).select(known).collect()
    answered = int(looked_at.item())
    elapsed_s = round(time.monotonic() - began, 3)
    return Sizes(mode, sample, answered, sample.rows - answered, elapsed_s)


def _prepare(directory: Path) -> None:
    with system_errors(
        f"the index cannot be written to {visible(directory)}", code="index-unwritable"
    ):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        present = (directory / MANIFEST).exists()
    if present:
        raise UsageError(
            f"there is an index in {visible(directory)} already",
            code="index-present",
            hint="give --index a new directory; replays need old indexes",
        )


def _spread(
    directory: Path,
    terms: PartTerms,
    options: ScanOptions,
    progress: Progress | None,
) -> None:
    assert options.dask is not None
    with interruptible():
        try:
            spread(directory, terms, options.dask, save_s=options.checkpoint_s, progress=progress)
        except Interrupted as error:
            raise Interrupted(error.message, _GOES_ON) from error


def _carried_out(
    scan: NamespaceScan,
    progress: Progress | None,
    stop_s: float,
    *,
    for_s: float | None,
) -> ScanResult:
    end_s = None if for_s is None else time.monotonic() + for_s
    with interruptible():
        try:
            scan.start()
            while not scan.wait(_LOOK_S):
                if progress is not None:
                    progress(scan.progress())
                if end_s is not None and time.monotonic() >= end_s:
                    scan.stop()
            return scan.result()
        except Interrupted as error:
            scan.stop()
            hangs = "" if scan.wait(stop_s) else _HANGS
            raise Interrupted(error.message + hangs, _GOES_ON) from error


def _lacking(*, project: bool, layout: bool) -> frozenset[Lack]:
    optional = ((project, Lack.PROJECT), (layout, Lack.LAYOUT), (layout, Lack.POOL))
    return frozenset(lack for known, lack in optional if not known)


def _tells_layouts(shards: Sequence[Path]) -> bool:
    """Return whether any file has a layout; true for an index without regular files.

    A file system without layouts answers as if each file had none, and a question about OSTs would
    then find nothing, as if there were no files.
    """
    import polars as pl

    from trimtab.purge.index.index_view import readable

    if not shards:
        return True
    with readable():
        # If an earlier version began the scan, its first shards lack columns that later ones have.
        columns = ("type", "stripe_count")
        frame = pl.concat([pl.scan_parquet(shard, glob=False).select(columns) for shard in shards])
        files = frame.filter(pl.col("type") == "f")
        laid_out = files.filter(pl.col("stripe_count").is_not_null())
        counts = [rows.head(1).collect(engine="streaming").height for rows in (laid_out, files)]
    return counts[0] > 0 or counts[1] == 0


def _notes(result: ScanResult, *, no_layouts: bool) -> Iterator[str]:
    if no_layouts:
        yield "no file has a layout, which lists its OSTs: layouts are read on Lustre only"
    if result.elsewhere:
        yield (f"{plural(result.elsewhere, 'mount', ',')} {ELSEWHERE}")
    if result.unread_count > len(result.unread):
        yield f"{result.unread_count:,} subtrees could not be read; the first of them are named"


def _reason(number: int) -> str:
    """Return why a path could not be read."""
    if number == errno.EXDEV:
        return (
            "of the same mount with a device number of its own, as a subvolume of Btrfs is: scan "
            "it as a root of its own"
        )
    return os.strerror(number)


def _shard(directory: Path, name: str, rows: int) -> Shard:
    file = directory / name
    with system_errors(f"the shard {visible(file)} cannot be read", code="shard-unreadable"):
        with file.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        return Shard(name=name, rows=rows, size_bytes=file.stat().st_size, sha256=sha256)
