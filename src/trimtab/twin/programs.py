"""The programs that a probe starts, as a node of the twin runs them: IOR, and what lfs answers.

Each takes the argument list that a real one takes and prints what a real one prints; the time that
it takes passes on the twin's clock. A program that is not known here is not installed there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import ToolError, TrimtabError, UsageError
from trimtab.launch.process import OUTPUT_LIMIT_BYTES, ProcessResult
from trimtab.model.run import Access
from trimtab.twin.guest import File, Guest
from trimtab.twin.instruments.failures import failure_of
from trimtab.twin.instruments.ior import (
    IorAsked,
    IorPhase,
    IorResult,
    Space,
    asked_of,
    print_ior,
    test_file,
)
from trimtab.twin.instruments.probes import node_names

IOR: Final = "/usr/bin/ior"
_ANSWER_S: Final = 0.1
"""Of lfs, and of programs that only say something."""
_OPEN_S: Final = 0.3
"""Opening the files of all tasks, assumed; and closing them."""

Array = NDArray[np.float64]


class Programs:
    """What can be started on the nodes of a simulated file system."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.life = guest.life

    def which(self, name: str) -> str | None:
        """Return where a program is, ``None`` where there is none."""
        return {"ior": IOR, "lfs": "/usr/bin/lfs", "sysctl": "/usr/sbin/sysctl"}.get(name)

    def execute(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
        on_progress: Callable[[float], None] | None = None,
        tasks: int = 1,
        nodes: int = 1,
    ) -> ProcessResult:
        """Return how a program ran, when it is over.

        Raises
        ------
        ToolError
            It is not installed.
        """
        name = argv[0].rpartition("/")[2]
        if self.which(name) is None:
            raise ToolError(f"{name} is not installed on the nodes of the twin")
        began = self.life.now
        if name == "ior":
            return self._ior(argv, tasks, nodes, timeout_s)
        self.life.pass_by(_ANSWER_S)
        try:
            said = self._lfs(argv[1:]) if name == "lfs" else ""
        except TrimtabError as error:
            return _ended(
                argv, began, _ANSWER_S, timeout_s, stderr=f"{error}\n".encode(), exit_code=1
            )
        return _ended(argv, began, _ANSWER_S, timeout_s, stdout=said.encode())

    # lfs

    def _lfs(self, words: Sequence[str]) -> str:
        match list(words):
            case ["setstripe", "-c", count, "-i", first, *paths]:
                for path in paths:
                    self.guest.create(path, int(first), int(count))
                return ""
            case ["setstripe", "-c", count, directory]:
                self.guest.set_stripes(directory, int(count))
                return ""
            case ["getstripe", "-d", "-c", directory]:
                return f"{self.guest.stripes(directory)}\n"
            case ["getstripe", "-i", path]:
                return f"{self.guest.file(path).osts[0]}\n"
        raise UsageError(f"lfs: the twin does not play {' '.join(words[:2])}")

    # IOR

    def _ior(self, argv: Sequence[str], tasks: int, nodes: int, timeout_s: float) -> ProcessResult:
        began = self.life.now
        if "DUMMY" in argv:  # it moves nothing and says which version it is
            return self._printed(argv, began, _ANSWER_S, timeout_s, _version(argv))
        try:
            asked = asked_of(argv, tasks=tasks, nodes=nodes)
        except UsageError as error:
            said = f"{error.message}\n".encode()
            return _ended(argv, began, _ANSWER_S, timeout_s, stderr=said, exit_code=1)
        if not self.life.simulation.state.names_resolve:
            failed = failure_of("name-service", path=self.guest.path, node=node_names(1)[0])
            self.life.pass_by(_ANSWER_S)
            return _ended(argv, began, _ANSWER_S, timeout_s, stderr=failed.stderr, exit_code=1)
        phases: list[IorPhase] = []
        passed_s = 0.0
        for _ in range(asked.repetitions):
            for access in asked.accesses:
                try:
                    phase = self._phase(asked, access, timeout_s - passed_s)
                except ToolError:
                    failed = failure_of("no-space", path=self.guest.path)
                    return _ended(
                        argv,
                        began,
                        passed_s,
                        timeout_s,
                        stderr=failed.stderr,
                        exit_code=failed.exit_code,
                    )
                if phase is None:
                    printed = print_ior(asked, self._result(began, None, phases))
                    return _ended(argv, began, timeout_s, timeout_s, stdout=printed, exit_code=None)
                phases.append(phase)
                passed_s += phase.elapsed_s
        printed = print_ior(asked, self._result(began, self.life.now, phases))
        return _ended(argv, began, passed_s, timeout_s, stdout=printed)

    def _phase(self, asked: IorAsked, access: Access, left_s: float) -> IorPhase | None:
        """Let all tasks write or read; return ``None`` where that does not end in time."""
        paths = _paths(asked)
        files = self._files(asked, paths, access)
        bytes_per_task = float(asked.block_size_bytes * asked.segments)
        rates, slowest_s = self.life.simulation.meet(
            np.array([file.osts[0] for file in files]),
            at=self.life.now,
            nodes=asked.nodes,
            tasks_per_node=asked.tasks_per_node,
            bytes_per_task=bytes_per_task,
            access=access,
        )
        fixed_s = float(max(asked.deadline_s, asked.minimum_duration_s))
        busy_s = fixed_s or slowest_s
        if not busy_s + 2 * _OPEN_S <= left_s or (fixed_s and not rates.all()):
            self.life.pass_by(max(left_s, 0.0))
            return None
        moved = rates * fixed_s if fixed_s else np.full(len(files), bytes_per_task)
        moved = np.floor(moved / asked.transfer_size_bytes) * asked.transfer_size_bytes
        held = np.minimum(moved, bytes_per_task)
        if access == "write":
            self.guest.write(dict(zip(paths, held.tolist(), strict=True)))
        self.life.pass_by(busy_s + 2 * _OPEN_S)
        total = int(moved.sum())
        transfers = max(1.0, total / asked.tasks / asked.transfer_size_bytes)
        return IorPhase(
            access,
            total,
            elapsed_s=busy_s + 2 * _OPEN_S,
            transfer_s=busy_s,
            open_s=_OPEN_S,
            close_s=_OPEN_S,
            latency_s=busy_s / transfers,
            file_bytes=int(held.sum()) if fixed_s else None,
        )

    def _files(self, asked: IorAsked, paths: Sequence[str], access: Access) -> list[File]:
        if access == "write":
            return self.guest.write(dict.fromkeys(paths, 0.0))
        files = [self.guest.file(path) for path in paths]
        shift = asked.tasks_per_node if asked.reorder else 0  # each reads what another node wrote
        return [files[(one + shift) % len(files)] for one in range(len(files))]

    def _result(
        self, began: datetime, finished: datetime | None, phases: list[IorPhase]
    ) -> IorResult:
        zone = ZoneInfo(self.life.scenario.timezone)
        space = self.guest.space()
        return IorResult(
            began.astimezone(zone),
            None if finished is None else finished.astimezone(zone),
            tuple(phases),
            node_names(1)[0],
            Space(
                float(space.capacity_bytes),
                space.used_bytes / max(space.capacity_bytes, 1),
                float(space.inodes),
                1.0 - space.inodes_free / max(space.inodes, 1),
            ),
        )

    def _printed(
        self, argv: Sequence[str], began: datetime, took_s: float, timeout_s: float, text: bytes
    ) -> ProcessResult:
        self.life.pass_by(took_s)
        return _ended(argv, began, took_s, timeout_s, stdout=text)


def _paths(asked: IorAsked) -> list[str]:
    """Return the file of each task."""
    if not asked.file_per_process:
        raise UsageError("the twin plays a file for each task alone", hint="take -F")
    first = test_file(asked)
    stem = first[: -len("00000000")]
    return [f"{stem}{task:08d}" for task in range(asked.tasks)]


def _version(argv: Sequence[str]) -> bytes:
    from trimtab.twin.instruments.ior import VERSION

    return f'{{"Version": "{VERSION}", "Command line": "{argv[0]}"}}\n'.encode()


def _ended(
    argv: Sequence[str],
    began: datetime,
    took_s: float,
    timeout_s: float,
    *,
    stdout: bytes = b"",
    stderr: bytes = b"",
    exit_code: int | None = 0,
) -> ProcessResult:
    return ProcessResult(
        argv=tuple(argv),
        stdout=stdout,
        stderr=stderr,
        exit_code=exit_code,
        signal=None if exit_code is not None else 15,
        started_at=began,
        elapsed_s=took_s,
        timeout_s=timeout_s,
        timed_out=exit_code is None and not math.isclose(took_s, 0.0),
    )
