"""One command on many servers at once, over the site's ssh, within a deadline for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trimtab.launch.process import ProcessResult
from trimtab.model.site import Ssh

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
