"""``trimtab site``: check a site file against its schema and the live system."""

from __future__ import annotations

import click

from trimtab.cli import options
from trimtab.cli.render.document import show_page


@click.command("site")
@click.argument("where", metavar="SITE")
@options.output
@click.option("--validate", is_flag=True, help="Compare with the live system (read-only).")
def site_command(where: str, validate: bool) -> None:
    """Show a site file as Trimtab reads it; with --validate compare it with the live system.

    An unknown key, a value without its unit or a meaningless schedule is an error that names the
    file, the line and the key. Exits with 3 if the live system differs.
    """
    from trimtab.cli.render.site import site_document
    from trimtab.errors import ToolError
    from trimtab.loop.probing.validate import validate as held_against_reality
    from trimtab.loop.sites import identity_of, open_site
    from trimtab.report.documents.measured import SiteDocument

    loaded = open_site(where)
    checked = ()
    if validate:
        identity = identity_of(loaded.site)
        checked = held_against_reality(loaded.site, identity=identity)
    wrong = [statement for statement in checked if statement.ok is False]
    error = ToolError(f"{len(wrong)} of {len(checked)} statements do not hold", code="site-differs")
    show_page(
        lambda: SiteDocument(
            loaded.site.name,
            loaded.site.source,
            loaded.site.driver,
            loaded.site.path,
            tuple(loaded.warnings),
            tuple(checked),
        ),
        lambda: site_document(loaded.site, loaded.warnings, checked),
        error=error if wrong else None,
    )
