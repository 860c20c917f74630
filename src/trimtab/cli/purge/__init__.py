"""``trimtab purge``: from a scan to deletion and its report, a subcommand a step."""

from __future__ import annotations

import click

from trimtab.cli.lazy import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "policy": ("trimtab.cli.purge.policy", "Write a policy file to change, or check one."),
    "scan": ("trimtab.cli.purge.scan", "Look at every file, and keep what is seen as an index."),
    "import": ("trimtab.cli.purge.import_", "Make an index of a list that another tool made."),
    "query": ("trimtab.cli.purge.query", "Ask an index who holds what: ready-made, or in SQL."),
    "horizon": ("trimtab.cli.purge.horizon", "Say how old files have to be to go, and whose."),
    "evasion": ("trimtab.cli.purge.evasion", "Say what looks as if it were kept alive unused."),
    "replay": ("trimtab.cli.purge.replay", "Say what a policy of then would have cost by now."),
    "plan": ("trimtab.cli.purge.plan", "Freeze and sign a list of what may be deleted."),
    "notify": ("trimtab.cli.purge.notify", "Give every user a list of what is theirs on a plan."),
    "arm": ("trimtab.cli.purge.arm", "Say, as a person, that a plan may be carried out."),
    "run": ("trimtab.cli.purge.run", "Check every file of a plan again, and with --apply delete."),
    "report": ("trimtab.cli.purge.report", "Say what was deleted and what was kept, by day."),
}
"""Every subcommand, in the order of a purge."""


class _Commands(LazyGroup):
    table = COMMANDS


@click.command("purge", cls=_Commands)
def command() -> None:
    """Keep a file system under its limit without ever deleting the wrong file.

    Nothing is deleted but by `run --apply`, and by that only what stands in a plan that was signed,
    published for its whole notice period and armed, and that is checked again at the last moment.
    Begin with `scan` and `horizon`: they change nothing.
    """
