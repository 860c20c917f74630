"""Questions answered by the workers of a Dask scheduler: on the machines that a site already has.

Nothing is kept by Dask: it forgets all running work with its scheduler, may call a function more
than once, and gives up on a task that was assigned to several workers which died. So a question
changes nothing, few are handed out at a time, and those that are lost are asked again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final
from uuid import uuid4

from trimtab.errors import ToolError, UsageError
from trimtab.extras import install_command
from trimtab.loop.workers import Question, Together, processors, side_by_side
from trimtab.model.dask import is_local, local_workers
from trimtab.twin.version import code_version
from trimtab.visible import visible

_AHEAD: Final = 2
"""Questions handed out for each thread of a worker: one runs while the other arrives."""
_TRIES: Final = 10
"""Times that a question is sent whose workers died; Dask gives up on it after four of them."""
_WORKERS_S: Final = 60.0
"""Longest wait for an answer of the scheduler, for its first worker, and for another once none is
left."""
_LOOK_S: Final = 5.0
"""Time without an ended task after which workers are counted."""
_COUNT_S: Final = 0.2
"""So long a count of workers is used: it is a round trip to the scheduler."""
_UNREAD: Final = "Error during deserialization"
"""How the scheduler's error begins where it lacks a module that a task needs."""
_ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1"
)


@contextmanager
def answering(
    processes: int | None, dask: str | None, *, most: int, hint: str
) -> Iterator[Together]:
    """Yield what answers many questions at once: processes of this host, or workers of Dask.

    Parameters
    ----------
    processes
        How many answer on this host; ``None``: one a processor.
    dask
        Address or scheduler file of a Dask scheduler; ``local``: one is started here, with four
        workers by ``local:4``; ``None``: none is used.
    most
        Questions there will be.
    hint
        What to do where a worker is killed.

    Raises
    ------
    UsageError
        Dask is not installed, or both a number of processes and a scheduler are given.
    ToolError
        A worker was killed, or the scheduler cannot be reached.
    """
    wanted = local_workers(dask) if dask is not None and processes is None else processes
    count = max(1, min(processors() if wanted is None else wanted, most))
    if dask is None:
        with side_by_side(count, hint=hint) as together:
            yield together
        return
    if processes is not None and not (is_local(dask) and local_workers(dask) is None):
        raise UsageError(
            "--dask says how many workers there are: leave --workers or --dask out",
            code="options-exclusive",
        )
    with workers_of(dask, count=count, hint=hint) as workers:
        yield workers.together


@contextmanager
def workers_of(dask: str, *, count: int, hint: str) -> Iterator[Workers]:
    """Yield the workers of a scheduler; ``count`` where they are started here.

    Parameters and errors are those of `answering`.
    """
    with _client(dask, count) as client:
        yield Workers(client, hint)


@contextmanager
def _client(address: str, count: int) -> Iterator[Any]:
    try:
        from dask import config
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise UsageError(
            "Dask is not installed", code="dask-missing", hint=install_command("dask")
        ) from error
    terms: dict[str, Any] = {"timeout": _WORKERS_S, "set_as_default": False}
    if is_local(address):
        environment = {"distributed.nanny.pre-spawn-environ": _ONE_THREAD}
        with (
            config.set(environment),
            LocalCluster(
                n_workers=count, threads_per_worker=1, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster, **terms) as client,
        ):  # fmt: skip
            yield client
        return
    where = {"scheduler_file" if Path(address).exists() else "address": address}
    try:
        client = Client(**where, **terms)
    except (OSError, ValueError) as error:
        raise ToolError(
            f"the Dask scheduler {visible(address[:200])} cannot be reached: {visible(str(error))}",
            code="scheduler-unreachable",
            hint="give tcp://HOST:8786, the file of --scheduler-file, or local; none uses no Dask",
        ) from error
    with client:
        yield client


@dataclass(slots=True)
class _Task:
    """A question that is being answered, with its number in the order of the questions."""

    number: int
    question: Question[Any]
    tries: int = 0


@dataclass(slots=True)
class _Unnumbered:
    """Questions that nobody waits for in order; an end of them is not for good."""

    questions: Iterator[Question[Any]]

    def __iter__(self) -> _Unnumbered:
        return self

    def __next__(self) -> _Task:
        return _Task(0, next(self.questions))


class Workers:
    """The workers of a scheduler, which are given a few questions at a time."""

    def __init__(self, client: Any, hint: str) -> None:
        self._client = client
        self._hint = hint
        self._tasks: dict[Any, _Task] = {}
        self._ended: SimpleQueue[Any] = SimpleQueue()
        self.threads = 1
        """Of all workers, when they were last counted; at least 1."""
        self._counted = 0
        self._count_at_s = -_COUNT_S

    def together(self, questions: Iterable[Question[Any]]) -> Iterator[Any]:
        """Begin with the questions, and return what yields their answers in order."""
        waiting = (_Task(number, question) for number, question in enumerate(questions))
        self._begin_with(waiting)
        return self._in_order(waiting)

    def as_they_end(self, questions: Iterator[Question[Any]]) -> Iterator[Any]:
        """Yield answers as they come; questions may be added while they are waited for.

        Parameters
        ----------
        questions
            Asked for more after each answer, also once it had none.
        """
        waiting = _Unnumbered(questions)
        self._begin_with(waiting)
        return (answer for _, answer in self._ended_tasks(waiting))

    def _begin_with(self, waiting: Iterator[_Task]) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError as error:
            raise _no_workers() from error
        self._hand_out(waiting)

    def _in_order(self, waiting: Iterator[_Task]) -> Iterator[Any]:
        answers: dict[int, Any] = {}
        following = 0
        for number, answer in self._ended_tasks(waiting):
            answers[number] = answer
            while following in answers:
                yield answers.pop(following)
                following += 1

    def _ended_tasks(self, waiting: Iterator[_Task]) -> Iterator[tuple[int, Any]]:
        try:
            while self._tasks:
                future = self._next_ended(waiting)
                task = self._tasks.pop(future)
                if (answer := self._answer(future, task)) is None:
                    self._begin(task)
                    continue
                del future  # an answer that is passed on is not held by the workers as well
                self._hand_out(waiting)
                yield task.number, answer[0]
                self._hand_out(waiting)
        finally:
            # A task that runs goes on to its end, and changes nothing.
            self._client.cancel(list(self._tasks), force=True)

    def _next_ended(self, waiting: Iterator[_Task]) -> Any:
        """Return a task that has ended; raise where no worker is left to end one.

        Workers that have joined meanwhile get tasks: one that takes long may hold up all others.
        """
        alone_since_s: float | None = None
        while True:
            try:
                return self._ended.get(timeout=min(_LOOK_S, _WORKERS_S))
            except Empty:
                now_s = time.monotonic()
            if self._hand_out(waiting) > 0:
                alone_since_s = None
            elif alone_since_s is None:
                alone_since_s = now_s
            elif now_s - alone_since_s >= _WORKERS_S:
                raise _no_workers()

    def _threads(self) -> int:
        """Return the threads of all workers, as the scheduler has counted them lately."""
        if time.monotonic() - self._count_at_s < _COUNT_S:
            return self._counted
        client = self._client
        try:
            threads = client.sync(client.scheduler.ncores, callback_timeout=_WORKERS_S)
        except (OSError, TimeoutError, AttributeError) as error:
            raise _lost() from error
        self._counted = sum(threads.values())
        self._count_at_s = time.monotonic()
        return self._counted

    def _hand_out(self, waiting: Iterator[_Task]) -> int:
        """Send as many tasks as the workers have room for; return how many threads they have."""
        threads = self._threads()
        self.threads = max(1, threads)
        room = _AHEAD * self.threads - len(self._tasks)
        for task in islice(waiting, max(0, room)):
            self._begin(task)
        return threads

    def _begin(self, task: _Task) -> None:
        task.tries += 1
        # One prefix: Dask holds back tasks that share it, where workers have enough to do.
        future = self._client.submit(
            partial(_answered, task.question, installed()),
            key=f"trimtab-{uuid4().hex}",
            pure=False,
        )
        self._tasks[future] = task
        future.add_done_callback(self._ended.put)

    def _answer(self, future: Any, task: _Task) -> tuple[Any] | None:
        """Return an answer; ``None``: its workers died, and the question is sent again."""
        from distributed.scheduler import KilledWorker

        try:
            return (future.result(timeout=_WORKERS_S),)
        except TimeoutError as error:
            # It had ended, and was lost with its worker on the way here.
            if future.status != "error" and task.tries < _TRIES:
                return None
            raise _lost() from error
        except KilledWorker as error:
            if task.tries < _TRIES:
                return None
            raise ToolError(
                f"Dask workers were killed {task.tries} times over one task, possibly out of "
                "memory",
                code="worker-killed",
                hint=self._hint,
            ) from error
        except CancelledError as error:
            raise _lost() from error
        except ModuleNotFoundError as error:
            raise _differs(f"a Dask worker lacks {error.name or 'a module'}") from error
        except RuntimeError as error:
            if _UNREAD not in str(error):
                raise
            raise _differs("the Dask scheduler cannot read tasks: it lacks Trimtab") from error


def installed() -> str:
    """Return the version with a hash of all code: what a worker must share with the client."""
    return code_version("")


def _answered(question: Question[Any], version: str) -> Any:
    if version != (version_here := installed()):
        raise _differs(f"a Dask worker has Trimtab {version_here}, the client has {version}")
    return question.answer()


def _no_workers() -> ToolError:
    return ToolError(
        f"the Dask scheduler has had no worker for {_WORKERS_S:g} s",
        code="workers-missing",
        hint="start workers (dask worker ADDRESS), then this command again",
    )


def _lost() -> ToolError:
    return ToolError(
        "the Dask scheduler was lost, and with it what was running",
        code="scheduler-lost",
        hint="start the scheduler and this command again",
    )


def _differs(text: str) -> ToolError:
    return ToolError(
        visible(text),
        code="workers-differ",
        hint="start scheduler and workers from the same installation: results depend on the code",
    )
