"""Touch one path on a file system that may hang, in a process that may be thrown away.

Started by `trimtab.launch.bounded` as ``python -I -S touch.py``, so it imports nothing but the
standard library. It reads one JSON object from standard input and writes one to standard output.
Paths and names are bytes to the kernel: in JSON each byte is the character of the same number
(latin-1), which loses nothing.

It kills itself shortly after its deadline, so that it does not stay behind when the process that
started it is gone.
"""

from __future__ import annotations

import binascii
import contextlib
import errno
import fcntl
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

Request = dict[str, Any]
Answer = dict[str, Any]

PROBE_PREFIX = b".trimtab-"
"""Every directory that Trimtab makes starts with this; none other is made or removed here."""

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


def encode(path: bytes) -> str:
    """Return bytes as JSON text, one character a byte."""
    return path.decode("latin-1")


def decode(text: str) -> bytes:
    """Return the bytes of `encode`'s text."""
    return text.encode("latin-1")


def kind_of(mode: int) -> str:
    """Return what a file is, from its mode."""
    return next((name for test, name in _KINDS if test(mode)), "other")


def failure(error: OSError, operation: str) -> Answer:
    """Return an error of the system as plain values: errno, its name and the call that failed."""
    return {
        "operation": operation,
        "errno": error.errno,
        "name": errno.errorcode.get(error.errno or 0, "EUNKNOWN"),
        "message": os.strerror(error.errno or 0),
    }


def space(target: bytes | int) -> Answer:
    """Return ``statvfs`` as the kernel gives it."""
    info = os.statvfs(target)
    names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree")
    return {name: getattr(info, name) for name in (*names, "f_flag")}


def describe(request: Request) -> Answer:
    """Return what a path is; a failure is part of the answer, beside what was still found."""
    path = decode(request["path"])
    answer: Answer = {"exists": False}
    step = "lstat"
    try:
        link = os.lstat(path)
        answer["symlink"] = stat.S_ISLNK(link.st_mode)
        answer["kind"] = kind_of(link.st_mode)
        step = "stat"
        info = os.stat(path)  # noqa: PTH116 (bytes: pathlib has none)
        answer |= {
            "exists": True,
            "kind": kind_of(info.st_mode),
            "mode": stat.S_IMODE(info.st_mode),
        }
        answer |= {"uid": info.st_uid, "gid": info.st_gid, "inode": info.st_ino}
        answer["device"] = f"{os.major(info.st_dev)}:{os.minor(info.st_dev)}"
        step = "realpath"
        answer["real_path"] = encode(os.path.realpath(path, strict=True))
        for key, mode in (("readable", os.R_OK), ("writable", os.W_OK), ("executable", os.X_OK)):
            answer[key] = os.access(path, mode, effective_ids=True)
        step = "statvfs"
        answer["space"] = space(path)
        if answer["kind"] == "directory":
            answer["fs_uuid"] = fs_uuid(path)
    except OSError as error:
        answer["failure"] = failure(error, step)
    return answer


def fs_uuid(directory: bytes) -> str | None:
    """Return the UUID of a directory's file system as the kernel has it, for any user.

    ``None`` before Linux 6.9, and where the file system has none.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        answer = fcntl.ioctl(descriptor, _FS_IOC_GETFSUUID, bytes(17))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    length, digits = answer[0], answer[1:].hex()
    if length != 16 or not digits.strip("0"):
        return None
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def free_space(request: Request) -> Answer:
    """Return ``statvfs`` of a path."""
    return space(decode(request["path"]))


def open_directory(path: bytes, *, beneath: int | None = None) -> int:
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


def probe_name(request: Request) -> bytes:
    """Return the checked name of a probe directory.

    Raises
    ------
    ValueError
        It is not one component that starts with the prefix.
    """
    name = decode(request["name"])
    if not name.startswith(PROBE_PREFIX) or b"/" in name or b"\0" in name:
        raise ValueError(f"{name!r} is not the name of a probe directory")
    return name


def make_directory(request: Request) -> Answer:
    """Make one new directory and return its identity; it is an error if the name exists."""
    name = probe_name(request)
    parent_path = decode(request["path"])
    parent = open_directory(parent_path)
    os.umask(0)
    os.mkdir(name, request["mode"], dir_fd=parent)
    made = os.fstat(open_directory(name, beneath=parent))
    return {
        "path": encode(os.path.join(parent_path, name)),  # noqa: PTH118 (bytes: pathlib has none)
        "inode": made.st_ino,
        "device": f"{os.major(made.st_dev)}:{os.minor(made.st_dev)}",
    }


def remove_probe_directory(request: Request) -> Answer:
    """Remove the regular files directly inside a probe directory, then the directory.

    Nothing is followed and nothing is descended into: a link, a directory or a device that
    somebody put there stays, and is named in the answer together with why.
    """
    name = probe_name(request)
    answer: Answer = {"existed": False, "removed": False, "files": 0, "bytes": 0, "kept": []}
    try:
        parent = open_directory(decode(request["path"]))
        directory = open_directory(name, beneath=parent)
    except FileNotFoundError:
        return answer
    answer["existed"] = True
    if os.fstat(parent).st_dev != os.fstat(directory).st_dev:
        answer["kept"].append([encode(name), "another file system is mounted on it"])
        return answer
    with os.scandir(directory) as entries:
        # Read to the end first: removing while reading may skip entries on some file systems.
        names = [os.fsencode(entry.name) for entry in entries]
    for inner in names:
        reason = remove_file(inner, directory, answer)
        if reason is not None and len(answer["kept"]) < request["limit"]:
            answer["kept"].append([encode(inner), reason])
    try:
        os.rmdir(name, dir_fd=parent)
        answer["removed"] = True
    except OSError as error:
        answer["kept"].append([encode(name), os.strerror(error.errno or 0)])
    return answer


def remove_file(name: bytes, directory: int, answer: Answer) -> str | None:
    """Remove one regular file and count it; return why not, if not."""
    try:
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(info.st_mode):
            return f"is a {kind_of(info.st_mode)}, not a regular file"
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        return os.strerror(error.errno or 0)
    answer["files"] += 1
    answer["bytes"] += info.st_size
    return None


class Level:
    """A directory of a tree that is being removed, open, with what is known to be in it."""

    __slots__ = ("descriptor", "name", "names", "remaining")

    def __init__(self, name: bytes, descriptor: int) -> None:
        self.name = name
        self.descriptor = descriptor
        self.names: list[bytes] = []
        self.remaining: set[bytes] = set()
        """What cannot be removed, and is not tried again."""

    def next(self) -> bytes | None:
        """Return a name in it that was not tried in vain; ``None`` when there is none left."""
        if not self.names:
            # A part at a time, each read to its end first: removing while reading may skip
            # entries on some file systems, and a directory may hold millions.
            with os.scandir(self.descriptor) as entries:
                names = (os.fsencode(entry.name) for entry in entries)
                self.names = list(islice((n for n in names if n not in self.remaining), BATCH))
        return self.names.pop() if self.names else None


class Tree:
    """The removal of everything in one directory, whatever lies in it.

    Works on open directories alone, so that nobody can put a link in a path's place meanwhile.
    What lies deeper than `DEPTH` is first moved up into the top directory: otherwise each level
    would take one more descriptor.
    """

    def __init__(self, descriptor: int, request: Request, answer: Answer) -> None:
        self.levels = [Level(b"", descriptor)]
        self.mount = mount_of(descriptor)
        self.limit: int = request["limit"]
        self.end_s = time.monotonic() + request["work_s"]
        self.answer = answer
        self.moved = 0

    def remove(self) -> bool:
        """Remove what is in the top directory; return whether there was time for all of it."""
        while time.monotonic() < self.end_s:
            level = self.levels[-1]
            name = level.next()
            if name is not None:
                with contextlib.suppress(FileNotFoundError):  # somebody else removed it
                    self._take(level, name)
            elif len(self.levels) == 1:
                return True
            else:
                self._close()
        return False

    def _take(self, level: Level, name: bytes) -> None:
        """Remove one entry; a directory is gone into instead."""
        try:
            info = os.stat(name, dir_fd=level.descriptor, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                self._enter(level, name)
                return
            os.unlink(name, dir_fd=level.descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._keep(level, name, os.strerror(error.errno or 0))
            return
        if stat.S_ISREG(info.st_mode):
            self.answer["files"] += 1
            self.answer["bytes"] += info.st_size

    def _enter(self, level: Level, name: bytes) -> None:
        descriptor = open_directory(name, beneath=level.descriptor)
        if mount_of(descriptor) != self.mount:
            os.close(descriptor)
            self._keep(level, name, "another file system is mounted on it")
        elif len(self.levels) > DEPTH:
            os.close(descriptor)
            self.moved += 1
            top = b"%s%d-%d" % (PROBE_PREFIX, os.getpid(), self.moved)
            os.rename(
                name,
                top,
                src_dir_fd=level.descriptor,
                dst_dir_fd=self.levels[0].descriptor,
            )
        else:
            with contextlib.suppress(OSError):  # then removing from it fails, and that is told
                if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o300 != 0o300:
                    os.fchmod(descriptor, 0o700)
            self.levels.append(Level(name, descriptor))

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

    def _keep(self, level: Level, name: bytes, reason: str) -> None:
        level.remaining.add(name)
        if len(self.answer["kept"]) < self.limit:
            path = b"/".join([*(level.name for level in self.levels[1:]), name])
            self.answer["kept"].append([encode(path), reason])


BATCH = 20_000
"""Names that are read of a directory before they are removed."""
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


def remove_probe_tree(request: Request) -> Answer:
    """Remove a probe directory with everything in it, as far as ``work_s`` reaches.

    Links, pipes and devices in it are removed, never followed. What is mounted in it stays, and
    so does what the system does not let go; it is named in the answer.
    """
    name = probe_name(request)
    answer: Answer = {
        "existed": False, "removed": False, "files": 0, "bytes": 0, "kept": [], "complete": True,
    }  # fmt: skip
    try:
        parent = open_directory(decode(request["path"]))
        directory = open_directory(name, beneath=parent)
    except FileNotFoundError:
        return answer
    answer["existed"] = True
    if mount_of(parent) != mount_of(directory):
        answer["kept"].append([encode(name), "another file system is mounted on it"])
        return answer
    answer["complete"] = Tree(directory, request, answer).remove()
    if answer["complete"]:
        try:
            os.rmdir(name, dir_fd=parent)
            answer["removed"] = True
        except OSError as error:
            answer["kept"].append([encode(name), os.strerror(error.errno or 0)])
    return answer


def open_probe_directory(request: Request) -> int:
    """Return a descriptor of a probe directory; a link in its place is not followed."""
    return open_directory(probe_name(request), beneath=open_directory(decode(request["path"])))


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

    def look(self, descriptor: int, path: bytes, places: set[int], depth: int) -> bool:
        """Add what matches in a directory and below; return whether everything was looked at."""
        with os.scandir(descriptor) as entries:
            below = list(self._matching(entries, path, places))
        for name, inner in below:
            if self.entries > ENTRIES or len(self.matches) > self.limit or depth > DEPTH:
                return False
            try:
                child = open_directory(name, beneath=descriptor)
            except OSError:
                continue  # gone, or not ours to read: the file is then not found
            try:
                whole = mount_of(child) != self.mount or self.look(
                    child, path + name + b"/", inner, depth + 1
                )
            finally:
                os.close(child)
            if not whole:
                return False
        return self.entries <= ENTRIES and len(self.matches) <= self.limit

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
        self, entries: Iterator[os.DirEntry[str]], path: bytes, places: set[int]
    ) -> Iterator[tuple[bytes, set[int]]]:
        """Note the matching files of a directory; yield the directories to look into."""
        end = len(self.pattern)
        for entry in entries:
            self.entries += 1
            if self.entries > ENTRIES or len(self.matches) > self.limit:
                return
            name = os.fsencode(entry.name)
            following = self.following(encode(name), places)
            if entry.is_dir(follow_symlinks=False):
                if following - {end}:
                    yield name, following
            elif end in following:
                kind = kind_of(entry.stat(follow_symlinks=False).st_mode)
                self.matches.append((encode(path + name), kind))


ENTRIES = 1_000_000
"""That are looked at for one pattern."""


def find_files(request: Request) -> Answer:
    """Return path and kind of what matches a pattern in a probe directory, directories left out."""
    directory = open_probe_directory(request)
    search = Search(request["pattern"], request["limit"], directory)
    complete = search.look(directory, b"", search.reached(0), 0)
    return {"found": search.matches, "complete": complete}


def read_files(request: Request) -> Answer:
    """Return the content of regular files in a probe directory, ``None`` of what is not there.

    None of the directories that lead to a file is a link. ``limit_bytes`` is of all together.
    """
    directory = open_probe_directory(request)
    room_bytes = request["limit_bytes"]
    contents: dict[str, str | None] = {}
    for text in request["names"]:
        content = read_file(decode(text), directory, room_bytes)
        if content is not None:
            room_bytes -= len(content)
            if room_bytes < 0:
                return {"contents": contents, "over": text}
        contents[text] = None if content is None else binascii.b2a_base64(content).decode()
    return {"contents": contents, "over": None}


def read_file(path: bytes, directory: int, limit_bytes: int) -> bytes | None:
    """Return the content of a regular file, or one byte more than the limit of it."""
    opened: list[int] = []
    try:
        *above, name = path.split(b"/")
        for part in above:
            opened.append(open_directory(part, beneath=opened[-1] if opened else directory))
        # Not blocking: it may be a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=opened[-1] if opened else directory)
        opened.append(descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(limit_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    finally:
        for descriptor in opened:
            os.close(descriptor)


def file_sizes(request: Request) -> Answer:
    """Return name and size of the regular files directly inside a directory."""
    directory = open_directory(decode(request["path"]))
    sizes: list[tuple[str, int]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if len(sizes) >= request["limit"]:
                return {"sizes": sizes, "complete": False}
            if entry.is_file(follow_symlinks=False):
                size = entry.stat(follow_symlinks=False).st_size
                sizes.append((encode(os.fsencode(entry.name)), size))
    return {"sizes": sizes, "complete": True}


def list_names(request: Request) -> Answer:
    """Return the names in a directory that start with a prefix."""
    directory = open_directory(decode(request["path"]))
    prefix = decode(request["prefix"])
    names: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if not name.startswith(prefix):
                continue
            if len(names) >= request["limit"]:
                return {"names": names, "complete": False}
            names.append(encode(name))
    return {"names": names, "complete": True}


OPERATIONS: dict[str, Callable[[Request], Answer]] = {
    "describe": describe,
    "free_space": free_space,
    "make_directory": make_directory,
    "remove_probe_directory": remove_probe_directory,
    "remove_probe_tree": remove_probe_tree,
    "find_files": find_files,
    "read_files": read_files,
    "file_sizes": file_sizes,
    "list_names": list_names,
}


def answer_to(request: Request) -> Answer:
    """Return ``{"value": ...}``, or ``{"failure": ...}`` when the system refused."""
    operation = request["operation"]
    try:
        return {"value": OPERATIONS[operation](request)}
    except OSError as error:
        return {"failure": failure(error, operation)}


def main() -> None:
    """Answer one request."""
    # An ignored alarm would be inherited from whoever started Trimtab.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    request = json.load(sys.stdin.buffer)
    signal.setitimer(signal.ITIMER_REAL, request["deadline_s"] + 1.0)
    json.dump(answer_to(request), sys.stdout)


if __name__ == "__main__":
    main()
