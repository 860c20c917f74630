"""Scheduler, workers and client as processes that a seed kills, pauses and cuts off.

Processes are forked from one that has imported everything, so that a new one costs little. Each
worker is reached, and reaches its scheduler, through a `Relay`, which can fall silent: a partition.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import selectors
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TERMS = {
    "distributed.scheduler.worker-ttl": "5s",
    "distributed.scheduler.allowed-failures": 0,
    "distributed.comm.timeouts.connect": "5s",
    "distributed.comm.timeouts.tcp": "15s",
    "distributed.admin.tick.limit": "1h",
    "distributed.worker.daemon": False,
}
FORKS = multiprocessing.get_context("forkserver")


def preload() -> None:
    """Have what is forked import everything once."""
    FORKS.set_forkserver_preload(
        ["distributed", "polars", "trimtab._core", "trimtab.purge.index.scan",
         "trimtab.purge.index.dask_pieces", "tests.support.dask_chaos"]
    )  # fmt: skip


def free_port() -> int:
    """Return a port of this host that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Relay:
    """Passes connections on to a port of this host, or holds all of them while it is silent."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.silent = False
        self._stop = threading.Event()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cut all connections."""
        self._stop.set()
        self._thread.join()
        for each in (self._listener, *self._pairs):
            each.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            while not self._stop.is_set():
                if self.silent:
                    self._stop.wait(0.02)
                    continue
                for key, _ in ready.select(0.05):
                    if key.fileobj is self._listener:
                        self._accept(ready)
                    else:
                        self._pass_on(ready, key.fileobj)  # type: ignore[arg-type]

    def _accept(self, ready: selectors.BaseSelector) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        self._pairs |= {near: far, far: near}
        for each in (near, far):
            ready.register(each, selectors.EVENT_READ)

    def _pass_on(self, ready: selectors.BaseSelector, source: socket.socket) -> None:
        other = self._pairs.get(source)
        if other is None:
            return
        try:
            data = source.recv(1 << 16)
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        for each in (source, other):
            with contextlib.suppress(KeyError, ValueError):
                ready.unregister(each)
            self._pairs.pop(each, None)
            each.close()


def _quiet() -> None:
    """Keep what Dask says of lost connections out of the output of tests."""
    logging.disable(logging.CRITICAL)


def _scheduler(port: int) -> None:
    from dask import config
    from distributed import Scheduler

    async def run() -> None:
        async with Scheduler(host="127.0.0.1", port=port, dashboard=False) as scheduler:
            await scheduler.finished()

    _quiet()
    with config.set(TERMS):
        asyncio.run(run())


def _worker(scheduler_port: int, port: int, seen_at: int, directory: str) -> None:
    from dask import config
    from distributed import Worker

    async def run() -> None:
        worker = Worker(
            f"tcp://127.0.0.1:{scheduler_port}", nthreads=1, host="127.0.0.1", port=port,
            contact_address=f"tcp://127.0.0.1:{seen_at}", memory_limit=0, dashboard=False,
            local_directory=directory, death_timeout=20,
        )  # fmt: skip
        await worker
        await worker.finished()

    _quiet()
    with config.set(TERMS):
        asyncio.run(run())


@dataclass(slots=True)
class _Node:
    process: Any
    to_scheduler: Relay
    to_worker: Relay


@dataclass(slots=True)
class ChaosCluster:
    """A scheduler with workers, of which any may be lost and made anew.

    Attributes
    ----------
    directory
        For files of the workers.
    """

    directory: str
    workers: int = 2
    port: int = field(default_factory=free_port)
    _scheduler_process: Any = None
    _nodes: list[_Node] = field(default_factory=list)

    @property
    def scheduler_file(self) -> str:
        """Which says where the scheduler is; the same after it was started again."""
        file = Path(self.directory, "scheduler.json")
        file.write_text(json.dumps({"address": f"tcp://127.0.0.1:{self.port}"}))
        return str(file)

    def mend(self) -> None:
        """Start what is not running, let go on what is paused, and join what is cut off."""
        if self._scheduler_process is None or not self._scheduler_process.is_alive():
            self._scheduler_process = started(_scheduler, self.port)
        for node in [*self._nodes]:
            node.to_worker.silent = node.to_scheduler.silent = False
            if not node.process.is_alive():
                self._nodes.remove(node)
                node.to_worker.close()
                node.to_scheduler.close()
        self.resume()
        while len(self._nodes) < self.workers:
            port = free_port()
            outer, inner = Relay(self.port), Relay(port)
            terms = (outer.port, port, inner.port, self.directory)
            self._nodes.append(_Node(started(_worker, *terms), outer, inner))

    def scheduler_pid(self) -> int:
        """Return the process of the scheduler."""
        return int(self._scheduler_process.pid)

    def worker_pids(self) -> list[int]:
        """Return the processes of workers that run."""
        return [int(node.process.pid) for node in self._nodes if node.process.is_alive()]

    def cut_off(self, number: int) -> None:
        """Let nothing pass between a worker and the others."""
        node = self._nodes[number % len(self._nodes)]
        node.to_worker.silent = node.to_scheduler.silent = True

    def join_again(self) -> None:
        """Let everything pass."""
        for node in self._nodes:
            node.to_worker.silent = node.to_scheduler.silent = False

    def resume(self) -> None:
        """Let go on whatever is paused."""
        for pid in (self.scheduler_pid(), *self.worker_pids()):
            send(pid, signal.SIGCONT)

    def close(self) -> None:
        """End everything."""
        for process in (self._scheduler_process, *(node.process for node in self._nodes)):
            if process is not None:
                end(process)
        for node in self._nodes:
            node.to_worker.close()
            node.to_scheduler.close()


def started(function: Callable[..., None], *terms: Any) -> Any:
    """Return a process that runs a function."""
    process = FORKS.Process(target=function, args=terms, daemon=True)
    process.start()
    return process


def end(process: Any) -> None:
    """Kill a process, paused or not, and wait for it."""
    process.kill()
    process.join()


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
