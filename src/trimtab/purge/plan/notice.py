"""Publish a plan: write every user's list, then the evidence, then send the mails.

A plan is published once: its lists and evidence never change, and each mail is sent once.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trimtab.base.encode import mapped, shape
from trimtab.base.error import DataError, RefusedError, TrimtabError, UsageError, visible
from trimtab.base.event import utc_now
from trimtab.base.trusted_file import trusted_directory
from trimtab.purge.core_call import require_answer
from trimtab.purge.owner import Account, Accounts, file_names, find_account, find_accounts
from trimtab.purge.plan.candidate import ListChange, Named, changes, named
from trimtab.purge.plan.deletion_plan import HOUR_S, DeletionPlan
from trimtab.purge.plan.notice_directory import write_lists, write_user_names
from trimtab.purge.plan.notice_mail import (
    MailAttempt,
    MailResult,
    Postman,
    checked_address,
    read_mail_map,
)
from trimtab.purge.plan.notice_text import NoticeFacts
from trimtab.purge.plan.plan_directory import LoadedPlan, plan_in, published_before
from trimtab.purge.plan.plan_signature import (
    Publication,
    SigningKey,
    UserList,
    read_publication,
    write_publication,
)
from trimtab.purge.purge_policy import Notices
from trimtab.purge.root_facts import root_facts
from trimtab.purge.run.surroundings import clear, set_aside
from trimtab.reach.mail import Mailer
from trimtab.store.location import PurgePlace

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Published:
    """Result of publishing a plan.

    Attributes
    ----------
    loaded
        The plan with its evidence.
    publication
        The evidence.
    fresh
        Whether it was published now; otherwise it was before, and no list was touched.
    notes
        Remarks, one sentence each: users who could not be notified, and why the plan can never be
        carried out, if so.
    """

    loaded: LoadedPlan
    publication: Publication
    fresh: bool
    notes: tuple[str, ...]


def publish(
    loaded: LoadedPlan,
    key: SigningKey,
    notices: Notices,
    *,
    accounts: Accounts,
    clock: Clock,
    previous: LoadedPlan | None = None,
    accept_unknown: bool = False,
    owner: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Published:
    """Write every user's list, then the evidence; a plan already published is unchanged.

    Parameters
    ----------
    loaded
        The plan, its candidates checked.
    notices
        Directory of the lists, and the contact for users.
    previous
        The previously published plan; its candidates show which files are new.
    accept_unknown
        Whether to accept that most users have no account.

    Raises
    ------
    UsageError
        No directory for lists is set.
    RefusedError
        Its notice period would not end before it expires; another notify is running; most users are
        unknown; another user could replace the files.
    DataError, UnreadableError
        The candidates cannot be read, or a list cannot be written; the plan is then unpublished.
    """
    with locked(loaded, owner) as opened:
        publication = read_publication(opened, loaded.plan, loaded.sha256, key, owner=owner)
        if publication is not None:
            return Published(replace(loaded, publication=publication), publication, False, ())
        at = _now(clock)
        promised = promised_not_before(loaded.plan, at)
        place = _place(loaded.plan, notices)
        before, notes = _named(previous)
        accounts_found = find_accounts(
            (user.uid for user in loaded.plan.candidates.users),
            accounts,
            accept_unknown=accept_unknown,
        )
        lists = write_lists(
            loaded,
            _facts(loaded, accounts_found, before, (at, promised), notices),
            accounts_found,
            place,
            before=before,
            owner=owner,
            progress=progress,
        )
        publication = _evidence(
            loaded,
            place,
            lists,
            promised=promised,
            published_at=max(at, _now(clock)),
            previous_plan_id=None if before is None or previous is None else previous.plan.id,
        )
        write_publication(opened, publication, key)
    notes += _obstacles(loaded.plan) + _without_account(publication)
    return Published(replace(loaded, publication=publication), publication, True, notes)


def mail(
    loaded: LoadedPlan,
    notices: Notices,
    postman: Postman,
    *,
    clock: Clock,
    again: bool = False,
    owner: int = 0,
) -> MailResult:
    """Send a mail to every user of a published plan not yet notified.

    Parameters
    ----------
    again
        Whether mails that may have been sent are sent again.

    Raises
    ------
    UsageError
        No sender is set, or neither a pattern nor a map of addresses.
    RefusedError
        The plan is not published, or has expired, or another notify is running.
    UnreadableError
        The state of the mails cannot be recorded.
    """
    publication = loaded.publication
    if publication is None:
        raise RefusedError(
            "the plan is not published: mails would refer to missing lists",
            code="plan-unpublished",
            hint="write the lists first",
        )
    if _now(clock) >= loaded.plan.expires_at:
        raise RefusedError(
            "the plan has expired: a mail would announce deletions that do not happen",
            code="plan-expired",
        )
    if notices.mail_from is None:
        raise UsageError(
            "no sender of mails is set", code="sender-missing", hint='[notice] mail_from = "..."'
        )
    if notices.mail_to is None and notices.mail_map is None:
        raise UsageError(
            "no addresses are set",
            code="addresses-missing",
            hint='[notice] mail_to = "{user}@example.org", or mail_map',
        )
    attempt = MailAttempt(
        postman,
        sender=checked_address(notices.mail_from),
        pattern=notices.mail_to,
        known=read_mail_map(notices.mail_map),
        lists=publication.directory,
        clock=lambda: _now(clock),
        again=again,
    )
    with locked(loaded, owner) as opened:
        return attempt.send_all(
            _notices(loaded.plan, publication, notices.contact), opened, owner=owner
        )


def write_names(loaded: LoadedPlan, user: str, *, owner: int = 0) -> Path:
    """Write the names of one user of a published plan beside the user's list; return the file.

    Parameters
    ----------
    loaded
        The plan, its candidates checked.
    user
        Account name or number.

    Raises
    ------
    RefusedError
        The plan is not published; another user could replace the file.
    UsageError
        The plan has no list for this user.
    DataError, UnreadableError
        The candidates cannot be read, or the file cannot be written.
    """
    publication = loaded.publication
    if publication is None:
        raise RefusedError(
            "the plan is not published: there is no list yet",
            code="plan-unpublished",
            hint="trimtab purge notify PLAN",
        )
    lists = [each for each in publication.lists if user in (each.account, str(each.uid))]
    if len(lists) != 1:
        raise UsageError(
            f"the plan has no list for user {visible(user[:80])!r}",
            code="user-unlisted",
            hint="give the account as in the list, or the number",
        )
    return write_user_names(loaded, lists[0], Path(publication.directory), owner=owner)


def promised_not_before(plan: DeletionPlan, at: datetime) -> datetime:
    """Return the time before which lists promise that nothing is deleted, a whole hour.

    The lists contain it, so it is chosen before they are written; the rest of the hour is for
    writing them. If that takes longer, the evidence has the later time, so the notice period is
    complete.

    Raises
    ------
    RefusedError
        The plan expires before that time.
    """
    earliest = max(at + timedelta(seconds=plan.notice_s), plan.earliest)
    whole = math.ceil(earliest.timestamp() / HOUR_S) * HOUR_S
    promised = datetime.fromtimestamp(whole, UTC)
    _refuse_late(plan, promised)
    return promised


@contextlib.contextmanager
def locked(loaded: LoadedPlan, owner: int) -> Iterator[int]:
    """Lock a plan's directory for one notify; yield its descriptor.

    Raises
    ------
    RefusedError
        Another notify is running.
    """
    with trusted_directory(loaded.directory, "the plan", owner=owner, private=True) as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RefusedError(
                "another notify is running for this plan",
                code="notify-running",
                hint="wait until it ends",
            ) from error
        yield opened


def _refuse_late(plan: DeletionPlan, not_before: datetime) -> None:
    if not_before >= plan.expires_at:
        raise RefusedError(
            f"the plan expires at {plan.expires_at:%Y-%m-%d %H:%M} UTC, before its notice period "
            "would end",
            code="plan-expires-early",
            hint="it was published too late: make a new plan",
        )


def _evidence(
    loaded: LoadedPlan,
    place: Path,
    lists: tuple[UserList, ...],
    *,
    promised: datetime,
    published_at: datetime,
    previous_plan_id: str | None,
) -> Publication:
    whole = published_at + timedelta(seconds=loaded.plan.notice_s)
    _refuse_late(loaded.plan, max(promised, whole))
    return Publication(
        plan_id=loaded.plan.id,
        plan_sha256=loaded.sha256,
        published_at=published_at,
        not_before=max(promised, whole),
        directory=str(place),
        previous_plan_id=previous_plan_id,
        lists=lists,
    )


def _place(plan: DeletionPlan, notices: Notices) -> Path:
    if notices.directory is None:
        raise UsageError(
            "no directory for lists is set",
            code="notice-directory-missing",
            hint='[notice] directory = "/var/spool/trimtab/notices"',
        )
    return Path(notices.directory) / f"{plan.made_at.astimezone(UTC):%Y-%m-%d}-{plan.id}"


def _named(previous: LoadedPlan | None) -> tuple[Named | None, tuple[str, ...]]:
    if previous is None:
        return None, ()
    try:
        return named(previous.candidates), ()
    except DataError as error:
        return None, (f"new files unknown: the previous plan cannot be read: {error.message}",)


def _facts(
    loaded: LoadedPlan,
    accounts: Mapping[int, Account | None],
    before: Named | None,
    dates: tuple[datetime, datetime],
    notices: Notices,
) -> dict[int, NoticeFacts]:
    names = file_names(accounts)
    changed = {} if before is None else changes(loaded.candidates, before)
    return {
        user.uid: NoticeFacts(
            plan=loaded.plan,
            user=user,
            account=_name(accounts[user.uid]),
            name=names[user.uid],
            published_at=dates[0],
            not_before=dates[1],
            change=None if before is None else changed.get(user.uid, ListChange(user.files, 0, 0)),
            contact=notices.contact,
            has_names=notices.names_most is None or user.files <= notices.names_most,
        )
        for user in loaded.plan.candidates.users
    }


def _notices(
    plan: DeletionPlan, publication: Publication, contact: str | None
) -> Iterator[NoticeFacts]:
    """Yield the notices of users with an account, as published."""
    users = {user.uid: user for user in plan.candidates.users}
    for user_list in publication.lists:
        if user_list.account is not None:
            yield NoticeFacts(
                plan=plan,
                user=users[user_list.uid],
                account=user_list.account,
                name=user_list.name,
                published_at=publication.published_at,
                not_before=publication.not_before,
                change=_change(user_list),
                contact=contact,
                has_names=user_list.has_names,
            )


def _change(user_list: UserList) -> ListChange | None:
    if user_list.new_files is None or user_list.gone_files is None:
        return None
    return ListChange(
        user_list.new_files, user_list.files - user_list.new_files, user_list.gone_files
    )


def _name(account: Account | None) -> str | None:
    return None if account is None else account.name


def _obstacles(plan: DeletionPlan) -> tuple[str, ...]:
    return tuple(
        f"this plan cannot delete anything; about its index: {visible(obstacle)}"
        for obstacle in plan.index.obstacles
    )


def _without_account(publication: Publication) -> tuple[str, ...]:
    missing = publication.without_account
    if not missing:
        return ()
    numbers = ", ".join(str(uid) for uid in missing[:20]) + (", ..." if len(missing) > 20 else "")
    return (
        f"{len(missing)} users have no account and could not be notified; their lists in "
        f"{publication.directory} belong to root: {numbers}",
    )


def _now(clock: Clock) -> datetime:
    at = clock()
    if at.tzinfo is None:
        raise UsageError("the clock returned a time without a zone", code="zone-missing")
    return at.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class PurgeNotifyDocument:
    """A published plan; ``fresh`` is false if it was published before and no list was changed.

    Attributes
    ----------
    mails
        ``None`` where none were asked for.
    notes
        What a person should look at, a sentence each: plans beside this one that cannot be read,
        files of names that were written, and why no room was set aside for runs, too.
    """

    published: Published
    mails: MailResult | None
    notes: tuple[str, ...]


shape(
    Published,
    omit=["loaded", "publication", "fresh", "notes"],
    derive={
        "plan": "loaded.plan.id",
        "directory": mapped("publication.directory", visible, str),
        "fresh": "fresh",
        "published_at": "publication.published_at",
        "not_before": "publication.not_before",
        "expires_at": "loaded.plan.expires_at",
        "previous_plan": "publication.previous_plan_id",
        "lists": "publication.lists",
    },
)
shape(PurgeNotifyDocument, inline={"published": ()})


def notify(
    directory: Path,
    *,
    place: PurgePlace,
    with_mail: bool,
    names: Sequence[str] = (),
    again: bool = False,
    accept_unknown: bool = False,
    clock: Callable[[], datetime] = utc_now,
    progress: Callable[[int, int], None] | None = None,
) -> PurgeNotifyDocument:
    """Publish a plan, and send the mails where that is asked for; a second time does neither.

    Parameters
    ----------
    directory
        Directory of the plan. Plans beside it are searched for the previous one.
    names
        Users for whom the names of files are written beside their lists.
    again
        Whether mails whose fate is not known are sent once more.
    """
    loaded, key = plan_in(directory, place.key, owner=place.owner)
    previous, passed_over = published_before(loaded, key, owner=place.owner)
    notices = loaded.policy.notices
    published = publish(
        loaded,
        key,
        notices,
        accounts=find_account,
        clock=clock,
        previous=previous,
        accept_unknown=accept_unknown,
        owner=place.owner,
        progress=progress,
    )
    mails = None
    if with_mail:
        with Mailer(notices.mail) as mailer:
            mails = mail(
                published.loaded, notices, mailer, clock=clock, again=again, owner=place.owner
            )
    no_room = set_room_aside(loaded, previous)
    written = names_of(directory, names, place=place) if names else ()
    notes = (*published.notes, *(f"not looked at: {reason}" for reason in passed_over))
    notes += tuple(f"names written to {visible(str(path))}" for path in written)
    if no_room is not None:
        notes += (f"no space was reserved for runs on a full file system: {no_room}",)
    return PurgeNotifyDocument(published, mails, notes)


def names_of(directory: Path, users: Sequence[str], *, place: PurgePlace) -> tuple[Path, ...]:
    """Write the names of some users of a published plan beside their lists; return the files.

    Raises
    ------
    RefusedError, UsageError, DataError, UnreadableError
        As those of `trimtab.purge.plan.plan_directory.load_plan` and `write_names`.
    """
    loaded, _ = plan_in(directory, place.key, owner=place.owner)
    return tuple(write_names(loaded, user, owner=place.owner) for user in users)


def set_room_aside(loaded: LoadedPlan, previous: LoadedPlan | None) -> str | None:
    """Reserve space for a plan's runs on its file system, which may fill up; return why not.

    The reserve of the previous plan is released: one per root is enough.
    """
    plan, policy = loaded.plan, loaded.policy
    if plan.file_system.kind == "lustre":
        return None  # files go by FID, nothing is moved
    try:
        require_answer(policy.root, "setting room aside")
        facts = root_facts(policy.root)
        mounted = facts.file_system
        planned = plan.file_system.identity
        if mounted is None or not planned.is_same(mounted):
            return facts.trouble or f"another file system is at {visible(policy.root)}"
        if planned.has_another_root(mounted):
            return f"another directory of the file system is mounted at {visible(policy.root)}"
        if previous is not None:
            clear(policy.root, previous.plan.quarantine)
        throttle = policy.throttle
        set_aside(
            policy.root,
            plan.quarantine,
            threads=throttle.threads,
            rows=throttle.batch_files,
        )
    except TrimtabError as error:
        return error.message
    except OSError as error:
        return error.strerror or str(error)
    return None
