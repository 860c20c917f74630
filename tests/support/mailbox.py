"""A mail server and a web server on loopback that behave, or misbehave, as a test wants."""

from __future__ import annotations

import base64
import json
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Behaviour = Callable[[BaseHTTPRequestHandler, bytes], None]


@dataclass
class Hook:
    """What a webhook received: bodies and headers; ``behave`` answers."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    behave: Behaviour = lambda request, body: answer(request)

    @property
    def documents(self) -> list[dict[str, Any]]:
        """What was received, as JSON."""
        return [json.loads(body) for body in self.bodies]


def answer(
    request: BaseHTTPRequestHandler, code: int = 200, body: bytes = b"ok", **headers: str
) -> None:
    """Answer a request whole."""
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def close_early(request: BaseHTTPRequestHandler, body: bytes) -> None:
    """Close the connection without a word."""
    request.connection.shutdown(socket.SHUT_RDWR)


def break_off(request: BaseHTTPRequestHandler, body: bytes) -> None:
    """Answer 200 and close in the middle of the answer."""
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b"half")
    request.wfile.flush()
    request.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def web_server() -> Iterator[Hook]:
    """Run a web server that keeps what is posted."""
    hook = Hook()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.bodies.append(body)
            hook.headers.append(dict(self.headers.items()))
            hook.behave(self, body)

        def do_GET(self) -> None:
            hook.bodies.append(b"a GET")
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    hook.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Taken:
    """A mail that was taken, as it came."""

    sender: str
    recipients: list[str]
    data: bytes
    encrypted: bool

    @property
    def recipient(self) -> str:
        """Its only recipient."""
        (recipient,) = self.recipients
        return recipient


@dataclass
class Post:
    """What a mail server received.

    Attributes
    ----------
    greeting, after_data
        What it says at first, and after a mail; empty: nothing, and it closes.
    refused
        Recipients that it does not take.
    delay_s
        Before each answer.
    passwords
        Of users; another login is refused, and without one nothing is taken. ``None``: any login.
    hang_up_after
        Takes so many mails a connection, then closes it between two.
    lose_answer_of
        Recipients whose mail it takes and then breaks the connection without an answer.
    breaks_at
        A verb (``RCPT``, or ``BODY``: in the middle of a mail) at which it breaks the connection.
    logins
        What came after AUTH.
    """

    port: int = 0
    taken: list[Taken] = field(default_factory=list)
    connections: int = 0
    passwords: dict[str, str] | None = None
    hang_up_after: int | None = None
    lose_answer_of: set[str] = field(default_factory=set)
    breaks_at: str = ""
    greeting: str = "220 post.example.org ESMTP"
    after_data: str = "250 taken"
    goodbye: str = "221 bye"
    refused: tuple[str, ...] = ()
    delay_s: float = 0.0
    logins: list[str] = field(default_factory=list)

    @property
    def mails(self) -> list[EmailMessage]:
        """What was taken, read."""
        return [message_from_bytes(each.data, policy=default) for each in self.taken]

    @property
    def recipients(self) -> list[list[str]]:
        """Of each mail."""
        return [each.recipients for each in self.taken]


class _Session(socketserver.StreamRequestHandler):
    """One connection to a mail server."""

    @property
    def owner(self) -> _MailServer:
        assert isinstance(self.server, _MailServer)
        return self.server

    def handle(self) -> None:
        self.to: list[str] = []
        self.sender, self.here, self.user = "", 0, ""
        post = self.owner.post
        post.connections += 1
        if self.owner.implicit:
            self.encrypt()
        going_on = self.say(post.greeting)
        while going_on and (line := self.rfile.readline()):
            verb, _, rest = line.decode().strip().partition(" ")
            if verb.upper() == post.breaks_at:
                break
            answering = getattr(self, f"verb_{verb.lower()}", lambda rest: self.say("250 ok"))
            going_on = answering(rest)
        self.request.close()

    def say(self, text: str) -> bool:
        """Answer; an empty text closes the connection."""
        time.sleep(self.owner.post.delay_s)
        if text:
            self.wfile.write(text.encode() + b"\r\n")
        return bool(text)

    def verb_ehlo(self, rest: str) -> bool:
        tls = ["250-STARTTLS"] if self.owner.tls and not self.encrypted else []
        return self.say("\r\n".join(["250-post", "250-AUTH PLAIN", *tls, "250 OK"]))

    def verb_starttls(self, rest: str) -> bool:
        if self.owner.tls is None:
            return self.say("502 not here")
        self.say("220 go on")
        self.encrypt()
        return True

    @property
    def encrypted(self) -> bool:
        return isinstance(self.request, ssl.SSLSocket)

    def encrypt(self) -> None:
        assert self.owner.tls is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.owner.tls)
        self.request = context.wrap_socket(self.request, server_side=True)
        self.setup()  # its files anew, of the encrypted socket

    def verb_auth(self, rest: str) -> bool:
        post = self.owner.post
        post.logins.append(rest)
        _, user, password = base64.b64decode(rest.split()[-1]).decode().split("\0")
        if post.passwords is not None and post.passwords.get(user) != password:
            return self.say(f"535 wrong: {rest} is not {user}'s")  # repeats the password
        self.user = user
        return self.say("235 fine")

    def verb_mail(self, rest: str) -> bool:
        if self.owner.post.passwords is not None and not self.user:
            return self.say("530 log in first")
        self.sender, self.to = rest.partition("<")[2].partition(">")[0], []
        return self.say("250 ok")

    def verb_rcpt(self, rest: str) -> bool:
        address = rest.partition("<")[2].partition(">")[0]
        if address in self.owner.post.refused:
            return self.say("550 no such user \x1b[2J")
        self.to.append(address)
        return self.say("250 ok")

    def verb_data(self, rest: str) -> bool:
        post = self.owner.post
        self.say("354 go ahead")
        data = b""
        while (line := self.rfile.readline()) and line != b".\r\n":
            if post.breaks_at == "BODY":
                return False
            data += line.removeprefix(b".")
        if post.after_data.startswith("2"):
            post.taken.append(Taken(self.sender, self.to, data, self.encrypted))
            self.here += 1
        if post.lose_answer_of & set(self.to):
            return False
        return self.say(post.after_data) and self.here != post.hang_up_after

    def verb_quit(self, rest: str) -> bool:
        self.say(self.owner.post.goodbye)
        return False


class _MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, post: Post, tls: tuple[Path, Path] | None, implicit: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.post, self.tls, self.implicit = post, tls, implicit

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a broken connection to its client."""


@contextmanager
def mail_server(tls: tuple[Path, Path] | None = None, *, implicit: bool = False) -> Iterator[Post]:
    """Run a mail server; ``tls``: certificate and key, offered by STARTTLS, or at once."""
    post = Post()
    server = _MailServer(post, tls, implicit)
    post.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield post
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def certificate(directory: Path, name: str = "localhost") -> tuple[Path, Path]:
    """Make a certificate of a name that signs itself, and its key."""
    made, key = directory / f"{name}.pem", directory / f"{name}.key"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    make += ["-nodes", "-days", "2", "-subj", f"/CN={name}"]
    make += ["-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(made)]
    subprocess.run(make, check=True, capture_output=True)
    return made, key
