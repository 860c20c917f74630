"""Asking the client's tools and every server, each within its deadline: at most one round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from trimtab.drivers.local.tools import complaint
from trimtab.drivers.lustre.collecting import parse_answer, program
from trimtab.drivers.lustre.collector import HUNG_LIMIT, hanging
from trimtab.drivers.lustre.lfs_df import LfsDf, LfsDfLine, parse_lfs_df
from trimtab.drivers.lustre.parameters import Parameters
from trimtab.drivers.lustre.reads import CLIENT_IMPORTS, CLIENT_PARAMETERS, server_request
from trimtab.drivers.lustre.view import NOTHING, ClientView, ServerView, links, parse_asked
from trimtab.errors import ToolError
from trimtab.launch.fleet import FanOut, run_here
from trimtab.launch.launchers import Execute
from trimtab.launch.process import ProcessResult
from trimtab.model.site import Servers
from trimtab.model.telemetry import NotAvailable, not_available

CLIENT_TIMEOUT_S: Final = 20.0
SUDO: Final = ("sudo", "-n")
_OUTPUT_LIMIT_BYTES: Final = 32 * 2**20
_GRACE_S: Final = 5.0
"""What ssh may take to connect and log in, beyond the server's own deadline."""


def ask_name(path: str, execute: Execute) -> str | None:
    """Return Lustre's name of the file system at a path, as ``lfs df`` prints it."""
    argv = ("lfs", "df", "-lv", path)
    try:
        result = execute(argv, timeout_s=CLIENT_TIMEOUT_S, output_limit_bytes=_OUTPUT_LIMIT_BYTES)
    except ToolError:
        return None
    listed = parse_lfs_df(_text(result.stdout), _text(result.stderr))
    return next((df.file_system for df in listed if df.file_system is not None), None)


def ask_client(
    file_system: str, path: str, execute: Execute, *, timeout_s: float = CLIENT_TIMEOUT_S
) -> ClientView:
    """Return what this host sees of the file system; what fails is told, not raised.

    ``lfs df`` answers in milliseconds, or not at all: with a target lost it can hang beyond
    SIGKILL. It runs in a child that is given up, and once it has hung it is not asked further.
    """
    ask = partial(execute, timeout_s=timeout_s, output_limit_bytes=_OUTPUT_LIMIT_BYTES)
    problems: list[str] = []
    # -l: never wait for a target that is not connected; -v: flags, and lost targets by name.
    space, why, hung = _lfs_df(("lfs", "df", "-lv", path), file_system, ask)
    inodes: dict[str, LfsDfLine] = {}
    why_no_inodes = None
    if not hung:
        inodes, why_no_inodes, _ = _lfs_df(("lfs", "df", "-lvi", path), file_system, ask)
    problems += dict.fromkeys(text for text in (why, why_no_inodes) if text is not None)
    parameters = _lctl(("lctl", "get_param", *CLIENT_PARAMETERS), ask, problems)
    imports = _lctl(("lctl", "get_param", *CLIENT_IMPORTS), ask, problems)
    return ClientView(
        parameters=parameters,
        links=tuple(links(imports, file_system, on="this client")),
        space=space,
        inodes=inodes,
        problems=tuple(dict.fromkeys(problems)),
        space_source=f"lfs df {path}",
        why_no_space=why,
        jobs=running_jobs(ask),
    )


JOBS: Final = ("squeue", "--noheader", "--states=RUNNING", "--format=%A")
"""One line for each running job, and each running member of an array."""


def running_jobs(ask: Execute) -> int | NotAvailable:
    """Return how many jobs of the machine Slurm runs now; without Slurm here, why not."""
    try:
        result = ask(JOBS)
    except ToolError as error:
        return not_available("no-scheduler", f"no scheduler was queried: {error.message}")
    if result.problem is not None:
        return not_available("scheduler-failed", f"squeue: {result.problem}{complaint(result)}")
    lines = _text(result.stdout).split()
    if not all(line.isdecimal() for line in lines):
        return not_available("scheduler-failed", "squeue printed something else than job numbers")
    return len(lines)


def ask_servers(servers: Servers, file_system: str, *, fan_out: FanOut) -> dict[str, ServerView]:
    """Return the view of every server and client; one that is dead has an answer that says so.

    Clients are asked the same: of what only servers have they say that it is not there.
    """
    if not (servers.names or servers.clients):
        return {}
    names = tuple(dict.fromkeys((*servers.names, *servers.clients)))
    request = server_request(deadline_s=servers.timeout_s, sudo=SUDO if servers.sudo else None)
    results = ask_each(names, request, servers, fan_out=fan_out)
    return {
        name: ServerView(name, file_system, parse_answer(name, result), request)
        for name, result in results.items()
    }


def ask_each(
    names: Sequence[str], request: Mapping[str, Any], servers: Servers, *, fan_out: FanOut
) -> dict[str, ProcessResult]:
    """Return for every host how the collector ended there, given a request: one round trip.

    Where all of them are this host, it is asked once, under the first name.

    Raises
    ------
    ToolError
        There is no ssh, or no such Python here.
    """
    if not names:
        return {}
    stdin = program(request)
    argv = (servers.python, "-I", "-S", "-")
    timeout_s = servers.timeout_s + _GRACE_S
    if servers.reach == "local":
        return {names[0]: run_here(argv, stdin=stdin, timeout_s=timeout_s)}
    results = fan_out(
        names,
        argv,
        ssh=servers.ssh,
        timeout_s=timeout_s,
        stdin=stdin,
        output_limit_bytes=_OUTPUT_LIMIT_BYTES,
    )
    return {name: results[name] for name in names}


def _lfs_df(
    argv: Sequence[str], file_system: str, ask: Execute
) -> tuple[dict[str, LfsDfLine], str | None, bool]:
    """Return the lines by target, why some or all are missing, and whether it hung."""
    words = " ".join(argv)
    waiting = hanging().get(argv[0], 0)
    if waiting >= HUNG_LIMIT:
        # A watch would add one an hour for as long as the target is lost.
        return {}, f"{words} was not started: {waiting} of them hang already", True
    try:
        result = ask(argv)
    except ToolError as error:
        return {}, error.message, False
    listed = parse_lfs_df(_text(result.stdout), _text(result.stderr), inodes="i" in argv[2])
    ours = [df for df in listed if df.file_system in (file_system, None)]
    lines = {line.target: line for df in ours for line in df.lines}
    if result.timed_out:
        return lines, f"{words} did not answer in {result.timeout_s:g} s", True
    if not lines:
        return {}, f"{words}: {_why_nothing(result, ours)}", False
    # Its exit code says nothing: 107 with every line there, 0 with lines left out.
    problems = [problem for df in ours for problem in df.problems]
    if any(not df.complete for df in ours) or problems:
        return lines, f"{words}: {'; '.join(problems) or 'not whole'}", False
    return lines, None, False


def _why_nothing(result: ProcessResult, listed: Sequence[LfsDf]) -> str:
    problems = [problem for df in listed for problem in df.problems]
    if problems:
        return "; ".join(problems)
    return f"{result.problem or 'it printed nothing'}{complaint(result)}"


def _lctl(argv: Sequence[str], ask: Execute, problems: list[str]) -> Parameters:
    """Return what lctl printed; its exit code says nothing, that it came to its end does."""
    try:
        result = ask(argv)
    except ToolError as error:
        problems.append(error.message)
        return NOTHING
    words = " ".join(argv[:2])
    ended = result.exit_code is not None and not (result.timed_out or result.truncated)
    parameters = parse_asked(_text(result.stdout), complete=ended)
    if not ended:
        problems.append(f"{words}: {result.problem}")
    elif not parameters.text:
        problems.append(f"{words}: it printed nothing{complaint(result)}")
    elif not parameters.complete:
        problems.append(f"{words}: the answer was cut")
    return parameters


def _text(output: bytes) -> str:
    return output.decode("utf-8", "surrogateescape")
