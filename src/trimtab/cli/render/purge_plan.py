"""A plan as text: what stands in it, who was told, who armed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from trimtab.cli.render.purge_tables import owner
from trimtab.cli.render.text import (
    console,
    print_facts,
    print_sentences,
    print_table,
    table,
    utc_moment,
)
from trimtab.loop.purging.arming import Armed
from trimtab.loop.purging.place import PurgePlace
from trimtab.loop.purging.planning import Made
from trimtab.purge.notice.mailing import MailResult
from trimtab.purge.notice.notify import Published
from trimtab.purge.plan.model import Plan
from trimtab.units import format_bytes, format_duration, format_percent, plural
from trimtab.visible import visible

_SHOWN = 10


def print_plan(made: Made, place: PurgePlace, notes: Sequence[str]) -> None:
    """Print a plan that was just made."""
    out = console()
    plan = made.plan
    candidates = plan.candidates
    held = format_bytes(candidates.allocated_bytes)
    out.print(
        f"plan of {visible(plan.file_system.root)}: {plural(candidates.files, 'file', ',')} of "
        f"{plural(len(candidates.users), 'user', ',')}, {held}",
        style="bold",
    )
    print_facts(out, _facts(made))
    print_sentences(out, plan.horizon.words)
    print_sentences(out, plan.rules.words, "dim")
    print_sentences(out, notes, "yellow")
    if made.new_key:
        print_sentences(
            out,
            [
                f"a new key was made in {visible(str(place.key))}: plans are signed with it, and "
                "whoever can read it can sign one"
            ],
            "yellow",
        )
    out.print()
    made_table = table("user", "files>", "listed>", "of>", "oldest", "youngest")
    for user in sorted(candidates.users, key=lambda listed: -listed.allocated_bytes)[:_SHOWN]:
        made_table.add_row(
            owner(user.uid),
            f"{user.files:,}",
            format_bytes(user.allocated_bytes),
            "-" if user.held_bytes is None else format_bytes(user.held_bytes),
            _day(user.oldest_use_s),
            _day(user.newest_use_s),
        )
    print_table(out, made_table)
    if len(candidates.users) > _SHOWN:
        more = plural(len(candidates.users) - _SHOWN, "user", ",")
        print_sentences(out, [f"... and {more} more"], "dim")
    shown = visible(str(made.directory))
    out.print(f"\nnext: trimtab purge notify {shown}", style="dim", soft_wrap=True)


def print_notified(published: Published, mails: MailResult | None, notes: Sequence[str]) -> None:
    """Print whom a plan was made public to, and from when on it may be carried out."""
    out = console()
    publication, plan = published.publication, published.loaded.plan
    lists = publication.lists
    word = "published" if published.fresh else "was published already"
    out.print(f"plan {plan.id} {word}: {plural(len(lists), 'list', ',')}", style="bold")
    print_facts(out, _published(published))
    if mails is not None:
        before = f", {mails.sent_before:,} before" if mails.sent_before else ""
        print_facts(out, [("mails", f"{mails.sent:,} sent{before}")])
        for title, failures in (("not told", mails.failures), ("not known", mails.unclear)):
            for failure in failures[:_SHOWN]:
                account, reason = visible(failure.account), visible(failure.reason)
                words = f"{title}: {account} ({failure.uid}): {reason}"
                print_sentences(out, [words], "yellow")
            if len(failures) > _SHOWN:
                print_sentences(out, [f"... and {len(failures) - _SHOWN} more"], "yellow")
    print_sentences(out, notes, "yellow")
    shown = visible(str(published.loaded.directory))
    out.print(
        f"\nnext: trimtab purge run {shown}, a dry run; and before it may delete: "
        f"trimtab purge arm {shown}",
        style="dim",
        soft_wrap=True,
    )


def print_armed(armed: Armed) -> None:
    """Print who armed a plan, and what is still missing."""
    out = console()
    plan = armed.loaded.plan
    who = armed.by.name or (
        "somebody whom no login tells" if armed.by.person is None else str(armed.by.person)
    )
    out.print(f"plan {plan.id} armed by {visible(who)}", style="bold")
    effective_s = armed.effective_at_s
    if effective_s is None:
        words = "a second person has to arm it too"
    else:
        words = f"it counts from {utc_moment(datetime.fromtimestamp(effective_s, UTC))}"
    print_sentences(out, [words])
    assert armed.loaded.publication is not None
    not_before = utc_moment(armed.loaded.publication.not_before)
    print_sentences(out, [f"the notice period lasts until {not_before}"])
    print_sentences(out, [f"the plan expires at {utc_moment(plan.expires_at)}"])


def _facts(made: Made) -> Iterator[tuple[str, str]]:
    plan: Plan = made.plan
    yield "stored in", visible(str(made.directory))
    yield "id", plan.id
    yield "last used before", utc_moment(plan.before)
    yield "target", format_percent(plan.horizon.target, 2)
    yield "notice", f"{format_duration(plan.notice_s)} from when its users are told"
    yield "expires", utc_moment(plan.expires_at)


def _published(published: Published) -> Iterator[tuple[str, str]]:
    publication = published.publication
    yield "lists in", visible(publication.directory)
    yield "published", utc_moment(publication.published_at)
    yield "not before", utc_moment(publication.not_before)
    yield "expires", utc_moment(published.loaded.plan.expires_at)
    new = [listed.new_files for listed in publication.lists if listed.new_files is not None]
    if new:
        yield "new", f"{plural(sum(new), 'file', ',')} that no list named before"


def _day(at_s: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return "-"
