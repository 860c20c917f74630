"""States that only come together seldom: who is lost to whom, what half an answer proves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.support.narrow import present

from trimtab.base.site import Servers, SiteLimits
from trimtab.base.snapshot import NotAvailable, Reading, Snapshot, TargetSnapshot
from trimtab.explain.trouble import is_loss_confirmed, target_troubles
from trimtab.reach.lustre.lfs_df import parse_lfs_df
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.lustre_telemetry import other_client, target_snapshot
from trimtab.reach.lustre.lustre_view import ServerView, View
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import CommandAnswer, ServerAnswer
from trimtab.reach.lustre.target_state import lost

RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0/lfs-df-lost-ost.out"
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
Change = Callable[[CommandAnswer], CommandAnswer | None]


def _view(fake: FakeLustre, names: Sequence[str] | None = None) -> View:
    servers = tuple(one.name for one in fake.servers) if names is None else tuple(names)
    driver = LustreDriver(
        "/scratch",
        fake.file_system,
        Servers(oss=servers),
        execute=fake.execute,
        fan_out=fake.fan_out,
    )
    driver.snapshot(AT)
    view = present(driver._view)
    return view


def _seen(view: View, target: str) -> TargetSnapshot:
    return target_snapshot(view, target, {})


def _reading(view: View, target: str, name: str) -> Reading:
    found = present(_seen(view, target).reading(name))
    return found


def _troubles(view: View, target: str) -> dict[str, str]:
    return {one.id: one.text for one in target_troubles(_seen(view, target), SiteLimits())}


def _changed(server: ServerView, key: str, change: Change, **skipped: str) -> ServerView:
    """Return a server one of whose commands answered in another way, or not at all."""
    commands = []
    for one in server.answer.commands:
        changed = change(one) if one.key == key else one
        if changed is not None:
            commands.append(changed)
    answer: ServerAnswer = replace(server.answer, commands=tuple(commands), skipped=skipped)
    return ServerView(server.name, server.file_system, answer, server.request)


def _with(view: View, server: ServerView) -> View:
    return View(view.file_system, view.client, {**view.servers, server.name: server}, view.home)


# Lost, and to whom


def test_a_target_that_only_this_client_has_lost_is_not_lost() -> None:
    fake = FakeLustre.pair()
    fake.target("OST0001").client_active = False
    mds = [one.name for one in fake.servers if one.name.startswith("mds")]
    # Its server is not among those that are asked: nobody says that he serves it.
    troubles = _troubles(_view(fake, mds), "OST0001")
    assert "lost" not in troubles
    assert "client (INACTIVE)" in troubles["disconnected"]
    assert "MDT" not in troubles["disconnected"]


def test_a_target_that_is_switched_off_here_is_not_called_lost_by_a_client_alone() -> None:
    fake = FakeLustre.pair()
    fake.target("OST0001").client_active = False
    view = _view(fake, [])
    assert lost(view, "OST0001") is None
    assert set(_troubles(view, "OST0001")) == {"disconnected"}


def test_of_a_target_that_is_lost_here_and_switched_off_the_loss_is_told() -> None:
    fake = FakeLustre.pair()
    fake.target("OST0001").client_active = False
    fake.target("OST0001").up = False
    view = _view(fake)
    assert _reading(view, "OST0001", "import_state").value == "DISCONN"
    assert "lost" in _troubles(view, "OST0001")


def _imports_as_they_were(view: View, target: str, state: str, *, asked: bool) -> View:
    """Return the view of a client whose import was in a state; or lfs df was asked as well."""
    links = tuple(
        replace(link, state=state) if link.target == target else link for link in view.client.links
    )
    space = dict(view.client.space)
    if asked:
        (told,) = parse_lfs_df(RECORDED.read_text().partition("rc=")[0])
        (line,) = (line for line in told.lines.values() if line.problem is not None)
        space[target] = replace(line, target=target)
    client = replace(view.client, links=links, space=space)
    return View(view.file_system, client, view.servers, view.home)


@pytest.mark.parametrize("state", ["FULL", "IDLE"])
def test_an_import_that_was_whole_before_lfs_df_asked_hides_no_loss(state: str) -> None:
    fake = FakeLustre.pair()
    fake.target("OST0001").up = False
    view = _imports_as_they_were(_view(fake), "OST0001", state, asked=True)
    assert lost(view, "OST0001") is not None
    seen = _seen(view, "OST0001")
    assert {one.value for one in seen.readings if one.label == "client"} == {"DISCONN"}
    assert "lost" in _troubles(view, "OST0001")


def test_a_client_that_is_idle_and_was_not_asked_hides_no_loss() -> None:
    fake = FakeLustre.pair()
    fake.target("OST0001").up = False
    view = _imports_as_they_were(_view(fake), "OST0001", "IDLE", asked=False)
    assert lost(view, "OST0001") is not None
    seen = _seen(view, "OST0001")
    assert "lost" in _troubles(view, "OST0001")
    # It is no second source either: only the MDTs miss the target here.
    assert not is_loss_confirmed(seen, Snapshot(AT, "lustre", False, (seen,)))


def test_a_target_that_two_servers_claim_is_not_lost_while_it_is_not_connected() -> None:
    fake = FakeLustre.pair()
    view = _view(fake)
    other = view.servers["oss2"]
    devices = view.servers["oss1"].answer.command("devices")
    assert devices is not None
    twice = _changed(other, "devices", lambda one: replace(one, stdout=devices.stdout))
    view = _with(view, twice)
    assert len(view.serving("OST0001")) == 2
    assert "two-servers" in _troubles(view, "OST0001")


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
    view = _view(FakeLustre.pair())
    server = view.servers["oss1"]
    parameter = "osd-ldiskfs.scratch-OST0001.mntdev="
    device = next(
        line.removeprefix(parameter)
        for line in server.parameters.text.splitlines()
        if line.startswith(parameter)
    )
    # The device is one of which nothing was collected.
    answer = replace(
        server.answer,
        files={
            path: text.replace(device, "/dev/nowhere") for path, text in server.answer.files.items()
        },
        commands=tuple(
            replace(one, stdout=one.stdout.replace(f"{parameter}{device}", f"{parameter}/dev/no"))
            for one in server.answer.commands
        ),
    )
    view = _with(view, ServerView("oss1", "scratch", answer, server.request))
    reading = _reading(view, "OST0001", "read_only")
    assert server.parameters.number("obdfilter.scratch-OST0001.readonly") == 0
    assert reading.value is None
    assert "errors_count" in (reading.reason or "")


def test_what_lies_behind_the_end_of_an_output_is_not_called_unknown_to_the_kernel() -> None:
    view = _view(FakeLustre.pair())
    cut = _changed(
        view.servers["oss1"],
        "parameters",
        lambda one: replace(
            one,
            stdout=one.stdout[: len(one.stdout) // 3],
            exit_code=None,
            signal=15,
            truncated=True,
        ),
    )
    assert cut.why_no("parameters", "stats") == "lctl get_param on oss1: its output was cut"


def test_a_client_whose_mount_table_did_not_come_is_not_said_to_have_nothing_mounted() -> None:
    request = server_request(deadline_s=20.0, sudo=None)
    path = "/proc/self/mountinfo"
    answer = ServerAnswer(
        node="login1", skipped={path: f"{path} did not answer in 3 s"}, whole=True
    )
    seen = other_client(ServerView("login1", "scratch", answer, request))
    assert seen.settings["atime_recorded"] == NotAvailable(f"{path} did not answer in 3 s")


def test_half_a_kernel_log_proves_nothing() -> None:
    view = _view(FakeLustre.pair())
    server = view.servers["oss1"]
    assert not isinstance(server.kernel_log, NotAvailable)
    cut = _changed(server, "kernel-log", lambda one: replace(one, truncated=True))
    assert cut.kernel_log == NotAvailable("dmesg on oss1: its output was cut")


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


def test_a_rename_is_one_operation_and_data_on_an_mdt_is_none() -> None:
    view = _view(FakeLustre.pair())
    name = "mdt.scratch-MDT0000.md_stats"
    mds = next(iter(view.serving("MDT0000")))
    text = "\n".join(
        [
            "snapshot_time             1795190778.035640949 secs.nsecs",
            "open                      7 samples [usecs] 1 2 9 81",
            "statfs                    100 samples [usecs] 1 2 9 81",
            "rename                    5 samples [usecs] 1 2 9 81",
            "samedir_rename            3 samples [usecs] 1 2 9 81",
            "crossdir_rename           2 samples [usecs] 1 2 9 81",
            "parallel_rename_file      4 samples [usecs] 1 2 9 81",
            "read_bytes                6 samples [bytes] 1 2 9 81",
            "read                      6 samples [usecs] 1 2 9 81",
            "punch                     1 samples [usecs] 1 2 9 81",
        ]
    )
    changed = _changed(
        mds, "parameters", lambda one: replace(one, stdout=f"{name}=\n{text}\n{one.stdout}")
    )
    reading = _reading(_with(view, changed), "MDT0000", "metadata_operations_total")
    assert reading.value == 12


def test_an_mdt_that_two_servers_claim_is_believed_of_neither() -> None:
    fake = FakeLustre.pair()
    view = _view(fake)
    claimed = view.servers["mds1"].answer
    assert isinstance(view.servers, dict)
    view.servers["mds2"] = ServerView(
        "mds2", "scratch", replace(claimed, node="mds2"), view.servers["mds2"].request
    )
    again = View("scratch", view.client, view.servers)
    mdt = target_snapshot(again, "MDT0000", {})
    assert [one.id for one in target_troubles(mdt, SiteLimits())][:1] == ["two-servers"]
    names = [one.value for one in mdt.readings if one.name == "server" and one.label]
    assert names == ["mds1", "mds2"]
    # Whether an OST is open to it is then not known either.
    ost = target_snapshot(again, "OST0000", {})
    of_mdt = present(ost.reading("create_enabled", "MDT0000"))
    assert of_mdt.value is None
    assert "all claim" in (of_mdt.reason or "")


@pytest.mark.parametrize("listed", [True, False])
def test_bytes_of_data_on_an_mdt_are_told_where_they_are_counted(listed: bool) -> None:
    fake = FakeLustre.pair()
    view = _view(fake)
    server = view.servers["mds1"]
    line = "write_bytes 3 samples [bytes] 4096 65536 135168 1\n" if listed else ""

    def with_data(command: CommandAnswer) -> CommandAnswer:
        head = "mdt.scratch-MDT0000.md_stats=\n"
        text = f"{head}snapshot_time 1.5 secs.nsecs\n{line}open 7 samples [usecs] 1 2 9 30\n"
        return replace(command, stdout=text + command.stdout)

    commands = tuple(
        with_data(one) if one.key == "parameters" else one for one in server.answer.commands
    )
    answer = replace(server.answer, commands=commands)
    assert isinstance(view.servers, dict)
    view.servers["mds1"] = ServerView("mds1", "scratch", answer, server.request)
    mdt = target_snapshot(View("scratch", view.client, view.servers), "MDT0000", {})
    assert mdt.number("client_bytes_written_total") == (135168 if listed else None)
    assert mdt.number("metadata_operations_total") == 7
