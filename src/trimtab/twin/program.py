"""Simulate what a probe starts: launchers without a queue, IOR, the built-in generator and lfs.

Each program accepts the arguments and prints the output of the real one; its runtime passes on the
twin's clock. A program unknown here is not installed there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Self

from trimtab.base.error import NeverStarted, ToolError, UsageError
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.allocation import Allocation, NodeDemand, Waiting, job_facts, seconds_between
from trimtab.reach.process import OUTPUT_LIMIT_BYTES, Execute, ProcessResult, execute
from trimtab.twin import load_command, simulated_ior
from trimtab.twin.guest import Guest, NoSpace, move
from trimtab.twin.load_command import LoadCommand, no_name_service, no_space
from trimtab.twin.probe_output import ior_phase, node_names
from trimtab.twin.simulated_ior import IorPhase, IorResult, PrintedSpace, print_ior

IOR: Final = "/usr/bin/ior"
IOLOAD: Final = "/usr/bin/trimtab-ioload"
_THERE: Final = {
    "ior": IOR,
    "trimtab-ioload": IOLOAD,
    "lfs": "/usr/bin/lfs",
    "sysctl": "/usr/sbin/sysctl",
}
_ANSWER_S: Final = 0.1
"""Runtime of lfs, and of programs that only print something."""


class Programs:
    """The programs on the nodes of a simulated file system."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.life = guest.life

    def which(self, name: str) -> str | None:
        """Return the path of a program, ``None`` if there is none."""
        return _THERE.get(name.rpartition("/")[2])

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
        """Run a program to its end and return the result.

        Raises
        ------
        ToolError
            It is not installed.
        """
        words = tuple(argv[2:] if tuple(argv[:2]) == ("sudo", "-n") else argv)
        name = words[0].rpartition("/")[2] if words else ""
        if self.which(name) is None:
            raise ToolError(
                f"{name} is not installed on the nodes of the twin", code="program-missing"
            )
        self.life.claim()
        run = _RunningProgram(self, words, tasks, nodes, timeout_s)
        try:
            printed = self._printed(name, run)
        except _Killed as killed:
            result = run.ended(stdout=killed.printed, exit_code=None)
        except NoSpace:
            failed = no_space(self.guest.path)
            result = run.ended(stderr=failed.stderr, exit_code=failed.exit_code)
        except (UsageError, ToolError) as error:
            result = run.ended(stderr=f"{name}: {error.message}\n".encode(), exit_code=1)
        else:
            result = run.ended(stdout=printed)
        self.life.keep_time()
        return result

    def _printed(self, name: str, run: _RunningProgram) -> bytes:
        """Return a program's output."""
        if name == "ior" and "DUMMY" not in run.argv:
            return self._ior(run)
        if name == "trimtab-ioload" and "--version" not in run.argv:
            return self._ioload(run)
        self.life.pass_by(_ANSWER_S)
        if name == "lfs":
            return self._lfs(run.argv[1:]).encode()
        if name == "ior":  # moves nothing, prints its version
            version = simulated_ior.VERSION
            return f'{{"Version": "{version}", "Command line": "{run.argv[0]}"}}\n'.encode()
        return f"ioload {load_command.VERSION}\n".encode() if name != "sysctl" else b""

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
        raise UsageError(
            f"lfs: the twin does not simulate {' '.join(words[:2])}", code="command-not-simulated"
        )

    # Benchmarks

    def _ior(self, run: _RunningProgram) -> bytes:
        command = _playable(simulated_ior.parse_command(run.argv, tasks=run.tasks, nodes=run.nodes))
        phases: list[IorPhase] = []
        for _ in range(command.repetitions):
            for access in command.accesses:
                moved = move(self.guest, command, access, run.left_s)
                if moved is None:
                    raise _Killed(print_ior(command, self._result(run.began, None, phases)))
                phase = ior_phase(
                    command, access, moved.moved_bytes, moved.elapsed_s, moved.opening_s
                )
                held_bytes = moved.held_bytes if command.fixed_s else None
                phases.append(replace(phase, file_bytes=held_bytes))
        if not command.keep:
            self.guest.unlink(command.files)
        return print_ior(command, self._result(run.began, self.life.now, phases))

    def _ioload(self, run: _RunningProgram) -> bytes:
        command = _playable(load_command.parse_command(run.argv, tasks=run.tasks, nodes=run.nodes))
        began = self.life.now
        moved = move(self.guest, command, command.accesses[0], run.left_s)
        if moved is None:
            raise _Killed(b"")
        each_s = moved.elapsed_s * command.tasks * command.transfer_size_bytes
        latency = {"mean_s": each_s / moved.moved_bytes} if moved.moved_bytes else {}
        result = load_command.IoloadResult(
            began, moved.moved_bytes, moved.elapsed_s, node_names(1)[0], latency
        )
        return load_command.print_load(command, result)

    def _result(
        self, began: datetime, finished: datetime | None, phases: list[IorPhase]
    ) -> IorResult:
        zone = self.life.scenario.zone
        space = self.guest.space()
        return IorResult(
            began.astimezone(zone),
            None if finished is None else finished.astimezone(zone),
            tuple(phases),
            node_names(1)[0],
            PrintedSpace(
                float(space.capacity_bytes),
                space.used_bytes / max(space.capacity_bytes, 1),
                float(space.inodes),
                1.0 - space.inodes_free / max(space.inodes, 1),
            ),
        )


class _Killed(Exception):
    """A program reached its timeout, with ``printed`` so far."""

    def __init__(self, printed: bytes) -> None:
        super().__init__()
        self.printed = printed


class _RunningProgram:
    """A running program."""

    def __init__(
        self, programs: Programs, argv: tuple[str, ...], tasks: int, nodes: int, timeout_s: float
    ) -> None:
        self.argv, self.tasks, self.nodes, self.timeout_s = argv, tasks, nodes, timeout_s
        self._life = programs.life
        self.began = self._life.now

    @property
    def left_s(self) -> float:
        """Seconds until it is killed."""
        return self.timeout_s - self.passed_s

    @property
    def passed_s(self) -> float:
        """Seconds since it started."""
        return (self._life.now - self.began).total_seconds()

    def ended(
        self, *, stdout: bytes = b"", stderr: bytes = b"", exit_code: int | None = 0
    ) -> ProcessResult:
        """Return its result; without an exit code it was killed at its timeout."""
        return ProcessResult(
            argv=self.argv,
            stdout=stdout,
            stderr=stderr,
            exit_code=exit_code,
            signal=15 if exit_code is None else None,
            started_at=self.began,
            elapsed_s=self.passed_s,
            timeout_s=self.timeout_s,
            timed_out=exit_code is None,
        )


def _playable(command: LoadCommand) -> LoadCommand:
    """Return a command with a file per task; raise UsageError for a shared file."""
    if not command.file_per_process:
        raise UsageError(
            "the twin simulates only a file per task", code="option-not-simulated", hint="use -F"
        )
    return command


KINDS: Final = ("local", "mpi", "slurm")
VERSION: Final = "simulated"


class TwinLauncher:
    """Starts programs on simulated nodes, under the name of a site's launcher."""

    def __init__(self, kind: str, programs: Programs) -> None:
        self.kind = kind
        self.name = f"twin {kind}"
        self.version = VERSION
        self.processes = kind != "local"
        self._programs = programs

    def wrap(self, argv: Sequence[str], tasks: int) -> tuple[str, ...]:
        """Return ``argv`` unchanged: the twin gets the number of tasks separately."""
        return tuple(argv)

    def allocate(
        self, demand: NodeDemand, *, run: Execute = execute, on_wait: Waiting | None = None
    ) -> Allocation:
        """Return nodes, which are always free.

        Raises
        ------
        UsageError
            More nodes than there are.
        RefusedError
            Another process runs the twin, so nothing can be measured now.
        """
        self._programs.life.claim()
        nodes_available = self._programs.life.scenario.clients.nodes
        if demand.nodes > nodes_available:
            raise UsageError(
                f"{demand.nodes} nodes are requested, but the twin has {nodes_available}",
                code="too-many-nodes",
            )
        return TwinAllocation(self, demand, self._programs)


class TwinAllocation:
    """Simulated nodes for one probe; see `trimtab.reach.allocation.Allocation`."""

    def __init__(self, launcher: TwinLauncher, demand: NodeDemand, programs: Programs) -> None:
        self._launcher = launcher
        self._demand = demand
        self._programs = programs
        self._began: datetime | None = None
        self._ended: datetime | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names, in order."""
        return node_names(self._demand.nodes)

    @property
    def facts(self) -> dict[str, object]:
        """See `Allocation`; there is no job and no queue."""
        held_s = seconds_between(self._began, self._ended)
        return job_facts(
            self._launcher.kind,
            self._demand.name,
            self.nodes,
            version=self._launcher.version,
            reason="the nodes are simulated",
            node_list=",".join(self.nodes),
            started_at=self._began,
            ended_at=self._ended,
            held_s=held_s,
        )

    def execute(
        self, argv: Sequence[str], *, tasks: int, timeout_s: float, **_options: Any
    ) -> ProcessResult:
        """Run a program as that many tasks."""
        return self._programs.execute(
            argv, timeout_s=timeout_s, tasks=tasks, nodes=self._demand.nodes
        )

    def __enter__(self) -> Self:
        """Note the time.

        Raises
        ------
        NeverStarted
            Several processes are needed, but the nodes' names do not resolve.
        """
        life = self._programs.life
        if self._launcher.processes and not life.simulation.state.names_resolve:
            reason = no_name_service(self.nodes[0]).reason
            raise NeverStarted(f"the nodes cannot be reached: {reason}", code="nodes-unreachable")
        self._began = life.now
        return self

    def __exit__(self, *_error: object) -> None:
        """Note the time, also in the diary, so that the measurement is in the past."""
        self._ended = self._programs.life.now
        self._programs.life.keep_time()


def find_twin_launcher(kind: str, programs: Programs) -> TwinLauncher | NotAvailable:
    """Return the launcher of a kind, or why there is none."""
    if kind not in KINDS:
        return NotAvailable(f"there is no launcher {kind!r}; the twin simulates {', '.join(KINDS)}")
    return TwinLauncher(kind, programs)
