"""Users told: every user's list written, then the mails that say where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.launch.process import utc_now
from trimtab.loop.mail import Mailer
from trimtab.loop.purging.answering import require_answer
from trimtab.loop.purging.place import PurgePlace
from trimtab.purge.notice.accounts import find_account
from trimtab.purge.notice.mailing import MailResult
from trimtab.purge.notice.notify import Published, mail, publish, write_names
from trimtab.purge.plan.load import LoadedPlan, plan_in, published_before
from trimtab.purge.run.collect import root_facts
from trimtab.purge.run.reserve import clear, set_aside
from trimtab.report.documents.encode import mapped, shape
from trimtab.visible import visible


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
        Of the plan. Plans beside it are looked through for the one before.
    names
        Users whose names of files are written beside their lists.
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
        As `load_plan` and `trimtab.purge.notice.notify.write_names` have them.
    """
    loaded, _ = plan_in(directory, place.key, owner=place.owner)
    return tuple(write_names(loaded, user, owner=place.owner) for user in users)


def set_room_aside(loaded: LoadedPlan, previous: LoadedPlan | None) -> str | None:
    """Make what a plan's runs need of its file system, which may be full by then; return why not.

    What was set aside for the plan before goes: one reserve a root is enough.
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
