"""The demo: every page has something to show, and no figure is in base units."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.support.command import trimtab
from tests.web.conftest import HOST, guard_of

from trimtab.site.lookup import open_site, open_store
from trimtab.site.place import Place
from trimtab.twin.page_demo import is_prepared, prepare_demo, site_file_of
from trimtab.web.access import TokenAccess
from trimtab.web.desk import Desk
from trimtab.web.template import NAV

pytestmark = pytest.mark.system

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
        desk = Desk(store, (str(site_file_of(directory)), Place(site.name, site)))
        tokens: list[str] = []
        access = TokenAccess(tokens.append, user="alice", elapsed_s=lambda: 0.0)
        access.offer()
        client = TestClient(guard_of(desk, access), base_url=f"https://{HOST}")
        client.get("/enter", params={"token": tokens[-1]})
        texts = {name: client.get(f"/s/{site.name}/{name}").text for name, _ in NAV}
        for name, kind in (("series", "runs"), ("targets", "target"), ("incidents", "incident")):
            link = re.search(rf'href="(/s/{site.name}/{kind}/[^"]+)"', texts[name])
            assert link is not None, name
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
