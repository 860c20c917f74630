"""A machine made of a directory: its files are ``/proc``, ``/sys`` and ``/dev`` of a program.

::

    python -IS machine.py TREE PROGRAM ARGUMENT...

The program runs in a mount namespace of its own, whose root has the directories of ``TREE`` and
what else this host has at its root (``/usr``, ``/tmp``, ...): it cannot tell. Block devices are
nodes with the numbers that ``sys/class/block`` of the tree gives. The mounts of targets in
``proc/self/mountinfo`` are made, and are numbered there as the kernel numbers them; what stat
answers of one is the number of its line before Lustre 2.16, else that of its device, as in the
recording ``server-mounts``. It needs root, or user namespaces, which have no device nodes.

Standard library alone: it is run by the programs of an installed Lustre, and by tests.
"""

# ruff: noqa: PTH102, PTH103, PTH108, PTH112, PTH113, PTH114, PTH115, PTH119, PTH120, PTH123
# ruff: noqa: PTH208, PTH211
# As the programs beside it: pathlib takes as long to import as all of this takes to run.

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import sys

OWN = ("dev", "etc", "mnt", "proc", "run", "sys", "var")
"""Of a machine's root, what is the machine's; the rest is this host's."""
UNNAMED = ("null", "urandom", "zero")
"""Of ``/dev``, what no tree names, and without which programs do not run."""
KERNEL = "/.kernel"
"""Where ``/proc`` of this host is: a process has no other that tells of its own descriptors."""

FDINFO = {"/proc/self/fdinfo": KERNEL + "/self/fdinfo"}
"""The link that a tree needs for that."""

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 4096, 16384, 1 << 19


def enter(tree: str, *, log: str | None = None, device_numbers: bool = True) -> None:
    """Become a process of the machine whose files are in a directory.

    Parameters
    ----------
    tree
        The directory.
    log
        A socket that is ``/dev/log`` there.
    device_numbers
        Whether stat of a target's mount answers its device's number, as since Lustre 2.16.
    """
    _unshare()
    root = os.path.dirname(tree) + "/.root"
    os.makedirs(root, exist_ok=True)
    _mount("tmpfs", root, "tmpfs", 0)
    for name in sorted({*os.listdir("/"), *OWN}):
        _bring("/" + name if name not in OWN else f"{tree}/{name}", f"{root}/{name}")
    os.mkdir(root + KERNEL)
    _bind("/proc", root + KERNEL)
    if os.path.isdir(f"{tree}/usr/lib/systemd"):
        _bind(f"{tree}/usr/lib/systemd", f"{root}/usr/lib/systemd")
    nodes = _devices(tree, root + "/dev")
    if log is not None:
        _touch(root + "/dev/log")
        _bind(log, root + "/dev/log")
    with contextlib.suppress(FileNotFoundError):
        _targets(tree, root, nodes, device_numbers=device_numbers)
    os.chroot(root)
    os.chdir("/")


def _unshare() -> None:
    try:
        _call("unshare", _CLONE_NEWNS)
    except PermissionError:  # no root, or a container's
        uid, gid = os.geteuid(), os.getegid()
        _call("unshare", _CLONE_NEWNS | _CLONE_NEWUSER)
        maps = {"setgroups": "deny", "uid_map": f"0 {uid} 1", "gid_map": f"0 {gid} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)  # what others unmount is not held here


def _bring(source: str, place: str) -> None:
    """Have a file, directory or link of this host at a place: an empty directory without it."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), place)
    elif os.path.isdir(source) and os.path.basename(place) != "dev":
        os.mkdir(place)
        _bind(source, place)
    elif os.path.isfile(source):
        _touch(place)
        _bind(source, place)
    else:
        os.mkdir(place)


def _devices(tree: str, place: str) -> dict[str, str]:
    """Make the nodes of devices, and return the name and number of each block device."""
    nodes: dict[str, str] = {}
    for directory, directories, names in os.walk(tree + "/dev"):
        there = place + directory[len(tree + "/dev") :]
        for name in (*directories, *names):
            source, own = f"{directory}/{name}", f"{there}/{name}"
            if os.path.islink(source):
                os.symlink(os.readlink(source), own)
            elif os.path.isdir(source):
                os.mkdir(own)
            elif (number := _text(f"{tree}/sys/class/block/{name}/dev").strip()) != "":
                nodes[name] = number
                _node(own, number)
            else:
                _touch(own)
    for name in UNNAMED:
        _touch(f"{place}/{name}")
        _bind(f"/dev/{name}", f"{place}/{name}")
    return nodes


def _targets(tree: str, root: str, nodes: dict[str, str], *, device_numbers: bool) -> None:
    """Mount what the table of mounts has of targets, and number its lines as the kernel does."""
    lines = []
    with open(f"{tree}/proc/self/mountinfo") as table:
        before = table.read().splitlines()
    for line in before:
        fields = line.split(" ")
        if "svname=" in line and " - lustre " in line:
            place, source = root + fields[4], fields[fields.index("-") + 2]
            os.makedirs(place, exist_ok=True)
            _mount("tmpfs", place, "tmpfs", 0)
            fields[0], number = _numbers(place)
            if not device_numbers:
                fields[2] = number
            elif os.path.basename(source) in nodes:
                node = f"{root}/dev/{os.path.basename(source)}"
                os.unlink(node)
                _node(node, number)
        lines.append(" ".join(fields) + "\n")
    own = root + "/.mountinfo"
    with open(own, "w") as file:
        file.writelines(lines)
    _bind(own, root + "/proc/self/mountinfo")


def _numbers(place: str) -> tuple[str, str]:
    """Return the kernel's number of a mount, and the device number of its files."""
    descriptor = os.open(place, os.O_PATH)
    told = dict(
        line.split(":", 1) for line in _text(f"/proc/self/fdinfo/{descriptor}").splitlines()
    )
    device = os.fstat(descriptor).st_dev
    os.close(descriptor)
    return told["mnt_id"].strip(), f"{os.major(device)}:{os.minor(device)}"


def _node(place: str, number: str) -> None:
    major, minor = map(int, number.split(":"))
    try:
        os.mknod(place, 0o660 | stat.S_IFBLK, os.makedev(major, minor))
    except PermissionError:  # in a user namespace
        _touch(place)


def _touch(place: str) -> None:
    os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o644))


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _bind(source: str, place: str) -> None:
    _mount(source, place, None, _MS_BIND | _MS_REC)


def _mount(source: str, place: str, kind: str | None, flags: int) -> None:
    _call("mount", os.fsencode(source), os.fsencode(place), kind and kind.encode(), flags, None)


_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name, None, str(arguments))


if __name__ == "__main__":
    enter(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
