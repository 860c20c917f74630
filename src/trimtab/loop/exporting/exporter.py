"""Offers metrics at a port and in a file. A scrape is answered from memory: it never reads a store.

A port that is taken, or a file that cannot be written, is logged and tried again with the next
slot; nothing of it reaches the watch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trimtab.loop.exporting.collecting import Collector
from trimtab.loop.watching.log import fields
from trimtab.model.site import Site
from trimtab.report.metrics import SiteNow, grouped, samples

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from trimtab.record.slots import Slot

PATH: Final = "/metrics"
REQUEST_TIMEOUT_S: Final = 10.0
"""A client that asks for nothing in so long is let go."""


def families(now: SiteNow) -> Iterator[Family]:
    """Yield the metrics of a site as prometheus-client has them."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    for metric, rows in grouped(samples(now)):
        labels = list(metric.labels)
        if metric.kind == "info":
            family: Any = InfoMetricFamily(metric.name, metric.help, labels=[])
            for row in rows:
                family.add_metric([], dict(zip(labels, (now.site.name, *row.labels), strict=True)))
        else:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=labels)
            for row in rows:
                family.add_metric([now.site.name, *row.labels], row.value)
        yield family


class _Latest:
    """A collector of prometheus-client that has what was read last."""

    def __init__(self) -> None:
        self.families: tuple[Family, ...] = ()

    def collect(self) -> tuple[Family, ...]:
        """Return what was read last."""
        return self.families


class Exporter:
    """The metrics of one watch."""

    def __init__(self, site: Site, collector: Collector, *, log: logging.Logger) -> None:
        from prometheus_client import CollectorRegistry

        self._site, self._collector, self._log = site, collector, log
        self._latest = _Latest()
        self._registry: Any = CollectorRegistry(auto_describe=False)
        self._registry.register(self._latest)
        self._server: ThreadingHTTPServer | None = None
        self._is_fresh = False

    @property
    def port(self) -> int | None:
        """The port that is listened on; ``None``: none."""
        return None if self._server is None else self._server.server_address[1]

    def after_slot(self, slot: Slot | None = None) -> None:
        """Read the metrics again, and offer them."""
        self._latest.families = tuple(
            families(self._collector.collect(None if slot is None else slot.item))
        )
        self._is_fresh = True
        self._serve()
        self._write()

    def idle(self, now: datetime) -> None:
        """Offer what is known already when the watch begins."""
        if not self._is_fresh:
            self.after_slot()
        self._serve()

    def close(self) -> None:
        """Stop serving; the file stays, with the time at which it was read."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _serve(self) -> None:
        listen = self._site.metrics.listen
        if listen is None or self._server is not None:
            return
        host, _, port = listen.rpartition(":")
        try:
            server = _server_of(host.strip("[]"), int(port), self._registry)
        except OSError as error:
            extra = fields(listen=listen, problem=error.strerror or str(error))
            self._log.error("metrics are not served", extra=extra)
            return
        self._server = server
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        address = f"http://{host}:{self.port}{PATH}"
        self._log.info("serving metrics", extra=fields(address=address))

    def _write(self) -> None:
        textfile = self._site.metrics.textfile
        if textfile is None:
            return
        from prometheus_client import generate_latest

        target = Path(textfile)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            temporary.write_bytes(generate_latest(self._registry))
            temporary.chmod(0o644)
            temporary.replace(target)  # a reader sees the old file or the new one, never a part
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            extra = fields(file=textfile, problem=error.strerror or str(error))
            self._log.error("the file of metrics was not written", extra=extra)


def _server_of(host: str, port: int, registry: Any) -> ThreadingHTTPServer:
    import socket

    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    process: Any = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=process)  # served, not written: node_exporter has these of its own

    class Answer(BaseHTTPRequestHandler):
        """Answers a scrape."""

        timeout = REQUEST_TIMEOUT_S
        server_version = "trimtab"
        sys_version = ""

        def do_GET(self) -> None:
            """Answer with the metrics that were read last."""
            if self.path.partition("?")[0] != PATH:
                self.send_error(404)
                return
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            body = encode(_Joined(registry, process))
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: a scrape is no event."""

    class Server(ThreadingHTTPServer):
        """Without looking up names, and silent about clients that went away."""

        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Leave a broken connection to its client."""

    return Server((host, port), Answer)


class _Joined:
    """Two registries as one."""

    def __init__(self, *registries: Any) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Family]:
        """Yield the metrics of each."""
        for registry in self._registries:
            yield from registry.collect()
