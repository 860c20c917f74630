"""A plan as values: what will be deleted, its basis, and whom it concerns.

The values are written to ``plan.json`` as declared here: a field that is added, renamed or read in
another way requires another `FORMAT`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, TypeVar

from trimtab.errors import UsageError
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.plan.names import unescape
from trimtab.units import EpochNs, EpochS

FORMAT: Final = 4
"""Unreleased versions wrote those before it."""
QUARANTINE_PREFIX: Final = ".trimtab-purge-"
"""How the core knows quarantines by their names, along with owner and mode."""
HOUR_S: Final = 3600
_QUARANTINE: Final = re.compile(rf"{re.escape(QUARANTINE_PREFIX)}[0-9a-f]{{32}}\Z")
_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
Value = TypeVar("Value")


class Strict:
    """What pydantic reads back with nothing unknown and nothing converted."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


def same_named(kind: type[Value], value: object, **others: object) -> Value:
    """Return a value of a dataclass: ``others``, and of the same name what another value has.

    A field that is in neither has its default.
    """
    names = {field.name for field in fields(kind)} - others.keys()  # type: ignore[arg-type]
    return kind(**{name: getattr(value, name) for name in names if hasattr(value, name)}, **others)


@dataclass(frozen=True, slots=True)
class PlannedFileSystem(Strict):
    """Which file system a plan is for.

    Attributes
    ----------
    kind, name, fsid, uuid, mount, made_ns, root_inode, root_path
        By what it and its root are known again
        (see `trimtab.purge.index.manifest.FileSystemIdentity`); its device number is not among
        them, since it may be another after the next boot.
    root
        Absolute path below which files are deleted; UTF-8.
    """

    kind: str
    name: str | None
    fsid: int | None
    root: str
    uuid: str | None
    mount: str | None
    made_ns: EpochNs | None
    root_inode: int | None
    root_path: str | None

    def __post_init__(self) -> None:
        """Refuse a root that is no absolute path, and a file system that cannot be known again."""
        if not self.root.startswith("/") or not self.root.isprintable():
            raise UsageError(
                f"{self.root!r} is no absolute path of printable characters", code="path-relative"
            )
        if self.name is None and self.fsid is None:
            raise UsageError(
                f"nothing says which file system {self.root} is on", code="file-system-unknown"
            )

    @property
    def identity(self) -> FileSystemIdentity:
        """What a mounted one is held against."""
        return same_named(FileSystemIdentity, self)

    @property
    def root_prefix(self) -> bytes:
        """What goes before a path of the index to make it absolute."""
        return self.root.rstrip("/").encode() + b"/"


@dataclass(frozen=True, slots=True)
class PlannedIndex(Strict):
    """Which index a plan was made from, and how far it can be trusted.

    Attributes
    ----------
    id, sha256
        Of its manifest.
    source
        ``scan``, ``gnu-find`` ...
    started_at, ended_at
        When the metadata were taken; the beginning is not always known. Of an incremental scan
        both are of the oldest rows.
    times
        How far its times can be trusted: ``exact_ns``, ``seconds``, ``mds_only``.
    time_resolution_ns
        Times of the index are multiples of it.
    obstacles
        Why nothing may be deleted by it (it is incomplete, it names no objects); empty: it may.
    atime_settings
        How reads were recorded when the metadata were taken, or where that was not looked at,
        when the plan was made; it must not change until a run.
    sizes
        ``exact`` where every candidate was looked at when the plan was frozen; ``None``: it has the
        sizes of the index.
    """

    id: str
    sha256: str
    source: str
    started_at: datetime | None
    ended_at: datetime
    times: str
    time_resolution_ns: int
    obstacles: tuple[str, ...]
    atime_settings: Mapping[str, str] | None
    sizes: str | None

    @property
    def has_exact_sizes(self) -> bool:
        """Whether a candidate of another size than the listed one was used since."""
        return self.sizes == "exact" or self.times != "mds_only"


@dataclass(frozen=True, slots=True)
class PlannedPolicy(Strict):
    """The policy that a plan was made under, whole.

    Attributes
    ----------
    name
        Of the policy.
    text
        Its file as it was read.
    sha256
        Of the text.
    """

    name: str
    text: str
    sha256: str


@dataclass(frozen=True, slots=True)
class PlannedRules(Strict):
    """Who may be deleted, as `trimtab._core.Rules` takes it.

    Attributes
    ----------
    counted
        Which of ``atime``, ``mtime``, ``ctime`` count; the most recent is the last use.
    as_of_s
        When the metadata were taken, in seconds since 1970: no time is believed to be later.
    old_enough_before_s
        What was used since then is younger than the minimum age.
    minimum_size_bytes
        Smaller files stay.
    exempt_paths
        Relative to the root and escaped (see `trimtab.purge.plan.names`).
    exempt_users, exempt_groups, exempt_projects
        Their numbers.
    linked
        Whether files with several names may go.
    words
        What of this needs a reason, in sentences: why reads do not count, why the minimum age is
        not the policy's.
    """

    counted: tuple[str, ...]
    as_of_s: EpochS
    old_enough_before_s: EpochS
    minimum_size_bytes: int
    exempt_paths: tuple[str, ...]
    exempt_users: tuple[int, ...]
    exempt_groups: tuple[int, ...]
    exempt_projects: tuple[int, ...]
    linked: bool
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse a name of a time that there is not, and no time at all."""
        if not self.counted or not set(self.counted) <= {"atime", "mtime", "ctime"}:
            raise UsageError(
                f"{self.counted!r} are no times that a file's age could count from",
                code="counted-unknown",
            )

    @property
    def exempt_path_bytes(self) -> tuple[bytes, ...]:
        """The exempt paths as they are."""
        return tuple(unescape(path) for path in self.exempt_paths)

    @property
    def reads_count(self) -> bool:
        """Whether reading a file keeps it."""
        return "atime" in self.counted


@dataclass(frozen=True, slots=True)
class PlannedHorizon(Strict):
    """The cut-off and how it came about.

    Attributes
    ----------
    before_s
        Seconds since 1970, a whole hour: candidates were last used before it. Lists go beyond
        the need, so this is younger than ``needed_before_s``.
    needed_before_s
        The cut-off that brings use to the target as things stand now; ``None`` where none does.
    target
        Fullness to come to, used / (used + available).
    used_bytes, available_bytes
        Of the file system when it was computed.
    to_free_bytes
        What the lists are made for: the forecast's upper bound, times the policy's factor.
    words
        How it was computed, in sentences that users are shown.
    """

    before_s: EpochS
    needed_before_s: EpochS | None
    target: float
    used_bytes: int
    available_bytes: int
    to_free_bytes: int
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse what is no cut-off."""
        if self.before_s % HOUR_S:
            raise UsageError(
                f"the cut-off {self.before_s} is not at a whole hour", code="cut-off-malformed"
            )
        if not 0 < self.target <= 1:
            raise UsageError(
                f"the target {self.target} is no fraction of a file system",
                code="value-out-of-range",
            )


@dataclass(frozen=True, slots=True)
class UserTotals(Strict):
    """What of one user stands in a plan.

    Attributes
    ----------
    uid
        The user's number.
    files
        Names; a file with several has as many.
    size_bytes, allocated_bytes
        Their lengths together, and what they take up; of a file with several names once.
    oldest_use_s, newest_use_s
        The first and the last of their last uses, in seconds since 1970.
    held_bytes
        What all files of the user take up, by the index; ``None`` where nobody counted.
    """

    uid: int
    files: int
    size_bytes: int
    allocated_bytes: int
    oldest_use_s: EpochS
    newest_use_s: EpochS
    held_bytes: int | None


@dataclass(frozen=True, slots=True)
class FilePart(Strict):
    """A stretch of ``candidates.parquet`` that is verified by itself.

    Attributes
    ----------
    rows
        Of its row group; 0 of the last part, which is what lies behind the groups: the footer.
    size_bytes
        Its length; it begins where the part before it ends, the first at 0.
    sha256
        Of exactly these bytes.
    """

    rows: int
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        """Refuse what is no stretch of a file."""
        if self.rows < 0 or self.size_bytes < 0 or not _SHA256.match(self.sha256):
            raise UsageError("a part of the candidates is malformed", code="parts-malformed")


@dataclass(frozen=True, slots=True)
class Candidates(Strict):
    """What ``candidates.parquet`` holds.

    Attributes
    ----------
    files
        Its rows.
    size_bytes, allocated_bytes
        Their sums, of a file with several names once.
    sha256
        Of the file.
    users
        Totals by user, in order of the number.
    parts
        The file once more, a part a row group and one for the footer.
    """

    files: int
    size_bytes: int
    allocated_bytes: int
    sha256: str
    users: tuple[UserTotals, ...]
    parts: tuple[FilePart, ...]

    def __post_init__(self) -> None:
        """Refuse rows that no part signs, and a footer that none does."""
        rows = [part.rows for part in self.parts]
        if not rows or rows[-1] or sum(rows) != self.files:
            raise UsageError(
                f"the parts of the candidates have {sum(rows)} rows of {self.files} and the footer",
                code="parts-malformed",
            )


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """What a plan is made of, but for its candidates.

    Attributes
    ----------
    id
        UUIDv7.
    made_at
        When.
    notice_s
        How long it has to stand published.
    valid_s
        How long after that it may be carried out.
    file_system, index, policy, rules, horizon
        What it is bound to and follows from.
    quarantine
        As in `Plan`.
    """

    id: str
    made_at: datetime
    notice_s: int
    valid_s: int
    file_system: PlannedFileSystem
    index: PlannedIndex
    policy: PlannedPolicy
    rules: PlannedRules
    horizon: PlannedHorizon
    quarantine: str


@dataclass(frozen=True, slots=True)
class Plan(Strict):
    """What will be deleted; immutable, as is the directory that holds it.

    Attributes
    ----------
    format
        Of ``plan.json``.
    id
        UUIDv7.
    made_at
        When it was made.
    notice_s
        How long it has to stand published before anything is deleted.
    expires_at
        After it nothing is deleted, however late it was published.
    file_system, index, policy, rules, horizon
        What it is bound to and follows from.
    candidates
        What may be deleted.
    quarantine
        Name of the directory beneath the root where files are put aside; nobody can foresee it, or
        they could take it.
    """

    format: int
    id: str
    made_at: datetime
    notice_s: int
    expires_at: datetime
    file_system: PlannedFileSystem
    index: PlannedIndex
    policy: PlannedPolicy
    rules: PlannedRules
    horizon: PlannedHorizon
    candidates: Candidates
    quarantine: str

    def __post_init__(self) -> None:
        """Refuse a quarantine whose name would not be known as one."""
        if not _QUARANTINE.match(self.quarantine):
            raise UsageError(
                f"{self.quarantine!r} is no name of a quarantine", code="quarantine-malformed"
            )

    @property
    def earliest(self) -> datetime:
        """Before it nothing can be deleted; later, the later it is published."""
        return self.made_at + timedelta(seconds=self.notice_s)

    @property
    def before(self) -> datetime:
        """The cut-off as a time."""
        return datetime.fromtimestamp(self.horizon.before_s, UTC)
