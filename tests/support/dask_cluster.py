"""Dask clusters of this host, in a process of their own as a site has them, of this user.

Who asks them is given the file of the scheduler, as after ``dask scheduler --scheduler-file``:
nothing of them lies in the process of the client, which reads no pickle.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dask import config
from tests.support import dask_chaos

_START_S = 120.0


@dataclass(frozen=True, slots=True)
class OwnCluster:
    """A scheduler with workers.

    Attributes
    ----------
    scheduler_file
        What ``--dask`` is given.
    address
        What stands in it.
    """

    scheduler_file: str
    address: str
    _commands: Any

    def scale(self, workers: int) -> None:
        """Have so many workers, and wait for it."""
        self._asked("scale", workers)

    def worker_pids(self) -> list[int]:
        """Return the processes of workers that the scheduler knows."""
        return self._asked("pids", 0)

    def _asked(self, command: str, number: int) -> Any:
        self._commands.send((command, number))
        return self._commands.recv()


@contextmanager
def local_cluster(
    workers: int, *, settings: Mapping[str, Any] | None = None, **terms: Any
) -> Iterator[OwnCluster]:
    """Yield a scheduler with workers of one thread each.

    Parameters
    ----------
    settings
        Of Dask, in the processes of the cluster.
    terms
        Of ``LocalCluster``; ``processes=False``: workers are threads of the scheduler's process.
    """
    dask_chaos.preload()
    with tempfile.TemporaryDirectory(prefix="dask-") as place:
        file = Path(place, "scheduler.json")
        here, there = dask_chaos.FORKS.Pipe()
        process = dask_chaos.FORKS.Process(
            target=_run, args=(there, str(file), workers, dict(settings or {}), terms)
        )
        process.start()
        there.close()
        try:
            assert here.poll(_START_S), "the cluster did not start"
            yield OwnCluster(str(file), here.recv(), here)
        finally:
            here.close()  # which ends it
            process.join(_START_S)
            if process.exitcode is None:
                dask_chaos.end(process)


def _run(
    commands: Any, file: str, workers: int, settings: dict[str, Any], terms: dict[str, Any]
) -> None:
    from distributed import LocalCluster

    logging.disable(logging.CRITICAL)
    with config.set(settings):
        made: Any = LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", protocol="tcp://",
            dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, **terms,
        )  # fmt: skip
    with made as cluster:
        Path(file).write_text(json.dumps({"address": cluster.scheduler_address}))
        commands.send(cluster.scheduler_address)
        while True:
            try:
                command, number = commands.recv()
            except (EOFError, OSError):
                return
            if command == "scale":
                cluster.scale(number)
                while len(cluster.scheduler_info["workers"]) != number:
                    time.sleep(0.01)
            running = cluster.scheduler_info["workers"]
            nannies = list(cluster.workers.values()) if command == "pids" else []
            commands.send([each.pid for each in nannies if each.worker_address in running])
