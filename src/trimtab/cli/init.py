"""``trimtab init``: from a mounted file system to a commented site file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.render.document import show, show_page
from trimtab.model.driver import DRIVERS

if TYPE_CHECKING:
    from trimtab.loop.initialise import Discovery


@click.command("init")
@click.argument("path")
@options.as_json
@click.option("--out", metavar="FILE", help="Where to write the site file. Default: print it.")
@click.option("--replace", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--install",
    "installing",
    is_flag=True,
    help="Install the site file and the service of its watch, after showing them.",
)
@click.option("--yes", is_flag=True, help="With --install: do not ask.")
@click.option("--name", help="Name of the site. Default: the file system's name or mount point.")
@click.option(
    "--driver",
    type=click.Choice([entry.name for entry in DRIVERS.values() if not entry.simulated]),
    help="Driver that reaches it. Default: derived from the mount.",
)
@click.option(
    "--servers",
    metavar="NODESET",
    help="oss[01-08],mds[1-2]. Default: the hosts that the client is connected to.",
)
@click.option("--user", help="Remote user on the servers. Default: as ssh is configured.")
@click.option("--sudo", is_flag=True, help="Read what needs rights through sudo -n.")
@click.option(
    "--ssh", metavar="COMMAND", help="The program that reaches the servers. Default: ssh."
)
def init_command(
    *,
    out: str | None,
    replace: bool,
    installing: bool,
    yes: bool,
    ssh: str | None,
    **settings: str | bool | None,
) -> None:
    """Discover the file system mounted at PATH and write a site file for it.

    Finds targets, servers, versions and readable values, with one query per server. Changes
    nothing except the files it writes.
    """
    import shlex
    from pathlib import Path

    from trimtab.cli.render.init import found_sections, print_file, written_document
    from trimtab.errors import UsageError
    from trimtab.loop.initialise import Wanted, discover
    from trimtab.report.documents.measured import InitDocument
    from trimtab.site.write import site_text, write_site
    from trimtab.visible import visible

    if yes and not installing:
        raise click.UsageError("--yes goes with --install")
    if installing and out is not None:
        raise click.UsageError("--install chooses the place: leave --out out")
    try:
        command_words = None if ssh is None else tuple(shlex.split(ssh))
    except ValueError as error:
        problem = f"--ssh: {visible(ssh or '')!r} is not a command: {error}"
        raise UsageError(problem, code="ssh-malformed") from error
    if command_words == ():
        raise UsageError("--ssh: it names no program", code="ssh-malformed")
    discovery = discover(Wanted(ssh=command_words, **settings))  # type: ignore[arg-type]
    remarks = (*discovery.facts, *(f"not found: {text}" for text in discovery.not_found))
    text = site_text(discovery.site, remarks=remarks, comments=discovery.comments)
    if installing:
        _install(discovery, text, replace=replace, yes=yes)
        return
    json = InitDocument(
        discovery.site.name, out, text, tuple(discovery.facts), tuple(discovery.not_found)
    )
    if out is None:
        # To standard output as it is: `trimtab init PATH > site.toml` gives the same file.
        show(lambda: json, lambda: print_file(discovery, text))
        return
    write_site(Path(out), text, replace=replace)
    show_page(
        lambda: json, lambda: written_document(out, discovery.site.name, found_sections(discovery))
    )


def _install(discovery: Discovery, text: str, *, replace: bool, yes: bool) -> None:
    """Show the files that make the site watched, and install them if confirmed."""
    from trimtab.cli.render.init import installed_document, planned_sections, print_aside
    from trimtab.errors import RefusedError
    from trimtab.loop.installing.install import commands, files_of, install
    from trimtab.report.documents.measured import InstallDocument

    name, planned = discovery.site.name, files_of(discovery.site, text)
    if not yes:
        print_aside(*planned_sections(discovery, planned))
        if options.wants_json() or not sys.stdin.isatty():
            raise RefusedError(
                "nothing was written: confirmation was not possible",
                code="install-unconfirmed",
                hint="--yes installs the files",
            )
        if not click.confirm("Put these files in place?", err=True):
            raise RefusedError("nothing was written", code="install-declined")
    written = install(planned, replace=replace)
    following = commands(discovery.site)
    show_page(
        lambda: InstallDocument(name, written, following),
        lambda: installed_document(name, written, following),
    )
