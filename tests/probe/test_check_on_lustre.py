"""`check PATH` on a client of Lustre without a site file: what `lfs df` shows of every target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fake_lustre.install import Installed, install
from tests.fake_lustre.state import FakeLustre

from trimtab.base.filesystem import find_mount, parse_mountinfo
from trimtab.base.snapshot import NotAvailable
from trimtab.probe.check.check import check
from trimtab.probe.check.check_plan import CheckOptions
from trimtab.probe.documents_probe import CheckResult
from trimtab.reach.host import Host
from trimtab.reach.local.path_description import MOUNT_TABLE

pytestmark = pytest.mark.system


@dataclass
class Client:
    """A host on which the fake is mounted, as its mount table says."""

    mount: Path
    fake: Installed
    store: Path

    def check(self) -> CheckResult:
        wanted = CheckOptions(path=str(self.mount), store_url=str(self.store), no_probe=True)
        result, error = check(wanted, page=lambda result: result.site)
        assert error is None
        return result


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    mount = tmp_path / "scratch"
    mount.mkdir()
    state = FakeLustre.small(mount=str(mount))
    fake = install(state, tmp_path / "fake")
    monkeypatch.setenv("PATH", fake.path)
    monkeypatch.setenv("TRIMTAB_SITES", str(tmp_path / "sites"))
    read = Host.read_text

    def read_text(self: Host, path: str, **limits: int) -> str | NotAvailable:
        text = read(self, path, **limits)
        if path != MOUNT_TABLE or isinstance(text, NotAvailable):
            return text
        above = find_mount(parse_mountinfo(text), str(mount))
        assert above is not None
        source = f"10.0.2.15@tcp:/{state.file_system}"
        return (
            f"{text}\n9000 {above.mount_id} {above.device_number} / {mount} rw,relatime - "
            f"lustre {source} rw,flock\n"
        )

    monkeypatch.setattr(Host, "read_text", read_text)
    return Client(mount, fake, tmp_path / "t.db")


def test_a_client_without_a_site_file_names_what_it_can_see(client: Client) -> None:
    with client.fake.changing() as lustre:
        lustre.target("OST0001").up = False
        lustre.target("OST0000").degraded = True
    result = client.check()
    found = {finding.id: finding for finding in result.findings}
    assert {"lost", "degraded"} <= set(found), found
    assert "OST0001" in found["lost"].title
    assert "OST0000" in found["degraded"].title
    missing = {entry.what: entry.reason for entry in result.not_available}
    assert "trimtab init" in missing["servers"], missing
    assert "client's view" in missing["servers"]


def test_of_whole_targets_nothing_is_found_and_the_servers_are_missing(client: Client) -> None:
    result = client.check()
    assert not [finding for finding in result.findings if "OST" in finding.title]
    assert "trimtab init" in {entry.what: entry.reason for entry in result.not_available}["servers"]
