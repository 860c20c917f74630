"""A port that serves metrics: few clients at once, each for a short time, and behind a password.

A client costs the watch a thread and a descriptor before it has said who it is. So there are few
of them, none stays longer than the deadline, which is of its whole request, and the last
descriptors of the process are never given to one.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from trimtab.loop.exporting.web_config import Protection

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
