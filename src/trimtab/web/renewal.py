"""What is shown is worked out anew in a process beside the server.

Judging a year takes seconds of a processor. A thread of the server that does it holds up every
request (they share one interpreter); another process does not. It starts with the first renewal,
keeps what it found so that the next one goes on from there, and ends with the server.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trimtab.errors import ToolError, TrimtabError
from trimtab.loop.site_judgement import Judged
from trimtab.loop.stores import open_store
from trimtab.loop.watching.analysis import give_back_memory
from trimtab.web.desk import Desk
from trimtab.web.remembering import Mark

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import SpawnProcess

    from trimtab.loop.event_log import Place

    Connection = Pipe[Any, Any]

NICE: Final = 5
"""Requests go first."""
_PART, _WHOLE, _DONE, _FAILED = range(4)


class Renewal:
    """The process that works out values; a call waits for it, and one is made at a time.

    Parameters
    ----------
    url
        Of the store.
    only
        As `Desk` has it.
    """

    def __init__(self, url: str, only: tuple[str, Place] | None) -> None:
        self._of = url, only
        self._lock = threading.Lock()
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None

    def __call__(self, site: str, names: Sequence[str]) -> tuple[Mark, dict[str, object]]:
        """Return the state of a site's store, and what its values of some names are in it.

        Raises
        ------
        ToolError
            The process was killed; the next call starts another one.
        TrimtabError
            What working it out ended with.
        """
        with self._lock:
            try:
                connection = self._connection or self._started()
                connection.send((site, tuple(names)))
                return self._received(connection)
            except (EOFError, OSError) as error:
                self._end()
                raise ToolError(
                    "the process that works out what is shown ended, possibly out of memory",
                    code="worker-killed",
                ) from error

    def close(self) -> None:
        """End the process."""
        process = self._process  # a call may be waiting for it with the lock
        if process is not None:
            process.kill()
            process.join()

    def _started(self) -> Connection:
        spawning = multiprocessing.get_context("spawn")  # this process has threads
        ends: tuple[Any, Any] = spawning.Pipe()  # of sockets here: the types name Windows too
        mine, other = ends
        arguments = (other, mine, os.getpid(), *self._of)
        process = spawning.Process(target=_work, args=arguments, daemon=True)
        process.start()
        other.close()
        self._process, self._connection = process, mine
        return mine

    def _received(self, connection: Connection) -> tuple[Mark, dict[str, object]]:
        values: dict[str, Any] = {}
        parts: list[Any] = []
        while True:
            kind, *content = connection.recv()
            if kind == _PART:
                parts.append(content[0])
            elif kind == _WHOLE:
                name, value = content
                values[name], parts = _joined(value, parts), []
            elif kind == _FAILED:
                raise content[0]
            else:
                return content[0], values

    def _end(self) -> None:
        self.close()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None


def _split(value: object) -> tuple[list[object], object]:
    """Return the larger parts of a value and what remains: reading one holds nobody up for long."""
    if not isinstance(value, Judged):
        return [], value
    judgement = replace(value.judgement, series=())
    return [*value.judgement.series], replace(value, judgement=judgement)


def _joined(value: object, parts: Sequence[Any]) -> object:
    if not isinstance(value, Judged):
        return value
    return replace(value, judgement=replace(value.judgement, series=tuple(parts)))


def _work(
    connection: Connection,
    of_parent: Connection,
    parent: int,
    url: str,
    only: tuple[str, Place] | None,
) -> None:
    """Answer until the server is gone: its end of the pipe is then closed."""
    of_parent.close()
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICE)
    with open_store(url) as store, suppress(EOFError, BrokenPipeError):
        desk = Desk(store, only)
        while os.getppid() == parent:
            site, names = connection.recv()
            for message in _answered(desk, site, names):
                connection.send(message)
            give_back_memory()


def _answered(desk: Desk, site: str, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    try:
        mark, values = desk.worked_out(site, names)
    except TrimtabError as error:
        yield _FAILED, error
        return
    for name, value in values.items():
        parts, rest = _split(value)
        yield from ((_PART, part) for part in parts)
        yield _WHOLE, name, rest
    yield _DONE, mark
