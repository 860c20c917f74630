"""Places the files of a probe on Lustre: each on one OST, as many on every OST, or striped.

A gated OST silently passes a file on to another one (`docs/traps.md`), so every placement is read
back before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.base.error import RefusedError, ToolError, UsageError
from trimtab.base.visible import visible
from trimtab.formats.measurement import tail
from trimtab.formats.phase import FILE_NAME
from trimtab.reach.process import Execute, ProcessResult

Make = Callable[[str, str], object]
"""Makes a directory, given its parent and its name."""
_TIMEOUT_S: Final = 60.0
_FILES_AT_ONCE: Final = 200
"""Names of one command: far below what an argument list may hold."""
_INDEX: Final = re.compile(r"[0-9]+")


def pin(tasks: int, tasks_per_node: int, targets: Sequence[str]) -> tuple[str, ...]:
    """Return for each task the target of its file: as many on each, also from each node.

    Tasks are numbered node by node, as MPI and Slurm number them in blocks.

    Raises
    ------
    UsageError
        The tasks cannot be spread evenly: an OST with one file more would be the slow one.

    Examples
    --------
    >>> pin(4, 2, ("OST0000", "OST0001"))
    ('OST0000', 'OST0001', 'OST0000', 'OST0001')
    >>> pin(4, 2, ("OST0000", "OST0001", "OST0002", "OST0003"))
    ('OST0000', 'OST0001', 'OST0002', 'OST0003')
    """
    if not targets:
        raise UsageError("no OST is available to place a file on", code="no-ost")
    if tasks % len(targets):
        raise UsageError(
            f"{tasks} files cannot be spread evenly over {len(targets)} OSTs",
            code="placement-uneven",
            hint=f"use a number of tasks that {len(targets)} divides",
        )
    if tasks_per_node % len(targets) and len(targets) % tasks_per_node:
        raise UsageError(
            f"{tasks_per_node} files of a node cannot be spread evenly over {len(targets)} OSTs: "
            "some would get more files from one node than from another",
            code="placement-uneven",
            hint="choose tasks_per_node as a divisor or a multiple of the number of OSTs",
        )
    return tuple(targets[task % len(targets)] for task in range(tasks))


def pin_usable(
    tasks: int, nodes: int, targets: Sequence[str], unusable: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the target of each task's file, and in words which targets are left out and why.

    The others keep their number of files: with a target fewer there are fewer tasks.

    Parameters
    ----------
    unusable
        Target to why no file may be placed there.

    Raises
    ------
    UsageError
        As `pin`, also of all targets.
    RefusedError
        No usable target is left.

    Examples
    --------
    >>> placed, left_out = pin_usable(4, 1, ("OST0000", "OST0001"), {"OST0001": "it is lost"})
    >>> placed
    ('OST0000', 'OST0000')
    >>> left_out
    ('OST0001 is left out of the pinning: it is lost',)
    """
    placed = pin(tasks, tasks // nodes, targets)
    reasons = {target: unusable[target] for target in targets if target in unusable}
    if not reasons:
        return placed, ()
    each, usable = tasks // len(targets), [name for name in targets if name not in reasons]
    for count in range(len(usable), 0, -1):
        try:
            placed = pin(each * count, _per_node(each * count, nodes), usable[:count])
        except UsageError:
            continue
        uneven = f"{len(usable)} OSTs cannot have as many files from each of {nodes} nodes"
        reasons |= dict.fromkeys(usable[count:], uneven)
        return placed, tuple(
            f"{target} is left out of the pinning: {reasons[target]}" for target in sorted(reasons)
        )
    first, why = next(iter(reasons.items()))
    raise RefusedError(
        f"no OST is left to place files on: {len(reasons)} of {len(targets)} are left out, the "
        f"first {first}: {why}",
        code="no-ost",
        hint="see all of them: trimtab targets SITE",
    )


def _per_node(tasks: int, nodes: int) -> int:
    if tasks % nodes:
        raise UsageError(f"{tasks} tasks cannot be spread evenly over {nodes} nodes", code="uneven")
    return tasks // nodes


@dataclass(frozen=True, slots=True)
class Pinned:
    """Makes a probe's directory with its files in it, each on its OST and empty.

    IOR and the built-in generator name the file of a task alike.

    Attributes
    ----------
    make
        Makes the directory itself.
    targets
        Of each file, by the number of its task: ``OST0003``.
    """

    make: Make
    targets: tuple[str, ...]
    execute: Execute

    def __call__(self, parent: str, name: str) -> None:
        """Make the directory and the files.

        Raises
        ------
        ToolError
            lfs failed or did not answer.
        RefusedError
            A file went to another OST than asked: that one is not open for creation.
        """
        self.make(parent, name)
        directory = f"{parent.rstrip('/')}/{name}"
        files: dict[str, list[str]] = {}
        for task, target in enumerate(self.targets):
            files.setdefault(target, []).append(f"{directory}/{FILE_NAME}.{task:08d}")
        for target, paths in files.items():
            index = str(int(target.removeprefix("OST"), 16))
            for start in range(0, len(paths), _FILES_AT_ONCE):
                some = paths[start : start + _FILES_AT_ONCE]
                lfs(self.execute, "setstripe", "-c", "1", "-i", index, *some)
                for path in some:
                    self._check(path, target, index)

    def _check(self, path: str, target: str, index: str) -> None:
        answer = lfs(self.execute, "getstripe", "-i", path).stdout.decode("utf-8", "replace")
        match = _INDEX.search(answer)
        if match is None:
            raise ToolError(
                f"lfs getstripe does not say where {visible(path)} lies", code="placement-unknown"
            )
        if match.group() != index:
            raise RefusedError(
                f"a file for {target} was placed on OST{int(match.group()):04x}: {target} is not "
                "open for creation",
                code="placement-refused",
                hint="open it, or leave it out: the figure would be of another OST",
            )


@dataclass(frozen=True, slots=True)
class Striped:
    """Makes a probe's directory with a default layout of so many stripes."""

    make: Make
    stripe_count: int
    execute: Execute

    def __call__(self, parent: str, name: str) -> None:
        """Make the directory and set its layout.

        Raises
        ------
        ToolError
            lfs failed, did not answer, or set another layout.
        """
        self.make(parent, name)
        directory = f"{parent.rstrip('/')}/{name}"
        lfs(self.execute, "setstripe", "-c", str(self.stripe_count), directory)
        answer = lfs(self.execute, "getstripe", "-d", "-c", directory).stdout.split()
        if answer[:1] != [str(self.stripe_count).encode()]:
            count_text = b" ".join(answer[:1]).decode("utf-8", "replace")
            raise ToolError(
                f"{visible(directory)} has a stripe count of {count_text or 'nothing'} instead of "
                f"{self.stripe_count}",
                code="stripe-count",
            )


def lfs(execute: Execute, *arguments: str) -> ProcessResult:
    """Return what lfs answered.

    Raises
    ------
    ToolError
        It failed or did not answer in its time.
    """
    result = execute(("lfs", *arguments), timeout_s=_TIMEOUT_S, output_limit_bytes=2**20)
    if result.problem is not None:
        printed = tail((result.stderr or result.stdout).decode("utf-8", "replace"), 200)
        raise ToolError(
            f"lfs {arguments[0]}: {result.problem}" + (f": {printed}" if printed else ""),
            code="lfs-failed",
        )
    return result
