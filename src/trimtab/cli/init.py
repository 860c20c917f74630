"""``trimtab init``: from a mounted file system to a commented site file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from trimtab.cli import options
from trimtab.cli.output import show
from trimtab.model.driver import DRIVERS

if TYPE_CHECKING:
    from trimtab.loop.initialise import Discovery


@click.command("init")
@click.argument("path")
@options.as_json
@click.option("--out", metavar="FILE", help="Where to write the site file. Default: print it.")
@click.option("--replace", is_flag=True, help="Write over a file that is there.")
@click.option(
    "--install",
    "installing",
    is_flag=True,
    help="Put the site file and the service of its watch in place, after showing them.",
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
def command(
    *,
    out: str | None,
    replace: bool,
    installing: bool,
    yes: bool,
    ssh: str | None,
    **settings: str | bool | None,
) -> None:
    """Discover the file system mounted at PATH and write a site file for it.

    Finds targets, servers, versions and what can be read of them, asking each server once. Changes
    nothing but the files it writes.
    """
    import shlex
    from pathlib import Path

    from trimtab.cli.render.site import print_discovery
    from trimtab.errors import UsageError
    from trimtab.loop.initialise import Wanted, discover
    from trimtab.report import documents
    from trimtab.site.write import site_text, write_site
    from trimtab.visible import visible

    if yes and not installing:
        raise click.UsageError("--yes goes with --install")
    if installing and out is not None:
        raise click.UsageError("--install knows the place: leave --out out")
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
    if out is not None:
        write_site(Path(out), text, replace=replace)
    show(
        lambda: documents.measured.InitDocument(
            discovery.site.name, out, text, tuple(discovery.facts), tuple(discovery.not_found)
        ),
        lambda: print_discovery(
            discovery.site.name, text, out, discovery.facts, discovery.not_found
        ),
    )


def _install(discovery: Discovery, text: str, *, replace: bool, yes: bool) -> None:
    """Show the files that make the site watched, and put them in place where that is wanted."""
    from trimtab.cli.render.site import print_installation, print_installed
    from trimtab.errors import RefusedError
    from trimtab.loop.installing.install import commands, files_of, install
    from trimtab.report import documents

    planned = files_of(discovery.site, text)
    if not yes:
        if options.wants_json() or not sys.stdin.isatty():
            print_installation(planned, discovery)
            raise RefusedError(
                "nothing was written: nobody was asked",
                code="install-unconfirmed",
                hint="--yes puts the files in place",
            )
        print_installation(planned, discovery)
        if not click.confirm("Put these files in place?", err=True):
            raise RefusedError("nothing was written", code="install-declined")
    written = install(planned, replace=replace)
    following = commands(discovery.site)
    show(
        lambda: documents.measured.InstallDocument(discovery.site.name, written, following),
        lambda: print_installed(discovery.site.name, written, following),
    )
