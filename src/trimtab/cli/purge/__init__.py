"""``trimtab purge``: from a scan to deletion and its report, one subcommand per step."""

from __future__ import annotations

from typing import Final

import click

from trimtab.cli.lazy import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "policy": (
        "trimtab.cli.purge.policy:purge_policy_command",
        "Write a commented policy file, or check one.",
    ),
    "scan": ("trimtab.cli.purge.scan:purge_scan_command", "Scan every file into an index."),
    "follow": (
        "trimtab.cli.purge.follow:purge_follow_command",
        "Keep the index of a Lustre up to date from its changelogs.",
    ),
    "import": (
        "trimtab.cli.purge.import_:purge_import_command",
        "Convert another tool's file list into an index.",
    ),
    "query": (
        "trimtab.cli.purge.query:purge_query_command",
        "Query an index: usage by owner, or SQL.",
    ),
    "horizon": (
        "trimtab.cli.purge.horizon:purge_horizon_command",
        "Find the age cut-off that reaches a target, and whose files it affects.",
    ),
    "evasion": (
        "trimtab.cli.purge.evasion:purge_evasion_command",
        "Detect files kept artificially young.",
    ),
    "replay": (
        "trimtab.cli.purge.replay:purge_replay_command",
        "Replay a past policy against later use.",
    ),
    "plan": (
        "trimtab.cli.purge.plan:purge_plan_command",
        "Freeze and sign a list of purge candidates.",
    ),
    "notify": (
        "trimtab.cli.purge.notify:purge_notify_command",
        "Publish each user's list of files in a plan.",
    ),
    "arm": ("trimtab.cli.purge.arm:purge_arm_command", "Approve a published plan."),
    "run": (
        "trimtab.cli.purge.run:purge_run_command",
        "Recheck every file of a plan; delete with --apply.",
    ),
    "recover": (
        "trimtab.cli.purge.recover:purge_recover_command",
        "List files put aside by interrupted runs; put them back with --restore.",
    ),
    "report": (
        "trimtab.cli.purge.report:purge_report_command",
        "Report what was deleted and retained, by day.",
    ),
}
"""Every subcommand, in the order of a purge."""
_GROUPS: Final = {"Commands": COMMANDS}


class _Commands(LazyGroup):
    groups = _GROUPS


@click.command("purge", cls=_Commands)
def purge_command() -> None:
    """Keep a file system under its limit without ever deleting the wrong file.

    Only `run --apply` deletes, and only files of a plan that is signed, was published for its full
    notice period and is armed. Each file is rechecked immediately before deletion. Start with
    `scan` and `horizon`: they change nothing.
    """
