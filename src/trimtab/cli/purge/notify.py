"""``trimtab purge notify``: notify users of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.errors import ToolError


@click.command("notify")
@click.argument("plan", metavar="PLAN", type=terms.PATH)
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
@terms.place
@options.output
def purge_notify_command(plan: Path, place: str | None, **terms_given: Any) -> None:
    """Publish each user's list of files in a plan: starts the notice period.

    Only its user can read a list. Lists are in the policy's directory of notices: as text, as JSON
    lines, and as NUL-terminated names. A published plan stays unchanged; each mail is sent once.
    Users with more files than [notice] names_most get counts by directory.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_plan import notified_document
    from trimtab.loop.purging.noticing import notify
    from trimtab.loop.purging.place import purge_place

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
