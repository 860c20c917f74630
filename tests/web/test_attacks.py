"""The dashboard on a real socket, against those who mean harm: strangers, floods, slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import resource
import socket
import string
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.command import TRIMTAB
from tests.support.narrow import present
from tests.support.small_site import SITE
from tests.web.conftest import HOSTILE, LOG, csrf_of, keep_small_site
from tests.web.serving import SECRET, Serving, by_proxy, serving, with_secret

from trimtab.web import page_dashboard_chart
from trimtab.web import request_guard as guarding
from trimtab.web import server as servers
from trimtab.web.access import session_cookie
from trimtab.web.desk import Desk
from trimtab.web.server import application_of

pytestmark = pytest.mark.system

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
every_second = iter(range(10**9)).__next__
"""A clock that gives back the whole burst between two requests."""


def raw(
    server: Serving, request: bytes, *, source: str = "127.0.0.1", timeout: float = 60
) -> bytes:
    """Return all that comes back to some bytes, until the server closes."""
    answer = b""
    with socket.create_connection(
        (server.host, server.port), timeout, source_address=(source, 0)
    ) as client:
        client.sendall(request)
        while piece := client.recv(65536):
            answer += piece
    return answer


def cookie_of(person: httpx.Client) -> str:
    """Return the header with a person's session."""
    ((name, value),) = person.cookies.items()
    return f"{name}={value}"


def status_of(answer: bytes) -> int:
    """Return the status in the first line of an answer."""
    return int(answer.split(b" ", 2)[1])


def addresses(desk: Desk) -> list[str]:
    """Return an address for every route, with names that are there."""
    names = {"site": SITE, "identifier": "incident-1", "name": "OST0000", "form": "csv"}
    whole: Any = application_of(desk)
    parts = [getattr(part, "original_router", None) for part in whole.routes]
    routes = [*whole.routes, *(route for part in parts if part for route in part.routes)]
    paths = {route.path for route in routes if hasattr(route, "path")}
    return sorted(
        re.sub(r"\{(\w+)(:path)?\}", lambda found: names.get(found[1], "x"), path) for path in paths
    )


# Strangers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": "PORT=" + "A" * 43},
        {"X-Forwarded-User": "alice", "X-Trimtab-Secret": SECRET},
        {"Authorization": "Basic YWxpY2U6YWxpY2U="},
    ],
)
def test_no_route_answers_a_stranger(desk, headers):
    with serving(desk, elapsed_s=iter(range(0, 10**9, 60)).__next__) as server:
        paths = addresses(desk)
        assert len(paths) > 25
        name = session_cookie(f"127.0.0.1:{server.port}")
        headers = {key: value.replace("PORT", name) for key, value in headers.items()}
        with httpx.Client(base_url=server.address, headers=headers, trust_env=False) as client:
            # Not even which of them are there can be learned.
            nothing = {kind: client.get(f"{kind}/no").text for kind in ("", "/api")}
            for path in paths:
                kind = "/api" if path.startswith("/api/") else ""
                for method in ("GET", "POST"):
                    answer = client.request(method, path)
                    assert (answer.status_code, answer.text) == (401, nothing[kind]), path


def test_a_header_is_believed_from_the_peers_alone(desk):
    """Another address of this host is another peer: it forges the proxy's header and secret."""

    def asked(user: str, secret: str = SECRET) -> bytes:
        return (
            f"GET /api/v1/sites HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
            f"X-Forwarded-User: {user}\r\nX-Trimtab-Secret: {secret}\r\n"
            "X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n\r\n"
        ).encode()

    settings_of = by_proxy("bob", peers="127.0.0.1")
    with serving(desk, settings_of) as server:
        assert status_of(raw(server, asked("bob"))) == 200
        assert status_of(raw(server, asked("bob"), source="127.0.0.2")) == 401
        assert status_of(raw(server, asked("bob", "guessed" * 8))) == 401
        assert status_of(raw(server, asked("bob\r\nX-Forwarded-User: carol"))) == 401


# Malformed and oversized


@pytest.mark.parametrize(
    "request_of",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n continued: y\r\n\r\n",
        b"\r\n\r\n\x00\xff\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_and_the_connection_ends(shared, request_of):
    with contextlib.suppress(ConnectionError):  # closed before all was sent
        assert 400 <= status_of(raw(shared, request_of)) < 500


def test_a_person_is_not_held_up_by_strangers(stranger, tokens):
    for _ in range(40):
        assert stranger.get("/api/v1/sites").status_code in {401, 429}
    assert stranger.get("/enter?token=guess").status_code == 429
    assert stranger.get("/enter", params={"token": tokens[-1]}).status_code == 200
    assert stranger.get("/api/v1/sites").status_code == 200


def test_a_flood_of_refusals_does_not_fill_the_log(stranger, caplog):
    with caplog.at_level(logging.INFO):
        for _ in range(200):
            stranger.get("/api/v1/sites")
    logged = [record for record in caplog.records if record.name == LOG.name]
    assert len(logged) == guarding.REFUSED_BURST


# Slow clients


def test_slow_clients_hold_nobody_up(desk, monkeypatch):
    """Many send headers a byte at a time; others are answered, and they are let go."""
    monkeypatch.setattr(servers, "HEADERS_S", 3.0)
    with serving(desk) as server, contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection((server.host, server.port), 60))
            for _ in range(100)
        ]
        for client in slow:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ")
        with server.signed_in() as person:
            assert person.get("/api/v1/sites").status_code == 200
        open_still = set(slow)
        while open_still:  # each byte is taken, and buys no time
            for client in tuple(open_still):
                try:
                    client.sendall(b"a")
                    client.settimeout(0.02)
                    if client.recv(1) == b"":
                        open_still.discard(client)
                except TimeoutError:
                    continue
                except OSError:
                    open_still.discard(client)


def test_who_does_not_take_an_answer_is_let_go(desk, monkeypatch):
    """Only pieces of it wait for each: with all of it in memory, many clients fill that."""
    monkeypatch.setattr(servers, "STALLED_S", 1.0)
    waiting: list[int] = []
    whole = servers.Connection.pause_writing

    def pause(self: servers.Connection) -> None:
        waiting.append(self.transport.get_write_buffer_size())
        whole(self)

    monkeypatch.setattr(servers.Connection, "pause_writing", pause)
    size = len(page_dashboard_chart.vega_bundle())
    assert size > 500_000  # more than the kernel's own buffers take below
    with serving(desk) as server, server.signed_in() as person:
        cookie = cookie_of(person)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(60)
            client.connect((server.host, server.port))
            client.sendall(
                f"GET /static/vega.js HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                f"Cookie: {cookie}\r\n\r\n".encode()
                * 5
            )
            while not waiting:
                assert person.get("/api/v1/sites").status_code == 200
            taken = 0
            with contextlib.suppress(ConnectionResetError):
                time.sleep(3.0)
                while piece := client.recv(65536):
                    taken += len(piece)
        assert taken < 5 * size
        assert person.get("/api/v1/sites").status_code == 200
    assert max(waiting) < 3 * guarding.PIECE


def test_a_long_answer_is_whole(shared, person):
    assert person.get("/static/vega.js").text == page_dashboard_chart.vega_bundle()


# Many at once


@pytest.mark.parametrize("readers", [50, pytest.param(1000, marks=pytest.mark.soak)])
def test_many_readers_at_once_are_answered_in_bounded_memory(tmp_path, readers):
    """All connections are open at the same time; each person asks for several pages."""
    store = keep_small_site(tmp_path / "t.db")
    settings = with_secret(tmp_path, peer="127.0.0.1", more="")
    few = ["prlimit", f"--nofile={readers // 2}:4096"]  # what a shell allows is not enough
    argv = [*few, str(TRIMTAB), "serve", "--store", str(store), "--bind", "127.0.0.1:0",
            "--config", settings]  # fmt: skip
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(re.findall(r":(\d+)", process.stdout.readline())[0])
            asyncio.run(read_pages(port, 2))
            before = peak_bytes(process.pid)
            statuses = asyncio.run(read_pages(port, readers))
            grown = peak_bytes(process.pid) - before
        finally:
            process.terminate()
    assert statuses == {200: readers * len(READ)}
    assert grown < 2**20 * (64 + readers // 5), f"{grown / 2**20:.0f} MiB more"


READ = (f"/s/{SITE}/overview", f"/api/v1/sites/{SITE}/series", "/static/vega.js")


async def read_pages(port: int, readers: int) -> Counter[int]:
    """Return the statuses that readers get who are all connected before one asks."""
    statuses: Counter[int] = Counter()
    together = [await asyncio.open_connection("127.0.0.1", port) for _ in range(readers)]

    async def reads(number: int, streams: Any) -> None:
        reader, writer = streams
        for path in READ:
            writer.write(
                f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Trimtab-Secret: {SECRET}\r\n"
                f"X-Forwarded-User: reader{number}\r\n\r\n".encode()
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = present(re.search(r"content-length: (\d+)", head))
            await reader.readexactly(int(length[1]))
            statuses[int(head.split(" ", 2)[1])] += 1
        writer.close()

    await asyncio.gather(*(reads(number, streams) for number, streams in enumerate(together)))
    return statuses


def peak_bytes(process: int) -> int:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(present(re.search(r"VmHWM:\s+(\d+) kB", status))[1]) * 1024


# Any input whatever


TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(string.punctuation + string.digits, max_size=20),
    st.sampled_from(
        ["\0", "' OR 1=1--", "'; DROP TABLE run;--", "../../etc/passwd", HOSTILE, "%", "_", "%s%n",
         "{{7*7}}", "${7*7}", "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00", "..", "\u2028",
         "9" * 400, "1e400", "nan", "٣", "-1", "a\r\nX-Evil: 1"]
    ),
)  # fmt: skip
PAGES = ("overview", "series", "targets", "incidents", "actions", "settings", "runs", "incident",
         "target", "chart", "survey")  # fmt: skip
KEYS = ("name", "since", "until", "before", "after", "offset", "find", "state")


@given(st.sampled_from(PAGES), TEXTS, TEXTS, st.dictionaries(st.sampled_from(KEYS), TEXTS))
@example("runs", SITE, "%", {})
@example("runs", SITE, "\0", {})
@example("series", SITE, "", {"since": "0001-01-01T00:00+14:00", "until": "\0"})
@example("targets", SITE, "", {"offset": "9" * 400, "find": "\0"})
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_address_breaks_a_page(shared, person, page, site, part, query):
    site = SITE if len(site) % 3 else site
    path = f"/s/{quote(site, safe='')}/{page}" + (f"/{quote(part, safe='')}" if part else "")
    answer = person.get(path, params=query)
    assert answer.status_code < 500, (path, query)
    assert HOSTILE not in answer.text
    assert "x-evil" not in answer.headers
    assert answer.headers["content-security-policy"] == guarding.POLICY


@given(st.sampled_from(("kind", "detail", "at", "targets")), TEXTS)
@example("targets", "OST[0-999999999]")
@example("targets", "[" * 300)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_form_breaks_a_page(shared, person, csrf, name, text):
    form = {"kind": "note", "detail": "words", "csrf": csrf, name: text}
    answer = person.post(f"/s/{SITE}/log", data=form)
    assert answer.status_code in {303, 400, 422}, answer.text[-300:]


@pytest.mark.parametrize("examples", [8, pytest.param(300, marks=pytest.mark.soak)])
def test_no_request_that_the_description_allows_is_a_server_error(shared, person, csrf, examples):
    schemathesis = pytest.importorskip("schemathesis")
    schema = schemathesis.openapi.from_dict(person.get("/api/openapi.json").json())
    series = person.get(f"/api/v1/sites/{SITE}/series").json()["series"][0]["id"]
    headers = {"X-CSRF-Token": csrf, "Cookie": cookie_of(person)}
    names = {
        "site": (SITE, f"{HOSTILE}/../../etc"),
        "name": (series,),
        "identifier": ("incident-1",),
    }
    known = st.fixed_dictionaries({k: st.sampled_from((*v, None)) for k, v in names.items()})
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 15
    answered = set()
    for operation in operations:

        @settings(max_examples=examples, suppress_health_check=SLOW)
        @given(case=operation.as_strategy(), there=known)
        def tried(case: Any, there: dict[str, str | None]) -> None:
            case.path_parameters |= {
                name: value
                for name, value in there.items()
                if value and name in case.path_parameters
            }
            answer = case.call(base_url=shared.address, headers=headers)
            assert answer.status_code < 500, (case.as_curl_command(), answer.text[:300])
            answered.add(answer.status_code)

        tried()
    assert {200, 400, 404} <= answered


@pytest.fixture(scope="module")
def shared(desk: Desk) -> Iterator[Serving]:
    """One server for the tests that only ask it; its clock lets every request come."""
    with serving(desk, elapsed_s=every_second) as server:
        yield server


@pytest.fixture(scope="module")
def person(shared: Serving) -> Iterator[httpx.Client]:
    """Somebody who was let in."""
    with shared.signed_in() as client:
        yield client


@pytest.fixture(scope="module")
def csrf(person: httpx.Client) -> str:
    """The token of that person's pages."""
    return csrf_of(person)  # type: ignore[arg-type]
