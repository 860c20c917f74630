"""The server as it is shipped and started: unit, proxy, link, demo."""

from __future__ import annotations

import base64
import html
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.support.command import TRIMTAB, trimtab
from tests.support.narrow import present
from tests.support.small_site import SITE
from tests.web.conftest import keep_small_site, signed_in
from tests.web.serving import SECRET, by_proxy, serving

from trimtab.base.error import RefusedError
from trimtab.base.event import EventKind
from trimtab.site.lookup import open_site, open_store
from trimtab.site.place import Place
from trimtab.twin.page_demo import is_prepared, prepare_demo, site_file_of
from trimtab.web import request_guard
from trimtab.web import request_guard as guarding
from trimtab.web import server as servers
from trimtab.web.desk import Desk
from trimtab.web.server import listening, server_of
from trimtab.web.template import NAV

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
            link = present(re.search(r"http://\S+", process.stdout.readline()))
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


DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "trimtab-web.service"
NGINX = DEPLOY / "nginx" / "trimtab.conf"


def needs(program: str) -> str:
    """Return where a program is."""
    found = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def test_systemd_reads_the_unit(tmp_path):
    analyze = needs("systemd-analyze")
    (tmp_path / UNIT.name).write_text(UNIT.read_text())
    environment = {"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"}

    def analyzed(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [analyze, *argv], capture_output=True, text=True, timeout=120, env=environment,
            check=False,
        )  # fmt: skip

    verified = analyzed("verify", "--man=no", UNIT.name)
    assert verified.returncode == 0, verified.stderr
    assert [line for line in verified.stderr.splitlines() if UNIT.stem in line] == []
    # 0 is no exposure, 10 all: systemd's own sum over what the unit leaves open.
    exposed = analyzed("security", "--offline=yes", "--threshold=30", str(tmp_path / UNIT.name))
    assert exposed.returncode == 0, exposed.stdout[-600:]


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def configured(directory: Path, port: int, backend: int) -> Path:
    """Write the shipped file with addresses and files of this host, and return nginx's."""
    text = NGINX.read_text()
    for shipped, here in (
        ("server 127.0.0.1:8765;", f"server 127.0.0.1:{backend};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("/etc/nginx/", f"{directory}/"),
    ):
        assert shipped in text
        text = text.replace(shipped, here)
    (directory / "trimtab.conf").write_text(text)
    (directory / "trimtab-secret.conf").write_text(
        f'proxy_set_header X-Trimtab-Secret "{SECRET}";\n'
    )
    (directory / "trimtab.users").write_text("alice:{PLAIN}a\nbob:{PLAIN}b\n")
    subprocess.run(
        [needs("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(directory / "trimtab.key"), "-out", str(directory / "trimtab.crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    temporary = "".join(
        f"{name}_temp_path {directory}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = directory / "nginx.conf"
    file.write_text(
        f"user root;\npid {directory}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}include {directory}/trimtab.conf;\n}}\n"
    )
    return file


@pytest.fixture
def proxied(tmp_path, desk) -> Iterator[tuple[httpx.Client, str]]:
    """Yield a client of a real nginx before the dashboard, and the dashboard's own address."""
    nginx, port = needs("nginx"), free_port()
    with serving(desk, by_proxy("bob"), hosts=[f"127.0.0.1:{port}"]) as server:
        file = configured(tmp_path, port, server.port)
        argv = [nginx, "-p", str(tmp_path), "-c", str(file), "-g", "daemon off;"]
        trusted = ssl.create_default_context(cafile=str(tmp_path / "trimtab.crt"))
        with subprocess.Popen(argv) as process:
            try:
                deadline = time.monotonic() + 120
                while time.monotonic() < deadline and process.poll() is None:
                    try:
                        socket.create_connection(("127.0.0.1", port)).close()
                        break
                    except OSError:
                        time.sleep(0.05)
                with httpx.Client(
                    base_url=f"https://127.0.0.1:{port}", verify=trusted, timeout=120,
                    trust_env=False,
                ) as client:  # fmt: skip
                    yield client, server.address
            finally:
                process.terminate()


def signed(user: str, password: str) -> dict[str, str]:
    """Return the header with which a browser signs in."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def test_nginx_signs_people_in_and_forges_nothing(proxied, desk):
    client, backend = proxied
    overview, alice, bob = f"/s/{SITE}/overview", signed("alice", "a"), signed("bob", "b")
    assert client.get(overview).status_code == 401
    assert client.get(overview, headers=signed("alice", "wrong")).status_code == 401
    page = client.get(overview, headers=alice)
    assert (page.status_code, "alice (viewer)" in page.text) == (200, True)
    assert page.headers["strict-transport-security"]
    assert page.headers["content-security-policy"]
    # What a client says of itself is replaced; what it knows of the proxy does not help.
    forged = {"X-Forwarded-User": "bob", "X_Forwarded_User": "bob", "Cookie": "x=y"}
    assert "alice (viewer)" in client.get(overview, headers=forged | alice).text
    direct = httpx.get(f"{backend}{overview}", headers={"X-Forwarded-User": "bob"}, trust_env=False)
    assert direct.status_code == 401
    # A change, from the page of an admin.
    text = client.get(f"/s/{SITE}/actions", headers=bob).text
    token = present(re.search(r'name="csrf" value="(\w+)"', text))
    form = {"kind": "note", "detail": "by nginx", "csrf": token[1]}
    origin = {"Origin": str(client.base_url).rstrip("/")}
    log = f"/s/{SITE}/log"
    assert client.post(log, data=form, headers=bob | origin).status_code == 303
    assert client.post(log, data=form, headers=alice | origin).status_code == 403
    assert (
        client.post(log, data=form, headers=bob | {"Origin": "https://e.test"}).status_code == 403
    )
    assert client.post(log, data={"detail": "x" * 70_000}, headers=bob).status_code == 413
    written = [event for event in desk.store.events(site=SITE) if event.detail == "by nginx"]
    assert [(e.kind, e.source) for e in written] == [(EventKind.NOTE, "dashboard: bob")]


def test_nginx_passes_a_stream_on_as_it_comes(proxied):
    client, _ = proxied
    with client.stream("GET", f"/s/{SITE}/live", headers=signed("alice", "a")) as answer:
        assert (answer.status_code, next(answer.iter_lines())) == (200, "event: state")


def test_the_limits_of_the_shipped_files_fit_those_of_the_dashboard():
    unit = dict(re.findall(r"^(\w+)=(\w+)$", UNIT.read_text(), re.MULTILINE))
    assert int(unit["LimitNOFILE"]) > servers.CONNECTIONS_MAX + servers._FILES
    assert (unit["MemoryMax"], unit["TasksMax"]) == ("2G", "256")
    text = NGINX.read_text()
    limits = {name: int(most) for name, most in re.findall(r"limit_conn (\w+) (\d+);", text)}
    assert request_guard.STREAMS_OF_USER <= limits["trimtab_live"] < request_guard.STREAMS_MAX
    assert limits["trimtab"] < servers.CONNECTIONS_MAX
    assert f"client_max_body_size {guarding.BODY_MAX // 1024}k;" in text


LONG_ENOUGH_S = 100 * 86400.0
"""SafeRet came after 73 days: there is a change, and an incident with its cause."""
EMPTY = (
    "Nothing was asked", "No horizon", "holds no sweep", "No run can be judged", "No snapshot",
    "Not searched for", "There is no site file", "Nothing is written yet", "holds nothing yet",
)  # fmt: skip
RAW = re.compile(
    r"""(?<![\w.,"/-])(?:
        \d{8,}(?:\.\d+)?       # 2250000000000000.0
      | \d{4,}\.0              # 2592000.0, 1802.0
      | 0\.0\ s                # what is no age
    )(?![\w."-])""",
    re.VERBOSE,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo of the first months."""
    place = tmp_path_factory.mktemp("demo") / "site"
    parts: list[float] = []
    prepare_demo(place, lambda _, part: parts.append(part), until_s=LONG_ENOUGH_S)
    assert parts == sorted(parts)
    assert parts[-1] == pytest.approx(1.0)
    assert is_prepared(place)
    return place


@pytest.fixture(scope="module")
def pages(directory: Path) -> Iterator[dict[str, str]]:
    """Every page of the bar, and one of each kind that they lead to, by address."""
    site = open_site(str(site_file_of(directory))).site
    with open_store(site.store.url) as store:
        client = signed_in(Desk(store, (str(site_file_of(directory)), Place(site.name, site))))
        texts = {name: client.get(f"/s/{site.name}/{name}").text for name, _ in NAV}
        for name, kind in (("series", "runs"), ("targets", "target"), ("incidents", "incident")):
            link = present(re.search(rf'href="(/s/{site.name}/{kind}/[^"]+)"', texts[name]))
            texts[kind] = client.get(link[1]).text
        yield texts


def test_every_page_has_something_to_show(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        assert "<main" in page, name
        assert [words for words in EMPTY if words in page] == [], name


def test_values_on_pages_have_their_units(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        assert RAW.findall(words_of(page)) == [], name


def words_of(page: str) -> str:
    """Return what a reader sees of a page, without commands and outputs as they are."""
    for element in ("svg", "script", "style", "code", "pre"):
        page = re.sub(rf"<{element}\b.*?</{element}>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


@pytest.mark.parametrize("command", ["status", "incidents", "event list"])
def test_values_on_screens_have_their_units(directory: Path, command: str) -> None:
    ended = trimtab(*command.split(), site_file_of(directory), "--all", store=directory / "no.db")
    assert ended.code == 0, ended.stderr
    assert RAW.findall(ended.stdout) == []
