"""``trimtab site``: a site file, checked against its schema and against reality."""

from __future__ import annotations

import click

from trimtab.cli import options


@click.command("site")
@click.argument("where", metavar="SITE")
@options.as_json
@click.option("--validate", is_flag=True, help="Hold it against reality: asks, writes nothing.")
def command(where: str, as_json: bool, validate: bool) -> None:
    """Show a site file as Trimtab reads it, and with --validate whether it is true.

    A key that is not known, a value without its unit or a schedule that means nothing is an error
    that names the file, the line and the key. Exits with 3 when reality differs.
    """
    from trimtab.errors import ToolError
    from trimtab.loop.probing.validate import validate as held_against_reality
    from trimtab.loop.sites import identity_of, open_site

    loaded = open_site(where)
    checked = ()
    if validate:
        identity = identity_of(loaded.site)
        checked = held_against_reality(loaded.site, identity=identity)
    wrong = [one for one in checked if one.ok is False]
    if as_json:
        from trimtab.report.documents.site import site_document

        click.echo(site_document(loaded.site, loaded.warnings, checked).to_json())
    else:
        from trimtab.cli.render.site import print_site

        print_site(loaded.site, loaded.warnings, checked)
    if wrong:
        error = ToolError(f"{len(wrong)} of {len(checked)} statements do not hold")
        error.reported = as_json
        raise error
