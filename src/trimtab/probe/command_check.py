"""``trimtab check``, the main command, and ``sweep``, a probe over a matrix of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trimtab.formats.format_table import names
from trimtab.show import command_options
from trimtab.show.screen_document import show_page

if TYPE_CHECKING:
    from trimtab.probe.check_result import CheckResult


@click.command("check", cls=command_options.GroupedCommand)
@click.argument("path", metavar="PATH|SITE")
@command_options.output
@command_options.store
@click.option(
    "--site",
    metavar="NAME",
    help="Keep the result under this name. Default: the file system's UUID and mount point.",
)
@click.option(
    "--out",
    "report",
    metavar="FILE",
    help="Where to write the HTML report. Default: beside the store, under reports/.",
)
@click.option("--no-probe", is_flag=True, help="Inspect only: write and measure nothing on PATH.")
@click.option(
    "--probe",
    "benchmark",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", *names("phases")]),
    help="Benchmark; auto uses IOR if MPI is available, else fio, else the built-in generator.",
)
@click.option(
    "--budget",
    "budget_s",
    type=command_options.DURATION,
    default="60s",
    show_default=True,
    help="Time for the whole probe.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=command_options.DURATION,
    help="Longest time of one write or read. Default: its fixed time and 120 s more.",
)
@click.option(
    "--space",
    "space_bytes",
    type=command_options.SIZE,
    help="Most space for the probe's files. Default: the smaller of 64GiB and 5 % of the free.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1, 10_000),
    help="Writes and reads, interleaved. Default: as many as fit the budget at 5 s each.",
)
@click.option(
    "--tasks",
    type=click.IntRange(1, 4096),
    help="Tasks that do I/O at the same time. Default: two per processor, at most 16.",
)
@click.option(
    "--transfer-size",
    "transfer_size_bytes",
    type=command_options.SIZE,
    default="1MiB",
    show_default=True,
    help="Bytes of one write or read call.",
)
@click.option(
    "--block-size",
    "block_size_bytes",
    type=command_options.SIZE,
    help="Size of one task's file. Default: a power of two that fits --space.",
)
@click.option(
    "--direct/--buffered",
    "direct",
    default=True,
    show_default=True,
    help="Use O_DIRECT or the page cache.",
)
@click.option(
    "--fullness-limit",
    type=command_options.FRACTION,
    help="Highest fullness. Default: the site file's, else 75%.",
)
@command_options.cov_goal
@click.option(
    "--allocator-statistics/--no-allocator-statistics",
    "allocator_statistics",
    default=True,
    show_default=True,
    help="Turn on ext4's mb_stats while probing if it is off, then restore it.",
)
@command_options.fail_on
def check_command(fail_on: str | None, **settings: object) -> None:
    """Measure PATH, keep the result, judge it, and list misconfigurations.

    Inspects the file system and its devices, runs a short write and read probe within a budget of
    time and space, keeps the run with its raw output, compares it with earlier ones, and writes a
    report. Always removes the probe's files.
    """
    from trimtab.probe.check import check
    from trimtab.probe.check_plan import CheckOptions, of_site
    from trimtab.probe.check_result import CheckDocument
    from trimtab.probe.page_check import check_document
    from trimtab.show.screen_document import RUN_KEPT, progress_bar
    from trimtab.site.lookup import reach_of, site_file
    from trimtab.site.path_access import THIS_HOST, refuse_wrong_mount

    def page(result: CheckResult) -> str:
        from trimtab.show.document import render_document

        return render_document(check_document(result))

    loaded, reach = site_file(str(settings["path"])), THIS_HOST
    if loaded is not None:
        reach = reach_of(loaded.site)
        refuse_wrong_mount(loaded.site, None, reach)
        settings = of_site(loaded.site, settings)
    requested = CheckOptions(**settings)  # type: ignore[arg-type]
    with progress_bar(remains=RUN_KEPT) as progress:
        result, error = check(
            requested,
            page=page,
            known=None if loaded is None else loaded.site,
            progress=progress,
            reach=reach,
        )
    show_page(
        lambda: CheckDocument(result, error),
        lambda: check_document(result),
        more=(f"report: {result.report}",) if result.report else (),
        error=error,
    )
    if fail_on and result.missed_history:
        raise click.exceptions.Exit(10)


@click.command("sweep")
@click.argument("spec", metavar="SPEC.toml")
@command_options.store
@click.option(
    "--now",
    metavar="NAME=LEVEL",
    multiple=True,
    help="Level of [manual] that is set now. Repeatable.",
)
@click.option(
    "--workload",
    metavar="FACTOR",
    multiple=True,
    help="Factor that is part of the workload: find the best of the others at each of its levels.",
)
@click.option("--no-run", is_flag=True, help="Measure nothing: show progress and result.")
@command_options.report
@command_options.output
def sweep_command(
    spec: str,
    *,
    store_url: str | None,
    now: tuple[str, ...],
    workload: tuple[str, ...],
    no_run: bool,
    report: str | None,
) -> None:
    """Measure every combination of settings in SPEC.toml and find the best.

    Points are measured in shuffled rounds and stored one by one: interrupt it at any time, and
    start it again to continue. What a person must set first (NPS, CPT, a BIOS option) waits until
    --now says that it is set.
    """
    from trimtab.base.error import UsageError
    from trimtab.judge.sweep_analysis import analyse_sweep, measured_points
    from trimtab.probe.page_sweep import extent_sections, sweep_document
    from trimtab.probe.question_file import levels_now, load_sweep
    from trimtab.probe.sweep import document_of_sweep, measure_sweep, points_of, state_in_store
    from trimtab.show.screen_document import POINTS_KEPT, progress_bar
    from trimtab.site.lookup import open_site, with_store

    sweep = load_sweep(spec)
    site = open_site(sweep.site).site
    levels, url = levels_now(sweep, now), with_store(site, store_url)
    for factor in workload:
        if factor not in {*sweep.factors, *sweep.manual}:
            raise UsageError(f"{factor!r} is not a factor of {sweep.name}", code="factor-unknown")
    if no_run:
        state, place = state_in_store(sweep, site, url)
    else:
        with progress_bar(remains=POINTS_KEPT) as progress:
            state, place = measure_sweep(sweep, site, url, levels, progress)
    analysis = analyse_sweep(measured_points(points_of(state)), workload=workload)
    show_page(
        lambda: document_of_sweep(state, analysis, store=place, site=site.name),
        lambda: sweep_document(sweep.name, site.name, analysis, extent_sections(state)),
        report,
        more=[f"store: {place}"],
        error=state.error,
    )
