"""A site's purge policy: plain values, read from its policy file.

Every default is the cautious one, with its reason beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Final, Literal

from trimtab.base.error import visible
from trimtab.base.site_policy import MailServer
from trimtab.base.toml_kind import (
    DAY,
    PERCENT,
    SWITCH,
    TEXT,
    ValueKind,
    choice,
    duration,
    listed,
    quoted,
    real,
    shown,
    size,
    table_of,
    whole,
)
from trimtab.base.toml_problem import BadValue
from trimtab.base.toml_schema import Schema, key, table, tables
from trimtab.base.units import format_bytes, format_duration, format_percent, is_digits

DAY_S: Final = 86400
WEEK_S: Final = 7 * DAY_S

TimeName = Literal["atime", "mtime", "ctime"]
Treatment = Literal["keep", "delete"]
ExemptionKind = Literal["path", "user", "group", "project"]
ArmingKind = Literal["delay", "second-person"]

TIMES: Final[tuple[TimeName, ...]] = ("atime", "mtime", "ctime")
"""The rule of [S1, V.A]: the most recent of the three.

Files that arrive with preserved old times (``rsync -a``, ``tar``) are protected by their ctime;
without it they would be deleted at once.
"""


POOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,15}")
"""Name of a pool of OSTs (``LOV_MAXPOOLNAME``), without that of its file system."""


UNLIMITED: Final = "unlimited"
"""Written for no cap: TOML has no null, and an omitted cap has its default."""
_PERIOD_MAX_S: Final = 20 * 366 * DAY_S
_ACCOUNT_FORM: Final = re.compile(r"[^\s:,/\x00-\x1f\x7f-\x9f-][^\s:,/\x00-\x1f\x7f-\x9f]{0,254}")
"""Names possible in passwd(5), including those of directory services (``DOM\\alice``, ``a@b``)."""
_ID_MAX: Final = 2**32 - 2
"""The last number, 2^32 - 1, is -1 to chown(2), which no account has."""


def _period(least_s: float, example: str) -> ValueKind:
    # Whole seconds, because they are compared with the times of files.
    return duration(least_s, _PERIOD_MAX_S, example=example, whole=True, most_text="20 years")


def _days(least_s: float = 0, example: str = "8w") -> ValueKind:
    """Return the kind for periods of days or weeks; ``8m``, eight minutes, is surely a mistake."""
    kind = _period(least_s, example)

    def read(value: object) -> int:
        duration_s = kind.read(value)
        if 0 < duration_s < DAY_S:
            raise BadValue(
                f"{shown(value)} is less than a day; m means minutes",
                code="out-of-range",
                hint='write "56d" or "8w"; months have no fixed length',
            )
        return duration_s

    return replace(kind, read=read)


def _read_counted(value: object) -> tuple[TimeName, ...]:
    names = value if isinstance(value, list) else [None]
    if not names or any(name not in TIMES for name in names) or len(set(names)) != len(names):
        raise BadValue(
            f"{shown(value)} is not a list of times", hint='among "atime", "mtime", "ctime"'
        )
    return tuple(name for name in TIMES if name in names)


def _read_pools(value: object) -> tuple[tuple[str, float], ...]:
    if not isinstance(value, dict) or not value:
        raise BadValue(
            f"{shown(value)} names no pool", hint=f"write target_pool = {_POOLS_EXAMPLE}"
        )
    return tuple(sorted(_LIMITS.read(value).items()))


def _read_account(value: object) -> str | int:
    """Return a name or a number. Digits in quotes are rejected as ambiguous."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _ID_MAX:
        return value
    if not isinstance(value, str) or not _ACCOUNT_FORM.fullmatch(value):
        raise BadValue(
            f"{shown(value)} is neither the name nor the number of an account",
            hint='write user = "alice" or user = 1234',
        )
    if is_digits(value):
        raise BadValue(
            f'"{value}" may be a name or a number',
            code="account-ambiguous",
            hint=f"write {value} without quotes",
        )
    return value


_POOLS_EXAMPLE: Final = '{ flash = "75%" }'
_SECONDS: Final = _period(0, "24h")
_SHARE: Final = PERCENT.or_word(UNLIMITED)
_ID: Final = whole(0, _ID_MAX)
_LIMITS: Final = table_of(PERCENT, _POOLS_EXAMPLE)
_POOLS: Final = replace(
    _LIMITS,
    read=_read_pools,
    write=lambda limits: _LIMITS.write(dict(limits)) if limits else None,
    schema={**_LIMITS.schema, "minProperties": 1},
)
_COUNTED: Final = ValueKind(
    "list of times",
    '["mtime"]',
    _read_counted,
    listed,
    schema={"type": "array", "items": {"enum": list(TIMES)}, "minItems": 1},
)
_TREATMENT: Final = replace(
    SWITCH,
    read=lambda value: "keep" if SWITCH.read(value) else "delete",
    write=lambda value: SWITCH.write(value == "keep"),
)
_ACCOUNT: Final = ValueKind(
    "account",
    '"alice"',
    _read_account,
    lambda who: quoted(who) if isinstance(who, str) else str(who),
    schema={"type": ["integer", "string"], "examples": ["alice", 1234]},
)


@dataclass(frozen=True, slots=True)
class Exemption:
    """Files retained regardless of age.

    Attributes
    ----------
    kind
        ``path``: everything at or under it. Others: everything that belongs to them.
    value
        For a path its bytes relative to the root, without a leading slash, empty for the root
        itself; otherwise the number (uid, gid, project id).
    until
        The last day, in UTC, on which it applies; ``None`` for ever.
    reason
        Why, in the site's words.
    name
        As in the policy file: a full path, or a user's name.
    """

    kind: ExemptionKind
    value: bytes | int
    until: date | None = None
    reason: str = ""
    name: str = ""

    def is_in_force(self, at_s: int) -> bool:
        """Whether it applies at a time, in seconds since 1970: until the end of its last day."""
        return self.until is None or datetime.fromtimestamp(at_s, UTC).date() <= self.until

    @property
    def shown(self) -> str:
        """What it protects as text: ``user alice``."""
        if self.name:
            return f"{self.kind} {visible(self.name)}"
        if isinstance(self.value, bytes):
            return f"path {visible(self.value) or '/'}"
        return f"{self.kind} {self.value}"


@dataclass(frozen=True, slots=True)
class RunCaps:
    """The most that one run may delete; ``None`` for no limit.

    No cap of bytes by default, because the share of the file system scales with its size. Users who
    missed their notice lose a quarter, ask, and keep the rest.
    """

    files: int | None = key(whole(1, 10**15).or_word(UNLIMITED), "Files.", 5_000_000)
    bytes: int | None = key(
        size(most=2**53, whole=True).or_word(UNLIMITED), "Allocated bytes.", None
    )
    user_fraction: float | None = key(_SHARE, "Share of what one user holds.", 0.25, at="user")
    filesystem_fraction: float | None = key(
        _SHARE, "Share of the file system.", 0.05, at="file_system"
    )


@dataclass(frozen=True, slots=True)
class Arming:
    """Condition for a run to delete.

    The delay is the default because it works at every site, even with a single administrator.
    """

    kind: ArmingKind = key(
        choice(("delay", "second-person")),
        "delay: a time to object. second-person: two people.",
        "delay",
    )
    delay_s: int = key(_SECONDS, "The time to object.", DAY_S)


@dataclass(frozen=True, slots=True)
class Guards:
    """Conditions under which a run stops or does not begin.

    The kill switch is not below ``/run``, so it survives a restart. Files used after the scan are
    retained one by one at deletion, but a list full of them is useless to its readers. Candidates
    that grow by ``jump_factor`` in files or bytes are more likely an error of the index or the
    clock than old data. Lustre's ``df`` lags behind deletions: without ``settle_s`` a run would
    delete twice as much.
    """

    allow_list: str = key(
        TEXT, "Root-owned file with the roots that may be purged.", "/etc/trimtab/purge-roots"
    )
    kill_switch: str = key(
        TEXT, "A file that stops every run while it exists.", "/etc/trimtab/purge-stop"
    )
    index_age_max_s: int = key(
        _SECONDS, "The oldest index that a plan is made from.", WEEK_S, at="index_age"
    )
    clock_difference_max_s: int = key(
        _SECONDS, "Tolerated difference of clocks.", 60, at="clock_difference"
    )
    jump_factor: float = key(real(1, 1000), "Largest growth of candidates from plan to plan.", 3.0)
    settle_s: int = key(_SECONDS, "Longest wait for freed space before measuring.", 1800)


@dataclass(frozen=True, slots=True)
class Throttle:
    """How gently a run deletes.

    By latency, not by a rate: a rate that is gentle at night is not gentle while the metadata
    server is busy. Lustre accepts at most 4,096 files per call.
    """

    latency_s: float = key(
        duration(example="50ms"),
        "99th percentile latency of a deletion above which it slows down.",
        0.05,
    )
    batch_files: int = key(
        whole(1, 4096), "The most files between two checks of the kill switch.", 1000
    )
    threads: int = key(whole(1, 256), "Threads of one client.", 2)


@dataclass(frozen=True, slots=True)
class Notices:
    """How users are notified; lists in ``directory`` belong to their users, mode 0600."""

    directory: str | None = key(
        TEXT,
        "Root-owned directory for the users' lists.",
        None,
        example='"/var/spool/trimtab/notices"',
    )
    names_most: int | None = key(
        whole(1, 10**9),
        "Users with more files get counts by directory, not names.",
        None,
        example="100000",
    )
    mail_to: str | None = key(
        TEXT, "Address of a user; {user} is the name.", None, example='"{user}@example.org"'
    )
    mail_map: str | None = key(
        TEXT,
        "File of lines: user, address. Takes precedence over mail_to.",
        None,
        example='"/etc/trimtab/addresses"',
    )
    mail_from: str | None = key(TEXT, "Sender.", None, example='"storage@example.org"')
    contact: str | None = key(
        TEXT,
        "Contact for questions, in a few words.",
        None,
        example='"the help desk, storage@example.org"',
    )
    mail: MailServer = table(MailServer, "Mail server for the notices.")


@dataclass(frozen=True, slots=True)
class ExemptTable:
    """One ``[[exempt]]`` as in the file; `Exemption` is its meaning."""

    path: str | None = key(TEXT, "Full path beneath root, with everything under it.", None)
    path_hex: str | None = key(TEXT, "The path's bytes in hexadecimal, if not UTF-8.", None)
    user: str | int | None = key(_ACCOUNT, "Name or number.", None)
    group: str | int | None = key(_ACCOUNT, "Name or number.", None)
    project: int | None = key(_ID, "Number.", None)
    id: int | None = key(_ID, "Number of the named user or group, to fix it.", None)
    until: date | None = key(DAY, "Last day, in UTC; default: for ever.", None)
    reason: str | None = key(TEXT, "Why.", None)


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy for one root: what may be deleted, when, and how carefully.

    Attributes
    ----------
    root
        Absolute path of the purged directory; an index of another root cannot be used.
    target, target_ost, target_pool
        One of the three is set, pools sorted by name. Candidates are the oldest files on any OST,
        so all three become a target of the whole.
    counted
        Reads count only if the site declares that every class of client records them (see
        `trimtab.purge.rules_in_force`).
    minimum_age_s
        Eight weeks, the policy of NERSC [S1, V.A].
    minimum_size_bytes
        0: no minimum. Small files are many and free little.
    keep_root_files
        Nobody reads notices to root, and quota files belong to root.
    open_files
        An open file is in use whatever its times, which are written at close.
    linked_files
        A file with several names frees nothing until the last one is deleted.
    immutable_files, moved_files
        Only ``keep``: the flag was set on purpose; users were not notified of the new path.
    publish_factor
        Ensures that the lists suffice after files are retained at the last moment.
    forecast_s
        ``None`` for the notice period plus a plan's validity.
    """

    name: str = key(
        TEXT, "Name of the policy: lower-case letters, digits, dashes.", example='"scratch"'
    )
    root: str = key(TEXT, "Full path to purge: a mount or a directory in it.", example='"/scratch"')
    target: float | None = key(
        PERCENT,
        "Target fullness of the whole, used / (used + available).",
        None,
        example='"70%"',
    )
    target_ost: float | None = key(
        PERCENT, "Or: the maximum fullness of any OST.", None, example='"75%"'
    )
    target_pool: tuple[tuple[str, float], ...] = key(
        _POOLS, "Or: pools of OSTs, each with its maximum fullness.", ()
    )
    counted: tuple[TimeName, ...] = key(
        _COUNTED, "Times whose most recent is a file's last use.", TIMES, at="age.counted"
    )
    minimum_age_s: int = key(
        _days(),
        "Younger files are retained; doubled if reads do not count.",
        8 * WEEK_S,
        at="age.minimum",
    )
    minimum_size_bytes: int = key(
        size(0, 2**53, most_text="8 PiB", whole=True),
        "Smaller files are retained.",
        0,
        at="keep.minimum_size",
    )
    exemptions: tuple[Exemption, ...] = tables(
        ExemptTable, "exempt", "What is retained, and until when."
    )
    keep_root_files: bool = key(
        SWITCH,
        "Files of root: nobody reads notices to root.",
        True,
        at="keep.root_files",
    )
    open_files: Treatment = key(_TREATMENT, "Files that are open.", "keep", at="keep.open_files")
    linked_files: Treatment = key(
        _TREATMENT, "Files with other names.", "keep", at="keep.linked_files"
    )
    immutable_files: Treatment = key(
        _TREATMENT, "Files with the immutable flag; only true.", "keep", at="keep.immutable_files"
    )
    moved_files: Treatment = key(
        _TREATMENT, "Files that moved since the lists; only true.", "keep", at="keep.moved_files"
    )
    notice_s: int = key(
        _days(),
        "How long a list is published before files on it are deleted.",
        2 * WEEK_S,
        at="notice.period",
    )
    valid_s: int = key(
        _days(1), "How long after that the plan may be carried out.", 2 * WEEK_S, at="notice.valid"
    )
    publish_factor: float = key(
        real(1, 100),
        "Lists cover this many times the forecast need.",
        2.0,
        at="notice.publish_factor",
    )
    forecast_s: int | None = key(
        _days(1, "7d"),
        "How far growth is forecast; default: period plus valid.",
        None,
        at="notice.forecast",
    )
    caps: RunCaps = table(RunCaps, 'The most that one run deletes; "unlimited" for no cap.')
    arming: Arming = table(Arming, "What a run waits for before it may delete.")
    guards: Guards = table(Guards, "When a run stops or does not begin.")
    throttle: Throttle = table(Throttle, "How gently a run deletes.")
    notices: Notices = table(Notices, "", at="notice")

    @property
    def is_of_osts(self) -> bool:
        """Whether its target is for OSTs or pools, which requires the layout of files."""
        return self.target_ost is not None or bool(self.target_pool)

    def exempt_paths(self, at_s: int) -> set[bytes]:
        """Return the exempt paths in force at a time, in seconds since 1970; relative to root."""
        return {
            exemption.value
            for exemption in self.exemptions
            if isinstance(exemption.value, bytes) and exemption.is_in_force(at_s)
        }

    def exempt_numbers(self, kind: ExemptionKind, at_s: int) -> set[int]:
        """Return the exempt users (root too, by default), groups or projects in force at a time."""
        root = {0} if kind == "user" and self.keep_root_files else set()
        return root | {
            exemption.value
            for exemption in self.exemptions
            if exemption.kind == kind
            and isinstance(exemption.value, int)
            and exemption.is_in_force(at_s)
        }

    @property
    def horizon_ahead_s(self) -> int:
        """How far ahead the lists look, in seconds: a plan made now is used until it expires."""
        return self.notice_s + self.valid_s if self.forecast_s is None else self.forecast_s


SCHEMA: Final = Schema(
    Policy,
    home="policy",
    tables={
        "policy": "What is purged, and to which target.",
        "age": "How the age of a file is determined, and the minimum age.",
        "keep": "What is retained regardless of age.",
        "notice": "How long ahead users are notified, and how.",
        "caps": "",
    },
)
"""Keys and tables of a policy file."""


def loosened(before: Policy, after: Policy, *, at_s: int) -> tuple[str, ...]:
    """Return where ``after`` allows more deletion than ``before``; empty if nowhere.

    A plan is made under one policy and carried out weeks later. Users granted an exemption in the
    meantime need not wait for a new plan: a policy that only retains more may replace the old one.

    Parameters
    ----------
    at_s
        Seconds since 1970; exemptions expired by then are ignored.

    Notes
    -----
    Rules are compared one by one: a policy stricter in one and looser in another is looser. Caps,
    arming, guards and the notice period are compared too, since they limit deletion; mail and
    throttling are not.
    """
    return tuple(_loosened(before, after, at_s))


def _loosened(before: Policy, after: Policy, at_s: int) -> Iterator[str]:
    if before.root != after.root:
        yield f"its root is {visible(after.root)}, not {visible(before.root)}"
    yield from _lower_target(before, after)
    for name in before.counted:
        if name not in after.counted:
            yield f"{name} no longer counts"
    for exemption in before.exemptions:
        if exemption.is_in_force(at_s) and not any(
            _covers(other, exemption) for other in after.exemptions
        ):
            yield f"{exemption.shown} is no longer exempt, or not as long"
    yield from _fewer_kept(before, after)
    yield from _less_time(before, after)
    yield from _looser_limits(before, after)


def _fewer_kept(before: Policy, after: Policy) -> Iterator[str]:
    if after.minimum_size_bytes < before.minimum_size_bytes:
        yield f"the minimum size falls to {format_bytes(after.minimum_size_bytes)}"
    if before.keep_root_files and not after.keep_root_files:
        yield "root's files are no longer retained"
    for noun in ("open", "linked", "immutable", "moved"):
        key = f"{noun}_files"
        if getattr(before, key) == "keep" and getattr(after, key) == "delete":
            yield f"{noun} files are no longer retained"


def _less_time(before: Policy, after: Policy) -> Iterator[str]:
    if after.minimum_age_s < before.minimum_age_s:
        yield (
            f"the minimum age falls from {format_duration(before.minimum_age_s)} "
            f"to {format_duration(after.minimum_age_s)}"
        )
    if after.notice_s < before.notice_s:
        yield f"the notice period falls to {format_duration(after.notice_s)}"
    if after.valid_s > before.valid_s:
        yield f"a plan is valid for {format_duration(after.valid_s)}"


def _lower_target(before: Policy, after: Policy) -> Iterator[str]:
    of_pools = dict(before.target_pool)
    for noun, old, new in (
        ("target", before.target, after.target),
        ("target_ost", before.target_ost, after.target_ost),
        *(
            (f"target_pool of {visible(pool)}", of_pools.get(pool), limit)
            for pool, limit in after.target_pool
        ),
    ):
        if new is not None and (old is None or new < old):
            was = "" if old is None else f" from {format_percent(old)}"
            yield f"{noun} falls{was} to {format_percent(new)}"


def _looser_limits(before: Policy, after: Policy) -> Iterator[str]:
    for noun in ("files", "bytes", "user_fraction", "filesystem_fraction"):
        old, new = getattr(before.caps, noun), getattr(after.caps, noun)
        if old is not None and (new is None or new > old):
            yield f"the cap of {noun} per run rises"
    if before.arming.kind != after.arming.kind or after.arming.delay_s < before.arming.delay_s:
        yield "arming differs, or its delay is shorter"
    for noun in ("index_age_max_s", "clock_difference_max_s", "jump_factor"):
        if getattr(after.guards, noun) > getattr(before.guards, noun):
            yield f"the guard {noun} is looser"
    if after.guards.settle_s < before.guards.settle_s:
        yield "the wait for destroyed objects is shorter"
    for noun in ("allow_list", "kill_switch"):
        if getattr(after.guards, noun) != getattr(before.guards, noun):
            yield f"{noun} names another file"


def _covers(other: Exemption, exemption: Exemption) -> bool:
    """Whether ``other`` protects everything that ``exemption`` does, for as long."""
    if other.kind != exemption.kind:
        return False
    if other.until is not None and (exemption.until is None or other.until < exemption.until):
        return False
    if isinstance(exemption.value, bytes) and isinstance(other.value, bytes):
        return is_at_or_under(exemption.value, other.value)
    return exemption.value == other.value


def is_at_or_under(path: bytes, top: bytes) -> bool:
    """Whether a path relative to the root is ``top`` or under it; empty is the root.

    Examples
    --------
    >>> is_at_or_under(b"home/a", b"home"), is_at_or_under(b"homes", b"home")
    (True, False)
    """
    return not top or path == top or path.startswith(top + b"/")
