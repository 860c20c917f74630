"""Programs on disk that answer from a state in a file: for ssh, and for whatever starts processes.

::

    DIRECTORY/state.json         the state, behind a lock while a program answers
              bin/lfs, lctl, fstrim, nvme, systemctl, dmesg, sudo, ssh
              servers/NAME/...   what is its own of each server: see `machine`
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trimtab

from .state import FakeLustre

PROGRAMS = ("lfs", "lctl", "fstrim", "nvme", "systemctl", "dmesg", "sudo", "ssh")
PROGRAMS += ("obdfilter-survey",)
_PROGRAM = """\
#!{python} -IS
import sys
sys.path[:0] = {packages!r}
from fake_lustre.program import main
main({name!r}, {directory!r})
"""


@dataclass(frozen=True)
class Installed:
    """Where it all is; ``ssh`` is the command for a site file."""

    bin: Path
    state: Path
    ssh: tuple[str, ...]

    @property
    def path(self) -> str:
        """What PATH has to be for the programs to be found first."""
        return f"{self.bin}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}"

    @contextmanager
    def changing(self) -> Iterator[FakeLustre]:
        """Yield the state to be changed; it is kept when the block ends."""
        with locked(self.state.parent) as state:
            yield state


def install(state: FakeLustre, directory: Path) -> Installed:
    """Write programs, state and server trees."""
    bin_directory = directory / "bin"
    bin_directory.mkdir(parents=True, exist_ok=True)
    # The programs start without site-packages; the writing program is Trimtab's own.
    packages = [str(Path(__file__).resolve().parents[1]), str(Path(trimtab.__file__).parents[1])]
    for name in PROGRAMS:
        program = bin_directory / name
        program.write_text(
            _PROGRAM.format(
                python=sys.executable, packages=packages, name=name, directory=str(directory)
            )
        )
        program.chmod(0o755)
    (directory / "state.json").write_text(state.to_json())
    for server in state.servers:
        write_tree(state, server.name, directory / "servers" / server.name)
    ssh = (str(bin_directory / "ssh"),)
    return Installed(bin_directory, directory / "state.json", ssh)


@contextmanager
def locked(directory: Path) -> Iterator[FakeLustre]:
    """Yield the state while no other program can; what is changed is kept."""
    with (directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = directory / "state.json"
        before = path.read_text()
        state = FakeLustre.from_json(before)
        yield state
        after = state.to_json()
        if after != before:
            new = directory / "state.json.new"
            new.write_text(after)
            new.replace(path)


def write_tree(state: FakeLustre, host: str, root: Path) -> None:
    """Bring the directory that stands for a server up to date; what is gone goes."""
    from .machine import FDINFO
    from .tree import files, links

    wanted, leading = files(state, host), {**links(state, host), **FDINFO}
    kept = root / "var/lib/trimtab-act"
    kept.mkdir(parents=True, exist_ok=True)
    for directory, directories, names in os.walk(root):
        if directory == str(kept):  # what the writing program keeps there is its own
            continue
        for name in (*directories, *names):  # a link to a directory is among the directories
            path = Path(directory, name)
            inside = f"/{path.relative_to(root)}"
            gone = inside not in wanted and inside not in leading
            if gone and (path.is_symlink() or not path.is_dir()):
                path.unlink()
    for path, text in wanted.items():
        place = root / path.lstrip("/")
        content = text.encode("utf-8", "surrogateescape")
        if not (place.exists() and place.read_bytes() == content):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    for path, leads_to in leading.items():
        place = root / path.lstrip("/")
        if place.is_symlink() and str(place.readlink()) == leads_to:
            continue
        place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(leads_to)
