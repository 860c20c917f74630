"""``trimtab site``: a site file, checked against its schema and against reality."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.output import show


@click.command("site")
@click.argument("where", metavar="SITE")
@options.extent_options
@options.as_json
@click.option("--validate", is_flag=True, help="Compare with the live system (read-only).")
def command(where: str, validate: bool) -> None:
    """Show a site file as Trimtab reads it; with --validate compare it with the live system.

    A key that is not known, a value without its unit or a schedule that means nothing is an error
    that names the file, the line and the key. Exits with 3 when reality differs.
    """
    from trimtab.cli.render.site import print_site
    from trimtab.errors import ToolError
    from trimtab.loop.probing.validate import validate as held_against_reality
    from trimtab.loop.sites import identity_of, open_site
    from trimtab.report import documents

    loaded = open_site(where)
    checked = ()
    if validate:
        identity = identity_of(loaded.site)
        checked = held_against_reality(loaded.site, identity=identity)
    wrong = [statement for statement in checked if statement.ok is False]
    error = ToolError(f"{len(wrong)} of {len(checked)} statements do not hold", code="site-differs")
    show(
        lambda: documents.measured.SiteDocument(
            loaded.site.name,
            loaded.site.source,
            loaded.site.driver,
            loaded.site.path,
            tuple(loaded.warnings),
            tuple(checked),
        ),
        lambda: print_site(loaded.site, loaded.warnings, checked),
        error=error if wrong else None,
    )
