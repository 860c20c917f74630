"""What a site has decided about purging: plain values, read from its policy file.

Every default is the careful one, with its reason beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final, Literal

from trimtab.units import format_bytes, format_duration, format_percent
from trimtab.visible import visible

DAY_S: Final = 86400
WEEK_S: Final = 7 * DAY_S

TimeName = Literal["atime", "mtime", "ctime"]
Treatment = Literal["keep", "delete"]
ExemptionKind = Literal["path", "user", "group", "project"]
ArmingKind = Literal["delay", "second-person"]

TIMES: Final[tuple[TimeName, ...]] = ("atime", "mtime", "ctime")
"""The seeds' rule: the most recent of the three. Files that arrive with their old times kept
(``rsync -a``, ``tar``) live by their ctime; without it they would go at once."""


POOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,15}")
"""Of a pool of OSTs (``LOV_MAXPOOLNAME``), without the name of its file system."""


@dataclass(frozen=True, slots=True)
class Exemption:
    """What stays, whatever its age.

    Attributes
    ----------
    kind
        ``path``: what lies at or under it. The others: what belongs to them.
    value
        Of a path its bytes relative to the root, without a leading slash, empty for the root
        itself; of the others the number (uid, gid, project id).
    until
        The last day, in UTC, on which it holds; ``None``: for ever.
    reason
        Why, in the site's words.
    name
        As the policy file has it: a path in full, a user's name.
    """

    kind: ExemptionKind
    value: bytes | int
    until: date | None = None
    reason: str = ""
    name: str = ""

    def is_in_force(self, at_s: int) -> bool:
        """Whether it holds at a time, in seconds since 1970: to the end of its last day."""
        return self.until is None or datetime.fromtimestamp(at_s, UTC).date() <= self.until

    @property
    def shown(self) -> str:
        """Whom or what it keeps, in words: ``user alice``."""
        if self.name:
            return f"{self.kind} {visible(self.name)}"
        if isinstance(self.value, bytes):
            return f"path {visible(self.value.decode('utf-8', 'surrogateescape')) or '/'}"
        return f"{self.kind} {self.value}"


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that one run may delete; ``None`` is no limit.

    Attributes
    ----------
    files
        A day's run of an ordinary site stays under it; a mistake in the policy does not.
    bytes
        Allocated bytes; none by default, since the share of the file system says the same of
        every size.
    user_fraction
        Of what one user holds, in allocated bytes: beyond it that user's files wait for the next
        plan, the others go on. Whoever was told and did not look loses a quarter, asks, and keeps
        the rest.
    filesystem_fraction
        Of the file system's bytes, used and available together.
    """

    files: int | None = 5_000_000
    bytes: int | None = None
    user_fraction: float | None = 0.25
    filesystem_fraction: float | None = 0.05


@dataclass(frozen=True, slots=True)
class Arming:
    """What has to happen before a run may delete.

    Attributes
    ----------
    kind
        ``delay``: a person arms the plan and everybody has ``delay_s`` to object;
        ``second-person``: two different people arm it. The delay is the default because every
        site can keep to it, also one with a single administrator.
    """

    kind: ArmingKind = "delay"
    delay_s: int = DAY_S


@dataclass(frozen=True, slots=True)
class Guards:
    """When a run stops or does not begin.

    Attributes
    ----------
    allow_list
        File of root's that names the roots, one a line, that may be purged at all: a policy for
        the wrong path deletes nothing.
    kill_switch
        File whose presence stops a run before its next batch; not below ``/run``, so that it
        outlives a restart.
    index_age_max_s
        The oldest index that a plan is made from: what was used since is kept one by one at
        deletion, but a list full of such files tells its readers nothing.
    clock_difference_max_s
        By how much clocks may disagree: ages are differences of two machines' clocks.
    jump_factor
        Candidates may grow by this factor against the last plan, in files and in bytes: more is
        more likely a mistake of the index or of the clock than old data.
    settle_s
        The longest wait for objects to be destroyed before use is measured again: Lustre's
        ``df`` lags behind a deletion, and who does not wait deletes twice as much.
    """

    allow_list: str = "/etc/trimtab/purge-roots"
    kill_switch: str = "/etc/trimtab/purge-stop"
    index_age_max_s: int = WEEK_S
    clock_difference_max_s: int = 60
    jump_factor: float = 3.0
    settle_s: int = 1800


@dataclass(frozen=True, slots=True)
class Throttle:
    """How gently a run deletes.

    Attributes
    ----------
    latency_s
        Of one deletion with its checks, at the 99th percentile of a batch: above it a run does
        less at a time. By latency and not by a rate: a rate that is gentle at night is not when
        the metadata server is busy.
    batch_files
        The most files between two looks at the kill switch; Lustre takes 4,096 in one call.
    threads
        Of one client.
    """

    latency_s: float = 0.05
    batch_files: int = 1000
    threads: int = 2


@dataclass(frozen=True, slots=True)
class Notices:
    """How users are told.

    Attributes
    ----------
    directory
        Of root's, where each user's list is put, his and 0600; ``None``: not on this host.
    mail_to
        Address of a user, ``{user}`` being the name; ``None``: no mail.
    mail_map
        File of ``user address`` lines that goes before ``mail_to``.
    mail_from
        Sender and where answers go.
    smtp_host, smtp_port
        What takes the mail.
    contact
        Whom to ask for an exemption, in the site's words.
    """

    directory: str | None = None
    mail_to: str | None = None
    mail_map: str | None = None
    mail_from: str | None = None
    smtp_host: str = "localhost"
    smtp_port: int = 25
    contact: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be deleted from one root, when, and how carefully.

    Attributes
    ----------
    name
        Small letters, digits and dashes.
    root
        Absolute path of what is purged; an index of another root does not serve.
    target
        Fullness of the whole, used / (used + available), to come to.
    target_ost
        Fullness that no OST is to be above.
    target_pool
        Names of pools, each with the fullness that its OSTs together are not to be above; sorted.
        One of the three is set. What goes is what is old wherever it lies, so all three end as a
        target of the whole.
    counted
        Times whose most recent is a file's last use. Reads count only where the site declares
        that every class of client records them (see `trimtab.purge.rules`).
    minimum_age_s
        Younger files stay whatever the horizon: eight weeks, as users of the seeds' site are
        told. It doubles where reads do not count.
    minimum_size_bytes
        Smaller files stay; 0: size does not matter. Small files free little and are many.
    exemptions
        What stays whatever its age.
    keep_root_files
        Whether root's own files stay: nobody reads the notice that is sent to root, and quota
        files, ``lost+found`` and the like are root's.
    open_files
        A file that somebody has open is in use whatever its times say: they are written at close.
    linked_files
        A file with other names frees nothing until the last one goes.
    immutable_files, moved_files
        Only ``keep``: the one carries a flag that somebody set on purpose, of the other's present
        path nobody was told.
    notice_s
        How long a plan stands published before anything of it is deleted.
    valid_s
        How long after the notice period it may be carried out; then a new one is due.
    publish_factor
        Lists name this many times what the forecast's upper bound asks for, so that a run finds
        enough on them after everything that is kept at the last moment.
    forecast_s
        How far ahead growth is forecast for the lists; ``None``: as long as the notice period
        and a plan's validity.
    """

    name: str
    root: str
    target: float | None = None
    target_ost: float | None = None
    target_pool: tuple[tuple[str, float], ...] = ()
    counted: tuple[TimeName, ...] = TIMES
    minimum_age_s: int = 8 * WEEK_S
    minimum_size_bytes: int = 0
    exemptions: tuple[Exemption, ...] = ()
    keep_root_files: bool = True
    open_files: Treatment = "keep"
    linked_files: Treatment = "keep"
    immutable_files: Treatment = "keep"
    moved_files: Treatment = "keep"
    notice_s: int = 2 * WEEK_S
    valid_s: int = 2 * WEEK_S
    publish_factor: float = 2.0
    forecast_s: int | None = None
    caps: Caps = field(default_factory=Caps)
    arming: Arming = field(default_factory=Arming)
    guards: Guards = field(default_factory=Guards)
    throttle: Throttle = field(default_factory=Throttle)
    notices: Notices = field(default_factory=Notices)

    @property
    def is_of_osts(self) -> bool:
        """Whether its target is one of single OSTs or pools, which takes the layout of files."""
        return self.target_ost is not None or bool(self.target_pool)

    @property
    def horizon_ahead_s(self) -> int:
        """How far ahead the lists look: a plan made now is used until it expires."""
        return self.notice_s + self.valid_s if self.forecast_s is None else self.forecast_s


def loosened(before: Policy, after: Policy, *, at_s: int) -> tuple[str, ...]:
    """Return what ``after`` allows to be deleted that ``before`` did not; empty: nothing.

    A plan is made under one policy and carried out weeks later. Who was granted an exemption
    meanwhile need not wait for a new plan: a policy that only keeps more may take its place.

    Parameters
    ----------
    at_s
        Seconds since 1970; exemptions that have expired by then kept nothing any more.

    Notes
    -----
    Judged rule by rule, each by itself: a policy that is stricter in one thing and looser in
    another is looser. Caps, arming, guards and the notice period are compared too, since they hold
    deletions back; to whom mail goes and how gently a run deletes are not.
    """
    return tuple(_loosened(before, after, at_s))


def _loosened(before: Policy, after: Policy, at_s: int) -> Iterator[str]:
    if before.root != after.root:
        yield f"it is of {visible(after.root)}, not of {visible(before.root)}"
    yield from _lower_target(before, after)
    for name in before.counted:
        if name not in after.counted:
            yield f"{name} does not count any more"
    for one in before.exemptions:
        if one.is_in_force(at_s) and not any(_covers(other, one) for other in after.exemptions):
            yield f"{one.shown} is exempt no more, or not as long"
    yield from _fewer_kept(before, after)
    yield from _less_time(before, after)
    yield from _looser_limits(before, after)


def _fewer_kept(before: Policy, after: Policy) -> Iterator[str]:
    if after.minimum_size_bytes < before.minimum_size_bytes:
        yield f"the minimum size falls to {format_bytes(after.minimum_size_bytes)}"
    if before.keep_root_files and not after.keep_root_files:
        yield "root's files are not kept any more"
    for noun in ("open", "linked", "immutable", "moved"):
        key = f"{noun}_files"
        if getattr(before, key) == "keep" and getattr(after, key) == "delete":
            yield f"{noun} files are not kept any more"


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
    for noun, old, new in (
        ("target", before.target, after.target),
        ("target_ost", before.target_ost, after.target_ost),
    ):
        if new is not None and (old is None or new < old):
            was = "" if old is None else f" from {format_percent(old)}"
            yield f"{noun} falls{was} to {format_percent(new)}"
    old_limits = dict(before.target_pool)
    for pool, limit in after.target_pool:
        old = old_limits.get(pool)
        if old is None or limit < old:
            was = "" if old is None else f" from {format_percent(old)}"
            yield f"target_pool of {visible(pool)} falls{was} to {format_percent(limit)}"


def _looser_limits(before: Policy, after: Policy) -> Iterator[str]:
    for noun in ("files", "bytes", "user_fraction", "filesystem_fraction"):
        old, new = getattr(before.caps, noun), getattr(after.caps, noun)
        if old is not None and (new is None or new > old):
            yield f"the cap of {noun} of a run rises"
    if before.arming.kind != after.arming.kind or after.arming.delay_s < before.arming.delay_s:
        yield "arming is another, or its delay shorter"
    for noun in ("index_age_max_s", "clock_difference_max_s", "jump_factor"):
        if getattr(after.guards, noun) > getattr(before.guards, noun):
            yield f"the guard {noun} is looser"
    if after.guards.settle_s < before.guards.settle_s:
        yield "the wait for objects to be destroyed is shorter"
    for noun in ("allow_list", "kill_switch"):
        if getattr(after.guards, noun) != getattr(before.guards, noun):
            yield f"{noun} is another file"


def _covers(other: Exemption, one: Exemption) -> bool:
    """Whether ``other`` keeps everything that ``one`` keeps, for as long."""
    if other.kind != one.kind:
        return False
    if other.until is not None and (one.until is None or other.until < one.until):
        return False
    if isinstance(one.value, bytes) and isinstance(other.value, bytes):
        return is_at_or_under(one.value, other.value)
    return one.value == other.value


def is_at_or_under(path: bytes, top: bytes) -> bool:
    """Whether a path relative to the root is ``top`` or lies under it; empty is the root.

    Examples
    --------
    >>> is_at_or_under(b"home/a", b"home"), is_at_or_under(b"homes", b"home")
    (True, False)
    """
    return not top or path == top or path.startswith(top + b"/")
