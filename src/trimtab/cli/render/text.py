"""Text from outside made safe for a terminal, and the console that everything is printed on."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 120


def console(*, to_error: bool = False) -> Console:
    """Return a console on standard output (or error) that respects ``NO_COLOR``."""
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    stream = sys.stderr if to_error else sys.stdout
    width = None if stream.isatty() else WIDTH_WITHOUT_TERMINAL
    return PlainConsole(
        file=stream, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width
    )


def moment(at: datetime | None) -> str:
    """Return a time in this host's zone, with its offset; ``-`` where it is not known."""
    return "-" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M %z")


def utc_moment(at: datetime) -> str:
    """Return a time in UTC with its offset, for a page whose sentences name times in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M %z")
