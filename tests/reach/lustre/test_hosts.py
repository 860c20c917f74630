"""Settings of machines: mitigations of their processors, and how a client is set."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.fake_lustre.state import FakeLustre

from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable, Setting
from trimtab.reach.host import Host
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.lustre_telemetry import _partly, of_kernel
from trimtab.reach.lustre.lustre_view import ServerView
from trimtab.reach.lustre.server_answer import ServerAnswer

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_each_vulnerability_is_a_setting(tmp_path: Path) -> None:
    place = tmp_path / "sys/devices/system/cpu/vulnerabilities"
    place.mkdir(parents=True)
    (place / "meltdown").write_text("Mitigation: PTI\n")
    (place / "mds").write_text("Vulnerable\n")
    settings = of_kernel(Host(str(tmp_path)))
    assert {name: one.value for name, one in settings.items() if isinstance(one, Setting)} == {
        "cpu_vulnerability/meltdown": "Mitigation: PTI",
        "cpu_vulnerability/mds": "Vulnerable",
    }


def test_a_kernel_that_does_not_say_is_not_unchanged(tmp_path: Path) -> None:
    settings = of_kernel(Host(str(tmp_path)))
    assert list(settings) == ["kernel_release", "hostname", "cpu_vulnerability"]
    assert all(isinstance(missing, NotAvailable) for missing in settings.values())


@pytest.mark.system
def test_a_snapshot_has_the_settings_of_the_client_and_errors_of_the_network() -> None:
    fake = FakeLustre.pair()
    names = tuple(server.name for server in fake.servers)
    driver = LustreDriver(
        "/scratch",
        fake.file_system,
        Servers(oss=names, sudo=True),
        execute=fake.execute,
        fan_out=fake.fan_out,
    )
    snapshot = driver.snapshot(AT)
    (client,) = [host for host in snapshot.hosts if host.role == "client"]
    for name in ("rpcs_in_flight", "dirty_mb", "read_ahead_mb", "checksums"):
        setting = client.settings[name]
        assert isinstance(setting, Setting), (name, setting)
        assert setting.source.startswith("lctl get_param ")
    for host in snapshot.hosts:
        if host.role == "server":
            errors = [one for one in host.readings if one.name == "network_errors_total"]
            assert [one.value for one in errors] != []


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("sudo -n nvme smart-log -o json /dev/nvme0n1", True),
        ("sudo -n nvme ocp smart-add-log -o json /dev/nvme0n1", True),
        ("sudo -n dmesg", False),
        ("sudo -n lctl get_param osp.*.import version", False),
    ],
)
def test_a_missing_right_to_read_drives_logs_leaves_the_targets_known(
    words: str, known: bool
) -> None:
    """Whatever a host's problem is holds every change of its targets."""
    reason = f"{words} ...: sudo: a password is required; run without it"
    answer = ServerAnswer("oss1", skipped={words: reason})
    server = cast("ServerView", SimpleNamespace(answer=answer, lacks=lambda _: None))
    assert (_partly(server) is None) is known
