"""Debian's chromium for tests and for pictures: never as root, in its sandbox wherever it has one.

Root starts it as ``nobody``. The sandbox is made of user namespaces, which a container often
forbids to everybody; there our own pages are shown without one, by a user who may change nothing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = "/usr/bin/chromium"
USER = "nobody"


def ordinary() -> tuple[str, ...]:
    """Return the words before a command that take the rights of root away; none for others."""
    if os.geteuid() != 0:
        return ()
    group = str(pwd.getpwnam(USER).pw_gid)
    return (
        "setpriv", "--reuid", USER, "--regid", group, "--clear-groups", "--no-new-privs",
        "--inh-caps=-all", "--bounding-set=-all", "--",
    )  # fmt: skip


@functools.cache
def has_sandbox() -> bool:
    """Return whether chromium can make its sandbox here."""
    words = (*ordinary(), "unshare", "--user", "--pid", "--net", "--fork", "true")
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """Yield a directory of the browser's own."""
    with tempfile.TemporaryDirectory(prefix="trimtab-browser-") as directory:
        if os.geteuid() == 0:
            shutil.chown(directory, USER)
        yield Path(directory)


def headless(*arguments: str) -> str:
    """Run the browser without a window and return what it prints."""
    sandbox = () if has_sandbox() else ("--no-sandbox",)
    with place() as home:
        done = subprocess.run(
            [*ordinary(), CHROMIUM, "--headless=new", *sandbox, "--disable-gpu",
             "--hide-scrollbars", f"--user-data-dir={home}/profile", *arguments],
            capture_output=True, text=True, timeout=120, check=True,
            env={**os.environ, "HOME": str(home)}, cwd=home,
        )  # fmt: skip
    return done.stdout


@contextlib.contextmanager
def launched(driver: Any) -> Iterator[Any]:
    """Yield a browser that Playwright drives."""
    with place() as home, tempfile.TemporaryDirectory(prefix="trimtab-browser-") as programs:
        program = Path(programs) / "chromium"
        # Playwright makes the profile before it starts the program, as root where it is root.
        program.write_text(
            "#!/bin/sh -e\n"
            f'test "$(id -u)" != 0 || for word; do case "$word" in '
            f'--user-data-dir=*) chown -R {USER} "${{word#*=}}";; esac; done\n'
            f'exec {shlex.join((*ordinary(), CHROMIUM))} "$@"\n'
        )
        program.chmod(0o755)
        browser = driver.chromium.launch(
            executable_path=program,
            chromium_sandbox=has_sandbox(),
            args=["--disable-gpu"],
            env={**os.environ, "HOME": str(home)},
        )
        yield browser
        browser.close()
