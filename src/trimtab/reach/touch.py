"""Accesses one path on a file system that may hang, in a disposable process.

`trimtab.reach.bounded` calls these functions in a child. A child's imports are the cost of a
request, so this imports little, and only from the standard library.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import stat
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

PROBE_PREFIX = ".trimtab-"
"""Prefix of every directory that Trimtab creates; no other is created or removed here."""

_MOUNTED = "another file system is mounted on it"
_FS_IOC_GETFSUUID = 0x80111500
"""``_IOR(0x15, 0, struct fsuuid2)`` of linux/fs.h: a length and 16 bytes."""

_KINDS = (
    (stat.S_ISDIR, "directory"),
    (stat.S_ISREG, "file"),
    (stat.S_ISBLK, "block-device"),
    (stat.S_ISCHR, "character-device"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISLNK, "symlink"),
)


class PathFailure(NamedTuple):
    """A system error: the failed call, the name of the error and its text."""

    operation: str
    name: str
    message: str


class StatvfsSpace(NamedTuple):
    """``statvfs`` of a file system, in its own blocks and inodes.

    Attributes
    ----------
    fragment_size_bytes
        Unit of the three block counts (``f_frsize``).
    blocks_free, blocks_available
        Free blocks, and those available to users other than root.
    flags
        ``f_flag``: bit 0 is read-only.
    """

    block_size_bytes: int
    fragment_size_bytes: int
    blocks: int
    blocks_free: int
    blocks_available: int
    inodes: int
    inodes_free: int
    flags: int

    @property
    def capacity_bytes(self) -> int:
        """Size of the file system, including reserved blocks."""
        return self.blocks * self.fragment_size_bytes

    @property
    def used_bytes(self) -> int:
        """Used bytes, as ``df`` prints them."""
        return (self.blocks - self.blocks_free) * self.fragment_size_bytes

    @property
    def available_bytes(self) -> int:
        """Available bytes, as ``df`` prints them: without reserved blocks."""
        return self.blocks_available * self.fragment_size_bytes

    @property
    def read_only(self) -> bool:
        """Whether it is mounted read-only."""
        return bool(self.flags & os.ST_RDONLY)


class PathState(NamedTuple):
    """The description of a path. Unknown fields are ``None``; ``failure`` has the failed call.

    Attributes
    ----------
    path
        Absolute path, as requested.
    exists
        Whether it exists, following links.
    kind
        ``directory``, ``file``, ``block-device`` ..., ``symlink`` only for a dangling one.
    symlink
        Whether the last component is a link.
    device
        ``major:minor`` of the file system it is on.
    writable
        Whether this process may write, with its effective ids; False on a read-only file system.
    fs_uuid
        UUID of a directory's file system, from the kernel.
    """

    path: str
    exists: bool
    kind: str | None = None
    symlink: bool | None = None
    real_path: str | None = None
    device: str | None = None
    writable: bool | None = None
    space: StatvfsSpace | None = None
    failure: PathFailure | None = None
    fs_uuid: str | None = None

    @property
    def dangling(self) -> bool:
        """Whether it is a dangling link."""
        return bool(self.symlink) and not self.exists


class Removal(NamedTuple):
    """The result of `remove_probe_directory` or `remove_probe_tree`.

    Attributes
    ----------
    existed
        False if there was nothing to remove.
    removed
        Whether this call removed the directory itself.
    kept
        Name and reason of remaining entries; the directory's own name if it could not be removed.
    complete
        Whether there was time for everything.
    """

    existed: bool
    removed: bool
    kept: tuple[tuple[str, str], ...]
    complete: bool = True


def failure(error: OSError, operation: str) -> PathFailure:
    """Return the failure of a system call."""
    number = error.errno or 0
    name = errno.errorcode.get(number, "EUNKNOWN")
    return PathFailure(operation, name, os.strerror(number))


def kind_of(mode: int) -> str:
    """Return the kind of a file, from its mode."""
    return next((name for test, name in _KINDS if test(mode)), "other")


def describe(path: str) -> PathState:
    """Describe a path; a failure is part of the answer, along with what was found."""
    answer: dict[str, Any] = {"exists": False}
    step = "lstat"
    try:
        link = os.lstat(path)
        answer |= {"symlink": stat.S_ISLNK(link.st_mode), "kind": kind_of(link.st_mode)}
        step = "stat"
        info = os.stat(path)  # noqa: PTH116 (pathlib costs time)
        answer |= {"exists": True, "kind": kind_of(info.st_mode)}
        answer["device"] = f"{os.major(info.st_dev)}:{os.minor(info.st_dev)}"
        step = "realpath"
        answer["real_path"] = os.path.realpath(path, strict=True)
        answer["writable"] = os.access(path, os.W_OK, effective_ids=True)
        step = "statvfs"
        answer["space"] = free_space(path)
        if answer["kind"] == "directory":
            answer["fs_uuid"] = fs_uuid(path)
    except OSError as error:
        answer["failure"] = failure(error, step)
    return PathState(path, **answer)


def fs_uuid(directory: str) -> str | None:
    """Return the UUID of a directory's file system from the kernel, for any user.

    ``None`` before Linux 6.9, and if the file system has none.
    """
    try:
        answer = fcntl.ioctl(open_directory(directory), _FS_IOC_GETFSUUID, bytes(17))
    except OSError:
        return None
    length, digits = answer[0], answer[1:].hex()
    if length != 16 or not digits.strip("0"):
        return None
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def free_space(path: str) -> StatvfsSpace:
    """Return ``statvfs`` of a path."""
    info = os.statvfs(path)
    return StatvfsSpace(*info[:7], flags=info.f_flag)


def open_directory(path: str | bytes, *, beneath: int | None = None) -> int:
    """Open a directory; beneath another one, never follow a link.

    Listing it through the descriptor does not update its atime if permitted: only for its owner and
    root.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    if beneath is not None:
        flags |= os.O_NOFOLLOW
    try:
        return os.open(path, flags | os.O_NOATIME, dir_fd=beneath)
    except PermissionError:
        return os.open(path, flags, dir_fd=beneath)


def is_probe_name(name: str) -> bool:
    """Return whether a name is one component that starts with the prefix."""
    return name.startswith(PROBE_PREFIX) and "/" not in name and "\0" not in name


def parent_of(path: str, name: str) -> int:
    """Open the parent of a probe directory; refuse any other name."""
    if not is_probe_name(name):
        raise ValueError(f"{name!r} is not the name of a probe directory")
    return open_directory(path)


def make_directory(path: str, name: str) -> str:
    """Create a new directory and return its path; an existing name is an error."""
    parent = parent_of(path, name)
    os.umask(0)
    os.mkdir(name, 0o700, dir_fd=parent)
    return os.path.join(path, name)  # noqa: PTH118 (pathlib costs time)


class Level(NamedTuple):
    """An open directory of a tree being removed, with its known entries.

    Attributes
    ----------
    remaining
        Entries that cannot be removed and are not retried.
    """

    name: str
    descriptor: int
    names: list[str]
    remaining: set[str]

    def next(self) -> str | None:
        """Return a name that was not yet tried; ``None`` if none is left."""
        if not self.names:
            # One part at a time, each read completely before removing: removing while reading may
            # skip entries on some file systems, and a directory may have millions.
            with os.scandir(self.descriptor) as entries:
                names = (entry.name for entry in entries)
                self.names.extend(islice((n for n in names if n not in self.remaining), BATCH))
        return self.names.pop() if self.names else None


class TreeRemoval:
    """Removes everything in one directory, or only the regular files directly in it.

    Works only on open directories, so that no one can replace a path by a link in between. Entries
    deeper than `DEPTH` are first moved up into the top directory: otherwise each level would need
    another descriptor.
    """

    def __init__(self, descriptor: int, *, only_files: bool) -> None:
        self.levels = [Level("", descriptor, [], set())]
        self.mount = mount_of(descriptor)
        self.only_files = only_files
        self.moved = 0
        self.reasons: list[tuple[str, str]] = []

    def remove(self, work_s: float) -> bool:
        """Remove the entries of the top directory; return whether there was time for all."""
        end_s = time.monotonic() + work_s
        while time.monotonic() < end_s:
            level = self.levels[-1]
            name = level.next()
            if name is not None:
                self._take(level, name)
            elif len(self.levels) == 1:
                return True
            else:
                self._close()
        return False

    def _take(self, level: Level, name: str) -> None:
        """Remove one entry; enter it instead if it is a directory."""
        try:
            info = os.stat(name, dir_fd=level.descriptor, follow_symlinks=False)
            if self.only_files and not stat.S_ISREG(info.st_mode):
                self._keep(level, name, f"is a {kind_of(info.st_mode)}, not a regular file")
            elif stat.S_ISDIR(info.st_mode):
                self._enter(level, name)
            else:
                os.unlink(name, dir_fd=level.descriptor)
        except FileNotFoundError:
            return  # another process removed it
        except OSError as error:
            self._keep(level, name, os.strerror(error.errno or 0))

    def _enter(self, level: Level, name: str) -> None:
        descriptor = open_directory(name, beneath=level.descriptor)
        if mount_of(descriptor) != self.mount:
            os.close(descriptor)
            self._keep(level, name, _MOUNTED)
        elif len(self.levels) > DEPTH:
            os.close(descriptor)
            self.moved += 1
            top = f"{PROBE_PREFIX}{os.getpid()}-{self.moved}"
            os.rename(name, top, src_dir_fd=level.descriptor, dst_dir_fd=self.levels[0].descriptor)
        else:
            with contextlib.suppress(OSError):  # then removing from it fails, which is reported
                if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o300 != 0o300:
                    os.fchmod(descriptor, 0o700)
            self.levels.append(Level(name, descriptor, [], set()))

    def _close(self) -> None:
        """Leave a directory without removable entries, and remove it."""
        level = self.levels.pop()
        os.close(level.descriptor)
        above = self.levels[-1]
        try:
            os.rmdir(level.name, dir_fd=above.descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            if level.remaining and error.errno == errno.ENOTEMPTY:
                above.remaining.add(level.name)  # its entries were reported
            else:
                self._keep(above, level.name, os.strerror(error.errno or 0))

    def _keep(self, level: Level, name: str, reason: str) -> None:
        level.remaining.add(name)
        if len(self.reasons) < KEPT:
            path = "/".join([*(level.name for level in self.levels[1:]), name])
            self.reasons.append((path, reason))


BATCH = 20_000
"""Names read from a directory before they are removed."""
KEPT = 100
"""Remaining names that are reported."""
DEPTH = 100
"""Directories open at the same time; most processes may have 1,024."""


def mount_of(descriptor: int) -> tuple[int, str]:
    """Return the device and the mount that an open directory is on.

    A directory of the same device may be mounted on it (``mount --bind``), whose contents are not
    ours. ``mnt_id``: proc(5), since Linux 3.15.
    """
    device, mount = os.fstat(descriptor).st_dev, ""
    with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{descriptor}") as lines:  # noqa: PTH123
        mount = next((line for line in lines if line.startswith("mnt_id:")), "")
    return device, mount


def remove_probe_tree(path: str, name: str, work_s: float) -> Removal:
    """Remove a probe directory with everything in it, within ``work_s``.

    Links, pipes and devices in it are removed, never followed. Mounts and entries that the system
    refuses to remove stay and are reported.
    """
    return remove_probe_directory(path, name, work_s, only_files=False)


def remove_probe_directory(
    path: str, name: str, work_s: float = math.inf, *, only_files: bool = True
) -> Removal:
    """Remove the regular files directly inside a probe directory, then the directory.

    Never follows links or descends: a link, directory or device in it stays and is reported with
    the reason.
    """
    try:
        parent = parent_of(path, name)
        directory = open_directory(name, beneath=parent)
    except FileNotFoundError:
        return Removal(existed=False, removed=False, kept=())
    tree = TreeRemoval(directory, only_files=only_files)
    complete, removed = True, False
    if mount_of(parent) != tree.mount:
        tree.reasons.append((name, _MOUNTED))
    elif complete := tree.remove(work_s):
        try:
            os.rmdir(name, dir_fd=parent)
            removed = True
        except OSError as error:
            tree.reasons.append((name, os.strerror(error.errno or 0)))
    return Removal(True, removed, tuple(tree.reasons), complete)


class FileSearch:
    """Searches a tree for files whose path matches a pattern; never follows links.

    A pattern is a list of names with ``*``, ``?`` and ``[]``; ``**`` matches any number of
    directories. During the descent, ``places`` are the parts of the pattern that may match next.
    """

    def __init__(self, pattern: list[str], limit: int, descriptor: int) -> None:
        self.pattern = pattern
        self.limit = limit
        self.mount = mount_of(descriptor)
        self.entries = 0
        self.matches: list[tuple[str, str]] = []

    @property
    def is_over(self) -> bool:
        """Whether there is too much to search, or too many files match."""
        return self.entries > ENTRIES or len(self.matches) > self.limit

    def look(self, descriptor: int, path: str, places: set[int], depth: int) -> bool:
        """Add matches in a directory and below; return whether everything was searched."""
        with os.scandir(descriptor) as entries:
            below = list(self._matching(entries, path, places))
        for name, inner in below:
            if self.is_over or depth > DEPTH:
                return False
            try:
                child = open_directory(name, beneath=descriptor)
            except OSError:
                continue  # gone or unreadable: the file is not found
            whole = mount_of(child) != self.mount or self.look(
                child, f"{path}{name}/", inner, depth + 1
            )
            os.close(child)
            if not whole:
                return False
        return not self.is_over

    def reached(self, place: int) -> set[int]:
        """Return a place and the equivalent ones after it: ``**`` may match nothing."""
        places = {place}
        while place < len(self.pattern) and self.pattern[place] == "**":
            place += 1
            places.add(place)
        return places

    def following(self, name: str, places: set[int]) -> set[int]:
        """Return the places after one name on the way down."""
        from fnmatch import fnmatchcase

        reached = set[int]()
        for place in places - {len(self.pattern)}:
            if self.pattern[place] == "**":
                reached |= self.reached(place)
            elif fnmatchcase(name, self.pattern[place]):
                reached |= self.reached(place + 1)
        return reached

    def _matching(
        self, entries: Iterator[os.DirEntry[str]], path: str, places: set[int]
    ) -> Iterator[tuple[str, set[int]]]:
        """Add the matching files of a directory; yield the directories to search."""
        end = len(self.pattern)
        for entry in entries:
            self.entries += 1
            if self.is_over:
                return
            following = self.following(entry.name, places)
            if entry.is_dir(follow_symlinks=False):
                if following - {end}:
                    yield entry.name, following
            elif end in following:
                kind = kind_of(entry.stat(follow_symlinks=False).st_mode)
                self.matches.append((path + entry.name, kind))


ENTRIES = 1_000_000
"""Entries searched for one pattern."""


def find_files(path: str, name: str, pattern: str, limit: int) -> list[tuple[str, str]] | None:
    """Return path and kind of matches in a probe directory, without directories.

    ``None``: more than the limit, or too much to search.
    """
    directory = open_directory(name, beneath=parent_of(path, name))
    search = FileSearch(pattern.split("/"), limit, directory)
    return search.matches if search.look(directory, "", search.reached(0), 0) else None


def read_files(
    path: str, name: str, paths: Iterable[str], limit_bytes: int
) -> tuple[dict[str, bytes], str | None]:
    """Return the content of a probe directory's existing regular files, by path.

    Directories on the way to a file must not be links.

    Returns
    -------
    tuple
        The second item is the path with which they exceeded ``limit_bytes`` together.
    """
    directory = open_directory(name, beneath=parent_of(path, name))
    contents: dict[str, bytes] = {}
    for file in paths:
        content = read_file(file, directory, limit_bytes)
        if content is None:
            continue
        limit_bytes -= len(content)
        if limit_bytes < 0:
            return contents, file
        contents[file] = content
    return contents, None


def read_file(path: str, directory: int, limit_bytes: int) -> bytes | None:
    """Return the content of a regular file, or its first ``limit_bytes`` + 1 bytes."""
    opened = [directory]
    try:
        *above, name = path.split("/")
        for part in above:
            opened.append(open_directory(part, beneath=opened[-1]))
        # Do not block: it may be a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        opened.append(os.open(name, flags, dir_fd=opened[-1]))
        if not stat.S_ISREG(os.fstat(opened[-1]).st_mode):
            return None
        with os.fdopen(opened[-1], "rb", closefd=False) as stream:
            return stream.read(limit_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    finally:
        for descriptor in opened[1:]:
            os.close(descriptor)


def file_sizes(path: str, limit: int) -> dict[str, int]:
    """Return the sizes of the regular files directly in a directory, at most limit + 1."""
    with os.scandir(open_directory(path)) as entries:
        files = (entry for entry in entries if entry.is_file(follow_symlinks=False))
        return {
            entry.name: entry.stat(follow_symlinks=False).st_size
            for entry in islice(files, limit + 1)
        }


def list_names(path: str, prefix: str, limit: int) -> tuple[str, ...]:
    """Return the names in a directory that start with a prefix, sorted, at most ``limit``."""
    with os.scandir(open_directory(path)) as entries:
        matching = (entry.name for entry in entries if entry.name.startswith(prefix))
        return tuple(sorted(islice(matching, limit)))
