"""What the driver makes of the recordings of a real site: healthy, and in every failure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.reach.hosts import recorded
from tests.support.narrow import instance, present

from trimtab.base.site import SiteLimits
from trimtab.base.snapshot import NotAvailable, Setting, TargetSnapshot
from trimtab.explain.trouble import host_troubles, target_troubles
from trimtab.reach.lustre.lustre_telemetry import other_client, target_snapshot
from trimtab.reach.lustre.lustre_view import ServerView, View
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import CommandAnswer, ServerAnswer
from trimtab.reach.lustre.server_query import ask_client
from trimtab.reach.process import ProcessResult

KIB = 1024
AT = datetime(2026, 11, 20, tzinfo=UTC)
HEALTHY = (
    *("stats_after_io/obdfilter_stats", "stats_after_io/mdt_stats"),
    *(f"params/get_{tree}" for tree in ("osp", "obdfilter", "osd-ldiskfs", "mdt", "lod", "top")),
    "stats_after_io/recovery",
)
LAST_LINE = "version=2.17.57\n"
"""What was asked last, without which an answer counts as cut; each recording is of one tree."""


def _dumped(name: str) -> dict[str, str]:
    """Return the files of a recorded directory: ``==> PATH mode=...`` and its lines."""
    parts = re.split(r"^==> (\S+)(?: mode=\S+)?\n", recorded(f"ldiskfs/dump_{name}"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _command(key: str, stdout: str) -> CommandAnswer:
    ended: dict[str, Any] = {"stderr": "", "exit_code": 0, "signal": None, "timed_out": False}
    ended |= {"truncated": False, "elapsed_s": 0.1, "first_line": None, "error": None}
    return CommandAnswer(key, ("lctl", "get_param"), stdout, **ended)


def _files() -> tuple[dict[str, str], dict[str, str | None]]:
    files = _dumped("proc_vdd") | _dumped("sys_vdd") | _dumped("proc_vdb") | _dumped("sys_vdb")
    # Of the other devices only these two were recorded, and they were alike.
    for device in ("vdc", "vde", "vdf", "vdg"):
        for path in [path for path in files if "/vdd/" in path]:
            files[path.replace("/vdd/", f"/{device}/")] = files[path]
    links: dict[str, str | None] = {}
    statistics = {line.split()[2]: line for line in recorded("block/diskstats").splitlines()}
    for device in ("vdb", "vdc", "vdd", "vde", "vdf", "vdg"):
        directory = f"/sys/devices/virtio/block/{device}"
        links[f"/sys/class/block/{device}"] = directory
        links[f"{directory}/device"] = "/sys/devices/virtio"
        files[f"{directory}/stat"] = " ".join(statistics[device].split()[3:])
        for line in recorded("block/queue_vdd").splitlines():
            knob, _, value = line.partition(" = ")
            files[f"{directory}/queue/{knob.split()[0]}"] = value + "\n"
    mounts = [line.split() for line in recorded("versions/proc_mounts").splitlines()]
    files["/proc/self/mountinfo"] = "".join(
        f"{number} 1 0:{number} / {where} rw - {kind} {source} {options}\n"
        for number, (source, where, kind, options, *_) in enumerate(mounts, start=30)
    )
    return files, links


def _view(
    *failure: str,
    lfs_df: str = "versions/lfs_df_v",
    imports: str = "stats_after_io/import",
    devices: str = "versions/lctl_dl",
    files: Mapping[str, str] = {},
    kernel_log: str | None = "",
) -> View:
    """Return the recorded site, with the recordings of a failure in front."""
    healthy, links = _files()
    log = [] if kernel_log is None else [_command("kernel-log", kernel_log)]
    answer = ServerAnswer(
        node="lustre1",
        host="lustre1",
        files={**healthy, **files},
        links=links,
        commands=(
            _command("parameters", "".join(map(recorded, (*failure, *HEALTHY))) + LAST_LINE),
            _command("imports", recorded(imports) + LAST_LINE),
            _command("devices", recorded(devices)),
            *log,
        ),
        whole=True,
        euid=0,
    )
    spaces = {"-lv": lfs_df, "-lvi": "versions/lfs_df_i"}

    def run(argv: Sequence[str], **_how: Any) -> ProcessResult:
        if argv[0] == "lfs":
            stdout = recorded(spaces[argv[2]]).partition("\nrc=")[0]
        else:
            stdout = recorded(imports if "osc.*.import" in argv else "params/get_llite")
            stdout += LAST_LINE
        return ProcessResult(tuple(argv), stdout.encode(), b"", 0, None, AT, 0.1, 20.0)

    request = server_request(deadline_s=20, sudo=None)
    server = ServerView("lustre1", "scratch", answer, request)
    return View("scratch", ask_client("scratch", "/scratch", run), {"lustre1": server})


def _seen(view: View, target: str) -> TargetSnapshot:
    return target_snapshot(view, target, {})


def _ids(view: View) -> dict[str, list[str]]:
    """Return the troubles of each target but the one that all of them had from the start."""
    found = {
        target: [
            one.id
            for one in target_troubles(_seen(view, target), SiteLimits())
            if one.id != "throttled"
        ]
        for target in view.targets
    }
    return {target: ids for target, ids in found.items() if ids}


def test_a_healthy_site_has_its_recorded_values_and_no_trouble() -> None:
    view = _view()
    assert view.targets == ("MDT0000", "MDT0001", "OST0000", "OST0001", "OST0002", "OST0003")
    assert _ids(view) == {}
    ost, mdt = _seen(view, "OST0000"), _seen(view, "MDT0000")
    assert ost.target.server == "lustre1"
    expected: dict[str, object] = {
        "capacity_bytes": 3833116 * KIB,
        "used_bytes": 1528 * KIB,
        "available_bytes": 3605492 * KIB,
        **{"inodes_total": 262144, "inodes_free": 261775},
        **{"create_enabled": True, "degraded": False, "read_only": False},
        **{"import_state": "FULL", "errors_total": 0},
        "client_bytes_read_total": 20918272,
        "client_bytes_written_total": 32260096,
        "bytes_written_total": 278240 * 512,
        "session_bytes_written_total": 3596 * KIB,
        "bytes_discarded_total": 8388616 * 512,
        "discard_granularity_bytes": 512,
        "network_bytes_total": 2 * 1318472,
        "metadata_operations_total": None,
    }
    assert {name: ost.value(name) for name in expected} == expected
    assert mdt.number("inodes_free") == 1677445
    # Every operation of the recording but statfs.
    assert mdt.number("metadata_operations_total") == sum((337, 337, 321, 320, 5, 5, 693, 325, 6))
    # The allocator's counters were off, and nothing that is missing on a kernel is a zero.
    reading = present(ost.reading("allocator_requests_total"))
    assert (reading.value, "off" in (reading.reason or "")) == (None, True)
    for reading in (*ost.readings, *mdt.readings):
        assert reading.value is not None or reading.reason
    # Its drives called themselves rotating when they were attached: 75 ms stayed.
    found = target_troubles(ost, SiteLimits())
    assert [(one.id, "75.0 ms" in one.text) for one in found] == [("throttled", True)]


def test_settings_are_those_of_the_recording() -> None:
    view = _view()
    settings = _seen(view, "OST0000").settings
    told = {name: one.value for name, one in settings.items() if isinstance(one, Setting)}
    expected = {
        "osp/max_create_count": "20000",
        "osp/reserved_mb_low": "3",
        "obdfilter/degraded": "0",
        "block/vdd/queue/rotational": "0",
        "ldiskfs/vdd/mb_max_to_scan": "200",
    }
    assert {name: told[name] for name in expected} == expected
    assert "ldiskfs/vdd/mb_last_group" in told
    qos = instance(Setting, _seen(view, "MDT0000").settings["lod/qos_threshold_rr"])
    assert qos.value == "17%"
    # This kernel has no thresholds: they are not among the settings, and nothing says 0.
    assert not any("mb_c1_threshold" in name for name in settings)
    missing = [one for one in settings.values() if isinstance(one, NotAvailable)]
    assert missing
    assert all(one.reason for one in missing)


@pytest.mark.parametrize(
    ("failure", "how", "expected"),
    [
        ("create_gating/03_state", {}, {"OST0001": ["closed"]}),
        ("create_gating/08_state", {}, {"OST0001": ["closed"]}),
        ("create_gating/11_state", {}, {}),
        (
            "create_gating/22_count_again",
            {"lfs_df": "create_gating/23_state"},
            {"OST0002": ["closed"]},
        ),
        ("create_gating/30_osp_active_0", {}, {"OST0003": ["closed"]}),
        ("create_gating/32_osp_active_1", {}, {}),
        ("create_gating/34_degraded", {}, {"OST0001": ["degraded"]}),
        ("create_gating/36_degraded_off", {}, {}),
        (
            "enospc2/04_after_15s",
            {"lfs_df": "enospc2/04_after_15s"},
            {"OST0003": ["closed", "over-limit"]},
        ),
        (
            "ost_down/06_import",
            {
                "lfs_df": "ost_down/03_lfs_df_lazy",
                "imports": "ost_down/06_import",
                "devices": "ost_down/04_lctl_dl",
            },
            {"OST0001": ["lost", "closed"]},
        ),
    ],
)
def test_each_recorded_failure_is_told_for_what_it_is(
    failure: str, how: dict[str, str], expected: dict[str, list[str]]
) -> None:
    view = _view(failure, **how)  # type: ignore[arg-type]
    if "devices" in how:
        _unmount(view, "OST0001")
    assert _ids(view) == expected


def _unmount(view: View, target: str) -> None:
    """Take the healthy recording's mount and parameters of a target away: it was unmounted."""
    server = view.servers["lustre1"]
    table = "/proc/self/mountinfo"

    def without(pattern: str, text: str) -> str:
        return "".join(
            line for line in text.splitlines(keepends=True) if not re.search(pattern, line)
        )

    files = {**server.answer.files}
    files[table] = without(f"scratch-{target}", files[table])
    own = rf"^(obdfilter|osd-ldiskfs)\.scratch-{target}\."
    commands = tuple(
        replace(one, stdout=without(own, one.stdout)) if one.key == "parameters" else one
        for one in server.answer.commands
    )
    answer = replace(server.answer, files=files, commands=commands)
    assert isinstance(view.servers, dict)
    view.servers["lustre1"] = ServerView("lustre1", "scratch", answer, server.request)


@pytest.mark.parametrize(("option", "recorded"), [("rw", "true"), ("rw,noatime", "false")])
def test_a_client_says_whether_reads_through_it_arerecorded(option: str, recorded: str) -> None:
    # Seen on the running 2.17: a read through a client with noatime moved nothing.
    node = _view().servers["lustre1"]
    table = "/proc/self/mountinfo"
    mounts = re.sub(
        r" / /scratch rw - lustre (\S+) rw,",
        rf" / /scratch rw - lustre \1 {option},",
        node.answer.files[table],
    )
    files = {**node.answer.files, table: mounts}
    answer = ServerAnswer(node="login1", files=files, links={}, whole=True)
    host = other_client(ServerView("login1", "scratch", answer, node.request))
    assert instance(Setting, host.settings["atime_recorded"]).value == recorded
    assert [one.id for one in host_troubles(host)] == ([] if recorded == "true" else ["no-atime"])
    elsewhere = other_client(ServerView("login1", "other", answer, node.request))
    assert isinstance(elsewhere.settings["atime_recorded"], NotAvailable)


@pytest.mark.parametrize("log", [True, False])
def test_a_target_that_aborted_is_read_only_though_every_flag_denies_it(log: bool) -> None:
    errors = {
        path: count + "\n"
        for path, _, count in (
            line.partition(":") for line in recorded("readonly_target/errors_count").splitlines()
        )
    }
    told = recorded("readonly_target/dmesg_full") if log else None
    view = _view("readonly_target/prealloc_status", files=errors, kernel_log=told)
    found = _ids(view)
    expected = "read-only" if log else "may-be-read-only"
    assert set(found) == {"MDT0000", "OST0000"}
    assert found["OST0000"] == [expected, "file-system-errors"]
    ost = _seen(view, "OST0000")
    assert ost.number("errors_total") == 1
    assert ost.value("read_only") is (True if log else None)
    # What Lustre itself says of it, which is why nothing rests on it.
    server = view.servers["lustre1"]
    assert server.parameters.get("health_check") == "healthy"
    assert server.parameters.number("obdfilter.scratch-OST0000.readonly") == 0


def test_histograms_of_the_disk_io_are_kept_as_they_were_counted() -> None:
    settings = _seen(_view("mballoc/31_brw"), "OST0002").settings
    time = instance(Setting, settings["brw_stats/io_time"])
    assert time.value == "write 1:3440 2:364 4:227 8:256 16:496 32:26 64:18 ms"
    kept = [(name, one) for name, one in settings.items() if name.startswith("brw_stats/")]
    units = {name: instance(Setting, one).value.split()[-1] for name, one in kept}
    assert units == {
        "brw_stats/disk_io_size": "B",
        "brw_stats/disk_fragmented_ios": "I/Os",
        "brw_stats/io_time": "ms",
        "brw_stats/block_maps": "ms",
    }
    discarded = instance(Setting, settings["ldiskfs/vdf/lifetime_discard_kbytes"])
    assert discarded.value == "0"
