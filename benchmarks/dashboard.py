"""How fast the dashboard answers: a year of 298 OSTs, 50 viewers, while a watch writes.

The store is that of ``explain_a_year.py``: 8,760 hourly runs, 365 surveys of 298 OSTs, 8,760
snapshots of 298 targets. ``trimtab serve`` runs as a person would start it behind a proxy. Each
viewer asks for a document of the API about once a second (exponential, its own connection), and a
run and a snapshot are stored every ``--watch-every`` seconds, each an hour later than the last. A
time is counted from when a viewer meant to ask: a server that holds everybody up does not look
quick.

Beside it, in turns, what a dashboard over plain SQL would ask for the same panels: the same
viewers, the same store, the same writer; SQLite's rows as they are, without a verdict.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.explain_a_year import SITE, contents, later_runs, prepare  # noqa: E402 (the tree is on the path)
from benchmarks.measured import measured_on  # noqa: E402

from trimtab.store.store import Store  # noqa: E402

RESULT: Final = Path(__file__).with_name("results") / "dashboard.json"
SECRET: Final = "s" * 40
VIEWERS: Final = 50
API: Final = f"/api/v1/sites/{SITE}"
Asking = Callable[[int, str], Awaitable[None]]

HOURLY: Final = (
    "SELECT run.at, sample.value, run.status, run.id FROM run LEFT JOIN sample ON sample.run = "
    "run.number AND sample.metric = 'write_bandwidth' WHERE run.probe = 'hourly' ORDER BY run.at"
)
LAST: Final = "SELECT batch FROM snapshot ORDER BY at DESC LIMIT 1"
SQL: Final[dict[str, tuple[str, ...]]] = {
    "overview": ("SELECT probe, max(at), count(*) FROM run GROUP BY probe", LAST,
                 "SELECT * FROM incident WHERE until IS NULL", f"{HOURLY} DESC LIMIT 48"),
    "status": ("SELECT probe, status, count(*), max(at) FROM run GROUP BY probe, status",
               f"{HOURLY} DESC LIMIT 48"),
    "series": ("SELECT DISTINCT run.probe, sample.metric FROM run JOIN sample ON sample.run = "
               "run.number WHERE run.probe = 'hourly'",),
    "series/ID": (HOURLY,),
    "series/ID/runs.csv?points=1000": (HOURLY,),
    "targets": (LAST,),
    "incidents": ("SELECT * FROM incident ORDER BY at DESC LIMIT 100",),
    "events": ("SELECT * FROM event ORDER BY at DESC LIMIT 100",),
}  # fmt: skip
"""Each document of the API to what is asked of the store for the same panel."""


def configuration(directory: Path) -> Path:
    """Write the file of a dashboard behind a proxy of this host."""
    secret = directory / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    file = directory / "web.toml"
    file.write_text(
        f'[proxy]\npeers = ["127.0.0.1"]\nsecret_file = "{secret}"\n[roles]\nviewers = ["*"]\n'
    )
    return file


@contextmanager
def served(store: Path | str, directory: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Yield the port of a dashboard, and its process."""
    argv = [sys.executable, "-m", "trimtab.cli", "serve", "--store", str(store), "--bind",
            "127.0.0.1:0", "--config", str(configuration(directory))]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = re.findall(r":(\d+)", process.stdout.readline())
            yield int(port[0]), process
        finally:
            process.terminate()


class Viewer:
    """One connection of one person."""

    def __init__(self, port: int, number: int) -> None:
        self._port, self._number = port, number
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> bytes:
        """Return what is at a path."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        reader, writer = self._streams
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nX-Trimtab-Secret: {SECRET}\r\n"
            f"X-Forwarded-User: viewer{self._number}\r\n\r\n".encode()
        )
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except asyncio.IncompleteReadError:  # the server let an idle connection go
            self._streams = None
            return await self.get(path)
        length = re.search(r"content-length: (\d+)", head)
        if not head.startswith("http/1.1 200") or length is None:
            raise RuntimeError(f"{path}: {head.splitlines()[0]}")
        return await reader.readexactly(int(length[1]))

    def close(self) -> None:
        """End the connection."""
        if self._streams is not None:
            self._streams[1].close()


async def opened(port: int) -> float:
    """Return the seconds that a person waits for the first page with all that belongs to it."""
    viewer, began = Viewer(port, 0), time.perf_counter()
    page = (await viewer.get(f"/s/{SITE}/overview")).decode()
    for part in sorted(set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page))):
        await viewer.get(part)
    viewer.close()
    return time.perf_counter() - began


async def viewed(ask: Asking, seconds: float, seed: int) -> dict[str, list[float]]:
    """Return what documents took that viewers asked for."""
    took: dict[str, list[float]] = {name: [] for name in SQL}

    async def looks(number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        begin = time.perf_counter()
        due = begin + chance.expovariate(1.0)
        while due < begin + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            name = chance.choice(list(SQL))
            await ask(number, name)
            took[name].append(time.perf_counter() - due)
            due += chance.expovariate(1.0)

    await asyncio.gather(*(looks(number) for number in range(VIEWERS)))
    return took


async def through_dashboard(port: int, series: str, seconds: float, seed: int) -> Any:
    """Let viewers look at the dashboard."""
    viewers = [Viewer(port, number) for number in range(VIEWERS)]

    async def ask(number: int, name: str) -> None:
        await viewers[number].get(f"{API}/{name.replace('ID', series)}")

    took = await viewed(ask, seconds, seed)
    for viewer in viewers:
        viewer.close()
    return took


async def through_sql(store: Path, seconds: float, seed: int) -> Any:
    """Let viewers ask the store itself, each on a connection of its thread."""
    local = threading.local()

    def queried(name: str) -> None:
        if not hasattr(local, "connection"):
            local.connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        for query in SQL[name]:
            for row in local.connection.execute(query).fetchall():
                if query == LAST:
                    zlib.decompress(row[0])

    async def ask(number: int, name: str) -> None:
        await asyncio.to_thread(queried, name)

    return await viewed(ask, seconds, seed)


def watching(store: Store, every_s: float, ended: threading.Event) -> None:
    """Store a run and a snapshot every so many seconds, each an hour after the last."""
    runs, snapshot = later_runs(store), store.latest_snapshot(SITE)
    assert snapshot is not None
    while not ended.wait(every_s):
        run = next(runs)
        assert run.at is not None
        store.add_run(run)
        store.add_snapshot(SITE, replace(snapshot, at=run.at))


def processor_s(process: int) -> float:
    """Return the processor time that a process has used."""
    values = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def summary(values: list[float]) -> dict[str, float]:
    """Return count, median and upper quantiles, in milliseconds."""
    ordered = sorted(values)

    def quantile(part: float) -> float:
        return round(1e3 * ordered[min(len(ordered) - 1, int(part * len(ordered)))], 1)

    return {"n": len(ordered), "p50_ms": quantile(0.5), "p95_ms": quantile(0.95),
            "p99_ms": quantile(0.99), "most_ms": quantile(1.0)}  # fmt: skip


def measured(store: Path, directory: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of some rounds, both ways in turns."""
    began = time.perf_counter()
    with served(store, directory) as (port, process), Store.open(store) as writing:
        first_s = asyncio.run(opened(port)) and time.perf_counter() - began
        open_s = [asyncio.run(opened(port)) for _ in range(9)]
        entries = json.loads(asyncio.run(Viewer(port, 0).get(f"{API}/series")))["series"]
        series = next(e["id"] for e in entries if "write_bandwidth" in e["id"])
        ended = threading.Event()
        watch = threading.Thread(target=watching, args=(writing, asked.watch_every, ended))
        watch.start()
        times: dict[str, dict[str, list[float]]] = {"dashboard": {}, "sql": {}}
        used, loads = 0.0, []
        try:
            for number in range(asked.rounds):
                before = processor_s(process.pid)
                took = asyncio.run(through_dashboard(port, series, asked.seconds, number))
                used += processor_s(process.pid) - before
                loads.append(os.getloadavg()[0])
                plain = asyncio.run(through_sql(store, asked.seconds, number))
                for way, found in (("dashboard", took), ("sql", plain)):
                    for name, values in found.items():
                        times[way].setdefault(name, []).extend(values)
                open_s.append(asyncio.run(opened(port)))
                print(
                    number,
                    summary([v for of in took.values() for v in of]),
                    file=sys.stderr,
                    flush=True,
                )
        finally:
            ended.set()
            watch.join()
    every = {way: [v for values in of.values() for v in values] for way, of in times.items()}
    return {
        "start_to_first_page_s": round(first_s, 2),
        "open_s": {"median": round(statistics.median(open_s), 3), "most": round(max(open_s), 3)},
        "processor_ms_per_request": round(1e3 * used / len(every["dashboard"]), 2),
        "load_average_during": [round(load, 1) for load in loads],
        **{way: {"all": summary(every[way])} | {n: summary(v) for n, v in of.items()}
           for way, of in times.items()},
    }  # fmt: skip


def kept_store(file: Path) -> Path:
    """Return the store at a path; made, and searched for incidents, where there is none yet."""
    if not file.exists():
        prepare(file)
        search = ["incidents", SITE, "--json", "--store", str(file)]
        argv = [sys.executable, "-m", "trimtab.cli", *search]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return file


def main() -> None:
    """Measure in turns, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0, help="Of each round and way.")
    parser.add_argument("--watch-every", type=float, default=10.0, help="Seconds between runs.")
    parser.add_argument("--store", type=Path, help="A store of before; made where it is not there.")
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        kept = kept_store(asked.store or directory / "year.db")
        store = directory / "copy.db"
        shutil.copyfile(kept, store)
        result = {
            "what": f"the API of trimtab serve on a year of 298 OSTs, {VIEWERS} viewers, a request "
            "a second of each, while runs and snapshots are stored; beside plain SQL, in turns",
            **measured_on(),
            "store": {**contents(store), "bytes": store.stat().st_size},
            "watch_every_s": asked.watch_every,
            **measured(store, directory, asked),
        }
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
