"""A plan as its commands show it: contents, notified users, approvals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from trimtab.base.error import shell_text
from trimtab.base.text import sentences, utc_moment
from trimtab.base.units import (
    Since1970,
    format_bytes,
    format_duration,
    format_exact_percent,
    plural,
)
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.purge.owner import owner_text
from trimtab.show.document import Document, Section, Table, facts, row, table

if TYPE_CHECKING:
    from trimtab.purge.plan.arming import PurgeArmDocument
    from trimtab.purge.plan.deletion_plan import Candidates, DeletionPlan
    from trimtab.purge.plan.notice import Published
    from trimtab.purge.plan.notice_mail import MailResult
    from trimtab.purge.plan.plan_making import PurgePlanDocument
    from trimtab.store.location import PurgePlace

_SHOWN: Final = 10
_SHORT_ID: Final = 13


def plan_document(made: PurgePlanDocument, place: PurgePlace) -> Document:
    """Return the page of a new plan: what may be deleted, whether it suffices, whose it is."""
    plan = made.plan
    key = (f"A new key was created in {place.key}: whoever can read it can sign plans",)
    named = (
        ("plan", plan.id[:_SHORT_ID]),
        ("stored in", str(made.directory)),
        ("last used before", utc_moment(plan.before)),
        ("expires", utc_moment(plan.expires_at)),
    )
    return Document(
        _plan_answer(made),
        (
            Section(tables=(facts(named), _users_table(plan.candidates))),
            Section(lines=sentences((*made.notes, *(key if made.new_key else ()))), tone="warning"),
            Section(
                "Rules for deletion",
                lines=sentences((*plan.horizon.words, *plan.rules.words)),
                folded=True,
            ),
        ),
        more=("Notify its users with:",),
        command=shell_text(["trimtab", "purge", "notify", str(made.directory)]),
    )


def _plan_answer(made: PurgePlanDocument) -> str:
    plan, candidates = made.plan, made.plan.candidates
    enough = made.horizon.answer.published.status is not HorizonStatus.OUT_OF_REACH
    target = format_exact_percent(plan.horizon.target, 0)
    when = (
        f"{format_duration(plan.notice_s)} after their users are notified"
        if plan.notice_s
        else "as soon as it is published and armed: the plan has no notice period"
    )
    return (
        f"{plural(candidates.files, 'file', ',')} of {plural(len(candidates.users), 'user', ',')} "
        f"in {plan.file_system.root} may be deleted, {format_bytes(candidates.allocated_bytes)}, "
        + when
        + (f"; that reaches {target}." if enough else f"; that does not reach {target}.")
    )


def _users_table(candidates: Candidates) -> Table | None:
    return table(
        ("user", "files>", "listed>", "of>", "oldest??", "youngest??"),
        (
            row(
                owner_text(user.uid),
                f"{user.files:,}",
                format_bytes(user.allocated_bytes),
                "-" if user.held_bytes is None else format_bytes(user.held_bytes),
                _day(user.oldest_use_s),
                _day(user.newest_use_s),
            )
            for user in sorted(candidates.users, key=lambda listed: -listed.allocated_bytes)
        ),
        first=_SHOWN,
    )


def notified_document(
    published: Published, mails: MailResult | None, notes: Sequence[str]
) -> Document:
    """Return who was notified of a plan, and from when it may be carried out."""
    directory = str(published.loaded.directory)
    arm = shell_text(["trimtab", "purge", "arm", directory])
    return Document(
        _notified_answer(published, mails),
        (
            Section(tables=(facts(_published(published, mails)), _undelivered(mails))),
            Section(lines=sentences(notes), tone="warning"),
        ),
        more=(f"Before it may delete, arm it: {arm}. What a run would delete:",),
        command=shell_text(["trimtab", "purge", "run", directory]),
    )


def _undelivered(mails: MailResult | None) -> Table | None:
    outcomes = (
        () if mails is None else (("not notified", mails.failures), ("not known", mails.unclear))
    )
    rows = (
        row(title, f"{each.account} ({each.uid})", each.reason)
        for title, failures in outcomes
        for each in failures
    )
    return table(("mail", "user", "why"), rows, first=_SHOWN)


def _notified_answer(published: Published, mails: MailResult | None) -> str:
    publication, plan = published.publication, published.loaded.plan
    lists = plural(len(publication.lists), "list", ",")
    done = f"{lists} published" if published.fresh else f"{lists} were published before"
    files = plural(plan.candidates.files, "file", ",")
    untold = 0 if mails is None else len(mails.failures)
    failed = f"; {plural(untold, 'user', ',')} not notified by mail" if untold else ""
    return (
        f"{done}: {files} of {plan.file_system.root} may be deleted from "
        f"{utc_moment(publication.not_before)} on{failed}.{_unnoticed(plan)}"
    )


def _published(published: Published, mails: MailResult | None) -> Iterator[tuple[str, str]]:
    publication = published.publication
    yield "plan", published.loaded.plan.id[:_SHORT_ID]
    yield "lists in", publication.directory
    yield "published", utc_moment(publication.published_at)
    yield "expires", utc_moment(published.loaded.plan.expires_at)
    new = [listed.new_files for listed in publication.lists if listed.new_files is not None]
    if new:
        yield "new", f"{plural(sum(new), 'file', ',')} that no list named before"
    if mails is not None:
        before = f", {mails.sent_before:,} before" if mails.sent_before else ""
        yield "mails", f"{mails.sent:,} sent{before}"


def armed_document(armed: PurgeArmDocument) -> Document:
    """Return who armed a plan, and when it may be run."""
    plan, publication = armed.loaded.plan, armed.loaded.publication
    assert publication is not None
    who = "a person without a login" if armed.by.person is None else str(armed.by.person)
    by = f"Armed by {armed.by.name or who}"
    expires = utc_moment(plan.expires_at)
    run, then = ["trimtab", "purge", "run", str(armed.loaded.directory), "--apply"], "Run it with:"
    named = [("plan", plan.id[:_SHORT_ID])]
    if armed.effective_at is None:
        answer = f"{by}; a second person must arm it too, before {expires}."
        run, then = ["trimtab", "purge", "arm", str(armed.loaded.directory)], "That person runs:"
    else:
        begin = utc_moment(max(armed.effective_at, publication.not_before))
        answer = f"{by}: it may be run from {begin} until {expires}."
        named.append(("counts from", utc_moment(armed.effective_at)))
    named.append(("notice ends", utc_moment(publication.not_before)))
    return Document(
        answer + _unnoticed(plan),
        (Section(tables=(facts(named),)),),
        more=(then,),
        command=shell_text(run),
    )


def _unnoticed(plan: DeletionPlan) -> str:
    """Return a warning for a plan whose users have no time to save a file."""
    return "" if plan.notice_s else " The plan has no notice period: users cannot object in time."


def _day(at_s: int) -> str:
    at = Since1970(1).time(at_s)
    return "-" if at is None else f"{at:%Y-%m-%d}"
