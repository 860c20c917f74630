"""Queries the client's tools and every server, clocks too: one round trip, a deadline for each."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from trimtab.base.error import ToolError
from trimtab.base.holder import Holders
from trimtab.base.inventory import ServerInventory
from trimtab.base.site import Servers
from trimtab.base.snapshot import CONNECTED, INACTIVE, NotAvailable, not_available
from trimtab.base.units import enumerated
from trimtab.reach.fleet import FanOut
from trimtab.reach.host import complaint
from trimtab.reach.lustre.collector import HUNG_LIMIT, hanging
from trimtab.reach.lustre.inventory_reading import server_inventory
from trimtab.reach.lustre.inventory_table import inventory_request
from trimtab.reach.lustre.lustre_target import LfsDf, LfsDfLine, parse_lfs_df, parse_name
from trimtab.reach.lustre.lustre_view import (
    NOTHING,
    ClientView,
    Link,
    ServerView,
    links,
    parse_asked,
)
from trimtab.reach.lustre.parameter import Parameters
from trimtab.reach.lustre.quota_account import QuotaTally
from trimtab.reach.lustre.read_table import (
    CLIENT_IMPORTS,
    CLIENT_PARAMETERS,
    OF_HOLDERS,
    request,
    server_request,
)
from trimtab.reach.lustre.server_answer import parse_answer, program
from trimtab.reach.process import Execute, ProcessResult, still_hanging
from trimtab.reach.process import execute as run

CLIENT_TIMEOUT_S: Final = 20.0
SUDO: Final = ("sudo", "-n")
_OUTPUT_LIMIT_BYTES: Final = 32 * 2**20
_LISTED: Final = re.compile(r"(?m)^[0-9]{1,5}: ([!-~]+_UUID) (?:IN)?ACTIVE\s*$")
_Ask = Callable[[Sequence[str]], ProcessResult]
_LEAST_S: Final = 1.0
"""Left for a command after others used up the time: enough if it sends nothing."""
KILL_S: Final = 1.0
"""From SIGTERM to SIGKILL, and from there to abandoning it: these only read."""
_GRACE_S: Final = 5.0
"""Time for ssh to connect and log in, on top of the server's own deadline."""


def ask_client(
    file_system: str,
    path: str,
    execute: Execute,
    *,
    timeout_s: float = CLIENT_TIMEOUT_S,
    measured: Collection[str] = (),
) -> ClientView:
    """Return this host's view of the file system; failures are reported in it, not raised.

    ``lfs df`` waits for lost targets, even with ``-l`` five to ten seconds for each (seen on
    2.17.0), and can hang beyond SIGKILL. So imports are read first: that sends nothing and shows
    which targets are lost. Then ``lfs df`` runs only for what no server has measured, in a child
    that is abandoned if it hangs; while it hangs, no other is started.

    Parameters
    ----------
    timeout_s
        For all commands together.
    measured
        Targets whose space their servers already reported.
    """
    ask = _within(timeout_s, execute)
    problems: list[str] = []
    parameters = _lctl(("lctl", "get_param", *CLIENT_PARAMETERS), ask, problems)
    imports = _lctl(("lctl", "get_param", *CLIENT_IMPORTS), ask, problems)
    connections = tuple(links(imports, file_system, on="this client"))
    apart = {each.target for each in connections if each.state not in (None, *CONNECTED)}
    apart -= _switched_off(parameters)  # lfs df does not wait for these
    space: dict[str, LfsDfLine] = {}
    inodes: dict[str, LfsDfLine] = {}
    if apart and {each.target for each in connections} <= {*measured, *apart}:
        names, hung = enumerated(sorted(apart)), False
        why = f"lfs df was not run: it would wait for {names}, which this client has lost"
    else:
        why_no_inodes = None
        # -l: do not wait forever for a lost target; -v: flags, and lost targets by name.
        space, why, hung = _lfs_df(("lfs", "df", "-lv", path), file_system, ask)
        if not hung:
            inodes, why_no_inodes, _ = _lfs_df(("lfs", "df", "-lvi", path), file_system, ask)
        problems[:0] = dict.fromkeys(text for text in (why, why_no_inodes) if text is not None)
    if not (connections or hung):
        # Without permission to read imports, or without lctl, targets missing in lfs df still show.
        listed = {target for kind in ("osts", "mdts") for target in _listed(kind, path, ask)}
        whole = why is None or bool(space)
        connections = tuple(_links_of_df(path, space, listed if whole else set()))
    return ClientView(
        parameters=parameters,
        links=connections,
        space=space,
        inodes=inodes,
        problems=tuple(dict.fromkeys(problems)),
        space_source=f"lfs df {path}",
        why_no_space=why,
        jobs=running_jobs(ask),
    )


def _within(timeout_s: float, execute: Execute) -> _Ask:
    """Return a function that runs commands under a shared deadline."""
    end_s = time.monotonic() + timeout_s

    def ask(argv: Sequence[str]) -> ProcessResult:
        if (why := _why_not_again(argv)) is not None:
            raise ToolError(why, code="still-hanging")
        left_s = round(end_s - time.monotonic(), 1)
        return execute(
            argv,
            timeout_s=max(_LEAST_S, left_s),
            grace_s=KILL_S,
            output_limit_bytes=_OUTPUT_LIMIT_BYTES,
        )

    return ask


def _switched_off(parameters: Parameters) -> set[str]:
    """Return the targets that this client is configured not to use (``osc.*.active=0``)."""
    devices = (
        parse_name(name.split(".")[1])
        for name, value in parameters.matching("osc.*.active").items()
        if value.strip() == "0"
    )
    return {device.target for device in devices if device is not None}


def _why_not_again(argv: Sequence[str], *alike: str) -> str | None:
    """Return why a command is not started: an abandoned one still hangs.

    The new one would hang as well, and delay this observation like the earlier one.

    Parameters
    ----------
    alike
        First words of commands that would hang together with it; default: only the same command.
    """
    left = still_hanging(*(alike or argv))
    return f"{' '.join(argv)} was not started: {left} left behind still hang" if left else None


JOBS: Final = ("squeue", "--noheader", "--states=RUNNING", "--format=%A")
"""One line for each running job or array task."""


def running_jobs(ask: _Ask) -> int | NotAvailable:
    """Return the number of jobs that Slurm runs now, or why it is unknown."""
    try:
        result = ask(JOBS)
    except ToolError as error:
        return not_available("no-scheduler", f"no scheduler was queried: {error.message}")
    if result.problem is not None:
        return not_available("scheduler-failed", f"squeue: {result.problem}{complaint(result)}")
    lines = _text(result.stdout).split()
    if not all(line.isdecimal() for line in lines):
        return not_available("scheduler-failed", "squeue printed something other than job ids")
    return len(lines)


def ask_servers(servers: Servers, file_system: str, *, fan_out: FanOut) -> dict[str, ServerView]:
    """Return the view of every server and client; a dead one's answer has the reason.

    Clients get the same request; what only servers have is reported as missing there.
    """
    if not (servers.names or servers.clients):
        return {}
    names = tuple(dict.fromkeys((*servers.names, *servers.clients)))
    request = server_request(deadline_s=servers.timeout_s, sudo=sudo_of(servers))
    return views_of(names, request, servers, file_system, fan_out=fan_out)


def ask_inventory(
    servers: Servers, file_system: str, *, fan_out: FanOut
) -> tuple[ServerInventory, ...]:
    """Return the inventory of every server and client, in one round trip to each."""
    roles = {name: "client" for name in servers.clients}
    roles |= {name: "oss" for name in servers.oss}
    roles |= {name: "oss and mds" if name in servers.oss else "mds" for name in servers.mds}
    request = inventory_request(deadline_s=servers.timeout_s)
    views = views_of(tuple(roles), request, servers, file_system, fan_out=fan_out)
    return tuple(server_inventory(view, roles[name]) for name, view in views.items())


_AT_ONCE: Final = 16
"""Servers whose accounts are held at once: those of 10,000 users are megabytes a target."""


def ask_holders(servers: Servers, tally: QuotaTally, *, fan_out: FanOut, at: datetime) -> Holders:
    """Return who holds the space, in one round trip to each server, some servers at a time."""
    question = request(OF_HOLDERS, deadline_s=servers.timeout_s, limit_bytes=_OUTPUT_LIMIT_BYTES)
    for begin in range(0, len(servers.names), _AT_ONCE):
        names = servers.names[begin : begin + _AT_ONCE]
        for view in views_of(names, question, servers, tally.file_system, fan_out=fan_out).values():
            tally.add(view)
        if servers.reach == "local":
            break  # all of them are this host
    return tally.holders(at)


def sudo_of(servers: Servers) -> Sequence[str] | None:
    """Return the prefix of commands that need root (``sudo -n``); ``None``: no prefix."""
    return SUDO if servers.sudo else None


def views_of(
    names: Sequence[str],
    request: Mapping[str, Any],
    servers: Servers,
    file_system: str,
    *,
    fan_out: FanOut,
) -> dict[str, ServerView]:
    """Send a request to hosts and return their parsed answers; see `ask_each`."""
    results = ask_each(names, request, servers, fan_out=fan_out)
    return {
        name: ServerView(name, file_system, parse_answer(name, result), request)
        for name, result in results.items()
    }


def ask_each(
    names: Sequence[str], request: Mapping[str, Any], servers: Servers, *, fan_out: FanOut
) -> dict[str, ProcessResult]:
    """Run the collector on every host with a request, and return its results: one round trip.

    If all names are this host, it runs once, under the first name.

    Raises
    ------
    ToolError
        ssh, or the Python to run here, is missing.
    """
    if not names:
        return {}
    stdin = program(request)
    argv = (servers.python, "-I", "-S", "-")
    timeout_s = servers.timeout_s + _GRACE_S
    if servers.reach == "local":
        return {names[0]: run(argv, stdin=stdin, timeout_s=timeout_s)}
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
    argv: Sequence[str], file_system: str, ask: _Ask
) -> tuple[dict[str, LfsDfLine], str | None, bool]:
    """Run ``lfs df``; return its lines by target, why some are missing, whether it hung."""
    words = " ".join(argv)
    if (why := _why_not_again(argv, *argv[:2])) is not None:
        return {}, why, True
    waiting = hanging().get(argv[0], 0)
    if waiting >= HUNG_LIMIT:
        # Otherwise a watch would add one every hour while the target is lost.
        return {}, f"{words} was not started: {waiting} of them already hang", True
    try:
        result = ask(argv)
    except ToolError as error:
        return {}, error.message, False
    listed = parse_lfs_df(_text(result.stdout), _text(result.stderr), inodes="i" in argv[2])
    ours = [df for df in listed if df.file_system in (file_system, None)]
    lines = {target: line for df in ours for target, line in df.lines.items()}
    if result.timed_out:
        return lines, f"{words} did not answer in {result.timeout_s:g} s", True
    if not lines:
        return {}, f"{words}: {_why_nothing(result, ours)}", False
    # Its exit code is useless: 107 with all lines present, 0 with lines missing.
    problems = [problem for df in ours for problem in df.problems]
    if any(not df.complete for df in ours) or problems:
        return lines, f"{words}: {'; '.join(problems) or 'not whole'}", False
    return lines, None, False


def _listed(kind: str, path: str, ask: _Ask) -> Iterator[str]:
    """Yield the targets in ``lfs osts`` or ``lfs mdts``, connected or not; sends nothing."""
    try:
        result = ask(("lfs", kind, path))
    except ToolError:
        return
    for match in _LISTED.finditer(_text(result.stdout)):
        name = parse_name(match[1])
        if name is not None and name.by is None:
            yield name.target


def _links_of_df(
    path: str, space: Mapping[str, LfsDfLine], listed: Iterable[str]
) -> Iterator[Link]:
    """Yield broken connections, as ``lfs df -l`` shows them.

    It names an unreachable target once and omits it from then on.
    """
    source = f"lfs df {path}"
    for target in sorted({*space, *listed}):
        line = space.get(target)
        if line is None:
            yield Link(
                target, "client", "DISCONN", (), f"{source}: no line, lfs osts and mdts: one"
            )
        elif line.problem is not None:
            state = INACTIVE if "inactive" in line.problem else "DISCONN"
            yield Link(target, "client", state, (), f"{source}: {line.problem}")


def _why_nothing(result: ProcessResult, listed: Sequence[LfsDf]) -> str:
    problems = [problem for df in listed for problem in df.problems]
    if problems:
        return "; ".join(problems)
    return f"{result.problem or 'it printed nothing'}{complaint(result)}"


def _lctl(argv: Sequence[str], ask: _Ask, problems: list[str]) -> Parameters:
    """Return what lctl printed; its exit code is useless, but whether it ended is not."""
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


@dataclass(frozen=True, slots=True)
class HostClock:
    """The clock of one host.

    Attributes
    ----------
    at_s
        Its time in seconds since 1970; ``None`` if it did not answer.
    before_s, after_s
        This host's clock before and after the reading. Half the difference is the uncertainty of
        the comparison.
    problem
        Why it did not answer.
    """

    name: str
    at_s: float | None
    before_s: float
    after_s: float
    problem: str | None = None


def ask_clocks(servers: Servers, *, fan_out: FanOut) -> tuple[HostClock, ...]:
    """Return the clock of every server and client of a site; a dead one has a problem.

    Includes clients, because Lustre takes the times of files from them. Returns nothing if all of
    them are this host: there is no second clock.
    """
    if servers.reach == "local":
        return ()
    names = tuple(dict.fromkeys((*servers.names, *servers.clients)))
    question = request({}, deadline_s=servers.timeout_s)
    results = ask_each(names, question, servers, fan_out=fan_out)
    return tuple(read_clock(name, result) for name, result in results.items())


def read_clock(name: str, result: ProcessResult) -> HostClock:
    """Return the clock of a host from its collector's answer.

    Notes
    -----
    The collector reads its clock when it starts and reports how long it ran after that: it must
    have read the clock at least that long before the end of the round trip. The time before, for
    ssh and the start of Python, cannot be separated from the network's.
    """
    before_s = result.started_at.timestamp()
    end_s = before_s + max(0.0, result.elapsed_s)
    answer = parse_answer(name, result)
    if answer.problem is not None:
        return HostClock(name, None, before_s, end_s, answer.problem)
    at_s, took_s = answer.started_at_s, answer.elapsed_s or 0.0
    if not (math.isfinite(at_s) and math.isfinite(took_s)):
        return HostClock(name, None, before_s, end_s, "the answer is not a time")
    return HostClock(name, at_s, before_s, max(before_s, end_s - max(0.0, took_s)))
