"""``trimtab init``, ``site`` and ``import``: write and check a site file, import other results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.base.error import shell_text
from trimtab.base.filesystem import DRIVERS
from trimtab.show import command_options
from trimtab.show.screen_document import print_document, print_section, show, show_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimtab.probe.site_draft import Discovery


@click.command("init")
@click.argument("path")
@command_options.as_json
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

    from trimtab.base.error import UsageError, visible
    from trimtab.probe.page_site import found_sections, print_file, written_document
    from trimtab.probe.site_draft import DraftRequest, InitDocument, discover
    from trimtab.site.site_file import site_text, write_site

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
    discovery = discover(DraftRequest(ssh=command_words, **settings))  # type: ignore[arg-type]
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
    from trimtab.base.error import RefusedError
    from trimtab.probe.page_site import installed_document, planned_sections, print_aside
    from trimtab.watch.service import InstallDocument, commands, files_of, install

    name, planned = discovery.site.name, files_of(discovery.site, text)
    if not yes:
        print_aside(*planned_sections(discovery, planned))
        if command_options.wants_json() or not sys.stdin.isatty():
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


@click.command("site")
@click.argument("where", metavar="SITE")
@command_options.output
@click.option("--validate", is_flag=True, help="Compare with the live system (read-only).")
def site_command(where: str, validate: bool) -> None:
    """Show a site file as Trimtab reads it; with --validate compare it with the live system.

    An unknown key, a value without its unit or a meaningless schedule is an error that names the
    file, the line and the key. Exits with 3 if the live system differs.
    """
    from trimtab.base.error import ToolError
    from trimtab.probe.page_site import site_document
    from trimtab.probe.site_validation import SiteDocument
    from trimtab.probe.site_validation import validate as held_against_reality
    from trimtab.site.lookup import identity_of, open_site

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


@click.command("inventory")
@click.argument("where", metavar="SITE")
@command_options.since("Compare with the inventory of this time.")
@click.option(
    "--until", metavar="TIME", help="Show the inventory of this time. Default: query now, keep it."
)
@command_options.output
@command_options.store
def inventory_command(
    where: str, store_url: str | None, since: str | None, until: str | None
) -> None:
    """Show in what the servers and clients of a site differ, and what changed.

    Kernel, Lustre, settings, firmware, links as negotiated: one query per machine, without
    rights of root. Keeps it if something changed; the log book then has each change.
    """
    from trimtab.probe.inventory import compared, take
    from trimtab.probe.page_inventory import inventory_document
    from trimtab.site.lookup import open_driver, open_site, open_store
    from trimtab.site.place import Place

    site = open_site(where).site
    place = Place(site.name, site)
    with open_store(store_url, site, create=until is None) as store:
        made = None if until is not None else take(site, open_driver(site), store)
        if made is None or since is not None:
            now = None if made is None else made.inventory
            ends = place.moment(since), place.moment(until, end=True)
            made = compared(store, site.name, now, *ends)
    show_page(lambda: made, lambda: inventory_document(made))


_NAMED: Final = 3
"""Files in a command that is printed again."""


@click.command("import", cls=command_options.GroupedCommand)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@command_options.store
@click.option("--kind", metavar="KIND", help="The format. Default: detected per file.")
@click.option("--site", metavar="SITE", help="Site to store them under. Default: imported.")
@click.option("--probe", metavar="NAME", help="Probe to store them under. Default: imported.")
@click.option(
    "--layer",
    type=click.Choice(["drive", "raid", "ost", "network", "client", "application"]),
    help="Layer at which it was measured, if the file does not show it.",
)
@click.option("--at", metavar="TIME", help="Time of the measurement, for files without one.")
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Zone of times printed without one: Europe/Zurich. Default: the site's.",
)
@click.option("--dry-run", is_flag=True, help="Read and show everything, keep nothing.")
@command_options.output
def import_command(
    files: tuple[str, ...],
    store_url: str | None,
    kind: str | None,
    dry_run: bool,
    **terms_given: str | None,
) -> None:
    """Import result files as benchmarks printed them.

    Directories are searched. Each file is recognised by its content; one of unknown format is
    listed as unreadable. Results imported before are not stored twice.
    """
    from trimtab.probe.importer import check_kind, import_files, terms_of
    from trimtab.probe.page_site import (
        Tally,
        file_section,
        imported_document,
        is_unknown,
        refuse_nothing,
    )
    from trimtab.show.screen_document import console, progress_bar
    from trimtab.site.lookup import open_store

    check_kind(kind)
    terms, site = terms_of(**terms_given)  # type: ignore[arg-type]
    opened = nullcontext() if dry_run else open_store(store_url, site, create=True)
    tallied, again = Tally(), _again(files, kind, store_url, terms_given)
    remains = "what was stored is kept: the same command skips it and continues"
    with opened as store, progress_bar(remains=remains) as progress:
        imported = tallied.of(import_files(files, terms, store, kind=kind, progress=progress))
        where = None if store is None else str(store.location)
        if command_options.wants_json():
            from trimtab.probe.import_result import import_json

            for piece in import_json(imported, store=where, site=terms.site):
                click.echo(piece, nl=False)
        else:
            out, everything = console(), command_options.extent().everything
            for file in imported:
                if everything and not is_unknown(file):
                    print_section(out, file_section(file, sys.maxsize))
            print_document(imported_document(tallied, where, again, apart=everything))
    refuse_nothing(tallied, again[0])


def _again(
    files: Sequence[str], kind: str | None, store_url: str | None, terms_given: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the command as typed, and its store option, for use in another command."""
    values = {"kind": kind, "store": store_url, **terms_given}
    options_given = [(f"--{name}", value) for name, value in values.items() if value is not None]
    words = [word for option in options_given for word in option]
    named = shell_text(files) if len(files) <= _NAMED else "FILE..."
    command = " ".join(filter(None, ("trimtab", "import", named, shell_text(words))))
    return command, "" if store_url is None else f" --store {shell_text([store_url])}"
