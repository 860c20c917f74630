"""The files of a watched site: its site file, the unit, and what is particular to this host.

- ``/etc/trimtab/sites/NAME.toml``: the site file;
- ``/etc/systemd/system/trimtab-watch@.service``: the unit of every site, unless a package has
  installed the same one;
- ``/etc/systemd/system/trimtab-watch@NAME.service.d/site.conf``: the program, the site's mount.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Final

from trimtab.base.error import RefusedError, UnreadableError, system_errors
from trimtab.base.site import Site
from trimtab.base.small_file import written_beside
from trimtab.base.visible import visible

UNIT: Final = "trimtab-watch@.service"
_SITES: Final = Path("etc/trimtab/sites")
_UNITS: Final = Path("etc/systemd/system")
_PACKAGED: Final = Path("usr/lib/systemd/system")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LARGEST_BYTES: Final = 1 << 20


class FileState(StrEnum):
    """What is in a file's place now."""

    ABSENT = "absent"
    SAME = "same"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class InstalledFile:
    """One file to put in place, mode 0644.

    Attributes
    ----------
    path
        Absolute.
    state
        Of what is there.
    """

    path: str
    text: str
    state: FileState


@dataclass(frozen=True, slots=True)
class InstallDocument:
    """``trimtab init PATH --install --yes --json``.

    Attributes
    ----------
    written
        Installed files, without those that were already there.
    next
        Commands that start the watch.
    """

    site: str
    written: tuple[str, ...]
    next: tuple[str, ...]


def unit_text() -> str:
    """Return the systemd unit."""
    return files("trimtab.watch").joinpath(UNIT).read_text(encoding="utf-8")


def files_of(
    site: Site, text: str, *, root: Path = Path("/"), program: str | None = None
) -> tuple[InstalledFile, ...]:
    """Return the files that make a site watched, with what is in their places.

    Parameters
    ----------
    text
        Of the site file.
    root
        Of the tree that they are put into.
    program
        Absolute path of the command; ``None``: the one that runs.

    Raises
    ------
    UnreadableError
        A place cannot be read.
    """
    wanted = {root / _SITES / f"{site.name}.toml": text}
    if _state(root / _PACKAGED / UNIT, unit_text()) is not FileState.SAME:
        wanted[root / _UNITS / UNIT] = unit_text()
    drop_in = root / _UNITS / f"trimtab-watch@{site.name}.service.d" / "site.conf"
    wanted[drop_in] = _drop_in(site, program or _this_program())
    return tuple(
        InstalledFile(str(path), content, _state(path, content)) for path, content in wanted.items()
    )


def install(planned: Sequence[InstalledFile], *, replace: bool = False) -> tuple[str, ...]:
    """Write the files that are not in place yet, and return their paths.

    Parameters
    ----------
    replace
        Whether files that differ are written over; else nothing is written where one does.

    Raises
    ------
    RefusedError
        A file differs.
    UnreadableError
        One cannot be written; those before it are in place.
    """
    different = [file.path for file in planned if file.state is FileState.DIFFERS]
    if different and not replace:
        raise RefusedError(
            f"there is another {visible(different[0])}",
            code="file-differs",
            hint="compare the two; --replace writes over it",
        )
    written = []
    for file in planned:
        if file.state is FileState.SAME:
            continue
        path = Path(file.path)
        with system_errors(f"cannot write {visible(file.path)}", code="file-unwritable"):
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with written_beside(path, file.text.encode("utf-8"), 0o644) as partial:
                partial.replace(path)
        written.append(file.path)
    return tuple(written)


def commands(site: Site) -> tuple[str, ...]:
    """Return what starts the watch once the files are in place."""
    return (
        f"trimtab site {site.name} --validate",
        "systemctl daemon-reload",
        f"systemctl enable --now trimtab-watch@{site.name}",
        f"trimtab watch {site.name} --status",
    )


def _state(path: Path, text: str) -> FileState:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES)
    except FileNotFoundError:
        return FileState.ABSENT
    except OSError as error:
        raise UnreadableError(
            f"cannot read {visible(str(path))}: {error.strerror}", code="file-unreadable"
        ) from error
    return FileState.SAME if content == text.encode() else FileState.DIFFERS


def _this_program() -> str:
    """Return the command that runs, by an absolute path that stays valid."""
    beside = Path(sys.executable).with_name("trimtab")
    return str(beside) if beside.exists() else shutil.which("trimtab") or "/usr/bin/trimtab"


def _drop_in(site: Site, program: str) -> str:
    """Return what is particular to one site on this host."""
    writable = [site.path]
    if site.policies.purge.directory is not None:
        writable.append(site.policies.purge.directory)
    lines = [
        f"# Of the site {site.name}, written by trimtab init PATH --install.",
        "[Service]",
        "ExecStart=",
        f"ExecStart={_quoted(program.replace('$', '$$'))} watch %i",
        "# Where probes write. The leading - lets the watch start while it is not mounted.",
        *(f"ReadWritePaths={_quoted('-' + path)}" for path in writable),
        "",
    ]
    return "\n".join(lines)


def _quoted(word: str) -> str:
    """Return a word as systemd.syntax(7) reads it: quotes, specifiers, control signs escaped."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = _CONTROL.sub(lambda sign: f"\\x{ord(sign[0]):02x}", escaped)
    return f'"{escaped}"' if escaped != word or " " in word else word
