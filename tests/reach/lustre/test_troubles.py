"""Every state that a target of Lustre can be in is told for what it is; on the fake Lustre."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.fake_lustre.driver import driver_of, servers_of
from tests.fake_lustre.state import FakeLustre, Fault, FaultKind
from tests.support.each import for_each
from tests.support.narrow import instance, present

from trimtab.base.site import Servers, SiteLimits
from trimtab.base.snapshot import NotAvailable, Reading, Setting, Snapshot, TargetSnapshot
from trimtab.explain.status import SiteState
from trimtab.explain.trouble import is_loss_confirmed, site_state, state_findings, target_troubles
from trimtab.reach.lustre.lustre_target import parse_lfs_df
from trimtab.reach.lustre.lustre_telemetry import other_client, target_snapshot
from trimtab.reach.lustre.lustre_view import ServerView, View
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import ServerAnswer
from trimtab.reach.lustre.target_state import lost

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
Change = Callable[[FakeLustre], object]


def _state(*changes: Change, servers: bool = True) -> SiteState:
    fake = FakeLustre.pair()
    for target in fake.targets:
        target.wbt_us = 0
    home = {target.name: target.home for target in fake.targets}
    for change in changes:
        change(fake)
    driver = driver_of(fake, servers_of(fake, home=home, sudo=True) if servers else Servers())
    driver.snapshot(AT)  # the first lfs df after a loss still complains, later ones are silent
    return site_state("scratch", driver.snapshot(AT), SiteLimits())


def test_who_serves_a_target_is_told_and_whether_it_should_where_its_home_is_known() -> None:
    fake = FakeLustre.pair()
    home = {one.name: one.home for one in fake.targets}
    driver, homeless = driver_of(fake, servers_of(fake, home=home)), driver_of(fake)
    for server, failed_over in (("oss1", False), ("oss2", True)):
        seen = present(driver.snapshot(AT).of("OST0001"))
        assert (seen.target.server, seen.value("failover_active")) == (server, failed_over)
        seen = present(homeless.snapshot(AT).of("OST0001"))
        reading = present(seen.reading("failover_active"))
        assert reading.value is None
        assert "servers.home" in (reading.reason or "")
        fake.fail_over("OST0001")
    partners = instance(Setting, seen.settings["failover/servers"])
    assert sorted(partners.value.split()) == ["oss1", "oss2"]


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


def _fault(kind: FaultKind, command: str, host: str | None = None) -> Change:
    return lambda fake: fake.faults.append(Fault(kind, host=host, command=command))


KINDS: tuple[FaultKind, ...] = ("hang", "half", "garbage", "empty")
CLIENT = "client"
LOST = ["lost"]
CLOSED = {"MDT0000": 0, "MDT0001": 0}
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
        _set("OST0001", max_create_count=CLOSED),
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
    "lfs hangs": (_fault("hang", "lfs"), {CLIENT: ["partial-answer"]}, False),
    "lfs is cut": (_fault("half", "lfs"), {CLIENT: ["partial-answer"]}, False),
    "lfs prints rubbish": (_fault("garbage", "lfs"), {CLIENT: ["partial-answer"]}, False),
    **{
        f"a server's answer: {kind}": (_fault(kind, "ssh", "oss1"), {"oss1": ["no-answer"]}, False)
        for kind in KINDS
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
    # Of two degraded ones that which takes new files comes before one that was closed.
    state = _state(
        _set("OST0001", degraded=True, max_create_count=CLOSED), _set("OST0003", degraded=True)
    )
    assert [target.name for target in state.targets[:2]] == ["OST0003", "OST0001"]
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


def test_a_lost_target_that_was_closed_says_both_and_has_no_space_of_before() -> None:
    state = _state(_set("OST0001", up=False, max_create_count=CLOSED))
    assert _found(state)["OST0001"] == ["lost", "closed"]
    reading = present(present(state.snapshot.of("OST0001")).reading("used_bytes"))
    assert reading.value is None
    assert "DISCONN" in present(reading.reason)


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


def test_without_servers_the_clients_view_is_all_and_says_so() -> None:
    state = _state(_set("OST0001", max_create_count=CLOSED), servers=False)
    seen = present(state.snapshot.of("OST0001"))
    assert seen.number("used_bytes") is not None
    # A gated OST has no flag in lfs df: that nothing shows there is not that it is open.
    assert seen.value("create_enabled") is None
    assert seen.value("read_only") is None
    assert not state.snapshot.complete


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


RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0/lfs-df-lost-ost.out"


def _view(
    fake: FakeLustre | None = None, names: Sequence[str] | None = None, **ost: object
) -> View:
    """Return what was seen of a pair, of whose OST0001 something is changed."""
    fake = fake or FakeLustre.pair()
    for name, value in ost.items():
        setattr(fake.target("OST0001"), name, value)
    driver = driver_of(fake, None if names is None else Servers(oss=tuple(names)))
    driver.snapshot(AT)
    return present(driver._view)


def _seen(view: View, target: str) -> TargetSnapshot:
    return target_snapshot(view, target, {})


def _troubles(view: View, target: str) -> dict[str, str]:
    return {one.id: one.text for one in target_troubles(_seen(view, target), SiteLimits())}


def _reading(view: View, target: str, name: str, label: str | None = None) -> Reading:
    return present(_seen(view, target).reading(name, label))


def _with(view: View, server: str, key: str, **changes: Any) -> View:
    """Return the view with one command of a server answered in another way."""
    seen = view.servers[server]
    commands = tuple(
        replace(one, **changes) if one.key == key else one for one in seen.answer.commands
    )
    changed = replace(seen.answer, commands=commands)
    return _claiming(view, server, changed)


def _claiming(view: View, server: str, answer: ServerAnswer) -> View:
    """Return the view with the whole answer of a server replaced."""
    seen = ServerView(server, "scratch", answer, view.servers[server].request)
    return View(view.file_system, view.client, {**view.servers, server: seen}, view.home)


def _printed(view: View, server: str, key: str) -> str:
    return present(view.servers[server].answer.command(key)).stdout


# Lost, and to whom


def test_a_target_that_only_this_client_has_lost_is_not_lost() -> None:
    # Its server is not among those that are asked: nobody says that he serves it.
    troubles = _troubles(_view(names=["mds1", "mds2"], client_active=False), "OST0001")
    assert "lost" not in troubles
    assert "client (INACTIVE)" in troubles["disconnected"]
    assert "MDT" not in troubles["disconnected"]
    # A client alone does not call lost what is switched off here.
    view = _view(names=[], client_active=False)
    assert lost(view, "OST0001") is None
    assert set(_troubles(view, "OST0001")) == {"disconnected"}
    # Of a target that is lost here and switched off the loss is told.
    view = _view(client_active=False, up=False)
    assert _reading(view, "OST0001", "import_state").value == "DISCONN"
    assert "lost" in _troubles(view, "OST0001")


@pytest.mark.parametrize(("state", "asked"), [("FULL", True), ("IDLE", True), ("IDLE", False)])
def test_an_import_that_was_whole_before_lfs_df_asked_hides_no_loss(
    state: str, asked: bool
) -> None:
    view = _view(up=False)
    links = tuple(
        replace(link, state=state) if link.target == "OST0001" else link
        for link in view.client.links
    )
    space = dict(view.client.space)
    if asked:
        (told,) = parse_lfs_df(RECORDED.read_text().partition("rc=")[0])
        (line,) = (line for line in told.lines.values() if line.problem is not None)
        space["OST0001"] = replace(line, target="OST0001")
    client = replace(view.client, links=links, space=space)
    view = View(view.file_system, client, view.servers, view.home)
    assert lost(view, "OST0001") is not None
    assert "lost" in _troubles(view, "OST0001")
    seen = _seen(view, "OST0001")
    if asked:
        assert {one.value for one in seen.readings if one.label == "client"} == {"DISCONN"}
    else:  # It is no second source: only the MDTs miss the target here.
        assert not is_loss_confirmed(seen, Snapshot(AT, "lustre", False, (seen,)))


def test_a_target_that_two_servers_claim_is_not_lost_while_it_is_not_connected() -> None:
    view = _view()
    view = _with(view, "oss2", "devices", stdout=_printed(view, "oss1", "devices"))
    assert len(view.serving("OST0001")) == 2
    assert "two-servers" in _troubles(view, "OST0001")


def test_an_mdt_that_two_servers_claim_is_believed_of_neither() -> None:
    view = _view()
    again = _claiming(view, "mds2", replace(view.servers["mds1"].answer, node="mds2"))
    mdt = _seen(again, "MDT0000")
    assert [one.id for one in target_troubles(mdt, SiteLimits())][:1] == ["two-servers"]
    names = [one.value for one in mdt.readings if one.name == "server" and one.label]
    assert names == ["mds1", "mds2"]
    # Whether an OST is open to it is then not known either.
    of_mdt = _reading(again, "OST0000", "create_enabled", "MDT0000")
    assert of_mdt.value is None
    assert "all claim" in (of_mdt.reason or "")


# Open for creation


def test_what_one_mdt_has_closed_is_not_closed_as_a_whole_while_the_other_does_not_answer() -> None:
    fake = FakeLustre.pair()
    fake.target("OST0001").max_create_count = {"MDT0001": 0}
    fake.kill_server("mds1")
    view = _view(fake)
    reading = _reading(view, "OST0001", "create_enabled")
    assert reading.value is None
    assert "max_create_count=0" in (reading.reason or "")
    assert "mds1" in (reading.reason or "")
    troubles = _troubles(view, "OST0001")
    assert "closed" not in troubles
    assert troubles["partly-closed"].startswith("closed to new objects of MDT0001: ")


# Half an answer


def test_a_target_of_ldiskfs_without_its_error_count_is_not_said_to_take_writes() -> None:
    view = _view()
    server, parameter = view.servers["oss1"], "osd-ldiskfs.scratch-OST0001.mntdev="
    printed = server.parameters.text
    device = printed.partition(parameter)[2].partition("\n")[0]
    # The device is one of which nothing was collected.
    view = _with(
        view,
        "oss1",
        "parameters",
        stdout=printed.replace(f"{parameter}{device}", f"{parameter}/dev/no"),
    )
    files = {path: text.replace(device, "/dev/no") for path, text in server.answer.files.items()}
    view = _claiming(view, "oss1", replace(view.servers["oss1"].answer, files=files))
    reading = _reading(view, "OST0001", "read_only")
    assert server.parameters.number("obdfilter.scratch-OST0001.readonly") == 0
    assert reading.value is None
    assert "errors_count" in (reading.reason or "")


def test_what_lies_behind_the_end_of_an_output_is_not_called_unknown_to_the_kernel() -> None:
    view = _view()
    part = _printed(view, "oss1", "parameters")
    ended = {"exit_code": None, "signal": 15, "truncated": True}
    cut = _with(view, "oss1", "parameters", stdout=part[: len(part) // 3], **ended).servers["oss1"]
    assert cut.why_no("parameters", "stats") == "lctl get_param on oss1: its output was cut"
    # Half a kernel log proves nothing.
    assert not isinstance(view.servers["oss1"].kernel_log, NotAvailable)
    cut = _with(view, "oss1", "kernel-log", truncated=True).servers["oss1"]
    assert cut.kernel_log == NotAvailable("dmesg on oss1: its output was cut")


def test_a_client_whose_mount_table_did_not_come_is_not_said_to_have_nothing_mounted() -> None:
    request = server_request(deadline_s=20.0, sudo=None)
    path = "/proc/self/mountinfo"
    answer = ServerAnswer(
        node="login1", skipped={path: f"{path} did not answer in 3 s"}, whole=True
    )
    seen = other_client(ServerView("login1", "scratch", answer, request))
    assert seen.settings["atime_recorded"] == NotAvailable(f"{path} did not answer in 3 s")


@pytest.mark.parametrize(
    ("key", "skipped", "expected"),
    [
        ("smart", {}, "oss1 has no device to query"),
        # A file that may not be read is no matter of time.
        (
            "smart",
            {"/etc/crontab": "/etc/crontab: Permission denied"},
            "oss1 has no device to query",
        ),
        (
            "kernel-log",
            {"sudo -n dmesg": "8 dmesg already hang there: no more are started"},
            "oss1: 8 dmesg already hang there: no more are started",
        ),
        ("kernel-log", {}, "oss1 had no time left for it"),
    ],
)
def test_why_a_command_was_not_run(key: str, skipped: dict[str, str], expected: str) -> None:
    request = server_request(deadline_s=20.0, sudo=("sudo", "-n"))
    answer = ServerAnswer(node="oss1", skipped=skipped, whole=True)
    assert ServerView("oss1", "scratch", answer, request).why_no(key) == expected


# Counters


MOVED = "snapshot_time 1.5 secs.nsecs\nopen 7 samples [usecs] 1 2 9 81\n"


@pytest.mark.parametrize(
    ("more", "operations", "written"),
    [
        ("", 7, None),
        ("write_bytes 3 samples [bytes] 4096 65536 135168 1\n", 7, 135168),
        # A rename is one operation, and data on an MDT is none.
        (
            "statfs 100 samples [usecs] 1 2 9 81\nrename 5 samples [usecs] 1 2 9 81\n"
            "samedir_rename 3 samples [usecs] 1 2 9 81\n"
            "crossdir_rename 2 samples [usecs] 1 2 9 81\n"
            "parallel_rename_file 4 samples [usecs] 1 2 9 81\n"
            "read_bytes 6 samples [bytes] 1 2 9 81\nread 6 samples [usecs] 1 2 9 81\n"
            "punch 1 samples [usecs] 1 2 9 81\n",
            *(12, None),
        ),
    ],
    ids=["operations", "data", "renames"],
)
def test_operations_and_data_of_an_mdt_are_counted(
    more: str, operations: int, written: int | None
) -> None:
    view = _view()
    head = "mdt.scratch-MDT0000.md_stats=\n"
    text = f"{head}{MOVED}{more}{_printed(view, 'mds1', 'parameters')}"
    mdt = _seen(_with(view, "mds1", "parameters", stdout=text), "MDT0000")
    assert mdt.number("metadata_operations_total") == operations
    assert mdt.number("client_bytes_written_total") == written
