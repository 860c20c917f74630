"""Progress of long work on standard error: a bar on a terminal, a line a step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from trimtab.cli.options import wants_json
from trimtab.cli.render.text import console

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


def progress_bar() -> AbstractContextManager[Callable[[str, float], None]]:
    """Return what yields a function that shows progress, a line whenever the step changes."""
    return meter(_Lines(), percentage=True)


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


class _Lines:
    """One line whenever the step changes: readable in a log."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, step: str, fraction: float | None) -> None:
        if step != self._last:
            self._last = step
            print(f"[{fraction or 0.0:4.0%}] {step}", file=sys.stderr, flush=True)
