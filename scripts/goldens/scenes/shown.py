"""The facts of all pages: those of commands, with made data, and the dashboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from scripts.goldens.pages import facts
from scripts.goldens.place import fresh
from starlette.testclient import TestClient
from tests.show.pages import PAGES
from tests.support.kept_world import keep_world
from tests.web.conftest import HOST, guard_of, keep_small_site
from tests.worlds.of_clients import client_setting
from tests.worlds.steady import Befalls, steady_world

from trimtab.store.store import Store
from trimtab.web.access import TokenAccess
from trimtab.web.desk import Desk

EACH: Final = 2
"""Pages of a kind that links lead to."""


def reports() -> Iterator[tuple[str, Any]]:
    """Yield the facts of the page of each command."""
    for name, page in PAGES.items():
        yield name, facts(page())


def dashboard() -> Iterator[tuple[str, Any]]:
    """Yield the facts of each kind of page of two sites, as links lead to them."""
    directory = fresh("dashboard")
    change = Befalls(partial(client_setting, told="both"), 6.1)
    world = steady_world(11, 9, change, osts=4, share=0.5)
    for path in (
        keep_small_site(directory / "small.db"),
        keep_world(world, directory / "world.db"),
    ):
        with Store.open(path) as store:
            yield from _pages(path.stem, Desk(store))


def _pages(site: str, desk: Desk) -> Iterator[tuple[str, Any]]:
    tokens: list[str] = []
    access = TokenAccess(tokens.append, user="alice", elapsed_s=lambda: 0.0)
    access.offer()
    client = TestClient(guard_of(desk, access), base_url=f"https://{HOST}", follow_redirects=False)
    client.get("/enter", params={"token": tokens[-1]})
    waiting, seen = ["/", f"/s/{site}/overview"], set[str]()
    kinds: dict[str, int] = {}
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        answer = client.get(path)
        kind = _kind(path)
        number = kinds[kind] = kinds.get(kind, 0) + 1
        yield f"{site}-{kind}-{number}", {"status": answer.status_code, **facts(answer.text)}
        for found in re.findall(rf'href="(/s/{site}/[^"#]+)', answer.text):
            link = found.replace("&amp;", "&")
            if link in waiting or link in seen:
                continue
            if kinds.get(_kind(link), 0) + sum(_kind(one) == _kind(link) for one in waiting) < EACH:
                waiting.append(link)


def _kind(path: str) -> str:
    """Return the kind of a page: the word after its site, and whether it was asked for more."""
    word, _, rest = re.sub(r"^/s/[^/]+/", "", path).partition("/")
    word, question, _ = word.partition("?")
    return (word.strip("/") or "sites") + ("-of" if rest else "") + ("-with" if question else "")
