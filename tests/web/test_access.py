"""Nothing answers without a token or a configured proxy; forged changes are refused."""

from __future__ import annotations

import asyncio

import pytest
from starlette.testclient import TestClient
from tests.support.codes import raises
from tests.web.conftest import (
    HOST,
    LOG,
    SITE,
    by_token,
    csrf_behind_proxy,
    csrf_of,
    guard_of,
    signed_in,
    through_proxy,
)
from tests.web.serving import SECRET, with_secret

from trimtab.base.error import RefusedError
from trimtab.base.event import EventKind
from trimtab.base.toml_problem import ConfigError
from trimtab.web import request_guard as guarding
from trimtab.web.access import (
    Asking,
    Identity,
    Proxy,
    WebSettings,
    load_settings,
)
from trimtab.web.api import described
from trimtab.web.command import _refuse_open
from trimtab.web.desk import Desk
from trimtab.web.server import application_of

PATHS = ("/", f"/s/{SITE}/overview", "/api/v1/sites", "/api/openapi.json", "/static/app.js", "/no")


def test_no_path_answers_a_stranger(stranger):
    paths = [str(path) for path in described(application_of(None))["paths"]]  # type: ignore[arg-type]
    paths = [path.replace("{site}", SITE) for path in paths]
    refused = guarding.REFUSED_BURST
    assert len(paths) > 10
    statuses = [stranger.get(path).status_code for path in (*PATHS, *paths)]
    assert set(statuses[: int(refused)]) == {401}
    assert set(statuses) <= {401, 429}


def test_a_token_works_once_and_a_new_one_is_offered(stranger, tokens):
    assert stranger.get("/enter", params={"token": "guess"}).status_code == 401
    first = stranger.get("/enter", params={"token": tokens[0]})
    assert first.status_code == 200
    attributes = first.headers["set-cookie"].lower()
    assert "httponly" in attributes
    assert "samesite=strict" in attributes
    assert stranger.get("/api/v1/sites").status_code == 200
    assert stranger.get("/enter", params={"token": tokens[0]}).status_code == 401
    assert len(tokens) == 2
    assert stranger.get("/enter", params={"token": tokens[1]}).status_code == 200


def test_a_session_that_is_not_used_ends(desk):
    now = [0.0]
    client = signed_in(desk, lambda: now[0])
    now[0] = 11 * 3600.0
    assert client.get("/api/v1/sites").status_code == 200
    now[0] += 13 * 3600.0
    answer = client.get("/api/v1/sites")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "session-ended")


def test_a_session_that_is_used_for_ever_ends(desk):
    """An open page uses it every ten minutes; so would who stole the cookie."""
    now = [0.0]
    client = signed_in(desk, lambda: now[0])
    statuses = []
    while now[0] < 8 * 86400.0:
        now[0] += 6 * 3600.0
        statuses.append(client.get("/api/v1/sites").status_code)
    assert statuses == [200] * (7 * 4) + [401] * 4


def test_who_signs_out_needs_another_link(client, stranger):
    cookies, token = dict(client.cookies), csrf_of(client)
    assert client.post("/leave").status_code == 403  # another page's form
    assert client.get("/api/v1/sites").status_code == 200
    answer = client.post("/leave", data={"csrf": token})
    assert (answer.status_code, "max-age=0" in answer.headers["set-cookie"].lower()) == (200, True)
    assert not client.cookies
    client.cookies.update(cookies)  # not only the browser forgot it
    assert client.get("/api/v1/sites").status_code == 401


def cookie_at(desk: Desk, host: str) -> str:
    """Return the cookie that a dashboard gives a browser that reaches it by a name."""
    tokens: list[str] = []
    guard = guard_of(desk, by_token(tokens.append))
    guard._hosts = frozenset({host})
    client = TestClient(guard, base_url=f"http://{host}")
    return client.get("/enter", params={"token": tokens[0]}).headers["set-cookie"]


def test_a_cookie_is_named_for_its_port_or_bound_to_its_name(desk):
    """Browsers send the cookies of a host to all of its ports."""
    for host, name in (
        ("127.0.0.1:8765", "trimtab_session_8765"),
        ("localhost:9000", "trimtab_session_9000"),
        ("[::1]:8765", "trimtab_session_8765"),
        ("localhost", "trimtab_session_80"),
        ("trimtab.example.org", "__Host-trimtab_session"),
        ("trimtab.example.org:8443", "__Host-trimtab_session"),
    ):
        cookie, *attributes = cookie_at(desk, host).split("; ")
        assert cookie.partition("=")[0] == name
        secure = {"Secure"} if name.startswith("__Host-") else set()
        assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Strict"} | secure


def test_a_session_is_of_one_server_and_one_name(desk):
    tokens: list[str] = []

    def knows(server: int, cookie: str) -> bool:
        asking = Asking("", {"host": ("127.0.0.1:8765",), "cookie": (cookie,)})
        return isinstance(servers[server].identify(asking), Identity)

    servers = [by_token(tokens.append) for _ in range(2)]
    value = servers[0].enter(tokens[0])
    own = f"trimtab_session_8765={value}"
    assert (knows(0, own), knows(1, own)) == (True, False)
    for name in ("trimtab_session_8766", "trimtab_session", "__Host-trimtab_session"):
        assert not knows(0, f"{name}={value}")
    # What other servers of this host set neither hides it nor stands for it.
    for others in ('x={"a": [1]}; ', "trimtab_session_8765=planted; ", "=; ;; \xff=\x00; "):
        assert knows(0, others + own)


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
        ("cross-site", "navigate", "document", 200),
        ("same-site", "cors", "empty", 403),
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "navigate", "iframe", 403),
    ],
)
def test_what_pages_of_others_load_is_not_worked_out(client, site, mode, dest, status):
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    assert client.get("/api/v1/sites", headers=headers).status_code == status
    assert client.get("/enter?token=x", headers=headers).status_code == (
        401 if status == 200 else 403
    )


def test_a_rate_is_of_a_user_whatever_proxy_they_come_by(desk, monkeypatch, caplog):
    monkeypatch.setattr(guarding, "BURST", 4.0)
    client = through_proxy(desk, "carol")
    statuses = []
    for number in range(6):
        client._transport.client = (f"192.0.2.{number + 1}", 5)  # type: ignore[attr-defined]
        statuses.append(client.get("/api/v1/sites").status_code)
    assert statuses == [200] * 4 + [429] * 2
    assert [record.fields["user"] for record in caplog.records] == ["carol"] * 2
    assert client.get("/api/v1/sites", headers={"X-Forwarded-User": "dave"}).status_code == 200


def test_refusals_of_a_known_user_do_not_fill_the_log(client, caplog):
    with caplog.at_level("WARNING", logger=LOG.name):
        for _ in range(100):
            assert client.post(f"/s/{SITE}/log", data={"kind": "note"}).status_code == 403
    assert len(caplog.records) == guarding.REFUSED_BURST


def test_a_form_of_many_fields_is_not_taken_apart(client, desk):
    token, before = csrf_of(client), len(desk.store.events(site=SITE))
    many = "&".join(f"a{number}=b" for number in range(guarding.FORM_FIELDS_MAX))
    answer = client.post(
        f"/s/{SITE}/log",
        content=f"csrf={token}&kind=note&detail=x&{many}",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 403
    assert len(desk.store.events(site=SITE)) == before


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("192.0.2.7", {"X-Forwarded-User": "carol"}, 200),
        ("::ffff:192.0.2.7", {"X-Forwarded-User": "carol"}, 200),
        ("192.0.2.77", {"X-Forwarded-User": "bob"}, 401),
        ("127.0.0.1", {"X-Forwarded-User": "bob"}, 401),
        ("127.0.0.1", {"X-Forwarded-User": "bob", "X-Forwarded-For": "192.0.2.7"}, 401),
        ("testclient", {"X-Forwarded-User": "bob"}, 401),
        ("192.0.2.7", {}, 401),
        ("192.0.2.7", {"X-Forwarded-User": ""}, 401),
        ("192.0.2.7", {"X-Forwarded-User": "*"}, 401),
        ("192.0.2.7", {"X-Forwarded-User": "a" * 200}, 401),
        ("192.0.2.7", [("X-Forwarded-User", "carol"), ("X-Forwarded-User", "bob")], 401),
    ],
)
def test_a_header_is_believed_from_the_proxy_alone(desk, peer, headers, status):
    assert (
        through_proxy(desk, peer=peer).get("/api/v1/sites", headers=headers).status_code == status
    )


def test_a_proxy_on_a_shared_address_needs_its_secret(desk):
    client = through_proxy(desk, "bob", secret=SECRET)
    for headers, status in (
        ({}, 401),
        ({"X-Trimtab-Secret": "t" * 40}, 401),
        ({"X-Trimtab-Secret": SECRET}, 200),
    ):
        assert client.get("/api/v1/sites", headers=headers).status_code == status


def test_a_token_lets_nobody_in_behind_a_proxy(desk):
    assert through_proxy(desk).get("/enter?token=x").status_code == 401


@pytest.mark.parametrize(("user", "status"), [("carol", 403), ("alice", 200), ("root", 200)])
def test_a_viewer_changes_nothing(desk, user, status):
    client = through_proxy(desk, user)
    page = client.get(f"/s/{SITE}/actions").text
    assert ("<button>Write</button>" in page) == (status == 200)
    before, headers = desk.store.events(site=SITE), {"X-CSRF-Token": csrf_behind_proxy(client)}
    path = f"/api/v1/sites/{SITE}/events"
    assert client.post(path, json={"detail": "a word"}, headers=headers).status_code == status
    silencing = {"kind": "maintenance", "detail": "x"}
    assert client.post(path, json=silencing, headers=headers).status_code in (403, 422)
    assert len(desk.store.events(site=SITE)) - len(before) == (status == 200)


def test_a_change_is_recorded_in_the_persons_name(client, desk):
    answer = client.post(
        f"/s/{SITE}/incident/incident-1/acknowledge",
        data={"csrf": csrf_of(client), "detail": "on it"},
    )
    assert answer.status_code == 303
    event = desk.store.events(site=SITE)[-1]
    assert (event.kind, event.source) == (EventKind.NOTE, "dashboard: alice")
    assert event.detail == "acknowledged incident incident-1: on it"
    assert "on it" in client.get(f"/s/{SITE}/incident/incident-1").text


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        ({}, {}),
        ({"csrf": "0" * 64}, {}),
        ({"csrf": "right"}, {"Origin": "http://evil.test"}),
        ({"csrf": "right"}, {"Origin": "null"}),
        ({"csrf": "right"}, {"Origin": "http://["}),
        ({"csrf": "right"}, {"Origin": "//"}),
        ({"csrf": "right"}, {"Origin": "x" * 300}),
    ],
)
def test_a_forged_change_is_refused(client, desk, data, headers):
    if data.get("csrf") == "right":
        data = {"csrf": csrf_of(client)}
    before = desk.store.events(site=SITE)
    form = {"kind": "note", "detail": "forged", **data}
    answer = client.post(f"/s/{SITE}/log", data=form, headers=headers)
    assert answer.status_code == 403
    assert answer.headers["content-security-policy"] == guarding.POLICY
    assert desk.store.events(site=SITE) == before


def test_changes_and_refusals_are_logged(client, caplog):
    with caplog.at_level("INFO", logger=LOG.name):
        client.post(f"/s/{SITE}/log", data={"kind": "note", "detail": "x"})
        form = {"kind": "note", "detail": "x", "csrf": csrf_of(client)}
        client.post(f"/s/{SITE}/log", data=form)
    refused, changed = (record.fields for record in caplog.records)
    assert (refused["user"], refused["status"]) == ("alice", 403)
    assert (changed["user"], changed["role"], changed["status"]) == ("alice", "admin", 303)


@pytest.mark.parametrize("host", ["evil.test", "", f"{HOST}:81"])
def test_another_host_name_is_refused(client, host):
    assert client.get("/api/v1/sites", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(client, method):
    assert client.request(method, "/api/v1/sites").status_code == 405


def test_a_body_is_small(client):
    data = {"csrf": csrf_of(client), "kind": "note", "detail": "x" * guarding.BODY_MAX}
    assert client.post(f"/s/{SITE}/log", data=data).status_code == 413
    chunks = (b"x" * 1024 for _ in range(70))  # without a length
    assert client.post(f"/s/{SITE}/log", content=chunks).status_code == 413


def test_a_body_comes_soon(desk, monkeypatch):
    monkeypatch.setattr(guarding, "BODY_S", 0.0)
    sent: list[dict] = []

    async def never():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    guard = through_proxy(desk).app
    headers = [(b"host", HOST.encode()), (b"x-forwarded-user", b"root")]
    scope = {"type": "http", "method": "POST", "path": "/", "raw_path": b"/", "query_string": b"",
             "headers": headers, "client": ("192.0.2.7", 5)}  # fmt: skip
    asyncio.run(guard(scope, never, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408


def test_too_many_requests_wait(desk):
    now = [0.0]
    buckets = guarding.Buckets(2.0, 3.0, lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]
    assert buckets.take("b")
    now[0] = 0.5
    assert [buckets.take("a") for _ in range(2)] == [True, False]


def test_clients_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(guarding, "_CLIENTS_MAX", 3)
    buckets = guarding.Buckets(0.0, 1.0, lambda: 0.0)
    for client in "abcd":
        buckets.take(client)
    assert len(buckets._left) == 3


@pytest.mark.parametrize(
    "path", [f"/s/{SITE}/overview", "/api/v1/sites", "/static/app.css", "/no", "/enter?token=x"]
)
def test_every_answer_carries_the_policy(client, path):
    headers = client.get(path).headers
    assert headers["content-security-policy"] == guarding.POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "unsafe" not in guarding.POLICY


def test_an_open_address_needs_a_proxy():
    _refuse_open("127.0.0.1", None)
    _refuse_open("0.0.0.0", WebSettings(proxy=Proxy(("192.0.2.1",))))
    for settings in (None, WebSettings()):
        with raises(RefusedError, "bind-not-loopback"):
            _refuse_open("0.0.0.0", settings)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('[proxy]\npeers = ["0.0.0.0/0"]\n[roles]\nviewers = ["*"]', "address-too-wide"),
        ('[proxy]\npeers = ["somewhere"]\n[roles]\nviewers = ["*"]', "address-malformed"),
        ('[proxy]\npeers = ["192.0.2.1"]', "roles-missing"),
        ('[proxy]\nuser_header = "Host"', "header-malformed"),
        ('[web]\nhosts = ["a b"]', "host-malformed"),
        ("[web]\npassword = 1", "unknown-key"),
    ],
)
def test_settings_that_open_too_much_are_refused(tmp_path, text, code):
    (tmp_path / "web.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_settings(str(tmp_path / "web.toml"))
    assert code in {problem.code for problem in refused.value.problems}


def test_settings_are_read(tmp_path):
    settings = load_settings(with_secret(tmp_path))
    assert (settings.hosts, settings.proxy.peers) == (("x.test",), ("192.0.2.1",))
    assert settings.secret == SECRET
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("secret", "mode", "code"),
    [("short", 0o600, "secret-short"), (SECRET, 0o644, "secret-readable")],
)
def test_a_secret_that_is_none_is_refused(tmp_path, secret, mode, code):
    with pytest.raises(ConfigError) as refused:
        load_settings(with_secret(tmp_path, secret, mode=mode))
    assert {problem.code for problem in refused.value.problems} == {code}
