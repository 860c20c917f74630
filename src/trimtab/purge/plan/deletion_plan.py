"""A plan as values: what will be deleted, on what basis, and whose files.

The values are written to ``plan.json`` as declared here: a field that is added, renamed or
interpreted differently requires another `FORMAT`. File names are arbitrary bytes and are written as
reversible text (`escape`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, TypeVar

from trimtab.base.encode import shape
from trimtab.base.error import DataError, UsageError, visible
from trimtab.base.units import EpochNs, EpochS
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.owner import USER_NAME

PLAIN: Final = re.compile(rb"[!-\[\]-~](?:[ -\[\]-~]*[!-\[\]-~])?\Z|\Z")
"""Names that need no escaping: printable ASCII without backslash, no space at either end."""

_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_NAMED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}
_BYTES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\"}
_ESCAPE: Final = re.compile(r"\\(?:([ntr\\])|x([0-9a-f]{2}))")
_SHOWN_MAX: Final = 200


def escape(name: bytes) -> str:
    r"""Return a name as visible text on one line; `unescape` restores the bytes.

    Printable characters other than the backslash are unchanged. The rest becomes ``\\``, ``\n``,
    ``\t``, ``\r`` or, byte by byte, ``\xHH``: control characters, bytes that are not UTF-8,
    characters that are invisible or change the writing direction, all spaces other than the
    ordinary one, and that one at either end. ``printf '%b' TEXT`` in bash reverses it.

    `trimtab.base.error` is for display only; its escapes of non-ASCII characters (``\u202e``) do
    not preserve the bytes.

    Examples
    --------
    >>> print(escape(b"a\nb\xff \\ \xe2\x80\xae"))
    a\nb\xff \\ \xe2\x80\xae
    >>> print(escape("Übung 1".encode()), escape(b" x "))
    Übung 1 \x20x\x20
    """
    if PLAIN.match(name):
        return name.decode("ascii")
    text = name.decode("utf-8", "surrogateescape")
    last = len(text) - 1
    return "".join(
        _shown(character, at_edge=place in (0, last)) for place, character in enumerate(text)
    )


def unescape(text: str) -> bytes:
    r"""Return the bytes of an escaped name.

    Raises
    ------
    DataError
        Invalid escape: `escape` did not write this text.

    Examples
    --------
    >>> unescape(r"a\nb\xff\\")
    b'a\nb\xff\\'
    """
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(_literal(text[end : match.start()], text))
        named, code = match.groups()
        parts.append(_BYTES[named] if named else bytes([int(code, 16)]))
        end = match.end()
    parts.append(_literal(text[end:], text))
    return b"".join(parts)


def _shown(character: str, *, at_edge: bool) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character == " ":
        return "\\x20" if at_edge else " "
    if unicodedata.category(character) not in _UNSHOWN:
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _literal(part: str, whole: str) -> bytes:
    if "\\" not in part:
        try:
            return part.encode("utf-8")
        except UnicodeEncodeError:
            pass
    raise DataError(
        f"{visible(whole[:_SHOWN_MAX])!r} is not an escaped name",
        code="escape-malformed",
        hint="write a backslash in a name as two, other bytes as \\xHH",
    )


FORMAT: Final = 4
"""Unreleased versions wrote earlier ones."""
QUARANTINE_PREFIX: Final = ".trimtab-purge-"
"""Prefix by which the core recognises quarantines, along with owner and mode."""
HOUR_S: Final = 3600
_QUARANTINE: Final = re.compile(rf"{re.escape(QUARANTINE_PREFIX)}[0-9a-f]{{32}}\Z")
_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
Value = TypeVar("Value")


class Strict:
    """Base for values that pydantic reads without unknown fields or conversions."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


def same_named(kind: type[Value], value: object, **others: object) -> Value:
    """Return a value of a dataclass from ``others`` and the equally named fields of another value.

    A field in neither has its default.
    """
    names = {field.name for field in fields(kind)} - others.keys()  # type: ignore[arg-type]
    return kind(**{name: getattr(value, name) for name in names if hasattr(value, name)}, **others)


@dataclass(frozen=True, slots=True)
class PlannedFileSystem(Strict):
    """The file system of a plan.

    Attributes
    ----------
    kind, name, fsid, uuid, mount, made_ns, root_inode, root_path
        Properties that identify it and its root (see
        `trimtab.purge.index.manifest.FileSystemIdentity`), without the device number, which may
        change at the next boot.
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
        """Reject a root that is not an absolute path, and an unidentified file system."""
        if not self.root.startswith("/") or not self.root.isprintable():
            raise UsageError(
                f"{self.root!r} is not an absolute path of printable characters",
                code="path-relative",
            )
        if self.name is None and self.fsid is None:
            raise UsageError(
                f"the file system of {self.root} is unknown", code="file-system-unknown"
            )

    @property
    def identity(self) -> FileSystemIdentity:
        """Identity for comparison with a mounted file system."""
        return same_named(FileSystemIdentity, self)

    @property
    def root_prefix(self) -> bytes:
        """Prefix that makes a path of the index absolute."""
        return self.root.rstrip("/").encode() + b"/"


@dataclass(frozen=True, slots=True)
class PlannedIndex(Strict):
    """The index of a plan, and how far to trust it.

    Attributes
    ----------
    id, sha256
        Identifier and hash of its manifest.
    source
        ``scan``, ``gnu-find`` ...
    started_at, ended_at
        Start and end of the scan; the start is not always known. After an incremental scan both are
        those of the oldest rows.
    times
        Reliability of its times: ``exact_ns``, ``seconds``, ``mds_only``.
    time_resolution_ns
        Resolution of its times.
    obstacles
        Why it must not be used for deletion (incomplete, no identities); empty if it may.
    atime_settings
        How reads were recorded at the scan, or, if not checked then, when the plan was made; it
        must not change before a run.
    sizes
        ``exact`` if the size of every candidate was read when the plan was frozen; ``None`` if
        sizes are those of the index.
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
        """Whether a size other than the listed one shows that a candidate was used since."""
        return self.sizes == "exact" or self.times != "mds_only"


@dataclass(frozen=True, slots=True)
class PlannedPolicy(Strict):
    """The complete policy of a plan.

    Attributes
    ----------
    name
        Name of the policy.
    text
        Text of its file.
    sha256
        Hash of the text.
    """

    name: str
    text: str
    sha256: str


@dataclass(frozen=True, slots=True)
class PlannedRules(Strict):
    """Which files may be deleted, in the form of `trimtab._core.Rules`.

    Attributes
    ----------
    counted
        Which of ``atime``, ``mtime``, ``ctime`` count; the most recent is the last use.
    as_of_s
        End of the scan, in seconds since 1970; later times are not trusted.
    old_enough_before_s
        Files used since then are younger than the minimum age.
    minimum_size_bytes
        Smaller files are retained.
    exempt_paths
        Relative to the root and escaped (see `trimtab.purge.plan.deletion_plan`).
    exempt_users, exempt_groups, exempt_projects
        Their numbers.
    linked
        Whether files with several names may be deleted.
    words
        Explanations for users, one sentence each: why reads do not count, why the minimum age
        differs from the policy's.
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
        """Reject an unknown time, or none."""
        if not self.counted or not set(self.counted) <= {"atime", "mtime", "ctime"}:
            raise UsageError(
                f"{self.counted!r} is not a set of times for a file's age",
                code="counted-unknown",
            )

    @property
    def exempt_path_bytes(self) -> tuple[bytes, ...]:
        """The exempt paths in bytes."""
        return tuple(unescape(path) for path in self.exempt_paths)

    @property
    def reads_count(self) -> bool:
        """Whether reading a file extends its life."""
        return "atime" in self.counted


@dataclass(frozen=True, slots=True)
class PlannedHorizon(Strict):
    """The cut-off and how it was found.

    Attributes
    ----------
    before_s
        Cut-off in seconds since 1970, a whole hour: candidates were last used before it. Lists
        exceed the need, so it is later than ``needed_before_s``.
    needed_before_s
        Cut-off that brings present usage to the target; ``None`` if none does.
    target
        Target fullness, used / (used + available).
    used_bytes, available_bytes
        Usage of the file system at that time.
    to_free_bytes
        Bytes that the lists cover: the upper bound of the forecast times the policy's factor.
    words
        How it was computed, as sentences for users.
    """

    before_s: EpochS
    needed_before_s: EpochS | None
    target: float
    used_bytes: int
    available_bytes: int
    to_free_bytes: int
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        """Reject an invalid cut-off or target."""
        if self.before_s % HOUR_S:
            raise UsageError(
                f"the cut-off {self.before_s} is not at a whole hour", code="cut-off-malformed"
            )
        if not 0 < self.target <= 1:
            raise UsageError(
                f"the target {self.target} is not a fraction of a file system",
                code="value-out-of-range",
            )


@dataclass(frozen=True, slots=True)
class UserTotals(Strict):
    """Totals of one user in a plan.

    Attributes
    ----------
    uid
        The user's number.
    files
        Number of names; a file with several counts once for each.
    size_bytes, allocated_bytes
        Sum of lengths and of allocated bytes; a file with several names counts once.
    oldest_use_s, newest_use_s
        Earliest and latest last use, in seconds since 1970.
    held_bytes
        Allocated bytes of all the user's files in the index; ``None`` if not counted.
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
    """A part of ``candidates.parquet`` that is verified on its own.

    Attributes
    ----------
    rows
        Rows of its row group; 0 for the last part, the footer after the groups.
    size_bytes
        Its length; it starts where the previous part ends, the first at 0.
    sha256
        Hash of exactly these bytes.
    """

    rows: int
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        """Reject a malformed part."""
        if self.rows < 0 or self.size_bytes < 0 or not _SHA256.match(self.sha256):
            raise UsageError("a part of the candidates is malformed", code="parts-malformed")


@dataclass(frozen=True, slots=True)
class Candidates(Strict):
    """Contents of ``candidates.parquet``.

    Attributes
    ----------
    files
        Number of rows.
    size_bytes, allocated_bytes
        Sums of lengths and of allocated bytes; a file with several names counts once.
    sha256
        Hash of the file.
    users
        Totals by user, in order of uid.
    parts
        The parts of the file: one per row group, then the footer.
    """

    files: int
    size_bytes: int
    allocated_bytes: int
    sha256: str
    users: tuple[UserTotals, ...]
    parts: tuple[FilePart, ...]

    def __post_init__(self) -> None:
        """Reject parts that do not cover all rows and the footer."""
        rows = [part.rows for part in self.parts]
        if not rows or rows[-1] or sum(rows) != self.files:
            raise UsageError(
                f"the parts of the candidates do not cover the footer and {self.files} rows: "
                f"{sum(rows)} rows",
                code="parts-malformed",
            )


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan without its candidates.

    Attributes
    ----------
    id
        UUIDv7.
    made_at
        When it was made.
    notice_s
        Time that it must be published.
    valid_s
        Time after that in which it may be carried out.
    file_system, index, policy, rules, horizon
        Its bindings and basis.
    quarantine
        As in `DeletionPlan`.
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
class DeletionPlan(Strict):
    """A plan of what will be deleted; immutable, as is its directory.

    Attributes
    ----------
    format
        Format of ``plan.json``.
    id
        UUIDv7.
    made_at
        When it was made.
    notice_s
        Time that it must be published before anything is deleted.
    expires_at
        Nothing is deleted after this, however late it was published.
    file_system, index, policy, rules, horizon
        Its bindings and basis.
    candidates
        What may be deleted.
    quarantine
        Name of the directory beneath the root where files are set aside; unpredictable, so that
        no one else can create it first.
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
        """Reject a name that the core would not recognise as a quarantine."""
        if not _QUARANTINE.match(self.quarantine):
            raise UsageError(
                f"{self.quarantine!r} is not a quarantine name", code="quarantine-malformed"
            )

    @property
    def earliest(self) -> datetime:
        """Nothing can be deleted before this time; late publication moves it."""
        return self.made_at + timedelta(seconds=self.notice_s)

    @property
    def before(self) -> datetime:
        """The cut-off as a time."""
        return datetime.fromtimestamp(self.horizon.before_s, UTC)


shape(UserTotals, derive={"name": USER_NAME})
shape(PlannedRules, omit=["exempt_paths", "exempt_users", "exempt_groups", "exempt_projects"])
shape(
    DeletionPlan,
    omit=["format", "id", "quarantine"],
    inline={"candidates": ("files", "size_bytes", "allocated_bytes", "users")},
    derive={
        "plan": "id",
        "policy": "policy.name",
        "policy_sha256": "policy.sha256",
        "earliest": "earliest",
    },
)
