"""The port of the metrics under clients that are slow, many, hostile or without a password."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from tests.support.monitoring import PATIENCE_S, eventually, prometheus

from trimtab.base.error import UsageError
from trimtab.watch import exporter
from trimtab.watch.exporter import CONNECTIONS_MAXIMUM, MetricsServer, Protection, load_protection

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
HASH = bcrypt.hashpw(b"sesame", b"$2b$04$" + 22 * b".").decode()
"""Of a salt that is always the same: every process that shares the tests must name them alike."""


@contextmanager
def served(protection: Protection | None = None) -> Iterator[MetricsServer]:
    """Serve one metric on loopback."""
    server = MetricsServer("127.0.0.1", 0, lambda accept: (b"up 1\n", "text/plain"), protection)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def client(server: MetricsServer) -> socket.socket:
    """Return a connection whose request has begun and does not go on."""
    connection = socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE_S)
    connection.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
    return connection


def is_ended(connection: socket.socket) -> bool:
    """Return whether the server has ended a connection, without waiting."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def got(
    server: MetricsServer, *, tls: ssl.SSLContext | None = None, login: str | None = None
) -> int:
    """Return the status of a scrape."""
    scheme = "http" if tls is None else "https"
    request = urllib.request.Request(f"{scheme}://localhost:{server.server_port}/metrics")
    if login is not None:
        word = base64.b64encode(login.encode()).decode()
        request.add_header("Authorization", f"Basic {word}")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=tls) as answer:
            assert answer.read() == b"up 1\n"
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_only_so_many_clients_are_served_at_once_and_others_end_unanswered() -> None:
    with served() as server, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(client(server)) for _ in range(5 * CONNECTIONS_MAXIMUM)]
        eventually(lambda: sum(map(is_ended, slow)) == 4 * CONNECTIONS_MAXIMUM)
        waiting = [connection for connection in slow if not is_ended(connection)]
        assert len(waiting) == CONNECTIONS_MAXIMUM
        waiting[0].close()  # one that leaves makes room
        eventually(lambda: not ended_at_once(server))


def ended_at_once(server: MetricsServer, tls: ssl.SSLContext | None = None) -> bool:
    """Return whether a scrape is refused."""
    try:
        return got(server, tls=tls) != 200
    except OSError:
        return True


def test_a_deadline_is_of_the_whole_request_however_it_trickles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporter, "DEADLINE_S", 0.2)
    with served() as server, client(server) as connection:

        def has_ended_although_it_goes_on() -> bool:
            with contextlib.suppress(OSError):
                connection.send(b"x")
            return is_ended(connection)

        eventually(has_ended_although_it_goes_on)
        assert got(server) == 200


def test_the_last_descriptors_are_left_to_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as server:
        assert got(server) == 200
        monkeypatch.setattr(exporter, "RESERVED_DESCRIPTORS", 2**40)
        assert ended_at_once(server)
        monkeypatch.undo()
        assert got(server) == 200


WATCH_UNDER_A_FLOOD = """
import resource, sys
from datetime import timedelta
from pathlib import Path
from tests.support.watched import MONDAY, Ended, Moving, a_log, a_site, a_watch
from trimtab.watch.exporter import Exporter
from trimtab.base.site_policy import MetricsExport
from trimtab.store.store import Store
from trimtab.watch.metrics import SiteNow
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
class Known:
    def collect(self, item=None):
        return SiteNow(site, "1", clock())
clock, site = Moving(), a_site(snapshots="every 15m", metrics=MetricsExport("127.0.0.1:0"))
with Store.open(Path(sys.argv[1]) / "t.db") as store:
    exporter = Exporter(site, Known(), log=a_log()[0])
    exporter.idle(MONDAY)
    print(exporter.port, flush=True)
    sys.stdin.readline()
    watch = a_watch(site, store, clock, until=MONDAY + timedelta(hours=2), observers=(exporter,))
    try:
        watch.run()
    except Ended:
        print(*(slot.state.value for slot in store.slots("scratch")), flush=True)
"""
"""Frames are first used when the flood is there, as by a slot that is the first of its kind."""


def test_more_slow_clients_than_descriptors_cost_the_watch_no_slot(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WATCH_UNDER_A_FLOOD, str(tmp_path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes, cwd=ROOT) as watch, contextlib.ExitStack() as stack:
        assert watch.stdin is not None
        assert watch.stdout is not None
        address = "127.0.0.1", int(watch.stdout.readline())
        for _ in range(400):
            with contextlib.suppress(OSError):  # a full queue of the kernel
                slow = socket.create_connection(address, timeout=0.05)
                stack.enter_context(slow).send(b"GET /metrics HTTP/1.1\r\n")
            if len(list(Path(f"/proc/{watch.pid}/fd").iterdir())) >= 256:  # all are taken
                break
        watch.stdin.write("go\n")
        watch.stdin.flush()
        states = watch.stdout.readline().split()
    assert len(states) > 8
    assert set(states) == {"done"}


# --- TLS and passwords ---------------------------------------------------------------------------


def certificate(directory: Path, name: str = "server") -> Path:
    """Make a certificate of localhost in a directory, with its key beside it; return it."""
    made = directory / f"{name}.crt"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-days", "2", "-subj", f"/CN={name}"]
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(directory / f"{name}.key")]
    subprocess.run([*words, "-out", str(made)], check=True, capture_output=True)
    return made


def a_file(directory: Path, text: str) -> Path:
    file = directory / "web.yml"
    file.write_text(text)
    file.chmod(0o600)
    return file


TLS = "tls_server_config: {cert_file: server.crt, key_file: server.key"


def test_a_password_is_needed_and_the_right_one_is_enough(tmp_path: Path) -> None:
    protection = load_protection(a_file(tmp_path, f"basic_auth_users: {{prometheus: '{HASH}'}}\n"))
    with served(protection) as server:
        for wrong in (None, "prometheus:open", "prometheus:", ":", "other:sesame", "sesame"):
            assert got(server, login=wrong) == 401
        assert [got(server, login="prometheus:sesame") for _ in range(2)] == [200, 200]
        # What passed before lets nobody else in.
        assert got(server, login="prometheus:sesam") == 401
        assert got(server, login="other:sesame") == 401
    assert not protection.lets_in("Basic !!!")
    assert not protection.lets_in("Bearer " + base64.b64encode(b"prometheus:sesame").decode())


def test_a_port_with_tls_is_read_by_who_trusts_it_and_slow_handshakes_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = ssl.create_default_context(cafile=str(certificate(tmp_path)))
    with served(load_protection(a_file(tmp_path, TLS + "}\n"))) as server:
        assert got(server, tls=trusted) == 200
        with pytest.raises((OSError, ssl.SSLError)):
            got(server)
        with pytest.raises(urllib.error.URLError):
            got(server, tls=ssl.create_default_context())
        monkeypatch.setattr(exporter, "DEADLINE_S", 0.2)
        with socket.create_connection(("127.0.0.1", server.server_port)) as silent:
            eventually(lambda: is_ended(silent))


def test_a_client_without_the_certificate_that_is_asked_for_reads_nothing(tmp_path: Path) -> None:
    trusted = ssl.create_default_context(cafile=str(certificate(tmp_path)))
    ours, other = certificate(tmp_path, "ours"), certificate(tmp_path, "other")
    more = ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: ours.crt}\n"
    with served(load_protection(a_file(tmp_path, TLS + more))) as server:
        assert ended_at_once(server, trusted)
        trusted.load_cert_chain(other, other.with_suffix(".key"))
        assert ended_at_once(server, trusted)
        trusted.load_cert_chain(ours, ours.with_suffix(".key"))
        assert got(server, tls=trusted) == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("basic_auth_user: {}", "there is no such table; did you mean 'basic_auth_users'?"),
        ("http_server_config: {http2: true}", "there is no such table"),
        ("tls_server_config: {cert_file: a, key: b}", "there is no such key"),
        ("tls_server_config: {cipher_suites: [A]}", "there is no such key"),
        ("tls_server_config: {client_auth_type: RequireAnyClientCert}", "is not"),
        ("tls_server_config: {min_version: TLS10}", "is not"),
        ("tls_server_config: {cert_file: a}", "key_file: is missing"),
        ("tls_server_config: {cert_file: [1], key_file: b}", "text"),
        (TLS + ", client_ca_file: ca.pem}", "needs client_ca_file, and the reverse"),
        (TLS + ", client_auth_type: RequireAndVerifyClientCert}", "needs client_ca_file"),
        (TLS + "}", "server.crt, which cannot be used"),
        ("tls_server_config: {client_auth_type: VerifyClientCertIfGiven}", "cert_file: is missing"),
        ("basic_auth_users: {me: sesame}", "this is not a bcrypt hash"),
        ("basic_auth_users: {me: 12}", "this is not a bcrypt hash"),
        (f"basic_auth_users: {{me: '{HASH.replace('$04$', '$31$')}'}}", "the cost of this hash"),
        ("basic_auth_users: [me]", "must be a table"),
        ("tls_server_config: {}", "nothing is protected"),
        ("{}", "nothing is protected"),
        ("", "not a table of settings"),
        ("- a", "not a table of settings"),
        ("1: 2", "not a table of settings"),
        ("a: [", "not YAML"),
    ],
)
def test_a_file_that_is_not_understood_in_full_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        load_protection(a_file(tmp_path, text))
    shown = f"{raised.value.message}; {raised.value.hint}"
    assert message in shown
    assert "sesame" not in shown


def test_a_file_that_others_can_change_is_refused(tmp_path: Path) -> None:
    file = a_file(tmp_path, f"basic_auth_users: {{me: '{HASH}'}}")
    file.chmod(0o666)
    if os.geteuid() == 0:
        with pytest.raises(UsageError, match="written by everyone"):
            load_protection(file)


def test_renewed_certificates_and_removed_users_are_noticed(tmp_path: Path) -> None:
    certificate(tmp_path)
    file = a_file(tmp_path, TLS + f"}}\nbasic_auth_users: {{me: '{HASH}'}}\n")
    protection = load_protection(file)
    assert protection.is_current
    certificate(tmp_path)
    assert not protection.is_current
    protection = load_protection(file)
    a_file(tmp_path, TLS + "}\n# nobody\n")
    assert not protection.is_current


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
def test_prometheus_scrapes_a_port_with_tls_and_a_password(tmp_path: Path) -> None:
    trusted = certificate(tmp_path)
    file = a_file(tmp_path, TLS + f"}}\nbasic_auth_users: {{prometheus: '{HASH}'}}\n")
    job = f"""
    scheme: https
    tls_config: {{ca_file: {trusted}}}
    basic_auth: {{username: prometheus, password: sesame}}
"""
    with (
        served(load_protection(file)) as server,
        prometheus(tmp_path, server.server_port, 9, scrape=job) as scraping,
    ):
        eventually(lambda: bool(scraping.series("up{job='trimtab'} == 1")))
