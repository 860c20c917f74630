"""Guards: conditions that must all hold before a run may delete.

A guard returns why it objects, or ``None``. Nothing here accesses the machine: `surroundings`
provides the facts. An unknown fact is an objection too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trimtab.base.error import code_of, visible
from trimtab.base.units import format_bytes, format_duration, plural
from trimtab.purge.index.manifest import FileSystemIdentity
from trimtab.purge.rules_in_force import moment
from trimtab.purge.run.rows import CAPS_WINDOW_S
from trimtab.purge.run.situation import (
    SWITCH_UNREADABLE,
    SWITCH_WITHOUT_DIRECTORY,
    Objection,
    ServerClock,
    Situation,
)

JUMP_FLOOR_FILES: Final = 1000
JUMP_FLOOR_BYTES: Final = 2**30
"""Smaller plans cannot jump: from 3 files to 10 means nothing."""


@dataclass(frozen=True, slots=True)
class RunGuard:
    """One guard.

    Attributes
    ----------
    name
        A stable word.
    objects
        Returns the objection, or ``None``.
    hint
        What to do about it.
    each_batch
        Checked again before every batch, because conditions may change during a run.
    to_recover
        Required even to recover an interrupted batch, which deletes nothing. The others are not:
        files set aside must not stay there because the plan has expired.
    hints
        Other hints, by the code of the reason.
    in_dry_run
        Whether a dry run can check it; it changes nothing, so it creates no canary.
    """

    name: str
    objects: Callable[[Situation], str | None]
    hint: str
    each_batch: bool = False
    to_recover: bool = False
    in_dry_run: bool = True
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)


def published(now: Situation) -> str | None:
    """Users were notified a full notice period ago."""
    publication = now.planned.publication
    if publication is None:
        return "the plan was never published: users do not know of it"
    noticed_s = publication.published_at.timestamp() + now.policy.notice_s
    left_s = max(publication.not_before.timestamp(), noticed_s) - now.now_s
    if left_s > 0:
        return f"the notice period lasts another {format_duration(left_s)}"
    return None


def made_before(now: Situation) -> str | None:
    """The plan is not dated in the future, which would mean a wrong clock then or now.

    All times of a plan (its scan, notice period and end) depend on that clock.
    """
    ahead_s = now.planned.plan.made_at.timestamp() - now.now_s
    if ahead_s > now.policy.guards.clock_difference_max_s:
        return f"the plan is dated {format_duration(ahead_s)} in the future: a clock is wrong"
    return None


def valid(now: Situation) -> str | None:
    """The plan has not expired."""
    over_s = now.now_s - now.planned.plan.expires_at.timestamp()
    return None if over_s < 0 else f"the plan expired {format_duration(over_s)} ago"


def policy_unchanged(now: Situation) -> str | None:
    """The policy allows nothing new since users were notified; it may retain more."""
    changes = "; ".join(now.planned.changes)
    return f"the policy was loosened since the plan was made: {changes}" if changes else None


def allowed(now: Situation) -> str | None:
    """The site's administrator allows this root to be purged."""
    if now.allow_list.trouble is not None:
        return now.allow_list.trouble
    root = now.planned.plan.file_system.root
    shown = visible(root)
    if root != now.policy.root:
        return f"the plan is for {shown}, the policy for {visible(now.policy.root)}"
    if root.strip("/") == "" or not root.startswith("/"):
        return f"{shown or 'an empty path'} is never purged"
    if root.encode("utf-8") not in now.allow_list.roots:
        return f"{shown} is not in the allow-list {visible(now.policy.guards.allow_list)}"
    return None


def armed(now: Situation) -> str | None:
    """The plan was armed, and the delay has passed or a second person armed it too."""
    facts, arming = now.arming, now.policy.arming
    if facts.trouble is not None:
        return facts.trouble
    if not facts.armed_by:
        return "the plan is not armed"
    if any(armed_by.at_s > now.now_s for armed_by in facts.armed_by):
        return "the plan was armed in the future: a clock is wrong"
    if arming.kind == "second-person":
        people = {armed_by.person for armed_by in facts.armed_by if armed_by.person is not None}
        return None if len(people) > 1 else "no second person armed the plan"
    left_s = min(armed_by.at_s for armed_by in facts.armed_by) + arming.delay_s - now.now_s
    if left_s > 0:
        return f"the plan is armed, and may be carried out in {format_duration(left_s)}"
    return None


def expected_mount(now: Situation) -> str | None:
    """The file system mounted at the root is that of the index."""
    root, expected = now.root, now.planned.plan.file_system.identity
    if root.trouble is not None:
        return root.trouble
    if root.file_system is None:
        return "the file system of the plan, or the mounted one, is unknown"
    if not expected.is_same(root.file_system):
        if expected.may_be_same(root.file_system) and expected.name == root.file_system.name:
            return (
                f"{_named(root.file_system)} cannot be identified as the plan's file system: it "
                "has no identity of its own and was mounted again since"
            )
        return (
            f"another file system is mounted: {_named(root.file_system)} instead of "
            f"{_named(expected)}"
        )
    if expected.has_another_root(root.file_system):
        return (
            "another directory of the file system is mounted at the root: "
            f"{_root_of(root.file_system)} instead of {_root_of(expected)}"
        )
    return "the file system is mounted read-only" if root.read_only else None


def same_atime(now: Situation) -> str | None:
    """Reads are recorded as at the time of the scan."""
    before, after = now.planned.plan.index.atime_settings, now.root.atime_settings
    if before is None or after is None:
        return "recording of reads unknown, now or at the scan"
    changed = _changed(before, after)
    return f"recording of reads changed since the scan: {changed}" if changed else None


def index_young(now: Situation) -> str | None:
    """The index was recent when the plan was made.

    Its present age does not matter: the notice period has passed since, and every file is checked
    again anyway.
    """
    plan = now.planned.plan
    age_s = (plan.made_at - plan.index.ended_at).total_seconds()
    most_s = now.policy.guards.index_age_max_s
    if age_s < 0:
        return "the index is later than the plan made from it"
    if age_s > most_s:
        return (
            f"the index was {format_duration(age_s)} old when the plan was made; at most "
            f"{format_duration(most_s)} is allowed"
        )
    return None


def clocks_agree(now: Situation) -> str | None:
    """The clocks of file system, servers and this host agree, because ages depend on them."""
    canary = now.canary
    if canary is None or canary.file_system_at_s is None:
        return "the clock of the file system could not be compared with this host's"
    span = (canary.before_s, canary.after_s)
    file_system = ServerClock("the file system", canary.file_system_at_s, *span)
    most_s = now.policy.guards.clock_difference_max_s
    apart = [(clock.name, _apart_s(clock)) for clock in (file_system, *now.clocks)]
    wrong = [f"{visible(name)} by {format_duration(s)}" for name, s in apart if s > most_s]
    return f"clocks differ from this host's: {', '.join(wrong)}" if wrong else None


def no_jump(now: Situation) -> str | None:
    """Candidates did not suddenly increase, which usually means a wrong index or clock."""
    before, after = now.planned.previous, now.planned.plan.candidates
    factor = now.policy.guards.jump_factor
    if before is None:
        return None
    if after.files > factor * max(before.files, JUMP_FLOOR_FILES):
        return f"candidates jumped from {before.files:,} to {plural(after.files, 'file', ',')}"
    sizes = before.allocated_bytes, after.allocated_bytes
    if sizes[1] > factor * max(sizes[0], JUMP_FLOOR_BYTES):
        return f"candidates jumped from {format_bytes(sizes[0])} to {format_bytes(sizes[1])}"
    return None


def canary(now: Situation) -> str | None:
    """A file of another user can be created and removed: no root squash, no missing rights."""
    if now.canary is None:
        return "no canary file was created"
    return now.canary.trouble


def caps_left(now: Situation) -> str | None:
    """The caps are not used up by recent runs."""
    allowance, spent = now.allowance, now.spent
    if allowance.files is not None and spent.files >= allowance.files:
        cap = f"{allowance.files:,} files"
    elif allowance.bytes is not None and spent.bytes >= allowance.bytes:
        cap = format_bytes(allowance.bytes)
    else:
        return None
    window = format_duration(CAPS_WINDOW_S)
    text = f"the cap of {cap} is used up by deletions of the last {window}"
    free_at_s = spent.free_at_s(allowance)
    if free_at_s is None:
        return text
    left = format_duration(max(0.0, free_at_s - now.now_s))
    return f"{text}; it is free again at {moment(math.ceil(free_at_s))}, in {left}"


GUARDS: Final = (
    RunGuard(
        "kill-switch",
        lambda now: now.kill_switch,
        "remove the file to allow deletion again",
        each_batch=True,
        hints={
            SWITCH_WITHOUT_DIRECTORY: "create the directory, owned by root",
            SWITCH_UNREADABLE: "make its directory readable for root",
        },
    ),
    RunGuard(
        "root-user",
        lambda now: None if now.root_user else "this process does not run as root",
        "run it as root",
        to_recover=True,
    ),
    RunGuard(
        "signature",
        lambda now: now.planned.signature,
        "make a new plan, and find out who changed this one",
        to_recover=True,
    ),
    RunGuard("allow-list", allowed, "add it, one absolute path per line, if intended", False, True),
    RunGuard("mount", expected_mount, "mount the right one, or make a new plan", True, True),
    # It is not where it could be deleted, and has space to grow.
    RunGuard(
        "journal", lambda now: now.journal_trouble, "put it on another file system", False, True
    ),
    RunGuard("published", published, "publish it: trimtab purge notify PLAN; then wait", True),
    RunGuard("made", made_before, "correct the clocks and make a new plan", True),
    RunGuard("valid", valid, "make a new plan", True),
    RunGuard("policy", policy_unchanged, "make a new plan under the new policy"),
    RunGuard("armed", armed, "arm it, and wait or let a second person arm it too"),
    # It is complete, and identifies files.
    RunGuard(
        "index",
        lambda now: "; ".join(now.planned.plan.index.obstacles) or None,
        "scan again and make a new plan",
    ),
    RunGuard("index-age", index_young, "scan again and make a new plan"),
    RunGuard(
        "atime", same_atime, "find out what changed; then scan again and make a new plan", True
    ),
    # A run ends by itself at or under its target.
    RunGuard(
        "usage",
        lambda now: "usage of the file system unknown" if now.usage is None else None,
        "find out why its usage cannot be read",
    ),
    RunGuard("jump", no_jump, "check the plan; the next one is compared with this one"),
    # No other plan has an unfinished batch, or files waiting for an administrator.
    RunGuard(
        "leftovers",
        lambda now: "; ".join(now.leftovers) or None,
        "run that plan again; if it is lost: trimtab purge recover ROOT --restore",
    ),
    # Every exempt path is listed by its directory, including those added since.
    RunGuard(
        "exempt",
        lambda now: "; ".join(now.planned.exempt_troubles) or None,
        "write the path as the scan lists it, or remove the exemption",
    ),
    # Its begin is looked at, not the batches: a run that is under way ends as planned.
    RunGuard(
        "maintenance",
        lambda now: now.maintenance,
        "wait for its end, or end it: trimtab maintenance SITE --end ID",
    ),
    RunGuard("caps", caps_left, "wait until it is free again"),
    RunGuard(
        "space",
        lambda now: now.keeps_deleted,
        "empty it or switch it off before files are deleted",
    ),
    RunGuard("canary", canary, "give root its rights on this client", in_dry_run=False),
    RunGuard("clocks", clocks_agree, "fix the time service of these hosts", in_dry_run=False),
)
"""All guards of a run that deletes; all objections are reported, in this order."""
IN_DRY_RUN: Final = tuple(guard for guard in GUARDS if guard.in_dry_run)
EACH_BATCH: Final = tuple(guard for guard in GUARDS if guard.each_batch)
TO_RECOVER: Final = tuple(guard for guard in GUARDS if guard.to_recover)
"""Guards that block even the recovery of an interrupted batch."""


def objections(now: Situation, guards: tuple[RunGuard, ...] = GUARDS) -> tuple[Objection, ...]:
    """Return the objections of all guards."""
    objections_found = ((guard, guard.objects(now)) for guard in guards)
    return tuple(
        Objection(g.name, reason, g.hints.get(code_of(reason) or "", g.hint))
        for g, reason in objections_found
        if reason is not None
    )


def _named(identity: FileSystemIdentity) -> str:
    return visible(f"{identity.kind} {identity.name or '(no name)'}")


def _root_of(identity: FileSystemIdentity) -> str:
    return f"{visible(str(identity.root_path))} with inode {identity.root_inode}"


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    words = sorted({*before, *after})
    return ", ".join(
        f"{visible(word)} from {visible(before.get(word, 'none'))} to "
        f"{visible(after.get(word, 'none'))}"
        for word in words
        if before.get(word) != after.get(word)
    )


def _apart_s(clock: ServerClock) -> float:
    """Return the minimum error of a clock that was read between two moments, in seconds."""
    return max(clock.before_s - clock.at_s, clock.at_s - clock.after_s, 0.0)
