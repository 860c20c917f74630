"""A site on the fake Lustre, and the commands that act on it, run in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre

from trimtab.act import session
from trimtab.act.safeguard import Pacing
from trimtab.cli import main
from trimtab.reach.lustre import lustre_driver as lustre_site
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.server_write import ServerWriter
from trimtab.reach.process import ProcessResult

_WRITING = b"\nact("
_SITE = """\
[site]
name = "fake"
driver = "lustre"
path = "/scratch"
file_system = "scratch"

[servers]
mds = "mds[1-2]"
oss = "oss[1-4]"

"""


@dataclass
class LustreSite:
    """A site file, a store, and a fake Lustre beneath; what is to happen does so once."""

    fake: FakeLustre
    directory: Path
    captured: pytest.CaptureFixture[str]
    before_write: list[Callable[[], object]] = field(default_factory=list)
    during_migration: list[Callable[[], object]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def write_site(self, policy: str) -> None:
        (self.directory / "sites").mkdir(exist_ok=True)
        (self.directory / "sites" / "fake.toml").write_text(_SITE + policy)

    def run(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Run a command with ``--json``; its exit code must be that one."""
        store = str(self.directory / "t.db")
        return run_command(self.captured, *words, "--store", store, code=code)

    def lines(self) -> list[dict[str, Any]]:
        """Return what the journal has."""
        path = self.directory / "actions" / "fake.journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def writes(self) -> list[str]:
        """Return what was written, as the servers logged it."""
        lines = [line for server in self.fake.servers for line in server.log]
        return [line for line in lines if ": begun " in line]

    def fan_out(
        self, nodes: Sequence[str], argv: Sequence[str], **options: Any
    ) -> dict[str, ProcessResult]:
        with self.lock:  # the fake is one state, and trims of several servers run at once
            if _WRITING in options["stdin"] and self.before_write:
                self.before_write.pop()()
            return self.fake.fan_out(nodes, argv, **options)

    def execute(self, argv: Sequence[str], **options: Any) -> ProcessResult:
        if tuple(argv[:2]) == ("lfs", "migrate") and self.during_migration:
            self.during_migration.pop()()
        return self.fake.execute(argv, **options)


def run_command(captured: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """Run a command in this process with ``--json``; its exit code must be that one."""
    captured.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    shown = captured.readouterr()
    assert ended.value.code == code, shown.out + shown.err
    return json.loads(shown.out)


@pytest.fixture
def lustre(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> LustreSite:
    """A site of 2 MDTs and 8 OSTs on four servers."""
    return on_fake_lustre(tmp_path, monkeypatch, capsys)


def on_fake_lustre(
    directory: Path, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]
) -> LustreSite:
    """Return the site; until the patches are undone, commands of this process reach the fake."""
    where = LustreSite(FakeLustre.pair(), directory, captured)
    parts = {"fan_out": where.fan_out}
    with_fake = partial(LustreDriver, execute=where.execute, **parts)
    patch.setattr(lustre_site, "LustreDriver", with_fake)
    patch.setattr(lustre_site, "ServerWriter", partial(ServerWriter, **parts))
    patch.setenv("TRIMTAB_SITES", str(directory / "sites"))
    patch.setattr(
        session, "Pacing", lambda driver, policy, _: Pacing(driver, policy, where.slept.append)
    )
    where.write_site("")
    return where
