"""``trimtab judge``: what months of runs say."""

from __future__ import annotations

from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.errors import UsageError


@click.command("judge")
@click.argument("where", metavar="[SITE]", required=False)
@click.option(
    "--csv", "file", metavar="FILE", help="A table instead: CSV or Parquet; - reads stdin."
)
@click.option("--time", metavar="COL", help="With --csv: the column of times. Default: found.")
@click.option("--value", metavar="COL", help="With --csv: the column of values. Default: found.")
@click.option("--by", metavar="COL", help="With --csv: the column that tells series apart.")
@click.option("--less-is-better", is_flag=True, help="With --csv: of times and latencies.")
@click.option("--timezone", metavar="ZONE", help="With --csv: of times without one. Default: UTC.")
@click.option("--since", metavar="TIME", help="What is told begins here. Default: with the record.")
@click.option("--until", metavar="TIME", help="What came later is not looked at.")
@click.option("--probe", metavar="NAME", help="Only this probe.")
@click.option("--metric", metavar="METRIC", help="Only this metric.")
@click.option(
    "--cov-goal",
    type=options.FRACTION,
    help="COV over the window not to exceed. Default: the site file's, else 8%.",
)
@click.option(
    "--window",
    "window_s",
    type=options.POSITIVE_DURATION,
    help="Twice the longest job. Default: the site file's, else 48h.",
)
@click.option("--report", metavar="FILE", help="Also write a page with charts.")
@click.option("--fail-on", type=click.Choice(["missed"]), help="Exit with 10 on a missed verdict.")
@options.as_json
@options.store
def command(where: str | None, file: str | None, **asked: Any) -> None:
    """Say what months of runs say: verdicts, changes of level, days, and slow targets.

    Of a SITE everything that is kept is judged. With --csv the same is said of any series of
    anybody's: one column of times, one of values.
    """
    if (where is None) == (file is None):
        raise UsageError("judge what?", hint="trimtab judge SITE, or trimtab judge --csv FILE")
    judged = _of_file(file, asked) if file is not None else _of_site(str(where), asked)
    _answer(judged, asked["report"])
    missed = any(one.verdict.status.value == "missed" for one in judged.judgement.series)
    if missed and asked["fail_on"] == "missed":
        raise click.exceptions.Exit(10)


def _of_site(where: str, asked: dict[str, Any]) -> Any:
    from trimtab.cli.render.progress import progress_bar
    from trimtab.loop.event_log import place_of
    from trimtab.loop.site_judgement import Terms, judge_site
    from trimtab.loop.sites import site_file, with_store
    from trimtab.loop.stores import open_store

    for name in ("time", "value", "by", "timezone"):
        if asked[name] is not None:
            raise UsageError(f"--{name} is of --csv", hint="a site's store knows its columns")
    if asked["less_is_better"]:
        raise UsageError("--less-is-better is of --csv", hint="a site's metrics are known by name")
    terms = Terms(
        since=asked["since"],
        until=asked["until"],
        probe=asked["probe"],
        metric=asked["metric"],
        goal=asked["cov_goal"],
        window_s=asked["window_s"],
    )
    loaded = site_file(where)
    with (
        open_store(with_store(loaded and loaded.site, asked["store_url"])) as store,
        progress_bar() as progress,
    ):
        return judge_site(store, place_of(store, where), terms, progress=progress)


def _of_file(file: str, asked: dict[str, Any]) -> Any:
    from trimtab.loop.series_file import Columns, FileTerms, judge_file

    for name in ("probe", "metric", "store_url"):
        if asked[name] is not None:
            raise UsageError("--probe, --metric and --store are of a site, not of a file")
    terms = FileTerms(
        columns=Columns(asked["time"], asked["value"], asked["by"]),
        since=asked["since"],
        until=asked["until"],
        timezone=asked["timezone"] or "UTC",
        less_is_better=asked["less_is_better"],
    )
    return judge_file(file, terms, goal=asked["cov_goal"], window_s=asked["window_s"])


def _answer(judged: Any, report: str | None) -> None:
    from trimtab.cli.render.judge import print_judgement
    from trimtab.report import documents

    written = None
    if report is not None:
        from trimtab.report.judge import write_judge_report

        written = write_judge_report(report, judged.judgement, judged.frames, judged.surveys)
    show(
        lambda: documents.judged.JudgeDocument(
            judged.judgement, judged.store, judged.file, written
        ),
        lambda: print_judgement(judged.judgement, written),
    )
