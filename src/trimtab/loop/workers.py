"""Worker processes for what one processor takes too long for: they end with the one that asked."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from trimtab.errors import ToolError


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def worker_pool(
    workers: int,
    *,
    hint: str,
    begin: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes; what was not begun when it is left is not begun any more.

    Parameters
    ----------
    hint
        What to do where a worker is killed.
    begin, given
        Called once in each worker, before its first task, with these arguments.

    Raises
    ------
    ToolError
        A worker was killed.
    """
    # Started anew and not forked: this process may have threads, and holds the store open.
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(os.getpid(), begin, given),
    )
    with pool:
        try:
            yield pool
        except BrokenProcessPool as error:
            raise ToolError(
                "a worker process was killed, perhaps for want of memory", hint=hint
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int, begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    """Leave Ctrl-C, which a terminal sends to all, to the process that decides; end with it."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # PR_SET_PDEATHSIG of prctl(2): a parent that is killed would leave its workers for ever.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    if begin is not None:
        begin(*given)
