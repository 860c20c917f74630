"""A client node of the twin: its mount, the files of probes, and tasks that write and read them.

Only probes' files exist: the simulation knows users only as bytes. It stores sizes and locations,
not contents. These files do not belong to users: no lifetime, quota or purge applies, and they stay
until removed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

import numpy as np

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.base.name_set import ost_name
from trimtab.base.run import Access
from trimtab.reach.touch import PROBE_PREFIX, PathState, Removal, StatvfsSpace
from trimtab.twin.life import Life
from trimtab.twin.load_command import LoadCommand
from trimtab.twin.probe_output import opening_s
from trimtab.twin.simulation import job
from trimtab.twin.simulation.hardware import platform_of
from trimtab.twin.simulation.job import USER_STREAM_BYTES_PER_S, Resource, max_min, slowest_rate
from trimtab.twin.simulation.ost_array import Array, Integers, folded, stream

_BLOCK_BYTES: Final = 4096
_DEVICE: Final = "0:64"
_LEFT: Final = "left"
"""Names of files of which only the bytes are known: an earlier process wrote them."""


class NoSpace(ToolError):
    """No OST accepts new files, or one is full (ENOSPC)."""


@dataclass(slots=True)
class GuestFile:
    """One file of a probe.

    Attributes
    ----------
    osts
        Numbers of its OSTs, in stripe order.
    """

    size_bytes: float
    osts: tuple[int, ...]


@dataclass(slots=True)
class _Directory:
    stripe_count: int
    files: dict[str, GuestFile] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)


class Guest:
    """The mount of a simulated file system on a node that runs probes.

    Parameters
    ----------
    path
        The mount point.
    """

    def __init__(self, life: Life, path: str) -> None:
        self.life = life
        self.path = path.rstrip("/") or "/"
        self._directories: dict[str, _Directory] = {}
        self._draws = 0
        for directory, held in life.held.items():
            left = _Directory(life.simulation.scenario.placement.stripe_count)
            for number, (size_bytes, _) in enumerate(folded(held)):
                on = tuple(np.flatnonzero(held == size_bytes).tolist())
                left.files[f"{_LEFT}.{number}"] = GuestFile(size_bytes * len(on), on)
            self._directories[directory] = left

    # Equivalents of launch.bounded on a real mount

    def describe(self, path: str) -> PathState:
        """Describe a path; a missing one is an answer."""
        if not path or "\0" in path:
            raise UsageError(f"{path!r} is not a path", code="path-invalid")
        if path.rstrip("/") not in {self.path, *self._directories}:
            return PathState(path, exists=False)
        return PathState(
            path,
            exists=True,
            kind="directory",
            symlink=False,
            real_path=path.rstrip("/"),
            device=_DEVICE,
            writable=True,
            space=self.space(),
        )

    def space(self) -> StatvfsSpace:
        """Return its ``statvfs``."""
        simulation = self.life.simulation
        state, weight = simulation.state, simulation.columns.weight
        blocks = int(state.capacity_bytes @ weight) // _BLOCK_BYTES
        free = int(np.maximum(state.available_bytes, 0.0) @ weight) // _BLOCK_BYTES
        mdts, used = simulation.scenario.mdts, simulation.accounts.inodes()
        inodes = int(mdts.inodes) * mdts.count
        return StatvfsSpace(
            block_size_bytes=_BLOCK_BYTES,
            fragment_size_bytes=_BLOCK_BYTES,
            blocks=blocks,
            blocks_free=free,
            blocks_available=free,
            inodes=inodes,
            inodes_free=max(0, inodes - int(used.sum())),
            flags=0,
        )

    def make_directory(self, parent: str, name: str) -> str:
        """Create a new directory and return its path."""
        if not name.startswith(PROBE_PREFIX):
            raise RefusedError(f"{name} is not the name of a probe directory", code="name-invalid")
        path = self._path(parent, name)
        if path in self._directories:
            raise RefusedError(f"that name already exists in {path}", code="path-exists")
        stripes = self.life.simulation.scenario.placement.stripe_count
        self._directories[path] = _Directory(stripes)
        return path

    def file_sizes(self, directory: str) -> dict[str, int]:
        """Return the size of each file in a directory."""
        return {name: int(file.size_bytes) for name, file in self._of(directory).files.items()}

    def list_names(self, directory: str, prefix: str = "") -> tuple[str, ...]:
        """Return the names in a directory that start with ``prefix``."""
        inside = (
            path.rpartition("/")[2]
            for path in self._directories
            if path.rpartition("/")[0] == directory.rstrip("/")
        )
        return tuple(sorted(entry for entry in inside if entry.startswith(prefix)))

    def remove(self, parent: str, name: str) -> Removal:
        """Remove a directory of a probe with its files."""
        path = self._path(parent, name)
        directory = self._directories.get(path)
        if directory is None:
            return Removal(False, False, ())
        self._change("remove", path, [(file, file.size_bytes) for file in directory.files.values()])
        del self._directories[path]
        return Removal(True, True, ())

    def find_files(self, parent: str, name: str, pattern: str) -> tuple[tuple[str, str], ...]:
        """Return path and kind of a command's files that match a pattern."""
        directory = self._of(self._path(parent, name))
        return tuple(
            (content, "file")
            for content in sorted(directory.contents)
            if fnmatchcase(content, pattern)
        )

    def read_files(
        self, parent: str, name: str, paths: Sequence[str], *, limit_bytes: int
    ) -> dict[str, bytes]:
        """Return the content of a command's files."""
        contents = self._of(self._path(parent, name)).contents
        whole = {path: contents[path] for path in paths if path in contents}
        if sum(map(len, whole.values())) > limit_bytes:
            raise ToolError(
                f"together they are larger than {limit_bytes} bytes", code="output-too-large"
            )
        return whole

    # Operations of benchmarks and lfs

    def touch(self, paths: Sequence[str]) -> list[GuestFile]:
        """Return files, creating missing ones.

        Raises
        ------
        UsageError
            A directory does not exist.
        NoSpace
            No OST accepts new files.
        """
        new: dict[int, list[str]] = {}
        for path in dict.fromkeys(paths):
            directory, name = self._split(path)
            if name not in directory.files:
                new.setdefault(directory.stripe_count, []).append(path)
        for stripe_count, some in new.items():
            for path, osts in zip(some, self.place(len(some), stripe_count), strict=True):
                directory, name = self._split(path)
                directory.files[name] = GuestFile(0.0, osts)
        return [self.file(path) for path in paths]

    def write(self, sizes: Mapping[str, float]) -> list[GuestFile]:
        """Write files from the start to the given sizes, by path; they never shrink.

        Existing data is overwritten in place.

        Raises
        ------
        UsageError
            A directory does not exist.
        NoSpace
            No OST accepts new files, or one has too little space; then nothing is written.
        """
        files = self.touch(tuple(sizes))
        grown = [
            (file, max(0.0, size - file.size_bytes))
            for file, size in zip(files, sizes.values(), strict=True)
        ]
        self._refuse_full(self._of_osts(grown))
        for directory, written in self._by_directory(sizes).items():
            again = [(file, min(file.size_bytes, size)) for file, size in written]
            self._change("remove", directory, again)
            self._change("write", directory, written)
        for file, more in grown:
            file.size_bytes += more
        return files

    def create(
        self, path: str, first: int | None = None, stripe_count: int | None = None
    ) -> GuestFile:
        """Create an empty file, on the requested OST if it is open."""
        directory, name = self._split(path)
        if name in directory.files:
            raise RefusedError(f"{path} already exists", code="path-exists")
        count = directory.stripe_count if stripe_count is None else stripe_count
        (osts,) = self.place(1, count, first)
        file = directory.files[name] = GuestFile(0.0, osts)
        return file

    def unlink(self, paths: Sequence[str]) -> None:
        """Remove files."""
        sizes = {path: self.file(path).size_bytes for path in paths}
        for directory, files in self._by_directory(sizes).items():
            self._change("remove", directory, files)
        for path in paths:
            directory, name = self._split(path)
            del directory.files[name]

    def file(self, path: str) -> GuestFile:
        """Return a file.

        Raises
        ------
        UsageError
            It does not exist.
        """
        directory, name = self._split(path)
        if name not in directory.files:
            raise UsageError(f"{path} does not exist", code="path-missing")
        return directory.files[name]

    def set_stripes(self, path: str, count: int) -> None:
        """Set the stripe count of new files of a directory; -1: all OSTs."""
        self._of(path).stripe_count = count

    def stripes(self, path: str) -> int:
        """Return the stripe count of new files of a directory."""
        return self._of(path).stripe_count

    def place(
        self, files: int, stripe_count: int, first: int | None = None
    ) -> list[tuple[int, ...]]:
        """Return the OSTs of new files, chosen as for users.

        Parameters
        ----------
        first
            The first OST of each if it is open, else the next open one.

        Raises
        ------
        NoSpace
            No OST is open.
        """
        chosen, even = self.life.simulation.placing(self.life.now)
        is_open = np.flatnonzero(chosen)
        if not len(is_open):
            raise NoSpace("no OST accepts new files (No space left on device)")
        wanted = len(is_open) if stripe_count < 1 else min(stripe_count, len(is_open))
        if first is None and not even:
            draws = self._stream()
            chances = chosen[is_open] / chosen.sum()
            return [
                tuple(draws.choice(is_open, wanted, replace=False, p=chances).tolist())
                for _ in range(files)
            ]
        begin = int(self._stream().integers(len(is_open)))
        if first is not None:
            begin = int(np.searchsorted(is_open, first))
        step = wanted if first is None else 0
        return [
            tuple(
                int(is_open[(begin + file * step + stripe) % len(is_open)])
                for stripe in range(wanted)
            )
            for file in range(files)
        ]

    def _stream(self) -> np.random.Generator:
        """Return a separate random stream for each placement."""
        self._draws += 1
        at = self.life.now.isoformat()
        return stream(self.life.scenario.seed, "guest", "placement", at, self._draws)

    def targets(self, path: str) -> tuple[str, ...]:
        """Return the names of a file's OSTs."""
        return tuple(ost_name(number) for number in self.file(path).osts)

    def _by_directory(self, sizes: Mapping[str, float]) -> dict[str, list[tuple[GuestFile, float]]]:
        """Group files, given by path with bytes, by directory."""
        by_directory: dict[str, list[tuple[GuestFile, float]]] = {}
        for path, size_bytes in sizes.items():
            directory, _, _ = path.rpartition("/")
            by_directory.setdefault(directory, []).append((self.file(path), size_bytes))
        return by_directory

    def _change(self, deed: str, directory: str, files: Sequence[tuple[GuestFile, float]]) -> None:
        """Grow or shrink files of a directory by a number of bytes."""
        change = self._of_osts(files)
        if change.any():
            self.life.do(deed, of=directory.rstrip("/"), bytes_of_osts=folded(change))

    def _of_osts(self, files: Sequence[tuple[GuestFile, float]]) -> np.ndarray:
        """Return bytes per real OST: a file's bytes are spread evenly over its OSTs."""
        sizes = np.zeros(self.life.simulation.columns.osts)
        for file, size_bytes in files:
            sizes[list(file.osts)] += size_bytes / len(file.osts)
        return sizes

    def _refuse_full(self, more: np.ndarray) -> None:
        """Raise if an OST has no space for that many bytes."""
        simulation = self.life.simulation
        room = np.maximum(simulation.state.available_bytes, 0.0)[simulation.columns.member]
        if (more > room).any():
            full = ost_name(int(np.flatnonzero(more > room)[0]))
            raise NoSpace(f"{full} is full (No space left on device)")

    def _split(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._of(parent), name

    def _of(self, directory: str) -> _Directory:
        files = self._directories.get(directory.rstrip("/"))
        if files is None:
            raise UsageError(f"{directory} does not exist", code="path-missing")
        return files

    def _path(self, parent: str, name: str) -> str:
        if parent.rstrip("/") != self.path and not parent.startswith(f"{self.path}/"):
            raise UsageError(f"{parent} is not on the simulated file system", code="path-outside")
        return f"{parent.rstrip('/')}/{name}"


@dataclass(frozen=True, slots=True)
class PhaseTransfer:
    """The result.

    Attributes
    ----------
    held_bytes
        Bytes in all files afterwards.
    elapsed_s
        From the first open to the last close, including ``opening_s`` at both ends.
    """

    moved_bytes: int
    held_bytes: int
    elapsed_s: float
    opening_s: float


def move(guest: Guest, command: LoadCommand, access: Access, left_s: float) -> PhaseTransfer | None:
    """Let all tasks write or read; return ``None`` if that does not end in time.

    Striped files are as fast as their first OST: the flow model has only whole files. If a fixed
    time is longer than a file takes, the file is written again; the drives get it only once.

    Raises
    ------
    UsageError
        A directory, or a file to read, does not exist.
    NoSpace
        No OST accepts new files, or one has too little space.
    ToolError
        A file is shorter than the read.
    """
    life, fixed_s = guest.life, command.fixed_s
    files = _files(guest, command, access)
    rates, slowest_s = _rates(life, np.array([file.osts[0] for file in files]), command, access)
    opening = opening_s(fixed_s or slowest_s)
    elapsed_s = fixed_s + 2 * opening if fixed_s else slowest_s
    if not elapsed_s <= left_s or (fixed_s and not rates.all()):
        life.pass_by(max(left_s, 0.0))
        return None
    moved = np.full(len(files), command.task_bytes, dtype=np.float64)
    if fixed_s:
        size = command.transfer_size_bytes
        moved = np.floor(rates * fixed_s / size) * size
    held = np.minimum(moved, command.task_bytes)
    if access == "write":
        guest.write(dict(zip(command.files, held.tolist(), strict=True)))
    life.pass_by(elapsed_s)
    return PhaseTransfer(int(moved.sum()), int(held.sum()), elapsed_s, opening)


def _rates(
    life: Life, ost_of_task: Integers, command: LoadCommand, access: Access
) -> tuple[Array, float]:
    """Return each task's rate while all run, and when the slowest has moved its bytes.

    Returns
    -------
    tuple
        Bytes per second, and seconds; ``inf`` if a task never ends.
    """
    scenario, at = life.simulation.scenario, life.now
    could, users = life.simulation.met(at)
    each = command.tasks_per_node
    limits = job.node_limits(scenario.clients, platform_of(scenario.server), each)
    draws = stream(scenario.seed, "guest", access, int(at.timestamp()))
    share = float(job.run_share(draws.standard_normal(1))[0])
    of_osts, demand, per_node = (
        (could.write, users.write, limits.write_bytes_per_s)
        if access == "write"
        else (could.read, users.read, limits.read_bytes_per_s)
    )
    node = np.arange(len(ost_of_task)) // each
    nodes = Resource(node, np.full(command.nodes, per_node * share))
    osts = Resource(ost_of_task, of_osts, demand, np.ceil(demand / USER_STREAM_BYTES_PER_S))
    process = limits.process_bytes_per_s * share
    rates = max_min([nodes, osts], np.full(len(ost_of_task), process))
    slowest = slowest_rate([nodes, osts], process)
    return rates, command.task_bytes / slowest if slowest > 0.0 else math.inf


def _files(guest: Guest, command: LoadCommand, access: Access) -> list[GuestFile]:
    """Return the file of each task; files to be written are created."""
    if access == "write":
        return guest.touch(command.files)
    files = [guest.file(path) for path in command.files]
    if any(file.size_bytes < command.task_bytes for file in files):
        raise ToolError("a file is shorter than the read", code="file-too-short")
    # Each reads the file of a task on another node; tasks of a node are consecutive.
    shift = command.reorder * command.tasks_per_node
    return [files[(file + shift) % len(files)] for file in range(len(files))]
