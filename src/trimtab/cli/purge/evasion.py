"""``trimtab purge evasion``: signs of files kept artificially young."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.purge import terms
from trimtab.cli.render.document import show_page
from trimtab.purge.rules import moment
from trimtab.purge.signs import KINDS, MAY_BE, statement
from trimtab.report.kit import ROWS, row, table
from trimtab.report.purge import owner_text
from trimtab.report.sections import Document, Section
from trimtab.report.text import sentences
from trimtab.units import format_bytes, plural
from trimtab.visible import shell_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trimtab.purge.signs import Signs


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
    from trimtab.loop import documents
    from trimtab.loop.purging.evading import look_for_evasion

    with progress_bar() as progress:
        progress("reading the index", 0.0)
        known = terms.policy_of(policy)
        signs = look_for_evasion(directory, earlier=earlier, policy=known, files=files)
    show_page(
        lambda: documents.purged.PurgeEvasionDocument(str(directory), signs),
        lambda: evasion_document(signs, directory),
    )


def evasion_document(signs: Signs, directory: Path) -> Document:
    """Return the signs, their possible meanings, and what was not checked."""
    root = signs.manifest.root.decode("utf-8", "surrogateescape")
    count = plural(len(signs.found), "sign").capitalize() if signs.found else "No sign"
    argv = ["trimtab", "purge", "query", "--index", str(directory)]
    rows = (
        row(
            sign.kind,
            owner_text(sign.uid),
            f"{sign.files:,}",
            format_bytes(sign.allocated_bytes),
            moment(sign.first_s),
            moment(sign.last_s),
        )
        for sign in signs.found
    )
    over = (f"not looked for: {kind}: {why}" for kind, why in signs.passed_over.items())
    more = (
        f"the files of the first: {shell_text([*argv, statement(sign)])}"
        for sign in signs.found[:1]
    )
    as_of = moment(signs.manifest.as_of_s)
    return Document(
        f"{count} of files kept artificially young: {root}, as of {as_of}.",
        (
            Section(
                lines=sentences((*_meanings(signs), *over)),
                tables=(table(("", "owner", "files>", "hold>", "from", "to"), rows, first=ROWS),),
            ),
            Section(lines=sentences(signs.notes), tone="warning"),
        ),
        more=tuple(more),
    )


def _meanings(signs: Signs) -> Iterator[str]:
    kinds = {sign.kind for sign in signs.found}
    for kind in KINDS:
        if kind in kinds:
            example = next(sign for sign in signs.found if sign.kind == kind)
            yield f"{kind}, of {owner_text(example.uid)}: {example.words}. It may be {MAY_BE[kind]}"
    if kinds:
        yield "None of this is proof, and no plan or run uses it: ask the owner."
