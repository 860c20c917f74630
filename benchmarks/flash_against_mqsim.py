"""The simulated drive beside MQSim, in turns, on one workload: `make bench-mqsim MQSIM=DIR`.

DIR is a checkout of MQSim, the simulator of an NVMe drive that papers compare with; it is built in
a folder of its own and nothing of it is kept here. Both drives are empty at first and then take the
same number of writes of one page each, to pages drawn uniformly: 2,048 blocks of 256 pages, 20 %
over-provisioned, greedy victims.

MQSim models time as well (channels, dies, queues), and the drive here does not: the ratio says what
that costs where only write amplification is asked for.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from trimtab._core import FlashDrive, FlashWorkload

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measured import measured_on  # noqa: E402 (the tree is on the path now)

RESULT = ROOT / "benchmarks" / "results" / "flash_against_mqsim.json"
BUILD = ROOT / "build" / "bench-mqsim"
PLANES, BLOCKS, PAGES, SPARE = 4, 512, 256, 0.20

DEVICE = {
    "Enabled_Preconditioning": "false",
    "Caching_Mechanism": "SIMPLE",
    "Ideal_Mapping_Table": "true",
    "Overprovisioning_Ratio": SPARE,
    "GC_Block_Selection_Policy": "GREEDY",
    "Static_Wearleveling_Enabled": "false",
    "Flash_Channel_Count": 1,
    "Chip_No_Per_Channel": 1,
    "Die_No_Per_Chip": 1,
    "Plane_No_Per_Die": PLANES,
    "Block_No_Per_Plane": BLOCKS,
    "Page_No_Per_Block": PAGES,
}
"""What differs from the settings that MQSim comes with: geometry, no cache, the map in memory."""
FLOW = {
    "Priority_Class": "HIGH",
    "Device_Level_Data_Caching_Mode": "TURNED_OFF",
    "Channel_IDs": 0,
    "Chip_IDs": 0,
    "Die_IDs": 0,
    "Plane_IDs": ",".join(map(str, range(PLANES))),
    "Initial_Occupancy_Percentage": 0,
    "Working_Set_Percentage": 100,
    "Synthetic_Generator_Type": "QUEUE_DEPTH",
    "Read_Percentage": 0,
    "Address_Distribution": "RANDOM_UNIFORM",
    "Percentage_of_Hot_Region": 0,
    "Generated_Aligned_Addresses": "true",
    "Address_Alignment_Unit": 16,
    "Request_Size_Distribution": "FIXED",
    "Average_Request_Size": 16,
    "Variance_Request_Size": 0,
    "Average_No_of_Reqs_in_Queue": 1,
    "Intensity": 32768,
    "Stop_Time": 0,
}


@dataclass(frozen=True)
class Turn:
    """One simulation: its processor time, on one core, and what the drive wrote."""

    busy_s: float
    host_writes: int
    flash_writes: int

    @property
    def rate(self) -> float:
        """Host writes a second of processor time."""
        return self.host_writes / self.busy_s


def built(source: Path) -> Path:
    """Return MQSim's program, compiled from a copy of its sources."""
    program = BUILD / "source" / "MQSim"
    if not program.exists():
        shutil.rmtree(BUILD, ignore_errors=True)
        shutil.copytree(source, BUILD / "source", ignore=shutil.ignore_patterns(".git"))
        subprocess.run(["make", "-j2"], cwd=BUILD / "source", check=True, capture_output=True)
    return program


def mqsim(program: Path, writes: int, seed: int) -> Turn | None:
    """Return one run of MQSim, ``None`` where it died or served fewer writes than asked."""
    device = (program.parent / "ssdconfig.xml").read_text()
    for name, value in DEVICE.items():
        device, found = re.subn(rf"<{name}>[^<]*</{name}>", f"<{name}>{value}</{name}>", device)
        if found != 1:
            raise SystemExit(f"MQSim's ssdconfig.xml has no {name}: is this another version?")
    flow = {**FLOW, "Seed": seed, "Total_Requests_To_Generate": writes}
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in flow.items())
    kind = "IO_Flow_Parameter_Set_Synthetic"
    (BUILD / "device.xml").write_text(device)
    (BUILD / "flow.xml").write_text(
        '<?xml version="1.0" encoding="us-ascii"?>\n<MQSim_IO_Scenarios><IO_Scenario>'
        f"<{kind}>{inner}</{kind}></IO_Scenario></MQSim_IO_Scenarios>\n"
    )
    output = BUILD / "flow_scenario_1.xml"
    output.unlink(missing_ok=True)
    argv = [str(program), "-i", "device.xml", "-w", "flow.xml"]
    before = _children_s()
    ended = subprocess.run(
        argv, check=False, cwd=BUILD, stdin=subprocess.DEVNULL, capture_output=True
    )
    busy_s = _children_s() - before
    if ended.returncode != 0 or not output.exists():
        return None
    text = output.read_text()
    served = re.search(r"<Request_Count>(\d+)", text)
    programs = re.search(r'Issued_Flash_Program_CMD="(\d+)"', text)
    if served is None or programs is None or int(served[1]) != writes:
        return None
    return Turn(busy_s, writes, int(programs[1]))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def trimtab(writes: int, seed: int) -> Turn:
    """Return the same writes to the drive of the twin."""
    began = time.process_time()
    drive = FlashDrive(PLANES * BLOCKS, PAGES, SPARE)
    FlashWorkload(drive.logical, seed=seed).run(drive, writes)
    busy_s = time.process_time() - began
    written, copied, _, _ = drive.counts
    return Turn(busy_s, written, written + copied)


def _figures(turns: list[Turn]) -> dict[str, float]:
    rates = sorted(one.rate for one in turns)
    return {
        "host_writes_per_s": median(rates),
        "lowest": rates[0],
        "highest": rates[-1],
        "flash_writes_per_s": median(one.flash_writes / one.busy_s for one in turns),
        "amplification": median(one.flash_writes / one.host_writes for one in turns),
    }


def main() -> None:
    """Measure in turns, print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mqsim", type=Path, required=True, help="A checkout of MQSim.")
    parser.add_argument("--writes", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-write", action="store_true", help="Leave the committed result.")
    asked = parser.parse_args()
    program = built(asked.mqsim.resolve())
    ours, theirs, died = [], [], 0
    for seed in range(asked.rounds):
        ours.append(trimtab(asked.writes, seed))
        turn = mqsim(program, asked.writes, seed + 1)
        died += turn is None
        theirs += [] if turn is None else [turn]
        print(f"round {seed + 1}: {ours[-1].rate:.3g} and {turn and f'{turn.rate:.3g}'} writes/s")
    if not theirs:
        raise SystemExit("MQSim served none of the rounds")
    result = {
        "what": "random one-page writes a second of one core to a drive that was empty, in turns",
        **measured_on(),
        "pages": PLANES * BLOCKS * PAGES,
        "pages_per_block": PAGES,
        "spare": SPARE,
        "writes": asked.writes,
        "rounds": asked.rounds,
        "trimtab": _figures(ours),
        "mqsim": {**_figures(theirs), "rounds_that_died": died},
        "ratio": median(one.rate for one in ours) / median(one.rate for one in theirs),
        "note": "MQSim models time too: channels, dies, queues. Here what is written is counted.",
    }
    print(json.dumps(result, indent=2))
    if not asked.no_write:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
