"""Every state that a target of Lustre can be in is told for what it is; on the fake Lustre."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.fake_lustre.state import FakeLustre, Fault, FaultKind
from tests.support.each import for_each
from tests.support.narrow import instance, present

from trimtab.base.site import Servers, SiteLimits
from trimtab.base.snapshot import Setting
from trimtab.explain.status import SiteState
from trimtab.explain.trouble import is_loss_confirmed, site_state, state_findings
from trimtab.reach.lustre.lustre_driver import LustreDriver

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
Change = Callable[[FakeLustre], object]


def _state(*changes: Change, servers: bool = True) -> SiteState:
    fake = FakeLustre.pair()
    for target in fake.targets:
        target.wbt_us = 0
    home = {target.name: target.home for target in fake.targets}
    for change in changes:
        change(fake)
    driver = LustreDriver(
        "/scratch",
        fake.file_system,
        Servers(oss=tuple(one.name for one in fake.servers), home=home, sudo=True)
        if servers
        else Servers(),
        execute=fake.execute,
        fan_out=fake.fan_out,
    )
    driver.snapshot(AT)  # the first lfs df after a loss still complains, later ones are silent
    return site_state("scratch", driver.snapshot(AT), SiteLimits())


def _found(state: SiteState) -> dict[str, list[str]]:
    of_targets = {one.name: [each.id for each in one.troubles] for one in state.targets}
    of_hosts = {one.name: [each.id for each in one.troubles] for one in state.hosts}
    return {name: ids for name, ids in {**of_targets, **of_hosts}.items() if ids}


def _set(target: str, **values: object) -> Change:
    def change(fake: FakeLustre) -> None:
        for name, value in values.items():
            setattr(fake.target(target), name, value)

    return change


def _fill(target: str, share: float) -> Change:
    def change(fake: FakeLustre) -> None:
        one = fake.target(target)
        one.used_bytes = int(one.capacity_bytes * share)

    return change


def _break_ssh(kind: FaultKind) -> Change:
    return lambda fake: fake.faults.append(Fault(kind, host="oss1", command="ssh"))


CLIENT = "client"
LOST = ["lost"]
CASES: dict[str, tuple[Change, dict[str, list[str]], bool]] = {
    "healthy": (lambda fake: None, {}, True),
    "unmounted": (_set("OST0001", up=False), {"OST0001": LOST}, False),
    "journal aborted": (
        _set("OST0001", aborted=True, errors_count=1),
        {"OST0001": ["read-only", "file-system-errors"]},
        True,
    ),
    "errors of long ago": (
        _set("OST0001", errors_count=3),
        {"OST0001": ["file-system-errors"]},
        True,
    ),
    "no_create": (_set("OST0001", no_create=True), {"OST0001": ["closed"]}, True),
    "degraded": (_set("OST0001", degraded=True), {"OST0001": ["degraded"]}, True),
    "read-only": (_set("OST0001", readonly=True), {"OST0001": ["read-only", "closed"]}, True),
    "gated at one MDT": (
        _set("OST0001", max_create_count={"MDT0000": 0}),
        {"OST0001": ["partly-closed"]},
        True,
    ),
    "gated at every MDT": (
        _set("OST0001", max_create_count={"MDT0000": 0, "MDT0001": 0}),
        {"OST0001": ["closed"]},
        True,
    ),
    "inactive at every MDT": (
        _set("OST0001", osp_active={"MDT0000": False, "MDT0001": False}),
        {"OST0001": ["closed"]},
        True,
    ),
    "inactive on this client": (
        _set("OST0001", client_active=False),
        {"OST0001": ["disconnected"], CLIENT: ["partial-answer"]},
        False,
    ),
    "full": (_fill("OST0001", 1.0), {"OST0001": ["closed", "over-limit"]}, True),
    "over the limit": (_fill("OST0001", 0.8), {"OST0001": ["over-limit"]}, True),
    "failed over": (
        lambda fake: fake.fail_over("OST0001"),
        {"OST0001": ["failed-over"]},
        True,
    ),
    "OSS dead": (
        lambda fake: fake.kill_server("oss1"),
        {"OST0000": LOST, "OST0001": LOST, "oss1": ["no-answer"]},
        False,
    ),
    "MDS dead": (
        lambda fake: fake.kill_server("mds1"),
        {"MDT0000": ["lost"], "mds1": ["no-answer"]},
        False,
    ),
    "OSS dead, targets at its partner": (
        lambda fake: (
            fake.fail_over("OST0000"),
            fake.fail_over("OST0001"),
            fake.kill_server("oss1"),
        ),
        {"OST0000": ["failed-over"], "OST0001": ["failed-over"], "oss1": ["no-answer"]},
        False,
    ),
    "lfs hangs": (
        lambda fake: fake.faults.append(Fault("hang", command="lfs")),
        {CLIENT: ["partial-answer"]},
        False,
    ),
    "lfs is cut": (
        lambda fake: fake.faults.append(Fault("half", command="lfs")),
        {CLIENT: ["partial-answer"]},
        False,
    ),
    "lfs prints rubbish": (
        lambda fake: fake.faults.append(Fault("garbage", command="lfs")),
        {CLIENT: ["partial-answer"]},
        False,
    ),
    **{
        f"a server's answer: {kind}": (
            _break_ssh(kind),
            {"oss1": ["no-answer"]},
            False,
        )
        for kind in ("hang", "half", "garbage", "empty")
    },
}


@pytest.mark.system
@for_each("case", CASES)
def test_each_state_is_told_for_what_it_is(case: str) -> None:
    change, expected, complete = CASES[case]
    state = _state(change)
    found = _found(state)
    client = next(host.name for host in state.snapshot.hosts if host.role == "client")
    assert {CLIENT if name == client else name: ids for name, ids in found.items()} == expected
    assert state.snapshot.complete is complete


def test_the_most_troubled_come_first() -> None:
    state = _state(
        _set("OST0003", degraded=True),
        _set("OST0006", up=False),
        _fill("OST0002", 0.8),
        _fill("OST0005", 0.9),
    )
    names = [one.name for one in state.targets]
    # Lost first, then degraded and open; of two that are full the fuller; of equals by name.
    assert names[:4] == ["OST0006", "OST0003", "OST0005", "OST0002"]
    assert names[4:6] == ["MDT0000", "MDT0001"] or not state.targets[4].troubles


def test_a_degraded_target_that_takes_new_files_comes_before_one_that_was_closed() -> None:
    closed = {"MDT0000": 0, "MDT0001": 0}
    state = _state(
        _set("OST0001", degraded=True, max_create_count=closed), _set("OST0003", degraded=True)
    )
    assert [target.name for target in state.targets[:2]] == ["OST0003", "OST0001"]


def test_a_lost_target_that_was_closed_on_purpose_says_both() -> None:
    state = _state(_set("OST0001", up=False, max_create_count={"MDT0000": 0, "MDT0001": 0}))
    assert _found(state)["OST0001"] == ["lost", "closed"]


CLIENT_SEES: dict[str, tuple[Change, dict[str, list[str]]]] = {
    "healthy": (lambda fake: None, {}),
    "lost": (_set("OST0001", up=False), {"OST0001": ["lost"]}),
    "inactive": (_set("OST0001", client_active=False), {"OST0001": ["disconnected"]}),
    "degraded": (_set("OST0001", degraded=True), {"OST0001": ["degraded"]}),
    "full": (_fill("OST0001", 1.0), {"OST0001": ["over-limit"]}),
    "read-only": (_set("OST0001", readonly=True), {"OST0001": ["read-only", "closed"]}),
}


@for_each("case", CLIENT_SEES)
@for_each("has_lctl", (True, False))
def test_a_client_without_servers_names_what_lfs_shows(case: str, has_lctl: bool) -> None:
    change, expected = CLIENT_SEES[case]

    def no_imports(fake: FakeLustre) -> None:
        if not has_lctl:
            fake.faults.append(Fault("empty", command="lctl"))

    state = _state(change, no_imports, servers=False)
    assert {
        target.name: [trouble.id for trouble in target.troubles]
        for target in state.targets
        if target.troubles
    } == expected


@for_each("case", [case for case in CASES if case.islower()])
def test_a_check_names_every_trouble_of_every_target(case: str) -> None:
    state = _state(CASES[case][0])
    findings = state_findings(state)
    for name, ids in _found(state).items():
        for id_ in ids:
            (finding,) = [finding for finding in findings if finding.id == id_]
            assert name in finding.title or name in [seen.what for seen in finding.evidence]
            assert finding.why
            assert finding.fix.prose


def test_a_lost_target_has_no_space_rather_than_old_numbers() -> None:
    state = _state(_set("OST0001", up=False))
    seen = present(state.snapshot.of("OST0001"))
    reading = present(seen.reading("used_bytes"))
    assert reading.value is None
    assert "DISCONN" in present(reading.reason)


def test_without_servers_the_clients_view_is_all_and_says_so() -> None:
    state = _state(_set("OST0001", max_create_count={"MDT0000": 0, "MDT0001": 0}), servers=False)
    seen = present(state.snapshot.of("OST0001"))
    assert seen.number("used_bytes") is not None
    # A gated OST has no flag in lfs df: that nothing shows there is not that it is open.
    assert seen.value("create_enabled") is None
    assert seen.value("read_only") is None
    assert not state.snapshot.complete


def test_a_target_that_moves_between_two_snapshots_is_seen_at_its_partner() -> None:
    fake = FakeLustre.pair()
    names = tuple(one.name for one in fake.servers)
    driver = LustreDriver(
        "/scratch",
        "scratch",
        Servers(oss=names, home={one.name: one.home for one in fake.targets}),
        execute=fake.execute,
        fan_out=fake.fan_out,
    )
    first = driver.snapshot(AT).of("OST0001")
    fake.fail_over("OST0001")
    second = driver.snapshot(AT).of("OST0001")
    assert first is not None
    assert second is not None
    assert (first.target.server, first.value("failover_active")) == ("oss1", False)
    assert (second.target.server, second.value("failover_active")) == ("oss2", True)


def test_without_a_home_nothing_is_said_of_failover_but_who_may_serve() -> None:
    fake = FakeLustre.pair()
    fake.fail_over("OST0001")
    driver = LustreDriver(
        "/scratch",
        "scratch",
        Servers(oss=tuple(one.name for one in fake.servers)),
        execute=fake.execute,
        fan_out=fake.fan_out,
    )
    seen = present(driver.snapshot(AT).of("OST0001"))
    reading = present(seen.reading("failover_active"))
    assert reading.value is None
    assert "servers.home" in (reading.reason or "")
    partners = instance(Setting, seen.settings["failover/servers"])
    assert sorted(partners.value.split()) == ["oss1", "oss2"]


@pytest.mark.parametrize(
    ("change", "does", "never"),
    [
        (_fill("OST0001", 1.0), "Purge or move files", "set the named parameter back"),
        (_set("OST0001", readonly=True), "Make it writable again", "set the named parameter back"),
        (_set("OST0001", no_create=True), "set the named parameter back", "Purge"),
    ],
    ids=["full", "read-only", "no_create"],
)
def test_what_to_do_about_a_closed_target_depends_on_what_closes_it(
    change: Change, does: str, never: str
) -> None:
    (closed,) = (each for each in state_findings(_state(change)) if each.id == "closed")
    assert does in closed.fix.prose
    assert never not in closed.fix.prose


@pytest.mark.parametrize(
    ("changes", "servers", "confirmed"),
    [
        ([_set("OST0001", up=False)], True, True),
        ([lambda fake: fake.kill_server("oss1")], True, True),
        # Only this client says so, and nobody else can be asked.
        ([_set("OST0001", up=False)], False, False),
        ([], True, False),
    ],
    ids=["unmounted", "OSS dead", "only the client", "healthy"],
)
def test_a_loss_is_confirmed_by_the_first_snapshot_in_which_two_sources_show_it(
    changes: list[Change], servers: bool, confirmed: bool
) -> None:
    snapshot = _state(*changes, servers=servers).snapshot
    seen = present(snapshot.of("OST0001"))
    assert is_loss_confirmed(seen, snapshot) is confirmed
