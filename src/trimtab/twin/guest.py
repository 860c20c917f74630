"""A client node of the twin: the directories and files of probes, as calls that a real mount takes.

Only what probes make is there: users are bytes to the simulation, not files. Sizes and places are
kept, contents are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

import numpy as np

from trimtab.errors import RefusedError, ToolError, UsageError
from trimtab.launch.bounded import PROBE_PREFIX, MadeDirectory, NameList, PathState, Removal, Space
from trimtab.twin.instruments.layout import ost_name
from trimtab.twin.life import Life

_BLOCK_BYTES: Final = 4096
_DEVICE: Final = "0:64"


@dataclass(slots=True)
class File:
    """One file of a probe.

    Attributes
    ----------
    osts
        Numbers of the OSTs that hold it, in stripe order.
    """

    size_bytes: float
    osts: tuple[int, ...]


@dataclass(slots=True)
class _Directory:
    stripe_count: int
    files: dict[str, File] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)


class Guest:
    """The mount of a simulated file system on a node that runs probes.

    Parameters
    ----------
    path
        Where it is mounted.
    """

    def __init__(self, life: Life, path: str) -> None:
        self.life = life
        self.path = path.rstrip("/") or "/"
        self._directories: dict[str, _Directory] = {}
        self._placed = 0

    # What launch.bounded does on a real mount

    def describe(self, path: str) -> PathState:
        """Return what a path is; what does not exist is an answer."""
        if not path or "\0" in path:
            raise UsageError(f"{path!r} is not a path")
        if path.rstrip("/") not in {self.path, *self._directories}:
            return PathState(path, exists=False)
        return PathState(
            path,
            exists=True,
            kind="directory",
            symlink=False,
            real_path=path.rstrip("/"),
            device=_DEVICE,
            inode=1,
            uid=0,
            gid=0,
            mode=0o755,
            readable=True,
            writable=True,
            executable=True,
            space=self.space(),
        )

    def space(self) -> Space:
        """Return what ``statvfs`` says of it."""
        simulation = self.life.simulation
        state, weight = simulation.state, simulation.columns.weight
        blocks = int(state.capacity_bytes @ weight) // _BLOCK_BYTES
        free = int(np.maximum(state.available_bytes, 0.0) @ weight) // _BLOCK_BYTES
        mdts, used = simulation.scenario.mdts, simulation.accounts.inodes()
        inodes = int(mdts.inodes) * mdts.count
        return Space(
            block_size_bytes=_BLOCK_BYTES,
            fragment_size_bytes=_BLOCK_BYTES,
            blocks=blocks,
            blocks_free=free,
            blocks_available=free,
            inodes=inodes,
            inodes_free=max(0, inodes - int(used.sum())),
            flags=0,
        )

    def make_directory(self, parent: str, name: str) -> MadeDirectory:
        """Return a directory that was not there before."""
        if not name.startswith(PROBE_PREFIX):
            raise RefusedError(f"{name} is no name of a probe's directory")
        path = self._path(parent, name)
        if path in self._directories:
            raise RefusedError(f"{path} already holds that name")
        stripes = self.life.simulation.scenario.placement.stripe_count
        self._directories[path] = _Directory(stripes)
        return MadeDirectory(path, _DEVICE, len(self._directories) + 1)

    def file_sizes(self, directory: str) -> dict[str, int]:
        """Return the size of each file of a directory."""
        return {name: int(one.size_bytes) for name, one in self._of(directory).files.items()}

    def list_names(self, directory: str, prefix: str = "") -> NameList:
        """Return the names in a directory that start with ``prefix``."""
        inside = (
            path.rpartition("/")[2]
            for path in self._directories
            if path.rpartition("/")[0] == directory.rstrip("/")
        )
        return NameList(tuple(sorted(one for one in inside if one.startswith(prefix))), True)

    def remove(self, parent: str, name: str) -> Removal:
        """Remove a directory of a probe with its files."""
        found = self._directories.pop(self._path(parent, name), None)
        if found is None:
            return Removal(False, False, 0, 0, ())
        size = sum(one.size_bytes for one in found.files.values())
        self._change("remove", [(one, one.size_bytes) for one in found.files.values()])
        return Removal(True, True, len(found.files) + len(found.contents), int(size), ())

    def find_files(self, parent: str, name: str, pattern: str) -> tuple[tuple[str, str], ...]:
        """Return path and kind of what a command left that matches a pattern."""
        found = self._of(self._path(parent, name))
        return tuple((one, "file") for one in sorted(found.contents) if fnmatchcase(one, pattern))

    def read_files(
        self, parent: str, name: str, paths: Sequence[str], *, limit_bytes: int
    ) -> dict[str, bytes]:
        """Return the content of what a command left."""
        found = self._of(self._path(parent, name)).contents
        whole = {path: found[path] for path in paths if path in found}
        if sum(map(len, whole.values())) > limit_bytes:
            raise ToolError(f"they are larger than {limit_bytes} bytes together")
        return whole

    # What benchmarks and lfs do

    def write(self, sizes: Mapping[str, float]) -> list[File]:
        """Write files to the sizes given, by path; return them. They never shrink.

        Raises
        ------
        UsageError
            A directory does not exist.
        ToolError
            No OST takes new files.
        """
        files, grown = [], []
        for path, size_bytes in sizes.items():
            directory, name = self._split(path)
            file = directory.files.get(name)
            if file is None:
                file = self.create(path)
            more = max(0.0, size_bytes - file.size_bytes)
            files.append(file)
            grown.append((file, more))
        self._change("write", grown)
        for file, more in grown:
            file.size_bytes += more
        return files

    def create(self, path: str, first: int | None = None, stripe_count: int | None = None) -> File:
        """Make an empty file, on an OST where one is asked for that is open."""
        directory, name = self._split(path)
        if name in directory.files:
            raise RefusedError(f"{path} already exists")
        count = directory.stripe_count if stripe_count is None else stripe_count
        file = directory.files[name] = File(0.0, self.place(count, first))
        return file

    def file(self, path: str) -> File:
        """Return a file.

        Raises
        ------
        UsageError
            There is none.
        """
        directory, name = self._split(path)
        if name not in directory.files:
            raise UsageError(f"{path} does not exist")
        return directory.files[name]

    def set_stripes(self, path: str, count: int) -> None:
        """Set the stripe count of new files of a directory; -1: all OSTs."""
        self._of(path).stripe_count = count

    def stripes(self, path: str) -> int:
        """Return the stripe count of new files of a directory."""
        return self._of(path).stripe_count

    def holds(self, path: str) -> bool:
        """Return whether a path is a directory of a probe."""
        return path.rstrip("/") in self._directories

    def place(self, stripe_count: int, first: int | None = None) -> tuple[int, ...]:
        """Return the OSTs of a new file: the next ones that are open, or from ``first`` on.

        Raises
        ------
        ToolError
            None is open.
        """
        simulation = self.life.simulation
        state, member = simulation.state, simulation.columns.member
        is_open = np.flatnonzero((state.create_enabled & (state.available_bytes > 0))[member])
        if not len(is_open):
            raise ToolError("no OST takes new files (No space left on device)")
        wanted = len(is_open) if stripe_count < 1 else min(stripe_count, len(is_open))
        begin = self._placed if first is None else int(np.searchsorted(is_open, first))
        self._placed += wanted if first is None else 0
        return tuple(int(is_open[(begin + one) % len(is_open)]) for one in range(wanted))

    def targets(self, path: str) -> tuple[str, ...]:
        """Return the names of the OSTs that hold a file."""
        return tuple(ost_name(number) for number in self.file(path).osts)

    def _change(self, deed: str, files: Sequence[tuple[File, float]]) -> None:
        """Let files grow or shrink by so many bytes, evenly over their OSTs."""
        change = np.zeros(self.life.simulation.columns.osts)
        for file, size_bytes in files:
            change[list(file.osts)] += size_bytes / len(file.osts)
        if change.any():
            self.life.do(deed, bytes_of_osts=folded(change))

    def _split(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._of(parent), name

    def _of(self, directory: str) -> _Directory:
        found = self._directories.get(directory.rstrip("/"))
        if found is None:
            raise UsageError(f"{directory} does not exist")
        return found

    def _path(self, parent: str, name: str) -> str:
        if parent.rstrip("/") != self.path and not parent.startswith(f"{self.path}/"):
            raise UsageError(f"{parent} is not on the simulated file system")
        return f"{parent.rstrip('/')}/{name}"


def folded(values: np.ndarray) -> list[tuple[float, str]]:
    """Return each value that is not 0, with the OSTs that have it.

    Examples
    --------
    >>> folded(np.array([8.0, 8.0, 0.0, 7.0]))
    [(8.0, '0-1'), (7.0, '3')]
    """
    found = []
    for value in sorted(set(values[values != 0.0].tolist()), reverse=True):
        found.append((value, ranges(np.flatnonzero(values == value))))
    return found


def ranges(numbers: np.ndarray) -> str:
    """Return ascending numbers as ranges: ``0-3,7``."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    parts = np.split(numbers, breaks)
    return ",".join(f"{one[0]}" if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)
