"""``trimtab purge plan``, ``notify`` and ``arm``: freeze a list, publish it, approve it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.base.error import ToolError, UsageError
from trimtab.purge import command
from trimtab.show import command_options
from trimtab.show.screen_document import show_page


@click.command("plan", cls=command_options.GroupedCommand)
@command.index
@click.option(
    "--policy", type=command_options.PATH, required=True, metavar="FILE", help="The purge policy."
)
@click.option(
    "--out", type=command_options.PATH, required=True, metavar="DIR",
    help="New directory for the plan, in a directory owned by root.",
)  # fmt: skip
@command.site
@command_options.place
@command.threads
@command_options.dask_or_site
@command_options.store
@command_options.output
def purge_plan_command(directory: Path, policy: Path, out: Path, **options_given: Any) -> None:
    """Freeze and sign a list of purge candidates, the longest unused first.

    The list exceeds the current need: it covers the growth forecast until the plan expires, times
    the policy's factor. A plan never changes. Nothing is deleted before its users are notified and
    the notice period is over. The first plan creates the signing key.
    """
    from trimtab.base.event import utc_now
    from trimtab.purge.plan.plan_making import make_plan
    from trimtab.purge.plan.screen import plan_document
    from trimtab.purge.policy_file import load_policy
    from trimtab.show.screen_document import progress_bar
    from trimtab.store.location import purge_place

    loaded, where = load_policy(policy), purge_place(options_given["place"])
    question = command.horizon_question(directory, loaded.policy, **options_given)
    with progress_bar() as progress:
        made = make_plan(question, loaded, out, place=where, now=utc_now(), progress=progress)
    show_page(lambda: made, lambda: plan_document(made, where))


@click.command("notify")
@click.argument("plan", metavar="PLAN", type=command_options.PATH)
@click.option(
    "--files", "with_mail", flag_value=False, default=False, type=bool,
    help="Write each user's list (default).",
)  # fmt: skip
@click.option(
    "--mail", "with_mail", flag_value=True, type=bool, help="Also mail users where their list is."
)
@click.option("--again", is_flag=True, help="Resend mails that may not have been delivered.")
@click.option(
    "--accept-unknown", is_flag=True,
    help="Continue although most users of the plan have no account here.",
)  # fmt: skip
@click.option(
    "--names", "names", multiple=True, metavar="USER",
    help="Write this user's file names beside the list that counts them. Repeatable.",
)  # fmt: skip
@command_options.place
@command_options.output
def purge_notify_command(plan: Path, place: str | None, **terms_given: Any) -> None:
    """Publish each user's list of files in a plan: starts the notice period.

    Only its user can read a list. Lists are in the policy's directory of notices: as text, as JSON
    lines, and as NUL-terminated names. A published plan stays unchanged; each mail is sent once.
    Users with more files than [notice] names_most get counts by directory.
    """
    from trimtab.purge.plan.notice import notify
    from trimtab.purge.plan.screen import notified_document
    from trimtab.show.screen_document import progress_bar
    from trimtab.store.location import purge_place

    with progress_bar() as progress:
        notified = notify(
            plan,
            place=purge_place(place),
            **terms_given,
            progress=lambda done, of: progress("writing lists", done / max(of, 1)),
        )
    failed = 0 if notified.mails is None else len(notified.mails.failures)
    error = ToolError(
        f"{failed} users were not notified by mail",
        code="mail-failed",
        hint="the same command retries",
    )
    show_page(
        lambda: notified,
        lambda: notified_document(notified.published, notified.mails, notified.notes),
        error=error if failed else None,
    )


@click.command("arm")
@click.argument("plan", metavar="PLAN", type=command_options.PATH)
@click.option(
    "--approved",
    "approved_on",
    metavar="SITE",
    help="Only if an admin approved this plan's hash on the dashboard of SITE.",
)
@command_options.store
@command_options.place
@command_options.output
def purge_arm_command(
    plan: Path, approved_on: str | None, store_url: str | None, place: str | None
) -> None:
    """Approve a published plan in person.

    The policy then requires a delay, or the approval of a second person. A person is identified by
    the login behind this process, which `su` and `sudo` do not change.
    """
    from trimtab.base.event import utc_now
    from trimtab.purge.plan.arming import approval_on, arm_plan
    from trimtab.purge.plan.screen import armed_document
    from trimtab.store.location import purge_place

    if approved_on is None and store_url is not None:
        raise UsageError(
            "--store only goes with --approved", code="options-exclusive", hint="--approved SITE"
        )
    purges, now = purge_place(place), utc_now()
    check = None if approved_on is None else approval_on(approved_on, store_url, purges, now)
    armed = arm_plan(plan, place=purges, now=now, check=check)
    show_page(lambda: armed, lambda: armed_document(armed))
