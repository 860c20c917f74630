"""The commands that act, through real processes: ssh, the collector and the writing program."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.loop.acting.lustre_site import run_command

pytestmark = pytest.mark.system

PRIO = "lod.scratch-MDT0000-mdtlov.qos_prio_free"
SITE = """\
[site]
name = "fake"
driver = "lustre"
path = "/scratch"
file_system = "scratch"

[servers]
oss = "lustre1"

[servers.ssh]
command = "{ssh}"

[policy.tunables]
settings = {{qos_prio_free = "80%"}}
"""


def test_a_setting_is_written_and_taken_back_over_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = FakeLustre.small(mount="/scratch").install(tmp_path / "lustre")
    monkeypatch.setenv("PATH", installed.path)
    site = tmp_path / "fake.toml"
    site.write_text(SITE.format(ssh=installed.ssh[0]))
    store = str(tmp_path / "t.db")

    def value() -> str:
        with installed.changing() as state:
            assert len(state.servers[0].log) % 2 == 0
            return state.lctl("lustre1", ["get_param", "-n", PRIO]).stdout.strip()

    for words, expected in ((("tune",), "80%"), (("revert", "--all"), "90%")):
        command, *more = words
        done = run_command(capsys, command, str(site), *more, "--apply", "--store", store)
        assert [action["outcome"] for action in done["actions"]] == ["done"]
        assert value() == expected
