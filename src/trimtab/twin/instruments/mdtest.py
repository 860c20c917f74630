"""mdtest 4.0 as the twin plays it. Of what ``-v`` prints, where each rank is in its source is left
out: nothing of it is a figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean, stdev
from typing import Final

from trimtab.measure.mdtest.launch import MdtestSpec
from trimtab.twin.instruments.ior import Space, space_of
from trimtab.twin.instruments.options import options_of

VERSION: Final = "4.0.0"
FILE_OPERATIONS: Final = ("File creation", "File stat", "File read", "File removal")
DIRECTORY_OPERATIONS: Final = (
    "Directory creation",
    "Directory stat",
    "Directory rename",
    "Directory removal",
)
TREE_OPERATIONS: Final = ("Tree creation", "Tree removal")
"""One directory each, by the first task alone."""
_LINES: Final[Mapping[str, int]] = {
    "Directory creation": 1113, "Directory stat": 1114, "Directory rename": 1115,
    "Directory removal": 1116, "File creation": 1399, "File stat": 1403, "File read": 1404,
    "File removal": 1405, "Tree creation": 2091, "Tree removal": 2201,
}  # fmt: skip
"""Line of mdtest's source that prints each rate, which stands before it."""


@dataclass(frozen=True, slots=True)
class MdtestAsked:
    """What a command of mdtest asks for."""

    argv: tuple[str, ...]
    spec: MdtestSpec
    nodes: int
    directory: str

    @property
    def operations(self) -> tuple[str, ...]:
        """What it times, in the order of its summary."""
        others = () if self.spec.files_only else DIRECTORY_OPERATIONS
        return (*others, *FILE_OPERATIONS, *TREE_OPERATIONS)

    def count(self, operation: str) -> int:
        """Return how many of an operation there are in one iteration."""
        return 1 if operation in TREE_OPERATIONS else self.spec.tasks * self.spec.items_per_task


@dataclass(frozen=True, slots=True)
class MdtestResult:
    """What came of it.

    Attributes
    ----------
    began, finished
        By the clock of the nodes; ``finished`` is ``None`` for one that was ended before.
    iterations
        For each, the seconds of each operation; one that was not reached is left out.
    """

    began: datetime
    finished: datetime | None
    iterations: tuple[Mapping[str, float], ...]
    space: Space = field(default_factory=Space)


def asked_of(argv: Sequence[str], *, tasks: int, nodes: int = 1) -> MdtestAsked:
    """Return what a command of mdtest asks for.

    Raises
    ------
    UsageError
        An option that the twin does not play; it is named.
    """
    found = options_of(argv, flags=("-v", "-F", "-u"), values=("-n", "-i", "-d", "-W"))
    stonewall = found.whole("-W", 0)
    spec = MdtestSpec(
        tasks=tasks,
        items_per_task=found.whole("-n", 1),
        files_only="-F" in found.flags,
        unique_directories="-u" in found.flags,
        iterations=found.whole("-i", 1),
        stonewall_s=float(stonewall) if stonewall else None,
    )
    return MdtestAsked(tuple(argv), spec, nodes, found.text("-d"))


def print_mdtest(asked: MdtestAsked, result: MdtestResult) -> bytes:
    """Return what mdtest prints: whole where it finished, else as far as it came."""
    spec = asked.spec
    size, used, inodes, used_inodes = space_of(result.space)
    what = "files" if spec.files_only else "files/directories"
    words = " ".join([asked.argv[0], *(f"'{word}'" for word in asked.argv[1:])])
    lines = [
        f"-- started at {result.began:%m/%d/%Y %H:%M:%S} --",
        "",
        f"mdtest-{VERSION} was launched with {spec.tasks} total task(s) on {asked.nodes} node(s)",
        f"Command line used: {words}",
        *_verbose(asked),
        "WARNING: Read bytes is 0, thus, a read test will actually just open/close",
        f"Path                : {asked.directory}",
        f"FS                  : {size}   Used FS: {used}   Inodes: {inodes}"
        f"   Used Inodes: {used_inodes}",
        f"Nodemap: {_node_map(spec.tasks, asked.nodes)}",
        f"{spec.tasks} tasks, {spec.tasks * spec.items_per_task} {what}",
    ]
    if "-v" in asked.argv:
        for number, own in enumerate(result.iterations, start=1):
            lines += _iteration(asked, number, own)
    if result.finished is not None:
        lines += ["", *_summary(asked, result)]
        lines.append(f"-- finished at {result.finished:%m/%d/%Y %H:%M:%S} --")
        lines.append("")
    return ("\n".join(lines) + "\n").encode()


def _verbose(asked: MdtestAsked) -> list[str]:
    if "-v" not in asked.argv:
        return []
    spec = asked.spec
    values = {
        "files_only": spec.files_only,
        "iterations": spec.iterations,
        "items": spec.items_per_task,
        "stone_wall_timer_seconds": round(spec.stonewall_s or 0),
        "unique_dir_per_task": spec.unique_directories,
    }
    return [f"V-1: Rank   0 Line  2400 {name:<24}: {value}" for name, value in values.items()]


def _iteration(asked: MdtestAsked, number: int, own: Mapping[str, float]) -> list[str]:
    lines = [f"V-1: Rank   0 Line  2015 main: * iteration {number} *"]
    order = ("Tree creation", *asked.operations[: -len(TREE_OPERATIONS)], "Tree removal")
    for operation in order:
        if operation not in own:
            continue
        took_s = own[operation]
        # In this version ``-v`` tells the rate of the first task's own items.
        own_count = 1 if operation in TREE_OPERATIONS else asked.spec.items_per_task
        before = {"Tree creation": "V-1: main:   ", "Tree removal": "main   "}.get(operation, "  ")
        lines.append(
            f"V-1: Rank   0 Line  {_LINES[operation]} {before}{operation:<18}:"
            f"     {took_s:10.3f} sec,  {own_count / took_s:15.3f} ops/sec"
        )
    return lines


def _summary(asked: MdtestAsked, result: MdtestResult) -> list[str]:
    lines = [
        f"SUMMARY rate: (of {asked.spec.iterations} iterations)",
        "   Operation                     Max            Min           Mean        Std Dev",
        "   ---------                     ---            ---           ----        -------",
    ]
    for operation in asked.operations:
        rates = [asked.count(operation) / one[operation] for one in result.iterations]
        lines.append(
            f"   {operation:<19}{max(rates):18.3f} {min(rates):14.3f} {fmean(rates):14.3f}"
            f" {stdev(rates) if len(rates) > 1 else 0.0:14.3f}"
        )
    return lines


def _node_map(tasks: int, nodes: int) -> str:
    """Return 1 for each task that is on the node of the first one, else 0."""
    own = -(-tasks // nodes)
    return "1" * min(own, tasks) + "0" * max(0, tasks - own)
