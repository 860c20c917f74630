"""What lctl printed loses its end, exit code 0: never a whole snapshot, never another value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support.counts import repetitions, seeded

from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable, Reading, Snapshot
from trimtab.reach.lustre import read_table
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.lustre_view import parse_asked

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
SAMPLES = repetitions(gate=20, soak=10**9)
BLAMED = "not available on this"
SERVER_COMMANDS = (read_table.SERVER_PARAMETERS, read_table.SERVER_IMPORTS)
CLIENT_COMMANDS = (read_table.CLIENT_PARAMETERS, read_table.CLIENT_IMPORTS)


def _snapshot(fake: FakeLustre, *, clients: Sequence[str] = ()) -> Snapshot:
    names = tuple(one.name for one in fake.servers)
    driver = LustreDriver(
        "/scratch",
        fake.file_system,
        Servers(oss=names, clients=tuple(clients)),
        execute=fake.execute,
        fan_out=fake.fan_out,
    )
    return driver.snapshot(AT)


def _cut(
    host: str, *, lines: int | None = None, size: int | None = None, fake: FakeLustre | None = None
) -> Snapshot:
    found = fake or FakeLustre.pair()
    found.faults = [Fault("half", command="lctl", host=host, lines=lines, bytes=size)]
    return _snapshot(found)


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
    found = _snapshot(FakeLustre.pair())
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
