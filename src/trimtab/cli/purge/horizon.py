"""``trimtab purge horizon``: the age cut-off that reaches a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.errors import UsageError


@click.command("horizon", cls=options.GroupedCommand)
@terms.index
@click.option(
    "--policy", type=terms.PATH, metavar="FILE", help="Policy whose target and rules apply."
)
@click.option(
    "--target", type=options.FRACTION, help="Target fullness of the whole file system: 70%."
)
@click.option("--target-ost", type=options.FRACTION, help="Target fullness of every OST: 75%.")
@terms.target_pool
@click.option(
    "--forecast", "forecast_s", type=options.POSITIVE_DURATION,
    help="How far growth is forecast. Default: until a plan of the policy expires.",
)  # fmt: skip
@click.option(
    "--used", type=options.SIZE, help="Bytes in use, if the file system is not mounted here."
)
@click.option("--available", type=options.SIZE, help="Bytes available; with --used.")
@terms.site
@terms.place
@terms.threads
@options.dask_or_site
@options.store
@options.keep
@options.report
@options.output
def purge_horizon_command(
    directory: Path, report: str | None, keep: str | None, **options_given: Any
) -> None:
    """Find the age cut-off that reaches a target, and what each cut-off frees, by owner.

    The horizon is the earliest cut-off at which deleting everything last used before it brings
    usage down to the target. Read-only: deletes nothing and lists nothing.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.launch.process import utc_now
    from trimtab.loop.purging.horizons import ask_horizon
    from trimtab.report.purge import horizon_document

    policy = terms.policy_of(options_given.pop("policy"))
    targets = [options_given[name] for name in ("target", "target_ost", "target_pool")]
    if [policy, *targets] == [None, None, None, ()]:
        raise UsageError(
            "the target fullness is missing",
            code="target-missing",
            hint="--target 70%, or --policy POLICY.toml",
        )
    terms.one_target(*targets)
    question = terms.horizon_question(directory, policy, **options_given)
    with progress_bar() as progress:
        progress("reading the index", 0.0)
        horizons = ask_horizon(question, now=utc_now())
    result = horizons.result
    if keep is not None:
        from trimtab.loop.results import keep_result

        keep_result(keep, options_given["store_url"], result, utc_now())
    show_page(lambda: horizons, lambda: horizon_document(result), report)
