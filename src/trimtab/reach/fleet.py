"""Runs one command on many servers at once, over the site's ssh, with a deadline for each.

::

    waiting ── fan-out has room ──> started ──EOF of both──> closing ──exit──> ended
                                       │                        │
                                       ├─ exit (a grandchild holds its pipes) ─> ended
                                       └─ deadline, output limit, Interrupted ─> SIGKILL ─> ended

The loop never waits for a process: one that is killed and does not exit is abandoned at the end and
delays nothing. All stay uncollected until the last has ended, so that a process id cannot be reused
while the rest of its session is searched.
"""

from __future__ import annotations

import selectors
import shlex
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trimtab.base.error import ToolError, UsageError, visible
from trimtab.base.event import utc_now
from trimtab.base.interruption import lifted, shielded
from trimtab.base.name_set import NODE_NAME
from trimtab.base.site import Ssh
from trimtab.reach.process import (
    GRACE_S,
    OUTPUT_LIMIT_BYTES,
    Child,
    ProcessResult,
    end_all,
    input_file,
    read,
    reap,
)

FanOut = Callable[..., Mapping[str, ProcessResult]]
"""`fan_out`, or its substitute in a test: same arguments, one result per node."""

_CONNECT_TIMEOUT_S: Final = 10.0
_TICK_S: Final = 0.05
_CLOSING_S: Final = 0.002
"""Longest wait between checks of the processes, and for one with closed pipes, whose end is no
event."""


def fan_out(
    nodes: Sequence[str],
    argv: Sequence[str],
    *,
    ssh: Ssh,
    timeout_s: float,
    stdin: bytes = b"",
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
) -> Mapping[str, ProcessResult]:
    """Run a command on every node and return the results; a node that fails is a result.

    Parameters
    ----------
    nodes
        Names or addresses; a repeated one is used once.
    argv
        Program and arguments. The remote login shell parses what ssh sends, so every word is quoted
        for it.
    timeout_s
        For each node, from the start of its ssh: a hanging node costs its own deadline and one of
        the ``ssh.fanout`` slots, not the others' time.
    stdin
        Standard input of the command; ``b""`` is empty.
    output_limit_bytes
        Per node, for stdout and stderr together.

    Returns
    -------
    Mapping[str, ProcessResult]
        In the order of ``nodes``, with ssh's own ``argv``. Exit code 255 is ssh's: its stderr has
        the reason. The outputs are the raw bytes, including line ends.

    Raises
    ------
    UsageError
        A node's name is invalid.
    ToolError
        ssh is not installed.

    Notes
    -----
    ClusterShell's ssh worker is not used: it splits outputs at line ends, kills only ssh itself,
    and waits forever for a killed one.
    """
    return each(
        dict.fromkeys(nodes, tuple(argv)),
        ssh=ssh,
        timeout_s=timeout_s,
        stdin=stdin,
        output_limit_bytes=output_limit_bytes,
    )


def each(
    commands: Mapping[str, Sequence[str]],
    *,
    ssh: Ssh,
    timeout_s: float,
    stdin: bytes = b"",
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
) -> Mapping[str, ProcessResult]:
    """Run a separate command on every node; otherwise as `fan_out`.

    Parameters
    ----------
    commands
        Node to program and arguments.
    """
    argvs = {
        node: ssh_command(node, argv, ssh=ssh, timeout_s=timeout_s)
        for node, argv in commands.items()
    }
    if argvs and (not ssh.command or shutil.which(ssh.command[0]) is None):
        raise ToolError(
            f"{' '.join(ssh.command[:1]) or 'ssh'} was not found",
            code="program-not-found",
            hint="install it, or set ssh in [servers] of the site file",
        )
    reap()
    children, running, results = dict[str, Child](), list[Child](), dict[str, ProcessResult]()
    waiting = deque(argvs)
    with shielded(), input_file(stdin) as path, selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < max(1, ssh.fanout):
                    node = waiting.popleft()
                    try:
                        child = Child(
                            argvs[node], path, timeout_s=timeout_s, limit_bytes=output_limit_bytes
                        )
                    except OSError as error:  # too many processes or open files
                        results[node] = _not_started(argvs[node], error, timeout_s)
                        continue
                    children[node] = child
                    running.append(child)
                    child.watch(selector)
                # Signals may be raised only here, where all started processes are known.
                with lifted():
                    read(selector, _TICK_S if all(child.pipes for child in running) else _CLOSING_S)
                running = [child for child in running if not _is_over(child, selector)]
        finally:
            end_all([*children.values()], GRACE_S)
    results |= {node: child.result() for node, child in children.items()}
    return {node: results[node] for node in argvs}


def _not_started(argv: Sequence[str], error: OSError, timeout_s: float) -> ProcessResult:
    why = f"{argv[0]} could not be started: {error.strerror or error}"
    return ProcessResult(
        tuple(argv), b"", b"", None, None, utc_now(), 0.0, timeout_s, not_started=why
    )


def _is_over(child: Child, selector: selectors.BaseSelector) -> bool:
    """Kill a child that is late or writes too much; return whether it ended or was abandoned."""
    now_s = time.monotonic()
    if child.exited():
        # A grandchild may hold the pipes: read only what they contain now.
        child.drain()
    elif child.truncated or now_s - child.began_s >= child.timeout_s:
        child.timed_out = not child.truncated
        child.send(signal.SIGKILL)
        child.ended_s = now_s
    else:
        return False
    for pipe in child.pipes.values():
        selector.unregister(pipe)
    child.pipes.clear()
    return True


def ssh_command(node: str, argv: Sequence[str], *, ssh: Ssh, timeout_s: float) -> tuple[str, ...]:
    """Return the local ssh command that runs ``argv`` on a node.

    The site's options come after the mandatory ones and before the defaults: ssh uses the first
    value it sees.
    """
    if not argv or argv[0].startswith("-"):
        raise ValueError(f"{argv!r} is not a command")
    connect_s = max(1, int(min(_CONNECT_TIMEOUT_S, timeout_s / 2)))
    return (
        *ssh.command,
        "-T",
        "-oBatchMode=yes",
        "-oForwardAgent=no",
        "-oForwardX11=no",
        *ssh.options,
        f"-oConnectTimeout={connect_s}",
        *(("-l", ssh.user) if ssh.user is not None else ()),
        checked_node(node),
        shlex.join(argv),
    )


def checked_node(node: str) -> str:
    """Return a node's name if it is valid.

    Raises
    ------
    UsageError
        It could be mistaken for an option, or has characters that host names do not have.
    """
    if NODE_NAME.fullmatch(node) is None:
        raise UsageError(
            f"{visible(node)!r} is not a node name",
            code="node-name-invalid",
            hint="host names and addresses: letters, digits, dots, dashes, colons",
        )
    return node
