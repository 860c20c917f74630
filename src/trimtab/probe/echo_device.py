"""Runs the commands of a survey on its servers, and removes what an interrupted survey left there.

A killed obdfilter-survey prints ``done!``, exits with 0, and leaves its objects on the target: they
belong to no file, and nothing else ever finds them. Its ``.detail`` has their numbers, written
before the first byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.base.error import ToolError
from trimtab.base.site import Servers
from trimtab.base.units import format_bytes, is_digits
from trimtab.formats.measurement import tail
from trimtab.formats.obdfilter_output import objects_left, target_of
from trimtab.reach.fleet import each
from trimtab.reach.lustre.lustre_target import parse_device_list
from trimtab.reach.lustre.server_query import sudo_of
from trimtab.reach.process import Execute, ProcessResult
from trimtab.reach.process import execute as run_process

RunEach = Callable[[Mapping[str, Sequence[str]], float], Mapping[str, ProcessResult]]
"""Runs one command on each of several servers, with a deadline for each; a failure is a result."""

_ECHO: Final = "echo_client"


def run_each(servers: Servers, *, execute: Execute = run_process) -> RunEach:
    """Return a function that runs commands on the servers of a site, with its ssh and sudo."""
    sudo = sudo_of(servers) or ()

    def run(commands: Mapping[str, Sequence[str]], timeout_s: float) -> Mapping[str, ProcessResult]:
        whole = {server: (*sudo, *argv) for server, argv in commands.items()}
        if servers.reach == "local":
            return {server: execute(argv, timeout_s=timeout_s) for server, argv in whole.items()}
        return each(whole, ssh=servers.ssh, timeout_s=timeout_s)

    return run


def text_of(result: ProcessResult) -> str:
    """Return what a command printed on its standard output."""
    return result.stdout.decode("utf-8", "replace")


def complaint(result: ProcessResult) -> str:
    """Return why a command failed, with the end of its output."""
    printed = tail((result.stderr or result.stdout).decode("utf-8", "replace"), 200)
    return f"{result.problem or 'it failed'}" + (f" ({printed})" if printed else "")


def answer_of(run: RunEach, server: str, argv: Sequence[str], timeout_s: float = 60.0) -> str:
    """Return what a command printed on one server.

    Raises
    ------
    ToolError
        It did not end by itself with exit code 0.
    """
    result = run({server: argv}, timeout_s)[server]
    if result.problem is not None:
        raise ToolError(
            f"{server}: {' '.join(argv[:3])}: {complaint(result)}", code="server-command-failed"
        )
    return text_of(result)


def echo_devices(run: RunEach, server: str) -> frozenset[str]:
    """Return the echo clients that a server has.

    Raises
    ------
    ToolError
        It does not list its devices.
    """
    devices = parse_device_list(answer_of(run, server, ("lctl", "dl")))
    if not devices:
        raise ToolError(
            f"{server}: lctl dl names no device",
            hint="a key that is bound to one command, as the one for reading is, runs no survey: "
            "give [servers.ssh] a user who may run commands as root",
            code="lctl-unreadable",
        )
    return frozenset(device.name for device in devices if device.type == _ECHO)


def free_bytes(run: RunEach, server: str, targets: Sequence[str]) -> dict[str, int]:
    """Return the free bytes of each target, as its server reports now.

    Raises
    ------
    ToolError
        The server does not report a target.
    """
    wanted = {f"obdfilter.{name}.kbytesfree": name for name in targets}
    answer = answer_of(run, server, ("lctl", "get_param", *wanted))
    free: dict[str, int] = {}
    for line in answer.splitlines():
        name, _, value = line.partition("=")
        if name in wanted and is_digits(value.strip()):
            free[wanted[name]] = int(value) * 1024
    missing = [name for name in targets if name not in free]
    if missing:
        raise ToolError(
            f"{server} does not report the free space of {', '.join(missing)}",
            code="free-space-unknown",
        )
    return free


Pause = Callable[[float], None]
"""`time.sleep`, or its replacement where time is simulated."""

_BATCH: Final = 'printf "%s\\n" "$@" | lctl'
_STOP: Final = 'export LC_ALL=C; test -e "$1" || exit 9; kill -s "$2" -- "-$(cat "$1")"'
"""POSIX: ``kill -TERM --`` is not known to every shell."""
_READ: Final = 'cd "$1" && { test -e "$2" || exit 9; exec cat "$2"; }'
_NOT_THERE: Final = 9
_START_S: Final = 5
_STOP_S: Final = 30
_SPACE_S: Final = 60
_DESTROYED: Final = re.compile(r"destroy: #\d+ is object id (0x[0-9a-f]+|\d+)")
_MISSING_FRACTION: Final = 0.05


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something a survey left on a target, and why it was not removed."""

    target: str
    reason: str


def stop(run: RunEach, server: str, directory: str, pause: Pause) -> None:
    """End a survey and all that it started, on its server.

    Raises
    ------
    ToolError
        It does not end, or whether it has ended cannot be found out.
    """
    group = f"{directory}/survey.group"
    for _ in range(_START_S):  # a command sent just before may still be on its way
        if _signal(run, server, group, "0") is not None:
            break
        pause(1.0)
    for signal in ("TERM", "KILL"):
        _signal(run, server, group, signal)
        for _ in range(_STOP_S):
            if not _signal(run, server, group, "0"):
                return
            pause(1.0)
    raise ToolError(
        f"the survey on {server} could not be stopped: see the processes named in {group}",
        code="survey-not-ended",
    )


def _signal(run: RunEach, server: str, group: str, signal: str) -> bool | None:
    """Send a signal to the survey's process group; return whether there is such a group.

    ``None``: the survey has not begun.
    """
    result = run({server: ("sh", "-c", _STOP, "sh", group, signal)}, 30.0)[server]
    if result.problem is None:
        return True
    if result.exit_code == _NOT_THERE:
        return None
    if b"No such process" in result.stderr + result.stdout:
        return False
    raise ToolError(
        f"{server}: the survey cannot be reached: {complaint(result)}", code="survey-unreachable"
    )


def read_back(run: RunEach, server: str, directory: str, name: str) -> str:
    """Return a file that a survey wrote; empty where it wrote none.

    Raises
    ------
    ToolError
        It is unknown what the survey wrote: its directory must stay.
    """
    result = run({server: ("sh", "-c", _READ, "sh", directory, name)}, 60.0)[server]
    if result.problem is None:
        return text_of(result)
    if result.exit_code == _NOT_THERE:
        return ""
    raise ToolError(
        f"{server}: {directory}/{name} cannot be read: {complaint(result)}",
        code="survey-unreadable",
    )


def clean(
    run: RunEach, server: str, targets: Sequence[str], detail: str
) -> tuple[tuple[str, ...], tuple[Leftover, ...]]:
    """Remove the objects and echo clients of a survey; return what was done and what stays.

    Parameters
    ----------
    targets
        Full Lustre names of the surveyed targets.
    detail
        The ``.detail`` file, as far as the survey wrote it.
    """
    done: list[str] = []
    stays: list[Leftover] = []
    left = {target_of(objects.client): objects.ids for objects in objects_left(detail)}
    try:
        devices = echo_devices(run, server)
    except ToolError as error:
        return (), tuple(Leftover(target, error.message) for target in targets)
    for target in targets:
        device = f"{target}_ecc"
        try:
            if left.get(target):
                if device not in devices:
                    _attach(run, server, target, device)
                _destroy(run, server, device, left[target])
                numbers = ", ".join(map(hex, left[target]))
                done.append(f"{target}: removed the objects {numbers} that the survey had left")
            if left.get(target) or device in devices:
                for verb in ("cleanup", "detach"):
                    answer_of(run, server, ("lctl", "--device", device, verb))
                done.append(f"{target}: removed the echo client {device}")
        except ToolError as error:
            stays.append(Leftover(target, error.message))
    try:
        still = echo_devices(run, server)
    except ToolError as error:
        return tuple(done), (*stays, *(Leftover(target, error.message) for target in targets))
    stays += [
        Leftover(target, f"the echo client {target}_ecc is still there")
        for target in targets
        if f"{target}_ecc" in still
    ]
    return tuple(done), tuple(stays)


def missing_space(
    run: RunEach,
    server: str,
    before: Mapping[str, int],
    size_bytes: int,
    pause: Pause,
) -> Iterable[Leftover]:
    """Yield the targets whose free space does not come back within a minute.

    Objects are removed in the background, so that the space comes seconds later.
    """
    missing: dict[str, int] = {}
    for attempt in range(_SPACE_S // 5 + 1):
        if attempt:
            pause(5.0)
        try:
            now = free_bytes(run, server, tuple(before))
        except ToolError as error:
            yield from (Leftover(target, error.message) for target in before)
            return
        missing = {target: before[target] - now[target] for target in before}
        missing = {
            target: lost
            for target, lost in missing.items()
            if lost > _MISSING_FRACTION * size_bytes
        }
        if not missing:
            return
    for target, lost in missing.items():
        yield Leftover(
            target,
            f"{format_bytes(lost)} less are free than before: objects of the survey may be left,"
            " or others wrote",
        )


def _attach(run: RunEach, server: str, target: str, device: str) -> None:
    """Make an echo client on a target; the survey has loaded its module."""
    words = (f"attach echo_client {device} {device}_UUID", f"setup {target}")
    answer_of(run, server, ("sh", "-c", _BATCH, "sh", *words))
    if device not in echo_devices(run, server):
        raise ToolError(f"{server}: the echo client {device} cannot be created", code="echo-client")


def _destroy(run: RunEach, server: str, device: str, ids: Sequence[int]) -> None:
    for number in ids:
        argv = ("lctl", "--device", device, "destroy", hex(number))
        result = run({server: argv}, 60.0)[server]
        # The exit code of lctl says little: that it names the object says that it is gone.
        destroyed = {int(text, 0) for text in _DESTROYED.findall(text_of(result))}
        if number not in destroyed and b"No such file or directory" not in result.stderr:
            raise ToolError(
                f"the object {number:#x} of {device} was not removed: {complaint(result)}",
                code="object-not-removed",
            )
