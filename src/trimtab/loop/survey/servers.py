"""Commands on the servers of a survey, and what they answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trimtab.drivers.lustre.asking import sudo_of
from trimtab.drivers.lustre.device_list import parse_device_list
from trimtab.errors import ToolError
from trimtab.launch.fleet import each
from trimtab.launch.process import Execute, ProcessResult
from trimtab.launch.process import execute as run_process
from trimtab.measure.measurement import tail
from trimtab.model.site import Servers
from trimtab.units import is_digits

RunEach = Callable[[Mapping[str, Sequence[str]], float], Mapping[str, ProcessResult]]
"""Runs one command on each of some servers, given a deadline for each; a failure is a result."""

_ECHO: Final = "echo_client"


def run_each(servers: Servers, *, execute: Execute = run_process) -> RunEach:
    """Return what runs commands on the servers of a site, with its ssh and its sudo."""
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
    """Return why a command failed, with the end of what it said."""
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
        It does not tell which devices it has.
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
    """Return what is free on each target, as its server says now.

    Raises
    ------
    ToolError
        One of them is not told.
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
