"""Acting for real: file systems on loop devices, and the commands as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import loopback
from tests.support.command import TRIMTAB, Ended, trimtab
from tests.support.polling import eventually

from trimtab.store.store import Store

pytestmark = [pytest.mark.system, loopback.needs_loop_devices("xfs")]


@dataclass
class Looped:
    """A site on a loop device."""

    scratch: loopback.Mounted
    directory: Path
    policy: str = ""

    def write_site(self, policy: str) -> None:
        (self.directory / "sites").mkdir(exist_ok=True)
        (self.directory / "sites" / "looped.toml").write_text(
            f'[site]\nname = "looped"\ndriver = "local"\npath = "{self.scratch.mount_point}"\n'
            + policy
        )

    def run(self, *arguments: str) -> Ended:
        sites = str(self.directory / "sites")
        return trimtab(*arguments, store=self.directory / "t.db", TRIMTAB_SITES=sites)

    def document(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        ended = self.run(*arguments, "--json")
        assert ended.code == code, ended.stdout + ended.stderr
        return ended.document

    def queue(self, name: str) -> str:
        return self.scratch.device.read_queue(name)

    def lines(self) -> list[dict[str, Any]]:
        path = self.directory / "actions" / "looped.journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def allocated_bytes(self) -> int:
        return self.scratch.device.backing_file.stat().st_blocks * 512

    def delete_much(self, size_bytes: int) -> None:
        file = self.scratch.mount_point / "much"
        with file.open("wb") as stream:
            for _ in range(size_bytes // loopback.MIB):
                stream.write(os.urandom(loopback.MIB))
            os.fsync(stream.fileno())
        file.unlink()
        subprocess.run(["sync", "-f", str(self.scratch.mount_point)], check=True)


@pytest.fixture(params=["ext4", "xfs"])
def looped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Looped]:
    with loopback.mounted(tmp_path, fs=request.param) as scratch:
        yield Looped(scratch, tmp_path)


def test_settings_are_shown_set_and_taken_back(looped: Looped) -> None:
    before = {name: looped.queue(name) for name in ("read_ahead_kb", "wbt_lat_usec")}
    looped.write_site("[policy.tunables]\nsettings = {read_ahead_kb = 64, wbt_lat_usec = 0}\n")
    planned = looped.document("tune", "looped")
    settings = [each["setting"].rpartition("/")[2] for each in planned["plan"]["instructions"]]
    assert sorted(settings) == ["read_ahead_kb", "wbt_lat_usec"]
    assert {name: looped.queue(name) for name in before} == before

    other = looped.document("tune", "looped", "--apply", "--plan", "0" * 16, code=4)
    assert other["error"]["code"] == "plan-changed"
    assert {name: looped.queue(name) for name in before} == before
    applied = looped.document("tune", "looped", "--apply", "--plan", planned["plan"]["id"])
    assert [each["outcome"] for each in applied["actions"]] == ["done", "done"]
    assert (looped.queue("read_ahead_kb"), looped.queue("wbt_lat_usec")) == ("64", "0")
    assert looped.document("tune", "looped", "--apply")["actions"] == []
    assert [line["do"] for line in looped.lines()].count("begin") == 2

    # Somebody else changes one: theirs stays, the other gets its value of before.
    looped.scratch.device.set_queue("read_ahead_kb", 32)
    reverted = looped.document("revert", "looped", "--all", "--apply")
    assert [each["reason_code"] for each in reverted["plan"]["untouched"]] == ["changed-by-others"]
    assert looped.queue("wbt_lat_usec") == before["wbt_lat_usec"]
    assert looped.queue("read_ahead_kb") == "32"

    ledger = looped.document("actions", "looped")
    assert [each["outcome"] for each in ledger["actions"]] == ["done"] * 3
    assert all(effect["reason"] for effect in ledger["effects"])  # no probe has run
    with Store.open(looped.directory / "t.db") as store:
        assert {event.kind.value for event in store.events(site="looped")} == {"config-change"}


def test_a_trim_frees_the_blocks_beneath(looped: Looped) -> None:
    looped.write_site('[policy.trim]\nrange = "100MiB"\n')
    looped.delete_much(150 * loopback.MIB)
    before = looped.allocated_bytes()
    assert looped.document("trim", "looped")["plan"]["instructions"]
    assert looped.allocated_bytes() == before

    (action,) = looped.document("trim", "looped", "--apply")["actions"]
    assert (action["outcome"], action["facts"]["effect"]) == ("done", "seen")
    assert int(action["found"]) >= 150 * loopback.MIB
    eventually(lambda: before - looped.allocated_bytes() >= 140 * loopback.MIB)
    ranges = [line for line in looped.lines() if line["do"] == "range"]
    assert len(ranges) > 3
    assert sum(line["trimmed_bytes"] for line in ranges) == int(action["found"])
    assert looped.document("trim", "looped")["plan"]["instructions"] == []


def test_a_trim_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with loopback.mounted(tmp_path, size_bytes=4 * loopback.GIB) as scratch:
        looped = Looped(scratch, tmp_path)
        looped.write_site('[policy.trim]\nrange = "32MiB"\n')
        looped.delete_much(64 * loopback.MIB)
        variables = {
            **os.environ,
            "TRIMTAB_SITES": str(tmp_path / "sites"),
            "TRIMTAB_STORE": str(tmp_path / "t.db"),
        }
        process = subprocess.Popen([str(TRIMTAB), "trim", "looped", "--apply"], env=variables)
        journal = tmp_path / "actions" / "looped.journal.jsonl"
        while process.poll() is None:
            if journal.exists() and journal.read_text().count('"range"') >= 5:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        assert process.wait() == -signal.SIGKILL
        ranges = [line for line in looped.lines() if line["do"] == "range"]
        last = ranges[-1]["start_bytes"] + ranges[-1]["length_bytes"]
        assert last < 4 * loopback.GIB

        applied = looped.document("trim", "looped", "--apply")
        assert [each["outcome"] for each in applied["settled"]] == ["failed"]
        assert [each["outcome"] for each in applied["actions"]] == ["done"]
        went_on = [line for line in looped.lines() if line["do"] == "range"][len(ranges) :]
        assert went_on[0]["start_bytes"] == last
        assert went_on[-1]["length_bytes"] is None


def test_two_at_once_are_refused_and_a_path_has_no_policy(looped: Looped) -> None:
    looped.write_site("")
    assert looped.run("tune", str(looped.scratch.mount_point)).code == 2
    assert looped.run("revert", "looped").code == 2
    assert looped.run("trim", "looped", "--targets", "OST0007").code == 2
    from trimtab.act.action_journal import opened

    looped.document("tune", "looped")
    with opened(looped.directory / "actions", "looped"):
        refused = looped.run("trim", "looped", "--apply", "--json")
    assert refused.code == 4
    assert refused.document["error"]["code"] == "run-running"
