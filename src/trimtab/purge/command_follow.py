"""``trimtab purge follow``: keep an index up to date from changelogs; manage changelog users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.purge import command
from trimtab.show import command_options
from trimtab.show.screen_document import show_page

if TYPE_CHECKING:
    from trimtab.base.error import TrimtabError
    from trimtab.purge.following import Round
    from trimtab.purge.registration import RegistrationDocument


@click.command("follow", cls=command_options.GroupedCommand)
@click.argument("where", metavar="SITE")
@click.option(
    "--index", "directory", type=command_options.PATH, metavar="DIR", help="Directory of the index."
)
@click.option(
    "--every",
    "every_s",
    type=command_options.POSITIVE_DURATION,
    default="60s",
    show_default=True,
    help="Time between two readings of the changelogs.",
)
@click.option("--once", is_flag=True, help="Read to the end of the changelogs, then exit.")
@click.option(
    "--compact",
    is_flag=True,
    help="Rewrite shards with many replaced rows, then exit; reads no changelog.",
)
@click.option(
    "--rescan",
    is_flag=True,
    help="Rescan what lost records of MDTs may have concerned, then exit.",
)
@click.option(
    "--register",
    is_flag=True,
    help="Register the changelog user on the MDTs, the first alone; no index.",
)
@click.option("--deregister", is_flag=True, help="Remove the changelog user of the MDTs; no index.")
@click.option(
    "--mdt",
    "mdts",
    multiple=True,
    metavar="MDT0000",
    help="With --register and --deregister: only this MDT. Repeatable.",
)
@click.option("--yes", is_flag=True, help="With --register and --deregister: do not ask.")
@command.threads
@command_options.store
@command_options.as_json
def purge_follow_command(  # noqa: PLR0917 (one for each option)
    where: str,
    directory: Path | None,
    every_s: float,
    threads: int,
    store_url: str | None,
    mdts: tuple[str, ...],
    *,
    once: bool,
    compact: bool,
    rescan: bool,
    register: bool,
    deregister: bool,
    yes: bool,
) -> None:
    """Keep the index of a scanned Lustre up to date from the changelogs of all MDTs.

    Runs on a client, as root. Each MDT needs a changelog user named trimtab, registered before the
    scan began: --register shows the commands for the MDSs and runs them once confirmed. Reads
    are not in changelogs: an access time is that of the scan, or of the last change since.
    Lost changes are reported with their MDT: --rescan then checks everything they may have
    concerned. It may be killed at any moment; the same command resumes.
    """
    from trimtab.purge.following import compact_index, follow
    from trimtab.purge.index.screen import show_index

    if register or deregister:
        if register and deregister:
            raise click.UsageError("--register and --deregister exclude each other")
        if directory is not None or once or compact or rescan:
            raise click.UsageError("--register and --deregister need no index")
        _register(where, store_url, mdts, registered=register, yes=yes)
        return
    if yes or mdts:
        raise click.UsageError("--yes and --mdt go with --register and --deregister")
    if directory is None:
        raise click.UsageError("Missing option '--index'.")
    if once + compact + rescan > 1:
        raise click.UsageError("--once, --compact and --rescan exclude each other")
    if compact:
        manifest = compact_index(directory)
    else:
        manifest = follow(
            where,
            directory,
            every_s=every_s,
            once=once,
            threads=threads,
            rescan=rescan,
            report=_report,
        )
    show_index(manifest, directory)


def _register(
    where: str, store_url: str | None, mdts: tuple[str, ...], *, registered: bool, yes: bool
) -> None:
    """Show the planned commands per server, and run them if confirmed."""
    from trimtab.act.apply import reason_of
    from trimtab.base.error import RefusedError
    from trimtab.purge.registration import carry_out_registration, plan_registration

    planned = plan_registration(where, store_url, mdts, registered=registered)
    if not planned.plan.instructions:
        _show(planned)
        return
    if not yes:
        if command_options.wants_json() or not sys.stdin.isatty():
            _show(
                planned,
                RefusedError(
                    "nothing was changed: confirmation was not possible",
                    code="registration-unconfirmed",
                    hint="--yes carries the plan out",
                ),
            )
            return
        _show(planned)
        if not click.confirm("Run these commands on the servers?", err=True):
            raise RefusedError("nothing was changed", code="registration-declined")
    done = carry_out_registration(
        where, store_url, mdts, registered=registered, expected=planned.plan.id
    )
    reasons = [reason for each in done.actions if (reason := reason_of(each)) is not None]
    _show(done, RefusedError(reasons[0], code=reasons[0].code) if reasons else None)


def _show(registration: RegistrationDocument, error: TrimtabError | None = None) -> None:
    from trimtab.act.page import plan_document

    show_page(
        lambda: registration,
        lambda: plan_document(
            registration.plan,
            registration.actions,
            settled=registration.settled,
            dangers=() if registration.applied else registration.dangers,
        ),
        error=error,
    )


def _report(done: Round) -> None:
    from trimtab.base.units import enumerated, plural

    parts = [
        plural(done.records, "record", ","), f"{plural(done.looked, 'file', ',')} looked at",
        f"{plural(done.added, 'row', ',')} added", f"{done.removed:,} replaced or removed",
    ]  # fmt: skip
    if done.unknown:
        parts.append(f"{done.unknown:,} to be retried")
    if done.silent:
        parts.append(f"no answer from the server of {enumerated(done.silent, 3)}")
    click.echo("; ".join(parts), err=True)
