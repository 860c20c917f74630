"""``trimtab survey``: measure every OST by itself."""

from __future__ import annotations

from typing import Any

import click

from trimtab.show import command_options
from trimtab.show.screen_document import print_document, show_page

_COUNT = command_options.COUNT


@click.command("survey", cls=command_options.GroupedCommand)
@click.argument("where", metavar="SITE")
@click.option(
    "--client",
    "way",
    flag_value="client",
    default="client",
    help="Survey from this client (default).",
)
@click.option("--server", "way", flag_value="server", help="obdfilter-survey on the servers.")
@click.option(
    "--target", "targets", metavar="OST", multiple=True, help="Only this OST. Repeatable."
)
@click.option(
    "--all", "everything", is_flag=True, help="Survey every eligible OST. Default with --client."
)
@click.option(
    "--apply", is_flag=True, help="Carry out the survey. Default: print the plan, do nothing."
)
@click.option(
    "--size",
    "size_bytes",
    type=command_options.SIZE,
    help="Written to each OST. Default: 4 GiB with --client, 16 GiB with --server.",
)
@click.option(
    "--threads",
    type=command_options.COUNT,
    default=16,
    show_default=True,
    help="Threads on each OST (--server).",
)
@click.option(
    "--objects",
    type=command_options.COUNT,
    default=1,
    show_default=True,
    help="Objects on each OST (--server).",
)
@click.option(
    "--load-limit",
    "load_bytes_per_s",
    type=command_options.LARGE_RATE,
    default="20MB/s",
    show_default=True,
    help="Highest load of others on an OST; above it the OST is refused (--server).",
)
@click.option(
    "--together",
    is_flag=True,
    help="Survey all OSTs at once, also those of one server and of failover partners (--server).",
)
@click.option(
    "--deadline",
    "deadline_s",
    type=command_options.DURATION,
    help="Deadline of one wave on the servers. Default: derived from --size.",
)
@click.option(
    "--benchmark", default="builtin", show_default=True, help="builtin or ior (--client)."
)
@click.option(
    "--tasks",
    type=command_options.COUNT,
    default=4,
    show_default=True,
    help="Files on each OST (--client).",
)
@click.option(
    "--duration",
    "duration_s",
    type=command_options.DURATION,
    default="10s",
    show_default=True,
    help="Duration of each write and read (--client).",
)
@click.option(
    "--repetitions",
    type=command_options.COUNT,
    default=1,
    show_default=True,
    help="On each OST (--client).",
)
@click.option(
    "--direct/--buffered", default=True, help="With O_DIRECT (default) or not (--client)."
)
@command_options.as_json
@command_options.store
def survey_command(where: str, apply: bool, store_url: str | None, **options_given: Any) -> None:
    """Measure every OST by itself and list the slowest first.

    With --client, files of one stripe are written to each OST and read; their actual placement is
    read back first. With --server, obdfilter-survey writes below the files, on the named OSTs: it
    slows their clients down, and never runs at the same time on two OSTs of one server, or of two
    failover partners.

    Nothing is done without --apply.
    """
    from trimtab.probe.survey.page import plan_document, survey_document
    from trimtab.probe.survey.survey import SurveyRequest, Tools, carry_out, error_of, prepare
    from trimtab.probe.survey.survey_result import SLOW, SurveyDocument, document_of_survey
    from trimtab.show.screen_document import RUN_KEPT, progress_bar
    from trimtab.site.lookup import open_driver, open_site, open_store, reach_of

    if options_given["size_bytes"] is not None:
        options_given["size_bytes"] = int(options_given["size_bytes"])
    request = SurveyRequest(**options_given)
    site = open_site(where).site
    driver = open_driver(site)
    tools = Tools(reach_of(site))
    prepared = prepare(site, driver, request, tools)
    if not apply:
        show_page(
            lambda: SurveyDocument(prepared.plan, applied=False, slow_under=SLOW, store=None),
            lambda: plan_document(prepared.plan),
            more=("Nothing was done. Do it with --apply.",),
        )
        return
    if not command_options.wants_json():
        print_document(plan_document(prepared.plan))
    with (
        open_store(store_url, prepared.site, create=True) as store,
        progress_bar(remains=RUN_KEPT) as progress,
    ):
        survey = carry_out(prepared, driver, store, progress=progress, tools=tools)
        place = str(store.location)
    error = error_of(survey)
    show_page(
        lambda: document_of_survey(survey, place, error),
        lambda: survey_document(survey),
        more=(f"store: {place}",),
        error=error,
    )
