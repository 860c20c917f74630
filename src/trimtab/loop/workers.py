"""Worker processes for what one processor takes too long for: they end with the one that asked.

The process that asks is one of those that answer: while it waits it takes the last question that
nobody has begun with. A second processor so costs one worker, not two and one that stands by.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from trimtab.errors import ToolError

Answer_co = TypeVar("Answer_co", covariant=True)
_THREADS: Final = "POLARS_MAX_THREADS"


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def worker_pool(workers: int, *, hint: str) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes; what was not begun when it is left is not begun any more.

    Parameters
    ----------
    hint
        What to do where a worker is killed.

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
        initargs=(os.getpid(),),
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


class Question(Protocol[Answer_co]):
    """What can be answered by itself, in another process as well as in this one."""

    def answer(self) -> Answer_co:
        """Return the answer."""
        ...


Together = Callable[[Iterable[Question[Any]]], Iterator[Any]]
"""Yields the answers in the order of the questions, which are begun with at once where that is
possible."""


def one_by_one(questions: Iterable[Question[Any]]) -> Iterator[Any]:
    """Yield the answers, each worked out here when it is asked for."""
    return (question.answer() for question in questions)


@contextmanager
def side_by_side(processes: int, *, hint: str) -> Iterator[Together]:
    """Yield what answers many questions at once; one by one where there is one process or none.

    Parameters
    ----------
    processes
        How many answer, this one among them.

    Raises
    ------
    ToolError
        A worker was killed.
    """
    if processes < 2:
        yield one_by_one
        return
    with _one_thread_each(), worker_pool(processes - 1, hint=hint) as pool:
        yield lambda questions: _in_order([_Asked(pool, question) for question in questions])


class _Asked:
    """A question that was given to a pool, and its answer when there is one."""

    def __init__(self, pool: ProcessPoolExecutor, question: Question[Any]) -> None:
        self._question = question
        self._future: Future[Any] = pool.submit(_answered, question)
        self._here: list[Any] = []

    @property
    def is_answered(self) -> bool:
        """Whether the answer need not be waited for."""
        return bool(self._here) or self._future.done()

    def answer_here(self) -> bool:
        """Answer in this process, and return true, where no other has begun with it."""
        if self._here or not self._future.cancel():
            return False
        self._here.append(self._question.answer())
        return True

    def answer(self) -> Any:
        """Return the answer, when it is there."""
        return self._here[0] if self._here else self._future.result()


def _in_order(asked: list[_Asked]) -> Iterator[Any]:
    """Yield the answers in order, and meanwhile answer from the end what nobody has begun with."""
    asked.reverse()
    while asked:
        one = asked[-1]
        while not one.is_answered and any(other.answer_here() for other in asked):
            pass
        yield one.answer()
        asked.pop()


def _answered(question: Question[Answer_co]) -> Answer_co:
    return question.answer()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let workers that begin now use one thread each: there is one for each processor."""
    import polars  # noqa: F401 - this process keeps as many as it began with

    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


def _begin(parent: int) -> None:
    """Leave Ctrl-C, which a terminal sends to all, to the process that decides; end with it."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # PR_SET_PDEATHSIG of prctl(2): a parent that is killed would leave its workers for ever.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
