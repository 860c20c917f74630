"""A mail server small enough to be believed: RFC 5321 as far as smtplib speaks it, with faults."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Taken:
    """A mail that was taken."""

    sender: str
    recipient: str
    data: bytes


@dataclass
class MailServer:
    """What it took, and how it behaves.

    Attributes
    ----------
    refused
        Recipients that it does not know.
    hang_up_after
        Takes so many mails a connection, then closes it between two.
    lose_answer_of
        Recipients whose mail it takes and then breaks the connection without an answer.
    """

    port: int = 0
    taken: list[Taken] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    hang_up_after: int | None = None
    lose_answer_of: set[str] = field(default_factory=set)
    connections: int = 0


@contextlib.contextmanager
def mail_server() -> Iterator[MailServer]:
    """Run one on a free port of this host."""
    state = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            state.connections += 1
            with contextlib.suppress(ConnectionError):
                _serve(self, state)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


def _serve(handler: socketserver.StreamRequestHandler, state: MailServer) -> None:
    def say(text: str) -> None:
        handler.wfile.write(text.encode() + b"\r\n")

    sender = recipient = ""
    here = 0
    say("220 test")
    while line := handler.rfile.readline():
        verb, _, rest = line.decode("ascii").strip().partition(" ")
        address = rest.partition("<")[2].partition(">")[0]
        match verb.upper():
            case "MAIL":
                sender = address
                say("250 yes")
            case "RCPT":
                recipient = address
                say("550 no such user \x1b[2J" if recipient in state.refused else "250 yes")
            case "DATA":
                say("354 go on")
                state.taken.append(Taken(sender, recipient, _data(handler)))
                here += 1
                if recipient in state.lose_answer_of:
                    return
                say("250 taken")
                if here == state.hang_up_after:
                    return
            case "QUIT":
                say("221 bye")
                return
            case _:  # EHLO, NOOP, RSET
                say("250 yes")


def _data(handler: socketserver.StreamRequestHandler) -> bytes:
    data = b""
    while (part := handler.rfile.readline()) not in (b".\r\n", b""):
        data += part.removeprefix(b".")
    return data
