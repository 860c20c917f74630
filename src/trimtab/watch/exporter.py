"""Offers metrics in a file and on a port, which TLS and passwords can protect.

Metrics come from memory: a scrape never reads a store. A port that is taken, or a file that cannot
be written, is logged and retried with the next slot; no failure here reaches the watch. A
client costs the watch a thread and a descriptor before it has identified itself. So few are
admitted, each has one deadline for its whole request, and the last descriptors of the process are
never given to a client.

The file that protects the port is that of Prometheus exporters, a subset of ``--web.config.file``.
Anything outside the subset is refused, never ignored: a restriction that is configured but not
applied is worse than none.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import hmac
import logging
import os
import re
import resource
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from trimtab.base.error import TrimtabError, UsageError, install_command, visible
from trimtab.base.site import Site
from trimtab.base.toml_kind import TEXT, ValueKind, choice, table_of
from trimtab.base.toml_problem import BadValue, Lines, Problem, config_error
from trimtab.base.toml_schema import Schema, key, table
from trimtab.base.trusted_file import plain_directory, read_text, write_durably
from trimtab.watch.metrics import SiteNow, families_of, samples
from trimtab.watch.service import fields
from trimtab.watch.site_metrics import Collector

if TYPE_CHECKING:
    from types import ModuleType

    from prometheus_client.core import Metric as Family

    from trimtab.store.slot import Slot


_NOUN: Final = "the web configuration"
_READ_BY_BCRYPT: Final = 72
"""Bytes of a password; more are refused by some versions of the library, and ignored by others."""
_Stamp = tuple[int, int, int] | None
"""Inode, time and size of a file; ``None`` if it does not exist."""
_HASH: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
COST_MAXIMUM: Final = 14
"""Highest cost of a hash: each step doubles the time of a login, which is a second here."""
_VERIFIED: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}


def _read_hash(value: object) -> bytes:
    # The text is never repeated in an error: it may be the password itself.
    match = _HASH.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise BadValue(
            "this is not a bcrypt hash",
            code="secret-inline",
            hint="htpasswd -nB USER prints one; it begins with $2y$",
        )
    if not 4 <= int(match[1]) <= COST_MAXIMUM:
        raise BadValue(
            f"the cost of this hash is not between 4 and {COST_MAXIMUM}",
            code="out-of-range",
            hint="htpasswd -nBC 10 USER makes one of a usual cost",
        )
    return match[0].encode("ascii")


@dataclass(frozen=True, slots=True)
class TlsServer:
    """The certificates of the server, and whether clients need one.

    Attributes
    ----------
    cert_file, key_file
        ``None``: no TLS.
    client_ca_file
        Authorities that may have signed the certificate of a client.
    """

    cert_file: str | None = key(TEXT, "", None)
    key_file: str | None = key(TEXT, "", None)
    client_ca_file: str | None = key(TEXT, "", None)
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = key(choice(tuple(_VERIFIED)), "", "NoClientCert")
    min_version: Literal["TLS12", "TLS13"] = key(choice(tuple(_VERSIONS)), "", "TLS12")


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The content of the file."""

    tls_server_config: TlsServer = table(TlsServer)
    basic_auth_users: Mapping[str, bytes] | None = key(
        table_of(ValueKind("bcrypt hash", "$2y$...", _read_hash, str), "USER: HASH"), "", None
    )


_SCHEMA: Final = Schema(WebConfig)


class Protection:
    """Who may read the metrics.

    Attributes
    ----------
    tls
        ``None``: without encryption.

    Parameters
    ----------
    users
        User to bcrypt hash.
    files
        Files this was read from, with their state at that time (`_stamp`).
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None,
        users: Mapping[str, bytes],
        files: Mapping[Path, _Stamp],
    ) -> None:
        self.tls = tls
        self._users, self._files = dict(users), dict(files)
        self._key = secrets.token_bytes(32)
        self._passed: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @property
    def is_current(self) -> bool:
        """Whether its files are unchanged: certificates are renewed, users change."""
        return all(_stamp(file) == stamp for file, stamp in self._files.items())

    def lets_in(self, authorization: str) -> bool:
        """Return whether a header ``Authorization`` has a user and the password, if one is needed.

        A password that passed is recognised without its hash, by a code that this process keeps in
        memory. Others are compared one at a time: guessing takes at most one processor.
        """
        if not self._users:
            return True
        user, password = _credentials(authorization)
        code = hmac.digest(self._key, password, "sha256")
        if hmac.compare_digest(self._passed.get(user, b""), code):
            return True
        import bcrypt

        # An unknown user is compared as well, so that timing does not reveal who is known.
        hashed = self._users.get(user) or next(iter(self._users.values()))
        with self._lock:
            fits = bcrypt.checkpw(password[:_READ_BY_BCRYPT], hashed)
        if not fits or user not in self._users:
            return False
        self._passed[user] = code
        return True


def _credentials(authorization: str) -> tuple[str, bytes]:
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", b""
    try:
        user, _, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return "", b""
    return ("", b"") if b"\0" in password else (user.decode("utf-8", "replace"), password)


def load_protection(path: Path) -> Protection:
    """Return the protection of the metrics from a file.

    Raises
    ------
    UsageError
        It cannot be read, has a key that is unknown or not supported, protects nothing, names
        certificates that cannot be loaded, or `bcrypt` or `yaml` is not installed.
    """
    yaml = _libraries()
    name, stamp = f"{_NOUN} {visible(os.fspath(path))}", _stamp(path)
    try:
        document = yaml.safe_load(read_text(path, _NOUN))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        raise UsageError(f"{name}{line}: not YAML", code="not-yaml") from error
    if not isinstance(document, dict) or not all(isinstance(word, str) for word in document):
        raise UsageError(f"{name}: not a table of settings", code="wrong-type")
    stated, problems = _SCHEMA.read(document)
    config: WebConfig = _SCHEMA.build(stated) if not problems else WebConfig()
    problems = problems or _contradictions(config)
    if problems:
        raise config_error(problems, name, Lines())
    tls = config.tls_server_config
    named = [file for file in (tls.cert_file, tls.key_file, tls.client_ca_file) if file is not None]
    files = {path: stamp, **{path.parent / file: _stamp(path.parent / file) for file in named}}
    return Protection(_context(tls, path.parent), config.basic_auth_users or {}, files)


def _stamp(file: Path) -> _Stamp:
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def _libraries() -> ModuleType:
    """Return the reader of YAML; reports a missing bcrypt now rather than at the first scrape."""
    try:
        import bcrypt  # noqa: F401
        import yaml
    except ImportError as error:
        raise UsageError(
            f"{_NOUN} needs bcrypt and PyYAML, which are not installed",
            code="web-config-missing",
            hint=install_command("metrics"),
        ) from error
    return yaml


def _contradictions(config: WebConfig) -> list[Problem]:
    tls, at = config.tls_server_config, "tls_server_config"
    verifies = tls.client_auth_type != "NoClientCert"
    if (tls.cert_file is None) != (tls.key_file is None):
        missing = "cert_file" if tls.cert_file is None else "key_file"
        return [Problem((at, missing), "is missing: TLS needs both", "name both files")]
    if tls.cert_file is None and (tls.client_ca_file is not None or verifies):
        return [Problem((at, "cert_file"), "is missing: clients are verified by TLS alone")]
    if verifies != (tls.client_ca_file is not None):
        hint = 'client_auth_type: "RequireAndVerifyClientCert" goes with client_ca_file'
        return [Problem((at, "client_auth_type"), "needs client_ca_file, and the reverse", hint)]
    if tls.cert_file is None and not config.basic_auth_users:
        hint = "set cert_file and key_file, or basic_auth_users; or leave web_config_file out"
        return [Problem((at,), "nothing is protected", hint)]
    return []


def _context(tls: TlsServer, directory: Path) -> ssl.SSLContext | None:
    if tls.cert_file is None or tls.key_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.verify_mode = _VERIFIED[tls.client_auth_type]
    shown = tls.cert_file
    try:
        # An empty password, so that a key with one does not ask for it on a terminal.
        context.load_cert_chain(directory / tls.cert_file, directory / tls.key_file, password="")
        if tls.client_ca_file is not None:
            shown = tls.client_ca_file
            context.load_verify_locations(directory / tls.client_ca_file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{_NOUN} names {visible(shown)}, which cannot be used: {visible(reason)}",
            code="certificate-unusable",
            hint="PEM files, without a password on the key; names begin at the file's directory",
        ) from error
    return context


def families(now: SiteNow) -> Iterator[Family]:
    """Yield the metrics of a site in the form of prometheus-client."""
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
    """The metrics of one watch; for prometheus-client, a collector of the last values read."""

    def __init__(self, site: Site, collector: Collector, *, log: logging.Logger) -> None:
        self._site, self._collector, self._log = site, collector, log
        self._latest: tuple[Family, ...] = ()
        self._server: MetricsServer | None = None
        self._is_fresh = False

    @property
    def port(self) -> int | None:
        """The port it listens on, if any."""
        return None if self._server is None else self._server.server_address[1]

    def collect(self) -> tuple[Family, ...]:
        """Return the last values read."""
        return self._latest

    def after_slot(self, slot: Slot | None = None) -> None:
        """Read the metrics again, and offer them."""
        now = self._collector.collect(None if slot is None else slot.item)
        self._latest = tuple(families(now))
        self._is_fresh = True
        self._serve()
        self._write()

    def idle(self, now: datetime) -> None:
        """Offer the values already known when the watch begins."""
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
        except UsageError as error:  # the port is not opened without its protection
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
            # The directory may belong to the collector's user: no link in it is followed.
            with plain_directory(target.parent, "the directory of metrics") as directory:
                text = generate_latest(self)
                write_durably(target.name, directory, text, mode=0o644)
        except TrimtabError as error:
            extra = fields(file=textfile, problem=error.message, hint=error.hint)
            self._log.error("the file of metrics was not written", extra=extra)


def _answer_of(exporter: Exporter) -> Answer:
    """Return the function that answers a scrape, with metrics of the process, unlike the file."""
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
"""Clients at once; more are closed unanswered. Two Prometheus servers and a user take three."""
DEADLINE_S: Final = 10.0
"""Deadline of a whole request, up to the last byte of the answer: Prometheus' own."""
RESERVED_DESCRIPTORS: Final = 128
"""Descriptors reserved for the watch (store, pipes of a fan-out, files), never for clients."""
_PAUSE_S: Final = 0.5
"""Pause after an accept without a free descriptor; else the client would be retried at once."""

Answer = Callable[[str], tuple[bytes, str]]
"""Takes the formats a client accepts; returns the body and its content type."""


class MetricsServer(ThreadingHTTPServer):
    """Serves metrics until it is shut down.

    Attributes
    ----------
    protection
        ``None``: everyone who reaches the port may read. May be replaced at any time.
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
        """Return whether there is room for a client; starts the deadline of an admitted one."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The kernel gives the lowest free number: from here on the rest is for the watch.
        if soft != resource.RLIM_INFINITY and request.fileno() >= soft - RESERVED_DESCRIPTORS:
            return False
        with self._lock:
            if len(self._deadlines) >= CONNECTIONS_MAXIMUM:
                return False
            self._deadlines[request] = time.monotonic() + DEADLINE_S
        return True

    def service_actions(self) -> None:
        """End connections past their deadline; called at least twice a second."""
        now = time.monotonic()
        with self._lock:
            for client, deadline in self._deadlines.items():
                if now >= deadline:
                    # Its thread, wherever it waits, then sees the end of the connection. The method
                    # of SSLSocket would remove the encryption under its thread.
                    with contextlib.suppress(OSError):
                        socket.socket.shutdown(client, socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and free its place."""
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
        """Begin, with the TLS handshake if there is one."""
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(DEADLINE_S)
            self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        """Answer with the last metrics read."""
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
