"""``trimtab purge arm``: a person says that a plan may be carried out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms


@click.command("arm")
@click.argument("plan", metavar="PLAN", type=terms.PATH)
@terms.place
@options.as_json
def command(plan: Path, place: str | None) -> None:
    """Approve a published plan in person.

    The policy then requires a delay, or the approval of a second person. A person is identified by
    the login behind this process, which `su` and `sudo` do not change.
    """
    from trimtab.cli.render.purge_plan import print_armed
    from trimtab.launch.process import utc_now
    from trimtab.loop.purging.arming import arm_plan
    from trimtab.loop.purging.place import purge_place
    from trimtab.report import documents

    armed = arm_plan(plan, place=purge_place(place), now=utc_now())
    publication = armed.loaded.publication
    assert publication is not None
    show(
        lambda: documents.purged.PurgeArmDocument(
            plan=armed.loaded.plan.id,
            at=datetime.fromtimestamp(armed.by.at_s, UTC),
            person=armed.by.person,
            name=armed.by.name,
            kind=armed.arming.kind,
            people=armed.people,
            effective_at=documents.purged.moment_of(armed.effective_at_s),
            not_before=publication.not_before,
            expires_at=armed.loaded.plan.expires_at,
        ),
        lambda: print_armed(armed),
    )
