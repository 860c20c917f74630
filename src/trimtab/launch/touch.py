"""Touch one path on a file system that may hang, in a process that may be thrown away.

Started by `trimtab.launch.bounded` as ``python -I -S touch.py``, so it imports nothing but the
standard library. It reads one JSON object from standard input and writes one to standard output.
Paths and names are bytes to the kernel: in JSON each byte is the character of the same number
(latin-1), which loses nothing.

It kills itself shortly after its deadline, so that it does not stay behind when the process that
started it is gone.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import Any

Request = dict[str, Any]
Answer = dict[str, Any]

PROBE_PREFIX = b".trimtab-"
"""Every directory that Trimtab makes starts with this; none other is made or removed here."""

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
    except OSError as error:
        answer["failure"] = failure(error, step)
    return answer


def free_space(request: Request) -> Answer:
    """Return ``statvfs`` of a path."""
    return space(decode(request["path"]))


def open_directory(path: bytes, *, beneath: int | None = None) -> int:
    """Return a descriptor of a directory; beneath another one, a link is not followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return os.open(path, flags if beneath is None else flags | os.O_NOFOLLOW, dir_fd=beneath)


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
