"""What the fake Lustre can be: other versions and kernels, and whatever goes wrong."""

from __future__ import annotations

import json

import pytest
from tests.fake_lustre.commands import fstrim
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support.narrow import present

from trimtab.base.error import ToolError
from trimtab.base.snapshot import NotAvailable
from trimtab.reach.block_allocator import (
    AllocatorStatistics,
    parse_mb_alloc_stats,
    parse_mb_stats,
    parse_structs_summary,
)
from trimtab.reach.lustre.lustre_target import parse_lfs_df
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import ServerAnswer, parse_answer, program

PROGRAM = program(server_request(deadline_s=20, sudo=None))


def ask(state: FakeLustre, node: str) -> ServerAnswer:
    """Return the answer of one server."""
    return parse_answer(node, state.fan_out([node], ["python3"], timeout_s=25, stdin=PROGRAM)[node])


def test_before_2_16_there_is_no_no_create_and_brw_stats_are_obdfilters() -> None:
    state = FakeLustre.small(lustre_version="2.15.4")
    names = ["no_create", "no_precreate", "statfs_state", "brw_stats"]
    output = state.lctl(None, ["get_param", *(f"obdfilter.*.{name}" for name in names)])
    assert "obdfilter.scratch-OST0003.no_precreate=0\n" in output.stdout
    assert "obdfilter.scratch-OST0000.brw_stats=\nsnapshot_time:" in output.stdout
    assert output.exit_code == 2
    for name in ("no_create", "statfs_state"):
        assert f"'obdfilter/*/{name}': No such file or directory" in output.stderr
        assert f"{name}=" not in output.stdout.replace("no_precreate=", "")
    assert state.lctl(None, ["get_param", "osd-*.*.brw_stats"]).exit_code == 2


@pytest.mark.parametrize(
    ("version", "summary"),
    [("2.7.19", "filesystem summary:"), ("2.12.9", "filesystem_summary:")],
)
def test_older_lfs_df(version: str, summary: str) -> None:
    state = FakeLustre.small(lustre_version=version)
    state.target("OST0002").degraded = True
    state.target("OST0001").client_active = False
    text = state.lfs(["df", "-v"]).stdout
    lines = text.splitlines()
    assert lines[0].endswith("Use% Mounted on")
    assert lines[-2].startswith(summary)
    assert "OST0001             : inactive device" in lines
    (df,) = parse_lfs_df(text)
    assert (df.complete, df.file_system) == (True, "scratch")
    flags = {line.target: line.flags for line in df.lines.values()}
    assert ("D" in flags["OST0002"]) == (version != "2.7.19")


def test_zfs_has_no_ldiskfs_and_a_pool_for_a_device() -> None:
    state = FakeLustre.pair()
    for target in state.targets:
        target.osd = "zfs"
    output = state.lctl(
        "oss1", ["get_param", "osd-*.*.mntdev", "osd-*.*.fstype", "osd-*.*.kbytestotal"]
    )
    assert output.exit_code == 0
    assert "osd-zfs.scratch-OST0000.mntdev=ost0000pool/ost0000\n" in output.stdout
    assert "osd-zfs.scratch-OST0001.fstype=zfs\n" in output.stdout
    assert "osd-zfs.scratch-OST0000-osd" not in output.stdout
    assert " osd-zfs scratch-OST0000-osd " in state.lctl("oss1", ["dl"]).stdout
    files = state.files("oss1")
    assert not [path for path in files if "ldiskfs/" in path]
    assert "osd=osd-zfs" in files["/proc/mounts"]


@pytest.mark.parametrize(
    ("allocator", "family"),
    [
        ("by-name", "criteria-by-name"),
        ("loops", "loops-by-number"),
    ],
)
def test_every_family_of_allocator_counters(allocator: str, family: str) -> None:
    state = FakeLustre.pair(allocator=allocator)
    target = state.target("OST0000")
    target.criteria = [[9, 8, 7, 11], [9, 8, 7, 12], [0, 0, 0, 0], [9, 8, 7, 13], [9, 8, 7, 0]]
    files = state.files("oss1")
    place = f"/proc/fs/ldiskfs/{target.device}"
    old = allocator == "loops"
    parse = parse_mb_alloc_stats if old else parse_mb_stats
    statistics = parse(files[f"{place}/{'mb_alloc_stats' if old else 'mb_stats'}"])
    assert isinstance(statistics, AllocatorStatistics)
    assert statistics.family == family
    off = FakeLustre.pair(allocator_counts=False).files("oss1")
    assert isinstance(parse_mb_stats(off["/proc/fs/ldiskfs/md1/mb_stats"]), NotAvailable)
    useless = {one.name: one.useless_loops for one in statistics.criteria}
    assert [count for count in useless.values() if count] == [11, 12, 13]
    assert (f"/sys/fs/ldiskfs/{target.device}/mb_c1_threshold" in files) == old
    assert (f"{place}/mb_structs_summary" in files) != old
    if not old:
        summary = parse_structs_summary(files[f"{place}/mb_structs_summary"])
        assert not isinstance(summary, NotAvailable)


def test_old_imports_have_bare_addresses_and_writes_are_checked_as_lustre_checks_them() -> None:
    state = FakeLustre.pair(lustre_version="2.12.9")
    text = state.lctl(None, ["get_param", "osc.*OST0000*.import"]).stdout
    assert "failover_nids: [ 10.1.1.1@tcp, 10.1.1.2@tcp ]" in text
    assert "current_connection: 10.1.1.1@tcp" in text
    state = FakeLustre.small()
    name = "osp.scratch-OST0001-osc-MDT0000.max_create_count"
    for value in ("5", "20001"):
        refused = state.lctl(None, ["set_param", f"{name}={value}"])
        assert refused.exit_code == 34
        assert "Numerical result out of range" in refused.stderr
    assert state.lctl(None, ["get_param", "-n", name]).stdout == "20000\n"
    assert state.lctl(None, ["set_param", "obdfilter.*.degraded=2"]).exit_code == 22
    assert state.lctl(None, ["set_param", "lod.*.qos_prio_free=80"]).stdout.count("=80\n") == 2
    assert state.lctl(None, ["get_param", "-n", "lov.*.qos_prio_free"]).stdout == "80%\n80%\n"


def test_fstrim_finds_once_what_was_freed() -> None:
    state = FakeLustre.small()
    state.write("OST0000", 2**30)
    first = fstrim(state, "lustre1", ["-v", "/mnt/lustre/ost0"])
    assert first.stdout == "/mnt/lustre/ost0: 2.7 GiB (2849804288 bytes) trimmed\n"
    again = fstrim(state, "lustre1", ["-v", "/mnt/lustre/ost0"])
    assert again.stdout == "/mnt/lustre/ost0: 0 B (0 bytes) trimmed\n"
    state.delete("OST0000", 2**30)
    assert "1 GiB (1073741824 bytes)" in fstrim(state, "lustre1", ["-v", "/mnt/lustre/ost0"]).stdout
    files = state.files("lustre1")
    assert (
        files["/sys/fs/ldiskfs/vdd/lifetime_discard_kbytes"]
        == f"{state.target('OST0000').discarded_kib}\n"
    )
    assert "count: " in files["/proc/fs/ldiskfs/vdd/discard_stats"]


@pytest.mark.system
def test_a_large_file_system_answers_whole() -> None:
    state = FakeLustre.perlmutter()
    nodes = [server.name for server in state.servers]
    assert (len(nodes), len(state.osts), len(state.mdts)) == (157, 298, 16)
    # No device twice on a server, not even when each has its partner's targets too.
    for server in nodes:
        able = [one for one in state.targets if server in (one.server, one.partner)]
        assert len({one.device for one in able}) == len(able)
        assert len({drive.name for one in able for drive in one.drives}) == 12 * len(able)
    (df,) = parse_lfs_df(state.lfs(["df"]).stdout)
    assert df.complete
    answers = {node: ask(state, node) for node in nodes}
    assert {answer.problem for answer in answers.values()} == {None}
    assert {
        sum(command.key == "smart" for command in answers[node].commands) for node in nodes
    } == {24}
    imports = present(answers["mds001"].command("imports"))
    assert imports.stdout.count("state: FULL") == 2 * (298 + 15)


def test_slow_is_slow_only_and_an_exit_code_may_tell_nothing() -> None:
    state = FakeLustre.small(faults=[Fault("slow", command="lctl", seconds=5)])
    run = state.execute(["lctl", "dl"], timeout_s=20)
    assert (run.timed_out, round(run.elapsed_s)) == (False, 5)
    assert state.execute(["lctl", "dl"], timeout_s=4).timed_out
    with pytest.raises(ToolError):  # it has no such program
        state.execute(["zpool", "list"], timeout_s=1)
    state = FakeLustre.small(faults=[Fault("exit", command="lctl", code=2)])
    output = state.lctl(None, ["get_param", "version"])
    assert (output.stdout, output.exit_code) == ("version=2.17.57\n", 2)


def test_a_state_comes_back_from_json() -> None:
    state = FakeLustre.pair(faults=[Fault("hang", command="lfs", after_calls=3)])
    state.lctl("mds1", ["set_param", "osp.*OST0003*.max_create_count=0"])
    state.lfs(["setstripe", "/scratch/f"])
    again = FakeLustre.from_json(state.to_json())
    assert again == state
    assert again.to_json() == json.dumps(json.loads(state.to_json()))


def test_kept_answers_follow_every_change() -> None:
    state = FakeLustre.pair()
    before = ask(state, "oss1")
    changes = (
        lambda: state.write("OST0000", 10**9),
        lambda: setattr(state.target("OST0000"), "degraded", True),
        lambda: setattr(state.target("OST0000").drives[0], "percentage_used", 7),
        lambda: state.server("oss1").kernel_log.append("[ 9.0] LustreError: BAD WRITE CHECKSUM"),
        lambda: state.fail_over("OST0001"),
        lambda: state.pass_time(60),
    )
    for change in changes:
        change()
        kept = ask(state, "oss1")
        fresh = ask(FakeLustre.from_json(state.to_json()), "oss1")
        assert kept == fresh
        assert kept != before
        before = kept


def test_an_mds_sees_what_changes_on_the_osts() -> None:
    state = FakeLustre.pair()

    def status() -> str:
        command = present(ask(state, "mds1").command("parameters"))
        return next(
            line for line in command.stdout.splitlines() if "OST0005-osc-MDT0000.prealloc" in line
        )

    assert status().endswith("=0")
    ost = state.target("OST0005")
    ost.used_bytes = ost.capacity_bytes - ost.reserved_bytes
    assert status().endswith("=-28")
    state.kill_server(ost.server)
    assert status().endswith("=-19")
    state.lctl("mds1", ["set_param", "osp.*OST0005*.active=0"])
    assert status().endswith("=-108")


@pytest.mark.parametrize("letters", ["-lv", "-lvi", "-l"])
def test_df_with_every_server_dead_has_a_summary_of_nothing(letters: str) -> None:
    state = FakeLustre.small()
    for server in state.servers:
        state.kill_server(server.name)
    first, later = (state.lfs(["df", letters, "/scratch"]) for _ in range(2))
    assert (first.exit_code, later.exit_code) == (107, 0)
    assert first.stdout.count("Transport endpoint is not connected") == len(state.targets)
    summary = later.stdout.strip().splitlines()[-1].split()
    assert summary[0] == "filesystem_summary:"
    assert summary[1:5] == ["0", "0", "0", "0%"]
