"""The commands that act, through real processes: ssh, the collector and the writing program."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.act.lustre_site import run_command
from tests.fake_lustre.state import FakeLustre

pytestmark = pytest.mark.calibration

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


def test_a_setting_is_written_over_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = FakeLustre.small(mount="/scratch").install(tmp_path / "lustre")
    monkeypatch.setenv("PATH", installed.path)
    site = tmp_path / "fake.toml"
    site.write_text(SITE.format(ssh=installed.ssh[0]))
    store = str(tmp_path / "t.db")
    done = run_command(capsys, "tune", str(site), "--apply", "--store", store)
    assert [action["outcome"] for action in done["actions"]] == ["done"]
    with installed.changing() as state:
        (server,) = state.servers
        assert state.lctl(server.name, ["get_param", "-n", PRIO]).stdout == "80%\n"
        steps = [line.split(": ")[1].split()[0] for line in server.log]
        assert steps == ["begun", "done", "confirmed"]
        assert list(server.kept) == [f"{state.file_system}.token"]
