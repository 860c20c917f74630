"""Imports files: finds, reads and stores their results as runs, in batches and worker processes.

A batch is one transaction, and a run is kept under the hash of its raw output, or of what makes it
the same result in any file. So an import can be interrupted at any moment and started again:
nothing is lost and nothing is stored twice.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import cast

from trimtab.base.error import Message, UsageError, code_of
from trimtab.base.event import identifier_of
from trimtab.base.run import ASKED, Layer, Run, grouped
from trimtab.base.schedule import find_zone
from trimtab.base.site import Site
from trimtab.base.units import parse_moment
from trimtab.formats.measurement import Measurement
from trimtab.probe.import_reading import NO_TIME, ImportBatch, Read, Task, kinds, mains
from trimtab.probe.import_result import (
    IMPORTED,
    FileStatus,
    Imported,
    ImportedFile,
    ImportTerms,
    imported_run,
    result_of,
    run_of,
)
from trimtab.probe.result_file import FoundFile, candidates
from trimtab.probe.target_dump import TARGET_DUMPS
from trimtab.reach.worker_process import AHEAD, processors, side_by_side
from trimtab.site.lookup import site_file
from trimtab.store.kept import ImportedRun
from trimtab.store.store import Store

BATCH, BATCH_BYTES = 500, 16 * 1024**2
"""Maximum number and size of the files of one task of a worker and of one transaction."""
_REASONS = 8
"""For a file of many results, at most this many reasons are listed one by one."""
FEW = 64
"""Up to this many files are read in this process: workers take half a second to start."""

_HINT = "what was imported so far is kept: start it again, perhaps with fewer files"
_COPY = "copy of "
"""Prefix of the key of a result that is the same in whatever file it is."""

Progress = Callable[[str, float], None]


def import_files(
    paths: Sequence[str],
    terms: ImportTerms,
    store: Store | None,
    *,
    kind: str | None = None,
    progress: Progress = lambda text, fraction: None,
    workers: int | None = None,
) -> Iterator[ImportedFile]:
    """Yield the outcome of each file once it is stored, in the order of the arguments.

    Parameters
    ----------
    paths
        Files and directories.
    store
        ``None``: everything is read and nothing is stored.
    kind
        The format of all of them, if the user names it.
    workers
        Processes that read; by default one for each processor when there are many files.

    Raises
    ------
    ToolError
        A worker was killed.
    UnreadableError
        The store cannot be written; batches before that are kept.
    """
    progress("looking for files", 0.0)
    files_found = list(candidates(paths))
    keeper, done = _ImportKeeper(terms, store), 0
    batch_of = partial(
        ImportBatch, raw=None if store is None else store.raw, kind=kind, timezone=terms.timezone
    )
    count = _worker_count(len(files_found), workers)
    for batch in _read_batches(files_found, batch_of, count):
        files = keeper.keep(batch)
        done += len(files)
        progress(f"{done} of {len(files_found)} files", done / len(files_found))
        yield from files


def _worker_count(files: int, requested: int | None) -> int:
    if requested is not None:
        return requested
    return 0 if files <= FEW else processors()


def _read_batches(
    files: Sequence[FoundFile], batch_of: Callable[[Sequence[Task]], ImportBatch], workers: int
) -> Iterator[list[Read]]:
    with side_by_side(workers, hint=_HINT) as together:
        waiting: deque[Iterator[list[Read]]] = deque()
        for batch in _batches(files):
            waiting.append(together([batch_of(batch)]))
            # A few ahead, so that memory does not grow with the number of files.
            if len(waiting) > AHEAD * workers:
                yield next(waiting.popleft())
        while waiting:
            yield next(waiting.popleft())


def _batches(files: Sequence[FoundFile]) -> Iterator[list[Task]]:
    """Yield files that are read together, each with its main files that are read too."""
    named = {candidate.path for candidate in files}
    batch: list[Task] = []
    size_bytes = 0
    for candidate in files:
        batch.append((candidate, tuple(main for main in mains(candidate.path) if main in named)))
        size_bytes += candidate.size_bytes
        if len(batch) >= BATCH or size_bytes >= BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


@dataclass(slots=True)
class _ImportKeeper:
    """Turns results into runs, and stores them."""

    terms: ImportTerms
    store: Store | None

    def keep(self, batch: Sequence[Read]) -> list[ImportedFile]:
        """Store the results of a batch; return the outcome of each file."""
        runs: list[ImportedRun] = []
        files = [self._file(reading, runs) for reading in batch]
        store = self.store
        if store is None:
            return files
        # In the order of the files and of the results in each, as the runs are.
        stored = iter(self._add(store, runs) if runs else ())
        files = [
            replace(
                file,
                results=tuple(
                    self._kept_snapshot(store, result)
                    if file.kind in TARGET_DUMPS
                    else _with_run(store, result, *next(stored))
                    for result in file.results
                ),
            )
            for file in files
        ]
        return _with_repeated(files, _repeated(store, runs))

    @staticmethod
    def _add(store: Store, runs: Sequence[ImportedRun]) -> list[tuple[str | None, str | None]]:
        """Store runs; return for each the id of an earlier copy, and what that copy lacks.

        Of two copies of one result in a batch, the one with more information is kept.
        """
        first: dict[tuple[str, str], int] = {}
        for place, run in enumerate(runs):
            first.setdefault((run.run.kind, run.key), place)
        order = sorted(
            range(len(runs)),
            key=lambda place: (
                first[runs[place].run.kind, runs[place].key],
                -len(runs[place].run.samples),
                -len(runs[place].outputs),
            ),
        )
        earlier = store.add_imports([runs[place] for place in order])
        outcomes: list[tuple[str | None, str | None]] = [(None, None)] * len(runs)
        for place, before in zip(order, earlier, strict=True):
            run = runs[place]
            is_copy = before is not None and run.key.startswith(_COPY)
            lacks = _lacking(store, before, run.run) if before is not None and is_copy else None
            outcomes[place] = (before, lacks)
        return outcomes

    def _kept_snapshot(self, store: Store, imported: Imported) -> Imported:
        """Store the snapshot of a result; return the result with whether it is new."""
        if imported.snapshot is None or imported.run is None:
            return imported
        new = store.snapshot(imported.run) is None
        if new:
            site = imported.site or self.terms.site
            store.add_snapshot(site, imported.snapshot, identifier=imported.run)
        return replace(imported, new=new)

    def _file(self, read: Read, runs: list[ImportedRun]) -> ImportedFile:
        reading, named = read.reading, read.candidate.named
        source = reading.source
        if reading.problem is not None or source is None:
            return ImportedFile(
                reading.path,
                reading.kind,
                FileStatus.UNREADABLE,
                reading.problem or "nothing was read",
                named=named,
            )
        if reading.kind in TARGET_DUMPS:
            return self._snapshots(read)
        part_of = None if source.name == reading.path else source.name
        if not reading.measurements:  # read with the other file, which reports it
            return ImportedFile(
                reading.path, reading.kind, FileStatus.OK, named=named, part_of=part_of
            )
        results = []
        for ordinal, (measurement, key) in enumerate(_keys(read)):
            run = run_of(measurement, self.terms, file=source.name, ordinal=ordinal)
            runs.append(imported_run(run, read.outputs, key))
            results.append(result_of(measurement, run))
        status, reason = _overall(results)
        if reading.notes:
            status = FileStatus.PARTIAL if status is FileStatus.OK else status
            reason = "; ".join(filter(None, (reason, *reading.notes)))
        return ImportedFile(
            reading.path, reading.kind, status, reason, tuple(results), named, part_of
        )

    def _snapshots(self, read: Read) -> ImportedFile:
        """Return the outcome of a file about targets: a snapshot of each file system."""
        reading = read.reading
        several = len(reading.snapshots) > 1
        reason = Message(
            "time-not-printed",
            "it prints no time, so the snapshot is not stored; give it with --at",
        )
        results = []
        for name, snapshot in reading.snapshots:
            unnamed = several or self.terms.site == IMPORTED
            site = name if unnamed else self.terms.site
            doubted = reading.notes and not snapshot.complete
            at = self.terms.at if snapshot.at == NO_TIME else snapshot.at
            stored = None if at is None else replace(snapshot, at=at)
            results.append(
                Imported(
                    name=name if several else None,
                    status=FileStatus.PARTIAL if doubted else FileStatus.OK,
                    reason="; ".join(reading.notes) if doubted else None,
                    samples=(),
                    run=None if at is None else identifier_of(at, site, read.sha256 or "", name),
                    at=at,
                    at_reason=reason if at is None else None,
                    snapshot=stored or snapshot,
                    site=site,
                    told={} if results else {"answer": "\n".join(reading.shown)},
                    unjudged=reason if at is None else reading.unjudged.get(name),
                )
            )
        if not results:
            answer = {"answer": "\n".join(reading.shown)}
            results.append(Imported(None, FileStatus.OK, None, samples=(), told=answer))
        status, problem = _overall(results)
        return ImportedFile(
            reading.path, reading.kind, status, problem, tuple(results), read.candidate.named
        )


def _keys(read: Read) -> Iterator[tuple[Measurement, str]]:
    """Yield each result with its key: its own identity if it has one, else file and place."""
    times: Counter[str] = Counter()
    for ordinal, measurement in enumerate(read.reading.measurements):
        key = (read.sha256 or "") + (f"#{ordinal}" if ordinal else "")
        if measurement.identity is not None:
            key = _COPY + hashlib.sha256(measurement.identity.encode()).hexdigest()
            times[key] += 1
            key += f"#{times[key]}" if times[key] > 1 else ""
        yield measurement, key


def _lacking(store: Store, identifier: str, copy: Run) -> str | None:
    """Return what the copy of a stored run has and the stored run lacks."""
    stored = store.run(identifier)
    targets = {sample.target for sample in copy.samples} - {
        sample.target for sample in stored.samples
    }
    parameters = [
        set(cast("dict[str, object]", run.parameters.get(ASKED))) for run in (copy, stored)
    ]
    lacks = [f"its targets ({len(targets)})"] if targets else sorted(parameters[0] - parameters[1])
    if not lacks:
        return None
    return f"imported before from a file without {', '.join(lacks)}; the stored result is unchanged"


def _with_run(store: Store, imported: Imported, before: str | None, lacks: str | None) -> Imported:
    """Return the result with its run: the earlier copy, or the one stored now."""
    warnings = imported.warnings if lacks is None else (*imported.warnings, lacks)
    if before is not None and imported.at is None and (at := store.run(before).at) is not None:
        # It has a time already, from when it was imported with its zone.
        of_time = code_of(imported.unjudged) == code_of(imported.at_reason)
        unjudged = None if of_time else imported.unjudged
        imported = replace(imported, at=at, at_reason=None, unjudged=unjudged)
    return replace(imported, run=before or imported.run, new=before is None, warnings=warnings)


def _repeated(store: Store, runs: Sequence[ImportedRun]) -> dict[str, str]:
    """Return the id of each of these runs whose result is stored already, to that run's id."""
    times: dict[str, list[datetime]] = {}
    for entry in runs:
        if entry.run.at is not None:
            times.setdefault(entry.run.site, []).append(entry.run.at)
    return {
        each.id: each.first
        for site, of_site in times.items()
        for each in store.repeated(site, since=min(of_site), until=max(of_site))
    }


def _with_repeated(files: list[ImportedFile], repeated: Mapping[str, str]) -> list[ImportedFile]:
    """Return the files with a warning at each result that is new and stored all the same."""

    def warned(result: Imported) -> Imported:
        first = repeated.get(result.run or "") if result.new else None
        if first is None:
            return result
        text = f"the same result as run {first[:13]}: both together count as one run"
        return replace(result, warnings=(*result.warnings, Message("same-result", text)))

    if not repeated:
        return files
    return [replace(file, results=tuple(map(warned, file.results))) for file in files]


def _overall(results: Sequence[Imported]) -> tuple[FileStatus, str | None]:
    """Return ``ok`` if all are, ``failed`` if all are, else ``partial``; with the reasons."""
    statuses = {result.status for result in results}
    status = statuses.pop() if len(statuses) == 1 else FileStatus.PARTIAL
    if sum(result.reason is not None for result in results) > _REASONS:
        return status, _summed(results)
    reasons = [
        f"{result.name}: {result.reason}" if result.name and len(results) > 1 else result.reason
        for result in results
        if result.reason
    ]
    return status, "; ".join(dict.fromkeys(reasons)) or None


def _summed(results: Sequence[Imported]) -> str:
    """Return the reasons of many results, the most frequent first, each with its first result."""
    by_reason = grouped((each for each in results if each.reason is not None), attrgetter("reason"))
    most = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    reasons = [
        f"{reason} ({len(alike)} results, the first {alike[0].name})"
        if len(alike) > 1
        else f"{alike[0].name}: {reason}"
        for reason, alike in most[:_REASONS]
    ]
    rest = sum(len(alike) for _, alike in most[_REASONS:])
    more = [f"and {rest} more of {len(results)} results"] if rest else []
    return "; ".join((*reasons, *more))


def terms_of(
    site: str | None,
    *,
    probe: str | None = None,
    at: str | None = None,
    timezone: str | None = None,
    layer: Layer | None = None,
) -> tuple[ImportTerms, Site | None]:
    """Return the user's statements about the files, with the site file of the named site.

    Raises
    ------
    UsageError
        A time, a zone or a site file that is wrong.
    """
    known = None if (loaded := site_file(site)) is None else loaded.site
    zone = timezone or (None if known is None else known.timezone)
    if zone is not None:
        find_zone(zone)
    terms = ImportTerms(
        site=known.name if known is not None else site or IMPORTED,
        probe=probe or IMPORTED,
        at=None if at is None else parse_moment(at, zone or "UTC"),
        timezone=zone,
        layer=layer,
    )
    return terms, known


def check_kind(kind: str | None) -> None:
    """Raise UsageError if there is no such format."""
    if kind is not None and kind not in kinds():
        raise UsageError(
            f"there is no format {kind!r}",
            code="format-unknown",
            hint=f"there are {', '.join(kinds())}",
        )
