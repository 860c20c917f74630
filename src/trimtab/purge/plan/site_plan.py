"""The purge plans of a site and their state: published, approved, armed; and one user's lists."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from trimtab.base.error import (
    Message,
    RefusedError,
    TrimtabError,
    UnreadableError,
    UsageError,
    visible,
)
from trimtab.base.event import Event
from trimtab.purge.plan.arming import APPROVAL_SOURCE, approvals, read_arming, signed_approval
from trimtab.purge.plan.notice_text import LINES_SUFFIX
from trimtab.purge.plan.plan_directory import PLAN_FILE, LoadedPlan, load_plan
from trimtab.purge.plan.plan_signature import UserList, read_key
from trimtab.purge.run.purge_report import PurgeReport, report
from trimtab.purge.run.run_journal import journals, read
from trimtab.purge.run.situation import ArmingFacts
from trimtab.site.lookup import is_beneath
from trimtab.site.place import Place
from trimtab.store.location import PurgePlace

if TYPE_CHECKING:
    from trimtab.store.store import Store

PLANS_MAX: Final = 20
LINES_SKIPPED_MAX: Final = 100_000
_LINE_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class SitePlan:
    """A plan with its state so far.

    Attributes
    ----------
    approved
        Entries of the log book: admins who approved exactly this plan.
    armed
        Who armed it on this host.
    """

    loaded: LoadedPlan
    approved: tuple[Event, ...]
    armed: ArmingFacts

    def waits(self, now: datetime) -> bool:
        """Whether a person can still approve it: published, not armed, not over."""
        plan = self.loaded.plan
        return self.loaded.publication is not None and not self.armed.armed_by and (
            now < plan.expires_at
        )  # fmt: skip

    def state(self, now: datetime) -> str:
        """Return how far it is, in words."""
        if now >= self.loaded.plan.expires_at:
            return "expired"
        if self.armed.armed_by:
            return "armed"
        if self.loaded.publication is None:
            return "not published"
        return "approved, not armed" if self.approved else "waits for approval"


def site_plans(
    site: Place, place: PurgePlace, events: Sequence[Event], now: datetime
) -> tuple[tuple[SitePlan, ...], tuple[Message, ...]]:
    """Return the newest plans of a site, and why others, or all of them, cannot be shown.

    Every signature is checked; unsigned plans are not shown.

    Parameters
    ----------
    events
        Entries of the site's log book.
    now
        Current time, aware; later approvals are not valid.
    """
    directory = None if site.site is None else site.site.policies.purge.directory
    if directory is None:
        return (), ()
    try:
        files = sorted(Path(directory).glob(f"*.plan/{PLAN_FILE}"), reverse=True)[:PLANS_MAX]
        if not files:
            os.scandir(directory).close()  # glob does not tell a directory that is closed
            return (), ()
        key = read_key(place.key, owner=place.owner)
    except FileNotFoundError:
        return (), ()
    except OSError as error:
        text = f"{visible(directory)} cannot be read: {error.strerror or error}"
        return (), (Message("plans-unreadable", text),)
    except TrimtabError as error:
        return (), (Message(error.code, error.message),)
    plans: list[SitePlan] = []
    problems: list[Message] = []
    for path in files:
        try:
            loaded = load_plan(path.parent, key, owner=place.owner, candidates=False)
        except TrimtabError as error:
            problems.append(Message(error.code, f"{visible(path.parent.name)}: {error.message}"))
            continue
        armed = read_arming(place.journals, loaded.plan.id, loaded.sha256, owner=place.owner)
        known = approvals(events, loaded, key, site=site.name, now=now)
        problems += [
            Message(
                "approval-forged",
                f"an entry of the log book claims an approval of {loaded.plan.id} "
                f"({visible(entry.source)}) that this host did not sign in this form",
            )
            for entry in known.forged
        ]
        plans.append(SitePlan(loaded, known.valid, armed))
    return tuple(plans), tuple(problems)


def plans_waiting(
    site: Place, plans: Sequence[SitePlan], problems: Sequence[Message], now: datetime
) -> int | None:
    """Return how many plans wait for approval; ``None`` where that is unknown.

    Parameters
    ----------
    plans, problems
        As `site_plans` has them: a plan that cannot be shown may wait as well.
    """
    if site.site is None or site.site.policies.purge.directory is None:
        return None
    # A forged approval is a problem, too, but hides no plan.
    if any(problem.code != "approval-forged" for problem in problems):
        return None
    return sum(plan.waits(now) for plan in plans)


def approve(
    store: Store,
    site: Place,
    plans: Sequence[SitePlan],
    *,
    place: PurgePlace,
    sha256: str,
    who: str,
    now: datetime,
) -> Event:
    """Write that an admin approves a plan into the log book, signed, and return the entry.

    It arms nothing: ``trimtab purge arm PLAN --approved SITE`` on the plan's host does, and asks
    for this entry.

    Parameters
    ----------
    sha256
        Hash of the plan that the person saw.

    Raises
    ------
    UsageError
        There is no such plan: it may have been replaced since it was seen.
    RefusedError
        It does not wait for approval, or this person approved it already.
    """
    plan = next((plan for plan in plans if plan.loaded.sha256 == sha256), None)
    if plan is None:
        raise UsageError("no plan of this hash is here now", code="plan-unknown")
    if not plan.waits(now):
        raise RefusedError(
            f"the plan does not wait for approval: it is {plan.state(now)}", code="plan-not-waiting"
        )
    if any(event.source == f"{APPROVAL_SOURCE}: {who}" for event in plan.approved):
        raise RefusedError("you approved this plan already", code="plan-approved")
    key = read_key(place.key, owner=place.owner)
    event = signed_approval(key, plan.loaded, site=site.name, who=who, now=now)
    store.add_event(event)
    return event


def site_runs(site: Place, place: PurgePlace) -> PurgeReport:
    """Return what runs on this host deleted of a site.

    Raises
    ------
    UnreadableError
        A journal cannot be read, or is damaged: `code` is ``journals-unreadable``.
    """
    try:
        chronicles = [read(path) for path in journals(place.journals)]
    except (TrimtabError, OSError) as error:
        why = error.message if isinstance(error, TrimtabError) else error.strerror or str(error)
        text = f"this host's journals cannot be read: {visible(why)}"
        raise UnreadableError(text, code="journals-unreadable") from error
    of_site = [
        chronicle
        for chronicle in chronicles
        if chronicle.plan is not None
        and site.site is not None
        and is_beneath(site.site, chronicle.plan.root)
    ]
    return report(of_site, timezone=ZoneInfo(site.timezone))


# A user's own list


@dataclass(frozen=True, slots=True)
class OwnList:
    """Files of one user that a published plan lists.

    Attributes
    ----------
    lines
        A page of its files; ``None`` with the reason where this process may not read it.
    """

    plan: LoadedPlan
    entry: UserList
    lines: tuple[OwnFile, ...] | None
    reason: Message | None = None


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file on a list, as its JSON line has it."""

    path: str
    size_bytes: int
    last_use: str
    is_new: bool | None


def own_lists(
    plans: Sequence[SitePlan], account: str, now: datetime, *, offset: int = 0, limit: int = 50
) -> Iterator[OwnList]:
    """Yield what plans that are published and not over list of one account, and of no other."""
    for plan in plans:
        publication = plan.loaded.publication
        if publication is None or now >= plan.loaded.plan.expires_at:
            continue
        for entry in publication.lists:
            if entry.account == account and not entry.has_names:
                text = f"its {entry.files:,} files are counted by directory in {entry.name}.txt"
                yield OwnList(plan.loaded, entry, None, Message("list-of-counts", text))
            elif entry.account == account:
                path = Path(publication.directory, f"{entry.name}{LINES_SUFFIX}")
                try:
                    lines = tuple(_lines(path, min(offset, LINES_SKIPPED_MAX), limit))
                    yield OwnList(plan.loaded, entry, lines)
                except (OSError, ValueError, KeyError, TypeError) as error:
                    why = getattr(error, "strerror", None) or "it is damaged"
                    reason = Message("list-unreadable", f"not readable for the dashboard: {why}")
                    yield OwnList(plan.loaded, entry, None, reason)


def _lines(path: Path, offset: int, limit: int) -> Iterator[OwnFile]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("not a regular file")
        lines = iter(lambda: stream.readline(_LINE_MAX), b"")
        for line in islice(lines, offset, offset + limit):
            value: Any = json.loads(line)
            yield OwnFile(
                str(value["path"]),
                int(value["size_bytes"]),
                str(value["last_use"]),
                None if value["listed_before"] is None else not value["listed_before"],
            )
