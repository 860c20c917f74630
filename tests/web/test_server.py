"""The server as people start it: the link, slow clients, a store that is gone, its end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path

import pytest
from tests.support.command import TRIMTAB
from tests.web.conftest import SITE, keep_small_site

from trimtab.base.error import RefusedError
from trimtab.web import server as servers
from trimtab.web.server import listening, server_of

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep_small_site(tmp_path_factory.mktemp("server") / "t.db")


def fetched(address: str, cookie: str = "") -> tuple[int, Message, str]:
    """Return status, headers and body of an answer."""
    request = urllib.request.Request(address, headers={"Cookie": cookie} if cookie else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.headers, ""


def test_the_printed_link_opens_the_dashboard(store):
    argv = [str(TRIMTAB), "serve", "--store", str(store), "--bind", "127.0.0.1:0"]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            link = re.search(r"http://\S+", process.stdout.readline())
            assert link is not None
            root = link[0].partition("/enter")[0]
            assert fetched(f"{root}/api/v1/sites")[0] == 401
            _, headers, _ = fetched(link[0])
            cookie = headers["set-cookie"].partition(";")[0]
            _, _, page = fetched(f"{root}/s/{SITE}/overview", cookie)
            assert "No run can be judged" not in page
            assert f"/s/{SITE}/series" in page
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors


def test_a_client_that_sends_no_headers_is_let_go(monkeypatch):
    monkeypatch.setattr(servers, "HEADERS_S", 0.2)

    async def never(scope, receive, send):
        raise AssertionError("no request was sent")

    listener = listening("127.0.0.1", 0)
    server = server_of(never, listener)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        for beginning in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection(listener.getsockname(), timeout=30) as client:
                client.sendall(beginning)
                assert client.recv(100) == b""  # closed, and not by us
    finally:
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


def test_an_address_that_is_taken_is_refused():
    with listening("127.0.0.1", 0) as taken, pytest.raises(RefusedError) as refused:
        listening("127.0.0.1", taken.getsockname()[1])
    assert refused.value.code == "address-taken"
