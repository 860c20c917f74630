"""What 50 viewers of the dashboard notice of one who abuses it: latencies, memory, refusals.

Store, server and viewers are those of ``dashboard.py``. In turns the viewers are alone, and share
the dashboard with one more user of theirs, a process of its own that does all of this at once:

- ``readings.csv`` of one target after another over a thousand snapshots, six at a time,
- comparisons of stretches that nobody asked for before, ten at a time,
- the rates of all surveys as CSV, two at a time,
- 250 live streams, held open,
- addresses of 4 KB that differ in a parameter that means nothing, twenty at a time.

It is bounded in count and time, and connects to the loopback alone. Peak memory is that of the
server with the process beside it, of one start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.dashboard import (  # noqa: E402 (the tree is on the path)
    API,
    SECRET,
    SITE,
    SQL,
    VIEWERS,
    Viewer,
    kept_store,
    served,
    summary,
    viewed,
)
from benchmarks.explain_a_year import contents  # noqa: E402
from benchmarks.measured import measured_on  # noqa: E402

RESULT: Final = Path(__file__).with_name("results") / "dashboard_abused.json"
STREAMS: Final = 250
REQUESTS_MAX: Final = 20_000
"""Of the abuser in one round."""
KINDS: Final = {"readings": 6, "compare": 10, "surveys": 2, "junk": 20}
"""Requests of the abuser at a time."""


async def asked(port: int, path: str, user: str) -> tuple[int, int]:
    """Return status and bytes of one answer on a connection of its own; 0: it was cut off."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
    except OSError:
        return 0, 0
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Trimtab-Secret: {SECRET}\r\n"
            f"X-Forwarded-User: {user}\r\nConnection: close\r\n\r\n".encode()
        )
        head, size = await reader.readline(), 0
        while piece := await reader.read(2**16):
            size += len(piece)
        return (int(head.split()[1]) if head else 0), size
    except OSError:
        return 0, 0
    finally:
        writer.close()


async def stream(port: int, user: str, until: float) -> int:
    """Return the status of a live stream, which is held until a time of the monotonic clock."""
    with suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(
                f"GET /s/{SITE}/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Trimtab-Secret: "
                f"{SECRET}\r\nX-Forwarded-User: {user}\r\n\r\n".encode()
            )
            head = await reader.readline()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    while await reader.read(2**12):
                        pass
            return int(head.split()[1]) if head else 0
        finally:
            writer.close()
    return 0


def addresses(kind: str, targets: list[str], since: str, chance: random.Random) -> str:
    """Return an address that the abuser asks for."""
    if kind == "readings":
        return f"{API}/targets/{chance.choice(targets)}/readings.csv?since={since}"
    if kind == "compare":
        first, second = sorted(chance.sample(range(1, 28), 2))
        return (
            f"{API}/compare?before=2026-0{chance.randint(1, 3)}-{first:02}..2026-05-{second:02}T"
            f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}Z"
            f"&after=2026-06-{first:02}..2026-0{chance.randint(7, 9)}-{second:02}"
        )
    if kind == "surveys":
        return f"{API}/surveys.csv"
    return f"{API}/events?junk={chance.random()}{'x' * 3900}"


def abuse(port: int, seconds: float, targets: list[str], since: str, results: Any) -> None:
    """Ask for all of it at once for so long; run in a process of its own."""
    results.put(asyncio.run(_abuse(port, seconds, targets, since)))


async def _abuse(port: int, seconds: float, targets: list[str], since: str) -> dict[str, Any]:
    until, chance = time.monotonic() + seconds, random.Random(7)
    statuses: dict[str, Counter[int]] = {kind: Counter() for kind in (*KINDS, "streams")}
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    asked_for = 0

    async def asks(kind: str) -> None:
        nonlocal asked_for
        while time.monotonic() < until and asked_for < REQUESTS_MAX:
            asked_for += 1
            began = time.perf_counter()
            status, _ = await asked(port, addresses(kind, targets, since, chance), "abuser")
            took[kind].append(time.perf_counter() - began)
            statuses[kind][status] += 1
            if status >= 400:
                await asyncio.sleep(0.1)  # the client takes processors too

    async def follows() -> None:
        statuses["streams"][await stream(port, "abuser", until)] += 1

    everything = [asks(kind) for kind, count in KINDS.items() for _ in range(count)]
    everything += [follows() for _ in range(STREAMS)]
    tasks = [asyncio.create_task(each) for each in everything]
    _, unfinished = await asyncio.wait(tasks, timeout=seconds + 1)
    for task in unfinished:
        task.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
    return {
        "statuses": {kind: dict(found) for kind, found in statuses.items()},
        "unanswered_at_the_end": len(unfinished),
        "took": {kind: summary(values) for kind, values in took.items() if values},
    }


async def looked(port: int, series: str, seconds: float, seed: int) -> dict[str, Any]:
    """Return what viewers waited, and what they were refused; each also follows changes."""
    refused: Counter[int] = Counter()
    until = time.monotonic() + seconds

    async def ask(number: int, name: str) -> None:
        status, _ = await asked(port, f"{API}/{name.replace('ID', series)}", f"viewer{number}")
        refused[status] += status != 200

    async def follows() -> AsyncIterator[int]:
        await asyncio.sleep(3.0)  # by then the abuser has its own
        for following in asyncio.as_completed(
            [stream(port, f"viewer{number}", until) for number in range(VIEWERS)]
        ):
            yield await following

    async def followed() -> Counter[int]:
        return Counter([status async for status in follows()])

    found, streams = await asyncio.gather(viewed(ask, seconds, seed), followed())
    return {
        "times": [value for values in found.values() for value in values],
        "refused": sum(refused.values()),
        "streams_refused": sum(count for status, count in streams.items() if status != 200),
    }


def memory(process: int, what: str) -> float:
    """Return memory of a process and its children in MB: ``VmHWM`` is the most, ``VmRSS`` now."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    whole = 0
    for number in [process, *map(int, children)]:
        with suppress(OSError):
            found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{number}/status").read_text())
            whole += int(found[1]) if found else 0
    return round(whole * 1024 / 1e6, 1)


def measured(store: Path, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of some rounds, alone and with the abuser in turns."""
    with served(store, directory) as (port, process):
        entries = document(port, f"{API}/series")["series"]
        series = next(entry["id"] for entry in entries if "write_bandwidth" in entry["id"])
        listed = document(port, f"{API}/targets?limit=300")
        targets = [entry["name"] for entry in listed["targets"]]
        since = _days_before(listed["at"], 41)
        asyncio.run(looked(port, series, 5.0, -1))  # everything is worked out once
        ways: dict[str, list[dict[str, Any]]] = {"alone": [], "with_abuser": []}
        abusers, peaks = [], {}
        for number in range(options.rounds):
            ways["alone"].append(asyncio.run(looked(port, series, options.seconds, number)))
            peaks.setdefault("alone", memory(process.pid, "VmHWM"))
            spawning = multiprocessing.get_context("spawn")
            results = spawning.Queue()
            arguments = (port, options.seconds + 5, targets, since, results)
            abuser = spawning.Process(target=abuse, args=arguments)
            abuser.start()
            time.sleep(3.0)
            ways["with_abuser"].append(asyncio.run(looked(port, series, options.seconds, number)))
            abusers.append(results.get(timeout=120))
            abuser.join()
            peaks["with_abuser"] = memory(process.pid, "VmHWM")
            print(number, {way: summary(of[-1]["times"]) for way, of in ways.items()}, peaks,
                  abusers[-1], file=sys.stderr, flush=True)  # fmt: skip
        after = memory(process.pid, "VmRSS")
    return {
        **{way: _joined(rounds) for way, rounds in ways.items()},
        "peak_memory_mb": peaks,
        "memory_after_mb": after,
        "abuser": abusers[statistics.median_low(range(len(abusers)))],
    }


def _joined(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    whole: Callable[[str], int] = lambda name: sum(of[name] for of in rounds)  # noqa: E731
    times = [value for of in rounds for value in of["times"]]
    return {
        **summary(times),
        "refused": whole("refused"),
        "streams_refused": whole("streams_refused"),
    }


def document(port: int, path: str) -> Any:
    """Return what is at a path."""

    async def read() -> bytes:
        viewer = Viewer(port, 0)
        try:
            return await viewer.get(path)
        finally:
            viewer.close()

    return json.loads(asyncio.run(read()))


def _days_before(at: str, days: int) -> str:
    from datetime import datetime, timedelta

    return f"{datetime.fromisoformat(at) - timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"


def main() -> None:
    """Measure in turns, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="Of each round and way.")
    parser.add_argument("--store", type=Path, help="A store of before; made where it is not there.")
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        store = directory / "copy.db"
        shutil.copyfile(kept_store(options.store or directory / "year.db"), store)
        result = {
            "what": f"the API of trimtab serve on a year of 298 OSTs, {VIEWERS} viewers with a "
            "request a second and a live stream each, alone and beside one who abuses it, in turns",
            **measured_on(),
            "store": {**contents(store), "bytes": store.stat().st_size},
            "documents": list(SQL),
            "abuser_at_a_time": {**KINDS, "streams": STREAMS},
            **measured(store, directory, options),
        }
    print(json.dumps(result, indent=2))
    if not options.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
