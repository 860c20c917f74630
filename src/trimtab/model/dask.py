"""Where the work of a command runs: Dask workers or processes of this host, and the notation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from trimtab.config.kinds import Kind, quoted, read_text, shown
from trimtab.config.problems import BadValue
from trimtab.config.schema import key
from trimtab.errors import UsageError

NONE: Final = "none"
"""On a command line: no workers, whatever the site file says."""
_LOCAL: Final = re.compile(r"local(?::([1-9][0-9]{0,3}))?")
_ADDRESS: Final = re.compile(
    r"(?:tcp|tls|ucx|wss?)://(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})"
)


def is_local(scheduler: str) -> bool:
    """Return whether processes of this host do the work, without Dask.

    Examples
    --------
    >>> is_local("local"), is_local("local:4"), is_local("local:0"), is_local("tcp://local:4")
    (True, True, False, False)
    """
    return _LOCAL.fullmatch(scheduler) is not None


def local_workers(scheduler: str) -> int | None:
    """Return the number of worker processes on this host; ``None`` if not stated.

    Examples
    --------
    >>> local_workers("local:4"), local_workers("local")
    (4, None)
    """
    match = _LOCAL.fullmatch(scheduler)
    return None if match is None or match[1] is None else int(match[1])


def who_works(processes: int | None, dask: str | None) -> tuple[int | None, str | None]:
    """Return the number of worker processes on this host, or the scheduler of the workers.

    Parameters
    ----------
    processes
        Value of ``--workers``; ``None``: not given.
    dask
        Value of ``--dask``; ``None``: not given.

    Raises
    ------
    UsageError
        Both state a number of workers.

    Examples
    --------
    >>> who_works(None, "local:4"), who_works(2, None), who_works(None, "tls://h:8786")
    ((4, None), (2, None), (None, 'tls://h:8786'))
    """
    if dask is None:
        return processes, None
    count = local_workers(dask)
    if processes is not None and not (is_local(dask) and count is None):
        raise UsageError(
            "--dask already sets the number of workers: leave --workers or --dask out",
            code="options-exclusive",
        )
    return (count or processes, None) if is_local(dask) else (None, dask)


def _read_scheduler(value: object) -> str:
    text = read_text(value)
    address = _ADDRESS.fullmatch(text)
    is_address = address is not None and 0 < int(address[1]) <= 65_535
    if not (is_address or is_local(text) or text.startswith("/")):
        raise BadValue(
            f"{shown(text)} is not a Dask scheduler",
            code="scheduler-invalid",
            hint='write "tls://HOST:8786" or "tcp://HOST:8786", the absolute path of a scheduler '
            'file, "local", or "local:4" for four processes of this host',
        )
    return text


SCHEDULER: Final = Kind(
    "Dask scheduler", '"tls://scheduler:8786"', _read_scheduler, quoted,
    schema={"type": "string", "examples": ["tls://scheduler:8786", "local", "local:4"]},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SiteDask:
    """Workers for commands that name the site without ``--dask``.

    Attributes
    ----------
    scheduler
        As accepted by `trimtab.loop.dask_workers.answering`; ``None``: no Dask.
    """

    scheduler: str | None = key(
        SCHEDULER, "Its address or file, or local (no Dask): see docs/scale.md.", None
    )
