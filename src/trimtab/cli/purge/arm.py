"""``trimtab purge arm``: a person approves a plan."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.errors import UsageError


@click.command("arm")
@click.argument("plan", metavar="PLAN", type=terms.PATH)
@click.option(
    "--approved",
    "approved_on",
    metavar="SITE",
    help="Only if an admin approved this plan's hash on the dashboard of SITE.",
)
@options.store
@terms.place
@options.output
def purge_arm_command(
    plan: Path, approved_on: str | None, store_url: str | None, place: str | None
) -> None:
    """Approve a published plan in person.

    The policy then requires a delay, or the approval of a second person. A person is identified by
    the login behind this process, which `su` and `sudo` do not change.
    """
    from trimtab.cli.render.purge_plan import armed_document
    from trimtab.launch.process import utc_now
    from trimtab.loop.purging.arming import approval_on, arm_plan
    from trimtab.loop.purging.place import purge_place

    if approved_on is None and store_url is not None:
        raise UsageError(
            "--store only goes with --approved", code="options-exclusive", hint="--approved SITE"
        )
    purges, now = purge_place(place), utc_now()
    check = None if approved_on is None else approval_on(approved_on, store_url, purges, now)
    armed = arm_plan(plan, place=purges, now=now, check=check)
    show_page(lambda: armed, lambda: armed_document(armed))
