"""A probe of the site file that is one command: its words, what starts it, and what it may take."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from trimtab.errors import RefusedError, ToolError
from trimtab.launch.bounded import Space
from trimtab.launch.launchers import Launcher
from trimtab.loop.probing.command import DIRECTORY_WORD, CommandSpec
from trimtab.loop.probing.reach import Reach
from trimtab.loop.probing.tools import asking
from trimtab.measure import mdtest
from trimtab.measure.table import Tool
from trimtab.model.site import COMMAND_TIMEOUT_S, SiteProbe
from trimtab.model.telemetry import NotAvailable

FREE_SHARE_SCHEDULED: Final = 0.2
"""Nobody looks on while a scheduled probe writes: it takes at most a fifth of what is free.

A person who asks `trimtab check` for a certain space may have nine tenths (`plan.py`). What a
probe takes has to be the same each time, so it is refused when that is too much, never shrunk."""


def command_of(
    probe: SiteProbe, kind: str, directory: str, reach: Reach
) -> tuple[CommandSpec, Launcher]:
    """Return what a probe runs and what starts it.

    Parameters
    ----------
    kind
        Of the probe's launcher.
    directory
        Below which it makes its own.
    reach
        Of its processors mdtest has two tasks each where the site file names no number.

    Raises
    ------
    ToolError
        The launcher or mdtest cannot be used here.
    UsageError
        mdtest cannot work in that directory.
    """
    spec = CommandSpec(
        name=probe.name,
        benchmark=probe.benchmark,
        command=probe.command or (),
        tasks=probe.nodes * (probe.tasks_per_node or 1),
        nodes=probe.nodes,
        output=probe.output,
        timeout_s=probe.timeout_s or COMMAND_TIMEOUT_S,
        stripe_count=probe.stripe_count,
    )
    if probe.command is not None:
        return spec, _launcher(kind, reach)
    # mdtest is started by MPI: without it every task would take itself for the only one.
    launcher = _launcher("mpi" if kind == "local" else kind, reach)
    tool = _find_mdtest(reach)
    ask = partial(mdtest.command, probe.items, probe.repetitions, program=tool.path)
    ask(directory=directory)  # it may refuse the place
    tasks = tasks_of(probe, reach.processors)
    expected = {"tasks": tasks, "items_per_task": probe.items}
    words = ask(directory=DIRECTORY_WORD)
    return replace(spec, command=words, tasks=tasks, tool=tool, expected=expected), launcher


def tasks_of(probe: SiteProbe, processors: int) -> int:
    """Return how many tasks a probe has: two a processor of a node where none are named."""
    return probe.nodes * (probe.tasks_per_node or min(16, 2 * processors))


def refuse_too_many(spec: CommandSpec, space: Space) -> None:
    """Refuse mdtest where it would take more than its share of the free inodes.

    Raises
    ------
    RefusedError
        It would. A file system that does not count inodes (Btrfs) has room for any number.
    """
    items = spec.expected.get("items_per_task")
    if not isinstance(items, int) or space.inodes == 0:
        return
    if items * spec.tasks > space.inodes_free * FREE_SHARE_SCHEDULED:
        raise RefusedError(
            f"probe {spec.name} would create {items * spec.tasks} files; {space.inodes_free} "
            "inodes are free, and a scheduled probe takes at most "
            f"{FREE_SHARE_SCHEDULED:.0%} of them",
            code="inodes-too-few",
            hint="lower items or tasks_per_node: runs before and after that cannot be compared",
        )


def _find_mdtest(reach: Reach) -> Tool:
    path = reach.which(mdtest.KIND)
    if path is None:
        raise ToolError(
            "mdtest is not on PATH",
            code="program-missing",
            hint="it comes with IOR: github.com/hpc/ior",
        )
    version = mdtest.version(asking(reach.execute), path)
    if isinstance(version, NotAvailable):
        raise ToolError(f"mdtest cannot be used: {version.reason}", code="program-unusable")
    return Tool(mdtest.KIND, path, version)


def _launcher(kind: str, reach: Reach) -> Launcher:
    launcher = reach.find_launcher(kind)
    if isinstance(launcher, NotAvailable):
        raise ToolError(
            f"launcher {kind} cannot be used: {launcher.reason}", code="launcher-unusable"
        )
    return launcher
