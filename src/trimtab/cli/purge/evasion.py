"""``trimtab purge evasion``: signs of files kept artificially young."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page


@click.command("evasion")
@terms.index
@click.option(
    "--earlier", type=terms.PATH, multiple=True, metavar="DIR",
    help="Earlier index; give two or more to detect repeated renewal.",
)  # fmt: skip
@click.option(
    "--policy", type=terms.PATH, metavar="FILE",
    help="Policy with ages, times and exempt users. Default: 8 weeks, all times, no user.",
)  # fmt: skip
@click.option(
    "--files", type=click.IntRange(1), metavar="N",
    help="Ignore owners with fewer files than this. Default: 1,000.",
)  # fmt: skip
@options.output
def purge_evasion_command(
    *,
    directory: Path,
    earlier: tuple[Path, ...],
    policy: Path | None,
    files: int | None,
) -> None:
    """Detect files kept artificially young. For information only.

    Detects files touched by the thousand, holdings read all at once, times in the future, and
    metadata that changes from index to index. None of this is proof; plans and runs ignore it.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_horizon import evasion_document
    from trimtab.loop.purging.evading import look_for_evasion
    from trimtab.purge.signs import PurgeEvasionDocument

    with progress_bar() as progress:
        progress("reading the index", 0.0)
        known = terms.policy_of(policy)
        signs = look_for_evasion(directory, earlier=earlier, policy=known, files=files)
    show_page(
        lambda: PurgeEvasionDocument(str(directory), signs),
        lambda: evasion_document(signs, directory),
    )
