"""Answers questions with the workers of a Dask scheduler, and trusts neither scheduler nor workers.

Whoever owns a scheduler or a worker chooses the bytes that its client reads, and a Dask client
unpickles results, errors and messages: they would run as the user who started Trimtab. So while a
client is open, no pickle may name anything. Root uses only a scheduler that no other user can
impersonate, because the workers' answers decide what root deletes.

Tasks are pickled by this process, but results are not: a task returns bytes, which may hold its
error, and `trimtab.base.plain` reads them.

Dask keeps nothing: it forgets all running work with its scheduler, may call a function more than
once, and gives up on a task after several workers that had it died. So a question changes nothing,
only a few are sent at a time, and lost ones are sent again.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final
from uuid import uuid4

from trimtab.base import error as errors
from trimtab.base.code_version import code_version
from trimtab.base.error import (
    DataError,
    RefusedError,
    ToolError,
    TrimtabError,
    UsageError,
    install_command,
    visible,
)
from trimtab.base.plain import ASK_WHOSE, answer_type, packed, unpacked
from trimtab.base.site import who_works
from trimtab.base.trusted_file import (
    read_trusted,
    refuse_below_others,
    refuse_foreign,
    trusted_directory,
)
from trimtab.reach.worker_process import (
    AHEAD,
    Question,
    Together,
    Workers,
    processors,
    side_by_side,
    workers_here,
)

_NOUN: Final = "the file of the Dask scheduler"
_CONFIGURATION: Final = "the configuration of Dask"
_FILE_MOST: Final = 1 << 20
_READ: Final = ("msgpack", "error")
"""Serializers without pickle: plain values, and the text of errors for values not sent."""
_HINT: Final = (
    "use a scheduler at tls:// with the site's certificates (docs/scale.md), or one that root "
    "started, by a scheduler file that only root can write"
)
_clients = 0
"""Clients of Dask that are open in this process: nothing is unpickled meanwhile."""


def scheduler_address(scheduler: str) -> str:
    """Return the address of a scheduler, given that or the file that it wrote.

    Raises
    ------
    RefusedError
        This is root, and others could be that scheduler.
    UsageError, ToolError
        The file cannot be read, or is not a scheduler file.
    """
    path = Path(scheduler)
    is_file = path.exists()
    address = _address_in(path) if is_file else scheduler
    if os.geteuid() != 0 or address.startswith("tls://"):
        return address
    if not is_file:
        raise RefusedError(
            f"as root, {visible(address[:200])} is no Dask scheduler to be believed: without TLS "
            "anyone could be listening there",
            code="scheduler-untrusted",
            hint=_HINT,
        )
    return _address_of_own(path)


def require_own_configuration() -> None:
    """Refuse, as root, a configuration of Dask that others can change.

    Dask reads it when it is imported, and runs what it names (``distributed.client.preload``). With
    a ``HOME`` that sudo kept it is the caller's.

    Raises
    ------
    UsageError
        A file or directory of it belongs to another user, or others can write to it.
    """
    chosen = os.environ.get("DASK_CONFIG")
    for place in (Path("~/.config/dask").expanduser(), *([Path(chosen)] if chosen else [])):
        if os.geteuid() == 0 and place.exists():
            refuse_below_others(place.absolute(), _CONFIGURATION)
            for path in (place, *place.rglob("*")):
                refuse_foreign(path, _CONFIGURATION)


def _address_in(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return _address(stream.read(_FILE_MOST), path)
    except OSError as error:
        raise ToolError(
            f"{_NOUN} {visible(str(path))} cannot be read: {error.strerror}",
            code="scheduler-unreachable",
            hint="start the scheduler with --scheduler-file",
        ) from error


def _address_of_own(path: Path) -> str:
    """Return the address in a file that only this user can have written."""
    owner = os.geteuid()
    try:
        with trusted_directory(path.parent, _NOUN, owner=owner) as directory:
            data = read_trusted(
                path.name, directory, _NOUN, maximum_bytes=_FILE_MOST, owner=owner, private=False
            )
    except TrimtabError as error:
        raise RefusedError(
            f"as root: {error.message}", code="scheduler-untrusted", hint=_HINT
        ) from error
    return _address(data, path)


def _address(data: bytes, path: Path) -> str:
    try:
        address = json.loads(data)["address"]
    except (ValueError, KeyError, TypeError):
        address = None
    if not isinstance(address, str):
        raise UsageError(
            f"{visible(str(path))} is no file of a Dask scheduler",
            code="scheduler-invalid",
            hint="give the file of dask scheduler --scheduler-file",
        )
    return address


@contextmanager
def nothing_unpickled() -> Iterator[None]:
    """Let no pickle run code in this process, and let Dask read only plain data.

    Notes
    -----
    Dask unpickles in many places, with no setting against it. All of them end in one: an object
    that a pickle is to make or call has to be looked up by name, which CPython announces as the
    audit event ``pickle.find_class`` (docs.python.org, Audit events table), in C as in Python. It
    is refused there. What can still be read are numbers, texts and containers of them.
    """
    global _clients  # noqa: PLW0603 (an audit hook is of the whole process and stays)
    from distributed.protocol.serialize import families, register_serialization_family

    _hook()
    readers = dict(families)
    logger = logging.getLogger("distributed")
    handlers = logger.handlers
    _clients += 1
    try:
        for name, (dumps, *_) in readers.items():
            if name not in _READ:
                register_serialization_family(name, dumps, _unread)
        # It prints text from others; whatever matters becomes an error here.
        logger.handlers = [logging.NullHandler()]
        yield
    finally:
        _clients -= 1
        logger.handlers = handlers
        families.update(readers)


@cache
def _hook() -> None:
    sys.addaudithook(_refuse_names)


def _refuse_names(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and _clients:
        # A TypeError, since Dask continues when it cannot read a traceback because of one.
        raise TypeError(f"a pickle asks for {arguments[0]}.{arguments[1]}: none is read here")


def _unread(_header: Any, frames: Any) -> bytes:
    """Return the received bytes, of which Dask would have made an object."""
    return b"".join(frames)


_TRIES: Final = 10
"""Number of times that a question whose workers died is sent; Dask itself gives up after four."""
_WORKERS_S: Final = 60.0
"""Longest wait for an answer of the scheduler, for its first worker, and for another once none is
left."""
_LOOK_S: Final = 5.0
"""Time without an ended task after which workers are counted."""
_COUNT_S: Final = 0.2
"""Time for which a count of workers is used, since it is a round trip to the scheduler."""
_SHOWN: Final = 2000
"""Characters of an error of a worker that are shown."""


@contextmanager
def answering(
    processes: int | None, dask: str | None, *, most: int, hint: str
) -> Iterator[Together]:
    """Yield a function that answers questions in parallel, by local processes or Dask workers.

    Parameters
    ----------
    processes
        Number of processes on this host; ``None``: one per processor.
    dask
        Address or scheduler file of a Dask scheduler; ``local:4`` for four processes of this host
        without Dask, ``local`` for one per processor; ``None``: as in `processes`.
    most
        Maximum number of questions.
    hint
        What to do if a worker is killed.

    Raises
    ------
    UsageError
        Dask is not installed or lacks certificates, or both a number of processes and a scheduler
        are given.
    RefusedError
        This is root, and others could be that scheduler.
    ToolError
        A worker was killed, or the scheduler cannot be reached.
    """
    processes, scheduler = who_works(processes, dask)
    if scheduler is None:
        count = max(1, min(processors() if processes is None else processes, most))
        with side_by_side(count, hint=hint) as together:
            yield together
        return
    with _client(scheduler) as client:
        yield DaskWorkers(client, hint).together


@contextmanager
def workers_of(dask: str, *, hint: str) -> Iterator[Workers]:
    """Yield workers that answer questions while more are added.

    Parameters and errors are those of `answering`.
    """
    processes, scheduler = who_works(None, dask)
    if scheduler is None:
        with workers_here(processes or processors(), hint=hint) as workers:
            yield workers
        return
    with _client(scheduler) as client:
        yield DaskWorkers(client, hint)


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    require_own_configuration()
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            "Dask is not installed", code="dask-missing", hint=install_command("dask")
        ) from error

    class Deaf(Client):
        """A client that ignores messages of workers and the scheduler to all clients."""

        async def _handle_event(self, topic: str, event: object) -> None: ...

        async def _handle_report(self) -> None:
            try:
                await super()._handle_report()
            except Exception:  # noqa: BLE001 (whatever a message that cannot be read leads to)
                for state in self.futures.values():
                    state.cancel()

    address = scheduler_address(scheduler)
    with nothing_unpickled():
        try:
            # Results are read without a pickle; in messages `nothing_unpickled` sees to it.
            client = Deaf(
                address, timeout=_WORKERS_S, set_as_default=False, deserializers=["msgpack"]
            )
        except (OSError, ValueError) as error:
            raise ToolError(
                f"the Dask scheduler {visible(scheduler[:200])} cannot be reached: "
                f"{visible(str(error))}",
                code="scheduler-unreachable",
                hint="give tls://HOST:8786, tcp://HOST:8786, the file of --scheduler-file, or "
                "local; none uses no Dask",
            ) from error
        except (TypeError, RuntimeError) as error:  # how Dask says that TLS is not set up
            raise UsageError(
                f"the Dask scheduler {visible(scheduler[:200])} cannot be used with this "
                f"configuration of Dask: {visible(str(error)[:300])}",
                code="dask-certificates",
                hint="set distributed.comm.tls.ca-file, .client.cert and .client.key in Dask's "
                "configuration, and use tls:// (docs/scale.md)",
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
    """Questions whose answers are not needed in order; more may follow after their end."""

    questions: Iterator[Question[Any]]

    def __iter__(self) -> _Unnumbered:
        return self

    def __next__(self) -> _Task:
        return _Task(0, next(self.questions))


class DaskWorkers:
    """The workers of a scheduler, which are given a few questions at a time."""

    def __init__(self, client: Any, hint: str) -> None:
        self._client = client
        self._hint = hint
        self._tasks: dict[Any, _Task] = {}
        self._ended: SimpleQueue[Any] = SimpleQueue()
        self.threads = 1
        """Threads of all workers, when they were last counted; at least 1."""
        self._counted = 0
        self._count_at_s = -_COUNT_S

    def together(self, questions: Iterable[Question[Any]]) -> Iterator[Any]:
        """Begin with the questions, and return what yields their answers in order."""
        waiting = (_Task(number, question) for number, question in enumerate(questions))
        self._begin_with(waiting)
        return self._in_order(waiting)

    def as_they_end(self, questions: Iterator[Question[Any]]) -> Iterator[Any]:
        """Yield answers as `trimtab.reach.worker_process.Workers` has it."""
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
            # A running task continues to its end, and changes nothing.
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
            self._counted = sum(threads.values())
        except (OSError, AttributeError, TypeError) as error:
            raise _lost() from error
        self._count_at_s = time.monotonic()
        return self._counted

    def _hand_out(self, waiting: Iterator[_Task]) -> int:
        """Send as many tasks as the workers have room for; return how many threads they have."""
        threads = self._threads()
        self.threads = max(1, threads)
        room = AHEAD * self.threads - len(self._tasks)
        for task in islice(waiting, max(0, room)):
            self._begin(task)
        return threads

    def _begin(self, task: _Task) -> None:
        task.tries += 1
        # One prefix: Dask holds back tasks that share it, where workers have enough to do.
        future = self._client.submit(
            partial(_answered, task.question, code_version("")),
            key=f"trimtab-{uuid4().hex}",
            pure=False,
        )
        self._tasks[future] = task
        future.add_done_callback(self._ended.put)

    def _answer(self, future: Any, task: _Task) -> tuple[Any] | None:
        """Return an answer; ``None``: its workers died, and the question is sent again."""
        if future.status == "error":
            return self._lost_with_workers(future, task)
        try:
            data = future.result(timeout=_WORKERS_S)
        except TimeoutError as error:
            # It had ended, and was lost with its worker on the way here.
            if future.status != "error" and task.tries < _TRIES:
                return None
            raise _lost() from error
        except (CancelledError, OSError) as error:
            raise _lost() from error
        except Exception as error:
            # Any error of Dask for data that it may not read: its kinds are not known here.
            raise _malformed(error) from error
        return (_read(task.question, data),)

    def _lost_with_workers(self, future: Any, task: _Task) -> None:
        """Return if a task may be sent again; a task of this client never fails by itself.

        Dask's error is a pickle, which is not read: it is searched for names.
        """
        why = repr(future.exception(timeout=_WORKERS_S))
        if "KilledWorker" in why:
            if task.tries < _TRIES:
                return
            raise ToolError(
                f"Dask workers were killed {task.tries} times over one task, possibly out of "
                "memory",
                code="worker-killed",
                hint=self._hint,
            )
        lacks = "lacks a module" if "ModuleNotFoundError" in why else "has another Trimtab"
        raise _differs(f"the Dask scheduler or a worker cannot read tasks: it {lacks}")


def _answered(question: Question[Any], version: str) -> list[bytes]:
    """Return the answer as bytes, or what went wrong: a worker calls this."""
    try:
        if version != (version_here := code_version("")):
            raise _differs(f"a Dask worker has Trimtab {version_here}, the client has {version}")
        return [b"answer", packed(answer_type(type(question)), question.answer())]
    except TrimtabError as error:
        whole = error.reason if isinstance(error, DataError) else error.message
        place = (error.file, error.line) if isinstance(error, DataError) else (None, None)
        report = (type(error).__name__, str(whole), error.code, error.hint, *place)
    except Exception as error:  # noqa: BLE001 (the client raises it)
        report = ("", f"{type(error).__name__}: {error}", "", None, None, None)
    return [b"error", packed(_Report, report)]


_Report = tuple[str, str, str, str | None, str | None, int | None]
"""An error of a worker: its class, message, code, hint, file and line."""


def _read(question: Question[Any], data: Any) -> Any:
    """Return the answer that a worker gave, or raise the error that it had."""
    try:
        kind, answer = data
        if kind == b"answer":
            return unpacked(answer_type(type(question)), answer)
        name, message, code, hint, file, line = unpacked(_Report, answer)
    except (TypeError, ValueError) as error:
        raise _malformed(error) from error
    message, hint = visible(message[:_SHOWN]), None if hint is None else visible(hint[:_SHOWN])
    of_tree = getattr(errors, name, None)
    if of_tree is DataError:
        raise DataError(message, file=file and visible(file), line=line, code=code, hint=hint)
    if of_tree in _ERRORS:
        raise of_tree(message, code=visible(code), hint=hint)
    raise ToolError(f"a Dask worker failed: {message}", code="worker-failed", hint=hint)


_ERRORS: Final = (UsageError, ToolError, errors.NoAnswer, errors.RefusedError,
                  errors.UnreadableError)  # fmt: skip


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


def _malformed(error: Exception) -> ToolError:
    return ToolError(
        f"a Dask worker or the scheduler sent what is no answer: {visible(str(error)[:300])}",
        code="answer-malformed",
        hint=ASK_WHOSE,
    )


def _differs(text: str) -> ToolError:
    return ToolError(
        visible(text),
        code="workers-differ",
        hint="start scheduler and workers from the same installation: results depend on the code",
    )
