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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from trimtab.base.error import DataError, NoAnswer, ToolError, UsageError, system_errors, visible
from trimtab.base.interruption import shielded
from trimtab.base.plain import ASK_WHOSE, plain_file
from trimtab.base.trusted_file import opened, synchronise
from trimtab.purge.core_call import ScanLimits, core_errors
from trimtab.reach.dask_worker import workers_of
from trimtab.reach.worker_process import Workers

if TYPE_CHECKING:
    from trimtab._core import NamespaceScan

CHECKPOINT: Final = "checkpoint.json"
PARTS: Final = "parts"
_PART_S: Final = 5.0
"""Time after which a part is stopped; the directories that it left are handed out again."""
_PART_OF_SCAN: Final = 0.05
"""In a long scan a part runs for this fraction of the time so far: shards stay few and large."""
_FEW_S: Final = 1.0
"""Time of a part while directories are fewer than workers: idle workers wait for what it leaves."""
_DIRECTORIES: Final = 2000
"""Maximum number of directories of one part."""
_UNREAD: Final = 10_000
"""Maximum number of unreadable paths that are listed; more are only counted."""
_HINT: Final = "the same command continues the scan"

Way = tuple[Any, str] | None
"""A directory: its parent, and its escaped name; ``None``: the root."""


class Left(NamedTuple):
    """A directory, the cookie from which it is left to read, and its MDT, where there are any."""

    way: Way
    cookie: int
    mdt: int = 0


@dataclass(frozen=True, slots=True)
class PartTerms:
    """Parameters common to all parts of a scan.

    Attributes
    ----------
    limits
        Limits for all parts together.
    """

    root: str
    threads: int
    project: bool = False
    layout: bool = False
    lustre: bool = False
    exact_sizes: bool = False
    limits: ScanLimits = field(default_factory=ScanLimits)

    @property
    def _calls_a_name(self) -> int:
        """Approximate number of system calls for a name."""
        return 1 + sum((self.project, self.layout, self.lustre))

    def scan(
        self, directory: Path, checkpoint_s: float, *, share: float = 1.0, **more: Any
    ) -> NamespaceScan:
        """Return a scan into a directory, not yet begun, that may make a share of the calls."""
        from trimtab._core import NamespaceScan

        return NamespaceScan(
            self.root,
            str(directory),
            threads=self.threads,
            checkpoint_s=checkpoint_s,
            project=self.project,
            layout=self.layout,
            lustre=self.lustre,
            exact_sizes=self.exact_sizes,
            **self.limits.for_core(self.threads, self._calls_a_name, share),
            **more,
        )

    def stop_s(self, share: float = 1.0) -> float:
        """Return within how many seconds such a scan stops, unless the file system hangs."""
        return self.limits.stop_s(self.threads, self._calls_a_name, share)


@dataclass(frozen=True, slots=True)
class PartDone:
    """Result of a part.

    Attributes
    ----------
    number
        Number of the part.
    directory
        Name of the directory of its shards, among those of all parts.
    shards
        Name and rows of each.
    counts, unread, started_ns, directories, left, mdts
        As in its checkpoint: what it saw, and what it left to read.
    """

    number: int
    directory: str
    shards: tuple[tuple[str, int], ...]
    counts: dict[str, int]
    unread: tuple[tuple[str, int], ...]
    started_ns: int
    ended_ns: int
    directories: tuple[tuple[int, str], ...]
    left: tuple[tuple[int, int], ...]
    mdts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScanPart:
    """Directories to scan, by the first idle worker.

    Attributes
    ----------
    parts
        Directory in which each attempt makes its own.
    checkpoint
        Checkpoint with these directories left to read, and no shards. Its device number is used
        for all rows, since each host may have its own.
    budget_s
        Time after which it is stopped.
    share
        Share of the calls that it may make, where calls are limited.
    """

    number: int
    terms: PartTerms
    parts: str
    checkpoint: dict[str, Any]
    budget_s: float
    share: float

    def answer(self) -> PartDone:
        """Return the result of the part after its time budget.

        Raises
        ------
        ToolError
            The root cannot be read there, or nothing be written.
        NoAnswer
            A call to the file system did not return.
        """
        terms, host = self.terms, os.uname().nodename
        directory = Path(self.parts, f"{self.number:08}-{uuid4().hex}")
        with system_errors(f"a part of the scan cannot be written on {host}", code="part-failed"):
            directory.mkdir(mode=0o700)
            (directory / CHECKPOINT).write_text(
                json.dumps({**self.checkpoint, "started_ns": time.time_ns()})
            )
        with core_errors(f"the scan on {visible(host)}", hint=_HINT):
            device = self.checkpoint["home"]["device"]
            scan = terms.scan(directory, 1e6, share=self.share, device=device)
            scan.start()
            if not scan.wait(self.budget_s):
                scan.stop()
                stop_s = terms.stop_s(self.share)
                if not scan.wait(stop_s):
                    raise NoAnswer(
                        f"{visible(terms.root)} did not answer on {visible(host)} in {stop_s:g} s",
                        code="no-answer",
                        hint=_HINT,
                    )
            scan.result()
        done = read_checkpoint(directory)
        return PartDone(
            number=self.number,
            directory=directory.name,
            shards=tuple((shard["name"], shard["rows"]) for shard in done["shards"]),
            counts=done["counts"],
            unread=_pairs(done["unread"]),
            started_ns=done["started_ns"],
            ended_ns=time.time_ns(),
            directories=_pairs(done["directories"]),
            left=_pairs(done["left"]),
            mdts=tuple(done.get("mdts", ())),
        )


def _pairs(lists: list[list[Any]]) -> tuple[tuple[Any, Any], ...]:
    return tuple((first, second) for first, second in lists)


@dataclass(frozen=True, slots=True)
class SpreadProgress:
    """Progress of a scan by workers; see `trimtab._core.ScanProgress`."""

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
    """Directories left to read, and which part has them; an iterator over parts that may resume.

    Attributes
    ----------
    threads
        Returns how many threads all workers currently have.
    waiting
        Directories of each MDT that no part has. The newest, deepest ones are handed out first, so
        that they stay few whatever the tree, and equally many of each MDT, so that all are loaded
        alike.
    handed_out
        Directories of each unfinished part.
    shares
        Share of the calls that each of these parts may make, where calls are limited.
    """

    terms: PartTerms
    parts: str
    blank: dict[str, Any]
    threads: Callable[[], int]
    waiting: dict[int, list[Left]] = field(default_factory=dict)
    elapsed_s: float = 0.0
    handed_out: dict[int, list[Left]] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)
    number: int = 0

    def __iter__(self) -> Frontier:
        """Return itself."""
        return self

    def __next__(self) -> ScanPart:
        """Return the next part, if there is one now."""
        threads, count = self.threads(), counted(self.waiting)
        share = 1 / threads
        # With room for the error of a sum.
        taken = self.terms.limits.are_shared and share > 1 + 1e-9 - sum(self.shares.values())
        if not count or taken:
            raise StopIteration
        each = count // (2 * threads)
        newest = self._newest(max(1, min(_DIRECTORIES, each)))
        budget_s = max(_PART_S, _PART_OF_SCAN * self.elapsed_s) if each else _FEW_S
        self.number += 1
        self.handed_out[self.number] = newest
        self.shares[self.number] = share
        checkpoint = {**self.blank, **listed(newest)}
        return ScanPart(self.number, self.terms, self.parts, checkpoint, budget_s, share)

    def _newest(self, count: int) -> list[Left]:
        """Return the newest directories, in turns of each MDT, and forget them."""
        newest: list[Left] = []
        while len(newest) < count:
            for mdt in list(self.waiting)[: count - len(newest)]:
                # The MDT goes to the end: the next part begins with another.
                left = self.waiting.pop(mdt)
                newest.append(left.pop())
                if left:
                    self.waiting[mdt] = left
        return newest[::-1]

    def wait_for(self, left: list[Left]) -> None:
        """Keep directories until they are handed out."""
        for directory in left:
            self.waiting.setdefault(directory.mdt, []).append(directory)

    def done(self, number: int, left: list[Left]) -> None:
        """Replace the directories of a part by those that it left."""
        del self.handed_out[number]
        del self.shares[number]
        self.wait_for(left)

    def unread(self) -> list[Left]:
        """Return all unread directories, handed out or not."""
        lists = (*self.waiting.values(), *self.handed_out.values())
        return [directory for left in lists for directory in left]


def counted(lists: Mapping[int, Sequence[Left]]) -> int:
    """Return the number of directories in all lists."""
    return sum(map(len, lists.values()))


def left_of(checkpoint: dict[str, Any]) -> list[Left]:
    """Return the unread directories of a checkpoint."""
    return left_in(checkpoint["directories"], checkpoint["left"], checkpoint.get("mdts"))


def left_in(
    directories: Sequence[tuple[int, str]],
    left: Sequence[tuple[int, int]],
    mdts: Sequence[int] | None,
) -> list[Left]:
    """Return the unread directories from the lists of a checkpoint."""
    ways: list[Way] = []
    for place, (parent, name) in enumerate(directories):
        ways.append((ways[parent], name) if place else None)
    mdts = mdts or [0] * len(left)
    return [Left(ways[place], cookie, mdt) for (place, cookie), mdt in zip(left, mdts, strict=True)]


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

    return {
        "left": [(place_of(way), cookie) for way, cookie, _ in left],
        "mdts": [mdt for _, _, mdt in left],
        "directories": directories,
    }


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
    with system_errors(f"the checkpoint {visible(path)} cannot be read", code="part-failed"):
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
    save_s: float = 30.0,
    progress: Callable[[SpreadProgress], None] | None = None,
) -> None:
    """Work off the checkpoint of an index by the workers of a Dask scheduler.

    Afterwards it is the checkpoint of a finished scan; after an interruption it has the work done.

    Parameters
    ----------
    save_s
        Seconds between two checkpoints.

    Raises
    ------
    ToolError
        Workers or the scheduler were lost, or the index is not on storage that they share.
    NoAnswer
        The file system hangs.
    """
    with _alone(directory), workers_of(dask, hint=_HINT) as workers:
        _Spread(directory, terms, workers, save_s).run(progress)


class _Spread:
    """A running scan: its checkpoint, and its unread directories."""

    def __init__(
        self,
        directory: Path,
        terms: PartTerms,
        workers: Workers,
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
        self._frontier = Frontier(terms, parts, blank, lambda: workers.threads)
        self._frontier.wait_for(left_of(self._checkpoint))
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
        checkpoint, source = self._checkpoint, plain_file(self._frontier.parts, done.directory)
        left = self._believed(done)
        sources = [(plain_file(source, name), rows) for name, rows in done.shards]
        shards = []
        for number, (shard, rows) in enumerate(sources, checkpoint["next_shard"]):
            name = f"scan-{number:06}.parquet"
            try:
                shard.rename(self._directory / name)
            except OSError as error:
                raise ToolError(
                    f"the shard {visible(shard.name)} of a worker is not where it wrote it: "
                    f"{error.strerror}",
                    code="index-not-shared",
                    hint="put the index on storage that all workers share",
                ) from error
            shards.append({"name": name, "rows": rows})
        checkpoint["shards"].extend(shards)
        checkpoint["next_shard"] += len(shards)
        for name, count in done.counts.items():
            checkpoint["counts"][name] += count
        room = max(0, _UNREAD - len(checkpoint["unread"]))
        checkpoint["unread"].extend(done.unread[:room])
        self._latest_ns = max(self._latest_ns, done.ended_ns)
        checkpoint["started_ns"] = min(checkpoint["started_ns"], done.started_ns)
        self._frontier.done(done.number, left)
        self._frontier.elapsed_s = time.monotonic() - self._began_s
        shutil.rmtree(source, ignore_errors=True)

    def _believed(self, done: PartDone) -> list[Left]:
        """Return the directories that a part left; refuse results of no part that is out."""
        try:
            left = left_in(done.directories, done.left, done.mdts)
        except (LookupError, ValueError):
            left = None
        known = done.number in self._frontier.handed_out
        if left is None or not known or done.counts.keys() != self._checkpoint["counts"].keys():
            raise ToolError(
                f"a worker sent an invalid result of part {done.number} of the scan",
                code="answer-malformed",
                hint=ASK_WHOSE,
            )
        return left

    def _save(self) -> None:
        began_s, checkpoint = time.monotonic(), self._checkpoint
        checkpoint.update(listed(self._frontier.unread()))
        checkpoint["elapsed_s"] = time.monotonic() - self._began_s
        aside = self._directory / f"{CHECKPOINT}.new"
        with system_errors("the checkpoint of the scan cannot be written", code="part-failed"):
            synchronise(self._directory)  # the shards that it lists have their names
            with aside.open("w") as stream:
                json.dump(checkpoint, stream)
                stream.flush()
                os.fsync(stream.fileno())
            aside.rename(self._directory / CHECKPOINT)
            synchronise(self._directory)
        now_s = time.monotonic()
        self._next_save_s = now_s + max(self._save_s, (now_s - began_s) / _PART_OF_SCAN)

    def _state(self) -> SpreadProgress:
        counts, frontier = self._checkpoint["counts"], self._frontier
        return SpreadProgress(
            entries=counts["entries"],
            directories=counts["directories"],
            pending=counted(frontier.waiting) + counted(frontier.handed_out),
            vanished=counts["vanished"],
            elsewhere=counts["elsewhere"],
            unread=counts["unread"],
            allocated_bytes=counts["allocated_bytes"],
            elapsed_s=frontier.elapsed_s,
        )


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the lock of an index, as the core does while it scans."""
    with opened(directory, flags=os.O_RDONLY) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another scan writes to {visible(directory)}", code="index-in-use"
            ) from error
        except OSError:
            pass  # not every file system has locks
        yield
