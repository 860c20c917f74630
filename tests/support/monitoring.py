"""A real Prometheus and a real Alertmanager on loopback, started for a test."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0


@dataclass
class Service:
    """A server that was started for a test."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """Return an answer of its API."""
        address = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)

    def series(self, expression: str) -> list[Any]:
        """Return what a query of Prometheus finds."""
        return self.get("/api/v1/query", query=expression)["data"]["result"]


def free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def eventually(is_true: Callable[[], Any]) -> Any:
    """Return what is asked for as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if answer := is_true():
                return answer
        except OSError:
            pass
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.2)


@contextmanager
def service(*words: str, port: int, log: Path) -> Iterator[Service]:
    """Start a server, and wait until it is ready."""
    with log.open("wb") as stream:
        process = subprocess.Popen(words, stdout=stream, stderr=stream)
    running = Service(f"http://127.0.0.1:{port}")
    try:
        eventually(
            lambda: urllib.request.urlopen(f"{running.url}/-/ready", timeout=5).status == 200
        )
        yield running
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def prometheus(
    directory: Path, target: int, alertmanager: int, rules: str = "groups: []", *, scrape: str = ""
) -> Iterator[Service]:
    """Start Prometheus, which scrapes a port of this host; ``scrape``: more lines of its job."""
    port = free_port()
    (directory / "rules.yml").write_text(rules)
    (directory / "prometheus.yml").write_text(
        f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{directory}/rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{alertmanager}"]}}]}}]}}
scrape_configs:
  - job_name: trimtab
    static_configs: [{{targets: ["localhost:{target}"]}}]
{scrape}
"""
    )
    words = ["prometheus", f"--config.file={directory}/prometheus.yml"]
    words += [f"--storage.tsdb.path={directory}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with service(*words, port=port, log=directory / "prometheus.log") as running:
        yield running


@contextmanager
def alert_manager(directory: Path, hook: str) -> Iterator[tuple[Service, int]]:
    """Start Alertmanager, which tells a webhook of everything; return it with its port."""
    port = free_port()
    (directory / "alertmanager.yml").write_text(
        f"""
route: {{receiver: hook, group_by: [alertname], group_wait: 1s, group_interval: 1s}}
receivers: [{{name: hook, webhook_configs: [{{url: "{hook}"}}]}}]
"""
    )
    words = ["prometheus-alertmanager", f"--config.file={directory}/alertmanager.yml"]
    words += [f"--storage.path={directory}/alerts", f"--web.listen-address=127.0.0.1:{port}"]
    words += ["--cluster.listen-address="]
    with service(*words, port=port, log=directory / "alertmanager.log") as running:
        yield running, port
