"""Derive the rules in force from a policy and an index, with their reasons as sentences.

Pure. The rules are applied in one place, `trimtab._core.Rules`, which the curve, the selection of
candidates and the last check before a deletion share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trimtab.base.encode import mapped, shape
from trimtab.base.error import RefusedError, UsageError, visible
from trimtab.base.units import EpochS, Since1970, format_bytes, format_duration, plural
from trimtab.purge.index.manifest import Lack, Manifest, TimeTrust
from trimtab.purge.purge_policy import TIMES, Exemption, Policy, TimeName

if TYPE_CHECKING:
    from trimtab._core import Rules

HOUR_S: Final = 3600
_LACKS: Final[dict[TimeName, Lack]] = {
    "atime": Lack.ACCESS,
    "mtime": Lack.MODIFICATION,
    "ctime": Lack.CHANGE,
}
_NAMES: Final = {
    "atime": "read",
    "mtime": "written",
    "ctime": "changed (renamed, its owner, rights or links)",
}


@dataclass(frozen=True, slots=True)
class ReadRecording:
    """Whether reads update the access time on every class of client.

    Attributes
    ----------
    declared
        The site file declares that every class of client records reads.
    unrecorded
        Classes of clients on which reading a canary did not update its atime.
    unchecked
        Classes that could not be checked; an unchecked declaration does not count.
    """

    declared: bool = False
    unrecorded: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether a read extends a file's life."""
        return self.declared and not self.unrecorded and not self.unchecked

    @property
    def reason(self) -> str:
        """Why reads count or not, in words."""
        if not self.declared:
            return "the site does not declare that every class of client records reads"
        if self.unrecorded:
            return f"reads through {_listed(self.unrecorded)} are not recorded"
        if self.unchecked:
            return f"it could not be checked whether {_listed(self.unchecked)} record reads"
        return "every class of client records reads"


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """Values for `trimtab._core.Rules`, and explanations for readers.

    Attributes
    ----------
    counted
        Times whose most recent is a file's last use.
    as_of_s
        End of the scan, in seconds since 1970.
    old_enough_before_s
        Files last used before this reach the minimum age, whatever the horizon: a whole hour, UTC.
    minimum_size_bytes
        Smaller files are retained.
    exempt_paths
        Relative to the root; sorted, like the numbers.
    exempt_users, exempt_groups, exempt_projects
        Numbers.
    linked
        Whether files with other names may be deleted.
    minimum_age_s
        Effective minimum age: twice the policy's if reads do not count.
    reads_count
        Whether a read extends a file's life.
    exemptions, expired
        Exemptions in force, and those past their last day.
    words
        Sentences for plans, notices and reports.
    """

    counted: tuple[TimeName, ...]
    as_of_s: EpochS
    old_enough_before_s: EpochS
    minimum_size_bytes: int
    exempt_paths: tuple[bytes, ...]
    exempt_users: tuple[int, ...]
    exempt_groups: tuple[int, ...]
    exempt_projects: tuple[int, ...]
    linked: bool
    minimum_age_s: int
    reads_count: bool
    exemptions: tuple[Exemption, ...] = ()
    expired: tuple[Exemption, ...] = ()
    words: tuple[str, ...] = ()

    def core(self) -> Rules:
        """Return the rules in the form that the core applies."""
        from trimtab._core import Rules

        return Rules(
            counted=self.counted,
            as_of_s=self.as_of_s,
            old_enough_before_s=self.old_enough_before_s,
            minimum_size_bytes=self.minimum_size_bytes,
            exempt_paths=self.exempt_paths,
            exempt_users=self.exempt_users,
            exempt_groups=self.exempt_groups,
            exempt_projects=self.exempt_projects,
            linked=self.linked,
        )


def rules_in_force(
    policy: Policy, index: Manifest, reads: ReadRecording, *, now_s: int,
    quarantines: Sequence[bytes] = (),
) -> RulesInForce:  # fmt: skip
    """Return the rules that a policy implies, for one index and time.

    Parameters
    ----------
    policy, index
        The policy, and what its rules need from the index; both of the same root.
    reads
        Whether every class of client records reads.
    now_s
        Current time, in seconds since 1970.
    quarantines
        Exempt directories of the root, where files of plans wait for an administrator.

    Raises
    ------
    UsageError
        The index is of another root, lacks a time that counts, or is from the future.
    RefusedError
        No time would be left to determine a file's age.

    Notes
    -----
    If reads do not count, because they are not recorded everywhere or the policy excludes them, the
    minimum age doubles. Users cannot follow a rule under which only some reads count, so no such
    promise is made, and the age compensates for it. Ages are counted back from the end of the scan,
    not from now: later use is unknown, and an index may be days old.
    """
    _require_root(policy, index)
    if index.as_of_s > now_s + policy.guards.clock_difference_max_s:
        raise UsageError(
            f"the index ends at {moment(index.as_of_s)}, later than now, {moment(now_s)}",
            code="clocks-disagree",
            hint="clocks disagree: correct them and scan again",
        )
    counted: tuple[TimeName, ...] = tuple(
        name for name in TIMES if name in policy.counted and (name != "atime" or reads.counts)
    )
    if not counted:
        raise RefusedError(
            f"only reads count for the age of a file, but {reads.reason}",
            code="reads-only",
            hint='[age] counted = ["atime", "mtime", "ctime"]',
        )
    _require_columns(policy, index, counted, now_s)
    minimum_age_s = policy.minimum_age_s * (1 if "atime" in counted else 2)
    as_of_s = min(index.as_of_s, now_s)
    in_force = tuple(exemption for exemption in policy.exemptions if exemption.is_in_force(now_s))
    rules = RulesInForce(
        counted=counted,
        as_of_s=as_of_s,
        old_enough_before_s=(as_of_s - minimum_age_s) // HOUR_S * HOUR_S,
        minimum_size_bytes=policy.minimum_size_bytes,
        exempt_paths=tuple(sorted({*policy.exempt_paths(now_s), *quarantines})),
        exempt_users=tuple(sorted(policy.exempt_numbers("user", now_s))),
        exempt_groups=tuple(sorted(policy.exempt_numbers("group", now_s))),
        exempt_projects=tuple(sorted(policy.exempt_numbers("project", now_s))),
        linked=policy.linked_files == "delete",
        minimum_age_s=minimum_age_s,
        reads_count="atime" in counted,
        exemptions=in_force,
        expired=tuple(exemption for exemption in policy.exemptions if exemption not in in_force),
    )
    return replace(rules, words=tuple(_words(rules, policy, index, reads)))


def moment(at_s: int) -> str:
    """Return a time in seconds since 1970 as text in UTC; files may have times beyond any calendar.

    Examples
    --------
    >>> moment(0), moment(2**60)
    ('1970-01-01 00:00 UTC', 'beyond the year 9999')
    """
    if (at := Since1970(1).time(at_s)) is not None:
        return f"{at:%Y-%m-%d %H:%M UTC}"
    return "beyond the year 9999" if at_s > 0 else "before the year 1"


def _require_root(policy: Policy, index: Manifest) -> None:
    root = index.root.decode("utf-8", "surrogateescape")
    if root != policy.root:
        raise UsageError(
            f"the index is of {visible(root)}, the policy of {visible(policy.root)}",
            code="root-mismatch",
            hint="both must name the root in the same way, with links resolved",
        )


def _require_columns(
    policy: Policy, index: Manifest, counted: tuple[TimeName, ...], now_s: int
) -> None:
    """Refuse an index without the data that a rule needs.

    Without a time that counts, every file would be retained; without owners, an exemption would
    protect nothing, which is worse.
    """
    needed = {_LACKS[name]: f"{name} counts for the age of a file" for name in counted}
    exempt = {exemption.kind for exemption in policy.exemptions if exemption.is_in_force(now_s)}
    for kind, lack in (("group", Lack.GROUP), ("project", Lack.PROJECT)):
        if kind in exempt:
            needed[lack] = f"the policy exempts {kind}s"
    for lack, why in needed.items():
        if lack in index.lacking:
            raise UsageError(
                f"the index lacks the {lack.value} of files, but {why}",
                code="column-lacking",
                hint="trimtab purge scan ROOT --index DIR --with project"
                if lack is Lack.PROJECT
                else "scan again, or import from a source that has it",
            )


def _words(
    rules: RulesInForce, policy: Policy, index: Manifest, reads: ReadRecording
) -> Iterator[str]:
    uses = " or ".join(_NAMES[name] for name in rules.counted)
    yield f"A file's last use is the most recent time it was {uses}."
    if rules.reads_count:
        yield "Reading a file extends its life."
    else:
        yield "Reading a file does not extend its life."
        if "atime" in policy.counted:
            yield f"Reads do not count because {reads.reason}."
    doubled = "" if rules.reads_count else ", doubled because reads do not count"
    yield (
        f"Only files last used before {moment(rules.old_enough_before_s)} "
        f"({format_duration(rules.minimum_age_s)}{doubled}) are eligible."
    )
    if rules.minimum_size_bytes:
        yield f"Files smaller than {format_bytes(rules.minimum_size_bytes)} are kept."
    if rules.exemptions:
        yield f"{plural(len(rules.exemptions), 'exemption')} in force."
    if rules.expired:  # without names: every user of a plan sees these words
        yield f"{plural(len(rules.expired), 'exemption')} expired."
    if not rules.linked:
        yield "Files with other names (hard links) are kept."
        if Lack.LINKS in index.lacking:
            yield "The index has no link counts: such files are detected only at deletion."
    if policy.open_files == "keep":
        yield "Open files are kept."
    yield from _late_uses(index)


def _late_uses(index: Manifest) -> Iterator[str]:
    if Lack.IN_PLACE in index.lacking:
        yield (
            "Times of files in directories with unchanged names are from an earlier scan and may "
            "miss a later use: the exact times are read before each deletion."
        )
    if index.times is TimeTrust.MDS_ONLY:
        yield (
            "The times are from the metadata server and may miss a late use: the exact times are "
            "read before each deletion."
        )


def _listed(words: tuple[str, ...]) -> str:
    *most, last = (visible(word) for word in words)
    return f"{', '.join(most)} and {last}" if most else last


def _exemptions(exemptions: Iterable[Exemption]) -> list[str]:
    return [exemption.shown for exemption in exemptions]


shape(
    RulesInForce,
    omit=["exempt_paths", "exempt_users", "exempt_groups", "exempt_projects"],
    derive={
        "exemptions": mapped("exemptions", _exemptions, tuple[str, ...]),
        "expired": mapped("expired", _exemptions, tuple[str, ...]),
    },
)
