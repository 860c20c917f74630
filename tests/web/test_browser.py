"""Every page in a real browser: what it shows, what it may do, how it is used.

The gate walks a small site whose names are hostile; the tier soak also the demo, a check of this
machine and a public year.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import polars as pl
import pytest
from tests.support.browser import CHROMIUM, launched
from tests.support.command import TRIMTAB
from tests.support.real_year import real_year
from tests.support.small_site import SITE, hour
from tests.web.conftest import HOSTILE, by_token, keep_small_site
from tests.web.serving import Serving, serving

from trimtab.base.event import identifier_of
from trimtab.base.run import ASKED, RawOutput, Run, RunStatus, Sample
from trimtab.base.units import format_percent, format_value
from trimtab.probe.site_status import status_of
from trimtab.store.kept import ImportedRun
from trimtab.store.store import Store
from trimtab.web.desk import Desk
from trimtab.web.template import link

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

SERIOUS = ("serious", "critical")
EACH = 2
"""Pages of one kind that are walked: incidents, targets, runs, series."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium; nothing is downloaded."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if shutil.which(CHROMIUM) is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver, launched(driver) as chromium:
        yield chromium


@dataclass
class Walk:
    """A person's window on the dashboard, and what went wrong in it."""

    page: Any
    server: Serving
    wrong: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        """Open a page and wait until it is drawn."""
        answer = self.page.goto(self.server.address + path, wait_until="load", timeout=300_000)
        assert answer is not None
        assert answer.status == 200, (path, answer.status)
        self.page.wait_for_function(DRAWN, timeout=300_000)
        not_drawn = self.page.locator("[data-drawn=no]").count()
        assert (not_drawn, self.wrong) == (0, []), path

    def api(self, path: str) -> Any:
        """Return a document of the API, as the browser gets it."""
        answer = self.page.request.get(f"{self.server.address}/api/v1/sites/{path}")
        assert answer.status == 200, path
        return answer.json()


DRAWN = "() => !document.querySelector('[data-chart]:not([data-drawn])')"


@contextmanager
def window(browser: Any, server: Serving, **options: Any) -> Iterator[Walk]:
    """Yield a window whose person is signed in; nothing it does may go anywhere else."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(300_000)
    walk = Walk(page, server)
    page.on("pageerror", lambda error: walk.wrong.append(f"error: {error}"))
    page.on("console", lambda said: said.type == "error" and walk.wrong.append(said.text))
    page.on("dialog", lambda dialog: (walk.wrong.append("a script ran"), dialog.dismiss()))
    page.on(
        "request",
        lambda asked: (
            asked.url.startswith((server.address, "data:", "blob:"))
            or walk.wrong.append(f"asked elsewhere: {asked.url}")
        ),
    )
    page.goto(f"{server.address}/enter?token={server.tokens[-1]}")
    page.wait_for_url(re.compile(r"/(s/.*)?$"))
    yield walk
    context.close()


def every_page(walk: Walk, site: str) -> list[str]:
    """Return every page of a site that links lead to, some of each kind."""
    walk.go("/")
    waiting, seen, kinds = [link(site, "overview")], [], {}
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        walk.go(path)
        seen.append(path)
        for found in walk.page.eval_on_selector_all(
            "a[href^='/s/']", "all => all.map(a => a.href)"
        ):
            address = found.removeprefix(walk.server.address).partition("#")[0]
            kind = re.sub(r"^/s/[^/]+/([a-z]+).*", r"\1", address)
            kind += "?" if "?" in address else "/" * (address.count("/") > 3)
            if address not in seen + waiting and kinds.setdefault(kind, 0) < EACH:
                kinds[kind] += 1
                waiting.append(address)
    return seen


def axe(walk: Walk) -> list[str]:
    """Return what axe finds serious on the page that is open."""
    source = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
    walk.page.evaluate(source)
    found = walk.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['target']} {node['failureSummary'][:300]}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"][:3]
    ]


def too_wide(walk: Walk) -> bool:
    """Whether the page that is open has to be moved sideways."""
    return walk.page.evaluate(
        "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )


# What is shown is what the API and the library say


def is_what_they_say(walk: Walk, site: str, store: Path) -> None:
    """Compare the figures of the pages with the API's, and those with the library's."""
    name = quote(site, safe="")
    status = walk.api(f"{name}/status")
    with Store.open(store) as opened:
        verdicts = [entry.verdict for entry in status_of(opened, site).series]
    walk.go(link(site, "overview"))
    rows = walk.page.locator("section[aria-labelledby=goals] tbody tr").all_inner_texts()
    assert len(rows) == len(status["series"])
    for row, entry, library in zip(rows, status["series"], verdicts, strict=True):
        verdict = entry["verdict"]
        assert (verdict["mean"], verdict["cov"]) == (library.mean, library.cov)
        if verdict["mean"] is not None:
            assert format_value(verdict["mean"], verdict["unit"]) in row
        if verdict["cov"] is not None:
            assert format_percent(verdict["cov"]) in row
    for entry in walk.api(f"{name}/series")["series"][:EACH]:
        identifier = entry["id"]
        address = f"{walk.server.address}/api/v1/sites/{name}/series/{identifier}/runs.parquet"
        runs = pl.read_parquet(walk.page.request.get(address).body())
        last = runs.row(-1, named=True)
        walk.go(f"{link(site, 'series')}?name={quote(identifier)}")
        text = walk.page.inner_text("main")
        assert last["run"] in text
        if not last["unfinished"]:
            assert format_value(last["value"], entry["unit"]) in text
        drawn = walk.page.locator(".vega svg").count()
        assert drawn >= 1
    targets = walk.api(f"{name}/targets")["targets"]
    walk.go(link(site, "targets"))
    assert f"{len(targets):,} targets" in walk.page.inner_text("main")
    incidents = walk.api(f"{name}/incidents?limit=50")["incidents"]
    walk.go(link(site, "incidents"))
    links = walk.page.locator("main a[href*='/incident/']")
    shown = {unquote(one.get_attribute("href") or "").rpartition("/")[2] for one in links.all()}
    assert {one["id"] for one in incidents} <= shown


# The worlds


def keep_hostile(directory: Path) -> Path:
    """Keep a small site whose probe, outputs, targets, events and incident want to be markup."""
    path = keep_small_site(directory / "t.db")
    output = RawOutput(HOSTILE, (HOSTILE, "-x"), f"{HOSTILE}\n".encode() * 9)
    with Store.open(path) as store:
        for number in range(30):
            sample = Sample("write_bandwidth", 1e9 + number, 0, output=0, line=2)
            store.add_run(
                Run(
                    id=identifier_of(hour(number), "hostile"), site=SITE, probe=HOSTILE, kind="ior",
                    status=RunStatus.OK, at=hour(number), until=hour(number + 0.1),
                    parameters={"spec": {"name": HOSTILE}}, samples=(sample,), outputs=(output,),
                    host=HOSTILE, problem=HOSTILE,
                )
            )  # fmt: skip
    return path


def keep_demo(directory: Path) -> Path:
    """Keep the demo: nine months of the twin."""
    script = (
        "import sys; from pathlib import Path; from trimtab.twin.page_demo import prepare_demo;"
        "prepare_demo(Path(sys.argv[1]), lambda text, part: None)"
    )
    subprocess.run([sys.executable, "-c", script, str(directory)], check=True)
    (store,) = directory.glob("*.db")
    return store


def keep_check(directory: Path) -> Path:
    """Keep checks of this machine."""
    for _ in range(2):
        run("check", str(directory), "--store", str(directory / "t.db"), "--json")
    return directory / "t.db"


def keep_year(directory: Path) -> Path:
    """Keep a public year of two systems."""
    runs = [
        Run(
            f"{number:06}", run.site, run.probe, "ior", run.status, run.at,
            samples=(Sample(run.metric, run.value, 0),) if run.metric else (),
            problem=run.problem, parameters={ASKED: {"series": str(run.series)}},
        )
        for number, run in enumerate(run for runs, _ in real_year() for run in runs)
    ]  # fmt: skip
    with Store.open(directory / "t.db") as store:
        store.add_imports([ImportedRun(run, (), run.id) for run in runs])
    return directory / "t.db"


def run(*argv: str) -> None:
    """Run a command of ours."""
    subprocess.run([str(TRIMTAB), *argv], check=True, stdout=subprocess.DEVNULL, timeout=1500)


@contextmanager
def shown(store_path: Path, user: str = "alice") -> Iterator[tuple[Serving, list[str]]]:
    """Yield the dashboard on a store, and its sites."""
    with Store.open(store_path) as store:
        desk, clock = Desk(store), iter(range(10**9)).__next__
        with serving(
            desk, lambda own: by_token(own.tokens.append, user), elapsed_s=clock
        ) as server:
            yield server, [site.name for site in desk.sites()]


# The walks


def test_hostile_names_stay_text_and_figures_are_those_of_the_api(browser, tmp_path):
    with (
        shown(keep_hostile(tmp_path), HOSTILE) as (server, _),
        window(browser, server, viewport={"width": 1280, "height": 900}) as walk,
    ):
        is_what_they_say(walk, SITE, tmp_path / "t.db")
        pages = every_page(walk, SITE)
        assert len(pages) >= 14
        for page in (link(SITE, "series"), link(SITE, "overview")):
            walk.go(page)
            assert axe(walk) == [], page
        assert HOSTILE in walk.page.inner_text("header .who")
        # By keyboard alone: first past the bar, then to the content.
        walk.page.keyboard.press("Tab")
        assert walk.page.evaluate("() => document.activeElement.className") == "skip"
        walk.page.keyboard.press("Enter")
        walk.page.keyboard.press("Tab")
        assert walk.page.evaluate("() => !!document.activeElement.closest('#main')")
        walk.page.set_viewport_size({"width": 400, "height": 800})
        assert not too_wide(walk)
        assert walk.wrong == []


@pytest.mark.soak
@pytest.mark.parametrize("keep", [keep_hostile, keep_demo, keep_check, keep_year])
def test_every_page_in_every_way(browser, tmp_path: Path, keep: Callable[[Path], Path]):
    """Light and dark, at 400 px, at 200 %, on paper; axe finds nothing serious."""
    store = keep(tmp_path)
    with shown(store) as (server, sites):
        for site in sites[:2]:
            with window(browser, server, viewport={"width": 1280, "height": 900}) as walk:
                is_what_they_say(walk, site, store)
                pages = every_page(walk, site)
                for path in pages:
                    walk.go(path)
                    assert axe(walk) == [], path
                    reachable(walk)
                    walk.page.emulate_media(media="print")
                    assert walk.page.pdf(format="A4")[:5] == b"%PDF-"
                    walk.page.emulate_media(media="screen")
            looks = (
                {"viewport": {"width": 400, "height": 800}, "has_touch": True, "is_mobile": True},
                {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2},
                {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
            )
            for look in looks:
                with window(browser, server, **look) as walk:
                    for path in pages:
                        walk.go(path)
                        assert not too_wide(walk), (path, look)
                        if "color_scheme" in look:
                            assert axe(walk) == [], path


def reachable(walk: Walk) -> None:
    """Assert that the tabulator reaches what can be used, and shows where it is."""
    most = min(25, walk.page.locator("a[href]:visible, button:visible, input:visible").count())
    seen = set()
    walk.page.evaluate("() => document.activeElement?.blur()")
    for _ in range(most):
        walk.page.keyboard.press("Tab")
        state = walk.page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.tagName, e.outerHTML.slice(0, 300), s.outlineStyle != 'none' "
            "|| s.boxShadow != 'none'] }"
        )
        assert state[0] != "BODY"
        assert state[2], f"no sign of the focus: {state[1]}"
        seen.add(state[1])
    assert len(seen) >= most * 0.8
