"""Progress of long work on standard error: a bar on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from trimtab.cli.options import wants_json
from trimtab.cli.render.screen import console
from trimtab.errors import Interrupted
from trimtab.units import RATE_NOW, format_duration

QUIET_S: Final = 2.0
"""For commands that read stored data: show progress if they take longer than this."""
NOTHING_KEPT: Final = "nothing was changed or stored: the same command starts again"
"""State after interrupting work that only reads or computes."""
RUN_KEPT: Final = "files of the probe are removed; what it measured is stored: trimtab runs"
POINTS_KEPT: Final = "what was measured is stored: the same command continues"
Show = Callable[[str, float | None], None]
"""Called with the current step, and the completed part of the whole if known."""


@contextmanager
def progress_bar(
    *, quiet_s: float = 0.0, remains: str = NOTHING_KEPT, counts: bool = False
) -> Iterator[Show]:
    """Yield a progress display: a bar on a terminal, nothing with ``--json``, else lines.

    Parameters
    ----------
    quiet_s
        Seconds without a line: most commands of this kind end sooner.
    remains
        State after an interruption, and how to continue: the hint of its error.
    counts
        Whether the texts are counts that include what is left, instead of steps with a line
        each.
    """
    try:
        if sys.stderr.isatty():
            with _bar(counts=counts) as show:
                yield show
        else:
            lines = _Lines(quiet_s, counts=counts)
            yield (lambda text, part: None) if wants_json() else lines
    except Interrupted as error:
        error.hint = error.hint or remains
        raise


class _Left:
    """Estimate the remaining time at the current pace; nothing in the first seconds.

    Work that is resumed starts with a completed part, which does not count for the pace.
    """

    def __init__(self) -> None:
        self._begun_s = time.monotonic()
        self._before: float | None = None

    def __call__(self, part: float | None) -> str:
        if part is None:
            return ""
        if self._before is None:
            self._before = part
        elapsed_s, done = time.monotonic() - self._begun_s, part - self._before
        if elapsed_s < QUIET_S or not done > 0.0 or part >= 1.0:
            return ""
        left_s = elapsed_s * (1.0 - part) / done
        return f", about {format_duration(left_s)} left" if left_s >= 1.0 else ""


@contextmanager
def _bar(*, counts: bool) -> Iterator[Show]:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    if not counts:
        columns.insert(2, TaskProgressColumn())
    with Bar(*columns, console=console(to_error=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        left = _Left()

        def show(text: str, part: float | None) -> None:
            total = None if part is None else 1.0
            words = text if counts else text + left(part)
            bar.update(task, description=words, completed=part or 0.0, total=total)

        yield show


_LINE_EVERY_S: Final = 10.0
"""Seconds between lines of one step."""


class _Lines:
    """Print a line at once, at each new step, and occasionally: readable in a log."""

    def __init__(self, quiet_s: float, *, counts: bool) -> None:
        self._last = ""
        self._from_s = time.monotonic() + quiet_s
        self._again_s = 0.0
        self._left = _Left()
        self._counts = counts

    def __call__(self, step: str, part: float | None) -> None:
        now_s = time.monotonic()
        name, left = step.partition(RATE_NOW)[0], self._left(part)
        due = now_s >= self._again_s or (name != self._last and not self._counts)
        if due and now_s >= self._from_s:
            self._last, self._again_s = name, now_s + _LINE_EVERY_S
            share = "" if part is None else f"[{part:4.0%}] "
            words = step if self._counts else f"{step}{left}"
            print(f"{share}{words}", file=sys.stderr, flush=True)
