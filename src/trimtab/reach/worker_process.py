"""Worker processes that share independent questions with this process, and end with it.

This process answers too: while it waits, it takes questions that no worker has begun. So a second
processor costs one worker, not two of which one is idle.
"""

from __future__ import annotations

import ctypes
import gc
import io
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from trimtab.base.error import ToolError

Answer_co = TypeVar("Answer_co", covariant=True)
_ONE_THREAD: Final = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_NOTHING_KEPT: Final = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
"""Setting of the allocator of frames (jemalloc's own documentation, TUNING): freed memory goes back
to the system at once. By default it stays until the next allocation, hours later in a watch."""
_OBJECTS: Final = 1_000_000


AHEAD: Final = 2
"""Questions handed out for each worker where more may be added: one runs while the other waits."""


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def worker_pool(workers: int, *, hint: str) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes; questions not begun when the block ends are dropped.

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
        except KeyboardInterrupt:
            # Whoever pressed Ctrl-C waits: what a worker is at may take a minute, and is not kept.
            for process in tuple((pool._processes or {}).values()):  # public from Python 3.14 on
                process.kill()
            raise
        except BrokenProcessPool as error:
            raise ToolError(
                "a worker process was killed, possibly out of memory",
                code="worker-killed",
                hint=hint,
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class Question(Protocol[Answer_co]):
    """A question that can be answered on its own, in another process as well as in this one."""

    def answer(self) -> Answer_co:
        """Return the answer."""
        ...


Together = Callable[[Iterable[Question[Any]]], Iterator[Any]]
"""Yields the answers in the order of the questions, which are begun with at once where that is
possible."""


def one_by_one(questions: Iterable[Question[Any]]) -> Iterator[Any]:
    """Yield the answers, each computed in this process on demand."""
    return (question.answer() for question in questions)


@contextmanager
def side_by_side(processes: int, *, hint: str) -> Iterator[Together]:
    """Yield a function that answers questions in parallel; one by one for fewer than two processes.

    Parameters
    ----------
    processes
        Number of processes, including this one.

    Raises
    ------
    ToolError
        A worker was killed.
    """
    if processes < 2:
        yield one_by_one
        return
    one_thread = _environment(_ONE_THREAD)
    with _rarely_collected(), one_thread, worker_pool(processes - 1, hint=hint) as pool:
        yield _Crew(pool, processes - 1).together


class Workers(Protocol):
    """Workers that answer questions while more are added."""

    @property
    def threads(self) -> int:
        """Known number of questions that are answered at once; at least 1."""
        ...

    def as_they_end(self, questions: Iterator[Question[Any]]) -> Iterator[Any]:
        """Yield answers as they come; questions may be added while they are waited for.

        Parameters
        ----------
        questions
            Iterator that is asked for more after each answer, also after it was empty.
        """
        ...


@contextmanager
def workers_here(processes: int, *, hint: str) -> Iterator[Workers]:
    """Yield processes of this host that answer further questions of this one.

    Raises
    ------
    ToolError
        A worker was killed.
    """
    with _environment(_ONE_THREAD), worker_pool(processes, hint=hint) as pool:
        yield _Pooled(pool, processes)


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Workers of a pool, which are given a few questions at a time."""

    pool: ProcessPoolExecutor
    threads: int

    def as_they_end(self, questions: Iterator[Question[Any]]) -> Iterator[Any]:
        """Yield answers as in `Workers`."""
        running: set[Future[Any]] = set()
        while True:
            room = AHEAD * self.threads - len(running)
            running |= {self.pool.submit(_answered, each) for each in islice(questions, room)}
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()


class _Crew:
    """Workers that are given one question at a time, and this process, which takes the rest.

    A pool would hand a worker its next question before it is done with the previous one, and could
    not take it back: this process would be idle while the worker does both.
    """

    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self._pool = pool
        self._idle = workers
        self._waiting: deque[_Asked] = deque()
        self._lock = threading.Lock()

    def together(self, questions: Iterable[Question[Any]]) -> Iterator[Any]:
        """Begin with the questions, and return an iterator over their answers in order."""
        requested: deque[_Asked] = deque()
        for question in questions:
            requested.append(_Asked(question))
            with self._lock:
                self._waiting.append(requested[-1])
            self._hand_out()
        return self._in_order(requested)

    def _in_order(self, requested: deque[_Asked]) -> Iterator[Any]:
        while requested:
            while not requested[0].answer.done() and (mine := self._taken()) is not None:
                mine.answer.set_result(mine.question.answer())
            yield requested.popleft().answer.result()

    def _taken(self) -> _Asked | None:
        """Return the question that has waited longest, if any is not begun yet."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _hand_out(self) -> None:
        with self._lock:
            if not self._idle or not self._waiting:
                return
            self._idle -= 1
            task = self._waiting.popleft()
        try:
            future = self._pool.submit(_answered, task.question)
        except RuntimeError as error:  # broken, or shut down: whoever waits is to know
            task.answer.set_exception(error)
        else:
            future.add_done_callback(lambda done: self._pass_on(task, done))

    def _pass_on(self, task: _Asked, done: Future[Any]) -> None:
        """Pass an answer on and give the worker its next question; called by the pool's thread."""
        with self._lock:
            self._idle += 1
        self._hand_out()
        if done.cancelled():
            task.answer.cancel()
        elif (error := done.exception()) is not None:
            task.answer.set_exception(error)
        else:
            task.answer.set_result(done.result())


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question and its answer, when there is one."""

    question: Question[Any]
    answer: Future[Any] = field(default_factory=Future)


def _answered(question: Question[Answer_co]) -> Answer_co:
    return question.answer()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables in the block, for libraries that are loaded in it.

    They apply to this process as well, if it has not loaded the libraries yet.
    """
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def frames_for_months() -> None:
    """Load the libraries of frames for a process that lives for months, unless they are loaded.

    By default they start a thread for each processor, each permanently with memory of its own, and
    keep freed memory. Processes that this one starts are not affected.

    Polars opens a few descriptors for its runtime once, and panics at every later call if there
    were none left: a process that serves others must have done this before.
    """
    with _environment(_ONE_THREAD | _NOTHING_KEPT):
        import numpy as np  # noqa: F401 (reads how many threads it may have)
        import polars as pl

        pl.thread_pool_size()
        pl.DataFrame().write_ipc(io.BytesIO())  # starts the runtime


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Look for garbage in cycles once for a million new objects, and not for 700.

    Each look goes through much of what there is, and months of runs are a lot that stays.
    """
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _begin(parent: int) -> None:
    """Leave Ctrl-C, which a terminal sends to all, to the process that decides; end with it."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    # PR_SET_PDEATHSIG of prctl(2): a parent that is killed would leave its workers for ever.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
