"""Nothing answers without a token or a configured proxy; forged changes are refused."""

from __future__ import annotations

import asyncio

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import HOST, LOG, SITE, csrf_of, guard_of

from trimtab.base.error import RefusedError
from trimtab.base.event import EventKind
from trimtab.base.toml_problem import ConfigError
from trimtab.web import request_guard as guarding
from trimtab.web.access import (
    Asking,
    Identity,
    Proxy,
    ProxyAccess,
    Roles,
    TokenAccess,
    WebSettings,
    load_settings,
)
from trimtab.web.api import described
from trimtab.web.command import _refuse_open
from trimtab.web.desk import Desk
from trimtab.web.server import application_of

SECRET = "s" * 40
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
    tokens: list[str] = []
    access = TokenAccess(tokens.append, user="alice", elapsed_s=lambda: now[0])
    access.offer()
    guard = guard_of(desk, access, lambda: now[0])
    client = TestClient(guard, base_url=f"https://{HOST}")
    client.get("/enter", params={"token": tokens[0]})
    now[0] = 11 * 3600.0
    assert client.get("/api/v1/sites").status_code == 200
    now[0] += 13 * 3600.0
    answer = client.get("/api/v1/sites")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "session-ended")


def test_a_session_that_is_used_for_ever_ends(desk):
    """An open page uses it every ten minutes; so would who stole the cookie."""
    now = [0.0]
    tokens: list[str] = []
    access = TokenAccess(tokens.append, user="alice", elapsed_s=lambda: now[0])
    access.offer()
    client = TestClient(guard_of(desk, access, lambda: now[0]), base_url=f"https://{HOST}")
    client.get("/enter", params={"token": tokens[0]})
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
    access = TokenAccess(tokens.append, user="alice", elapsed_s=lambda: 0.0)
    access.offer()
    guard = guard_of(desk, access)
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

    def asked(access: TokenAccess, cookie: str) -> object:
        return access.identify(Asking("", {"host": ("127.0.0.1:8765",), "cookie": (cookie,)}))

    servers = [TokenAccess(tokens.append, user="alice", elapsed_s=lambda: 0.0) for _ in range(2)]
    for server in servers:
        server.offer()
    value = servers[0].enter(tokens[0])
    assert isinstance(asked(servers[0], f"trimtab_session_8765={value}"), Identity)
    assert not isinstance(asked(servers[1], f"trimtab_session_8765={value}"), Identity)
    for name in ("trimtab_session_8766", "trimtab_session", "__Host-trimtab_session"):
        assert not isinstance(asked(servers[0], f"{name}={value}"), Identity)
    # What other servers of this host set neither hides it nor stands for it.
    for others in ('x={"a": [1]}; ', "trimtab_session_8765=planted; ", "=; ;; \xff=\x00; "):
        assert isinstance(asked(servers[0], f"{others}trimtab_session_8765={value}"), Identity)


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
    client = proxied(desk, "192.0.2.7")
    statuses = []
    for number in range(6):
        client._transport.client = (f"192.0.2.{number + 1}", 5)  # type: ignore[attr-defined]
        answer = client.get("/api/v1/sites", headers={"X-Forwarded-User": "carol"})
        statuses.append(answer.status_code)
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


def proxied(desk: Desk, peer: str, secret: str | None = None) -> TestClient:
    settings = WebSettings(
        (HOST,), Proxy(("192.0.2.0/28",)), Roles(("*",), ("alice",), ("bob",)), secret
    )
    guard = guard_of(desk, ProxyAccess(settings))
    return TestClient(guard, base_url=f"https://{HOST}", client=(peer, 5), follow_redirects=False)


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
    assert proxied(desk, peer).get("/api/v1/sites", headers=headers).status_code == status


def test_a_proxy_on_a_shared_address_needs_its_secret(desk):
    client = proxied(desk, "192.0.2.7", SECRET)
    user = {"X-Forwarded-User": "bob"}
    assert client.get("/api/v1/sites", headers=user).status_code == 401
    wrong = {**user, "X-Trimtab-Secret": "t" * 40}
    assert client.get("/api/v1/sites", headers=wrong).status_code == 401
    right = {**user, "X-Trimtab-Secret": SECRET}
    assert client.get("/api/v1/sites", headers=right).status_code == 200


def test_a_token_lets_nobody_in_behind_a_proxy(desk, tokens):
    assert proxied(desk, "192.0.2.7").get("/enter?token=x").status_code == 401


@pytest.mark.parametrize(("user", "status"), [("carol", 403), ("alice", 200), ("bob", 200)])
def test_a_viewer_changes_nothing(desk, user, status):
    client = proxied(desk, "192.0.2.7")
    client.headers["X-Forwarded-User"] = user
    page = client.get(f"/s/{SITE}/actions").text
    assert ("<button>Write</button>" in page) == (status == 200)
    token = _csrf(desk, client)
    before = len(desk.store.events(site=SITE))
    answer = client.post(
        f"/api/v1/sites/{SITE}/events", json={"detail": "a word"}, headers={"X-CSRF-Token": token}
    )
    assert answer.status_code == status
    assert len(desk.store.events(site=SITE)) - before == (status == 200)


def _csrf(desk: Desk, client: TestClient) -> str:
    """Return a user's token as the guard makes it."""
    access: ProxyAccess = client.app._access  # type: ignore[attr-defined]
    from trimtab.web.access import Asking, Identity

    headers = {"x-forwarded-user": (client.headers["X-Forwarded-User"],)}
    identity = access.identify(Asking("192.0.2.7", headers))
    assert isinstance(identity, Identity)
    return identity.csrf


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
    ],
)
def test_a_forged_change_is_refused(client, desk, data, headers):
    if data.get("csrf") == "right":
        data = {"csrf": csrf_of(client)}
    before = desk.store.events(site=SITE)
    form = {"kind": "note", "detail": "forged", **data}
    answer = client.post(f"/s/{SITE}/log", data=form, headers=headers)
    assert answer.status_code == 403
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
    token = csrf_of(client)
    answer = client.post(
        f"/s/{SITE}/log", data={"csrf": token, "kind": "note", "detail": "x" * guarding.BODY_MAX}
    )
    assert answer.status_code == 413

    def chunks():  # without a length
        for _ in range(70):
            yield b"x" * 1024

    assert client.post(f"/s/{SITE}/log", content=chunks()).status_code == 413


def test_a_body_comes_soon(desk, monkeypatch):
    monkeypatch.setattr(guarding, "BODY_S", 0.0)
    sent: list[dict] = []

    async def never():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    guard = proxied(desk, "192.0.2.7").app
    headers = [(b"host", HOST.encode()), (b"x-forwarded-user", b"bob")]
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


def test_every_answer_carries_the_policy(client, stranger):
    for path in (
        f"/s/{SITE}/overview",
        "/api/v1/sites",
        "/static/app.css",
        "/no",
        "/enter?token=x",
    ):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == guarding.POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert "unsafe" not in guarding.POLICY


def test_an_open_address_needs_a_proxy():
    _refuse_open("127.0.0.1", None)
    _refuse_open("0.0.0.0", WebSettings(proxy=Proxy(("192.0.2.1",))))
    for settings in (None, WebSettings()):
        with pytest.raises(RefusedError) as refused:
            _refuse_open("0.0.0.0", settings)
        assert refused.value.code == "bind-not-loopback"


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
    file = tmp_path / "web.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_settings(str(file))
    assert code in {problem.code for problem in refused.value.problems}


def test_settings_are_read(tmp_path):
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    file = tmp_path / "web.toml"
    file.write_text(
        f'[web]\nhosts = ["x.test"]\n[proxy]\npeers = ["192.0.2.1"]\n'
        f'secret_file = "{tmp_path}/secret"\n[roles]\nviewers = ["*"]\n'
    )
    settings = load_settings(str(file))
    assert (settings.hosts, settings.proxy.peers, settings.secret) == (
        ("x.test",), ("192.0.2.1",), SECRET,
    )  # fmt: skip
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("secret", "mode", "code"),
    [("short", 0o600, "secret-short"), (SECRET, 0o644, "secret-readable")],
)
def test_a_secret_that_is_none_is_refused(tmp_path, secret, mode, code):
    (tmp_path / "secret").write_text(secret)
    (tmp_path / "secret").chmod(mode)
    file = tmp_path / "web.toml"
    file.write_text(f'[proxy]\npeers = ["192.0.2.1"]\nsecret_file = "{tmp_path}/secret"\n'
                    '[roles]\nviewers = ["*"]\n')  # fmt: skip
    with pytest.raises(ConfigError) as refused:
        load_settings(str(file))
    assert {problem.code for problem in refused.value.problems} == {code}
