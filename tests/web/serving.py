"""The dashboard on a real socket of the loopback, in a thread of the tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2 as httpx
from tests.web.conftest import LOG, by_token

from trimtab.web.access import Access, Proxy, ProxyAccess, Roles, WebSettings
from trimtab.web.desk import Desk
from trimtab.web.server import guarded, listening, server_of

SECRET = "s" * 40


@dataclass
class Serving:
    """A server that runs.

    Attributes
    ----------
    tokens
        Those that were announced, the newest last.
    """

    host: str
    port: int
    tokens: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Return its root."""
        return f"http://{self.host}:{self.port}"

    @contextmanager
    def signed_in(self) -> Iterator[httpx.Client]:
        """Yield a client that was let in by the newest token."""
        with httpx.Client(base_url=self.address, timeout=120, trust_env=False) as client:
            assert client.get("/enter", params={"token": self.tokens[-1]}).status_code == 200
            yield client


@contextmanager
def serving(
    desk: Desk,
    access: Callable[[Serving], Access] | None = None,
    *,
    hosts: Sequence[str] = (),
    elapsed_s: Callable[[], float] = time.monotonic,
) -> Iterator[Serving]:
    """Yield a server on a free port of the loopback; ends with it."""
    listener = listening("127.0.0.1", 0)
    server = Serving("127.0.0.1", listener.getsockname()[1])
    chosen = by_token(server.tokens.append) if access is None else access(server)
    names = frozenset({f"127.0.0.1:{server.port}", *hosts})
    guard = guarded(desk, chosen, hosts=names, log=LOG, elapsed_s=elapsed_s)
    running = server_of(guard, listener)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        running.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def by_proxy(*admins: str, peers: str = "127.0.0.0/8") -> Callable[[Serving], ProxyAccess]:
    """Return access through a proxy of this host, which lets in everybody."""
    roles = Roles(("*",), (), admins)
    return lambda _: ProxyAccess(WebSettings((), Proxy((peers,)), roles, SECRET))


def with_secret(
    directory: Path,
    secret: str = SECRET,
    *,
    mode: int = 0o600,
    peer: str = "192.0.2.1",
    more: str = '[web]\nhosts = ["x.test"]\n',
) -> str:
    """Write a secret and settings that name it; return the file of the settings."""
    (directory / "secret").write_text(secret)
    (directory / "secret").chmod(mode)
    file = directory / "web.toml"
    file.write_text(
        f'{more}[proxy]\npeers = ["{peer}"]\nsecret_file = "{directory}/secret"\n'
        '[roles]\nviewers = ["*"]\n'
    )
    return str(file)
