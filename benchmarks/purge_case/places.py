"""Where the case takes place: a mount namespace of its own, so that paths and users are its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.purge_case import case

TOP: Final = Path("/mnt")
"""A directory that every host has; what is mounted on it here is seen by nobody else."""
_REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent
_FLAG: Final = "TRIMTAB_PURGE_CASE"


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one walk.

    Attributes
    ----------
    root
        What is purged.
    site, store
        Who says that reads are recorded, and how use has grown.
    """

    top: Path = TOP
    name: str = "scratch"

    @property
    def root(self) -> Path:
        """What is purged."""
        return self.top / self.name

    @property
    def site(self) -> Path:
        """The site file."""
        return self.top / f"{self.name}.site.toml"

    @property
    def store(self) -> Path:
        """The site's store."""
        return self.top / f"{self.name}.db"

    @property
    def policy(self) -> Path:
        """The policy file."""
        return self.top / f"{self.name}.toml"

    @property
    def index(self) -> Path:
        """The index."""
        return self.top / f"{self.name}.index"

    @property
    def plan(self) -> Path:
        """The plan."""
        return self.top / f"{self.name}.plans" / "first"

    @property
    def notices(self) -> Path:
        """The directory of users' lists."""
        return self.top / f"{self.name}.notices"

    @property
    def place(self) -> Path:
        """Of the key and the journals."""
        return self.top / f"{self.name}.purge"

    def prepare(self, *, more: str = "") -> None:
        """Write the site's files and make its directories."""
        for directory in (self.root, self.notices, self.plan.parent):
            directory.mkdir(mode=0o755, exist_ok=True)
        with (self.top / "purge-roots").open("a") as roots:
            roots.write(f"{self.root}\n")
        told = {"root": self.root, "notices": self.notices, "top": self.top, "more": more}
        self.policy.write_text(case.POLICY.format(**told))
        self.site.write_text(case.SITE.format(root=self.root))

    def trimtab(self, *arguments: object, ago_s: float = 0.0, code: int = 0) -> dict[str, Any]:
        """Return what ``trimtab purge ...`` printed, and what it took.

        Parameters
        ----------
        ago_s
            By how much its clock is behind: a notice period cannot be waited for.
        code
            What it ends with.
        """
        program = [str(Path(sys.executable).parent / "trimtab")]
        if ago_s:
            program = [sys.executable, "-m", "tests.purge.command.aged", str(ago_s)]
        argv = [*program, "purge", *map(str, arguments)]
        told = taken(argv, environment={"TRIMTAB_PURGE": str(self.place)}, code=code)
        return told | {"command": " ".join(("trimtab", *argv[len(program) :]))}


def taken(
    argv: Sequence[str], *, environment: dict[str, str] | None = None, code: int = 0
) -> dict[str, Any]:
    """Return what a program printed, its seconds and the most memory that it had."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        cwd=_REPOSITORY,
        text=True,
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != code:
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}\n{printed}")
    return {
        "elapsed_s": round(time.perf_counter() - begun, 2),
        "processor_s": round(used.ru_utime + used.ru_stime, 2),
        "memory_bytes": used.ru_maxrss * 1024,
        "printed": printed,
    }


def document(told: dict[str, Any]) -> Any:
    """Return the JSON that a program printed."""
    return json.loads(told["printed"])


def planned_of(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the document of a plan says that it takes, and why."""
    return {
        "files": made["files"],
        "allocated_bytes": made["allocated_bytes"],
        "words": made["horizon"]["words"],
    }


def cost(told: dict[str, Any]) -> dict[str, Any]:
    """Return what a program took, without what it printed."""
    return {name: told[name] for name in ("elapsed_s", "processor_s", "memory_bytes")}


def enter_own_namespace() -> None:
    """Begin again in a mount namespace of one's own, unless that has been done.

    There, and nowhere else, lists are given to 10,000 users and a policy speaks of ``/mnt``.
    """
    if os.geteuid() != 0:
        raise SystemExit("needs root: lists are given to their users")
    if _FLAG in os.environ:
        return
    unshare = ["unshare", "--mount", "--propagation", "private"]
    os.environ[_FLAG] = "1"
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def mount(work: Path) -> None:
    """Put a directory where the case takes place, and give it an ``/etc`` of its own."""
    work.chmod(0o755)
    # The whole of /etc: a file that is mounted on is let go where somebody replaces it outside.
    subprocess.run(["cp", "--archive", "/etc", work / "etc"], check=True)
    subprocess.run(["mount", "--bind", work / "etc", "/etc"], check=True)
    subprocess.run(["mount", "--bind", work, TOP], check=True)


@contextmanager
def users_known() -> Iterator[None]:
    """Give 10,000 users an account. To look one up in a file takes time where nobody needs it."""
    file = Path("/etc/passwd")
    before = file.read_text()
    users = range(case.FIRST_UID, case.FIRST_UID + case.USERS + 1)
    lines = (f"u{uid}:x:{uid}:{uid}::/nonexistent:/usr/sbin/nologin\n" for uid in users)
    file.write_text(before + "".join(lines))
    try:
        yield
    finally:
        file.write_text(before)


def unmount() -> None:
    """Take back what was mounted."""
    for there in (TOP, Path("/etc")):
        subprocess.run(["umount", there], check=False)
