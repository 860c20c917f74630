"""What one inventory costs: of this host, and of 157 servers on the stand-in for Lustre.

A machine of the stand-in answers with what a large server has: 128 processors of 8 NUMA nodes, 24
drives, two network cards with 64 interrupts each, 300 parameters of modules. One of them has
another kernel, one a drive at half its lanes. A stand-in for ssh prints the answers: what is
measured is Trimtab, from the fan-out to the kept inventory. This host is asked by its own Python,
as a server is.

Bound: every answer is parsed as JSON once. That alone is timed beside it.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measured import measured_at
from benchmarks.snapshot_of_a_large_site import RESULTS, bound, prepare
from tests.fake_lustre.state import FakeLustre
from tests.fake_lustre.tree import drive_directory

from trimtab.base.encode import to_json
from trimtab.base.site import Servers, Site
from trimtab.probe.inventory import take
from trimtab.reach.lustre.inventory_table import inventory_request
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.reach.lustre.server_answer import program
from trimtab.store.store import Store

REQUEST = inventory_request(deadline_s=Servers().timeout_s)


def large_server() -> dict[str, str]:
    """Return the files of a large server, besides those of its targets."""
    cpu, cards = "/sys/devices/system/cpu", ("ens1", "ens2")
    files = {f"{cpu}/online": "0-127\n", f"{cpu}/smt/control": "on\n"}
    for number in range(128):
        files[f"{cpu}/cpufreq/policy{number}/scaling_governor"] = "performance\n"
        files[f"{cpu}/cpufreq/policy{number}/scaling_max_freq"] = "3500000\n"
    for number in range(8):
        place = f"/sys/devices/system/node/node{number}/cpulist"
        files[place] = f"{16 * number}-{16 * number + 15}\n"
    for number in range(300):
        files[f"/sys/module/lnet/parameters/parameter_{number:03}"] = "0\n"
    for start, card in enumerate(cards):
        place = f"/sys/class/net/{card}"
        files |= {f"{place}/mtu": "9000\n", f"{place}/speed": "200000\n"}
        files |= {f"{place}/operstate": "up\n", f"{place}/device/vendor": "0x15b3\n"}
        files |= {f"{place}/device/device": "0x101d\n", f"{place}/device/numa_node": "3\n"}
        files |= {f"{place}/device/current_link_speed": "16.0 GT/s PCIe\n"}
        files |= {f"{place}/device/current_link_width": "16\n"}
        for number in range(64):
            interrupt = 200 + 64 * start + number
            files[f"{place}/device/msi_irqs/{interrupt}"] = "msix\n"
            files[f"/proc/irq/{interrupt}/smp_affinity_list"] = f"{number}\n"
    return files


def site() -> FakeLustre:
    """Return a large site with one odd kernel and one slow drive."""
    fake = FakeLustre.perlmutter()
    for server in fake.servers:
        server.files |= large_server()
    odd, slow = fake.servers[-1], fake.servers[-2]
    odd.files["/proc/sys/kernel/osrelease"] = "6.12.1\n"
    drive = fake.served_by(slow.name)[0].drives[0]
    function = Path(drive_directory(drive)).parents[2]
    slow.files[f"{function}/current_link_width"] = "2\n"
    return fake


def of_this_host(rounds: int) -> dict[str, float]:
    """Return the size of one answer of this host, and how long it took here and within."""
    asked, took, within, size = program(REQUEST), [], [], 0
    for _ in range(rounds):
        started_s = time.perf_counter()
        argv = [sys.executable, "-I", "-S", "-"]
        line = subprocess.run(argv, input=asked, capture_output=True, check=True).stdout
        took.append(time.perf_counter() - started_s)
        within.append(json.loads(line)["elapsed_s"])
        size = len(line)
    return {
        "request_bytes": len(asked),
        "answer_bytes": size,
        "elapsed_s_median": round(statistics.median(took), 4),
        "collecting_s_median": round(statistics.median(within), 4),
    }


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    result: dict[str, object] = {
        "what": "one inventory of this host, and of 157 servers with 3,768 drives",
        **measured_at(),
        "rounds": rounds,
        "this_host": of_this_host(rounds),
    }
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        fake, servers = prepare(directory, site(), REQUEST)
        mds = tuple(name for name in servers.oss if name.startswith("mds"))
        servers = replace(servers, mds=mds, oss=tuple(n for n in servers.oss if n not in mds))
        place = Site("scratch", "lustre", fake.mount, servers=servers)
        driver = LustreDriver(fake.mount, fake.file_system, servers)
        elapsed, cpu, bounds, kept_bytes = [], [], [], 0
        with Store.open(directory / "t.db") as store:
            for _ in range(rounds):
                bounds.append(bound(directory))
                (directory / "asked").unlink(missing_ok=True)
                started_s, before_s = time.perf_counter(), time.process_time()
                inventory = take(place, driver, store).inventory
                elapsed.append(time.perf_counter() - started_s)
                cpu.append(time.process_time() - before_s)
                assert [item.minority for item in inventory.differences] == [1, 1]
                assert len(inventory.slow_links) == 1
                kept_bytes = len(to_json(inventory))
            asked = (directory / "asked").read_text().split()
        result |= {
            "connections_per_server": len(asked) / len(set(asked)),
            "servers": len(set(asked)),
            "answer_bytes_mean": round(
                statistics.mean(path.stat().st_size for path in (directory / "answers").iterdir())
            ),
            "kept_bytes": kept_bytes,
            "cpu_s_median": round(statistics.median(cpu), 3),
            "elapsed_s_median": round(statistics.median(elapsed), 3),
            "bound_json_cpu_s_median": round(statistics.median(bounds), 3),
            "rss_most_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        }
    (RESULTS / "inventory.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
