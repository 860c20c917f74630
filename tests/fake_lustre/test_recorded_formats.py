"""What the fake prints is what a running Lustre 2.17.57 printed."""

from __future__ import annotations

import re

import pytest
from tests.fake_lustre.replay import fill_as, masked, replay
from tests.fake_lustre.state import FakeLustre
from tests.reach.hosts import real_data
from tests.support.each import for_each


def recorded(name: str) -> tuple[str, str, str, int]:
    """Return line, stdout, stderr and exit code of a recording."""
    base = real_data("lustre-2.17") / name
    line, out, err = (
        base.with_suffix(f".{part}").read_text(errors="surrogateescape")
        for part in ("cmd", "out", "err")
    )
    return line.strip(), out, err, int(base.with_suffix(".rc").read_text())


@for_each(
    "name",
    [
        *(f"versions/lfs_df{form}" for form in ("", "_v", "_i", "_h", "_ih", "_o", "_path")),
        *(f"versions/lfs_check_{what}" for what in ("all", "mds", "osts", "servers")),
        "versions/lfs_df_json",
        "versions/lfs_osts",
        "versions/lfs_mdts",
        "versions/lfs_version",
        "versions/lctl_dl",
        "versions/lctl_dl_t",
        "versions/lctl_version",
        "versions/lctl_get_version",
        "params/osp_create",
        "params/lov_qos",
        "params/osd_kbytes",
        "params/get_missing",
        "params/get_n",
        "params/get_N",
        "params/set_bad",
        "params/set_missing",
        "params/set_ro",
        "params/set_n",
        "block/fstrim_client",
        "block/fstrim_n_ost0",
        "block/fstrim_nodir",
    ],
)
def test_a_fresh_file_system_byte_for_byte(name: str) -> None:
    line, stdout, stderr, exit_code = recorded(name)
    output = replay(FakeLustre.small(), line)
    assert (output.stdout, output.stderr, output.exit_code) == (stdout, stderr, exit_code)


def test_values_of_many_lines_but_for_their_times() -> None:
    for name in ("params/brw_stats", "stats_after_io/recovery"):
        line, stdout, stderr, _ = recorded(name)
        output = replay(FakeLustre.small(), line)
        assert masked(output.stdout) == masked(stdout), name
        assert output.stderr == stderr


def test_imports_have_every_line_in_its_place() -> None:
    line, stdout, _, _ = recorded("params/osc_import")
    state = FakeLustre.small()

    def shape(text: str) -> list[str]:
        # What lies behind these differs from one moment, and one connection, to the next.
        moving = r"(sec_ago|avg_waittime|peer_committed|last_checked|idle|connects|replied"
        moving += r"|connection_attempts|generation|network|services|initial_grant): [^,}\n]*"
        return re.sub(moving, r"\1: ~", text).splitlines()

    assert shape(replay(state, line).stdout) == shape(stdout)


@pytest.mark.parametrize("tree", ["osp", "lod", "obdfilter", "osd-ldiskfs", "osc"])
def test_every_plain_parameter_is_there_in_the_recorded_order(tree: str) -> None:
    line, stdout, _, _ = recorded(f"params/get_{tree}")
    form = re.compile(rf"^{tree}\.[\w-]+\.\w+=(?=[^\n])", re.MULTILINE)
    names = [name for name in form.findall(stdout) if ".site_stats" not in name]
    output = replay(FakeLustre.small(), line.replace(" -R", ""))
    assert set(names) <= set(form.findall(output.stdout))
    ours = [name for name in form.findall(output.stdout) if name in set(names)]
    assert ours == names


GATING = [
    "00_base_state",
    "02_set_max_create_count_0",
    "03_state",
    "09_restore",
    "11_state",
    "20_no_precreate_on",
    "23_state",
    "25_restore",
    "30_osp_active_0",
    "32_osp_active_1",
    "34_degraded",
    "36_degraded_off",
    "50_qos",
]


def test_creation_is_gated_as_it_was() -> None:
    state = FakeLustre.small()
    for name in GATING:
        line, stdout, stderr, exit_code = recorded(f"create_gating/{name}")
        fill_as(state, stdout)
        output = replay(state, line)
        assert masked(output.stdout) == masked(stdout), name
        assert output.stderr == stderr, name
        assert output.exit_code == exit_code, name


@pytest.mark.parametrize(
    ("gate", "none_on"),
    [
        ("osp.scratch-OST0001-osc-MDT*.max_create_count=0", 1),
        ("obdfilter.scratch-OST0002.no_precreate=1", 2),
        ("osp.scratch-OST0003-osc-MDT*.active=0", 3),
        ("obdfilter.scratch-OST0001.degraded=1", 1),
    ],
)
def test_a_gated_ost_gets_no_objects_even_when_asked(gate: str, none_on: int) -> None:
    state = FakeLustre.small()
    assert state.lctl(None, ["set_param", gate]).exit_code == 0
    counts = dict.fromkeys(range(4), 0)
    for number in range(64):
        path = f"/scratch/f{number}"
        assert state.lfs(["setstripe", "-c", "1", path]).exit_code == 0
        counts[int(state.lfs(["getstripe", "-i", path]).stdout)] += 1
    # As recorded: 21, 21 and 22 on the others.
    assert sorted(counts.values()) == [0, 21, 21, 22]
    assert counts[none_on] == 0
    assert state.lfs(["setstripe", "-c", "1", "-i", str(none_on), "/scratch/g"]).exit_code == 0
    index, blank = state.lfs(["getstripe", "-i", "/scratch/g"]).stdout.split("\n", 1)
    assert (int(index) != none_on, blank) == (True, "\n")


def test_the_pools_of_a_client_are_printed_as_they_were() -> None:
    # lctl made the pool and asked first; it and lfs print the same.
    _, stdout, _, _ = recorded("create_gating/40_pool")
    state = FakeLustre.small(pools={"flash": ["OST0000", "OST0001"]})
    asked = ("scratch", "scratch.flash", "scratch")
    output = replay(state, "; ".join(f"lfs pool_list {one}" for one in asked))
    assert output.stdout in stdout
    assert (output.stderr, output.exit_code) == ("", 0)


def test_a_lost_ost_is_shown_as_it_was() -> None:
    state = FakeLustre.small(boot="restart", client_id="ffff888121acb000")
    ost = state.target("OST0001")
    ost.up = False
    line = "lctl set_param osc.scratch-OST0001-*.active=0"
    state.lctl(None, line.split()[1:])
    # The recorded -l line shows the free space that grants take, which moves: from the recording.
    for name in ("03_lfs_df_lazy", "04_lctl_dl", "05_check"):
        line, stdout, stderr, _ = recorded(f"ost_down/{name}")
        fill_as(state, stdout)
        output = replay(state, line)
        assert masked(output.stdout) == masked(stdout), name
        assert masked(output.stderr) == masked(stderr), name
    line, stdout, _, _ = recorded("ost_down/11_df_after")
    output = replay(state, "lfs osts; lctl get_param health_check osp.*OST0001*.prealloc_status")
    assert output.stdout in stdout.replace(
        stdout[stdout.index("Filesys") : stdout.index("hea")], ""
    )


def test_the_imports_of_a_lost_ost_say_so() -> None:
    _, stdout, _, _ = recorded("ost_down/06_import")
    state = FakeLustre.small(client_id="ffff888121acb000")
    state.target("OST0001").up = False
    ours = state.lctl(None, ["get_param", "osc.scratch-OST0001*.import"]).stdout
    for line in ("state: DISCONN", "target: scratch-OST0001_UUID", 'failover_nids: [ "0@lo" ]'):
        assert ours.count(line) == 3
        assert line in stdout
    assert state.lctl(None, ["get_param", "health_check"]).stdout == "health_check=healthy\n"


def test_plain_df_hangs_behind_a_lost_ost_and_lazy_df_complains_once() -> None:
    state = FakeLustre.small()
    state.target("OST0001").up = False
    _, stdout, _, _ = recorded("ost_down/02_lfs_df_t5")
    fill_as(state, stdout)
    output = state.lfs(["df", "/scratch"])
    assert output.hang_s == float("inf")
    assert output.stdout == stdout.removesuffix("rc=124\n")
    state.plain_df_hangs = False  # as on another occasion: the last numbers, and exit code 0
    known = state.lfs(["df"])
    assert (known.stdout.count("OST0001"), known.exit_code, known.hang_s) == (1, 0, 0)
    first, second = state.lfs(["df", "-l"]), state.lfs(["df", "-l"])
    assert "scratch-OST0001_UUID: Transport endpoint is not connected\n" in first.stdout
    assert (first.exit_code, second.exit_code) == (107, 0)
    assert "OST0001" not in second.stdout


@pytest.mark.parametrize("name", ["02_after_15s", "04_after_15s", "08_reserved_mb", "10_restore"])
def test_a_full_ost_is_closed_by_the_mdts(name: str) -> None:
    state = FakeLustre.small()
    if name != "02_after_15s":  # -28 stays until there is more room than reserved_mb_high
        state.target("OST0003").full = name == "08_reserved_mb"
    line, stdout, stderr, _ = recorded(f"enospc2/{name}")
    space, _, inodes = stdout.partition("Inodes")
    fill_as(state, space)
    fill_as(state, inodes, inodes=True)
    output = replay(state, line)
    assert masked(output.stdout) == masked(stdout)
    assert output.stderr == stderr


def _aborted() -> FakeLustre:
    state = FakeLustre.small()
    for name in ("MDT0000", "OST0000"):
        state.target(name).aborted = True
    return state


@pytest.mark.parametrize(
    "name",
    ["fstrim", "health", "lfs_check", "lfs_df", "lfs_df_v", "prealloc_status", "statfs_state"],
)
def test_a_target_gone_read_only_is_called_healthy_byte_for_byte(name: str) -> None:
    line, stdout, stderr, exit_code = recorded(f"readonly_target/{name}")
    output = replay(_aborted(), line)
    assert (output.stdout, output.stderr) == (stdout, stderr)
    assert output.exit_code == exit_code


def test_only_the_kernel_tells_of_a_target_gone_read_only() -> None:
    state = _aborted()
    files = state.files("lustre1")
    mounts = recorded("readonly_target/mount")[1].splitlines()[1:]
    assert [one for one in files["/proc/mounts"].splitlines() if "svname" in one] == mounts
    told = dict(
        line.split(":", 1) for line in recorded("readonly_target/errors_count")[1].splitlines()
    )
    assert {path: files[path].rstrip("\n") for path in told} == told
    options = files["/proc/fs/ldiskfs/vdd/options"]
    assert options.startswith(recorded("readonly_target/options")[1])
    log = state.run("lustre1", ["dmesg"]).stdout
    for text in ("Aborting journal on device vdd-8.", "Remounting filesystem read-only"):
        assert text in log
        assert text in recorded("readonly_target/dmesg_full")[1]
    ours = {" ".join(line.split()[1:-1]) for line in state.lctl(None, ["dl"]).stdout.splitlines()}
    theirs = {
        " ".join(line.split()[1:-1]) for line in recorded("readonly_target/lctl_dl")[1].splitlines()
    }
    assert {masked(one) for one in ours} == {masked(one) for one in theirs}


def test_the_files_of_a_fresh_ldiskfs() -> None:
    files = FakeLustre.small().files("lustre1")
    for name in ("dump_sys_vdd", "dump_proc_vdd"):
        _, stdout, _, _ = recorded(f"ldiskfs/{name}")
        parts = re.split(r"^==> (\S+) mode=\S+\n", stdout, flags=re.MULTILINE)[1:]
        theirs = dict(zip(parts[::2], parts[1::2], strict=True))
        ours = {path: text for path, text in files.items() if path in theirs}
        moving = ("_write_kbytes", "journal_task")
        same = [path for path in ours if not path.endswith(moving)]
        assert {path: ours[path] for path in same} == {path: theirs[path] for path in same}
        assert len(same) >= (6 if "proc" in name else 30)


def test_counters_that_count_have_every_line_in_its_place() -> None:
    files = FakeLustre.small(allocator_counts=True).files("lustre1")
    theirs = recorded("mballoc/02_before")[1].split("optimize_scan")[0]

    def names(text: str) -> list[str]:
        return re.findall(r"^\t*[\w^]+:", text, flags=re.MULTILINE)

    assert names(files["/proc/fs/ldiskfs/vdd/mb_stats"]) == names(theirs)
