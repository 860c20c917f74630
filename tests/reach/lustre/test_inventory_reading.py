"""What a machine is made of and set to, read from answers of its collector."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_lustre.state import FakeLustre
from tests.reach.hosts import HOSTS, recorded

from trimtab.base.inventory import ServerInventory
from trimtab.base.site import Servers
from trimtab.reach.lustre.inventory_reading import processors, server_inventory
from trimtab.reach.lustre.inventory_table import CARD, VALUES, inventory_request
from trimtab.reach.lustre.lustre_view import ServerView
from trimtab.reach.lustre.server_answer import ServerAnswer, parse_answer
from trimtab.reach.lustre.server_query import ask_inventory
from trimtab.reach.process import ProcessResult

REQUEST = inventory_request(deadline_s=20.0)
COMMAND = {"stderr": "", "exit_code": 0, "signal": None, "timed_out": False, "truncated": False,
           "elapsed_s": 0.1, "first_line": None, "error": None}  # fmt: skip
RECORDED = HOSTS / "inventory.json"
AT = datetime(2026, 11, 30, tzinfo=UTC)


def line(**parts: object) -> bytes:
    whole = {"format": 1, "host": "oss1", "euid": 0, "started": 1.0, "elapsed_s": 0.1, "files": {},
             "links": {}, "directories": {}, "times": {}, "commands": [], "skipped": [],
             "end": True, **parts}  # fmt: skip
    return json.dumps(whole).encode() + b"\n"


def answer(stdout: bytes) -> ServerAnswer:
    return parse_answer("oss1", ProcessResult(("ssh",), stdout, b"", 0, None, AT, 1.0, 20.0))


def read(**parts: object) -> ServerInventory:
    view = ServerView("oss1", "scratch", answer(line(**parts)), REQUEST)
    return server_inventory(view, "oss")


@cache
def pair() -> tuple[ServerInventory, ...]:
    fake = FakeLustre.pair()
    names = tuple(server.name for server in fake.servers)
    servers = Servers(oss=names[2:], mds=names[:2])
    return ask_inventory(servers, fake.file_system, fan_out=fake.fan_out)


def test_an_oss_of_the_stand_in() -> None:
    oss = next(each for each in pair() if each.server == "oss1")
    assert (oss.role, oss.problem, oss.unread) == ("oss", None, {})
    assert oss.targets == ("OST0000", "OST0001")
    model = "SAMSUNG MZWLR15THALA-00007"
    assert oss.values["drive/models"] == f"8 x {model}"
    assert oss.values[f"drive/firmware of {model}"] == "MPK76H5Q"
    assert oss.values[f"drive/PCIe link of {model}"] == "x4 at 16 GT/s"
    assert oss.values["lustre/obdfilter.*.checksum_type"] == "t10ip4K"
    assert oss.values["mount/options of a target"] == "rw,errors=remount-ro"
    assert len(oss.links) == 8


def test_servers_of_one_make_have_the_same_values() -> None:
    oss = [each.values for each in pair() if each.role == "oss"]
    assert len(oss) == 4
    assert all(values == oss[0] for values in oss)


DRIVE = "/sys/class/nvme/nvme{}"


def drives(*widths: int) -> dict[str, str]:
    return {
        f"{DRIVE.format(number)}/{name}": text
        for number, width in enumerate(widths)
        for name, text in (
            ("model", "MODEL A  \n"),
            ("firmware_rev", "F1\n"),
            ("device/current_link_speed", "16.0 GT/s PCIe\n"),
            ("device/current_link_width", f"{width}\n"),
        )
    }


def test_a_drive_at_half_its_lanes_is_counted_by_model() -> None:
    seen = read(files=drives(4, 4, 2))
    assert seen.values["drive/PCIe link of MODEL A"] == "2 x x4 at 16 GT/s, 1 x x2 at 16 GT/s"
    rates = sorted(link.bytes_per_s for link in seen.links)
    assert rates[1] == rates[2] == pytest.approx(2 * rates[0])


def test_a_network_card_with_its_firmware_port_and_interrupts() -> None:
    card = f"{CARD}/ens1"
    files = {
        f"{card}/operstate": "up\n", f"{card}/mtu": "9000\n", f"{card}/speed": "100000\n",
        f"{card}/device/vendor": "0x15b3\n", f"{card}/device/device": "0x101d\n",
        f"{card}/device/numa_node": "1\n",
        f"{card}/device/current_link_speed": "16.0 GT/s PCIe\n",
        f"{card}/device/current_link_width": "8\n",
        "/sys/devices/system/node/node0/cpulist": "0-3\n",
        "/sys/devices/system/node/node1/cpulist": "4-7\n",
        "/proc/irq/90/smp_affinity_list": "4\n", "/proc/irq/91/smp_affinity_list": "2,5\n",
    }  # fmt: skip
    printed = "driver: mlx5_core\nversion: 6.12\nfirmware-version: 22.36.1010 (MT_0000)\n"
    command = {"key": "card", "argv": ["ethtool", "-i", "ens1"], "stdout": printed, **COMMAND}
    seen = read(
        files=files, commands=[command], directories={f"{card}/device/msi_irqs": ["90", "91"]}
    )
    model = "ens1 (15b3:101d)"
    assert seen.values[f"network/firmware of {model}"] == "22.36.1010 (MT_0000)"
    assert seen.values[f"network/mtu of {model}"] == "9000"
    assert seen.values[f"numa/node of {model}"] == "1"
    assert seen.values[f"numa/interrupts of {model}"] == "node0, node1"
    assert {(link.kind, link.text) for link in seen.links} == {
        ("network", "x8 at 16 GT/s"),
        ("port", "100 Gb/s"),
    }


def test_a_port_that_is_down_has_no_speed() -> None:
    card = f"{CARD}/ens1"
    down = {f"{card}/device/vendor": "0x15b3\n", f"{card}/operstate": "down\n"}
    assert not read(files={**down, f"{card}/speed": "-1\n"}).links
    assert not read(files={**down, f"{card}/speed": "100000\n"}).links


def test_an_infiniband_port() -> None:
    place = "/sys/class/infiniband/mlx5_0"
    files = {f"{place}/fw_ver": "20.31.2006\n", f"{place}/hca_type": "MT4123\n",
             f"{place}/ports/1/rate": "200 Gb/sec (4X HDR)\n"}  # fmt: skip
    seen = read(files={**files, f"{place}/ports/1/link_layer": "InfiniBand\n"})
    assert [(link.text, link.bytes_per_s) for link in seen.links] == [("200 Gb/sec (4X HDR)", 25e9)]
    # The same port of RoCE is one of the network cards.
    assert not read(files={**files, f"{place}/ports/1/link_layer": "Ethernet\n"}).links


def test_what_each_machine_has_of_its_own_is_left_out() -> None:
    options = (
        "BOOT_IMAGE=/vmlinuz root=UUID=3f1c9c1e-6f0e-4a57-9a5e-2b7e1d5e8a11 ro quiet "
        "mitigations=off rd.lvm.lv=a/b ip=10.0.0.7::10.0.0.1"
    )
    seen = read(files={"/proc/cmdline": options, "/proc/meminfo": "MemTotal: 527949184 kB\n"})
    assert seen.values["kernel/boot options"] == "ro quiet mitigations=off"
    assert seen.values["memory/size"] == "512 GiB"


@pytest.mark.parametrize("kib", [525336576, 527949184, 528482304])
def test_memory_is_what_was_installed(kib: int) -> None:
    # 512 GiB less what kernels keep to themselves, 1 to 2.2 %.
    values = read(files={"/proc/meminfo": f"MemTotal:       {kib} kB\n"}).values
    assert values["memory/size"] == "512 GiB"


def test_recorded_policies_have_no_counters() -> None:
    command = {"key": "parameters", "argv": ["lctl", "get_param"], **COMMAND}
    printed = recorded("params/get_ost") + "version=2.17.57\n"
    values = read(commands=[{**command, "stdout": printed}]).values
    assert (
        values["lustre/ost.OSS.ost.nrs_policies"] == "fifo fifo"
    )  # of usual and of urgent requests
    assert values["lustre/ost.OSS.ost.threads_max"].isdecimal()


def test_a_host_as_recorded() -> None:
    stdout = RECORDED.read_bytes()
    seen = server_inventory(ServerView("host", "scratch", answer(stdout), REQUEST), "oss")
    assert seen.values["kernel/release"] == "6.18.44-fc-v595"
    assert seen.values["kernel/transparent_hugepage"] == "madvise"
    assert seen.values["mitigation/spec_rstack_overflow"] == "Vulnerable: Safe RET, no microcode"
    assert seen.values["cpu/model"] == "cpu:type:x86,ven0002fam0019mod0011"
    assert seen.values["sysctl/net.ipv4.tcp_rmem"] == "4096 131072 33554432"
    assert seen.unread.keys() == {"settings of Lustre", "firmware of network cards"}
    cut = stdout[: len(stdout) // 2]
    torn = server_inventory(ServerView("host", "scratch", answer(cut), REQUEST), "oss")
    assert torn.problem is not None
    assert not torn.values


def test_what_could_not_be_read_is_named_with_its_reason() -> None:
    skipped = [
        ["/sys/module/zfs/parameters/zfs_key", "no permission to read it"],
        ["", "files after /proc/x were not read in time"],
        [f"{CARD}/lo/speed", "Invalid argument"],
    ]
    assert read(skipped=skipped).unread == {
        "module/zfs/zfs_key": "no permission to read it",
        "none": "files after /proc/x were not read in time",
    }


@given(
    st.dictionaries(
        st.sampled_from([pattern.replace("*", "x") for pattern in VALUES] + [*drives(4)]),
        st.text(max_size=60) | st.just("9" * 100_000) | st.just("\udcff\x1b[2J\u202e"),
    )
)
def test_no_text_of_a_machine_breaks_a_screen(files: dict[str, str]) -> None:
    seen = read(files=files)
    for text in (*seen.values, *seen.values.values(), *(link.model for link in seen.links)):
        assert text.isprintable()
    assert all(len(value) <= 2000 for value in seen.values.values())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("5", {5}), ("", ()), ("none", ()), ("1-", ()), ("9" * 9, ())],
)
def test_lists_of_processors(text: str, numbers: set[int]) -> None:
    assert processors(text) == frozenset(numbers)


def test_a_silent_machine_has_the_reason() -> None:
    fake = FakeLustre.pair()
    fake.kill_server("oss1")
    servers = Servers(oss=("oss1", "oss2"))
    silent, other = ask_inventory(servers, fake.file_system, fan_out=fake.fan_out)
    assert silent.problem is not None
    assert silent.values == {}
    assert other.values["kernel/release"] == fake.kernel
