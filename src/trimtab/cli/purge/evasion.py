"""``trimtab purge evasion``: signs that files are kept alive without being used."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.cli.purge import terms


@click.command("evasion")
@terms.index
@click.option(
    "--earlier", type=terms.PATH, multiple=True, metavar="DIR",
    help="An index of an earlier time, two or more: what is renewed again and again is seen then.",
)  # fmt: skip
@click.option(
    "--policy", type=terms.PATH, metavar="FILE",
    help="Whose ages, times and exempt users hold. Default: 8 weeks, all times, nobody.",
)  # fmt: skip
@click.option(
    "--files", type=click.IntRange(1), metavar="N",
    help="Fewer files of one owner are nobody's concern. Default: 1,000.",
)  # fmt: skip
@click.option(
    "--top", type=click.IntRange(0), default=20, show_default=True, metavar="N",
    help="So many signs are shown; --json has all.",
)  # fmt: skip
@options.as_json
def command(
    *,
    directory: Path,
    earlier: tuple[Path, ...],
    policy: Path | None,
    files: int | None,
    top: int,
) -> None:
    """Say what looks as if files were kept alive without being used. Nothing follows from it.

    Files touched by the thousand, whole holdings read in one go, times to come, metadata changed
    from index to index. None of it is proof, and no plan or run goes by it: somebody should ask.
    """
    from trimtab.cli.render.progress import progress_bar
    from trimtab.cli.render.purge_evasion import print_evasion
    from trimtab.loop.purging.evading import look_for_evasion
    from trimtab.purge.policy_file import load_policy
    from trimtab.report import documents

    loaded = None if policy is None else load_policy(policy).policy
    with progress_bar() as progress:
        progress("reading the index", 0.0)
        signs = look_for_evasion(directory, earlier=earlier, policy=loaded, files=files)
    show(
        lambda: documents.purged.PurgeEvasionDocument(str(directory), signs),
        lambda: print_evasion(signs, directory, top=top),
    )
