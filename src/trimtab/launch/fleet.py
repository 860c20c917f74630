"""One command on many servers at once, over the site's ssh, within a deadline for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.launch.process import ProcessResult


@dataclass(frozen=True, slots=True)
class Ssh:
    """How a site's servers are reached.

    Attributes
    ----------
    command
        The program; with its fixed arguments where there are any.
    user
        Remote user; ``None`` leaves the choice to the site's ssh configuration.
    options
        More arguments for ssh, each one word: ``-oPort=2222``.
    fanout
        Connections at the same time.
    """

    command: tuple[str, ...] = ("ssh",)
    user: str | None = None
    options: tuple[str, ...] = ()
    fanout: int = 64


FanOut = Callable[..., Mapping[str, ProcessResult]]
"""`fan_out`, or what stands for it in a test: same arguments, one result for each node."""


def fan_out(
    nodes: Sequence[str],
    argv: Sequence[str],
    *,
    ssh: Ssh,
    timeout_s: float,
    stdin: bytes = b"",
    output_limit_bytes: int = 64 * 2**20,
) -> Mapping[str, ProcessResult]:
    """Return for every node how the command ended there."""
    raise NotImplementedError
