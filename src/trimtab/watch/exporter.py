"""Offers metrics on a port and in a file, from memory: a scrape never reads a store.

A port that is taken, or a file that cannot be written, is logged and tried again with the next
slot; no failure here reaches the watch. A client costs the watch a thread and a descriptor before
it has identified itself. So few are admitted, each has one deadline for its whole request, and the
last descriptors of the process are never given to a client.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trimtab.base.error import TrimtabError, UsageError
from trimtab.base.site import Site
from trimtab.store.trusted_file import plain_directory, write_durably
from trimtab.watch.log import fields
from trimtab.watch.metrics import SiteNow, families_of, samples
from trimtab.watch.metrics_access import Protection, load_protection
from trimtab.watch.site_metrics import Collector

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from trimtab.store.slot import Slot


def families(now: SiteNow) -> Iterator[Family]:
    """Yield the metrics of a site as prometheus-client has them."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    for metric, rows in families_of(samples(now)):
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


class Exporter:
    """The metrics of one watch; to prometheus-client a collector that has what was read last."""

    def __init__(self, site: Site, collector: Collector, *, log: logging.Logger) -> None:
        self._site, self._collector, self._log = site, collector, log
        self._latest: tuple[Family, ...] = ()
        self._server: MetricsServer | None = None
        self._is_fresh = False

    @property
    def port(self) -> int | None:
        """The port that is listened on; ``None``: none."""
        return None if self._server is None else self._server.server_address[1]

    def collect(self) -> tuple[Family, ...]:
        """Return what was read last."""
        return self._latest

    def after_slot(self, slot: Slot | None = None) -> None:
        """Read the metrics again, and offer them."""
        now = self._collector.collect(None if slot is None else slot.item)
        self._latest = tuple(families(now))
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
        listen, file = self._site.metrics.listen, self._site.metrics.web_config_file
        if listen is None:
            return
        current = None if self._server is None else self._server.protection
        protection = current
        try:
            if file is not None and (current is None or not current.is_current):
                protection = load_protection(Path(file))
        except UsageError as error:  # without its protection the port is not opened
            extra = fields(problem=error.message, hint=error.hint, served=self._server is not None)
            self._log.error("the web configuration of the metrics was not read", extra=extra)
            return
        if self._server is not None:
            self._server.protection = protection
            return
        self._open(listen, protection)

    def _open(self, listen: str, protection: Protection | None) -> None:
        host, _, port = listen.rpartition(":")
        try:
            server = MetricsServer(host.strip("[]"), int(port), _answer_of(self), protection)
        except OSError as error:
            extra = fields(listen=listen, problem=error.strerror or str(error))
            self._log.error("metrics are not served", extra=extra)
            return
        self._server = server
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        scheme = "http" if protection is None or protection.tls is None else "https"
        address = f"{scheme}://{host}:{self.port}{PATH}"
        self._log.info("serving metrics", extra=fields(address=address))

    def _write(self) -> None:
        textfile = self._site.metrics.textfile
        if textfile is None:
            return
        from prometheus_client import generate_latest

        target = Path(textfile)
        try:
            # The directory may belong to the collector's user: nothing in it is followed.
            with plain_directory(target.parent, "the directory of metrics") as directory:
                text = generate_latest(self)
                write_durably(target.name, directory, text, mode=0o644)
        except TrimtabError as error:
            extra = fields(file=textfile, problem=error.message, hint=error.hint)
            self._log.error("the file of metrics was not written", extra=extra)


def _answer_of(exporter: Exporter) -> Answer:
    """Return what answers a scrape: with the metrics of the process, which the file has not."""
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry: Any = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    ProcessCollector(registry=registry)  # node_exporter has these of its own

    def answer(accept: str) -> tuple[bytes, str]:
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    return answer


# The port: few clients at once, each for a short time, and behind a password

PATH: Final = "/metrics"
CONNECTIONS_MAXIMUM: Final = 16
"""At once; more are closed unanswered. Two servers of Prometheus and a person take three."""
DEADLINE_S: Final = 10.0
"""For all of a request, from the connection to the last byte of the answer: Prometheus' own."""
RESERVED_DESCRIPTORS: Final = 128
"""Left to the watch: the store, the pipes of a fan-out, files. Clients get none of the last."""
_PAUSE_S: Final = 0.5
"""After an accept for which there was no descriptor, else the waiting client is tried at once."""

Answer = Callable[[str], tuple[bytes, str]]
"""Takes what a client accepts; returns the body and its content type."""


class MetricsServer(ThreadingHTTPServer):
    """Serves metrics until it is shut down.

    Attributes
    ----------
    protection
        ``None``: everybody who reaches the port may read. May be exchanged at any time.
    """

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAXIMUM

    def __init__(
        self, host: str, port: int, answer: Answer, protection: Protection | None = None
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answer, self.protection = answer, protection
        self._deadlines: dict[Any, float] = {}
        self._lock = threading.Lock()
        super().__init__((host, port), _Handler)

    def get_request(self) -> tuple[Any, Any]:
        """Accept a client; its handshake is left to its thread."""
        try:
            client, address = super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(_PAUSE_S)
            raise
        if self.protection is None or self.protection.tls is None:
            return client, address
        tls = self.protection.tls
        return tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False), address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether there is room for a client; the deadline of one that is let in begins."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The kernel gives the lowest number that is free: from here on the watch has the rest.
        if soft != resource.RLIM_INFINITY and request.fileno() >= soft - RESERVED_DESCRIPTORS:
            return False
        with self._lock:
            if len(self._deadlines) >= CONNECTIONS_MAXIMUM:
                return False
            self._deadlines[request] = time.monotonic() + DEADLINE_S
        return True

    def service_actions(self) -> None:
        """End connections that are over their deadline; called twice a second and more often."""
        now = time.monotonic()
        with self._lock:
            for client, deadline in self._deadlines.items():
                if now >= deadline:
                    # Its thread, wherever it waits, finds the connection at its end. Not what an
                    # SSLSocket does here, which would take the encryption away under its thread.
                    with contextlib.suppress(OSError):
                        socket.socket.shutdown(client, socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and make room for the next."""
        with self._lock:
            self._deadlines.pop(request, None)
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a broken connection to its client."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: MetricsServer  # pyrefly: ignore[bad-override-mutable-attribute] (of that alone)
    timeout = DEADLINE_S
    server_version = "trimtab"
    sys_version = ""

    def setup(self) -> None:
        """Begin, with the handshake where there is one."""
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(DEADLINE_S)
            self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        """Answer with the metrics that were read last."""
        protection = self.server.protection
        if protection is not None and not protection.lets_in(self.headers.get("Authorization", "")):
            self._send(401, b"", {"WWW-Authenticate": "Basic"})
            return
        if self.path.partition("?")[0] != PATH:
            self.send_error(404)
            return
        body, content_type = self.server.answer(self.headers.get("Accept", ""))
        self._send(200, body, {"Content-Type": content_type})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, text in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a scrape is no event."""
