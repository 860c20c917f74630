"""``trimtab probe``, ``compare``, ``ladder`` and ``survey``: measure, and compare results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trimtab.show import command_options
from trimtab.show.screen_document import print_document, show_page

if TYPE_CHECKING:
    from trimtab.judge.ladder_analysis import Scale


@click.command("probe")
@click.argument("name", metavar="NAME")
@click.option("--site", "where", metavar="SITE", help="Site of the probe. Default: the only one.")
@command_options.output
@command_options.store
@click.option("--trim", is_flag=True, help="Trim every target first, if its driver can.")
def probe_command(name: str, where: str | None, store_url: str | None, trim: bool) -> None:
    """Run the probe NAME of a site file now, keep the run and judge it.

    Runs on this host, as an MPI job or as a batch job, depending on its launcher. Always removes
    its files and releases the nodes of a job.
    """
    from trimtab.probe.page_check import probe_document
    from trimtab.probe.probe_now import probe_now, probe_of
    from trimtab.probe.site_probe import runner_of
    from trimtab.show.screen_document import RUN_KEPT, progress_bar
    from trimtab.site.lookup import only_site, open_driver, open_site, open_store, reach_of

    site = open_site(where).site if where is not None else only_site().site
    probe = probe_of(site, name)
    with (
        open_store(store_url, site, create=True) as store,
        progress_bar(remains=RUN_KEPT) as progress,
    ):
        reach = reach_of(site)
        runner, driver = runner_of(site, store, reach), open_driver(site, clock=reach.clock)
        terms = {"clock": reach.clock, "progress": progress, "trim": trim}
        made = probe_now(site, probe, store, driver, runner, **terms)
    show_page(
        lambda: made,
        lambda: probe_document(made.runs, made.verdicts, made.comparisons, made.notes),
        more=(f"store: {made.store}",),
        error=made.error,
    )


@click.command("compare", cls=command_options.GroupedCommand)
@click.argument("names", metavar="A B", nargs=-1)
@command_options.output
@command_options.store
@click.option("--site", metavar="SITE", help="Site of a side that is a time range or a setting.")
@click.option("--metric", metavar="METRIC", help="Only this metric. Default: all that both have.")
@click.option("--probe", metavar="NAME", help="Only this probe. Default: all that both have.")
@command_options.margin("5%", "Ignore differences smaller than this.")
@click.option(
    "--wash-out",
    "wash_out_s",
    type=command_options.DURATION,
    default="0s",
    show_default=True,
    help="Time to leave out at the start of the later side.",
)
@click.option(
    "--targets",
    nargs=2,
    type=command_options.COUNT,
    metavar="A B",
    help="Number of targets on each side. Their expected effect on the rate is removed if "
    "--target-rate shows that the targets limit.",
)
@click.option(
    "--files",
    type=command_options.COUNT,
    help="Files of the whole job, with --targets. Default: one per task, or one shared file.",
)
@click.option(
    "--target-rate",
    "target_bytes_per_s",
    type=command_options.LARGE_RATE,
    help="Rate of one target alone: 15GB/s. Below it, targets do not limit the job.",
)
@click.option(
    "--autocorrelation",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Autocorrelation of neighbouring runs, for published results.",
)
def compare_command(names: tuple[str, ...], store_url: str | None, **sides: Any) -> None:
    """Estimate how much B differs from A, for each metric of each series that both have.

    A and B are each a SITE, a stretch of its time (SITE@2026-10-01..2026-11-01, which excludes the
    last date; SITE@2026-11-01, that day; or @2026-10-01.. with --site), a setting
    (SITE:nodes=4,tasks=64), a run's id or several joined by commas, result files of a tool, or a
    published result: '673320±31779/240 MB/s' (mean, deviation, number of runs), or a TOML file of
    those.

    Join result files of one side with commas (fio-1.json,fio-2.json), or use one directory per
    side: trimtab compare before/*.json after/*.json.
    """
    from trimtab.judge.comparison import CompareTerms
    from trimtab.probe.compare import CompareRequest, compare_sides, sides_of
    from trimtab.probe.page_comparison import compare_document

    terms = CompareTerms(margin=sides.pop("margin"), wash_out_s=sides.pop("wash_out_s"))
    before, after = sides_of(names)
    request = CompareRequest(before, after, store_url=store_url, terms=terms, **sides)
    result = compare_sides(request)
    show_page(lambda: result, lambda: compare_document(result))


@click.command("ladder")
@click.argument("where", metavar="SITE|FILE.toml")
@command_options.store
@command_options.margin("10%", "Loss that a layer may have without being called the bottleneck.")
@click.option(
    "--per",
    type=click.Choice(["whole", "server", "ost", "drive"]),
    help="Unit for rates. Default: the whole system if its size is known.",
)
@click.option(
    "--run",
    "runs",
    metavar="RUN",
    multiple=True,
    help="Run to use for its layer, by the beginning of its id. Repeatable.",
)
@command_options.report
@command_options.output
def ladder_command(
    where: str,
    *,
    store_url: str | None,
    margin: float,
    per: Scale | None,
    runs: tuple[str, ...],
    report: str | None,
) -> None:
    """Show the efficiency of each layer against the layer below.

    From the drives' data sheet to the clients: drives, RAID, OSTs, the network, clients,
    applications. Names the limiting layer if the numbers show it, and says how to measure
    what is missing. A file of published figures is computed in the same way, and each printed
    value is checked against the figures it should follow from.
    """
    from trimtab.probe.ladder import ladder_of
    from trimtab.probe.page_comparison import ladder_document

    ladder = ladder_of(where, store_url=store_url, margin=margin, scale=per, runs=runs)
    show_page(lambda: ladder, lambda: ladder_document(ladder), report)


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
    from trimtab.probe.page_sweep import plan_document, survey_document
    from trimtab.probe.survey import SurveyRequest, Tools, carry_out, error_of, prepare
    from trimtab.probe.survey_plan import SLOW, SurveyDocument, document_of_survey
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
