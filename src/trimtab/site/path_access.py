"""Access to the file system of a site: by this host, or as a client of the twin.

A probe is the same code either way. Its access to its surroundings goes through a `Reach`: the kind
of a path, the output of a program, making and removing its directory.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from trimtab.base.error import Message, ToolError, visible
from trimtab.base.event import utc_now
from trimtab.base.filesystem import DRIVERS, PathDescription
from trimtab.base.snapshot import NotAvailable
from trimtab.formats.format_table import Tool, find
from trimtab.formats.phase import Ask
from trimtab.reach import bounded
from trimtab.reach.driver_protocol import Clock, Driver
from trimtab.reach.host import DeviceBytes
from trimtab.reach.launcher import Launcher, find_launcher
from trimtab.reach.local_driver import LocalDriver
from trimtab.reach.process import Execute
from trimtab.reach.process import execute as run_process

if TYPE_CHECKING:
    from trimtab.base.site import Site


class PathDriver(Driver, Protocol):
    """A driver that also looks at one path from the node on which probes run."""

    @property
    def description(self) -> PathDescription:
        """File system and devices of the path at the last look."""
        ...

    def drive_bytes(self) -> Mapping[str, DeviceBytes]:
        """Return the bytes moved so far by each drive beneath; empty if no drive is visible."""
        ...

    def allocator_counting(
        self, target: str, *, allowed: bool
    ) -> AbstractContextManager[NotAvailable | None]:
        """Let the block allocator count meanwhile, or say why it does not."""
        ...


OpenPath = Callable[[str, Execute, Clock], PathDriver]


def _open_local(path: str, execute: Execute, clock: Clock) -> PathDriver:
    return LocalDriver(path, execute=execute, clock=clock)


def since_boot_s() -> float:
    """Return the seconds since boot, time asleep included, by a clock that is never set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class Directories:
    """Functions that make, read and remove a probe's directory, each with a deadline.

    Attributes
    ----------
    make
        `trimtab.reach.bounded.make_directory`, or a substitute where there is no file system.
    sizes
        `trimtab.reach.bounded.file_sizes`.
    remove
        `trimtab.reach.bounded.remove_probe_directory`.
    remove_tree
        `trimtab.reach.bounded.remove_probe_tree`: for a command, which may leave anything.
    find, read
        `trimtab.reach.bounded.find_files` and `read_files`: for the files of a command.
    """

    make: Callable[[str, str], object] = bounded.make_directory
    sizes: Callable[[str], dict[str, int]] = bounded.file_sizes
    remove: Callable[[str, str], bounded.Removal] = bounded.remove_probe_directory
    remove_tree: Callable[[str, str], bounded.Removal] = bounded.remove_probe_tree
    find: Callable[[str, str, str], tuple[tuple[str, str], ...]] = bounded.find_files
    read: Callable[..., dict[str, bytes]] = bounded.read_files


@dataclass(frozen=True, slots=True)
class Reach:
    """Access of a probe to its surroundings.

    Attributes
    ----------
    open_path
        Returns the driver of a path below the site's.
    describe
        `trimtab.reach.bounded.describe`, or a substitute for it.
    list_names
        `trimtab.reach.bounded.list_names`: names in a directory with a prefix.
    find_tool
        Returns a benchmark by its name: `trimtab.formats.format_table.find`.
    which
        Returns the path of a program.
    find_launcher
        Returns the launcher of a kind, which starts a command as several tasks.
    sleep
        Waits for a number of seconds, by the same clock.
    elapsed_s
        Returns the seconds since some moment, by a clock that is never set.
    processors, memory_bytes
        Number of processors and size of the memory of this node.
    """

    clock: Clock = utc_now
    sleep: Callable[[float], None] = time.sleep
    elapsed_s: Callable[[], float] = since_boot_s
    execute: Execute = run_process
    open_path: OpenPath = _open_local
    describe: Callable[[str], bounded.PathState] = bounded.describe
    find_tool: Callable[[str, Ask], Tool | NotAvailable] = find
    which: Callable[[str], str | None] = shutil.which
    find_launcher: Callable[[str], Launcher | NotAvailable] = find_launcher
    list_names: Callable[[str, str], tuple[str, ...]] = bounded.list_names
    directories: Directories = field(default_factory=Directories)
    processors: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory_bytes: int = field(default_factory=_memory_bytes)

    def writable_space(self, path: str, *, hint: str | None = None) -> bounded.StatvfsSpace:
        """Return the space where a probe is to write.

        Raises
        ------
        ToolError
            Nothing can be written there.
        """
        state, path = self.describe(path), visible(path)
        if state.space is None or state.kind != "directory":
            text, code = f"{path} is not a directory with known free space", "free-space-unknown"
        elif state.space.read_only:
            text, code = f"{path} is on a file system that is mounted read-only", "read-only"
        elif not state.writable:
            text, code = f"no permission to write in {path}", "no-permission"
        else:
            return state.space
        raise ToolError(text, code=code, hint=hint)


THIS_HOST: Final = Reach()
"""The host that Trimtab runs on."""


def why_wrong_mount(
    site: Site,
    description: PathDescription,
    identity: str | None,
    *,
    execute: Execute = run_process,
) -> Message | None:
    """Return why the path does not lead to the site's file system, ``None`` when it does.

    Parameters
    ----------
    identity
        Identity of the file system that is stored under the site's name; ``None`` if there is none
        yet.
    """
    entry = DRIVERS[site.driver]
    mounted = f"at {site.path} is {description.fs_type} of {description.source}"
    if entry.named:
        # Lustre is the one kind of file system with a name.
        from trimtab.reach.lustre.lustre_client import name_at

        name = name_at(site.path, description, execute)
        if name is None:
            text = f"{mounted}, which is not {entry.title}: is {site.path} mounted?"
            return Message("not-mounted", text)
        if site.file_system not in (None, name):
            text = f"at {site.path} is the {entry.title} file system {name}, not {site.file_system}"
            return Message("other-file-system", text)
    if identity is not None and description.identity != identity:
        text = f"{mounted} ({description.identity}); {site.name} is stored as {identity}"
        return Message("other-file-system", text)
    return None


def refuse_wrong_mount(site: Site, identity: str | None, reach: Reach) -> None:
    """Raise where the path does not lead to the site's file system now.

    An unmounted mount point is a directory of the disk above it. Everything works there, and every
    number is of the wrong file system. So this is checked before each probe, not once.

    Raises
    ------
    ToolError
        It does not; a file system that is not mounted yet may be soon.
    """
    description = reach.open_path(site.path, reach.execute, reach.clock).description
    why = why_wrong_mount(site, description, identity)
    if why is not None:
        raise ToolError(
            why,
            code="wrong-file-system",
            hint="mount it; if it was made anew, give the site another name or store",
        )
