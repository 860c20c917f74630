"""``trimtab compare``: two systems, two dates, two settings."""

from __future__ import annotations

from typing import Any

import click

from trimtab import units
from trimtab.cli import options
from trimtab.cli.options import Quantity
from trimtab.cli.output import show


def _rate(text: str) -> float:
    return float(units.parse_bytes(text.strip().removesuffix("/s")))


@click.command("compare")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@options.as_json
@options.store
@click.option("--site", metavar="SITE", help="Of sides that are a stretch of time or a setting.")
@click.option("--metric", metavar="METRIC", help="Only this one. Default: all that both have.")
@click.option("--probe", metavar="NAME", help="Only this probe. Default: all that both have.")
@click.option(
    "--margin",
    type=options.FRACTION,
    default="5%",
    show_default=True,
    help="Differences below it do not matter.",
)
@click.option(
    "--wash-out",
    "wash_out_s",
    type=options.DURATION,
    default="0s",
    show_default=True,
    help="How much of the beginning of the later side is left out.",
)
@click.option(
    "--targets",
    nargs=2,
    type=click.IntRange(min=1),
    metavar="A B",
    help="How many targets either side had, and what that alone may make of a rate. Taken out "
    "where --target-rate shows that the targets limit.",
)
@click.option(
    "--files",
    type=click.IntRange(min=1),
    help="Of the whole job, with --targets. Default: one a task, or one shared file.",
)
@click.option(
    "--target-rate",
    "target_bytes_per_s",
    type=Quantity("rate", _rate),
    help="What one target does by itself: 15GB/s. Below it targets do not limit the job.",
)
@click.option(
    "--autocorrelation",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Of published results: how much a run resembles the one before it.",
)
def command(
    before: str,
    after: str,
    store_url: str | None,
    **asked: Any,
) -> None:
    """Say by how much B differs from A, for each metric of each series that both have.

    A and B are each a SITE, a stretch of its time (SITE@2026-10-01..2026-11-01, or
    @2026-10-01.. with --site), a setting (SITE:nodes=4,tasks=64), a run's id or several joined by
    commas, or a published result: '673320±31779/240 MB/s' (mean, deviation, number of runs), or a
    TOML file of those.
    """
    from trimtab.cli.render.compare import print_compare
    from trimtab.errors import UsageError
    from trimtab.judge.compare import CompareTerms
    from trimtab.loop.comparing.compare import Request, compare_sides
    from trimtab.report import documents

    margin, wash_out_s = asked.pop("margin"), asked.pop("wash_out_s")
    if not 0 < margin < 1:
        raise UsageError("--margin has to be over 0 and under 100%")
    terms = CompareTerms(margin=margin, wash_out_s=wash_out_s)
    request = Request(before, after, store_url=store_url, terms=terms, **asked)
    found = compare_sides(request)
    show(lambda: documents.judged.CompareDocument(found), lambda: print_compare(found))
