"""Progress of long work on standard error: a bar on a terminal, a line a step elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from trimtab.cli.options import wants_json
from trimtab.cli.render.text import console
from trimtab.launch.moving import NOW

QUIET_S: Final = 2.0
"""Of commands that read what is kept: they show progress where they take longer than this."""
Show = Callable[[str, float | None], None]
"""Called with what is being done, and the part of the whole that is done, where it is known."""


@contextmanager
def meter(lines: Show, *, percentage: bool = False) -> Iterator[Show]:
    """Yield what shows progress: a bar on a terminal, nothing with ``--json``, else ``lines``."""
    if sys.stderr.isatty():
        with _bar(percentage=percentage) as show:
            yield show
    else:
        yield (lambda text, part: None) if wants_json() else lines


def progress_bar(*, quiet_s: float = 0.0) -> AbstractContextManager[Callable[[str, float], None]]:
    """Return what yields a function that shows progress, a line whenever the step changes.

    Parameters
    ----------
    quiet_s
        Seconds without a line: most commands of this kind have ended by then.
    """
    return meter(_Lines(quiet_s), percentage=True)


@contextmanager
def _bar(*, percentage: bool) -> Iterator[Show]:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    if percentage:
        columns.insert(2, TaskProgressColumn())
    with Bar(*columns, console=console(to_error=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(text: str, part: float | None) -> None:
            total = None if part is None else 1.0
            bar.update(task, description=text, completed=part or 0.0, total=total)

        yield show


_LINE_EVERY_S: Final = 10.0
"""Between lines of one step: a rate that changes all the time is no step."""


class _Lines:
    """One line whenever the step changes, and its rate now and then: readable in a log."""

    def __init__(self, quiet_s: float) -> None:
        self._last = ""
        self._from_s = time.monotonic() + quiet_s
        self._again_s = 0.0

    def __call__(self, step: str, fraction: float | None) -> None:
        now_s = time.monotonic()
        name, has_rate, _ = step.partition(NOW)
        due = name != self._last or (has_rate and now_s >= self._again_s)
        if due and now_s >= self._from_s:
            self._last, self._again_s = name, now_s + _LINE_EVERY_S
            print(f"[{fraction or 0.0:4.0%}] {step}", file=sys.stderr, flush=True)
