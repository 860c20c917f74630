"""Every recording of a real Lustre that a snapshot reads the like of: values, cuts, versions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.reach.hosts import real_data, recorded, text_of
from tests.reach.lustre.cuts import cuts, whole_lines
from tests.support.narrow import present

from trimtab.reach.lustre.kernel_log import parse_kernel_log
from trimtab.reach.lustre.lustre_target import (
    Import,
    LfsDf,
    parse_device_list,
    parse_import,
    parse_lfs_df,
    parse_name,
)
from trimtab.reach.lustre.parameter import (
    Bucket,
    Counter,
    Parameters,
    parse_brw_stats,
    parse_lnet_stats,
    parse_nis,
    parse_parameters,
    parse_stats,
)

KIB = 1024
FOLDERS = (
    *("versions", "params", "create_gating", "ost_down", "enospc2", "readonly_target"),
    *("stats_after_io", "jobstats", "mballoc", "setup"),
)


def _recordings() -> dict[str, str]:
    """Return every output that a snapshot reads the like of, by its name."""
    root = real_data("lustre-2.17").parent
    paths = [
        path
        for folder in FOLDERS
        for path in sorted((root / "lustre-2.17" / folder).glob("*.out*"))
        # Names alone, and the dump of everything, have tests of their own. With -F, which nothing
        # here asks for, lctl puts a sign behind every name.
        if not path.name.startswith(("list_param", "get_param_all"))
        and not path.name.endswith("_F.out")
    ]
    paths += sorted((root / "lctl-get-param").glob("*.txt"))
    paths += sorted((root / "lfs-df").glob("*.gz"))
    return {str(path.relative_to(root)): text_of(path) for path in paths}


@pytest.fixture(scope="module")
def recordings() -> dict[str, str]:
    found = _recordings()
    assert len(found) > 150
    return found


@pytest.fixture(scope="module")
def everything() -> Parameters:
    """All parameters of a machine that is client, MDS and OSS."""
    return parse_parameters(text_of(real_data("lustre-2.17/params/get_param_all.out.gz")))


def _df(name: str, *, inodes: bool = False) -> LfsDf:
    (found,) = parse_lfs_df(recorded(name), inodes=inodes)
    return found


# Parameters ---------------------------------------------------------------------------------------


def test_every_parameter_of_the_dump_has_a_name_that_lctl_lists(everything: Parameters) -> None:
    listed = {
        line.rstrip("=/@") for line in recorded("params/list_param_all_F").split("\n") if line
    }
    assert everything.complete
    assert len(everything.names) == 4674
    assert set(everything.names) <= listed


def test_values_of_the_dump(everything: Parameters) -> None:
    assert everything.get("version") == "2.17.57"
    assert everything.get("health_check") == "healthy"
    assert everything.get("jobid_name") == "%e.%u"
    assert everything.number("osd-ldiskfs.scratch-OST0003.kbytesfree") == 3831588
    active = everything.matching("osp.*.active")
    assert len(active) == 10
    assert set(active.values()) == {"1"}
    # Those of the exports are not those of the target.
    assert len(everything.matching("obdfilter.*.stats")) == 4
    assert len(everything.matching("osd-*.*.kbytestotal")) == 6
    assert len(everything.matching("os[cp].*OST0001*.import")) == 5
    assert parse_nis(everything.get("nis") or "") == ("0@lo", "10.0.2.15@tcp")
    lnet = present(parse_lnet_stats(everything.get("stats") or ""))
    assert lnet.send_bytes == 1201368


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("create_gating/30_osp_active_0", "osp.*OST0003*.prealloc_status", {-108}),
        ("create_gating/30_osp_active_0", "osp.*OST0002*.prealloc_status", {0}),
        ("create_gating/03_state", "osp.*OST0001*.max_create_count", {0}),
        ("create_gating/03_state", "osp.*OST0001*.create_count", {0}),
        ("create_gating/11_state", "osp.*OST0001*.max_create_count", {20000}),
        ("create_gating/34_degraded", "obdfilter.scratch-OST0001.degraded", {1}),
        ("create_gating/34_degraded", "obdfilter.scratch-OST000[!1].degraded", {0}),
        ("enospc2/04_after_15s", "osp.*OST0003*.prealloc_status", {-28}),
        ("enospc2/08_reserved_mb", "osp.*OST0003*.reserved_mb_low", {500}),
        ("readonly_target/prealloc_status", "osp.*.prealloc_status", {0}),
        ("params/osp_create", "osp.*.max_create_count", {20000}),
        ("ost_down/06_import", "osp.*OST0001*.prealloc_status", {-108}),
    ],
)
def test_states_of_creation(name: str, pattern: str, expected: set[int]) -> None:
    parameters = parse_parameters(recorded(name))
    found = {parameters.number(one) for one in parameters.matching(pattern)}
    assert found == expected


def test_a_read_only_target_says_that_all_is_well() -> None:
    found = parse_parameters(recorded("readonly_target/osd"))
    assert set(found.matching("obdfilter.*.readonly").values()) <= {"0"}
    health = parse_parameters(recorded("readonly_target/health"))
    assert health.get("health_check") == "healthy"
    # The log tells.
    log = parse_kernel_log(recorded("readonly_target/dmesg"))
    assert log.read_only == ("vdb", "vdd")
    assert not log.begins_at_boot
    assert parse_kernel_log(recorded("setup/dmesg")).read_only == ()


def test_parameters_of_other_versions() -> None:
    found = parse_parameters(text_of(real_data("lctl-get-param/osp.txt")))
    assert len(found.matching("osp.*.active")) == 11
    assert found.number("osp.tesfs-OST0001-osc-MDT0000.active") == 0
    assert found.number("osp.tesfs-OST0001-osc-MDT0000.max_create_count") == 0
    found = parse_parameters(text_of(real_data("lctl-get-param/ex8761-lctl.txt")))
    assert found.get("health_check") == "NOT HEALTHY"
    uuids = present(found.get("mdt.fs-MDT0000.exports.10.73.20.12@tcp.uuid"))
    assert uuids.split("\n")[0] == "fs-MDT0000-lwp-OST0003_UUID"
    found = parse_parameters(text_of(real_data("lctl-get-param/osd_active.txt")))
    assert found.number("osd-ldiskfs.ai400x2-OST0001.kbytesavail") == 3259399856


# lfs df -------------------------------------------------------------------------------------------


def test_space_and_flags() -> None:
    found = _df("versions/lfs_df_v")
    assert (found.file_system, found.mount, found.complete) == ("scratch", "/scratch", True)
    assert found.problems == []
    assert " ".join(found.lines) == "MDT0000 MDT0001 OST0000 OST0001 OST0002 OST0003"
    line = found.lines["OST0001"]
    assert (line.total, line.used, line.available) == (3833116 * KIB, 1528 * KIB, 3605492 * KIB)
    assert {line.flags for line in found.lines.values()} == {"f"}
    inodes = _df("versions/lfs_df_i", inodes=True)
    assert inodes.complete
    objects = inodes.lines["OST0000"]
    assert (objects.total, objects.available) == (262144, 261775)
    for name in ("versions/lfs_df", "versions/lfs_df_o", "versions/lfs_df_path"):
        assert _df(name).complete


def test_flags_tell_little_and_two_outputs_may_be_one() -> None:
    for name, target, flags in (
        ("create_gating/34_degraded", "OST0001", "Df"),
        ("create_gating/03_state", "OST0001", "f"),
        ("create_gating/30_osp_active_0", "OST0003", "f"),
        ("enospc2/04_after_15s", "OST0003", "f"),
    ):
        last = parse_lfs_df(recorded(name))[-1]
        assert (last.complete, last.lines[target].flags) == (True, flags), name
    found = parse_lfs_df(recorded("create_gating/23_state"))
    assert [one.complete for one in found] == [True, True]
    assert [[*one.lines.values()][4].flags for one in found] == ["Nf", "N"]
    # What is not for machines gives no number.
    for name in ("lfs_df_h", "lfs_df_ih", "lfs_df_help", "lfs_df_json"):
        for inodes in (False, True):
            one = _df(f"versions/{name}", inodes=inodes)
            assert (one.lines, one.summary, one.complete) == ({}, None, False)
            assert one.problems


def test_a_lost_ost() -> None:
    hung = _df("ost_down/02_lfs_df_t5")
    assert [*hung.lines] == ["MDT0000", "MDT0001", "OST0000"]
    assert not hung.complete
    assert hung.problems[-1] == "the summary is missing: the output was cut"
    lazy, verbose = parse_lfs_df(recorded("ost_down/03_lfs_df_lazy"))
    # Left out without a word: only who knows the targets can tell.
    assert (lazy.complete, len(lazy.lines)) == (True, 5)
    assert (verbose.complete, len(verbose.lines)) == (True, 6)
    assert verbose.lines["OST0001"].problem == "inactive device"
    assert verbose.lines["OST0001"].total is None


def test_a_lost_root() -> None:
    assert parse_lfs_df(recorded("readonly_target/lfs_df")) == []
    found = _df("readonly_target/lfs_df_v")
    assert (found.mount, found.complete, found.lines) == ("/scratch", False, {})
    assert "not a Lustre file system" in found.problems[0]


def test_three_file_systems_of_edison_and_one_of_cori() -> None:
    text = text_of(real_data("lfs-df/edison-lfs-df.txt.gz"))
    found = parse_lfs_df(text)
    assert [(one.file_system, one.mount, len(one.lines), one.complete) for one in found] == [
        ("snx11035", "/scratch2", 25, True),
        ("snx11036", "/scratch3", 37, True),
        ("snx11168", "/global/cscratch1", 253, True),
        ("snx11025", "/scratch1", 25, True),
    ]
    line = [*found[3].lines.values()][-1]
    assert (line.target, line.used) == ("OST0017", 66254194572 * KIB)
    assert present(found[2].summary).used == 13195383146952 * KIB
    lines = text.split("\n")
    # Any one line less in any file system, and the sums tell.
    for number, line in enumerate(lines):
        if "[OST:" in line and number % 17 == 0:
            without = parse_lfs_df("\n".join([*lines[:number], *lines[number + 1 :]]))
            assert sorted(one.complete for one in without) == [False, True, True, True]


# Devices and connections --------------------------------------------------------------------------


def test_devices() -> None:
    targets = ("MDT0000", "MDT0001", "OST0000", "OST0001", "OST0002", "OST0003")
    for name in ("versions/lctl_dl", "versions/lctl_dl_t", "readonly_target/lctl_dl"):
        devices = parse_device_list(recorded(name))
        assert len(devices) == 49
        served = {device.name for device in devices if device.type in {"obdfilter", "mdt"}}
        assert served == {f"scratch-{target}" for target in targets}
    first = recorded("ost_down/04_lctl_dl").split("  0 UP ")[1]
    down = parse_device_list("  0 UP " + first)
    assert "scratch-OST0001" not in {device.name for device in down}
    edison = parse_device_list(text_of(real_data("lfs-df/edison-lctl-dl-t.txt.gz")))
    assert len(edison) == 352
    name = present(parse_name(edison[4].name))
    assert (name.file_system, name.target, name.by) == ("snx11035", "OST0014", "ffff885f81a64000")


def test_connections() -> None:
    parameters = parse_parameters(recorded("stats_after_io/import"))
    found = [present(parse_import(text)) for text in parameters.matching("*.*.import").values()]
    assert len(found) == 24
    assert {one.failover_nids for one in found} == {("0@lo",)}
    assert {one.state for one in found} <= {"FULL", "IDLE"}
    lost = parse_parameters(recorded("ost_down/06_import"))
    assert parse_import(lost.get("osp.scratch-OST0001-osc-MDT0000.import") or "") == Import(
        name="scratch-OST0001-osc-MDT0000",
        target="scratch-OST0001_UUID",
        state="DISCONN",
        failover_nids=("0@lo",),
    )


# Counters -----------------------------------------------------------------------------------------


def test_counters_of_targets_and_clients() -> None:
    found = parse_parameters(recorded("stats_after_io/obdfilter_stats"))
    stats = parse_stats(found.get("obdfilter.scratch-OST0002.stats") or "")
    assert stats.counters["read_bytes"] == Counter(987, 20795392)
    assert stats.counters["write_bytes"].sum == 32661504
    found = parse_parameters(recorded("stats_after_io/mdt_stats"))
    stats = parse_stats(found.get("mdt.scratch-MDT0001.md_stats") or "")
    assert stats.counters["open"] == Counter(352, 1087847)
    found = parse_parameters(recorded("stats_after_io/llite_stats"))
    stats = parse_stats(found.matching("llite.*.stats").popitem()[1])
    assert stats.counters["cached_read_bytes"].sum == 82956288
    assert stats.counters["ioctl"] == Counter(3074)


def test_every_counter_of_every_version_is_read(recordings: dict[str, str]) -> None:
    read = 0
    for text in recordings.values():
        parameters = parse_parameters(text)
        for name in parameters.names:
            value = parameters.get(name) or ""
            stats = parse_stats(value)
            lines = [line for line in value.split("\n") if " samples [" in line]
            assert len(stats.counters) == len({line.split()[0] for line in lines}), name
            read += len(lines)
            assert not lines or stats.unread == (), name
    assert read > 1000


def test_every_histogram_of_every_version_is_read(recordings: dict[str, str]) -> None:
    rows = 0
    for text in recordings.values():
        for name, value in parse_parameters(text).matching("os*.*.brw_stats").items():
            found = parse_brw_stats(value)
            assert len(found) in (7, 8), name
            assert all(histogram.complete for histogram in found.values())
            rows += sum(len(histogram.buckets) for histogram in found.values())
    assert rows > 500
    found = parse_brw_stats(text_of(real_data("lctl-get-param/brw_stats_with_data.txt")))
    assert found["disk I/O size"].buckets[-1] == Bucket(2**20, 0, 32)
    assert found["block maps msec"].reads == 12689
    assert found["disk I/Os in flight"].writes == 115274 + 700


# Cuts ---------------------------------------------------------------------------------------------


def _values_of(parameters: Parameters) -> dict[str, object]:
    return {name: parameters.get(name) for name in parameters.names}


def _lines_of(stdout: str, *, inodes: bool) -> dict[tuple[int, object], object]:
    found: dict[tuple[int, object], object] = {}
    for one in parse_lfs_df(stdout, inodes=inodes):
        for line in one.lines.values():
            found[line.line, line.target] = line
        if one.summary is not None:
            found[one.summary.line, "summary"] = one.summary
    return found


def _devices_of(text: str) -> dict[object, object]:
    return dict(enumerate(parse_device_list(text)))


READERS: dict[str, Callable[[str, bool], dict]] = {
    "parameters": lambda text, complete: _values_of(parse_parameters(text, complete=complete)),
    "space": lambda text, _: _lines_of(text, inodes=False),
    "inodes": lambda text, _: _lines_of(text, inodes=True),
    "devices": lambda text, _: _devices_of(text),
    "counters": lambda text, complete: dict(
        parse_stats(text if complete else whole_lines(text)).counters
    ),
    "log": lambda text, complete: dict.fromkeys(
        parse_kernel_log(text if complete else whole_lines(text)).read_only
    ),
}


def _spread(text: str) -> range:
    return range(10_000, len(text) - 1, max(997, len(text) // 40))


def test_cut_anywhere_the_dump_of_everything_gives_a_part_of_it(everything: Parameters) -> None:
    whole = _values_of(everything)
    for end in range(1, len(everything.text), len(everything.text) // 9):
        part = parse_parameters(everything.text[:end], complete=False)
        assert _values_of(part).items() <= whole.items()
        assert len(part.names) >= len(whole) * end // len(everything.text) // 4


@pytest.mark.system
@pytest.mark.parametrize("reader", READERS)
def test_cut_anywhere_a_recording_gives_a_part_of_the_whole(
    reader: str, recordings: dict[str, str]
) -> None:
    read = READERS[reader]
    marks = {
        "parameters": ("=",),
        "space": ("1K-blocks", "bytes "),
        "inodes": ("IUsed",),
        "devices": (" UP ",),
        "counters": (" samples [",),
        "log": ("read-only",),
    }[reader]
    seen = 0
    for name, text in recordings.items():
        if not any(mark in text for mark in marks):
            continue
        whole = read(text, True)
        # The rest of a long recording is cut in fewer places: the cost is quadratic.
        for cut in (*cuts(text[:10_000]), *(text[: end + 1] for end in _spread(text))):
            part = read(cut, False)
            assert part.items() <= whole.items(), (name, len(cut))
            seen += len(part)
    assert seen > 200


def test_cut_anywhere_a_histogram_gives_a_part_of_the_whole(everything: Parameters) -> None:
    values = parse_parameters(recorded("stats_after_io/brw_stats")).matching("*.*.brw_stats")
    text = values["osd-ldiskfs.scratch-OST0000.brw_stats"]
    whole = parse_brw_stats(text)
    for cut in cuts(text):
        for title, histogram in parse_brw_stats(whole_lines(cut)).items():
            rows = len(histogram.buckets)
            assert histogram.buckets == whole[title].buckets[:rows]
    connections = everything.matching("os[cp].*.import")
    for text in list(connections.values())[:3]:
        one = parse_import(text)
        for cut in cuts(text):
            part = parse_import(whole_lines(cut))
            for field in Import.__slots__ if part is not None else ():
                assert getattr(part, field) in (None, (), getattr(one, field))


def test_every_recording_is_read_by_every_parser(recordings: dict[str, str]) -> None:
    parsers = (parse_lfs_df, parse_device_list, parse_kernel_log, parse_import, parse_stats)
    for text in recordings.values():
        for parse in (*parsers, parse_brw_stats, parse_nis, parse_lnet_stats):
            parse(text)
        parse_lfs_df(text, text)
