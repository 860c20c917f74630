"""A plan as text: what stands in it, who was told, who armed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from trimtab.cli.options import extent
from trimtab.cli.render.purge_tables import owner
from trimtab.cli.render.screen import Column, print_rows, print_screen, print_wrapped
from trimtab.cli.render.text import print_facts, print_sentences, utc_moment
from trimtab.purge.horizon.horizon import HorizonStatus
from trimtab.units import Since1970, format_bytes, format_duration, format_exact_percent, plural
from trimtab.visible import shell_text, visible

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.loop.purging.arming import Armed
    from trimtab.loop.purging.place import PurgePlace
    from trimtab.loop.purging.planning import Made
    from trimtab.purge.notice.mailing import MailResult
    from trimtab.purge.notice.notify import Published
    from trimtab.purge.plan.model import Candidates, Plan

_SHOWN: Final = 10
_SHORT_ID: Final = 13
_USER_COLUMNS: Final = (
    Column("user", wraps=True),
    Column("files", right=True),
    Column("listed", right=True),
    Column("of", right=True),
    Column("oldest", drop=1),
    Column("youngest", drop=1),
)


def print_plan(made: Made, place: PurgePlace, notes: Sequence[str]) -> None:
    """Print a plan that was just made: what may go, whether that is enough, whose it is."""
    more = [] if extent().everything else ["--all shows the rules of what may be deleted"]
    print_screen(
        _plan_answer(made),
        partial(_print_plan, made, place, notes),
        more=[*more, "Its users are told by:"],
        command=shell_text(["trimtab", "purge", "notify", str(made.directory)]),
    )


def _plan_answer(made: Made) -> str:
    plan, candidates = made.plan, made.plan.candidates
    enough = made.horizon.answer.published.status is not HorizonStatus.OUT_OF_REACH
    target = format_exact_percent(plan.horizon.target, 0)
    when = (
        f"{format_duration(plan.notice_s)} after their users are told"
        if plan.notice_s
        else "as soon as it is published and armed: the plan has no notice period"
    )
    return (
        f"{plural(candidates.files, 'file', ',')} of {plural(len(candidates.users), 'user', ',')} "
        f"in {visible(plan.file_system.root)} may go, {format_bytes(candidates.allocated_bytes)}, "
        + when
        + (f"; that reaches {target}." if enough else f"; that does not reach {target}.")
    )


def _print_plan(made: Made, place: PurgePlace, notes: Sequence[str], out: Console) -> None:
    plan, everything = made.plan, extent().everything
    print_facts(out, _facts(made))
    _print_users(out, plan.candidates)
    print_sentences(out, notes, "yellow")
    if made.new_key:
        key = visible(str(place.key))
        words = f"A new key was made in {key}: whoever can read it can sign plans"
        print_sentences(out, [words], "yellow")
    if everything:
        print_sentences(out, plan.horizon.words)
        print_sentences(out, plan.rules.words, "dim")


def _print_users(out: Console, candidates: Candidates) -> None:
    users = sorted(candidates.users, key=lambda listed: -listed.allocated_bytes)
    shown = users[: extent().rows(_SHOWN)]
    rows = [
        (
            owner(user.uid),
            f"{user.files:,}",
            format_bytes(user.allocated_bytes),
            "-" if user.held_bytes is None else format_bytes(user.held_bytes),
            _day(user.oldest_use_s),
            _day(user.newest_use_s),
        )
        for user in shown
    ]
    print_rows(out, _USER_COLUMNS, rows)
    if len(users) > len(shown):
        out.print(f"... {len(users) - len(shown):,} more users: --all", style="dim")


def print_notified(published: Published, mails: MailResult | None, notes: Sequence[str]) -> None:
    """Print whom a plan was made public to, and from when on it may be carried out."""
    print_screen(
        _notified_answer(published, mails),
        partial(_print_notified, published, mails, notes),
        more=[
            f"Before it may delete it is armed: trimtab purge arm "
            f"{shell_text([str(published.loaded.directory)])}. What a run would delete:"
        ],
        command=shell_text(["trimtab", "purge", "run", str(published.loaded.directory)]),
    )


def _notified_answer(published: Published, mails: MailResult | None) -> str:
    publication, plan = published.publication, published.loaded.plan
    lists = plural(len(publication.lists), "list", ",")
    done = f"{lists} published" if published.fresh else f"{lists} were published before"
    files = plural(plan.candidates.files, "file", ",")
    untold = 0 if mails is None else len(mails.failures)
    failed = f"; {plural(untold, 'user', ',')} not told by mail" if untold else ""
    return (
        f"{done}: {files} of {visible(plan.file_system.root)} may be deleted from "
        f"{utc_moment(publication.not_before)} on{failed}.{_unnoticed(plan)}"
    )


def _print_notified(
    published: Published, mails: MailResult | None, notes: Sequence[str], out: Console
) -> None:
    print_facts(out, _published(published, mails))
    most = extent().rows(_SHOWN)
    for title, failures in (
        ("not told", () if mails is None else mails.failures),
        ("not known", () if mails is None else mails.unclear),
    ):
        for failure in failures[:most]:
            account, reason = visible(failure.account), visible(failure.reason)
            print_wrapped(out, f"{title}: {account} ({failure.uid}): {reason}", "yellow", indent=2)
        if len(failures) > most:
            out.print(f"  ... {len(failures) - most:,} more: --all", style="dim")
    print_sentences(out, notes, "yellow")


def print_armed(armed: Armed) -> None:
    """Print who armed a plan, and when it may be run."""
    plan, publication = armed.loaded.plan, armed.loaded.publication
    assert publication is not None
    who = "a person without a login" if armed.by.person is None else str(armed.by.person)
    by = f"Armed by {visible(armed.by.name or who)}"
    expires = utc_moment(plan.expires_at)
    run, then = ["trimtab", "purge", "run", str(armed.loaded.directory), "--apply"], "It is run by:"
    if armed.effective_at is None:
        answer = f"{by}; a second person has to arm it too, before {expires}."
        run, then = ["trimtab", "purge", "arm", str(armed.loaded.directory)], "That person enters:"
    else:
        begin = utc_moment(max(armed.effective_at, publication.not_before))
        answer = f"{by}: it may be run from {begin} until {expires}."
    answer += _unnoticed(plan)
    print_screen(answer, partial(_print_armed, armed), more=[then], command=shell_text(run))


def _unnoticed(plan: Plan) -> str:
    """Return what is said at once of a plan whose users have no time to save a file."""
    return "" if plan.notice_s else " The plan has no notice period: users cannot object in time."


def _print_armed(armed: Armed, out: Console) -> None:
    publication = armed.loaded.publication
    assert publication is not None
    facts = [("plan", armed.loaded.plan.id[:_SHORT_ID])]
    if armed.effective_at is not None:
        facts.append(("counts from", utc_moment(armed.effective_at)))
    print_facts(out, [*facts, ("notice ends", utc_moment(publication.not_before))])


def _facts(made: Made) -> Iterator[tuple[str, str]]:
    plan: Plan = made.plan
    yield "plan", plan.id[:_SHORT_ID]
    yield "stored in", visible(str(made.directory))
    yield "last used before", utc_moment(plan.before)
    yield "expires", utc_moment(plan.expires_at)


def _published(published: Published, mails: MailResult | None) -> Iterator[tuple[str, str]]:
    publication = published.publication
    yield "plan", published.loaded.plan.id[:_SHORT_ID]
    yield "lists in", visible(publication.directory)
    yield "published", utc_moment(publication.published_at)
    yield "expires", utc_moment(published.loaded.plan.expires_at)
    new = [listed.new_files for listed in publication.lists if listed.new_files is not None]
    if new:
        yield "new", f"{plural(sum(new), 'file', ',')} that no list named before"
    if mails is not None:
        before = f", {mails.sent_before:,} before" if mails.sent_before else ""
        yield "mails", f"{mails.sent:,} sent{before}"


def _day(at_s: int) -> str:
    at = Since1970(1).time(at_s)
    return "-" if at is None else f"{at:%Y-%m-%d}"
