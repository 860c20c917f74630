"""``trimtab tune``, ``trim``, ``balance``, ``revert``, ``actions``: change a site and undo it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from trimtab.base.error import UsageError, shell_text
from trimtab.show import command_options
from trimtab.show.command_options import Decorated, extent, site_argument
from trimtab.show.screen_document import show_page

_PLAN: Final = "trimtab.plan"
_IN_MAINTENANCE: Final = "trimtab.in-maintenance"


def _remember(
    name: str, context: click.Context, _: click.Parameter, value: str | bool | None
) -> None:
    context.meta[name] = value


def applying(function: Decorated) -> Decorated:
    """Add ``--apply``, ``--plan`` and ``--in-maintenance``; the context passes the last two on."""
    text = "Carry the plan out. Default: show it and change nothing."
    plan = click.option(
        "--plan",
        metavar="ID",
        expose_value=False,
        callback=partial(_remember, _PLAN),
        help="With --apply: only if the plan still is this one.",
    )
    inside = click.option(
        "--in-maintenance",
        is_flag=True,
        expose_value=False,
        callback=partial(_remember, _IN_MAINTENANCE),
        help="Also what a maintenance window holds.",
    )
    return click.option("--apply", is_flag=True, help=text)(plan(inside(function)))


def act(
    where: str,
    store_url: str | None,
    policy: str,
    *,
    apply: bool,
    words: Sequence[str],
    targets: str | None = None,
    action: str | None = None,
    index: Path | None = None,
) -> None:
    """Plan a policy for a site, apply it with ``--apply``, and print the result.

    Parameters
    ----------
    words
        The command that shows the plan.

    Raises
    ------
    RefusedError
        The plan should be applied but is held, has changed, or a change was not carried out.
    """
    from trimtab.act.apply import reason_of
    from trimtab.act.page import plan_document
    from trimtab.act.visit import visit
    from trimtab.base.error import RefusedError

    files = None
    if index is not None:
        from trimtab.purge.index.index_query import files_to_move

        files = partial(files_to_move, index)
    result = visit(
        where,
        store_url,
        policy,
        applying=apply,
        targets=targets,
        action=action,
        index=files,
        expected=click.get_current_context().meta.get(_PLAN),
        in_maintenance=bool(click.get_current_context().meta.get(_IN_MAINTENANCE)),
    )
    reasons = [reason for each in result.actions if (reason := reason_of(each)) is not None]
    error = None
    if result.applied and result.plan.held:
        error = RefusedError(f"nothing was changed: {result.plan.held[0]}", code="plan-held")
    elif reasons:
        error = RefusedError(reasons[0], code=reasons[0].code)
    command = shlex.join(["trimtab", *words, "--apply", "--plan", result.plan.id])
    show_page(
        lambda: result,
        lambda: plan_document(
            result.plan,
            result.actions,
            settled=result.settled,
            troubles=result.troubles,
            apart=extent().everything,
            where=site_argument(result.plan.site),
            command="" if result.applied else command,
        ),
        error=error,
    )


@click.command("tune")
@click.argument("where", metavar="SITE")
@applying
@command_options.output
@command_options.store
@click.option(
    "--allocator",
    is_flag=True,
    help="Instead, reset the block allocator's pointer where its searches find nothing.",
)
@click.option("--again", is_flag=True, help="Also set what was reverted.")
def tune_command(
    where: str, store_url: str | None, apply: bool, allocator: bool, again: bool
) -> None:
    """Compare settings with the site file's [policy.tunables], and with --apply set them.

    One target comes first, then the rest of its server, then all others; each later stage waits
    for the first target's verdict.
    """
    policy = "allocator" if allocator else "again" if again else "tunables"
    option = () if policy == "tunables" else (f"--{policy}",)
    act(where, store_url, policy, apply=apply, words=("tune", where, *option))


@click.command("trim")
@click.argument("where", metavar="SITE")
@applying
@command_options.output
@command_options.store
@click.option("--targets", metavar="SET", help="Only these: OST[0000-0003].")
def trim_command(where: str, store_url: str | None, apply: bool, targets: str | None) -> None:
    """Show which targets are due for a trim by [policy.trim], and with --apply trim them.

    One target per server and enclosure at a time, in steps; an interrupted trim continues where
    it stopped.
    """
    option = () if targets is None else ("--targets", targets)
    words = ("trim", where, *option)
    act(where, store_url, "trim", apply=apply, words=words, targets=targets)


@click.command("balance")
@click.argument("where", metavar="SITE")
@applying
@command_options.output
@command_options.store
@click.option("--reopen-all", is_flag=True, help="Open every target that Trimtab has closed.")
@click.option("--migrate", is_flag=True, help="Instead, move files off full targets: last resort.")
@click.option(
    "--index",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --migrate: index of `trimtab purge scan`, at most a week old.",
)
def balance_command(
    *,
    where: str,
    store_url: str | None,
    apply: bool,
    reopen_all: bool,
    migrate: bool,
    index: Path | None,
) -> None:
    """Show which targets [policy.balance] closes or opens, and with --apply do it.

    Existing files are not touched: they can grow on a closed target.
    """
    if migrate and reopen_all:
        raise UsageError("--migrate and --reopen-all exclude each other", code="option-conflict")
    policy = "migrate" if migrate else "reopen" if reopen_all else "balance"
    option = () if policy == "balance" else ("--reopen-all",) if reopen_all else ("--migrate",)
    option += () if index is None else ("--index", str(index))
    act(where, store_url, policy, apply=apply, words=("balance", where, *option), index=index)


@click.command("revert")
@click.argument("where", metavar="SITE")
@click.argument("action", metavar="[ACTION]", required=False)
@applying
@command_options.brief_options
@command_options.as_json
@command_options.store
@click.option("--all", "everything", is_flag=True, help="Everything in the ledger.")
def revert_command(
    where: str, action: str | None, store_url: str | None, apply: bool, everything: bool
) -> None:
    """Show how to revert an action, and with --apply revert it.

    A setting gets its previous value unless it was changed again since; a closed target is opened.
    ACTION is an id of `trimtab actions SITE`, or its beginning.
    """
    if everything == (action is not None):
        raise UsageError(
            "name one action, or --all",
            code="action-missing",
            hint=f"list them: trimtab actions {shell_text([where])}",
        )
    words = ("revert", where, action or "--all")
    act(where, store_url, "revert", apply=apply, words=words, action=action)


@click.command("actions")
@click.argument("where", metavar="SITE")
@command_options.output
@command_options.store
@command_options.since("Only actions that began at or after this time.")
def actions_command(where: str, store_url: str | None, since: str | None) -> None:
    """List changes made to a site: when, by whom, why, and the performance afterwards."""
    from trimtab.act.page import ledger_document
    from trimtab.answers.action_ledger import ActionsDocument, ledger
    from trimtab.site.place import opened

    with opened(where, store_url) as record:
        place = record.place
        actions, effects = ledger(record.store, place, record.now, since=place.moment(since))
    show_page(
        lambda: ActionsDocument(record.location, actions, effects),
        lambda: ledger_document(
            place.name,
            actions,
            effects,
            short=not command_options.extent().everything,
            where=command_options.site_argument(place.name),
        ),
    )
