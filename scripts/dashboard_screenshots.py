"""Pictures of every page of the dashboard on the demo store, to be looked at.

    python scripts/dashboard_screenshots.py build/screenshots [STORE]

Two widths, light and dark, and as it is printed; without a store the demo is simulated first. It
needs chromium.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402 (the tree is on the path now)
from tests.support.browser import launched  # noqa: E402
from tests.web.test_browser import every_page, keep_demo, shown, window  # noqa: E402

WIDTHS = (1440, 400)
PRINTED = 800


def named(path: str) -> str:
    """Return the name of a page in a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", path.lower().partition("/s/")[2]).strip("-")[:80]


def main() -> None:
    """Walk every page, and take a picture of each in every look."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        store = Path(sys.argv[2]) if sys.argv[2:] else keep_demo(Path(temporary))
        with launched(driver) as browser, shown(store) as (server, (site, *_)):
            pages: list[str] = []
            for look in ("light", "dark"):
                size = {"width": WIDTHS[0], "height": 900}
                with window(browser, server, viewport=size, color_scheme=look) as walk:
                    pages = pages or every_page(walk, site)
                    for path in pages:
                        walk.go(path)
                        for width in WIDTHS:
                            walk.page.set_viewport_size({"width": width, "height": 900})
                            file = directory / f"dashboard-{named(path)}-{look}-{width}.png"
                            walk.page.screenshot(path=file, full_page=True)
                        if look == "light":
                            walk.page.set_viewport_size({"width": PRINTED, "height": 900})
                            walk.page.emulate_media(media="print")
                            file = directory / f"dashboard-{named(path)}-print.png"
                            walk.page.screenshot(path=file, full_page=True)
                            walk.page.emulate_media(media="screen")
                        walk.page.set_viewport_size(size)
                        print(f"{look}: {path}")


if __name__ == "__main__":
    main()
