"""``trimtab survey``: every OST by itself."""

from __future__ import annotations

from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.output import show

_COUNT = click.IntRange(min=1)


@click.command("survey")
@click.argument("where", metavar="SITE")
@click.option(
    "--client", "way", flag_value="client", default="client", help="From this client: the default."
)
@click.option("--server", "way", flag_value="server", help="obdfilter-survey on the servers.")
@click.option("--target", "targets", metavar="OST", multiple=True, help="Only this OST; repeat it.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Every OST that may be surveyed, those that may not left out. Default with --client.",
)
@click.option("--apply", "apply", is_flag=True, help="Do it. Default: print the plan, do nothing.")
@click.option(
    "--size",
    "size_bytes",
    type=options.SIZE,
    help="Written to each OST. Default: 4 GiB with --client, 16 GiB with --server.",
)
@click.option(
    "--threads", type=_COUNT, default=16, show_default=True, help="On each OST, with --server."
)
@click.option(
    "--objects", type=_COUNT, default=1, show_default=True, help="On each OST, with --server."
)
@click.option(
    "--load-limit",
    "load_bytes_per_s",
    type=options.SIZE,
    default="20MB",
    show_default=True,
    help="Bytes a second that others may move on an OST; more, and it is refused (--server).",
)
@click.option(
    "--together",
    is_flag=True,
    help="All at once, also those of one server and of failover partners (--server).",
)
@click.option(
    "--deadline",
    "deadline_s",
    type=options.DURATION,
    help="For one wave on the servers. Default: by --size.",
)
@click.option(
    "--benchmark", default="builtin", show_default=True, help="builtin or ior (--client)."
)
@click.option(
    "--tasks", type=_COUNT, default=4, show_default=True, help="Files on each OST (--client)."
)
@click.option(
    "--duration",
    "duration_s",
    type=options.DURATION,
    default="10s",
    show_default=True,
    help="Of each write and read (--client).",
)
@click.option(
    "--repetitions", type=_COUNT, default=1, show_default=True, help="On each OST (--client)."
)
@click.option(
    "--direct/--buffered", default=True, help="With O_DIRECT (default) or not (--client)."
)
@options.as_json
@options.store
def command(where: str, apply: bool, store_url: str | None, **asked_for: Any) -> None:
    """Measure every OST by itself, and show the slowest first.

    With --client, files of one stripe are written to each OST and read; where they really lie is
    read back first. With --server, obdfilter-survey writes below the files, on the OSTs that are
    named: it slows their clients down, and never runs on two OSTs of one server, or of two servers
    that stand in for one another, at the same time.

    Nothing is done without --apply.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.survey import print_plan, print_survey
    from trimtab.loop.sites import open_driver, open_site, reach_of, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.survey.request import Asked, Tools, carry_out, error_of, prepare
    from trimtab.model.survey import SLOW
    from trimtab.report import documents

    if asked_for["size_bytes"] is not None:
        asked_for["size_bytes"] = int(asked_for["size_bytes"])
    asked = Asked(**asked_for)
    site = open_site(where).site
    driver = open_driver(site)
    tools = Tools(reach_of(site))
    prepared = prepare(site, driver, asked, tools)
    if not apply:
        show(
            lambda: documents.measured.SurveyDocument(
                prepared.plan, applied=False, slow_under=SLOW, store=None
            ),
            lambda: print_plan(prepared.plan, applied=False),
        )
        return
    if not options.wants_json():
        print_plan(prepared.plan, applied=True)
    with (
        open_store(with_store(prepared.site, store_url), create=True) as store,
        progress_bar() as progress,
    ):
        survey = carry_out(prepared, driver, store, progress=progress, tools=tools)
        place = str(store.location)
    error = error_of(survey)
    show(
        lambda: documents.measured.survey_document(survey, place, error),
        lambda: print_survey(survey, place),
        error=error,
    )
