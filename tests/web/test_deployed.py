"""The unit and the proxy that are shipped: systemd reads one, a real nginx runs the other."""

from __future__ import annotations

import base64
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.support.small_site import SITE
from tests.web.serving import SECRET, by_proxy, serving

from trimtab.base.event import EventKind
from trimtab.web import request_guard as guarding
from trimtab.web import server as servers
from trimtab.web import turns

pytestmark = pytest.mark.system

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
    token = re.search(r'name="csrf" value="(\w+)"', text)
    assert token is not None
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
    assert turns.STREAMS_OF_USER <= limits["trimtab_live"] < turns.STREAMS_MAX
    assert limits["trimtab"] < servers.CONNECTIONS_MAX
    assert f"client_max_body_size {guarding.BODY_MAX // 1024}k;" in text
