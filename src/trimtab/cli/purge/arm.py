"""``trimtab purge arm``: a person says that a plan may be carried out."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.purge import terms


@click.command("arm")
@click.argument("plan", metavar="PLAN", type=terms.PATH)
@terms.place
@options.as_json
def command(plan: Path, place: str | None, as_json: bool) -> None:
    """Say, as a person, that a published plan may be carried out.

    By the policy a delay passes afterwards, or a second person has to say so too. Who it was is
    the login behind this process, which `su` and `sudo` do not change.
    """
    from trimtab.launch.process import utc_now
    from trimtab.loop.purging.arming import arm_plan
    from trimtab.loop.purging.place import purge_place

    armed = arm_plan(plan, place=purge_place(place), now=utc_now())
    if as_json:
        from trimtab.report.documents.purge_run import arm_document

        document = arm_document(
            armed.loaded,
            armed.by,
            kind=armed.arming.kind,
            people=armed.people,
            effective_at_s=armed.effective_at_s,
        )
        click.echo(document.to_json())
    else:
        from trimtab.cli.render.purge_plan import print_armed

        print_armed(armed)
