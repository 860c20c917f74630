"""A small site with hostile names in a store, and the dashboard on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.support.small_site import SITE, START, SmallSite, hour

from trimtab.base.event import Event, EventKind, identifier_of
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.store.kept import Judged, KeptIncident
from trimtab.store.store import Store
from trimtab.web.access import (
    Access,
    Asking,
    Identity,
    Proxy,
    ProxyAccess,
    Roles,
    TokenAccess,
    WebSettings,
)
from trimtab.web.desk import Desk
from trimtab.web.request_guard import RequestGuard
from trimtab.web.server import application_of, refusal_page

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
HOST = "dashboard.test"
LOG = logging.getLogger("trimtab.test.web")
RUNS = 240
Clock = Callable[[], float]


def still() -> float:
    """Return the same time for ever."""
    return 0.0


_application_of = cache(application_of)
"""Routes take longer to declare than a test to run."""


def guard_of(desk: Desk, access: Access, elapsed_s: Clock = still) -> RequestGuard:
    """Return the dashboard behind its guard."""
    application, hosts = _application_of(desk), frozenset({HOST})
    return RequestGuard(
        application, access, hosts=hosts, log=LOG, elapsed_s=elapsed_s, refuse=refusal_page
    )


def keep_small_site(path: Path) -> Path:
    """Keep hourly runs with a step, outliers and a lost one; surveys, events, an incident."""
    chance = np.random.default_rng(4)
    values = 1e9 * (1 + 0.02 * chance.standard_normal(RUNS))
    values[120:] *= 0.7
    values[[31, 32, 33, 177]] *= 0.2
    values[90] = np.nan
    targets = ("OST0000", "OST0001", HOSTILE)
    rates = {"write_bandwidth": {name: 1e8 * (1 + n) for n, name in enumerate(targets)}}
    surveys = [(hour(24.5 * day), rates) for day in range(1, 6)]
    events = [
        Event(identifier_of(hour(7), "e"), SITE, EventKind.NOTE, hour(7), HOSTILE, HOSTILE),
        Event(identifier_of(hour(9), "t"), SITE, EventKind.TRIM, hour(9), "all", "person"),
    ]
    SmallSite({"write_bandwidth": values}, surveys, events).keep(path)
    with Store.open(path) as store:
        readings = (
            Reading("used_bytes", 6e11, HOSTILE),
            Reading("available_bytes", 4e11, "statfs"),
        )
        seen = tuple(TargetSnapshot(Target(name, "ost", HOSTILE), readings) for name in targets)
        store.add_snapshot(SITE, Snapshot(hour(RUNS), "lustre", True, seen))
        evidence = {"what": HOSTILE, "weight": 1.0, "at": "2026-01-10T00:00:00Z", "source": HOSTILE}
        cause = {"cause": "x", "title": HOSTILE, "confidence": 0.9, "evidence": [evidence]}
        begin, detected = hour(120), hour(126)
        incident = KeptIncident(
            "incident-1", SITE, begin, None, detected, "level", "open", "confirmed", 0.7, HOSTILE,
            {"id": "incident-1", "probe": "hourly", "metric": "write_bandwidth", "causes": [cause]},
        )  # fmt: skip
        store.keep_incidents(SITE, [incident], since=None, judged=Judged(hour(RUNS), hour(RUNS)))
        store.ensure_site(f"{HOSTILE}/../../etc", driver="local")
    return path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    path = keep_small_site(tmp_path_factory.mktemp("web") / "t.db")
    with Store.open(path) as store:
        yield Desk(store)


def by_token(
    announce: Callable[[str], None], user: str = "alice", elapsed_s: Clock = still
) -> TokenAccess:
    """Return access by tokens, the first of which is announced."""
    access = TokenAccess(announce, user=user, elapsed_s=elapsed_s)
    access.offer()
    return access


def signed_in(desk: Desk, elapsed_s: Clock = still, host: str = HOST) -> TestClient:
    """Return alice's client of a dashboard, let in by its token."""
    tokens: list[str] = []
    access = by_token(tokens.append, elapsed_s=elapsed_s)
    client = TestClient(guard_of(desk, access, elapsed_s), base_url=f"https://{host}")
    assert client.get("/enter", params={"token": tokens[0]}).status_code == 200
    return client


def through_proxy(
    desk: Desk, user: str | None = None, *, peer: str = "192.0.2.7", secret: str | None = None
) -> TestClient:
    """Return the client of somebody whom a proxy signed in; all view, some may do more."""
    roles = Roles(("*",), ("alice", "olga"), ("eva", "root"))
    settings = WebSettings((HOST,), Proxy(("192.0.2.0/28",)), roles, secret)
    return TestClient(
        guard_of(desk, ProxyAccess(settings)), base_url=f"https://{HOST}", client=(peer, 5),
        follow_redirects=False, headers={} if user is None else {"X-Forwarded-User": user},
    )  # fmt: skip


@pytest.fixture
def tokens() -> list[str]:
    """The tokens that were announced."""
    return []


@pytest.fixture
def stranger(desk: Desk, tokens: list[str]) -> TestClient:
    """A client that was not let in."""
    guard = guard_of(desk, by_token(tokens.append))
    return TestClient(guard, base_url=f"https://{HOST}", follow_redirects=False)


@pytest.fixture
def client(stranger: TestClient, tokens: list[str]) -> TestClient:
    """A client that was let in."""
    assert stranger.get("/enter", params={"token": tokens[-1]}).status_code == 200
    return stranger


def csrf_of(client: TestClient, page: str = "actions") -> str:
    """Return the token that a page brings along."""
    text = client.get(f"/s/{SITE}/{page}").text
    return text.partition('name="csrf" value="')[2].partition('"')[0]


def csrf_behind_proxy(client: TestClient) -> str:
    """Return the token of a person whom a proxy signed in, as the guard makes it."""
    access: ProxyAccess = client.app._access  # type: ignore[attr-defined]
    headers = {"x-forwarded-user": (client.headers["X-Forwarded-User"],)}
    identity = access.identify(Asking("192.0.2.7", headers))
    assert isinstance(identity, Identity)
    return identity.csrf


__all__ = ["HOSTILE", "RUNS", "SITE", "START", "hour"]
