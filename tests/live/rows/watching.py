"""The watch with armed policies: what it does by itself, what it tells, what it serves."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from tests.live.rows.measuring import PROBE
from tests.live.rows.tuning import queue
from tests.live.running import capability, require
from tests.live.subject import Subject, wait_while
from tests.support.mailbox import answer, web_server

_METRICS: Final = "127.0.0.1:9199"
_SNAPSHOTS_S: Final = 180
_WANTED: Final = "1000"
"""Of wbt_lat_usec; not what another row has set and taken back: that is set no more."""


def metrics() -> dict[str, float]:
    """Return what the watch serves: name with labels to value."""
    with urllib.request.urlopen(f"http://{_METRICS}/metrics", timeout=20.0) as served:
        text = served.read().decode()
    rows = re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in rows}


@capability("watch: armed policies", "/sys of each server, discards counted by the kernel, lfs df")
def watch(subject: Subject) -> str:
    """Settings are set, targets trimmed and probes run by the watch alone; its metrics are true."""
    cluster = subject.cluster
    (cluster.path / "live" / "probe").mkdir(exist_ok=True)
    site = subject.site(
        "watched",
        policy={
            "schedule": "every 3m",
            "tunables": {"armed": True, "settings": {"wbt_lat_usec": int(_WANTED)}, "settle": "1s"},
            "trim": {"armed": True, "every": "10m", "range": "1GiB", "pause": "5s"},
        },
        snapshot={"schedule": f"every {_SNAPSHOTS_S}s"},
        probe={"pinned": {**PROBE, "target_pinning": True, "schedule": "every 10m"}},
        metrics={"listen": _METRICS},
    )
    discarded = {one.name: cluster.discarded_bytes(one) for one in cluster.osts}

    def done() -> bool:
        set_everywhere = all(queue(subject, one, "wbt_lat_usec") == _WANTED for one in cluster.osts)
        trimmed = all(cluster.discarded_bytes(one) > discarded[one.name] for one in cluster.osts)
        runs = subject.json("runs", code=None).get("runs", [])
        return set_everywhere and trimmed and any(run["probe"] == "pinned" for run in runs)

    with subject.running("watch", site, "--log-format", "text", log="watch.txt") as process:
        try:
            cluster.until(done, "all targets are tuned, trimmed and probed by the watch", 3600.0)
        finally:
            require(
                process.poll() is None, f"the watch ended with {process.returncode}: see watch.txt"
            )
        served = metrics()
        space = cluster.space()
    compared = 0
    for name, value in served.items():
        target = re.search(r'target="[^"]*?((?:OST|MDT)[0-9a-f]{4})"', name)
        if target and name.startswith("trimtab_target_used_bytes"):
            near = abs(value - space[target[1]][0]) < 64 * 2**20
            require(near, f"{name} is {value}, lfs df says {space[target[1]][0]}")
            compared += 1
    require(compared == len(space), f"{compared} of {len(space)} targets in the metrics")
    subject.json("revert", site, "--all", "--apply", code=None)
    return (
        f"{len(cluster.osts)} OSTs tuned and trimmed, a pinned probe ran, {compared} metrics equal"
    )


@capability("watch: alert of a lost OST", "umount on its server, a webhook's receiver")
def alert(subject: Subject) -> str:
    """A lost OST is one critical alert, with the first snapshot after it, and its end another."""
    cluster = subject.cluster
    ost = cluster.osts[-1]
    with web_server() as hook:
        site = subject.site(
            "alerting",
            snapshot={"schedule": f"every {_SNAPSHOTS_S}s"},
            webhook={"live": {"url": hook.url}},
        )

        came_s: list[float] = []

        def took(request: BaseHTTPRequestHandler, body: bytes) -> None:
            came_s.append(time.monotonic())
            answer(request)

        hook.behave = took

        def named() -> list[tuple[float, Any]]:
            came = zip(came_s, hook.documents, strict=False)
            return [(at_s, alert) for at_s, alert in came if ost.name in json.dumps(alert)]

        with subject.running("watch", site, "--log-format", "text", log="alert.txt") as process:
            wait_while(process, 1.5 * _SNAPSHOTS_S)
            with cluster.stopped(ost.name):
                lost_s = time.monotonic()
                cluster.until(named, f"an alert names {ost.name}", 3 * _SNAPSHOTS_S + 600.0)
                delay_s = named()[0][0] - lost_s
                critical = json.dumps(named()[0][1])
                require("critical" in critical, f"the alert is {critical[:300]}")
                require(delay_s < 2 * _SNAPSHOTS_S, f"the alert came after {delay_s:.0f} s")
            over = len(named())
            cluster.until(lambda: len(named()) > over, "its end is told", 4 * _SNAPSHOTS_S + 600.0)
    text = f"critical after {delay_s:.0f} s at a snapshot every {_SNAPSHOTS_S} s"
    return f"{text}; {len(named())} messages"
