"""Touch one path on a file system that may hang, in a process that may be thrown away.

`trimtab.launch.child` has these functions called in a child. What a child loads is what a question
costs, so this imports little, and of the standard library alone.
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
"""Every directory that Trimtab makes starts with this; none other is made or removed here."""

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


class Failure(NamedTuple):
    """What the system said: the call that failed, the name of the error and its text."""

    operation: str
    name: str
    message: str


class Space(NamedTuple):
    """``statvfs`` of a file system, in its own blocks and inodes.

    Attributes
    ----------
    fragment_size_bytes
        The unit of the three block counts (``f_frsize``).
    blocks_free, blocks_available
        Free at all, and free to people who are not root.
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
        """The size of the file system, reserved blocks included."""
        return self.blocks * self.fragment_size_bytes

    @property
    def used_bytes(self) -> int:
        """What ``df`` prints as used."""
        return (self.blocks - self.blocks_free) * self.fragment_size_bytes

    @property
    def available_bytes(self) -> int:
        """What ``df`` prints as available: reserved blocks left out."""
        return self.blocks_available * self.fragment_size_bytes

    @property
    def read_only(self) -> bool:
        """Whether it is mounted read-only."""
        return bool(self.flags & os.ST_RDONLY)


class PathState(NamedTuple):
    """What a path is. What is not known is ``None``, and ``failure`` says which call ended it.

    Attributes
    ----------
    path
        Absolute, as asked.
    exists
        Whether there is something behind it, links followed.
    kind
        ``directory``, ``file``, ``block-device`` ..., ``symlink`` only for a dangling one.
    symlink
        The last component is a link.
    device
        ``major:minor`` of the file system it is on.
    writable
        For this process, with its effective ids; not on a read-only file system.
    fs_uuid
        UUID of the file system of a directory, as the kernel has it.
    """

    path: str
    exists: bool
    kind: str | None = None
    symlink: bool | None = None
    real_path: str | None = None
    device: str | None = None
    writable: bool | None = None
    space: Space | None = None
    failure: Failure | None = None
    fs_uuid: str | None = None

    @property
    def dangling(self) -> bool:
        """Whether it is a link to nothing."""
        return bool(self.symlink) and not self.exists


class Removal(NamedTuple):
    """What `remove_probe_directory` or `remove_probe_tree` did.

    Attributes
    ----------
    existed
        False when there was nothing to remove.
    removed
        Whether the directory itself is gone by this call.
    kept
        Name and reason of what was left; the directory's own name if it could not be removed.
    complete
        Whether there was time for all of it.
    """

    existed: bool
    removed: bool
    kept: tuple[tuple[str, str], ...]
    complete: bool = True


def failure(error: OSError, operation: str) -> Failure:
    """Return what the system said when a call failed."""
    number = error.errno or 0
    name = errno.errorcode.get(number, "EUNKNOWN")
    return Failure(operation, name, os.strerror(number))


def kind_of(mode: int) -> str:
    """Return what a file is, from its mode."""
    return next((name for test, name in _KINDS if test(mode)), "other")


def describe(path: str) -> PathState:
    """Return what a path is; a failure is part of the answer, beside what was still found."""
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
    """Return the UUID of a directory's file system as the kernel has it, for any user.

    ``None`` before Linux 6.9, and where the file system has none.
    """
    try:
        answer = fcntl.ioctl(open_directory(directory), _FS_IOC_GETFSUUID, bytes(17))
    except OSError:
        return None
    length, digits = answer[0], answer[1:].hex()
    if length != 16 or not digits.strip("0"):
        return None
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def free_space(path: str) -> Space:
    """Return ``statvfs`` of a path."""
    info = os.statvfs(path)
    return Space(*info[:7], flags=info.f_flag)


def open_directory(path: str | bytes, *, beneath: int | None = None) -> int:
    """Return a descriptor of a directory; beneath another one, a link is not followed.

    Whoever lists it by this leaves no trace in its atime, as far as the system lets them: only its
    owner and root may.
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
    """Return a descriptor of what a probe directory lies in; no other name is touched."""
    if not is_probe_name(name):
        raise ValueError(f"{name!r} is not the name of a probe directory")
    return open_directory(path)


def make_directory(path: str, name: str) -> str:
    """Make one new directory and return its path; it is an error if the name exists."""
    parent = parent_of(path, name)
    os.umask(0)
    os.mkdir(name, 0o700, dir_fd=parent)
    return os.path.join(path, name)  # noqa: PTH118 (pathlib costs time)


class Level(NamedTuple):
    """A directory of a tree that is being removed, open, with what is known to be in it.

    Attributes
    ----------
    remaining
        What cannot be removed, and is not tried again.
    """

    name: str
    descriptor: int
    names: list[str]
    remaining: set[str]

    def next(self) -> str | None:
        """Return a name in it that was not tried in vain; ``None`` when there is none left."""
        if not self.names:
            # A part at a time, each read to its end first: removing while reading may skip
            # entries on some file systems, and a directory may hold millions.
            with os.scandir(self.descriptor) as entries:
                names = (entry.name for entry in entries)
                self.names.extend(islice((n for n in names if n not in self.remaining), BATCH))
        return self.names.pop() if self.names else None


class Tree:
    """The removal of everything in one directory, or of the regular files directly inside it.

    Works on open directories alone, so that nobody can put a link in a path's place meanwhile.
    What lies deeper than `DEPTH` is first moved up into the top directory: otherwise each level
    would take one more descriptor.
    """

    def __init__(self, descriptor: int, *, only_files: bool) -> None:
        self.levels = [Level("", descriptor, [], set())]
        self.mount = mount_of(descriptor)
        self.only_files = only_files
        self.moved = 0
        self.reasons: list[tuple[str, str]] = []

    def remove(self, work_s: float) -> bool:
        """Remove what is in the top directory; return whether there was time for all of it."""
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
        """Remove one entry; a directory is gone into instead."""
        try:
            info = os.stat(name, dir_fd=level.descriptor, follow_symlinks=False)
            if self.only_files and not stat.S_ISREG(info.st_mode):
                self._keep(level, name, f"is a {kind_of(info.st_mode)}, not a regular file")
            elif stat.S_ISDIR(info.st_mode):
                self._enter(level, name)
            else:
                os.unlink(name, dir_fd=level.descriptor)
        except FileNotFoundError:
            return  # somebody else removed it
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
            with contextlib.suppress(OSError):  # then removing from it fails, and that is told
                if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o300 != 0o300:
                    os.fchmod(descriptor, 0o700)
            self.levels.append(Level(name, descriptor, [], set()))

    def _close(self) -> None:
        """Leave a directory in which nothing is left that can be removed, and remove it."""
        level = self.levels.pop()
        os.close(level.descriptor)
        above = self.levels[-1]
        try:
            os.rmdir(level.name, dir_fd=above.descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            if level.remaining and error.errno == errno.ENOTEMPTY:
                above.remaining.add(level.name)  # what is in it was named
            else:
                self._keep(above, level.name, os.strerror(error.errno or 0))

    def _keep(self, level: Level, name: str, reason: str) -> None:
        level.remaining.add(name)
        if len(self.reasons) < KEPT:
            path = "/".join([*(level.name for level in self.levels[1:]), name])
            self.reasons.append((path, reason))


BATCH = 20_000
"""Names that are read of a directory before they are removed."""
KEPT = 100
"""Names of what was left that are told."""
DEPTH = 100
"""Directories that are open at the same time; 1,024 are allowed to most processes."""


def mount_of(descriptor: int) -> tuple[int, str]:
    """Return the device and the mount that an open directory is on.

    A directory of the same device may be mounted on it (``mount --bind``): what is in that one
    belongs to somebody else. ``mnt_id`` is in proc(5), since Linux 3.15.
    """
    device, mount = os.fstat(descriptor).st_dev, ""
    with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{descriptor}") as lines:  # noqa: PTH123
        mount = next((line for line in lines if line.startswith("mnt_id:")), "")
    return device, mount


def remove_probe_tree(path: str, name: str, work_s: float) -> Removal:
    """Remove a probe directory with everything in it, as far as ``work_s`` reaches.

    Links, pipes and devices in it are removed, never followed. What is mounted in it stays, and
    so does what the system does not let go; it is named in the answer.
    """
    return remove_probe_directory(path, name, work_s, only_files=False)


def remove_probe_directory(
    path: str, name: str, work_s: float = math.inf, *, only_files: bool = True
) -> Removal:
    """Remove the regular files directly inside a probe directory, then the directory.

    Nothing is followed and nothing is descended into: a link, a directory or a device that
    somebody put there stays, and is named in the answer together with why.
    """
    try:
        parent = parent_of(path, name)
        directory = open_directory(name, beneath=parent)
    except FileNotFoundError:
        return Removal(existed=False, removed=False, kept=())
    tree = Tree(directory, only_files=only_files)
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


class Search:
    """Looks for the files of a tree whose path matches a pattern; links are not followed.

    A pattern is a list of names with ``*``, ``?`` and ``[]``; ``**`` stands for any number of
    directories. While the tree is gone down, ``places`` are the parts of the pattern that may
    match next.
    """

    def __init__(self, pattern: list[str], limit: int, descriptor: int) -> None:
        self.pattern = pattern
        self.limit = limit
        self.mount = mount_of(descriptor)
        self.entries = 0
        self.matches: list[tuple[str, str]] = []

    @property
    def is_over(self) -> bool:
        """Whether there is too much to look at, or too many files match."""
        return self.entries > ENTRIES or len(self.matches) > self.limit

    def look(self, descriptor: int, path: str, places: set[int], depth: int) -> bool:
        """Add what matches in a directory and below; return whether everything was looked at."""
        with os.scandir(descriptor) as entries:
            below = list(self._matching(entries, path, places))
        for name, inner in below:
            if self.is_over or depth > DEPTH:
                return False
            try:
                child = open_directory(name, beneath=descriptor)
            except OSError:
                continue  # gone, or not ours to read: the file is then not found
            whole = mount_of(child) != self.mount or self.look(
                child, f"{path}{name}/", inner, depth + 1
            )
            os.close(child)
            if not whole:
                return False
        return not self.is_over

    def reached(self, place: int) -> set[int]:
        """Return a place with those after it that are as good: ``**`` may stand for nothing."""
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
        """Note the matching files of a directory; yield the directories to look into."""
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
"""That are looked at for one pattern."""


def find_files(path: str, name: str, pattern: str, limit: int) -> list[tuple[str, str]] | None:
    """Return path and kind of what matches a pattern in a probe directory, directories left out.

    ``None``: there is more than the limit, or too much to look at.
    """
    directory = open_directory(name, beneath=parent_of(path, name))
    search = Search(pattern.split("/"), limit, directory)
    return search.matches if search.look(directory, "", search.reached(0), 0) else None


def read_files(
    path: str, name: str, paths: Iterable[str], limit_bytes: int
) -> tuple[dict[str, bytes], str | None]:
    """Return the content of the regular files of a probe directory that are there, by path.

    None of the directories that lead to a file is a link.

    Returns
    -------
    tuple
        The path with which they became larger than ``limit_bytes`` together comes second.
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
    """Return the content of a regular file, or one byte more than the limit of it."""
    opened = [directory]
    try:
        *above, name = path.split("/")
        for part in above:
            opened.append(open_directory(part, beneath=opened[-1]))
        # Not blocking: it may be a pipe.
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
    """Return the sizes of the regular files directly inside a directory, at most limit + 1."""
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
