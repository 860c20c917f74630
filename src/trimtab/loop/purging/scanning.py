"""A file system becomes an index: scanned, resumed where a scan was stopped, and described."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.errors import Interrupted, ToolError, UnreadableError, UsageError
from trimtab.launch.interruption import interruptible
from trimtab.launch.process import utc_now
from trimtab.model.identifier import new_identifier
from trimtab.purge.index.manifest import Lack, Manifest, Shard, Source, TimeTrust, Unread
from trimtab.purge.index.manifest_file import save_manifest
from trimtab.purge.run.collect import root_facts
from trimtab.visible import visible

if TYPE_CHECKING:
    from trimtab._core import NamespaceScan, ScanProgress, ScanResult

MANIFEST: Final = "manifest.json"
_LOOK_S: Final = 0.2
_STOP_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How a scan goes.

    Attributes
    ----------
    threads
        0: as many as suit the machine.
    checkpoint_s
        Between the moments from which a scan that is killed goes on.
    project, layout
        What is asked besides: it costs a call or two for each file.
    """

    threads: int = 0
    checkpoint_s: float = 30.0
    project: bool = False
    layout: bool = False


def scan_index(
    root: str,
    directory: Path,
    options: ScanOptions,
    *,
    version: str,
    progress: Callable[[ScanProgress], None] | None = None,
) -> Manifest:
    """Return the manifest of the index that a scan makes, or goes on making.

    Parameters
    ----------
    root
        Absolute path without links.
    directory
        Where the index is to be: not there yet, empty, or left by a scan that was stopped.

    Raises
    ------
    UsageError
        There is an index already.
    ToolError
        The root is not what can be scanned.
    Interrupted
        A signal came: the same command goes on.
    """
    from trimtab._core import NamespaceScan

    top = root_facts(root)
    if top.trouble is not None or top.file_system is None:
        raise ToolError(
            f"{visible(root)} cannot be scanned: {top.trouble}",
            hint="give the absolute path of a mounted file system, links resolved",
        )
    _prepare(directory)
    lustre = top.file_system.kind == "lustre"
    scan = NamespaceScan(
        root,
        str(directory),
        threads=options.threads,
        checkpoint_s=options.checkpoint_s,
        project=options.project,
        layout=options.layout,
        lustre=lustre,
    )
    result = _carried_out(scan, progress)
    manifest = Manifest(
        index_id=new_identifier(utc_now()),
        root=os.fsencode(root),
        filesystem=top.file_system,
        source=Source.SCAN,
        tool=f"trimtab {version}",
        started_ns=result.started_ns,
        ended_ns=result.ended_ns,
        times=TimeTrust.MDS_ONLY if lustre else TimeTrust.EXACT_NS,
        time_resolution_ns=1,
        lacking=_lacking(options),
        complete=not result.unread,
        shards=tuple(_shard(directory, name) for name in result.shards),
        unread=tuple(Unread(path, os.strerror(errno)) for path, errno in result.unread),
        vanished=result.vanished,
        atime_settings=top.atime_settings,
    )
    save_manifest(manifest, directory)
    return manifest


def _prepare(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = (directory / MANIFEST).exists()
    except OSError as error:
        raise UnreadableError(
            f"the index cannot be written to {visible(str(directory))}: {error.strerror}"
        ) from error
    if there:
        raise UsageError(
            f"there is an index in {visible(str(directory))} already",
            hint="give --index a new directory; old indexes are what replays look back at",
        )


def _carried_out(
    scan: NamespaceScan, progress: Callable[[ScanProgress], None] | None
) -> ScanResult:
    with interruptible():
        scan.start()
        try:
            while not scan.wait(_LOOK_S):
                if progress is not None:
                    progress(scan.progress())
        except Interrupted as error:
            scan.stop()
            scan.wait(_STOP_S)
            raise Interrupted(f"{error.message}; the same command goes on with the scan") from error
    return scan.result()


def _lacking(options: ScanOptions) -> frozenset[Lack]:
    asked = ((options.project, Lack.PROJECT), (options.layout, Lack.LAYOUT))
    return frozenset(lack for given, lack in asked if not given)


def _shard(directory: Path, name: str) -> Shard:
    import polars as pl

    file = directory / name
    rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    with file.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return Shard(name=name, rows=rows, size_bytes=file.stat().st_size, sha256=sha256)
