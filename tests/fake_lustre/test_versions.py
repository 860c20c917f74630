"""Other versions and kernels: what they have and lack, read by the parsers that sites will use."""

from __future__ import annotations

import pytest
from tests.fake_lustre.state import FakeLustre
from tests.support.narrow import present

from trimtab.base.snapshot import NotAvailable
from trimtab.reach.local.block_allocator import (
    AllocatorStatistics,
    parse_mb_alloc_stats,
    parse_mb_stats,
    parse_structs_summary,
)
from trimtab.reach.lustre.lfs_df import parse_lfs_df
from trimtab.reach.lustre.read_table import server_request
from trimtab.reach.lustre.server_answer import parse_answer, program


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
        ("by-number", "criteria-by-number"),
        ("loops", "loops-by-number"),
        ("loops-shifted", "loops-by-number-shifted"),
    ],
)
def test_every_family_of_allocator_counters(allocator: str, family: str) -> None:
    state = FakeLustre.pair(allocator=allocator)
    target = state.target("OST0000")
    target.criteria = [[9, 8, 7, 11], [9, 8, 7, 12], [0, 0, 0, 0], [9, 8, 7, 13], [9, 8, 7, 0]]
    files = state.files("oss1")
    place = f"/proc/fs/ldiskfs/{target.device}"
    old = allocator.startswith("loops")
    parse = parse_mb_alloc_stats if old else parse_mb_stats
    statistics = parse(files[f"{place}/{'mb_alloc_stats' if old else 'mb_stats'}"])
    assert isinstance(statistics, AllocatorStatistics)
    assert statistics.family == family
    useless = {one.name: one.useless_loops for one in statistics.criteria}
    assert [count for count in useless.values() if count] == [11, 12, 13]
    assert (f"/sys/fs/ldiskfs/{target.device}/mb_c1_threshold" in files) == old
    assert (f"{place}/mb_structs_summary" in files) != old
    if not old:
        summary = parse_structs_summary(files[f"{place}/mb_structs_summary"])
        assert not isinstance(summary, NotAvailable)


def test_counters_that_are_off_say_so() -> None:
    files = FakeLustre.pair(allocator_counts=False).files("oss1")
    assert isinstance(parse_mb_stats(files["/proc/fs/ldiskfs/md1/mb_stats"]), NotAvailable)


def test_old_imports_have_bare_addresses() -> None:
    state = FakeLustre.pair(lustre_version="2.12.9")
    text = state.lctl(None, ["get_param", "osc.*OST0000*.import"]).stdout
    assert "failover_nids: [ 10.1.1.1@tcp, 10.1.1.2@tcp ]" in text
    assert "current_connection: 10.1.1.1@tcp" in text


def test_writes_are_checked_as_lustre_checks_them() -> None:
    state = FakeLustre.small()
    name = "osp.scratch-OST0001-osc-MDT0000.max_create_count"
    assert state.lctl(None, ["set_param", f"{name}=5"]).exit_code == 34
    assert state.lctl(None, ["set_param", f"{name}=20001"]).exit_code == 34
    assert "Numerical result out of range" in state.lctl(None, ["set_param", f"{name}=5"]).stderr
    assert state.lctl(None, ["get_param", "-n", name]).stdout == "20000\n"
    assert state.lctl(None, ["set_param", "obdfilter.*.degraded=2"]).exit_code == 22
    assert state.lctl(None, ["set_param", "lod.*.qos_prio_free=80"]).stdout.count("=80\n") == 2
    assert state.lctl(None, ["get_param", "-n", "lov.*.qos_prio_free"]).stdout == "80%\n80%\n"


def test_fstrim_finds_once_what_was_freed() -> None:
    state = FakeLustre.small()
    state.write("OST0000", 2**30)
    first = state.fstrim("lustre1", ["-v", "/mnt/lustre/ost0"])
    assert first.stdout == "/mnt/lustre/ost0: 2.7 GiB (2849804288 bytes) trimmed\n"
    again = state.fstrim("lustre1", ["-v", "/mnt/lustre/ost0"])
    assert again.stdout == "/mnt/lustre/ost0: 0 B (0 bytes) trimmed\n"
    state.delete("OST0000", 2**30)
    assert "1 GiB (1073741824 bytes)" in state.fstrim("lustre1", ["-v", "/mnt/lustre/ost0"]).stdout
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
    argv = ["python3", "-I", "-S", "-"]
    stdin = program(server_request(deadline_s=20, sudo=None))
    results = state.fan_out(nodes, argv, timeout_s=25, stdin=stdin)
    answers = {node: parse_answer(node, result) for node, result in results.items()}
    assert {answer.problem for answer in answers.values()} == {None}
    assert {
        sum(command.key == "smart" for command in answers[node].commands) for node in nodes
    } == {24}
    imports = present(answers["mds001"].command("imports"))
    assert imports.stdout.count("state: FULL") == 2 * (298 + 15)
