"""What the commands that change a site have in common."""

from __future__ import annotations

import click

from trimtab.cli.options import Decorated
from trimtab.cli.output import show


def applying(function: Decorated) -> Decorated:
    """Add ``--apply``."""
    text = "Carry the plan out. Default: show it and change nothing."
    return click.option("--apply", is_flag=True, help=text)(function)


def act(
    where: str,
    store_url: str | None,
    policy: str,
    *,
    apply: bool,
    command: str,
    targets: str | None = None,
    action: str | None = None,
) -> None:
    """Plan a policy for a site, carry it out with ``--apply``, and show the result.

    Raises
    ------
    RefusedError
        It was to be applied, and is held, or a change was not carried out.
    """
    from trimtab.cli.render.acting import print_visit
    from trimtab.errors import RefusedError
    from trimtab.loop.acting.applying import reason_of
    from trimtab.loop.acting.session import visit
    from trimtab.report import documents

    result = visit(where, store_url, policy, applying=apply, targets=targets, action=action)
    reasons = [reason for each in result.actions if (reason := reason_of(each)) is not None]
    error = None
    if result.applied and result.plan.held:
        error = RefusedError(f"nothing was changed: {result.plan.held[0]}", code="plan-held")
    elif reasons:
        error = RefusedError(reasons[0], code=reasons[0].code)
    rest = [word for word in (action, targets and f"--targets {targets}") if word]
    again = " ".join(["trimtab", command, where, *rest, "--apply"])
    show(
        lambda: documents.acting.PlanDocument(
            result.store, result.applied, result.plan, result.settled, result.actions
        ),
        lambda: print_visit(result, again=again),
        error=error,
    )
