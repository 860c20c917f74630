"""Reads a server's files, and refuses the dangerous ones. First half of the collector.

This source is sent to a server before that of `collector` and is as self-contained: Python 3.6,
standard library, no other module of Trimtab. Never writes.
"""

# ruff: noqa: PTH116, PTH119, PTH120, PTH208
# Paths are bytes here, and importing pathlib takes longer than reading all files.

import contextlib
import errno
import fnmatch
import os
import re
import stat

FILE_LIMIT_BYTES = 4 << 20
DEVICES_LIMIT = 4096

# Reading mb_groups to its end turns targets read-only on some ldiskfs kernels. Reading kmsg steals
# messages from the system's logger.
NEVER_OPENED = ("mb_groups", "kmsg", "kcore")
READ = re.compile(
    r"/(?:proc|sys|run/udev/data|run/systemd|etc/systemd|usr/lib/systemd|lib/systemd"
    r"|var/lib/systemd|var/spool/cron)(?:/|\Z)|/etc/(?:fstab\Z|cron|anacrontab\Z)"
)
LISTED = re.compile(READ.pattern + r"|/dev(?:/|\Z)")
_STAMPS = "/var/lib/systemd/"
"""Files below are reported with their modification time: systemd stamps its timers there."""

_QUEUE_FILES = (
    "wbt_lat_usec",
    "scheduler",
    "nr_requests",
    "read_ahead_kb",
    "max_sectors_kb",
    "discard_max_bytes",
    "discard_granularity",
    "rotational",
    "write_cache",
    "logical_block_size",
    "physical_block_size",
    "iostats",
)
_PARTS = {
    "queue": _QUEUE_FILES,
    "dm": ("name", "uuid", "suspended"),
    "md": (
        "level",
        "degraded",
        "stripe_cache_size",
        "group_thread_count",
        "array_state",
        "sync_action",
        "raid_disks",
    ),
    "loop": ("backing_file", "dio"),
}
_OWN_FILES = ("size", "stat", "partition")
_DRIVE_FILES = ("model", "transport", "vendor", "state", "firmware_rev")
_LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
BLOCK_NAMES = frozenset(
    _OWN_FILES
    + _DRIVE_FILES
    + _LINK_FILES
    + tuple(name for part in _PARTS.values() for name in part)
)
"""Looked for at every block device: a missing one of these does not exist."""
_LINKED = ("/dev/mapper", "/dev/md", "/dev/disk/by-uuid", "/sys/dev/block")
NAMED_DIRECTORIES = ("/dev", "/sys/class/block", "/sys/fs/btrfs", *_LINKED)
"""Directories that list devices by name or number."""
_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]\Z")
_CONTROLLER = re.compile(r"nvme\d+\Z")


class PathRefused(Exception):
    """A path that is never read, whatever the request."""


class ServerTree:
    """The files of this server, with a cache of listings and links."""

    def __init__(self):
        self._listings = {}
        self._reals = {}

    def listing(self, path):
        """Return the sorted names in a directory."""
        if path not in self._listings:
            allowed(path, LISTED)
            names = os.listdir(as_bytes(path))
            self._listings[path] = sorted(as_text(name) for name in names)
        return self._listings[path]

    def real(self, path):
        """Return a path with every link resolved."""
        if path not in self._reals:
            real = os.path.realpath(as_bytes(path))
            os.lstat(real)  # realpath of Python 3.6 does not fail for missing files
            self._reals[path] = as_text(real)
        return self._reals[path]

    def leads_to(self, path):
        """As `real`, but ``None`` for a dangling link."""
        try:
            return self.real(path)
        except OSError:
            os.lstat(as_bytes(path))
            return None

    def names(self, path):
        """Return the names in a directory, none if it cannot be listed."""
        try:
            return self.listing(path)
        except (OSError, PathRefused):
            return []

    def text(self, path):
        """Return the text of a regular file."""
        directory, name = os.path.split(path)
        allowed(path, READ)
        place = self.real(directory).rstrip("/") + "/" + name
        info = os.lstat(as_bytes(place))
        if stat.S_ISLNK(info.st_mode):
            place = self.real(place)
            info = os.lstat(as_bytes(place))
        allowed(place, READ)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(info.st_mode):
            raise PathRefused(f"{path} is not a regular file")
        descriptor = os.open(as_bytes(place), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            content = read_to_end(descriptor, FILE_LIMIT_BYTES)
        finally:
            os.close(descriptor)
        if content is None:
            raise PathRefused(f"{path} is longer than {FILE_LIMIT_BYTES} bytes")
        return as_text(content)

    def changed_at_s(self, path):
        """Return a file's modification time, in seconds since 1970."""
        allowed(path, READ)
        return os.stat(as_bytes(path)).st_mtime

    def expand(self, pattern):
        """Return the paths that match a pattern; its last components need not exist."""
        paths = [""]
        for part in pattern.strip("/").split("/"):
            if not any(sign in part for sign in "*?["):
                paths = [path + "/" + part for path in paths]
                continue
            paths = [
                path + "/" + name
                for path in paths
                for name in fnmatch.filter(self.names(path or "/"), part)
                if not name.startswith(".")
            ]
        return paths


def allowed(path, where):
    """Raise `PathRefused` for a path that must not be read."""
    name = os.path.basename(path)
    if name in NEVER_OPENED:
        raise PathRefused(f"{path} is never opened")
    if where.match(path) is None or "\0" in path or ".." in path.split("/"):
        raise PathRefused(f"{path} is not on the list of readable files")


def as_bytes(path):
    """Return a path as bytes."""
    return path.encode("utf-8", "surrogateescape")


def as_text(content):
    """Return bytes as text that can be converted back and that JSON can encode in ASCII."""
    return content.decode("utf-8", "surrogateescape")


def read_to_end(descriptor, limit_bytes):
    """Read a descriptor to its end; ``None`` beyond the limit."""
    chunks = []
    size_bytes = 0
    while True:
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return b"".join(chunks)
        size_bytes += len(chunk)
        if size_bytes > limit_bytes:
            return None
        chunks.append(chunk)


def tasks(request, tree):
    """Yield kind and path of every file in the request; ``interrupts`` are lists of numbers."""
    for kind in ("files", "links", "directories"):
        for pattern in request.get(kind) or ():
            for path in tree.expand(pattern):
                yield kind, path
                if kind == "files" and path.startswith(_STAMPS):
                    yield "times", path
    if request.get("block_devices"):
        yield from block_tasks(tree)
    for pattern in request.get("interrupts") or ():
        for directory in tree.expand(pattern):
            for number in tree.names(directory):
                yield "files", "/proc/irq/" + number + "/smp_affinity_list"


def block_tasks(tree):
    """Yield kind and path of every file about block devices."""
    yield from named_tasks(tree)
    seen = set()
    devices = tree.names("/sys/class/block")
    for name in devices[:DEVICES_LIMIT]:
        yield "links", "/sys/class/block/" + name
        try:
            directory = tree.real("/sys/class/block/" + name)
        except (OSError, PathRefused):
            continue
        for task in device_tasks(tree, directory):
            if task not in seen:
                seen.add(task)
                yield task
    if len(devices) > DEVICES_LIMIT:
        yield "too-many", "/sys/class/block"


def named_tasks(tree):
    """Yield kind and path of the directories that list devices by name or number."""
    yield "directories", "/dev"
    yield "directories", "/sys/class/block"
    for directory in _LINKED:
        yield "directories", directory
        for name in tree.names(directory):
            yield "links", directory + "/" + name
    if not tree.names("/dev/disk/by-uuid"):
        # The same from udev's database, a kilobyte or two for each device.
        for name in tree.names("/sys/dev/block"):
            yield "files", "/run/udev/data/b" + name
    yield "directories", "/sys/fs/btrfs"
    for name in tree.names("/sys/fs/btrfs"):
        yield "directories", "/sys/fs/btrfs/" + name + "/devices"


def device_tasks(tree, directory):
    """Yield kind and path of the files about one device, given its real directory."""
    names = tree.names(directory)
    parent = os.path.dirname(directory)
    yield "directories", directory
    yield from own_tasks(directory, names)
    if "slaves" in names:
        yield "directories", directory + "/slaves"
        for name in tree.names(directory + "/slaves"):
            yield "links", directory + "/slaves/" + name
    drive = None
    if "device" in names:
        yield "links", directory + "/device"
        with contextlib.suppress(OSError, PathRefused):
            drive = tree.real(directory + "/device")
    yield from drive_tasks(tree, drive, parent)
    for end in upwards(drive or directory):
        if _PCI.match(os.path.basename(end)):
            yield from (("files", end + "/" + name) for name in _LINK_FILES)
    if "/nvme-subsystem/" in directory:
        yield from multipath_tasks(tree, parent)


def own_tasks(directory, names):
    """Yield kind and path of the files in a device's own directory."""
    for name in _OWN_FILES:
        if name in names:
            yield "files", directory + "/" + name
    for part in ("queue", "dm", "md", "loop"):
        if part in names:
            for name in _PARTS[part]:
                yield "files", directory + "/" + part + "/" + name


def drive_tasks(tree, drive, parent):
    """Yield a drive's attributes: next to its ``device`` link, or in the directory above."""
    for place in (drive, parent) if drive else (parent,):
        names = tree.names(place)
        for name in _DRIVE_FILES:
            if name in names:
                yield "files", place + "/" + name
        if place == drive and "device" in names:
            yield "links", place + "/device"
            with contextlib.suppress(OSError, PathRefused):
                yield "files", tree.real(place + "/device") + "/vendor"


def multipath_tasks(tree, subsystem):
    """Yield the links from an NVMe subsystem to its controllers and their hidden devices."""
    yield "directories", subsystem
    for name in tree.names(subsystem):
        if _CONTROLLER.match(name):
            yield "links", subsystem + "/" + name
            with contextlib.suppress(OSError, PathRefused):
                yield "directories", tree.real(subsystem + "/" + name)


def upwards(path):
    """Yield a path and its parents, without the root."""
    while len(path) > 1:
        yield path
        path = os.path.dirname(path)


def read_one(tree, kind, path):
    """Return the content of a path: text, time, names, or link target."""
    if kind == "files":
        return tree.text(path)
    if kind == "directories":
        return tree.listing(path)
    if kind == "times":
        return tree.changed_at_s(path)
    if kind == "too-many":
        raise PathRefused(f"{path} has more than {DEVICES_LIMIT} devices")
    allowed(path, LISTED)
    return tree.leads_to(path)


def records(request, tree, begin=0, progress=None):
    """Yield ``[kind, path, value]`` for what exists, ``["skipped", path, why]`` for the unread.

    What does not exist is omitted: it was requested, so its absence is the answer.
    """
    for number, (kind, path) in enumerate(tasks(request, tree)):
        if number < begin:
            continue
        if progress is not None:
            progress(number, path)
        try:
            yield [kind, path, read_one(tree, kind, path)]
        except PathRefused as refusal:
            yield ["skipped", path, str(refusal)]
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                continue
            denied = error.errno in (errno.EACCES, errno.EPERM)
            text = f"no permission to read {path}" if denied else None
            yield ["skipped", path, text or f"{path}: {os.strerror(error.errno or 0)}"]
