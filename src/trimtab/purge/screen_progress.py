"""Progress of a scan, an import and a run as text, with rate and estimate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from trimtab.base.units import format_bytes, format_duration, plural
from trimtab.show.screen_document import Show

if TYPE_CHECKING:
    from trimtab._core import ScanProgress
    from trimtab.purge.index.scan import Progress as ScanShown
    from trimtab.purge.index.scan_workers import SpreadProgress
    from trimtab.purge.run.exchange import RunProgress

STILL_S = 10.0
"""A count that has not changed for this long is reported: the file system may hang."""


@contextmanager
def watched(show: Show, *, every_s: float = 1.0) -> Iterator[Show]:
    """Yield a display that repeats the last text with how long nothing new came.

    The caller may be blocked in a file system call that does not return.
    """
    lock, over = threading.Lock(), threading.Event()
    last: list[tuple[str, float | None, float]] = []

    def shown(text: str, part: float | None) -> None:
        with lock:
            last[:] = [(text, part, time.monotonic())]
            show(text, part)

    def watch() -> None:
        while not over.wait(every_s):
            with lock:
                for text, part, since_s in last:
                    still_s = time.monotonic() - since_s
                    if still_s < STILL_S:
                        continue
                    with suppress(OSError):  # nothing reads it; the next caller gets the error
                        show(f"{text}, nothing for {still_s:.0f} s", part)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield shown
    finally:
        over.set()
        watcher.join()


def scan_progress(show: Show, total: int, *, whole: bool) -> ScanShown:
    """Return a display for a scan: names, rate, and remaining time.

    Parameters
    ----------
    total
        Inodes in use; 0: unknown.
    whole
        Whether all of them are scanned; otherwise the estimate is an upper bound.
    """
    state, stillness = _Rate(), _Stillness()

    def shown(now: ScanProgress | SpreadProgress) -> None:
        rate = state.of(now.entries, now.elapsed_s)
        words = [plural(now.entries, "name", ",")]
        still_s = stillness.of(now.entries, now.elapsed_s)
        if still_s >= STILL_S:
            words.append(f"nothing for {still_s:.0f} s")
            rate = 0.0  # the earlier rate says nothing about the remaining time
        if rate > 0:
            words.append(f"{rate:,.0f}/s")
        words.append(f"{now.pending:,} directories waiting")
        if now.unread:
            words.append(f"{now.unread:,} not read")
        part = None
        if total and rate > 0:
            left_s = max(0.0, (total - now.entries) / rate)
            words.append(f"{'about' if whole else 'at most'} {format_duration(left_s)} left")
            part = min(1.0, now.entries / total) if whole else None
        show(", ".join(words), part)

    return shown


def import_progress(show: Show) -> Callable[[int], None]:
    """Return a display for an import: rows and rate. The total is unknown before the end."""
    start = time.monotonic()

    def shown(rows: int) -> None:
        elapsed = max(time.monotonic() - start, 1e-9)
        show(f"{plural(rows, 'row', ',')}, {rows / elapsed:,.0f}/s", None)

    return shown


def run_progress(show: Show) -> Callable[[RunProgress], None]:
    """Return a display for a run: files, bytes, and distance to the target or the plan's end."""
    state = _Rate()

    def shown(now: RunProgress) -> None:
        done = now.rows - now.rows_left
        rate = state.of(done, time.monotonic())
        words = [now.doing, plural(now.files, "file", ","), format_bytes(now.freed_bytes)]
        part = done / now.rows if now.rows else 1.0
        if rate > 0:
            words.append(f"{rate:,.0f} rows/s")
        if now.latency_s_p99 is not None:
            words.append(f"99 % within {format_duration(now.latency_s_p99)}")
        if now.needed_bytes is not None:
            words.append(f"{format_bytes(now.needed_bytes)} to the target")
            whole = now.freed_bytes + now.needed_bytes
            part = max(part, now.freed_bytes / whole if whole else 1.0)
        elif rate > 0:
            words.append(f"at most {format_duration(now.rows_left / rate)} left")
        show(", ".join(words), part)

    return shown


class _Rate:
    """Rate per second since the first call, excluding what was done before it."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def of(self, entries: int, elapsed_s: float) -> float:
        if self._first is None:
            self._first = (entries, elapsed_s)
        before, since_s = self._first
        if elapsed_s - since_s < 0.1:
            return 0.0
        return (entries - before) / (elapsed_s - since_s)


class _Stillness:
    """How long a count has been unchanged, in seconds."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def of(self, entries: int, elapsed_s: float) -> float:
        if self._last is None or self._last[0] != entries:
            self._last = (entries, elapsed_s)
        return elapsed_s - self._last[1]
