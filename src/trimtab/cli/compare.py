"""``trimtab compare``: two systems, two dates, two settings."""

from __future__ import annotations

from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page


@click.command("compare", cls=options.GroupedCommand)
@click.argument("names", metavar="A B", nargs=-1)
@options.output
@options.store
@click.option("--site", metavar="SITE", help="Site of a side that is a time range or a setting.")
@click.option("--metric", metavar="METRIC", help="Only this metric. Default: all that both have.")
@click.option("--probe", metavar="NAME", help="Only this probe. Default: all that both have.")
@options.margin("5%", "Ignore differences smaller than this.")
@click.option(
    "--wash-out",
    "wash_out_s",
    type=options.DURATION,
    default="0s",
    show_default=True,
    help="Time to leave out at the start of the later side.",
)
@click.option(
    "--targets",
    nargs=2,
    type=options.COUNT,
    metavar="A B",
    help="Number of targets on each side. Their expected effect on the rate is removed if "
    "--target-rate shows that the targets limit.",
)
@click.option(
    "--files",
    type=options.COUNT,
    help="Files of the whole job, with --targets. Default: one per task, or one shared file.",
)
@click.option(
    "--target-rate",
    "target_bytes_per_s",
    type=options.LARGE_RATE,
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
    from trimtab.judge.compare import CompareTerms
    from trimtab.loop.comparing.compare import Request, compare_sides
    from trimtab.loop.comparing.files import sides_of
    from trimtab.report.compare import compare_document

    terms = CompareTerms(margin=sides.pop("margin"), wash_out_s=sides.pop("wash_out_s"))
    before, after = sides_of(names)
    request = Request(before, after, store_url=store_url, terms=terms, **sides)
    result = compare_sides(request)
    show_page(lambda: result, lambda: compare_document(result))
