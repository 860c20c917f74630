"""A scan by many workers: its checkpoint, worked off in parts.

::

    checkpoint ──▶ a few directories ──▶ worker: an ordinary scan of them, stopped after seconds
        ▲                                   │ shards, and the directories that it has not read
        └──── shards taken over, ◀──────────┘
              directories put back

A part is a scan into a directory of its own, made anew by every attempt. Only what a worker has
returned is taken over, and the checkpoint then has its shards and what it left to read in place of
what it was given. Whatever dies, at any moment: a part is in the index once or not yet begun.
Another scan of the same index, also by one host, goes on from the same checkpoint.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from trimtab.errors import DataError, NoAnswer, ToolError, UsageError
from trimtab.launch.interruption import shielded
from trimtab.loop.dask_workers import Workers, workers_of
from trimtab.loop.purging.core_errors import core_errors
from trimtab.loop.workers import processors
from trimtab.model.dask import local_workers
from trimtab.record.system_errors import system_errors
from trimtab.visible import visible

CHECKPOINT: Final = "checkpoint.json"
PARTS: Final = "parts"
_PART_S: Final = 5.0
"""A part is stopped after so long; what it left is handed out again."""
_PART_OF_SCAN: Final = 0.05
"""In a long scan after this part of what it took so far: shards stay few and large."""
_FEW_S: Final = 1.0
"""While directories are fewer than workers: somebody waits for what a part leaves."""
_STOP_S: Final = 60.0
_DIRECTORIES: Final = 2000
"""The most that one part is given."""
_UNREAD: Final = 10_000
"""Paths that could not be read are listed up to so many, and counted beyond."""
_HINT: Final = "the same command goes on with the scan"

Way = tuple[Any, str] | None
"""A directory: the one that it lies in, and its escaped name; ``None``: the root."""
Left = tuple[Way, int]
"""A directory, and the cookie from which it is left to read."""


@dataclass(frozen=True, slots=True)
class PartTerms:
    """What all parts of a scan have in common.

    Attributes
    ----------
    calls_a_name
        System calls that a name takes, about.
    latency_s_max
        As `trimtab.loop.purging.scanning.ScanOptions` has it.
    """

    root: str
    threads: int
    project: bool = False
    layout: bool = False
    lustre: bool = False
    exact_sizes: bool = False
    calls_a_name: int = 1
    latency_s_max: float | None = None


@dataclass(frozen=True, slots=True)
class PartDone:
    """What came of a part.

    Attributes
    ----------
    number
        Of the part.
    directory
        Where its shards are.
    checkpoint
        Its own: shards, counts, and what it left to read.
    """

    number: int
    directory: str
    checkpoint: dict[str, Any]
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Part:
    """Directories to scan, by whoever has time.

    Attributes
    ----------
    parts
        Directory in which each attempt makes its own.
    checkpoint
        With these directories left to read, and no shards. Its device number is that of all rows:
        each host may have its own.
    budget_s
        After which it is stopped.
    calls_per_s
        The most that it may take of the file system; ``None``: as many as it can.
    """

    number: int
    terms: PartTerms
    parts: str
    checkpoint: dict[str, Any]
    budget_s: float
    calls_per_s: float | None = None

    def answer(self) -> PartDone:
        """Return what is there after the time that it has.

        Raises
        ------
        ToolError
            The root cannot be read there, or nothing be written.
        NoAnswer
            A call to the file system did not return.
        """
        from trimtab._core import NamespaceScan

        terms, host = self.terms, os.uname().nodename
        directory = Path(self.parts, f"{self.number:08}-{uuid4().hex}")
        with system_errors(f"a part of the scan cannot be written on {host}", code="part-failed"):
            directory.mkdir(mode=0o700)
            (directory / CHECKPOINT).write_text(
                json.dumps({**self.checkpoint, "started_ns": time.time_ns()})
            )
        with core_errors(f"the scan on {visible(host)}", hint=_HINT):
            scan = NamespaceScan(
                terms.root,
                str(directory),
                threads=terms.threads,
                checkpoint_s=1e6,
                project=terms.project,
                layout=terms.layout,
                lustre=terms.lustre,
                exact_sizes=terms.exact_sizes,
                delay_s=delay_s(self.calls_per_s, terms.threads, terms.calls_a_name),
                latency_s_max=terms.latency_s_max,
                device=self.checkpoint["home"]["device"],
            )
            scan.start()
            if not scan.wait(self.budget_s):
                scan.stop()
                if not scan.wait(_STOP_S):
                    raise NoAnswer(
                        f"{visible(terms.root)} did not answer on {visible(host)} in {_STOP_S:g} s",
                        code="no-answer",
                        hint=_HINT,
                    )
            scan.result()
        return PartDone(self.number, str(directory), read_checkpoint(directory), time.time_ns())


@dataclass(frozen=True, slots=True)
class SpreadProgress:
    """How far a scan by workers is; see `trimtab._core.ScanProgress`."""

    entries: int
    directories: int
    pending: int
    vanished: int
    elsewhere: int
    unread: int
    allocated_bytes: int
    elapsed_s: float


@dataclass(slots=True)
class Frontier:
    """What is left to read, and who has it; asked for parts like an iterator that may go on.

    Attributes
    ----------
    threads
        Returns how many threads all workers have now.
    calls_per_s
        For all parts together: each has its share as long as it is handed out.
    waiting
        Directories that nobody has; the newest, deepest, are handed out first, so that they stay
        few whatever the tree.
    handed_out
        Those of each part that is not done.
    """

    terms: PartTerms
    parts: str
    blank: dict[str, Any]
    threads: Callable[[], int]
    waiting: list[Left]
    calls_per_s: float | None = None
    elapsed_s: float = 0.0
    handed_out: dict[int, list[Left]] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)
    number: int = 0

    def __iter__(self) -> Frontier:
        """Return itself."""
        return self

    def __next__(self) -> Part:
        """Return the next part, if there is one now."""
        threads = self.threads()
        share = None if self.calls_per_s is None else self.calls_per_s / threads
        if not self.waiting or (share is not None and share > self._calls_left()):
            raise StopIteration
        each = len(self.waiting) // (2 * threads)
        count = max(1, min(_DIRECTORIES, each))
        budget_s = max(_PART_S, _PART_OF_SCAN * self.elapsed_s) if each else _FEW_S
        newest = self.waiting[-count:]
        del self.waiting[-count:]
        self.number += 1
        self.handed_out[self.number] = newest
        if share is not None:
            self.shares[self.number] = share
        checkpoint = {**self.blank, **listed(newest)}
        return Part(self.number, self.terms, self.parts, checkpoint, budget_s, share)

    def _calls_left(self) -> float:
        """Return the calls a second that no part has, with room for the error of a sum."""
        return (self.calls_per_s or 0.0) * (1 + 1e-9) - sum(self.shares.values())

    def done(self, number: int, left: list[Left]) -> None:
        """Put what a part left in place of what it was given."""
        del self.handed_out[number]
        self.shares.pop(number, None)
        self.waiting.extend(left)

    def unread(self) -> list[Left]:
        """Return what is left, handed out or not."""
        return [*self.waiting, *(left for part in self.handed_out.values() for left in part)]


def delay_s(calls_per_s: float | None, threads: int, calls_a_name: int) -> float:
    """Return by how much each thread holds up each name, for so many calls a second at most."""
    return 0.0 if calls_per_s is None else threads * calls_a_name / calls_per_s


def left_of(checkpoint: dict[str, Any]) -> list[Left]:
    """Return what a checkpoint has left to read."""
    ways: list[Way] = []
    for place, (parent, name) in enumerate(checkpoint["directories"]):
        ways.append((ways[parent], name) if place else None)
    return [(ways[place], cookie) for place, cookie in checkpoint["left"]]


def listed(left: list[Left]) -> dict[str, Any]:
    """Return directories that are left to read as a checkpoint lists them."""
    directories: list[tuple[int, str]] = [(0, "")]
    places: dict[int, int] = {}

    def place_of(way: Way) -> int:
        unlisted = []
        while way is not None and id(way) not in places:
            unlisted.append(way)
            way = way[0]
        place = 0 if way is None else places[id(way)]
        for each in reversed(unlisted):
            directories.append((place, each[1]))
            place = places[id(each)] = len(directories) - 1
        return place

    return {"left": [(place_of(way), cookie) for way, cookie in left], "directories": directories}


def read_checkpoint(directory: Path) -> dict[str, Any]:
    """Return the checkpoint of an index, as the core wrote it.

    Raises
    ------
    DataError
        It is damaged.
    ToolError
        It cannot be read.
    """
    path = directory / CHECKPOINT
    with system_errors(f"the checkpoint {visible(str(path))} cannot be read", code="part-failed"):
        text = path.read_text()
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(
            "the checkpoint of the scan is damaged",
            code="checkpoint-damaged",
            file=str(path),
            hint="remove the directory of the index and scan again",
        ) from error


def spread(
    directory: Path,
    terms: PartTerms,
    dask: str,
    *,
    calls_per_s: float | None = None,
    save_s: float = 30.0,
    progress: Callable[[SpreadProgress], None] | None = None,
) -> None:
    """Work off the checkpoint of an index by the workers of a Dask scheduler.

    Afterwards it is that of a scan that has ended. Where it is interrupted, it has what is done.

    Parameters
    ----------
    calls_per_s
        The most of all workers together, whether they come or go.
    save_s
        Between two checkpoints.

    Raises
    ------
    ToolError
        Workers or the scheduler were lost, or the index is not on storage that they share.
    NoAnswer
        The file system hangs.
    """
    count = local_workers(dask) or processors()
    with _alone(directory), workers_of(dask, count=count, hint=_HINT) as workers:
        _Spread(directory, terms, workers, calls_per_s, save_s).run(progress)


class _Spread:
    """A scan that is under way: its checkpoint, and what is left."""

    def __init__(
        self,
        directory: Path,
        terms: PartTerms,
        workers: Workers,
        calls_per_s: float | None,
        save_s: float,
    ) -> None:
        self._directory = directory
        self._checkpoint = read_checkpoint(directory)
        self._began_s = time.monotonic() - self._checkpoint["elapsed_s"]
        blank = {
            **self._checkpoint,
            **{"shards": [], "unread": [], "next_shard": 0, "elapsed_s": 0.0},
            "counts": dict.fromkeys(self._checkpoint["counts"], 0),
        }
        parts = str(directory.absolute() / PARTS)
        self._workers = workers
        self._frontier = Frontier(
            terms, parts, blank, lambda: workers.threads, left_of(self._checkpoint), calls_per_s
        )
        self._latest_ns = 0
        self._save_s = save_s
        self._next_save_s = time.monotonic() + save_s

    def run(self, progress: Callable[[SpreadProgress], None] | None) -> None:
        parts = Path(self._frontier.parts)
        with system_errors("parts of the scan cannot be written", code="part-failed"):
            # What attempts of an earlier run have left: nothing of it was taken over.
            shutil.rmtree(parts, ignore_errors=True)
            parts.mkdir(mode=0o700)
        try:
            for done in self._workers.as_they_end(self._frontier):
                with shielded():
                    self._take_over(done)
                if time.monotonic() > self._next_save_s:
                    self._save()
                if progress is not None:
                    progress(self._state())
            # Clocks differ between hosts: no row is younger than the latest of them says.
            self._checkpoint["ended_ns"] = max(time.time_ns(), self._latest_ns)
        finally:
            with shielded():
                self._save()
        shutil.rmtree(parts, ignore_errors=True)

    def _take_over(self, done: PartDone) -> None:
        """Move the shards of a part into the index; all of them are listed then, or none."""
        checkpoint, source = self._checkpoint, Path(done.directory)
        shards = []
        for number, shard in enumerate(done.checkpoint["shards"], checkpoint["next_shard"]):
            name = f"scan-{number:06}.parquet"
            try:
                (source / shard["name"]).rename(self._directory / name)
            except OSError as error:
                raise ToolError(
                    f"the shard {visible(shard['name'])} of a worker is not where it wrote it: "
                    f"{error.strerror}",
                    code="index-not-shared",
                    hint="the index has to lie on storage that all workers share",
                ) from error
            shards.append({**shard, "name": name})
        checkpoint["shards"].extend(shards)
        checkpoint["next_shard"] += len(shards)
        for name, count in done.checkpoint["counts"].items():
            checkpoint["counts"][name] += count
        room = max(0, _UNREAD - len(checkpoint["unread"]))
        checkpoint["unread"].extend(done.checkpoint["unread"][:room])
        self._latest_ns = max(self._latest_ns, done.ended_ns)
        checkpoint["started_ns"] = min(checkpoint["started_ns"], done.checkpoint["started_ns"])
        self._frontier.done(done.number, left_of(done.checkpoint))
        self._frontier.elapsed_s = time.monotonic() - self._began_s
        shutil.rmtree(source, ignore_errors=True)

    def _save(self) -> None:
        began_s, checkpoint = time.monotonic(), self._checkpoint
        checkpoint.update(listed(self._frontier.unread()))
        checkpoint["elapsed_s"] = time.monotonic() - self._began_s
        aside = self._directory / f"{CHECKPOINT}.new"
        with system_errors("the checkpoint of the scan cannot be written", code="part-failed"):
            _sync(self._directory)  # the shards that it lists have their names
            with aside.open("w") as stream:
                json.dump(checkpoint, stream)
                stream.flush()
                os.fsync(stream.fileno())
            aside.rename(self._directory / CHECKPOINT)
            _sync(self._directory)
        now_s = time.monotonic()
        self._next_save_s = now_s + max(self._save_s, (now_s - began_s) / _PART_OF_SCAN)

    def _state(self) -> SpreadProgress:
        # An incremental scan counts more, and is none of workers.
        counts = {
            name: count
            for name, count in self._checkpoint["counts"].items()
            if name not in {"unchanged", "carried"}
        }
        frontier = self._frontier
        pending = len(frontier.waiting) + sum(map(len, frontier.handed_out.values()))
        return SpreadProgress(**counts, pending=pending, elapsed_s=frontier.elapsed_s)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the lock of an index, as the core does while it scans."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another scan writes to {visible(str(directory))}", code="index-in-use"
            ) from error
        except OSError:
            pass  # not every file system has locks
        yield
    finally:
        os.close(descriptor)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
