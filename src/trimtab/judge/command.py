"""``trimtab judge``: analyse months of runs."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from trimtab.base.error import UsageError, code_of
from trimtab.base.series import RUNS_LEFT_OUT
from trimtab.show import command_options
from trimtab.show.screen_document import print_note, show_page

if TYPE_CHECKING:
    from trimtab.explain.status import SiteStanding


@click.command("judge", cls=command_options.GroupedCommand)
@click.argument("where", metavar="[SITE]", required=False)
@click.option(
    "--csv",
    "file",
    metavar="FILE",
    help="Read a table instead of a store: CSV or Parquet; - is standard input.",
)
@click.option(
    "--time",
    metavar="COL",
    help="With --csv: column of times, or date+time of two. Default: detected.",
)
@click.option(
    "--time-format",
    metavar="WORDS",
    help="With --csv: how times are written, as %d/%m/%Y %H:%M (strptime). Default: detected.",
)
@click.option("--value", metavar="COL", help="With --csv: column of values. Default: detected.")
@click.option(
    "--decimal",
    type=click.Choice([".", ","]),
    help="With --csv: decimal mark of the values. Default: detected.",
)
@click.option(
    "--by",
    metavar="COL",
    help="With --csv: column that separates the series, or op+host of two; '' for none. "
    "Default: the one that distinguishes rows of the same time.",
)
@click.option(
    "--wide",
    is_flag=True,
    help="With --csv: every numeric column is a series; --value names their metric.",
)
@click.option(
    "--less-is-better",
    is_flag=True,
    help="With --csv: lower values are better, as for times and latencies.",
)
@click.option(
    "--timezone", metavar="ZONE", help="With --csv: zone of times without one. Default: UTC."
)
@command_options.since("Report only from this time. Default: start of the record.")
@command_options.until
@command_options.series
@command_options.cov_goal
@command_options.window
@command_options.afresh
@command_options.report
@command_options.fail_on
@command_options.output
@command_options.store
def judge_command(where: str | None, file: str | None, **settings: Any) -> None:
    """Analyse months of runs: verdicts, change points, daily figures and slow targets.

    For a SITE, judges every stored series. With --csv, judges any time series: one column of
    times, one of values.
    """
    if (where is None) == (file is None):
        raise UsageError(
            "name a SITE or a --csv FILE to judge",
            code="series-missing",
            hint="trimtab judge SITE, or trimtab judge --csv FILE; "
            "several files: cat FILES | trimtab judge --csv -",
        )
    report, fail_on = settings.pop("report"), settings.pop("fail_on")
    with ExitStack() as stack:  # frames are read from the store when displayed
        judged, standing = (
            (_of_file(file, settings), None)
            if file is not None
            else _of_site(str(where), settings, stack, report)
        )
        _answer(judged, standing, report)
    missed = any(series.verdict.status.value == "missed" for series in judged.judgement.series)
    if missed and fail_on:
        raise click.exceptions.Exit(10)


def _of_site(
    where: str, settings: dict[str, Any], stack: ExitStack, report: str | None
) -> tuple[Any, SiteStanding | None]:
    from trimtab.probe.site_judgement import JudgeTerms, judge_site
    from trimtab.probe.site_standing import at_present, standing_of
    from trimtab.show.screen_document import progress_bar
    from trimtab.site.place import opened
    from trimtab.store.kept import compared_afresh

    of_csv = ("time", "time_format", "value", "decimal", "by", "wide", "timezone", "less_is_better")
    for name in of_csv:
        if settings.pop(name):
            problem, hint = f"--{name.replace('_', '-')} needs --csv", "a site's store knows it"
            raise UsageError(problem, code="option-needs-csv", hint=hint)
    store_url, goal = settings.pop("store_url"), settings.pop("cov_goal")
    record = stack.enter_context(opened(where, store_url))
    afresh = settings.pop("afresh")
    with compared_afresh(afresh, print_note), progress_bar() as progress:
        terms = JudgeTerms(**settings, goal=goal)
        judged = judge_site(record.store, record.place, terms, progress=progress)
        if command_options.wants_json() and report is None and not afresh:
            return judged, None  # of which only a page begins with it
        store, place, until = record.store, record.place, record.place.moment(terms.until)
        standing = standing_of(store, place, judgement=judged.judgement, until=until)
        return judged, standing if until else at_present(store, place, standing)


def _of_file(file: str, settings: dict[str, Any]) -> Any:
    from trimtab.probe.series_file import FileTerms, judge_file
    from trimtab.probe.table_column import NamedColumns
    from trimtab.show.screen_document import QUIET_S, progress_bar

    of_site = [settings.pop(name) for name in ("probe", "metric", "store_url", "afresh")]
    if any(value not in (None, False) for value in of_site):
        problem = "--probe, --metric, --afresh and --store need a site, not a file"
        raise UsageError(problem, code="option-needs-site")
    columns = NamedColumns(*(settings.pop(name) for name in ("time", "value", "by", "wide")))
    limits = {"goal": settings.pop("cov_goal"), "window_s": settings.pop("window_s")}
    settings["timezone"] = settings["timezone"] or "UTC"
    terms = FileTerms(columns=columns, **settings)
    # A million rows are millions of objects without a cycle: searching for cycles takes seconds.
    gc.disable()
    with progress_bar(quiet_s=QUIET_S) as progress:
        return judge_file(file, terms, **limits, progress=progress)


def _answer(judged: Any, standing: SiteStanding | None, report: str | None) -> None:
    from trimtab.base.series import JudgeDocument
    from trimtab.judge.page import judge_document

    left_out = [note for note in judged.judgement.notes if code_of(note) == RUNS_LEFT_OUT]
    show_page(
        lambda: JudgeDocument(judged.judgement, judged.store, judged.file, report),
        lambda: judge_document(judged.judgement, judged.frames, judged.surveys, standing),
        report,
        more=left_out,
    )
