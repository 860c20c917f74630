"""Write one list per user, invisible until all are complete.

::

    .../DIRECTORY/                          the site's, writable only by root
        .2026-11-22-PLAN.7f3a.../           0700, while it is written
        2026-11-22-PLAN/                    0711: only root can list it
            ada.txt  ada.jsonl  ada.nul     0600, ada's

Files are created, filled and only then given to their users, in a directory that no one else can
enter: no user can place a link where a list is written, or hold a list open meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trimtab.base.error import DataError, RefusedError, system_errors, visible
from trimtab.base.trusted_file import opened, synchronise_file_system, trusted_directory
from trimtab.purge.owner import Account
from trimtab.purge.plan.candidate import Named, pieces
from trimtab.purge.plan.notice_text import (
    COLUMNS,
    LINES_SUFFIX,
    NAMES_SUFFIX,
    TEXT_SUFFIX,
    ListLines,
    NoticeFacts,
    added_counts,
    count_lines,
    counts_of,
    lines_of,
    list_header,
)
from trimtab.purge.plan.plan_directory import LoadedPlan
from trimtab.purge.plan.plan_signature import UserList

if TYPE_CHECKING:
    import polars as pl

_BUFFER_BYTES: Final = 64 << 20
"""Limit of buffered lines of all users together, so that a file is opened once for many lines."""
_COUNTS_MOST: Final = 64
"""Number of pieces whose counts are buffered before they are summed."""
_SUFFIXES: Final = (TEXT_SUFFIX, LINES_SUFFIX, NAMES_SUFFIX)


@dataclass(slots=True)
class _UserFiles:
    """The files of one user while they grow: three, or two without names."""

    facts: NoticeFacts
    account: Account | None
    parts: list[list[bytes]] = field(default_factory=lambda: [[], [], []])
    hashes: list[hashlib._Hash] = field(
        default_factory=lambda: [hashlib.sha256() for _ in range(3)]
    )
    files: int = 0
    new_files: int = 0
    begun: bool = False

    @property
    def suffixes(self) -> tuple[str, ...]:
        return _SUFFIXES if self.facts.has_names else _SUFFIXES[:2]

    def add(self, lines: ListLines) -> int:
        """Buffer some lines; return their bytes."""
        data = (lines.text, lines.lines, lines.names)
        for parts, part in zip(self.parts, data, strict=True):
            parts.append(part)
        self.files += lines.files
        self.new_files += lines.new_files
        return sum(len(part) for part in data)

    def flush(self, directory: int) -> None:
        """Append the buffered lines to the files, creating them the first time."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= 0 if self.begun else os.O_CREAT | os.O_EXCL
        for suffix, parts, digest in zip(self.suffixes, self.parts, self.hashes, strict=False):
            if not parts and self.begun:
                continue
            descriptor = os.open(self.facts.name + suffix, flags, 0o600, dir_fd=directory)
            with os.fdopen(descriptor, "wb") as stream:
                for part in parts:
                    digest.update(part)
                    stream.write(part)
            parts.clear()
        self.begun = True

    def give(self, directory: int) -> None:
        """Give the files to the user."""
        account = self.account
        if account is None:
            return
        for suffix in self.suffixes:
            name = self.facts.name + suffix
            os.chown(name, account.uid, account.gid, dir_fd=directory, follow_symlinks=False)


@dataclass(slots=True)
class _Counted:
    """Users whose files are counted by directory."""

    uids: list[int]
    counts: list[pl.DataFrame] = field(default_factory=list)

    def rest_of(self, piece: pl.DataFrame) -> pl.DataFrame:
        """Count the rows of these users, and return the others."""
        import polars as pl

        if not self.uids:
            return piece
        theirs = pl.col("uid").is_in(self.uids)
        self.counts.append(counts_of(piece.filter(theirs)))
        if len(self.counts) >= _COUNTS_MOST:
            self.counts = [added_counts(self.counts)]
        return piece.filter(~theirs)

    def lines(self, prefix: bytes) -> Iterator[ListLines]:
        """Yield the lines of each user."""
        if not self.counts:
            return
        for rows in added_counts(self.counts).partition_by("uid", maintain_order=True):
            yield count_lines(int(rows["uid"][0]), rows, prefix)


def write_lists(
    loaded: LoadedPlan,
    notices: Mapping[int, NoticeFacts],
    accounts: Mapping[int, Account | None],
    place: Path,
    *,
    before: Named | None = None,
    owner: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[UserList, ...]:
    """Write every user's list to stable storage, and return the lists.

    Parameters
    ----------
    notices
        By uid, for every user with a candidate.
    accounts
        Owner of each list; ``None``: it stays root's.
    place
        The directory to create, in one that only root can write. Leftovers of an interrupted
        attempt are replaced.
    before
        Names in the previous plan; ``None`` if there was none.
    progress
        Called with the number of files listed, and the total.

    Raises
    ------
    DataError
        The candidates differ from those of the plan.
    RefusedError
        Another user could replace the files.
    UnreadableError
        A list could not be written or given to its user.
    """
    users = {uid: _UserFiles(facts, accounts[uid]) for uid, facts in notices.items()}
    with (
        system_errors(
            f"the lists could not be written to {visible(place)}",
            code="lists-unwritable",
            hint="nothing was published; the lists need space, and a file system where root can "
            "chown files (not NFS with root squash)",
        ),
        trusted_directory(place.parent, "the directory of lists", owner=owner) as parent,
        _replacing(place.name, parent) as directory,
    ):
        _refuse_closed(place.parent)
        for user in users.values():
            user.parts[0].append(list_header(user.facts).encode("utf-8"))
        _fill(loaded, users, directory, before, progress)
        _check(users)
        for user in users.values():
            user.give(directory)
        synchronise_file_system(directory)
    return tuple(_written(uid, users[uid]) for uid in sorted(users))


def write_user_names(
    loaded: LoadedPlan, user_list: UserList, place: Path, *, owner: int = 0
) -> Path:
    """Write a user's names, NUL-terminated, beside the user's list; return the file.

    The file belongs to the user, like the list; an existing one is replaced.

    Raises
    ------
    RefusedError
        Another user could replace the files.
    DataError, UnreadableError
        The candidates cannot be read, or the file cannot be written.
    """
    name = user_list.name + NAMES_SUFFIX
    part = f".{name[:200]}.{secrets.token_hex(6)}"
    prefix = loaded.plan.file_system.root_prefix
    with (
        system_errors(f"the names could not be written to {visible(place)}",
                      code="lists-unwritable"),
        trusted_directory(place, "the directory of lists", owner=owner) as directory,
    ):  # fmt: skip
        owned = os.stat(user_list.name + TEXT_SUFFIX, dir_fd=directory, follow_symlinks=False)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(part, flags, 0o600, dir_fd=directory)
            with os.fdopen(descriptor, "wb") as stream:
                for piece in pieces(loaded.candidates, COLUMNS):
                    rows = piece.filter(uid=user_list.uid)
                    for parent, file in rows.select("parent", "name").iter_rows():
                        stream.write(prefix + parent + (b"/" if parent else b"") + file + b"\0")
                stream.flush()
                os.fsync(stream.fileno())
                os.fchown(stream.fileno(), owned.st_uid, owned.st_gid)
            os.rename(part, name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=directory)
    return place / name


def _fill(
    loaded: LoadedPlan,
    users: Mapping[int, _UserFiles],
    directory: int,
    before: Named | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    import polars as pl

    total, done, waiting_bytes = loaded.plan.candidates.files, 0, 0
    prefix = loaded.plan.file_system.root_prefix
    counted = _Counted([uid for uid, user in users.items() if not user.facts.has_names])
    for piece in pieces(loaded.candidates, COLUMNS):
        known = None if before is None else before.known(piece)
        column = pl.Series("known", known, dtype=pl.Boolean)
        marked = piece.with_columns(
            pl.lit(None, pl.Boolean).alias("known") if known is None else column
        )
        for lines in lines_of(counted.rest_of(marked), prefix):
            user = users.get(lines.uid)
            if user is None:
                raise DataError(
                    f"the candidates include user {lines.uid}, the plan does not",
                    code="candidates-contradictory",
                )
            waiting_bytes += user.add(lines)
            if waiting_bytes > _BUFFER_BYTES:
                waiting_bytes = 0
                for files in users.values():
                    files.flush(directory)
        done += len(piece)
        if progress is not None:
            progress(done, total)
    for lines in counted.lines(prefix):
        users[lines.uid].add(lines)
    for user in users.values():
        user.flush(directory)


def _refuse_closed(directory: Path) -> None:
    """Refuse a directory that users cannot reach, because they could not read their lists."""
    for place in (directory, *directory.parents):
        if not place.stat().st_mode & stat.S_IXOTH:
            raise RefusedError(
                f"users cannot enter {visible(place)}, so they could not read lists below it",
                code="lists-unreachable",
                hint=f"chmod o+x {visible(place)}, or set another directory in [notice]",
            )


def _check(users: Mapping[int, _UserFiles]) -> None:
    for uid, user in users.items():
        if user.files != (planned := user.facts.user.files):
            raise DataError(
                f"the candidates have {user.files} files of user {uid}, the plan {planned}",
                code="candidates-contradictory",
            )


def _written(uid: int, user: _UserFiles) -> UserList:
    account, change = user.account, user.facts.change
    text, lines, names = (digest.hexdigest() for digest in user.hashes)
    return UserList(
        uid=uid,
        account=None if account is None else visible(account.name),
        name=user.facts.name,
        files=user.files,
        new_files=None if change is None else user.new_files,
        gone_files=None if change is None else change.gone,
        text_sha256=text,
        lines_sha256=lines,
        names_sha256=names if user.facts.has_names else "",
    )


@contextlib.contextmanager
def _replacing(name: str, parent: int) -> Iterator[int]:
    """Yield a new private directory that replaces ``name`` on success."""
    _remove_left(f".{name}.", parent)
    part = f".{name}.{secrets.token_hex(6)}"
    os.mkdir(part, 0o700, dir_fd=parent)
    try:
        with opened(part, parent) as descriptor:
            yield descriptor
            os.fchmod(descriptor, 0o711)
            os.fsync(descriptor)
        # Left by an attempt that was never published, so no user relies on it.
        with contextlib.suppress(FileNotFoundError):
            os.rename(name, f"{part}.old", src_dir_fd=parent, dst_dir_fd=parent)
        os.rename(part, name, src_dir_fd=parent, dst_dir_fd=parent)
        os.fsync(parent)
    finally:
        _remove_left(f".{name}.", parent)


def _remove_left(prefix: str, parent: int) -> None:
    """Remove leftovers of an attempt; the parent is root's, and the names include the plan's id."""
    for left in os.listdir(parent):
        if left.startswith(prefix):
            shutil.rmtree(left, ignore_errors=True, dir_fd=parent)
