"""Progress of long work on standard error: a bar on a terminal, a line a step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trimtab.cli.options import wants_json
from trimtab.cli.render.text import console

Progress = Callable[[str, float], None]
"""Called with what is being done, and the fraction of the whole that is done."""


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Yield a function that shows progress; with ``--json`` it prints nothing off a terminal."""
    if sys.stderr.isatty():
        with _bar() as show:
            yield show
    elif wants_json():
        yield lambda step, fraction: None
    else:
        yield _Lines()


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console(to_error=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda step, fraction: bar.update(task, description=step, completed=fraction)


class _Lines:
    """One line whenever the step changes: readable in a log."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, step: str, fraction: float) -> None:
        if step != self._last:
            self._last = step
            print(f"[{fraction:4.0%}] {step}", file=sys.stderr, flush=True)
