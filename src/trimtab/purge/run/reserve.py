"""Reserve space for a purge on a full file system, when its plan is published.

A run needs a few inodes and blocks of the file system that it purges, for the last check of files
and for a canary, and it is needed most when there are none. The quarantine of a plan, with a cell
for each thread and a reserve to be released, is therefore created weeks before.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from trimtab.errors import RefusedError
from trimtab.record.trusted import opened
from trimtab.visible import visible

SPARE_INODES: Final = 32
SPARE_BYTES: Final = 2 * 1024**2
_BLOCKS: Final = "blocks"
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def set_aside(root: str | int, name: str, *, threads: int, rows: int) -> None:
    """Create the quarantine of a plan with cells for its threads and a reserve; idempotent.

    Parameters
    ----------
    rows
        Maximum rows of a batch.

    Raises
    ------
    RefusedError
        The name exists and is not a private directory of this user.
    OSError
        The file system has no space left.
    """
    from trimtab._core import QUARANTINE

    files = QUARANTINE["cell_files"].items()
    room_bytes = {file: fixed + rows * of_row for file, (fixed, of_row) in files}
    with opened(root) as top, _private(name, top) as quarantine:
        for number in range(threads):
            with _private(f"{QUARANTINE['ready']}{number}", quarantine) as cell:
                for file, size_bytes in room_bytes.items():
                    with opened(file, cell, _NEW) as descriptor:
                        if size_bytes:
                            os.posix_fallocate(descriptor, 0, size_bytes)
        with (
            _private(QUARANTINE["stranded"], quarantine),
            _private(QUARANTINE["reserve"], quarantine) as reserve,
        ):
            with opened(_BLOCKS, reserve, _NEW) as descriptor:
                os.posix_fallocate(descriptor, 0, SPARE_BYTES)
            for number in range(SPARE_INODES):
                with opened(f"{number:02}", reserve, _NEW):
                    pass
        os.fsync(quarantine)


def give_back(root: str | int, name: str) -> bool:
    """Release the reserve's inodes and blocks; return whether there was one."""
    from trimtab._core import QUARANTINE

    with contextlib.suppress(OSError), opened(root) as top, opened(name, top) as quarantine:
        with opened(QUARANTINE["reserve"], quarantine) as reserve:
            for file in os.listdir(reserve):  # noqa: PTH208 (a descriptor has no path)
                os.unlink(file, dir_fd=reserve)
        os.rmdir(QUARANTINE["reserve"], dir_fd=quarantine)
        return True
    return False


def clear(root: str | int, name: str) -> None:
    """Remove what `set_aside` created and no run needs any more; other files there stay."""
    from trimtab._core import QUARANTINE

    give_back(root, name)
    with contextlib.suppress(OSError), opened(root) as top:
        with opened(name, top) as quarantine:
            for cell in os.listdir(quarantine):  # noqa: PTH208 (a descriptor has no path)
                if cell.startswith(QUARANTINE["ready"]):
                    with opened(cell, quarantine) as inside:
                        for file in QUARANTINE["cell_files"]:
                            with contextlib.suppress(FileNotFoundError):
                                os.unlink(file, dir_fd=inside)
                    os.rmdir(cell, dir_fd=quarantine)
            with contextlib.suppress(FileNotFoundError):  # a run removed it when empty
                os.rmdir(QUARANTINE["stranded"], dir_fd=quarantine)
        os.rmdir(name, dir_fd=top)


@contextlib.contextmanager
def _private(name: str, directory: int) -> Iterator[int]:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=directory)
    with opened(name, directory) as descriptor:
        state = os.fstat(descriptor)
        if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o777 != 0o700:
            raise RefusedError(
                f"{visible(name)} beneath the root is not a private directory of user "
                f"{os.geteuid()}",
                code="quarantine-untrusted",
                hint="find out who created it, and make a new plan",
            )
        yield descriptor
