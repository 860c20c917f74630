"""``trimtab survey``: every OST by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.render.screen import Column, print_rows, print_wrapped
from trimtab.cli.render.text import console, moment
from trimtab.model.survey import METRICS, SLOW
from trimtab.units import format_bytes, format_bytes_per_s, format_percent, plural
from trimtab.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from trimtab.model.survey import Standing, Survey, SurveyPlan


_COUNT = options.COUNT
_NAMED = 4


@click.command("survey", cls=options.GroupedCommand)
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
    type=options.SIZE,
    help="Written to each OST. Default: 4 GiB with --client, 16 GiB with --server.",
)
@click.option(
    "--threads",
    type=options.COUNT,
    default=16,
    show_default=True,
    help="Threads on each OST (--server).",
)
@click.option(
    "--objects",
    type=options.COUNT,
    default=1,
    show_default=True,
    help="Objects on each OST (--server).",
)
@click.option(
    "--load-limit",
    "load_bytes_per_s",
    type=options.LARGE_RATE,
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
    type=options.DURATION,
    help="Deadline of one wave on the servers. Default: derived from --size.",
)
@click.option(
    "--benchmark", default="builtin", show_default=True, help="builtin or ior (--client)."
)
@click.option(
    "--tasks",
    type=options.COUNT,
    default=4,
    show_default=True,
    help="Files on each OST (--client).",
)
@click.option(
    "--duration",
    "duration_s",
    type=options.DURATION,
    default="10s",
    show_default=True,
    help="Duration of each write and read (--client).",
)
@click.option(
    "--repetitions",
    type=options.COUNT,
    default=1,
    show_default=True,
    help="On each OST (--client).",
)
@click.option(
    "--direct/--buffered", default=True, help="With O_DIRECT (default) or not (--client)."
)
@options.as_json
@options.store
def command(where: str, apply: bool, store_url: str | None, **options_given: Any) -> None:
    """Measure every OST by itself and list the slowest first.

    With --client, files of one stripe are written to each OST and read; where they really lie is
    read back first. With --server, obdfilter-survey writes below the files, on the OSTs that are
    named: it slows their clients down, and never runs on two OSTs of one server, or of two servers
    that stand in for one another, at the same time.

    Nothing is done without --apply.
    """
    from trimtab.cli.render.progress import RUN_KEPT, progress_bar
    from trimtab.loop.sites import open_driver, open_site, reach_of, with_store
    from trimtab.loop.stores import open_store
    from trimtab.loop.survey.request import Asked, Tools, carry_out, error_of, prepare
    from trimtab.model.survey import SLOW
    from trimtab.report import documents

    if options_given["size_bytes"] is not None:
        options_given["size_bytes"] = int(options_given["size_bytes"])
    request = Asked(**options_given)
    site = open_site(where).site
    driver = open_driver(site)
    tools = Tools(reach_of(site))
    prepared = prepare(site, driver, request, tools)
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
        progress_bar(remains=RUN_KEPT) as progress,
    ):
        survey = carry_out(prepared, driver, store, progress=progress, tools=tools)
        place = str(store.location)
    error = error_of(survey)
    show(
        lambda: documents.measured.survey_document(survey, place, error),
        lambda: print_survey(survey, place),
        error=error,
    )


_WAYS = {"client": "from this client", "server": "on its servers"}


def print_plan(plan: SurveyPlan, *, applied: bool) -> None:
    """Print what would be done to which targets; ``applied`` leaves out how to do it."""
    out = console()
    targets = plural(len(plan.targets), "OST")
    out.print(visible(f"survey of {plan.site} {_WAYS[plan.way]}: {targets}"), style="bold")
    for name, value in plan.parameters.items():
        out.print(f"  {name} {_value(name, value)}")
    out.print("\nfor each wave, one after the other:")
    for number, step in enumerate(plan.steps, start=1):
        print_wrapped(out, f"{number}. {step}", indent=2, hang=3)
    out.print()
    for number, wave in enumerate(plan.waves, start=1):
        names = ", ".join(
            f"{candidate.target} on {candidate.server}" if candidate.server else candidate.target
            for candidate in wave
        )
        print_wrapped(out, f"wave {number}: {names}", indent=2)
    for candidate in plan.refused:
        out.print(
            f"  left out: {candidate.target}: {visible(candidate.refusal or '')}", style="yellow"
        )
    if not applied:
        out.print("\nNothing was done. Do it with --apply.", style="bold")
    else:
        out.print()


def print_survey(survey: Survey, store: str) -> None:
    """Print every target, the slowest first, and how far apart they are."""
    out, run = console(), survey.run
    print_wrapped(out, _answer(survey), "bold")
    head = f"{run.site}: survey {_WAYS[survey.plan.way]} ({run.kind}), {run.status.value}"
    print_wrapped(out, f"{head}, {moment(run.at)}", "dim")
    _print_table(out, survey)
    out.print()
    for spread in survey.spreads:
        cov = (
            "" if spread.cov is None else f", coefficient of variation {format_percent(spread.cov)}"
        )
        out.print(
            f"{_title(spread.metric)}: median {format_bytes_per_s(spread.median_bytes_per_s)},"
            f" {format_bytes_per_s(spread.least_bytes_per_s)} to"
            f" {format_bytes_per_s(spread.most_bytes_per_s)} over"
            f" {plural(spread.targets, 'OST')}{cov}"
        )
    for note in survey.notes:
        print_wrapped(out, note, "yellow")
    out.print()
    out.print(f"run       {run.id}   (trimtab show {run.id[:13]})", style="dim")
    out.print(f"store     {visible(store)}", style="dim", soft_wrap=True)


def _answer(survey: Survey) -> str:
    """Return which targets are slow."""
    slow = [standing.result.target for standing in survey.standings if standing.slow]
    under, count = format_percent(SLOW, 0), plural(len(survey.standings), "OST")
    if not survey.spreads:
        return f"No rate of {count} was measured."
    if not slow:
        return f"None of {count} is under {under} of the median."
    more = f" and {len(slow) - _NAMED} more" if len(slow) > _NAMED else ""
    named = ", ".join(slow[:_NAMED])
    return f"{len(slow)} of {count} under {under} of the median: {named}{more}."


def _print_table(out: Console, survey: Survey) -> None:
    metrics = [spread.metric for spread in survey.spreads] or list(METRICS[:1])
    columns = [Column("TARGET"), Column("SERVER", drop=2)]
    for metric in metrics:
        columns.append(Column(_title(metric).upper(), right=True))
        columns.append(Column("OF MEDIAN", right=True, drop=1))
    columns.append(Column("RESULT", wraps=True))
    print_rows(out, columns, [_row(standing, metrics) for standing in survey.standings])


def _row(standing: Standing, metrics: list[str]) -> list[str | Text]:
    from rich.text import Text

    style = "yellow" if standing.slow else ""
    cells: list[str | Text] = [Text(visible(standing.result.target), style=style)]
    cells.append(visible(standing.result.server or "?"))
    for metric in metrics:
        rate, ratio = standing.rates.get(metric), standing.ratios.get(metric)
        cells.append("?" if rate is None else format_bytes_per_s(rate))
        cells.append("?" if ratio is None else format_percent(ratio))
    reason = standing.result.reason
    outcome = standing.result.outcome.value + ("" if reason is None else f": {reason}")
    return [*cells, visible(outcome)]


def _title(metric: str) -> str:
    return metric.removesuffix("_bandwidth")


def _value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if name.endswith("_bytes_per_s") and isinstance(value, (int, float)):
        return format_bytes_per_s(value)
    if name.endswith("_bytes") and isinstance(value, (int, float)):
        return format_bytes(value)
    return f"{value:g} s" if name.endswith("_s") and isinstance(value, float) else str(value)
