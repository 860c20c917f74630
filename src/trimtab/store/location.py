"""Places of a store and of the files of purges: defaults, URLs, paths, unsuitable file systems.

No database library is imported here: ``trimtab --help`` names the default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from trimtab.base.error import RefusedError, UsageError, system_errors, visible
from trimtab.base.filesystem import FileSystemFamily, Mount, family_of, find_mount, parse_mountinfo
from trimtab.base.trusted_file import Trusted, refuse_below_others, refuse_foreign
from trimtab.base.units import is_digits

FILE_NAME = "trimtab.db"
SYSTEM_DIRECTORY: Final = Path("/var/lib/trimtab")
"""Root's directory of store, journals and keys; no other user may write in it (docs/install.md)."""

_POSTGRESQL = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://")
STORE_VARIABLE: Final = "TRIMTAB_STORE"
_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")

# SQLite's write-ahead log keeps its index in memory that all processes map (sqlite.org/wal.html):
# that memory is not shared between hosts, so on these the log can be overwritten.
_SHARED: Final[dict[FileSystemFamily, str]] = {
    "network": "a network file system",
    "lustre": "a parallel file system",
    "parallel": "a parallel file system",
    "shared-disk": "a file system on a disk that several hosts share",
    "user-space": "a file system in user space, mostly a remote one",
}

_EXCHANGEABLE: Final = "others could have root write anywhere"

Answers = Callable[[str], object]
"""Touches a path in a way that cannot hang; raises where its file system does not answer."""


@dataclass(frozen=True, slots=True)
class Location:
    """A store's place.

    Attributes
    ----------
    kind
        Which database.
    url
        As SQLAlchemy takes it; may hold a password, so it is never shown.
    path
        SQLite's file, absolute; ``None`` for PostgreSQL.
    raw
        Directory of the raw outputs.
    """

    kind: Literal["sqlite", "postgresql"]
    url: str
    path: Path | None
    raw: Path

    def __str__(self) -> str:
        """Return it as people may see it: without a password."""
        return str(self.path) if self.path is not None else _PASSWORD.sub(r"\1:***@", self.url)


def default_url(environment: Mapping[str, str] | None = None, *, root: bool | None = None) -> str:
    """Return the default store: ``$TRIMTAB_STORE``, else a file of this user.

    Parameters
    ----------
    environment
        ``os.environ`` where ``None``.
    root
        Whether the system's own place is ours to use; where ``None``, whether we are root.
    """
    environment = os.environ if environment is None else environment
    if url := environment.get(STORE_VARIABLE):
        return url
    return f"sqlite:///{_default_directory(environment, root) / FILE_NAME}"


def locate(
    url: str | os.PathLike[str] | None = None,
    *,
    raw: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Location:
    """Return the place that a URL or a plain path names.

    Parameters
    ----------
    url
        ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://user@host/name``,
        or a path, which is a SQLite file. ``None`` is the default.
    raw
        Directory of raw outputs; beside SQLite's file, or beside the default store, if ``None``.
        Several hosts on one PostgreSQL see one another's raw outputs only if it is shared.

    Raises
    ------
    UsageError
        It has none of these forms, names a database in memory, or is relative to a directory that
        no longer exists.
    """
    environment = os.environ if environment is None else environment
    text = os.fspath(url) if url is not None else default_url(environment)
    if _POSTGRESQL.match(text):
        directory = Path(raw) if raw else _default_directory(environment, None) / "raw"
        normal = _POSTGRESQL.sub("postgresql+psycopg://", text, count=1)
        return Location("postgresql", normal, None, _absolute(directory))
    path = _absolute(Path(_sqlite_path(text)))
    directory = Path(raw) if raw else path.parent / "raw"
    return Location("sqlite", f"sqlite:///{path}", path, _absolute(directory))


def refuse_shared_file_system(
    path: Path, mountinfo: str | None = None, *, answers: Answers | None = None
) -> None:
    """Raise where the store's file is on a network or parallel file system.

    The path as it is written is looked up first, without touching it: a dead server would not
    answer. Then ``answers`` touches it, for as long as it likes. Then links are followed.

    Raises
    ------
    RefusedError
        With the mount point and the type.
    """
    if mountinfo is None:
        mountinfo = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    mounts = parse_mountinfo(mountinfo)
    _refuse_one(path, os.path.normpath(path), mounts)
    if answers is not None:
        answers(os.fspath(path))
    # SQLite puts its log beside the file that a link leads to; the lock is on the link's directory.
    for real in (os.path.realpath(path.parent), os.path.realpath(path)):
        _refuse_one(path, real, mounts)


def refuse_exchangeable(location: Location) -> None:
    """Raise as root where another user can exchange the store or the directory of raw outputs.

    Root would read and write wherever that user's links lead. Who called ``sudo`` is no other: they
    named the store, or it is the default, which is root's.

    Raises
    ------
    UsageError
        With the component, and whose it is.
    """
    if os.geteuid() != 0:
        return
    trusted = Trusted(_root_and("SUDO_UID"), _root_and("SUDO_GID"))
    places = ((location.path, "the store"), (location.raw, "the directory of raw outputs"))
    for place, noun in places:
        if place is None:
            continue
        refuse_below_others(place, noun, _EXCHANGEABLE, trusted)
        if place.exists():
            refuse_foreign(place, noun, _EXCHANGEABLE, trusted)


def _root_and(variable: str) -> frozenset[int]:
    """Return root's number, and the one that sudo has put into a variable."""
    number = os.environ.get(variable, "")
    return frozenset({0, int(number)} if is_digits(number) else {0})


def _refuse_one(path: Path, real: str, mounts: Sequence[Mount]) -> None:
    mount = find_mount(mounts, real)
    if mount is not None and (reason := why_not(mount.fs_type)):
        raise RefusedError(
            f"the store {path} would be on {mount.mount_point}, which is {mount.fs_type}, {reason}",
            code="store-on-shared-file-system",
            hint="put it on a disk of this host with --store or TRIMTAB_STORE; "
            "for several hosts use postgresql://",
        )


def why_not(fs_type: str) -> str | None:
    """Return why SQLite's write-ahead log may not be kept on that file system, ``None`` if it may.

    Examples
    --------
    >>> why_not("nfs4"), why_not("ext4")
    ('a network file system: its hosts share no memory for the write-ahead log', None)
    """
    noun = _SHARED.get(family_of(fs_type))
    return noun and f"{noun}: its hosts share no memory for the write-ahead log"


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except OSError as error:
        raise UsageError(
            f"{path} starts at the current directory, which is gone ({error.strerror})",
            code="current-directory-gone",
            hint="give the whole path, or change to a directory that exists",
        ) from error


def _default_directory(environment: Mapping[str, str], root: bool | None) -> Path:
    if os.geteuid() == 0 if root is None else root:
        return SYSTEM_DIRECTORY
    data = environment.get("XDG_DATA_HOME", "")
    # The specification says that a relative path here is to be ignored.
    base = Path(data) if data.startswith("/") else Path("~/.local/share").expanduser()
    return base / "trimtab"


def _sqlite_path(text: str) -> str:
    """Return the path in a SQLite URL, or the plain path."""
    hint = "write a path, sqlite:////absolute/path.db or postgresql://user@host/name"
    shown = _PASSWORD.sub(r"\1:***@", text)
    if "\0" in text:
        raise UsageError(
            f"the store {shown!r} has a NUL in its name", code="store-url-invalid", hint=hint
        )
    scheme, separator, rest = text.partition("://")
    if not separator or "/" in scheme:
        path = os.path.expanduser(text)  # noqa: PTH111  # leaves what it does not know
    elif scheme not in ("sqlite", "sqlite+pysqlite"):
        raise UsageError(
            f"a store cannot be kept at {shown!r}: unknown kind {scheme!r}",
            code="store-url-invalid",
            hint=hint,
        )
    elif rest and not rest.startswith("/"):
        raise UsageError(
            f"{shown!r} names a host; SQLite has none", code="store-url-invalid", hint=hint
        )
    elif "?" in rest:
        raise UsageError(
            f"{shown!r} has options after '?', which are not supported",
            code="store-url-invalid",
            hint=hint,
        )
    else:
        path = rest[1:]
    if path in ("", ":memory:"):
        raise UsageError(
            f"{shown!r} names no file: nothing would be kept", code="store-url-invalid", hint=hint
        )
    return path


DEFAULT: Final = SYSTEM_DIRECTORY / "purge"
VARIABLE: Final = "TRIMTAB_PURGE"


@dataclass(frozen=True, slots=True)
class PurgePlace:
    """A directory of root that is closed to other users.

    It holds the signing key, the journals and the arming files of purges.

    Attributes
    ----------
    directory
        Absolute.
    owner
        The user who must own everything in it.
    """

    directory: Path
    owner: int = 0

    @property
    def key(self) -> Path:
        """The file with the secret key that signs plans."""
        return self.directory / "key"

    @property
    def journals(self) -> Path:
        """Journals of runs, and who armed what."""
        return self.directory / "journals"


def purge_place(path: str | os.PathLike[str] | None = None) -> PurgePlace:
    """Return the given place, else that of ``$TRIMTAB_PURGE``, else the system's default."""
    named = path or os.environ.get(VARIABLE)
    return PurgePlace(Path(os.path.abspath(named)) if named else DEFAULT)  # noqa: PTH100


def prepared(place: PurgePlace) -> PurgePlace:
    """Return a place after creating its directories, with mode 0700, if they are missing.

    Raises
    ------
    UnreadableError
        They cannot be created.
    """
    with system_errors(
        f"{visible(place.directory)} cannot be made",
        code="place-unwritable",
        hint=f"set {VARIABLE} to a directory owned by root",
    ):
        for directory in (place.directory, place.journals):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place
