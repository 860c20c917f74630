"""``trimtab purge``: from a scan to deletion and its report, one subcommand per step.

Options shared by several subcommands are declared here, and so is the question that ``horizon``,
``replay`` and ``plan`` form from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from trimtab.base import units
from trimtab.base.error import UsageError, visible
from trimtab.show import command_options
from trimtab.show.command_group import LazyGroup

if TYPE_CHECKING:
    from trimtab.purge.horizon.horizon_question import HorizonQuestion
    from trimtab.purge.purge_policy import Policy


COMMANDS: dict[str, tuple[str, str]] = {
    "policy": (
        "trimtab.purge.horizon.command:purge_policy_command",
        "Write a commented policy file, or check one.",
    ),
    "scan": ("trimtab.purge.index.command:purge_scan_command", "Scan every file into an index."),
    "follow": (
        "trimtab.purge.command_follow:purge_follow_command",
        "Keep the index of a Lustre up to date from its changelogs.",
    ),
    "import": (
        "trimtab.purge.index.command:purge_import_command",
        "Convert another tool's file list into an index.",
    ),
    "query": (
        "trimtab.purge.index.command:purge_query_command",
        "Query an index: usage by owner, or SQL.",
    ),
    "horizon": (
        "trimtab.purge.horizon.command:purge_horizon_command",
        "Find the age cut-off that reaches a target, and whose files it affects.",
    ),
    "evasion": (
        "trimtab.purge.horizon.command:purge_evasion_command",
        "Detect files kept artificially young.",
    ),
    "replay": (
        "trimtab.purge.horizon.command:purge_replay_command",
        "Replay a past policy against later use.",
    ),
    "plan": (
        "trimtab.purge.plan.command:purge_plan_command",
        "Freeze and sign a list of purge candidates.",
    ),
    "notify": (
        "trimtab.purge.plan.command:purge_notify_command",
        "Publish each user's list of files in a plan.",
    ),
    "arm": ("trimtab.purge.plan.command:purge_arm_command", "Approve a published plan."),
    "run": (
        "trimtab.purge.run.command:purge_run_command",
        "Recheck every file of a plan; delete with --apply.",
    ),
    "recover": (
        "trimtab.purge.run.command:purge_recover_command",
        "List files put aside by interrupted runs; put them back with --restore.",
    ),
    "report": (
        "trimtab.purge.run.command:purge_report_command",
        "Report what was deleted and retained, by day.",
    ),
}
"""Every subcommand, in the order of a purge."""
_GROUPS: Final = {"Commands": COMMANDS}


class _PurgeCommands(LazyGroup):
    groups = _GROUPS


@click.command("purge", cls=_PurgeCommands)
def purge_command() -> None:
    """Keep a file system under its limit without ever deleting the wrong file.

    Only `run --apply` deletes, and only files of a plan that is signed, was published for its full
    notice period and is armed. Each file is rechecked immediately before deletion. Start with
    `scan` and `horizon`: they change nothing.
    """


def _pool(text: str) -> tuple[str, float]:
    """Parse the name of a pool and its maximum fullness: ``flash=75%``."""
    name, equals, fullness = text.partition("=")
    if not name or not equals:
        problem = f"{visible(text)!r} is not a pool with its fullness: flash=75%"
        raise UsageError(problem, code="pool-malformed")
    return name, units.parse_fraction(fullness)


target_pool = click.option(
    "--target-pool",
    type=command_options.Quantity("pool", _pool),
    multiple=True,
    metavar="POOL=FRACTION",
    help="Target fullness of a pool of OSTs: flash=75%. Repeatable.",
)


def pool_limits(pairs: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Return the limits of pools in the form of a policy.

    Raises
    ------
    UsageError
        A pool has two limits.
    """
    limits = dict(pairs)
    if len(limits) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in limits if names.count(name) > 1)
        raise UsageError(
            f"--target-pool names the pool {visible(twice)} twice",
            code="pool-named-twice",
            hint="leave one out",
        )
    return tuple(sorted(limits.items()))


def one_target(*targets: object) -> None:
    """Raise if more than one target is given.

    Parameters
    ----------
    targets
        Values of ``--target``, ``--target-ost`` and ``--target-pool``; ``None`` or empty: not
        given.

    Raises
    ------
    UsageError
        More than one was given.
    """
    if sum(target is not None and target != () for target in targets) > 1:
        raise UsageError(
            "--target, --target-ost and --target-pool exclude each other",
            code="targets-exclusive",
            hint="keep one of them",
        )


index = click.option(
    "--index",
    "directory",
    type=command_options.PATH,
    required=True,
    metavar="DIR",
    help="Directory of the index.",
)
site = click.option(
    "--site",
    metavar="SITE",
    help="Site that provides whether reads are recorded (a canary is read through each class of "
    "client), the use of each OST, the pools, and the growth of use.",
)
threads = click.option(
    "--threads",
    type=click.IntRange(0, 256),
    default=0,
    metavar="N",
    help="Threads. Default: as many as suit the machine.",
)


def dask_of(site: str | None, dask: str | None) -> str | None:
    """Return the Dask workers that read the index: as given, else those of the site's file."""
    from trimtab.site.lookup import open_site, with_dask

    named = open_site(site).site if site is not None and dask is None else None
    return with_dask(named, dask)


def policy_of(file: Path | None) -> Policy | None:
    """Load the policy of a file."""
    from trimtab.purge.policy_file import load_policy

    return None if file is None else load_policy(file).policy


def horizon_question(
    directory: Path,
    policy: Policy | None,
    *,
    used: float | None = None,
    available: float | None = None,
    target_pool: Sequence[tuple[str, float]] = (),
    forecast_s: float | None = None,
    site: str | None = None,
    place: str | None = None,
    dask: str | None = None,
    **terms: Any,
) -> HorizonQuestion:
    """Return the question formed by the options of ``horizon``, ``replay`` and ``plan``.

    Raises
    ------
    UsageError
        One of ``--used`` and ``--available`` is missing; a pool has two targets.
    """
    from trimtab.purge.fullness import Usage
    from trimtab.purge.horizon.horizon_question import HorizonQuestion
    from trimtab.store.location import purge_place

    if (used is None) != (available is None):
        raise UsageError(
            "--used and --available go together",
            code="usage-incomplete",
            hint="as df --block-size=1",
        )
    return HorizonQuestion(
        directory=directory,
        policy=policy,
        target_pool=pool_limits(target_pool),
        usage=None if used is None or available is None else Usage(int(used), int(available)),
        site=site,
        place=purge_place(place),
        ahead_s=None if forecast_s is None else int(forecast_s),
        dask=dask_of(site, dask),
        **terms,
    )
