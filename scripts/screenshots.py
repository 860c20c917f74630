"""Pictures of every page, to be looked at: two widths, light and dark, print, colour blindness.

    python scripts/screenshots.py build/screenshots [PAGE ...]

The pages hold the data of `tests.show.pages`. A picture is named after page and look, and
shows both widths side by side; one in `print` is a sheet of paper. It needs chromium and pdftoppm.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.browser import headless, place  # noqa: E402 (the tree is on the path now)

WIDTHS = (1280, 400)
HEIGHT_MAX = 16000
STYLE = (
    "<style>body{margin:0;display:flex;gap:40px;align-items:start}iframe{border:0;display:block;flex:none}"
    "</style>"
)
BLINDNESS = {
    # Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB.
    "protan": "0.152286 1.052583 -0.204868 0 0 0.114503 0.786281 0.099216 0 0 "
    "-0.003882 -0.048116 1.051998 0 0 0 0 0 1 0",
    "deutan": "0.367322 0.860646 -0.227968 0 0 0.280085 0.672501 0.047413 0 0 "
    "-0.011820 0.042940 0.968881 0 0 0 0 0 1 0",
}


def laid_out(pages: list[Path]) -> list[tuple[tuple[int, int], ...]]:
    """Return how wide and how high each page is at each width, as a browser lays it out.

    Text that runs out of its cell of a table counts as so much more width.
    """
    frames = "".join(
        f'<iframe width="{width}" height="900" srcdoc="{html.escape(page.read_text())}"></iframe>'
        for page in pages
        for width in WIDTHS
    )
    script = (
        "<script>onload=()=>{document.body.textContent='sizes '+[...document.querySelectorAll("
        "'iframe')].map(f=>f.contentDocument.documentElement)"
        ".map(e=>Math.max(0,...[...e.querySelectorAll('td,th')]"
        ".map(c=>c.scrollWidth-c.clientWidth))+e.scrollWidth+' '+e.scrollHeight)"
        ".join(' ')}</script>"
    )
    with place() as directory:
        harness = directory / "harness.html"
        harness.write_text(f"<!DOCTYPE html><body>{STYLE}{frames}{script}")
        printed = headless("--dump-dom", "--window-size=1400,900", harness.as_uri())
    found = re.search(r"sizes ([0-9 ]+)", printed)
    assert found is not None, printed[-500:]
    values = list(map(int, found[1].split()))
    pairs = list(zip(values[::2], values[1::2], strict=True))
    count = len(WIDTHS)
    return [tuple(pairs[place : place + count]) for place in range(0, len(pairs), count)]


def picture(page: Path, sizes: tuple[int, ...], look: str) -> None:
    """Take a picture of a page at both widths, side by side."""
    frames = "".join(
        f'<iframe width="{width}" height="{height}" src="{page.resolve().as_uri()}"></iframe>'
        for width, height in zip(WIDTHS, sizes, strict=True)
    )
    dark = ["--blink-settings=preferredColorScheme=0"] if look == "dark" else []
    scheme = "<meta name=color-scheme content='light dark'>"
    _shot(page.with_name(f"{page.stem}-{look}.png"), f"{scheme}{STYLE}<body>{frames}", sizes, *dark)


def as_seen(page: Path, sizes: tuple[int, ...], kind: str) -> None:
    """Take a picture of the light picture as a kind of colour blindness shows it."""
    light = page.with_name(f"{page.stem}-light.png")
    body = (
        "<style>body{margin:0}img{display:block;filter:url(#seen)}</style>"
        f'<svg width="0" height="0"><filter id="seen"><feColorMatrix values="{BLINDNESS[kind]}"/>'
        f'</filter></svg><img src="{light.resolve().as_uri()}">'
    )
    _shot(page.with_name(f"{page.stem}-{kind}.png"), body, sizes)


def _shot(target: Path, body: str, sizes: tuple[int, ...], *arguments: str) -> None:
    with place() as directory:
        harness = directory / "harness.html"
        harness.write_text(f"<!DOCTYPE html>{body}")
        headless(f"--screenshot={target}", f"--window-size={sum(WIDTHS) + 40},{max(sizes)}",
                 *arguments, harness.as_uri())  # fmt: skip


def sheets(page: Path) -> None:
    """Print a page, and take a picture of each sheet."""
    paper = page.with_suffix(".pdf")
    headless("--no-pdf-header-footer", f"--print-to-pdf={paper}", page.resolve().as_uri())
    target = page.with_name(f"{page.stem}-print")
    subprocess.run(["pdftoppm", "-r", "60", "-png", str(paper), str(target)], check=True)


def main() -> None:
    """Render the pages named, or all, and take their pictures."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with place() as directory:
        take_pictures(directory, sys.argv[2:])
        for file in directory.iterdir():
            shutil.copyfile(file, target / file.name, follow_symlinks=False)


def take_pictures(directory: Path, names: list[str]) -> None:
    """Leave pages and their pictures in a directory that the browser can write to."""
    from tests.show.pages import PAGES

    pages = [directory / f"{name}.html" for name in names or PAGES]
    for page in pages:
        page.write_text(PAGES[page.stem]())
    for page, laid in zip(pages, laid_out(pages), strict=True):
        sizes = tuple(min(height, HEIGHT_MAX) for _, height in laid)
        for look in ("light", "dark"):
            picture(page, sizes, look)
        for kind in BLINDNESS:
            as_seen(page, sizes, kind)
        sheets(page)
        print(page.stem)


if __name__ == "__main__":
    main()
