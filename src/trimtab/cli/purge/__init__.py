"""``trimtab purge``: from a scan to deletion and its report, one subcommand per step."""

from __future__ import annotations

from typing import Final

import click

from trimtab.cli.lazy import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "policy": ("trimtab.cli.purge.policy", "Write a commented policy file, or check one."),
    "scan": ("trimtab.cli.purge.scan", "Scan every file into an index."),
    "follow": (
        "trimtab.cli.purge.follow",
        "Keep the index of a Lustre up to date from its changelogs.",
    ),
    "import": ("trimtab.cli.purge.import_", "Convert another tool's file list into an index."),
    "query": ("trimtab.cli.purge.query", "Query an index: usage by owner, or SQL."),
    "horizon": (
        "trimtab.cli.purge.horizon",
        "Find the age cut-off that reaches a target, and whose files it affects.",
    ),
    "evasion": ("trimtab.cli.purge.evasion", "Detect files kept artificially young."),
    "replay": ("trimtab.cli.purge.replay", "Replay a past policy against later use."),
    "plan": ("trimtab.cli.purge.plan", "Freeze and sign a list of purge candidates."),
    "notify": ("trimtab.cli.purge.notify", "Publish each user's list of files in a plan."),
    "arm": ("trimtab.cli.purge.arm", "Approve a published plan."),
    "run": ("trimtab.cli.purge.run", "Recheck every file of a plan; delete with --apply."),
    "recover": (
        "trimtab.cli.purge.recover",
        "List files put aside by interrupted runs; put them back with --restore.",
    ),
    "report": ("trimtab.cli.purge.report", "Report what was deleted and retained, by day."),
}
"""Every subcommand, in the order of a purge."""
_GROUPS: Final = {"Commands": COMMANDS}


class _Commands(LazyGroup):
    groups = _GROUPS


@click.command("purge", cls=_Commands)
def command() -> None:
    """Keep a file system under its limit without ever deleting the wrong file.

    Only `run --apply` deletes, and only files of a plan that is signed, was published for its full
    notice period and is armed. Each file is rechecked immediately before deletion. Start with
    `scan` and `horizon`: they change nothing.
    """
