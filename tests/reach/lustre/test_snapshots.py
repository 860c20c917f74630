"""Snapshots of whole sites: answers that were cut, settings of machines, and one round trip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.fake_lustre.driver import driver_of, servers_of
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support.counts import repetitions, seeded
from tests.support.narrow import instance

from trimtab.base.snapshot import NotAvailable, Reading, Setting, Snapshot
from trimtab.reach.host import Host
from trimtab.reach.lustre import read_table
from trimtab.reach.lustre.lustre_telemetry import _partly, of_kernel
from trimtab.reach.lustre.lustre_view import ServerView, parse_asked
from trimtab.reach.lustre.server_answer import ServerAnswer
from trimtab.reach.process import ProcessResult
from trimtab.store.snapshot_batch import Base, Values, decode, frame_of

SAMPLES = repetitions(gate=20, soak=10**9)
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
BLAMED = "not available on this"
SERVER_COMMANDS = (read_table.SERVER_PARAMETERS, read_table.SERVER_IMPORTS)
CLIENT_COMMANDS = (read_table.CLIENT_PARAMETERS, read_table.CLIENT_IMPORTS)


def _cut(
    host: str, *, lines: int | None = None, size: int | None = None, fake: FakeLustre | None = None
) -> Snapshot:
    found = fake or FakeLustre.pair()
    found.faults = [Fault("half", command="lctl", host=host, lines=lines, bytes=size)]
    return driver_of(found).snapshot(AT)


def _readings(snapshot: Snapshot) -> dict[tuple[str, str, str | None], Reading]:
    told = [(one.target.name, one.readings) for one in snapshot.targets]
    told += [(one.name, one.readings) for one in snapshot.hosts]
    return {(where, one.name, one.label): one for where, of in told for one in of}


def _reasons(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for (where, name, label), one in _readings(snapshot).items():
        if one.value is None:
            yield f"{where} {name} {label}", one.reason or ""
    for where, settings in [
        *((one.target.name, one.settings) for one in snapshot.targets),
        *((one.name, one.settings) for one in snapshot.hosts),
    ]:
        for name, setting in settings.items():
            if isinstance(setting, NotAvailable):
                yield f"{where} {name}", setting.reason


def _lines(host: str | None, commands: Sequence[Sequence[str]]) -> int:
    fake = FakeLustre.pair()
    printed = [fake.lctl(host, ["get_param", *asked]).stdout for asked in commands]
    return max(text.count("\n") for text in printed)


def _some_of(lines: range, sample: int) -> list[int]:
    """Return the first and last five lines and others at random; other ones with every commit."""
    between = lines[5:-5]
    drawn = seeded("cut answers").sample(between, min(len(between), sample))
    return [*lines[:5], *sorted(drawn), *lines[-5:]]


@pytest.fixture(scope="module")
def whole() -> Snapshot:
    """Return the snapshot that nothing was cut of."""
    found = driver_of(FakeLustre.pair()).snapshot(AT)
    assert found.complete
    return found


def _holds(cut: Snapshot, whole: Snapshot) -> None:
    """Check that a cut snapshot says so, and says nothing else than the whole one."""
    assert not cut.complete
    before = _readings(whole)
    for key, one in _readings(cut).items():
        if one.value is not None and key in before:
            assert one.value == before[key].value, key
        assert one.value is not None or one.reason, key
    blamed = {where for where, reason in _reasons(whole) if BLAMED in reason}
    wrong = {where for where, reason in _reasons(cut) if BLAMED in reason}
    assert wrong <= blamed


def test_every_answer_ends_with_what_everybody_has() -> None:
    for asked in (*SERVER_COMMANDS, *CLIENT_COMMANDS):
        assert asked[-1] == read_table.LAST
        assert read_table.LAST not in asked[:-1]


@pytest.mark.parametrize("text", ["version=2.17.57\n", "version=\nlustre: 2.7\nkernel: 3\n"])
def test_an_answer_with_its_end_is_whole(text: str) -> None:
    assert parse_asked(f"osc.a.active=1\n{text}", complete=True).complete
    assert not parse_asked(f"osc.a.active=1\n{text}", complete=False).complete
    assert parse_asked("", complete=True).complete


def test_of_an_answer_without_its_end_the_last_parameter_counts_for_nothing() -> None:
    found = parse_asked("osc.a.active=1\nosc.a.import=\nimport:\n    state: FULL\n", complete=True)
    assert not found.complete
    assert found.names == ("osc.a.active",)


@pytest.mark.system
@pytest.mark.parametrize("sample", SAMPLES)
def test_the_clients_answers_cut_at_any_line(whole: Snapshot, sample: int) -> None:
    fake, last = FakeLustre.pair(), _lines(None, CLIENT_COMMANDS)
    for lines in _some_of(range(last), sample):
        cut = _cut("client", lines=lines, fake=fake)
        _holds(cut, whole)
        client = next(one for one in cut.hosts if one.role == "client")
        assert "lctl get_param: " in (client.problem or ""), lines
    assert _cut("client", lines=last).complete


@pytest.mark.system
@pytest.mark.parametrize("host", ["mds1", "oss1"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_servers_answers_cut_at_any_line(host: str, whole: Snapshot, sample: int) -> None:
    fake, last = FakeLustre.pair(), _lines(host, SERVER_COMMANDS)
    for lines in _some_of(range(last), sample):
        cut = _cut(host, lines=lines, fake=fake)
        _holds(cut, whole)
        server = next(one for one in cut.hosts if one.name == host)
        assert f"on {host}" in (server.problem or ""), lines
    assert _cut(host, lines=last).complete


@pytest.mark.parametrize("host", ["client", "mds1", "oss1"])
def test_half_of_it_is_called_cut(host: str, whole: Snapshot) -> None:
    cut = _cut(host)
    _holds(cut, whole)
    problem = next(one.problem for one in cut.hosts if host in (one.role, one.name))
    at_client = host == "client"
    said = (
        "lctl get_param: the answer was cut" if at_client else f"lctl get_param on {host} was cut"
    )
    assert problem == said
    assert any(said in reason for _, reason in _reasons(cut))


def test_one_byte_less_is_not_whole(whole: Snapshot) -> None:
    fake = FakeLustre.pair()
    for host, name, commands in (
        (None, "client", CLIENT_COMMANDS),
        ("oss1", "oss1", SERVER_COMMANDS),
    ):
        size = max(len(fake.lctl(host, ["get_param", *asked]).stdout) for asked in commands)
        _holds(_cut(name, size=size - 1), whole)


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


@pytest.mark.system
def test_a_snapshot_of_a_large_site_is_one_round_trip() -> None:
    """Each of 157 servers is asked once; what it costs is measured by ``make bench-snapshot``."""
    fake = FakeLustre.perlmutter()
    asked: list[tuple[str, ...]] = []

    def fan_out(
        nodes: Sequence[str], argv: Sequence[str], **how: Any
    ) -> Mapping[str, ProcessResult]:
        asked.append(tuple(nodes))
        return fake.fan_out(nodes, argv, **how)

    snapshot = driver_of(fake, servers_of(fake, sudo=True), fan_out=fan_out).snapshot(AT)
    (names,) = asked
    assert sorted(names) == sorted(server.name for server in fake.servers)
    assert len(names) == 157
    kinds = [one.target.kind for one in snapshot.targets]
    assert (kinds.count("ost"), kinds.count("mdt")) == (298, 16)
    assert snapshot.complete
    assert all(one.target.server and one.number("used_bytes") for one in snapshot.targets)
    # OST indices are hexadecimal in names and decimal in lfs df.
    assert snapshot.targets[-1].target.name == "OST0129"
    base = Base.of(frame_of(snapshot))
    assert len(base.batch) < 512 * 1024
    changes = base.changes(Values.of(base.frame))
    assert decode(changes, base, at=AT, driver="lustre", complete=True) == snapshot


@pytest.mark.system
def test_a_snapshot_has_the_settings_of_the_client_and_errors_of_the_network() -> None:
    fake = FakeLustre.pair()
    snapshot = driver_of(fake, servers_of(fake, sudo=True)).snapshot(AT)
    (client,) = [host for host in snapshot.hosts if host.role == "client"]
    for name in ("rpcs_in_flight", "dirty_mb", "read_ahead_mb", "checksums"):
        setting = instance(Setting, client.settings[name])
        assert setting.source.startswith("lctl get_param ")
    for host in snapshot.hosts:
        if host.role == "server":
            assert any(one.name == "network_errors_total" for one in host.readings)


def test_each_vulnerability_is_a_setting_and_silence_is_not_safety(tmp_path: Path) -> None:
    settings = of_kernel(Host(str(tmp_path)))
    assert list(settings) == ["kernel_release", "hostname", "cpu_vulnerability"]
    assert all(isinstance(missing, NotAvailable) for missing in settings.values())
    place = tmp_path / "sys/devices/system/cpu/vulnerabilities"
    place.mkdir(parents=True)
    told = {"meltdown": "Mitigation: PTI", "mds": "Vulnerable"}
    for name, text in told.items():
        (place / name).write_text(f"{text}\n")
    settings = of_kernel(Host(str(tmp_path)))
    assert {name: one.value for name, one in settings.items() if isinstance(one, Setting)} == {
        f"cpu_vulnerability/{name}": text for name, text in told.items()
    }
