"""Shared by the commands that change a site."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from trimtab.cli.options import Decorated, extent, site_argument
from trimtab.cli.render.document import show_page

_PLAN: Final = "trimtab.plan"


def applying(function: Decorated) -> Decorated:
    """Add ``--apply`` and ``--plan``; the latter is passed on through the context."""

    def remember(context: click.Context, _: click.Parameter, value: str | None) -> None:
        context.meta[_PLAN] = value

    text = "Carry the plan out. Default: show it and change nothing."
    plan = click.option(
        "--plan",
        metavar="ID",
        expose_value=False,
        callback=remember,
        help="With --apply: only if the plan still is this one.",
    )
    return click.option("--apply", is_flag=True, help=text)(plan(function))


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
    from trimtab.errors import RefusedError
    from trimtab.loop import documents
    from trimtab.loop.acting.applying import reason_of
    from trimtab.loop.acting.session import visit
    from trimtab.record.kept import value_of
    from trimtab.report.acting import plan_document
    from trimtab.report.headline import site_troubles

    files = None
    if index is not None:
        from trimtab.purge.index.questions import files_to_move

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
    )
    reasons = [reason for each in result.actions if (reason := reason_of(each)) is not None]
    error = None
    if result.applied and result.plan.held:
        error = RefusedError(f"nothing was changed: {result.plan.held[0]}", code="plan-held")
    elif reasons:
        error = RefusedError(reasons[0], code=reasons[0].code)
    command = shlex.join(["trimtab", *words, "--apply", "--plan", result.plan.id])
    show_page(
        lambda: value_of(documents.acting.PlanDocument, result),
        lambda: plan_document(
            result.plan,
            result.actions,
            settled=result.settled,
            troubles=site_troubles(result.standing),
            apart=extent().everything,
            where=site_argument(result.plan.site),
            command="" if result.applied else command,
        ),
        error=error,
    )
